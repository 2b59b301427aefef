// SPDX-License-Identifier: Apache-2.0
//! How far numbers reach on both sides of the point, and whether the types of their quotients have room for these.
//!
//! A number below 10^9, divided by one of at least 10^-2, is below 10^11: a quotient reaches as far before the point as its dividend, and
//! then as far as its divisor reaches behind it. A condition divides results of an aggregate far above it, where no more is known of them than
//! their types, which have room for much more than what is there. So a quotient begins with the digits that its own type has room for. On the
//! way down to the aggregate, what is computed of columns takes those away by which it reaches further than they do. What is left must be
//! enough for the results, which reach as far as what is aggregated, and as the number of rows may take them.

use super::digits::{digits_behind, digits_of_number};
use super::nonzero::bare;
use crate::query::arithmetic::checked_operators;
use crate::query::typing::is_mean;
use crate::stack::with_room;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

/// Digits of how many rows a group is taken to have: less than ten million.
pub(super) const ROW_DIGITS: i32 = 7;

/// Digits in front of the point of decimals whose means have room for 16 behind it.
const MEAN_DIGITS_MAX: i32 = 22;

/// Digits of numbers among which the least one of 64 bits is not.
const WHOLE_DIGITS_MAX: i32 = 18;

/// Digits of quotients of floats, which go up to 10^308. The sum of floats that were decimals may be 10^17 times nearer to zero than any of
/// these.
const FLOAT_DIGITS_MAX: i32 = 280;

/// Digits of [`MODERATE_MAX`].
const MODERATE_DIGITS: i32 = 100;

/// Floats up to this one have quotients that are floats, if they are not closer to zero than its reciprocal.
const MODERATE_MAX: f64 = 1e100;

/// How far numbers reach, or how much further than others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// They are below ten to this power.
    pub(super) before: i32,
    /// They are zero, or at least the reciprocal of ten to this power.
    pub(super) behind: i32,
}

impl Reach {
    const NONE: Self = Self { before: 0, behind: 0 };

    fn max(self, other: Self) -> Self {
        Self { before: self.before.max(other.before), behind: self.behind.max(other.behind) }
    }

    /// How far several of them reach; `None` if it is not known of one.
    fn of_all(each: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        each.into_iter().try_fold(Self::NONE, |known, one| Some(known.max(one?)))
    }

    /// How much further these values reach than the columns that they name, at most; `None` if it is not known.
    pub(super) fn beyond_columns<'v>(
        values: impl IntoIterator<Item = &'v Expr>,
        schema: &DFSchema,
    ) -> Option<Self> {
        let mut values = values.into_iter().map(|value| Self::beyond_those_of(value, schema));
        // Means reach less far than the sums that they are of, which is lost if they are compared with none.
        let first = values.next().unwrap_or(Some(Self::NONE))?;
        values.try_fold(first, |known, one| Some(known.max(one?)))
    }

    fn beyond_those_of(value: &Expr, schema: &DFSchema) -> Option<Self> {
        if value.get_type(schema).is_ok_and(|ty| !ty.is_numeric()) {
            return Some(Self::NONE);
        }
        if let Some(kept) = times_one(value, schema) {
            return with_room(|| Self::beyond_those_of(kept, schema));
        }
        let of = |part: &Expr| with_room(|| Self::beyond_those_of(part, schema));
        match value {
            Expr::Column(_) => Some(Self::NONE),
            Expr::Literal(constant, _) if constant.is_null() => Some(Self::NONE),
            Expr::Literal(ScalarValue::Float64(Some(float)), _) => {
                let moderate = Self { before: MODERATE_DIGITS, behind: MODERATE_DIGITS };
                is_moderate_float(*float).then_some(moderate)
            }
            Expr::Literal(..) | Expr::ScalarSubquery(_) => Self::of_number(value, schema),
            Expr::Alias(alias) => of(&alias.expr),
            // Types that have no room for a value are in doubt by themselves.
            Expr::Cast(cast) => of(&cast.expr),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
                let before = of(left)?.before.max(of(right)?.before) + 1;
                // Means that are close to each other leave next to nothing, but a number of their type.
                let DataType::Decimal128(_, scale) = value.get_type(schema).ok()? else { return None };
                Some(Self { before, behind: i32::from(scale) })
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Multiply, right }) => {
                let is_constant = |factor: &Expr| matches!(bare(factor), Expr::Literal(..));
                let (left_is_constant, right_is_constant) = (is_constant(left), is_constant(right));
                let (left, right) = (of(left)?, of(right)?);
                let product = Self { before: left.before + right.before, behind: left.behind + right.behind };
                (left_is_constant || right_is_constant).then_some(product)
            }
            Expr::Case(case) => {
                let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
                Self::beyond_columns(thens.chain(case.else_expr.as_deref()), schema)
            }
            Expr::ScalarFunction(call) => match call.args.as_slice() {
                // A mean is no further from zero than what it is of, and may be as small as the least sum of many rows.
                [sum, _] if is_mean(&call.func) => {
                    let sum = of(sum)?;
                    Some(Self { before: sum.before - ROW_DIGITS, behind: sum.behind + ROW_DIGITS })
                }
                [kept, _] if call.name() == "nullif" => of(kept),
                choices if call.name() == "coalesce" => Self::beyond_columns(choices, schema),
                _ => None,
            },
            _ => None,
        }
    }

    /// How far a number reaches by itself; `None` if it is not known.
    fn of_number(number: &Expr, schema: &DFSchema) -> Option<Self> {
        let before = digits_of_number(number, schema)?.before;
        Some(Self { before: before.cast_signed(), behind: digits_behind(number, schema)?.cast_signed() })
    }

    /// How far results of aggregates reach, and groups, of columns of this schema; what is no number reaches nowhere.
    pub(super) fn of_results<'v>(
        values: impl IntoIterator<Item = &'v Expr>,
        schema: &DFSchema,
    ) -> Option<Self> {
        Self::of_all(values.into_iter().map(|value| match called(value) {
            Some(call) => Self::of_result(call, schema),
            None => Self::of_source(value, schema),
        }))
    }

    fn of_result(call: &AggregateFunction, schema: &DFSchema) -> Option<Self> {
        if call.func.name() == "count" {
            return Some(Self { before: ROW_DIGITS, behind: 0 });
        }
        let [argument] = call.params.args.as_slice() else { return None };
        let Self { before, behind } = Self::of_source(argument, schema)?;
        let (before, behind) = match call.func.name() {
            "bool_and" | "bool_or" | "max" | "min" => (before, behind),
            "sum" => (before + ROW_DIGITS, behind),
            "avg" => (before, behind + ROW_DIGITS),
            "stddev" | "stddev_pop" => (before + 1, behind + ROW_DIGITS),
            "var" | "var_pop" => (2 * before + 1, 2 * (behind + ROW_DIGITS)),
            _ => return None,
        };
        Some(Self { before, behind })
    }

    /// How far a value reached before it was given other types, which had room for it.
    fn of_source(value: &Expr, schema: &DFSchema) -> Option<Self> {
        if value.get_type(schema).is_ok_and(|ty| !ty.is_numeric()) {
            return Some(Self::NONE);
        }
        Self::of_number(bare(value), schema)
    }

    /// Whether means of sums that reach this far are within their type.
    pub(super) const fn has_means(self) -> bool {
        self.before <= MEAN_DIGITS_MAX + ROW_DIGITS
    }
}

/// How far columns may reach before and behind the point, both together, so that a quotient of what is computed of them is within its type;
/// `None` if it is not known.
pub(super) fn room_of_quotient(
    quotient: &Expr,
    (dividend, divisor): (&Expr, &Expr),
    schema: &DFSchema,
) -> Option<i32> {
    let digits = match quotient.get_type(schema).ok()? {
        DataType::Int64 => WHOLE_DIGITS_MAX,
        DataType::Decimal128(precision, scale) => i32::from(precision) - i32::from(scale),
        DataType::Float64 => FLOAT_DIGITS_MAX,
        _ => return None,
    };
    let dividend = Reach::beyond_those_of(dividend, schema)?;
    let divisor = Reach::beyond_those_of(divisor, schema)?;
    Some(digits - dividend.before - divisor.behind)
}

/// Whether a constant is zero, or neither near it nor far from it.
pub(super) fn is_moderate_float(float: f64) -> bool {
    float == 0.0 || (MODERATE_MAX.recip()..=MODERATE_MAX).contains(&float.abs())
}

/// The call of an aggregate; `None` of what is none.
pub(super) fn called(whole: &Expr) -> Option<&AggregateFunction> {
    match whole {
        Expr::AggregateFunction(call) => Some(call),
        Expr::Alias(alias) => called(&alias.expr),
        _ => None,
    }
}

/// The float that is multiplied by one, as `stddev(x) * 1.000` is: that is never beyond all floats. A decimal gets more digits by it.
pub(super) fn times_one<'e>(expression: &'e Expr, schema: &DFSchema) -> Option<&'e Expr> {
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
