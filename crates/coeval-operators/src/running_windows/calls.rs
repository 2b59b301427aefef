// SPDX-License-Identifier: Apache-2.0
//! Which aggregates over windows are computed here, and which rows share a value.

use super::IsUnfiltered;
use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::windows::{PlainAggregateWindowExpr, WindowExpr};
use std::sync::Arc;

/// The functions of one operator, all of the same partitions and order.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) partition_by: Vec<Arc<dyn PhysicalExpr>>,
    /// What peers are told by; nothing if no call asks for them.
    pub(super) order_by: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) calls: Vec<Call>,
    /// The rows that are kept until the last one of them has come.
    pub(super) kept: Group,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: Arc<AggregateFunctionExpr>,
    pub(super) argument: Arc<dyn PhysicalExpr>,
    pub(super) kind: Kind,
    /// Of its values.
    pub(super) ty: DataType,
    /// The rows that share a value.
    pub(super) group: Group,
}

/// Rows in a row that have one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Each has its own.
    Row,
    /// Those with the same ORDER BY.
    Peers,
    /// All of a partition.
    Partition,
}

/// What becomes of the values of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    Sum,
    Least,
    Most,
}

impl Calls {
    /// The functions as they are computed here; `None` if one of them is not, or the ends of their frames wait for different rows.
    pub(super) fn of(
        functions: &[Arc<dyn WindowExpr>],
        schema: &Schema,
        is_unfiltered: IsUnfiltered,
    ) -> Result<Option<Self>> {
        let Some(first) = functions.first() else { return Ok(None) };
        let (partition_by, order_by) = (first.partition_by(), first.order_by());
        let (mut calls, mut kept) = (Vec::new(), Group::Row);
        for function in functions {
            let is_alike = function.partition_by() == partition_by && function.order_by() == order_by;
            let Some(call) = Call::of(function, schema, is_unfiltered)?.filter(|_| is_alike) else {
                return Ok(None);
            };
            if call.group != Group::Row {
                if kept != Group::Row && kept != call.group {
                    return Ok(None);
                }
                kept = call.group;
            }
            calls.push(call);
        }
        let order_by = match kept {
            Group::Peers => order_by.iter().map(|by| Arc::clone(&by.expr)).collect(),
            Group::Row | Group::Partition => Vec::new(),
        };
        Ok(Some(Self { partition_by: partition_by.to_vec(), order_by, calls, kept }))
    }

    /// As plans show them.
    pub(super) fn names(&self) -> Vec<&str> {
        self.calls.iter().map(|call| call.function.name()).collect()
    }
}

impl Call {
    fn of(
        window: &Arc<dyn WindowExpr>,
        schema: &Schema,
        is_unfiltered: IsUnfiltered,
    ) -> Result<Option<Self>> {
        let Some(plain) = window.as_any().downcast_ref::<PlainAggregateWindowExpr>() else { return Ok(None) };
        let function = plain.get_aggregate_expr();
        let is_plain = !function.is_distinct()
            && !function.ignore_nulls()
            && !function.is_reversed()
            && function.order_bys().is_empty()
            && is_unfiltered(function.fun());
        let group = Group::of(window.get_window_frame(), window.order_by());
        let arguments = function.expressions();
        let ([argument], Some(group), true) = (arguments.as_slice(), group, is_plain) else {
            return Ok(None);
        };
        let ty = function.field().data_type().clone();
        let Some(kind) = Kind::of(function.fun().name(), argument, schema, (&ty, group))? else {
            return Ok(None);
        };
        if kind == Kind::Sum {
            // Totals are handed to the aggregate as states of it.
            let states = function.state_fields()?;
            if !matches!(states.as_slice(), [state] if state.data_type() == &ty) {
                return Ok(None);
            }
        }
        Ok(Some(Self {
            function: Arc::new(function.clone()),
            argument: Arc::clone(argument),
            kind,
            ty,
            group,
        }))
    }
}

impl Group {
    /// The rows that share a value by a frame; `None` if it does not begin with the partition, or ends elsewhere.
    fn of(frame: &WindowFrame, order: &[PhysicalSortExpr]) -> Option<Self> {
        if !frame.start_bound.is_unbounded() {
            return None;
        }
        match (&frame.end_bound, frame.units) {
            (WindowFrameBound::Following(offset), _) => offset.is_null().then_some(Self::Partition),
            (WindowFrameBound::CurrentRow, WindowFrameUnits::Rows) => Some(Self::Row),
            (WindowFrameBound::CurrentRow, WindowFrameUnits::Range) => {
                Some(if order.is_empty() { Self::Partition } else { Self::Peers })
            }
            _ => None,
        }
    }
}

impl Kind {
    /// What a function of this name is of this argument; `None` if it is not computed here.
    fn of(
        name: &str,
        argument: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
        (ty, group): (&DataType, Group),
    ) -> Result<Option<Self>> {
        let of = argument.data_type(schema)?;
        Ok(match name {
            "count" => {
                let is_row = argument.downcast_ref::<Literal>().is_some_and(|row| !row.value().is_null());
                let is_of_words = matches!(of, DataType::Boolean | DataType::Utf8 | DataType::Utf8View);
                let is_done = ty == &DataType::Int64 && (is_row || is_of_words || of.is_primitive());
                is_done.then_some(Self::Count)
            }
            "sum" => can_add(&of, (ty, group)).then_some(Self::Sum),
            "min" => (can_compare(&of) && &of == ty).then_some(Self::Least),
            "max" => (can_compare(&of) && &of == ty).then_some(Self::Most),
            _ => None,
        })
    }
}

/// Whether values of a type are added here, to sums of that type.
fn can_add(of: &DataType, (ty, group): (&DataType, Group)) -> bool {
    match (of, ty) {
        (DataType::Int64, DataType::Int64 | DataType::Decimal128(_, 0)) => true,
        (DataType::Decimal128(_, scale), DataType::Decimal128(_, of_sum)) => scale == of_sum,
        // Where several rows are added at once, Arrow adds several sums side by side, which gives other last digits.
        (DataType::Float64, DataType::Float64) => group == Group::Row,
        _ => false,
    }
}

/// Whether the least and the greatest of values of a type are found here.
fn can_compare(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond, _)
            | DataType::Decimal128(..)
    )
}
