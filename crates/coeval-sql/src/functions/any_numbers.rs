// SPDX-License-Identifier: Apache-2.0
//! Arithmetic and mathematics of `numeric` without digits, under the names that PostgreSQL has for what its operators and functions
//! call. Operators are planned as calls of these, and functions of other numbers call them where an argument is such a number.

use super::call::Call;
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::SqlError;
use crate::types::any_numeric::{AnyNumeric, RoundingMode};
use coeval_store::{ColumnType, Value, ValueRef};

/// Sums, differences, products, quotients and remainders.
pub(crate) const NUMBER_SUM: &str = "numeric_add";
pub(crate) const NUMBER_DIFFERENCE: &str = "numeric_sub";
pub(crate) const NUMBER_PRODUCT: &str = "numeric_mul";
pub(crate) const NUMBER_QUOTIENT: &str = "numeric_div";
pub(crate) const NUMBER_REMAINDER: &str = "numeric_mod";
/// The number with its sign turned.
pub(crate) const NUMBER_NEGATED: &str = "numeric_uminus";
/// The number, shown with as few digits as it needs: equal numbers are the same then.
pub(crate) const NUMBER_SHORTEST: &str = "trim_scale";
/// Bytes in the order of the numbers.
pub(crate) const NUMBER_ORDER: &str = "coeval_numeric_order";

const ANY: ColumnType = ColumnType::AnyNumeric;
const NUMBER: Takes = Takes::Type(ANY);
const INT: Takes = Takes::Type(ColumnType::Int);
const PAIR: &[Takes] = &[NUMBER, NUMBER];
const ONE: &[Takes] = &[NUMBER];

/// A function of one number.
const fn of_one(name: &'static str, forms: &'static [Form]) -> Entry {
    strict(name, forms)
}

pub(super) const ENTRIES: &[Entry] = &[
    strict(NUMBER_SUM, &[Form::new(PAIR, ANY, |call| value(call.number(0).sum(&call.number(1))))]),
    strict(
        NUMBER_DIFFERENCE,
        &[Form::new(PAIR, ANY, |call| value(call.number(0).difference(&call.number(1))))],
    ),
    strict(NUMBER_PRODUCT, &[Form::new(PAIR, ANY, |call| value(call.number(0).product(&call.number(1))))]),
    strict(NUMBER_QUOTIENT, &[Form::new(PAIR, ANY, |call| value(call.number(0).quotient(&call.number(1))?))]),
    strict(
        NUMBER_REMAINDER,
        &[Form::new(PAIR, ANY, |call| value(call.number(0).remainder(&call.number(1))?))],
    ),
    of_one(NUMBER_NEGATED, &[Form::new(ONE, ANY, |call| value(call.number(0).negated()))]),
    of_one(NUMBER_SHORTEST, &[Form::new(ONE, ANY, shortest)]),
    of_one(NUMBER_ORDER, &[Form::new(ONE, ColumnType::Bytea, order)]),
    of_one("numeric_abs", &[Form::new(ONE, ANY, |call| value(call.number(0).absolute()))]),
    of_one("numeric_sign", &[Form::new(ONE, ANY, |call| value(call.number(0).sign()))]),
    of_one("numeric_ceil", &[Form::new(ONE, ANY, |call| scaled(call, RoundingMode::Ceiling))]),
    of_one("numeric_floor", &[Form::new(ONE, ANY, |call| scaled(call, RoundingMode::Floor))]),
    strict(
        "numeric_round",
        &[Form::new(&[NUMBER, INT], ANY, |call| scaled(call, RoundingMode::HalfAwayFromZero)).optional(1)],
    ),
    strict(
        "numeric_trunc",
        &[Form::new(&[NUMBER, INT], ANY, |call| scaled(call, RoundingMode::Down)).optional(1)],
    ),
    of_one("numeric_sqrt", &[Form::new(ONE, ANY, |call| value(call.number(0).root()?))]),
    of_one("numeric_exp", &[Form::new(ONE, ANY, |call| value(call.number(0).exp()?))]),
    of_one("numeric_ln", &[Form::new(ONE, ANY, |call| value(call.number(0).ln()?))]),
    strict("numeric_log", &[Form::new(ONE, ANY, common_logarithm), Form::new(PAIR, ANY, logarithm)]),
    strict("numeric_power", &[Form::new(PAIR, ANY, |call| value(call.number(0).power(&call.number(1))?))]),
];

/// A number as a value.
pub(super) fn value(number: AnyNumeric) -> Result<Value, SqlError> {
    number.number().map(Value::Number)
}

fn shortest(call: &Call<'_>) -> Result<Value, SqlError> {
    Ok(match call.values[0] {
        ValueRef::Number(number) => Value::Number(number.shortest()),
        other => other.to_owned(),
    })
}

fn order(call: &Call<'_>) -> Result<Value, SqlError> {
    Ok(match call.values[0] {
        ValueRef::Number(number) => Value::Bytes(number.comparable().into()),
        _ => Value::Null,
    })
}

/// Rounded to the digits behind the point that the second argument says, or to none.
fn scaled(call: &Call<'_>, mode: RoundingMode) -> Result<Value, SqlError> {
    let scale = if call.count() > 1 { call.int(1) } else { 0 };
    value(call.number(0).with_scale(scale, mode))
}

fn logarithm(call: &Call<'_>) -> Result<Value, SqlError> {
    value(call.number(0).log(&call.number(1))?)
}

fn common_logarithm(call: &Call<'_>) -> Result<Value, SqlError> {
    value(AnyNumeric::whole(10).log(&call.number(0))?)
}
