// SPDX-License-Identifier: Apache-2.0
//! What windows, sorts and choices are ordered by where DataFusion has no order of the values, or another one.
//!
//! | | by |
//! |---|---|
//! | an enum | the place of its label |
//! | an interval | its length, a month as 30 days |
//! | a `numeric` without digits | the number without zeros at its end |
//! | a float in a window that tells peers | the float, `0` if it is `-0`: rows with either are peers |
//! | a time, an uuid, bytes in a window whose frame is a range | a number, the text of all digits |

use super::any_numeric;
use super::exact_types::is_any_numeric;
use super::group_keys::key_of_any;
use super::intervals::length;
use crate::error::SqlError;
use crate::query::frame_exclusions::leaves_out_peers;
use crate::query::frame_offsets::keeps_offset;
use crate::scalar::cast_function::literal_as;
use crate::types::type_in_words;
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, EnumType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, WindowFrameBound, WindowFrameUnits, cast};
use std::sync::Arc;

/// A window that is ordered by what stands in the places of its keys; `None` if it is right as it is.
pub(super) fn by_keys(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    let (order, frame) = (&call.params.order_by, Frame::of(call));
    let mut keys = Vec::new();
    for (place, sort) in order.iter().enumerate() {
        let key = if sort.expr.get_type(schema)?.is_floating() {
            // A column needs no other order, and perhaps no other sort, where peers may come in any order and be told apart.
            let are_peers_told = place + 1 < order.len() || tells_peers(call);
            if are_peers_told { key_of_any(&sort.expr, schema)? } else { None }
        } else {
            key_of(sort, (place, frame), schema)?
        };
        if let Some(key) = key {
            keys.push((place, key));
        }
    }
    if keys.is_empty() {
        return Ok(None);
    }
    let mut call = call.clone();
    for (place, key) in keys {
        call.params.order_by[place].expr = key;
    }
    Ok(Some(call))
}

/// Whether a function gives something else if the ORDER BY tells rows apart that are peers.
fn tells_peers(call: &WindowFunction) -> bool {
    match call.fun.name() {
        "row_number" | "ntile" | "lag" | "lead" => false,
        "rank" | "dense_rank" | "percent_rank" | "cume_dist" => true,
        _ => call.params.window_frame.units != WindowFrameUnits::Rows || leaves_out_peers(call),
    }
}

/// What of a frame decides how its window is ordered.
#[derive(Clone, Copy)]
struct Frame {
    is_range: bool,
    has_offset: bool,
}

impl Frame {
    fn of(call: &WindowFunction) -> Self {
        let frame = &call.params.window_frame;
        let is_given = [&frame.start_bound, &frame.end_bound].into_iter().any(is_offset);
        let has_offset = is_given || call.params.partition_by.iter().any(keeps_offset);
        Self { is_range: frame.units == WindowFrameUnits::Range, has_offset }
    }
}

fn key_of(sort: &Sort, (place, frame): (usize, Frame), schema: &DFSchema) -> Result<Option<Expr>> {
    let ty = sort.expr.get_type(schema)?;
    if let Some(place) = place_of(sort, &ty) {
        return Ok(Some(place));
    }
    // By a range with an offset there is one key, to which the offset is added.
    let is_range = frame.is_range && place == 0;
    let has_offset = frame.has_offset;
    if is_range && has_offset && !(ty.is_numeric() || ty.is_temporal() || is_any_numeric(&ty)) {
        let what = "RANGE with offset PRECEDING/FOLLOWING";
        return Err(SqlError::unsupported(format!("{what} for column type {}", type_in_words(&ty))).into());
    }
    let key = || sort.expr.clone();
    Ok(match ty {
        DataType::Interval(_) => Some(length(key())),
        DataType::LargeBinary if is_range => Some(any_numeric::order_text(key())?),
        DataType::LargeBinary => any_numeric::key(key())?,
        DataType::Date32 if is_range && has_offset => Some(literal_as(key(), ColumnType::Timestamp)?),
        DataType::Time64(_) if is_range => Some(cast(key(), DataType::Int64)),
        DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) if is_range => {
            Some(literal_as(key(), ColumnType::Text)?)
        }
        _ => None,
    })
}

fn place_of(sort: &Sort, ty: &DataType) -> Option<Expr> {
    let ty = EnumType::of_arrow(ty)?.arrow();
    let DataType::Struct(fields) = ty else { return None };
    Some(get_field(sort.expr.clone(), fields.first()?.name().as_str()))
}

fn is_offset(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => false,
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => !offset.is_null(),
    }
}

/// Intervals among keys as their lengths, numbers of any number of digits without zeros at their ends; whether there are any.
pub(super) fn by_equals(keys: &mut [Sort], schema: &DFSchema) -> Result<bool> {
    let mut is_changed = false;
    for key in keys {
        let equal = match key.expr.get_type(schema) {
            Ok(DataType::Interval(_)) => Some(length(key.expr.clone())),
            Ok(ty) if is_any_numeric(&ty) => any_numeric::key(key.expr.clone())?,
            _ => None,
        };
        if let Some(equal) = equal {
            key.expr = equal;
            is_changed = true;
        }
    }
    Ok(is_changed)
}

/// The ORDER BY, intervals by their lengths.
pub(super) fn settle_sort(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(mut sort) = plan else { return Ok(Transformed::no(plan)) };
    let schema = Arc::clone(sort.input.schema());
    let is_changed = by_equals(&mut sort.expr, &schema)?;
    Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Schema};
    use datafusion::functions_window::rank::rank;
    use datafusion::functions_window::row_number::row_number;
    use datafusion::logical_expr::{ExprFunctionExt, col};

    #[test]
    fn floats_have_keys_where_peers_are_told() {
        let fields = vec![Field::new("d", DataType::Float64, true), Field::new("id", DataType::Int32, false)];
        let schema = DFSchema::try_from(Schema::new(fields)).expect("two names");
        let keyed = |function: Expr, names: &[&str]| {
            let order = names.iter().map(|name| col(*name).sort(true, false)).collect();
            let window = function.order_by(order).build().expect("a window");
            let Expr::WindowFunction(call) = &window else { panic!("{window} is no window") };
            by_keys(call, &schema).expect("all columns are there").is_some()
        };
        assert!(keyed(rank(), &["d"]));
        assert!(!keyed(row_number(), &["d"]), "rows are numbered in any order of peers");
        assert!(!keyed(row_number(), &["id", "d"]));
        assert!(keyed(row_number(), &["d", "id"]), "of peers the second column decides");
        assert!(!keyed(rank(), &["id"]));
    }
}
