// SPDX-License-Identifier: Apache-2.0
//! How many digits whole numbers and decimals may have, as far as their types and what computes them tell, and whether types have room for them.

use super::nonzero::{bare, division_of, is_remainder};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

/// Digits that a decimal has room for.
pub(super) const DIGITS_MAX: u32 = 38;

/// How many digits numbers may have before and behind the point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digits {
    pub(super) before: u32,
    pub(super) behind: u32,
}

impl Digits {
    /// How many there are.
    pub(super) const fn count(self) -> u32 {
        self.before + self.behind
    }
}

/// How many digits the values of a decimal may have before the point; `None` if it is no decimal.
pub(in crate::query) fn digits_before(expression: &Expr, schema: &DFSchema) -> Option<u32> {
    digits(expression, schema).map(|digits| digits.before)
}

/// Those of an expression; `None` if it is no decimal, or its type may have no room for them.
pub(super) fn digits(expression: &Expr, schema: &DFSchema) -> Option<Digits> {
    let DataType::Decimal128(precision, scale) = expression.get_type(schema).ok()? else { return None };
    let behind = u32::try_from(scale).ok()?;
    let room = u32::from(precision).checked_sub(behind)?;
    let found = match expression {
        Expr::Column(_) => Digits { before: room, behind },
        Expr::Literal(ScalarValue::Decimal128(value, ..), _) => {
            let whole = value.map_or(0, |value| value.unsigned_abs() / 10_u128.pow(behind));
            Digits { before: whole.checked_ilog10().map_or(0, |last| last + 1), behind }
        }
        Expr::Alias(alias) => digits(&alias.expr, schema)?,
        Expr::Cast(cast) => digits_of_number(&cast.expr, schema)?,
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (digits(left, schema)?, digits(right, schema)?);
            match op {
                Operator::Plus | Operator::Minus => Digits {
                    before: left.before.max(right.before) + 1,
                    behind: left.behind.max(right.behind),
                },
                Operator::Multiply => {
                    Digits { before: left.before + right.before, behind: left.behind + right.behind }
                }
                _ => return None,
            }
        }
        // All that their types have room for, if no more is known.
        Expr::Case(_) | Expr::ScalarFunction(_) | Expr::ScalarSubquery(_) => {
            let before = digits_before_of_quotient(expression, schema).unwrap_or(room);
            Digits { before: before.min(room), behind }
        }
        _ => return None,
    };
    let fits = found.before <= room && found.behind <= behind && found.before + behind <= DIGITS_MAX;
    fits.then_some(Digits { before: found.before, behind })
}

/// Those of a whole number or a decimal.
pub(super) fn digits_of_number(expression: &Expr, schema: &DFSchema) -> Option<Digits> {
    let before = match expression.get_type(schema).ok()? {
        DataType::Int16 => 5,
        DataType::Int32 => 10,
        DataType::Int64 => 19,
        _ => return digits(expression, schema),
    };
    Some(Digits { before, behind: 0 })
}

/// Those of what a number was before it was given other types, which had room for it.
pub(super) fn digits_of_source(expression: &Expr, schema: &DFSchema) -> Option<Digits> {
    digits_of_number(bare(expression), schema)
}

/// How many digits a whole number or a decimal may have behind the point before nothing but zeros follows; `None` if it is neither. Half of a
/// price has three, where its type has room for sixteen.
pub(super) fn digits_behind(expression: &Expr, schema: &DFSchema) -> Option<u32> {
    let room = match expression.get_type(schema).ok()? {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => return Some(0),
        DataType::Decimal128(_, scale) => u32::try_from(scale).ok()?,
        _ => return None,
    };
    let behind = |part: &Expr| digits_behind(part, schema).unwrap_or(room);
    let found = match expression {
        Expr::Literal(ScalarValue::Decimal128(value, ..), _) => {
            let is_zero = |digits: &u32| value.is_none_or(|value| value % 10_i128.pow(room - *digits) == 0);
            (0..=room).find(is_zero).unwrap_or(room)
        }
        Expr::Alias(alias) => behind(&alias.expr),
        Expr::Cast(cast) => behind(&cast.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
            behind(left).max(behind(right))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Multiply, right }) => behind(left) + behind(right),
        quotient => match division_of(quotient) {
            Some((dividend, divisor)) if !is_remainder(quotient) => {
                digits_of_parts(divisor).map_or(room, |more| behind(dividend) + more)
            }
            _ => room,
        },
    };
    Some(found.min(room))
}

/// How many digits more than a number its quotient by this constant may have behind the point; `None` if they do not end, as those of thirds,
/// or if it is no constant.
fn digits_of_parts(divisor: &Expr) -> Option<u32> {
    let parts = match divisor {
        Expr::Alias(alias) => return digits_of_parts(&alias.expr),
        // A decimal that is cast may be another one behind that.
        Expr::Cast(cast) => match cast.expr.as_ref() {
            whole @ Expr::Literal(ScalarValue::Int32(_) | ScalarValue::Int64(_), _) => {
                return digits_of_parts(whole);
            }
            _ => return None,
        },
        Expr::Literal(ScalarValue::Decimal128(Some(value), ..), _) => value.unsigned_abs(),
        Expr::Literal(ScalarValue::Int32(Some(value)), _) => u128::from(value.unsigned_abs()),
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => u128::from(value.unsigned_abs()),
        _ => return None,
    };
    if parts == 0 {
        return None;
    }
    let twos = parts.trailing_zeros();
    let (mut fives, mut rest) = (0, parts >> twos);
    while rest.is_multiple_of(5) {
        rest /= 5;
        fives += 1;
    }
    (rest == 1).then_some(twos.max(fives))
}

/// How many digits a quotient of exact numbers may have before the point; `None` if it is no such quotient.
fn digits_before_of_quotient(quotient: &Expr, schema: &DFSchema) -> Option<u32> {
    let (dividend, divisor) = division_of(quotient)?;
    let dividend = digits_of_number(dividend, schema)?;
    if is_one_at_least(divisor) {
        return Some(dividend.before);
    }
    // The least divisor has a one at its last place.
    Some(dividend.before + digits_of_number(divisor, schema)?.behind)
}

/// Whether the type of a quotient of exact numbers has room for it, whatever is divided.
pub(super) fn has_room_for_quotient(quotient: &Expr, schema: &DFSchema) -> bool {
    let Ok(DataType::Decimal128(precision, scale)) = quotient.get_type(schema) else { return false };
    let before = digits_before_of_quotient(quotient, schema);
    before.is_some_and(|before| before + u32::from(scale.unsigned_abs()) <= u32::from(precision))
}

/// Whether decimals can be given the same number of digits behind the point, as is done before what is left over by their division is found.
pub(super) fn has_room_for_remainder(remainder: &Expr, schema: &DFSchema) -> bool {
    let Some((dividend, divisor)) = division_of(remainder) else { return false };
    let (dividend, divisor) = (digits_of_number(dividend, schema), digits_of_number(divisor, schema));
    dividend
        .zip(divisor)
        .is_some_and(|(one, other)| one.before.max(other.before) + one.behind.max(other.behind) <= DIGITS_MAX)
}

/// Whether the type of a mean has room for it, whatever the sum is. What is no decimal is as long as the sum.
pub(super) fn has_room_for_mean(mean: &Expr, sum: &Expr, schema: &DFSchema) -> bool {
    let Ok(DataType::Decimal128(precision, scale)) = mean.get_type(schema) else { return true };
    let sum = digits_of_number(sum, schema);
    sum.is_some_and(|sum| sum.before + u32::from(scale.unsigned_abs()) <= u32::from(precision))
}

/// Whether a divisor is a number whose quotients are no longer than what is divided.
fn is_one_at_least(divisor: &Expr) -> bool {
    match divisor {
        Expr::Alias(alias) => is_one_at_least(&alias.expr),
        Expr::Cast(cast) => is_one_at_least(&cast.expr),
        Expr::Literal(ScalarValue::Decimal128(Some(value), _, scale), _) => {
            u32::try_from(*scale).is_ok_and(|scale| value.unsigned_abs() >= 10_u128.pow(scale))
        }
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => *value != 0,
        Expr::Literal(ScalarValue::Int32(Some(value)), _) => *value != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::typing::quotient;
    use arrow::datatypes::{Field, Schema};
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn quotients_by_parts_of_tens_have_few_digits() {
        let price = DataType::Decimal128(7, 2);
        let schema = DFSchema::try_from(Schema::new(vec![Field::new("price", price.clone(), true)])).unwrap();
        for (divisor, wanted) in [(1_i64, 2), (2, 3), (-5, 3), (40, 5), (1_000, 5), (3, 16), (12, 16)] {
            let share = quotient(col("price"), &price, lit(divisor), &DataType::Int64).unwrap();
            let found = digits_behind(&share, &schema);
            assert_eq!(found, Some(wanted), "a price divided by {divisor}");
        }
    }
}
