// SPDX-License-Identifier: Apache-2.0
//! How many digits numbers may have, and whether their sums have room in a `numeric`.
//!
//! What is computed of a row that a join would have left out must not fail, nor its sum. Whether it may is decided by the most digits that
//! a value has before the point and behind it, not by what computes it:
//!
//! | value | before the point | behind it |
//! |---|---|---|
//! | a column of `numeric(p,s)` | p - s | s |
//! | a `smallint`, an `integer`, a `bigint` | 5, 10, 19 | 0 |
//! | a constant | as many as it has | those of its type |
//! | `a + b`, `a - b` | one more than the longer one | those of the longer one |
//! | `a * b` | those of both | those of both |
//! | `a / b`, where b is not zero | those of a, and one for each place that b, or the least number of its type, is below one | those of the type |
//! | one of several values (CASE, `coalesce`, `nullif`) | those of the longest | those of the longest |
//! | any other `numeric` | all that its type has room for | those of its type |
//!
//! What might have more digits than its type might fail. A group has up to 10^10 rows, and a `numeric` 38 digits, so these have room:
//!
//! | aggregate | of so many digits |
//! |---|---|
//! | `sum`, and `avg`, which is made of one | 28 altogether |
//! | `stddev`, whose results have 16 digits behind the point | 21 before the point, 27 altogether |
//! | `variance`, of squares | 10 before the point, 27 altogether |
//!
//! The spreads add up squares, and multiply these by the rows, in 76 digits.

use super::nonzero::division_of;
use crate::stack::with_room;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, Operator};

/// Digits that a decimal has room for.
const DIGITS_MAX: u32 = 38;

/// Digits of the number of rows that a group may have.
const DIGITS_OF_ROWS: u32 = 10;

/// Digits behind the point of a variance or a deviation.
const DIGITS_OF_SPREAD: u32 = 16;

/// Digits of the sums of squares.
const DIGITS_OF_SQUARES_MAX: u32 = 76;

/// Functions that choose among their arguments.
pub(super) const CHOICES: [&str; 2] = ["coalesce", "nullif"];

/// The most digits that values have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digits {
    before: u32,
    behind: u32,
}

impl Digits {
    fn all(self) -> u32 {
        self.before + self.behind
    }

    /// Those of one of two values.
    fn of_either(self, other: Self) -> Self {
        Self { before: self.before.max(other.before), behind: self.behind.max(other.behind) }
    }
}

/// Whether the values of a `numeric` are known to have room in its type. They have, unless something is computed of others.
pub(super) fn fits(expression: &Expr, schema: &DFSchema) -> bool {
    digits(expression, schema).is_some()
}

/// Whether this aggregate of an expression, and the expression itself, have room in their types, of however many rows. Of floats nothing is
/// said here, nor of whole numbers that are added up in whole numbers of eight bytes.
pub(in crate::query) fn has_room(function: &str, argument: &Expr, schema: &DFSchema) -> bool {
    let Some(digits) = digits_of_number(argument, schema) else {
        return argument.get_type(schema).is_ok_and(|ty| !ty.is_decimal());
    };
    let squares = 2 * (digits.all() + DIGITS_OF_ROWS) < DIGITS_OF_SQUARES_MAX;
    // A deviation may be half as long again as the longest value, a variance twice as long as its square.
    match function {
        "sum" => digits.all() + DIGITS_OF_ROWS <= DIGITS_MAX,
        "stddev" | "stddev_pop" => squares && digits.before + 1 + DIGITS_OF_SPREAD <= DIGITS_MAX,
        "var" | "var_pop" => squares && 2 * digits.before + 1 + DIGITS_OF_SPREAD <= DIGITS_MAX,
        _ => true,
    }
}

/// Those that a decimal of this type has room for; `None` if it has fewer than it has behind the point.
fn room(precision: u8, scale: i8) -> Option<Digits> {
    let behind = u32::try_from(scale).ok()?;
    Some(Digits { before: u32::from(precision).checked_sub(behind)?, behind })
}

/// Those of a decimal; `None` if it is none, or its type may have no room for them.
fn digits(expression: &Expr, schema: &DFSchema) -> Option<Digits> {
    with_room(|| {
        let DataType::Decimal128(precision, scale) = expression.get_type(schema).ok()? else { return None };
        let room = room(precision, scale)?;
        let found = computed_digits(expression, room, schema)?;
        let fits = found.before <= room.before && found.behind <= room.behind;
        fits.then_some(Digits { before: found.before, behind: room.behind })
    })
}

/// The same by what computes it, whether its type has room for them or not.
fn computed_digits(expression: &Expr, room: Digits, schema: &DFSchema) -> Option<Digits> {
    Some(match expression {
        Expr::Literal(ScalarValue::Decimal128(value, ..), _) => {
            let whole = value.map_or(0, |value| value.unsigned_abs() / 10_u128.pow(room.behind));
            Digits { before: whole.checked_ilog10().map_or(0, |last| last + 1), behind: room.behind }
        }
        Expr::Alias(alias) => digits(&alias.expr, schema)?,
        Expr::Cast(cast) => digits_of_number(&cast.expr, schema)?,
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (digits(left, schema)?, digits(right, schema)?);
            let longer = left.of_either(right);
            match op {
                Operator::Plus | Operator::Minus => Digits { before: longer.before + 1, ..longer },
                Operator::Multiply => {
                    Digits { before: left.before + right.before, behind: left.behind + right.behind }
                }
                _ => return None,
            }
        }
        Expr::ScalarFunction(call) => match division_of(expression) {
            Some((dividend, divisor)) => {
                let places = places_below_one(divisor, schema)?;
                let dividend = digits_of_number(dividend, schema)?;
                // What is rounded may be longer.
                let rounded = u32::from(dividend.behind > room.behind);
                Digits { before: dividend.before + places + rounded, behind: room.behind }
            }
            None if CHOICES.contains(&call.name()) => chosen(&call.args, schema)?,
            None => room,
        },
        Expr::Case(case) => chosen(results_of(case), schema)?,
        // All that their types have room for.
        Expr::Column(_) | Expr::ScalarSubquery(_) => room,
        _ => return None,
    })
}

/// Those of whichever of these values is chosen; `None` if it is not known of one of them.
fn chosen<'e>(values: impl IntoIterator<Item = &'e Expr>, schema: &DFSchema) -> Option<Digits> {
    let none = Digits { before: 0, behind: 0 };
    values
        .into_iter()
        .filter(|value| !is_null(value))
        .try_fold(none, |longest, value| Some(longest.of_either(digits_of_number(value, schema)?)))
}

/// What a CASE may give.
fn results_of(case: &Case) -> impl Iterator<Item = &Expr> {
    let branches = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    branches.chain(case.else_expr.as_deref())
}

fn is_null(value: &Expr) -> bool {
    match value {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// Those of a whole number or a decimal.
fn digits_of_number(expression: &Expr, schema: &DFSchema) -> Option<Digits> {
    let before = match expression.get_type(schema).ok()? {
        DataType::Int16 => 5,
        DataType::Int32 => 10,
        DataType::Int64 => 19,
        _ => return digits(expression, schema),
    };
    let of_type = Digits { before, behind: 0 };
    // What was shorter before it was cast is no longer now.
    let shorter = match expression {
        Expr::Cast(cast) => with_room(|| digits_of_number(&cast.expr, schema)),
        _ => None,
    };
    Some(shorter.filter(|digits| digits.behind == 0 && digits.before < before).unwrap_or(of_type))
}

/// How many places the first digit of a divisor, which is not zero, is behind the point, at most: quotients are longer by so many digits.
/// `None` of what is no such number.
fn places_below_one(divisor: &Expr, schema: &DFSchema) -> Option<u32> {
    match divisor {
        Expr::Alias(alias) => places_below_one(&alias.expr, schema),
        Expr::Literal(ScalarValue::Decimal128(Some(value), _, scale), _) => {
            let scale = u32::try_from(*scale).ok()?;
            Some(scale.saturating_sub(value.unsigned_abs().checked_ilog10()?))
        }
        // What a decimal is cast to has room for it, or it fails.
        Expr::Cast(cast) => {
            digits_of_number(divisor, schema)?;
            with_room(|| places_below_one(&cast.expr, schema))
        }
        other => digits_of_number(other, schema).map(|digits| digits.behind),
    }
}

#[cfg(test)]
mod tests;
