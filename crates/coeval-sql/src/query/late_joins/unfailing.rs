// SPDX-License-Identifier: Apache-2.0
//! What may be computed of rows that a join would have left out: columns, comparisons, conditions, what decimals have enough digits for
//! ([`digits`](super::digits)), and quotients whose divisor cannot be zero ([`nonzero`](super::nonzero)). Whatever else is said of a row
//! might fail: other divisions, casts of texts, sums of integers. Means, and quotients of which nothing more is computed, are taken to be
//! within their type where they are compared.

use super::digits::{self, CHOICES};
use super::nonzero::{Branch, Divisors, division_of};
use crate::guarded::is_condition;
use crate::query::arithmetic::checked_operators;
use crate::query::typing::is_mean;
use crate::stack::with_room;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, BinaryExpr, Cast, Expr, ExprSchemable, Operator};

/// Aggregates that depend on the values of a group alone, not on their order.
const FUNCTIONS: [&str; 11] =
    ["avg", "bool_and", "bool_or", "count", "max", "min", "stddev", "stddev_pop", "sum", "var", "var_pop"];

/// Those of them that add nothing up.
const WITHOUT_SUMS: [&str; 5] = ["bool_and", "bool_or", "count", "max", "min"];

/// Whether all that is aggregated may be computed of more rows than it is asked for, whose groups are left out behind.
pub(super) fn may_come_first(aggregate: &Aggregate) -> bool {
    aggregate.aggr_expr.iter().all(|whole| is_plain(whole, aggregate.input.schema()))
}

/// Whether an aggregate is one of a known function, without an order, and of what cannot fail.
fn is_plain(whole: &Expr, schema: &DFSchema) -> bool {
    let AggregateFunction { func, params } = match whole {
        Expr::AggregateFunction(call) => call,
        Expr::Alias(alias) => return is_plain(&alias.expr, schema),
        _ => return false,
    };
    let AggregateFunctionParams { args, distinct: _, filter, order_by, null_treatment: None } = params else {
        return false;
    };
    let has_room = |argument: &Expr| {
        let is_added = !WITHOUT_SUMS.contains(&func.name());
        (!is_added || has_sums(argument, schema)) && digits::has_room(func.name(), argument, schema)
    };
    FUNCTIONS.contains(&func.name())
        && order_by.is_empty()
        && args.iter().chain(filter.as_deref()).all(|argument| cannot_fail(argument, schema))
        && args.iter().all(has_room)
}

/// Whether the values of an expression, and their squares, have sums, as far as floats go: these may be beyond all floats, unless they were
/// other numbers before.
fn has_sums(expression: &Expr, schema: &DFSchema) -> bool {
    match expression {
        Expr::Alias(alias) => has_sums(&alias.expr, schema),
        Expr::Cast(cast) => has_sums(&cast.expr, schema),
        other => other.get_type(schema).is_ok_and(|ty| !ty.is_floating()),
    }
}

/// Whether an expression has a value for any row. One that is volatile, or a subquery that names columns of the row, is not among them; any
/// other subquery is computed before, whatever rows there are.
pub(in crate::query) fn cannot_fail(expression: &Expr, schema: &DFSchema) -> bool {
    cannot_fail_with(expression, schema, &Divisors::default())
}

/// The same where it is known of some divisors that they are not zero.
fn cannot_fail_with(expression: &Expr, schema: &DFSchema, known: &Divisors<'_>) -> bool {
    let cannot_fail = |part: &Expr| with_room(|| cannot_fail_with(part, schema, known));
    if let Some((dividend, divisor)) = division_of(expression) {
        return known.has(divisor) && cannot_fail(dividend) && cannot_fail(divisor);
    }
    if let Some(kept) = times_one(expression, schema) {
        return cannot_fail(kept);
    }
    match expression {
        Expr::Column(_) | Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::ScalarSubquery(query) => query.outer_ref_columns.is_empty(),
        Expr::Alias(alias) => cannot_fail(&alias.expr),
        Expr::Not(part) | Expr::IsNull(part) | Expr::IsNotNull(part) => cannot_fail(part),
        Expr::IsTrue(part) | Expr::IsNotTrue(part) => cannot_fail(part),
        Expr::IsFalse(part) | Expr::IsNotFalse(part) => cannot_fail(part),
        Expr::Between(between) => {
            [&between.expr, &between.low, &between.high].into_iter().all(|part| cannot_fail(part))
        }
        Expr::InList(list) => cannot_fail(&list.expr) && list.list.iter().all(cannot_fail),
        Expr::Case(case) => {
            case.expr.iter().all(|part| cannot_fail(part))
                && known.branches(case).iter().all(|Branch { when, before, then, within }| {
                    when.is_none_or(|when| with_room(|| cannot_fail_with(when, schema, before)))
                        && with_room(|| cannot_fail_with(then, schema, within))
                })
        }
        Expr::ScalarFunction(call) => {
            let is_known = is_mean(&call.func) || CHOICES.contains(&call.name());
            is_known && call.args.iter().all(cannot_fail)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_condition(*op) => {
            cannot_fail(left) && cannot_fail(right)
        }
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            cannot_fail(left) && cannot_fail(right) && digits::fits(expression, schema)
        }
        Expr::Cast(cast) => cannot_fail(&cast.expr) && is_widening(expression, cast, schema),
        _ => false,
    }
}

/// The float that is multiplied by one, as `stddev(x) * 1.000` is: that is never beyond all floats. A decimal gets more digits by it.
fn times_one<'e>(expression: &'e Expr, schema: &DFSchema) -> Option<&'e Expr> {
    let factors = match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Multiply, right }) => {
            [left.as_ref(), right.as_ref()]
        }
        Expr::ScalarFunction(call) if matches!(checked_operators(&call.func), Some([Operator::Multiply])) => {
            let [left, right] = call.args.as_slice() else { return None };
            [left, right]
        }
        _ => return None,
    };
    match factors {
        [kept, factor] | [factor, kept] if is_one(factor) => {
            expression.get_type(schema).is_ok_and(|ty| ty.is_floating()).then_some(kept)
        }
        _ => None,
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
        DataType::Decimal128(..) => digits::fits(whole, schema),
        DataType::Float64 => is_number || from == DataType::Float32,
        to if to.is_string() => from.is_string(),
        to => {
            from.is_signed_integer()
                && to.is_signed_integer()
                && from.primitive_width() <= to.primitive_width()
        }
    }
}

fn is_one(factor: &Expr) -> bool {
    match factor {
        Expr::Alias(alias) => is_one(&alias.expr),
        Expr::Cast(cast) => is_one(&cast.expr),
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value == 1.0,
        Expr::Literal(ScalarValue::Decimal128(Some(value), _, scale), _) => {
            u32::try_from(*scale).is_ok_and(|scale| *value == 10_i128.pow(scale))
        }
        _ => false,
    }
}
