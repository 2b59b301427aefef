// SPDX-License-Identifier: Apache-2.0
//! What may be computed of rows that a join would have left out: columns, comparisons, conditions, what decimals have enough digits for
//! ([`digits`](super::digits)), and quotients whose divisor cannot be zero ([`nonzero`](super::nonzero)) and which are within their type.
//! Whatever else is said of a row might fail: other divisions, casts of texts, sums of integers.

use super::digits::{
    DIGITS_MAX, digits, digits_of_number, digits_of_source, has_room_for_mean, has_room_for_quotient,
    has_room_for_remainder,
};
use super::nonzero::{Branch, Divisors, bare, division_of, is_remainder};
use super::reach::{ROW_DIGITS, called, is_moderate_float, room_of_quotient, times_one};
use crate::guarded::is_condition;
use crate::query::typing::is_mean;
use crate::stack::with_room;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, BinaryExpr, Cast, Expr, ExprSchemable};

/// Aggregates that depend on the values of a group alone, not on their order.
const FUNCTIONS: [&str; 11] =
    ["avg", "bool_and", "bool_or", "count", "max", "min", "stddev", "stddev_pop", "sum", "var", "var_pop"];

/// Those of them that add nothing up.
const WITHOUT_SUMS: [&str; 5] = ["bool_and", "bool_or", "count", "max", "min"];

/// Digits of decimals of which sums are taken to be within their type.
const SUMMED_DIGITS_MAX: u32 = DIGITS_MAX - ROW_DIGITS.cast_unsigned();

/// Digits in front of the point of numbers whose squares have room in a variance, which has 16 behind it.
const SQUARED_DIGITS_MAX: u32 = 11;

/// What may go wrong where an expression is computed, the worst last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// Nothing.
    #[default]
    Nothing,
    /// A mean may have more digits than its type has room for.
    Means,
    /// A quotient may have, or be beyond all floats.
    Quotients,
    /// Anything else.
    Values,
}

/// A quotient of which it is in doubt whether it is within its type.
pub(super) struct DoubtfulQuotient<'e> {
    pub(super) dividend: &'e Expr,
    pub(super) divisor: &'e Expr,
    /// How far the columns of the one may reach before the point and those of the other behind it, both together.
    pub(super) digits: i32,
}

/// Whether all that is aggregated may be computed of more rows than it is asked for, whose groups are left out behind.
pub(super) fn may_come_first(aggregate: &Aggregate) -> bool {
    aggregate.aggr_expr.iter().all(|whole| is_plain(whole, aggregate.input.schema()))
}

/// Whether an aggregate is one of a known function, without an order, and of what cannot fail.
fn is_plain(whole: &Expr, schema: &DFSchema) -> bool {
    let Some(AggregateFunction { func, params }) = called(whole) else { return false };
    let AggregateFunctionParams { args, distinct: _, filter, order_by, null_treatment: None } = params else {
        return false;
    };
    FUNCTIONS.contains(&func.name())
        && order_by.is_empty()
        && args.iter().chain(filter.as_deref()).all(|argument| cannot_fail(argument, schema))
        && args.iter().all(|argument| has_results(func.name(), argument, schema))
}

/// Whether the results of an aggregate are within their type, whatever values there are. Sums of floats may be beyond all floats, unless
/// these were other numbers before, and sums of lengths of time beyond all of these.
fn has_results(function: &str, argument: &Expr, schema: &DFSchema) -> bool {
    if WITHOUT_SUMS.contains(&function) {
        return true;
    }
    let Some(digits) = digits_of_source(argument, schema) else { return false };
    let is_float = argument.get_type(schema).is_ok_and(|ty| ty.is_floating());
    is_float
        || match function {
            "avg" | "sum" => digits.count() <= SUMMED_DIGITS_MAX,
            _ => digits.before <= SQUARED_DIGITS_MAX,
        }
}

/// Functions that choose among their arguments.
const CHOICES: [&str; 2] = ["coalesce", "nullif"];

/// Whether an expression has a value for any row. One that is volatile, or a subquery that names columns of the row, is not among them; any
/// other subquery is computed before, whatever rows there are.
pub(in crate::query) fn cannot_fail(expression: &Expr, schema: &DFSchema) -> bool {
    doubt_of(expression, schema) == Doubt::Nothing
}

/// What may go wrong where an expression is computed of any row.
pub(super) fn doubt_of(expression: &Expr, schema: &DFSchema) -> Doubt {
    doubt_with(expression, schema, &Divisors::default())
}

/// The same where it is known of some divisors that they are not zero.
fn doubt_with(expression: &Expr, schema: &DFSchema, known: &Divisors<'_>) -> Doubt {
    let doubt = |part: &Expr| with_room(|| doubt_with(part, schema, known));
    if let Some((dividend, divisor)) = division_of(expression) {
        let of_quotient = match known.has(divisor) {
            true => doubt_of_quotient(expression, (dividend, divisor), schema),
            false => Doubt::Values,
        };
        return of_quotient.max(doubt(dividend)).max(doubt(divisor));
    }
    if let Some(kept) = times_one(expression, schema) {
        return doubt(kept);
    }
    match expression {
        Expr::Column(_) | Expr::Literal(..) | Expr::Placeholder(_) => Doubt::Nothing,
        Expr::ScalarSubquery(query) if query.outer_ref_columns.is_empty() => Doubt::Nothing,
        Expr::Alias(alias) => doubt(&alias.expr),
        Expr::Not(part) | Expr::IsNull(part) | Expr::IsNotNull(part) => doubt(part),
        Expr::IsTrue(part) | Expr::IsNotTrue(part) => doubt(part),
        Expr::IsFalse(part) | Expr::IsNotFalse(part) => doubt(part),
        Expr::Between(between) => doubt(&between.expr).max(doubt(&between.low)).max(doubt(&between.high)),
        Expr::InList(list) => worst(list.list.iter().map(doubt)).max(doubt(&list.expr)),
        Expr::Case(case) => {
            let branches = known.branches(case);
            let of_branches = branches.iter().map(|Branch { when, before, then, within }| {
                let of_when = when.map(|when| with_room(|| doubt_with(when, schema, before)));
                of_when.unwrap_or_default().max(with_room(|| doubt_with(then, schema, within)))
            });
            worst(of_branches).max(worst(case.expr.iter().map(|part| doubt(part))))
        }
        Expr::ScalarFunction(call) if is_mean(&call.func) => {
            let has_room = |sum: &Expr| has_room_for_mean(expression, sum, schema);
            let of_mean = if call.args.first().is_some_and(has_room) { Doubt::Nothing } else { Doubt::Means };
            worst(call.args.iter().map(doubt)).max(of_mean)
        }
        Expr::ScalarFunction(call) if CHOICES.contains(&call.name()) => worst(call.args.iter().map(doubt)),
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_condition(*op) || digits(expression, schema).is_some() =>
        {
            doubt(left).max(doubt(right))
        }
        Expr::Cast(cast) if is_widening(expression, cast, schema) => doubt(&cast.expr),
        _ => Doubt::Values,
    }
}

fn worst(doubts: impl IntoIterator<Item = Doubt>) -> Doubt {
    doubts.into_iter().max().unwrap_or_default()
}

/// What may go wrong with a quotient, or what is left over, whose divisor is not zero.
fn doubt_of_quotient(quotient: &Expr, (dividend, divisor): (&Expr, &Expr), schema: &DFSchema) -> Doubt {
    let fits = match quotient.get_type(schema) {
        // The negative of the least number of a type is beyond the greatest one.
        Ok(ty) if ty.is_signed_integer() => {
            is_remainder(quotient) || !may_be_minus_one(divisor) || !may_be_least(dividend, schema)
        }
        Ok(DataType::Decimal128(..)) if is_remainder(quotient) => has_room_for_remainder(quotient, schema),
        Ok(DataType::Decimal128(..)) => has_room_for_quotient(quotient, schema),
        Ok(DataType::Float64) => is_moderate(dividend, schema) && is_moderate(divisor, schema),
        _ => false,
    };
    match room_of_quotient(quotient, (dividend, divisor), schema) {
        _ if fits => Doubt::Nothing,
        Some(_) if !is_remainder(quotient) => Doubt::Quotients,
        _ => Doubt::Values,
    }
}

/// The quotients of an expression that are in doubt, whatever it is that they are divided by.
///
/// # Errors
/// None: nothing in the visit fails.
pub(super) fn doubtful_quotients<'e>(
    expression: &'e Expr,
    schema: &DFSchema,
) -> Result<Vec<DoubtfulQuotient<'e>>> {
    let mut found = Vec::new();
    expression.apply(|part| {
        if let Some((dividend, divisor)) = division_of(part)
            && doubt_of_quotient(part, (dividend, divisor), schema) == Doubt::Quotients
            && let Some(digits) = room_of_quotient(part, (dividend, divisor), schema)
        {
            found.push(DoubtfulQuotient { dividend, divisor, digits });
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn may_be_minus_one(divisor: &Expr) -> bool {
    match bare(divisor) {
        Expr::Literal(value, _) => matches!(
            value,
            ScalarValue::Int16(Some(-1)) | ScalarValue::Int32(Some(-1)) | ScalarValue::Int64(Some(-1))
        ),
        _ => true,
    }
}

/// Whether a whole number may be the least one of its type.
fn may_be_least(number: &Expr, schema: &DFSchema) -> bool {
    match number {
        Expr::Alias(alias) => may_be_least(&alias.expr, schema),
        Expr::Literal(value, _) => matches!(
            value,
            ScalarValue::Int16(Some(i16::MIN))
                | ScalarValue::Int32(Some(i32::MIN))
                | ScalarValue::Int64(Some(i64::MIN))
        ),
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(schema).ok().and_then(|ty| ty.primitive_width());
            let is_wider = from.is_some_and(|from| Some(from) < cast.field.data_type().primitive_width());
            !is_wider && may_be_least(&cast.expr, schema)
        }
        _ => true,
    }
}

/// Whether a float was a whole number or a decimal before, or is a constant that is neither near zero nor far from it.
fn is_moderate(number: &Expr, schema: &DFSchema) -> bool {
    match number {
        Expr::Alias(alias) => is_moderate(&alias.expr, schema),
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => is_moderate_float(*value),
        Expr::Cast(cast) => digits_of_number(&cast.expr, schema).is_some(),
        _ => false,
    }
}

/// Whether the type that something is cast to has room for all its values.
fn is_widening(whole: &Expr, cast: &Cast, schema: &DFSchema) -> bool {
    let Ok(from) = cast.expr.get_type(schema) else { return false };
    let to = cast.field.data_type();
    let is_number = from.is_signed_integer() || matches!(from, DataType::Decimal128(..));
    match to {
        // Beside a `numeric`, a float is cast to what it is already.
        to if *to == from => true,
        DataType::Decimal128(..) => digits(whole, schema).is_some(),
        DataType::Float64 => is_number || from == DataType::Float32,
        to if to.is_string() => from.is_string(),
        to => {
            from.is_signed_integer()
                && to.is_signed_integer()
                && from.primitive_width() <= to.primitive_width()
        }
    }
}
