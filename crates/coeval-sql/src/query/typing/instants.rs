// SPDX-License-Identifier: Apache-2.0
//! The one type of dates and times that stand side by side, and casts to it.
//!
//! A date or a local time beside an instant becomes one in the session's zone, as a text that has no type does. DataFusion
//! takes it for a time of Greenwich, and has a local time for the type of a date beside an instant. So the type is
//! settled here, for all that gives one of several values (CASE, `coalesce`, UNION, arrays), and [`cast_by_zone`] is
//! put in the place of each cast that a plan makes by itself.

use super::comparable::comparable_pair;
use super::zoned_times::is_zoned_time;
use crate::query::rewriting::Rewrite;
use crate::scalar::cast_function::literal_as;
use crate::types::{column_type_of_arrow, common_arrow_type, parse_value};
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use chrono_tz::Tz;
use coeval_store::{ColumnType, Value};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, WindowFunctionDefinition, when,
};
use std::sync::Arc;

fn is_local(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(_, None) | DataType::Date32)
}

fn is_instant(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(_, Some(_)))
}

/// The type of values of these types, if there are dates or times with a date among them, and else only texts and
/// NULLs. `None` if DataFusion is to find it, or to refuse them.
pub(super) fn common_type<'t>(types: impl IntoIterator<Item = &'t DataType>) -> Option<DataType> {
    let known = types.into_iter().filter(|ty| !ty.is_string());
    let common = column_type_of_arrow(&common_arrow_type(known)?)?;
    matches!(common, ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz)
        .then(|| common.arrow())
}

/// Makes all choices one of their [`common_type`]; whether one had another.
pub(super) fn settle_choices(choices: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let types = choices.iter().map(|choice| choice.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(false) };
    let Some(common) = common_type(&types) else { return Ok(false) };
    let mut has_others = false;
    for (choice, ty) in choices.into_iter().zip(&types) {
        if *ty != common && !ty.is_null() {
            *choice = as_type(choice.clone(), &common)?;
            has_others = true;
        }
    }
    Ok(has_others)
}

/// The expression as a date or time of this type.
pub(super) fn as_type(expression: Expr, ty: &DataType) -> Result<Expr> {
    match column_type_of_arrow(ty) {
        Some(ty) => Ok(literal_as(expression, ty)?),
        None => Ok(Expr::Cast(Cast::new(Box::new(expression), ty.clone()))),
    }
}

/// `nullif` of two types has the first one's; `None` if both are of one type, or no times.
pub(super) fn settle_nullif(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let [left, right] = &function.args[..] else { return Ok(None) };
    let (ty, other) = (left.get_type(schema)?, right.get_type(schema)?);
    if ty == other || !(is_local(&ty) || is_instant(&ty)) {
        return Ok(None);
    }
    if other.is_string() {
        let arguments = vec![left.clone(), as_type(right.clone(), &ty)?];
        return Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(
            Arc::clone(&function.func),
            arguments,
        ))));
    }
    let Some((compared, with)) = comparable_pair(left, right, schema)? else { return Ok(None) };
    let null = Expr::Literal(ScalarValue::try_from(&ty)?, None);
    Ok(Some(when(compared.eq(with), null).otherwise(left.clone())?))
}

/// A default of `lag` or `lead` of the type of what is looked at; `None` if it is right as it is.
pub(super) fn settle_default(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    let is_shift = matches!(&call.fun, WindowFunctionDefinition::WindowUDF(function)
        if matches!(function.name(), "lag" | "lead"));
    let ([value, _, default], true) = (&call.params.args[..], is_shift) else { return Ok(None) };
    let (ty, own) = (value.get_type(schema)?, default.get_type(schema)?);
    let is_read = is_local(&ty) || is_instant(&ty) || matches!(ty, DataType::FixedSizeBinary(_));
    if ty == own || !is_read || !(own.is_string() || is_local(&own)) {
        return Ok(None);
    }
    let mut call = call.clone();
    call.params.args[2] = as_type(call.params.args[2].clone(), &ty)?;
    Ok(Some(call))
}

/// What stands in the place of a cast that depends on the session's zone, or reads a time or a float: the function that casts
/// as an explicit cast does. `None` if the cast is right as it is.
pub(in crate::query) fn cast_by_zone(cast: &Cast, from: &DataType) -> Result<Option<Expr>> {
    let to = cast.field.data_type();
    let Some(ty) = column_type_of_arrow(to).filter(|ty| ty.arrow() == *to && needs_zone(from, to)) else {
        return Ok(None);
    };
    Ok(Some(crate::scalar::cast_function::called(cast.expr.as_ref().clone(), ty)?))
}

fn needs_zone(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => needs_zone(from.data_type(), to.data_type()),
        (from, to)
            if from.is_string()
                && matches!(
                    to,
                    DataType::Date32
                        | DataType::Timestamp(..)
                        | DataType::Time64(_)
                        | DataType::Interval(_)
                        | DataType::Float32
                        | DataType::Float64
                ) =>
        {
            true
        }
        (from, to) => {
            let is_time = |ty: &DataType| matches!(ty, DataType::Time64(_));
            (is_local(from) && is_instant(to))
                || (is_zoned_time(to) && (is_time(from) || is_instant(from)))
                || (is_zoned_time(from) && is_time(to))
                || (is_instant(from) && (is_local(to) || to.is_string() || matches!(to, DataType::Time64(_))))
        }
    }
}

/// The rows of VALUES with their casts rewritten: they have no schema to be rewritten with.
pub(in crate::query) fn rewritten_values(
    plan: LogicalPlan,
    rewrite: &Rewrite<'_>,
) -> Result<Transformed<LogicalPlan>> {
    let has_casts = match &plan {
        LogicalPlan::Values(values) => {
            values.values.iter().flatten().any(|value| matches!(value, Expr::Cast(_)))
        }
        _ => false,
    };
    if !has_casts {
        return Ok(Transformed::no(plan));
    }
    let schema = DFSchema::empty();
    plan.map_expressions(|value| match value {
        Expr::Cast(_) => rewrite(value, &schema),
        value => Ok(Transformed::no(value)),
    })
}

/// A date beside an interval or a time as a timestamp, and the time as an interval; `None` of anything else.
pub(super) fn dated(
    operator: Operator,
    left: (&Expr, &DataType),
    right: (&Expr, &DataType),
) -> Result<Option<Expr>> {
    let is_span = |ty: &DataType| {
        matches!(ty, DataType::Interval(_))
            || (operator == Operator::Plus && matches!(ty, DataType::Time64(_)))
    };
    let is_one = match operator {
        Operator::Plus => {
            (*left.1 == DataType::Date32 && is_span(right.1))
                || (is_span(left.1) && *right.1 == DataType::Date32)
        }
        Operator::Minus => *left.1 == DataType::Date32 && is_span(right.1),
        _ => false,
    };
    if !is_one {
        return Ok(None);
    }
    let settled = |(side, ty): (&Expr, &DataType)| match ty {
        DataType::Date32 => literal_as(side.clone(), ColumnType::Timestamp),
        DataType::Time64(_) => literal_as(side.clone(), ColumnType::Interval),
        _ => Ok(side.clone()),
    };
    let (left, right) = (Box::new(settled(left)?), Box::new(settled(right)?));
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(left, operator, right))))
}

/// The date of a date as a timestamp plus or minus whole days and months, which is a midnight; `None` of anything else.
pub(super) fn midnight_of(moment: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) = moment
    else {
        return None;
    };
    let (date, days) = match (date_below(left, schema), date_below(right, schema)) {
        (Some(date), None) => (date, right.as_ref()),
        (None, Some(date)) if *op == Operator::Plus => (date, left.as_ref()),
        _ => return None,
    };
    let span = days_of(days)?;
    let span = Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(span)), None);
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(date.clone()), *op, Box::new(span))))
}

/// The date that names no column and was made a timestamp.
fn date_below<'e>(moment: &'e Expr, schema: &DFSchema) -> Option<&'e Expr> {
    let (date, ty) = crate::scalar::cast_function::call_parts(moment)?;
    let is_date = ty == ColumnType::Timestamp && !date.any_column_refs();
    (is_date && date.get_type(schema).ok()? == DataType::Date32).then_some(date)
}

/// An interval that is a constant, if it has no hours.
fn days_of(interval: &Expr) -> Option<IntervalMonthDayNano> {
    let days = match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(days), _) => (*days)?,
        call => {
            let (text, ty) = crate::scalar::cast_function::call_parts(call)?;
            let Expr::Literal(text, _) = text else { return None };
            let Ok(Value::Interval(days)) = parse_value(text.try_as_str().flatten()?, ty, Tz::UTC) else {
                return None;
            };
            IntervalMonthDayNano::new(days.months, days.days, days.nanoseconds)
        }
    };
    (days.nanoseconds == 0).then_some(days)
}

/// An instant and an interval that is added or taken away, in either order.
pub(super) fn moved(
    operator: Operator,
    left: (&Expr, &DataType),
    right: (&Expr, &DataType),
) -> Result<Option<Expr>> {
    let is_interval = |ty: &DataType| matches!(ty, DataType::Interval(_));
    let (name, instant, interval) = match operator {
        Operator::Plus if is_instant(left.1) && is_interval(right.1) => {
            (crate::types::INSTANT_AFTER, left.0, right.0)
        }
        Operator::Plus if is_interval(left.1) && is_instant(right.1) => {
            (crate::types::INSTANT_AFTER, right.0, left.0)
        }
        Operator::Minus if is_instant(left.1) && is_interval(right.1) => {
            (crate::types::INSTANT_BEFORE, left.0, right.0)
        }
        _ => return Ok(None),
    };
    Ok(Some(crate::functions::function(name)?.call(vec![instant.clone(), interval.clone()])))
}
