// SPDX-License-Identifier: Apache-2.0
//! Offsets of window frames that are computed: `ROWS $1 PRECEDING`, `RANGE interval '7 days' PRECEDING`.
//!
//! In a plan of DataFusion an offset is a value. While there is none, the bound is that of the current row, and the offset stands in a
//! call of [`FRAME_OFFSET`] among what the window is divided by, where it changes nothing, since it is the same for all rows. Once the
//! parameters have their values, and before the plan is optimized, the rule here computes it and puts it into the frame.
//!
//! ```text
//! sum(b) OVER (PARTITION BY coeval_frame_offset('starting', 'preceding', 1 + 1) ORDER BY id ROWS CURRENT ROW)
//!   -> sum(b) OVER (ORDER BY id ROWS 2 PRECEDING)
//! ```
//! The rule does one thing more: a frame of rows that begins behind its end, `ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING`, has no rows.
//! DataFusion refuses it. One that lies far away has none either.

use super::frame_exclusions::ranging;
use super::number_ranges::{Edge, NumberRange, Side};
use super::rewriting::has_concern;
use super::typing::{is_length, ordered_number};
use crate::error::{SqlError, SqlState};
use crate::parse::FRAME_OFFSET;
use crate::scalar::cast_function::literal_as;
use crate::types::any_numeric::{AnyNumeric, number_of_decimal};
use crate::types::{column_type_of_arrow, type_in_words};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit, Schema};
use coeval_store::{AnyNumberRef, ColumnType, IntervalValue, NUMERIC_PRECISION_MAX};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, Window, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

/// The function that keeps an offset: which bound it is of, on which side of the row, and how far away.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(KeptOffset { signature: Signature::any(3, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct KeptOffset {
    signature: Signature,
}

impl ScalarUDFImpl for KeptOffset {
    fn name(&self) -> &str {
        FRAME_OFFSET
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(SqlError::internal("the offset of a frame is a part of it before a query runs").into())
    }
}

/// Whether a part of an expression keeps an offset.
pub(super) fn keeps_offset(part: &Expr) -> bool {
    matches!(part, Expr::ScalarFunction(call) if call.name() == FRAME_OFFSET)
}

/// Puts offsets into their frames.
#[derive(Debug)]
pub(crate) struct FrameOffsets;

impl AnalyzerRule for FrameOffsets {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_any = false;
        plan.apply_with_subqueries(|node| {
            has_any = matches!(node, LogicalPlan::Window(_)) && has_concern(node, is_concern)?;
            Ok(if has_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        // Most plans have none, and need not be taken apart.
        if !has_any {
            return Ok(plan);
        }
        let put = |node: LogicalPlan| match node {
            node @ LogicalPlan::Window(_) => with_offsets(node, options)?.transform_data(without_doubles),
            node => Ok(Transformed::no(node)),
        };
        plan.transform_up_with_subqueries(put).data()
    }

    fn name(&self) -> &'static str {
        "coeval_frame_offsets"
    }
}

/// Whether the rule changes a part of an expression.
fn is_concern(part: &Expr) -> bool {
    match part {
        Expr::WindowFunction(call) => is_empty(&call.params.window_frame),
        other => keeps_offset(other),
    }
}

/// Whether a frame of rows begins behind its end.
fn is_empty(frame: &WindowFrame) -> bool {
    let is_reversed = match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(start), WindowFrameBound::Preceding(end)) => {
            !start.is_null() && !end.is_null() && start < end
        }
        (WindowFrameBound::Following(start), WindowFrameBound::Following(end)) => {
            !start.is_null() && !end.is_null() && start > end
        }
        _ => false,
    };
    is_reversed && frame.units == WindowFrameUnits::Rows
}

/// A frame of rows in front of all that there are.
fn far_away() -> WindowFrame {
    let bound = || WindowFrameBound::Preceding(ScalarValue::UInt64(Some(FAR_AWAY)));
    WindowFrame::new_bounds(WindowFrameUnits::Rows, bound(), bound())
}

/// More rows than any window has.
const FAR_AWAY: u64 = 1 << 62;

fn with_offsets(window: LogicalPlan, options: &ConfigOptions) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&window.inputs());
    let names = NamePreserver::new(&window);
    window.map_expressions(|expression| {
        let name = names.save(&expression);
        let done = expression.transform_up(|part| match part {
            Expr::WindowFunction(call) => {
                let keeps_any = call.params.partition_by.iter().any(keeps_offset);
                let mut call = if keeps_any { with_offset(*call, &schema, options)? } else { *call };
                let is_empty = is_empty(&call.params.window_frame);
                if is_empty {
                    call.params.window_frame = far_away();
                }
                Ok(Transformed::new_transformed(Expr::from(call), keeps_any || is_empty))
            }
            part => Ok(Transformed::no(part)),
        })?;
        Ok(if done.transformed { done.update_data(|expression| name.restore(expression)) } else { done })
    })
}

/// The window without calls that are those of windows right below, now that their offsets are known: DataFusion would compute what two calls
/// have in common before, in a projection, which knows no windows. What they give has its name by a projection above.
fn without_doubles(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = &plan else { return Ok(Transformed::no(plan)) };
    let mut known: Vec<(Expr, Column)> = Vec::new();
    let mut below = window.input.as_ref();
    while let LogicalPlan::Window(other) = below {
        known.extend(calls_of(other));
        below = other.input.as_ref();
    }
    let (mut kept, mut outputs) = (Vec::new(), Vec::new());
    let inputs = window.input.schema().iter().map(|(qualifier, field)| Expr::from((qualifier, field)));
    outputs.extend(inputs);
    for (expression, (call, column)) in window.window_expr.iter().zip(calls_of(window)) {
        match known.iter().find(|(before, _)| *before == call) {
            Some((_, before)) => {
                let Column { relation, name, .. } = column;
                outputs.push(Expr::Column(before.clone()).alias_qualified(relation, name));
            }
            None => {
                outputs.push(Expr::Column(column.clone()));
                known.push((call, column));
                kept.push(expression.clone());
            }
        }
    }
    if kept.len() == window.window_expr.len() {
        return Ok(Transformed::no(plan));
    }
    let input = Arc::clone(&window.input);
    let rest = match kept.is_empty() {
        true => input,
        false => Arc::new(LogicalPlan::Window(Window::try_new(kept, input)?)),
    };
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(outputs, rest)?)))
}

/// The calls of a window, without their names, and the columns that they give.
fn calls_of(window: &Window) -> impl Iterator<Item = (Expr, Column)> {
    let columns = window.schema.columns().into_iter().skip(window.input.schema().fields().len());
    window.window_expr.iter().map(|expression| expression.clone().unalias()).zip(columns)
}

/// The call with the offsets in its frame that it keeps.
fn with_offset(
    mut call: WindowFunction,
    schema: &DFSchema,
    options: &ConfigOptions,
) -> Result<WindowFunction> {
    let (kept, divided): (Vec<Expr>, Vec<Expr>) =
        std::mem::take(&mut call.params.partition_by).into_iter().partition(keeps_offset);
    call.params.partition_by = divided;
    let frame = &call.params.window_frame;
    let units = frame.units;
    if units == WindowFrameUnits::Range
        && let [key] = call.params.order_by.as_slice()
        && let Some(number) = ordered_number(&key.expr)
    {
        let range = number_range(frame, &kept, key, options)?;
        let number = number.clone();
        return Ok(ranging(call, number, range));
    }
    let offsets = match units {
        WindowFrameUnits::Rows | WindowFrameUnits::Groups => {
            Offsets { ty: DataType::UInt64, added: Added::Values }
        }
        WindowFrameUnits::Range => Offsets::of(&call, schema)?,
    };
    let (mut start, mut end) = (frame.start_bound.clone(), frame.end_bound.clone());
    for (which, side, offset) in kept.iter().filter_map(parts_of) {
        let wanted = match (which, side) {
            ("starting", "following") | ("ending", "preceding") => Bound::AtLeast,
            _ => Bound::AtMost,
        };
        let value = checked(offsets.value(offset, options)?, &offsets, which, units)?;
        let value = match offsets.added {
            Added::Values => of_type(in_steps(value, &offsets.ty, wanted), &offsets.ty)?,
            Added::Lengths | Added::Times => offsets.number(&value)?,
        };
        let bound = match side {
            "preceding" => WindowFrameBound::Preceding(value),
            _ => WindowFrameBound::Following(value),
        };
        match which {
            "starting" => start = bound,
            _ => end = bound,
        }
    }
    call.params.window_frame = WindowFrame::new_bounds(units, start, end);
    Ok(call)
}

/// What a call says that keeps an offset: which bound it is of, on which side of the row, and how far away.
fn parts_of(kept: &Expr) -> Option<(&str, &str, &Expr)> {
    let Expr::ScalarFunction(kept) = kept else { return None };
    let [which, side, offset] = kept.args.as_slice() else { return None };
    Some((literal_text(which), literal_text(side), offset))
}

/// The frames of a window that is ordered by `numeric` without digits.
///
/// # Errors
/// As [`checked`].
fn number_range(
    frame: &WindowFrame,
    kept: &[Expr],
    key: &Sort,
    options: &ConfigOptions,
) -> Result<NumberRange> {
    let offsets = Offsets { ty: DataType::LargeBinary, added: Added::Values };
    let edge = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Edge::CurrentRow,
        WindowFrameBound::Preceding(_) | WindowFrameBound::Following(_) => Edge::Unbounded,
    };
    let mut range =
        NumberRange { start: edge(&frame.start_bound), end: edge(&frame.end_bound), is_descending: !key.asc };
    for (which, side, offset) in kept.iter().filter_map(parts_of) {
        let value = offsets.value(offset, options)?;
        if value.is_null() {
            return Err(null_offset(which).into());
        }
        let Some(number) = number_of(&value)? else {
            return Err(other_offset(&offsets.ty, &value.data_type()).into());
        };
        if number == AnyNumeric::NaN || number.is_negative() {
            return Err(invalid_size(which, WindowFrameUnits::Range).into());
        }
        let side = if side == "preceding" { Side::Preceding } else { Side::Following };
        let edge = Edge::Offset(side, number.number()?.borrow().as_bytes().to_vec());
        match which {
            "starting" => range.start = edge,
            _ => range.end = edge,
        }
    }
    Ok(range)
}

/// An exact number as one without digits; `None` if it is none.
fn number_of(value: &ScalarValue) -> Result<Option<AnyNumeric>> {
    Ok(match value {
        ScalarValue::LargeBinary(Some(bytes)) => Some(AnyNumeric::of(AnyNumberRef::new(bytes))),
        ScalarValue::Decimal128(Some(units), _, scale) => {
            Some(AnyNumeric::of(number_of_decimal(*units, *scale)?.borrow()))
        }
        other if other.data_type().is_integer() => match other.cast_to(&DataType::Int64)? {
            ScalarValue::Int64(Some(whole)) => Some(AnyNumeric::whole(whole)),
            _ => None,
        },
        _ => None,
    })
}

fn literal_text(expression: &Expr) -> &str {
    match expression {
        Expr::Literal(value, _) => value.try_as_str().flatten().unwrap_or_default(),
        Expr::Cast(cast) => literal_text(&cast.expr),
        _ => "",
    }
}

/// What the offsets of a range are added to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    /// Values of their own type, dates or timestamps.
    Values,
    /// The lengths of intervals.
    Lengths,
    /// Times of day, as numbers of microseconds.
    Times,
}

/// The offsets of a frame.
struct Offsets {
    /// The type that they are given in.
    ty: DataType,
    added: Added,
}

impl Offsets {
    /// Those of a range: of the type of what the window is ordered by, or intervals.
    ///
    /// # Errors
    /// `42P20` if it is ordered by anything but one thing.
    fn of(call: &WindowFunction, schema: &DFSchema) -> Result<Self> {
        let [key] = call.params.order_by.as_slice() else {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(SqlError::new(SqlState::WindowingError, message).into());
        };
        let ty = key.expr.get_type(schema)?;
        let added = match &key.expr {
            key if is_length(key) => Added::Lengths,
            Expr::Cast(cast) if matches!(cast.expr.get_type(schema)?, DataType::Time64(_)) => Added::Times,
            _ => Added::Values,
        };
        let are_intervals = added != Added::Values || ty.is_temporal();
        Ok(Self {
            ty: if are_intervals { DataType::Interval(IntervalUnit::MonthDayNano) } else { ty },
            added,
        })
    }

    /// The value of an offset. A text is read as one of their type.
    fn value(&self, offset: &Expr, options: &ConfigOptions) -> Result<ScalarValue> {
        let value = computed(offset, options)?;
        if value.try_as_str().flatten().is_none() {
            return Ok(value);
        }
        let ty = match &self.ty {
            // All of its digits count.
            DataType::Decimal128(..) => ColumnType::AnyNumeric,
            ty => column_type_of_arrow(ty).unwrap_or(ColumnType::Text),
        };
        computed(&literal_as(Expr::Literal(value, None), ty)?, options)
    }

    /// An interval as what is added to numbers that stand for intervals or times.
    fn number(&self, offset: &ScalarValue) -> Result<ScalarValue> {
        let ScalarValue::IntervalMonthDayNano(Some(interval)) = offset else {
            return Err(SqlError::internal("an offset beside intervals and times is an interval").into());
        };
        Ok(match self.added {
            Added::Times => ScalarValue::Int64(Some(interval.nanoseconds / NANOS_PER_MICRO)),
            Added::Lengths | Added::Values => {
                ScalarValue::Decimal128(Some(length(*interval)), NUMERIC_PRECISION_MAX, 0)
            }
        })
    }

    /// Whether an offset is below zero. Of one beside times of day, months and days do not count.
    fn is_below_zero(&self, offset: &ScalarValue) -> bool {
        match offset {
            ScalarValue::IntervalMonthDayNano(Some(interval)) if self.added == Added::Times => {
                interval.nanoseconds < 0
            }
            ScalarValue::IntervalMonthDayNano(Some(interval)) => length(*interval) < 0,
            other => ScalarValue::new_zero(&other.data_type()).is_ok_and(|zero| *other < zero),
        }
    }
}

const NANOS_PER_MICRO: i64 = 1_000;

/// The length of an interval, as intervals are compared by.
fn length(interval: IntervalMonthDayNano) -> i128 {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    IntervalValue { months, days, nanoseconds }.ordering()
}

/// The value of an offset.
fn computed(offset: &Expr, options: &ConfigOptions) -> Result<ScalarValue> {
    let properties =
        ExecutionProps { config_options: Some(Arc::new(options.clone())), ..ExecutionProps::new() };
    let context = PhysicalPlanningContext::default();
    let expression = create_physical_expr(offset, &DFSchema::empty(), &properties, &context)?;
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one_row)?;
    match expression.evaluate(&row)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0),
    }
}

/// A `numeric` without digits as one with digits, if it has no more than that.
fn with_digits(value: ScalarValue) -> ScalarValue {
    let ScalarValue::LargeBinary(Some(bytes)) = &value else { return value };
    let number = AnyNumeric::of(AnyNumberRef::new(bytes));
    let scale = number.scale().and_then(|scale| i8::try_from(scale).ok());
    let units = scale.and_then(|scale| Some((number.decimal(NUMERIC_PRECISION_MAX, scale).ok()?, scale)));
    match units {
        Some((units, scale)) if (0..=NUMERIC_PRECISION_MAX).contains(&scale.unsigned_abs()) => {
            ScalarValue::Decimal128(Some(units), NUMERIC_PRECISION_MAX, scale)
        }
        _ => value,
    }
}

/// The offset, if it can be one.
///
/// # Errors
/// `22004` for NULL, `22013` for NaN and one below zero, `0A000` for one that cannot be added to what the window is ordered by.
fn checked(
    value: ScalarValue,
    offsets: &Offsets,
    which: &str,
    units: WindowFrameUnits,
) -> Result<ScalarValue> {
    let value = with_digits(value);
    let ty = &offsets.ty;
    if value.is_null() {
        return Err(null_offset(which).into());
    }
    let (given, is_interval) = (value.data_type(), matches!(ty, DataType::Interval(_)));
    let fits = if is_interval {
        given == *ty
    } else {
        given.is_numeric() && ty.is_numeric() && (given.is_integer() || !ty.is_integer())
    };
    if !fits {
        return Err(other_offset(ty, &given).into());
    }
    if offsets.is_below_zero(&value) || is_nan(&value) {
        return Err(invalid_size(which, units).into());
    }
    Ok(value)
}

fn null_offset(which: &str) -> SqlError {
    SqlError::new(SqlState::NullValueNotAllowed, format!("frame {which} offset must not be null"))
}

/// What is said of an offset of another type than is wanted.
fn other_offset(wanted: &DataType, given: &DataType) -> SqlError {
    let (wanted, given) = (type_in_words(wanted), type_in_words(given));
    SqlError::unsupported(format!("RANGE with an offset of type {given} instead of {wanted}"))
        .with_hint("Cast the offset value to an appropriate type.")
}

fn invalid_size(which: &str, units: WindowFrameUnits) -> SqlError {
    let message = match units {
        WindowFrameUnits::Range => "invalid preceding or following size in window function".to_owned(),
        WindowFrameUnits::Rows | WindowFrameUnits::Groups => {
            format!("frame {which} offset must not be negative")
        }
    };
    SqlError::new(SqlState::InvalidPrecedingOrFollowingSize, message)
}

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(value)) => value.is_nan(),
        ScalarValue::Float32(Some(value)) => value.is_nan(),
        _ => false,
    }
}

/// How far away the rows of a frame are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    AtMost,
    AtLeast,
}

/// The offset without the decimal places that the window's values do not have, so that the frame has the same ones: what is at most 1.5
/// above a whole number is at most 1 above it, and what is at least 1.5 above it is at least 2 above it.
fn in_steps(offset: ScalarValue, ty: &DataType, wanted: Bound) -> ScalarValue {
    let (&ScalarValue::Decimal128(Some(number), precision, scale), &DataType::Decimal128(_, of_values)) =
        (&offset, ty)
    else {
        return offset;
    };
    let places = u32::try_from(scale.saturating_sub(of_values)).unwrap_or(0);
    let Some(step) = 10_i128.checked_pow(places) else { return offset };
    let at_most = number - number.rem_euclid(step);
    let whole =
        if wanted == Bound::AtLeast && at_most < number { at_most.saturating_add(step) } else { at_most };
    ScalarValue::Decimal128(Some(whole), precision, scale)
}

/// The offset as a value of this type. One that is beyond the type is beyond all rows.
fn of_type(offset: ScalarValue, ty: &DataType) -> Result<ScalarValue> {
    if offset.data_type() == *ty {
        return Ok(offset);
    }
    // A bound without a value is that of all rows.
    offset.cast_to(ty).or_else(|_| ScalarValue::try_new_null(ty))
}
