// SPDX-License-Identifier: Apache-2.0
//! The functions that expressions know without DataFusion.

use super::arithmetic::{absolute, divide_rounded};
use super::datum::Datum;
use super::environment::Inputs;
use super::node::Node;
use crate::error::{SqlError, SqlState};
use coeval_store::ValueRef;

/// A function of its arguments. All of them but the last two give NULL for NULL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Lower,
    Upper,
    Length,
    /// `substring(text, from [, count])`.
    Substring,
    Trim(TrimSide),
    Abs,
    /// `round` of a float.
    RoundFloat,
    /// `round` of a decimal: what to divide by, then what to multiply with (for digits before the point).
    RoundDecimal {
        divisor: i128,
        factor: i128,
    },
    /// `random()`.
    Random,
    /// `gen_random_uuid()`.
    NewUuid,
}

/// Which end `trim` works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrimSide {
    Leading,
    Trailing,
    Both,
}

impl Function {
    pub(super) fn call<'a>(self, arguments: &'a [Node], inputs: Inputs<'a>) -> Result<Datum<'a>, SqlError> {
        match (self, arguments) {
            (Self::Random, []) => Ok(Datum::Borrowed(ValueRef::Float64(rand::random::<f64>()))),
            (Self::NewUuid, []) => Ok(Datum::Borrowed(ValueRef::Uuid(uuid::Uuid::new_v4().into_bytes()))),
            (_, [only]) => {
                let value = only.eval(inputs)?;
                if value.is_null() { Ok(Datum::NULL) } else { self.call_one(value) }
            }
            (_, [first, rest @ ..]) => {
                let first = first.eval(inputs)?;
                let rest = rest.iter().map(|node| node.eval(inputs)).collect::<Result<Vec<_>, _>>()?;
                if first.is_null() || rest.iter().any(Datum::is_null) {
                    return Ok(Datum::NULL);
                }
                self.call_many(&first, &rest)
            }
            (_, []) => unreachable!("the compiler has counted the arguments"),
        }
    }

    fn call_one(self, value: Datum<'_>) -> Result<Datum<'_>, SqlError> {
        Ok(match self {
            Self::Lower => Datum::Text(text_of(&value).to_lowercase().into()),
            Self::Upper => Datum::Text(text_of(&value).to_uppercase().into()),
            Self::Length => {
                let count = match value.value() {
                    ValueRef::Bytes(bytes) => bytes.len(),
                    _ => text_of(&value).chars().count(),
                };
                Datum::Borrowed(ValueRef::Int32(i32::try_from(count).unwrap_or(i32::MAX)))
            }
            Self::Trim(side) => Datum::Text(trim(text_of(&value), " ", side).into()),
            Self::Abs => Datum::Borrowed(absolute(value.value())?),
            Self::RoundFloat => Datum::Borrowed(match value.value() {
                ValueRef::Float64(v) => ValueRef::Float64(v.round_ties_even()),
                ValueRef::Float32(v) => ValueRef::Float32(v.round_ties_even()),
                other => unreachable!("the compiler rounds floats as floats, not {other}"),
            }),
            Self::RoundDecimal { divisor, factor } => {
                let unscaled = value.value().as_decimal().expect("the compiler rounds decimals as decimals");
                Datum::Borrowed(ValueRef::Decimal(divide_rounded(unscaled, divisor) * factor))
            }
            Self::Substring | Self::Random | Self::NewUuid => {
                unreachable!("the compiler has counted the arguments")
            }
        })
    }

    fn call_many<'a>(self, first: &Datum<'a>, rest: &[Datum<'a>]) -> Result<Datum<'a>, SqlError> {
        match (self, rest) {
            (Self::Substring, [from]) => substring(text_of(first), integer_of(from), None),
            (Self::Substring, [from, count]) => {
                substring(text_of(first), integer_of(from), Some(integer_of(count)))
            }
            (Self::Trim(side), [characters]) => {
                Ok(Datum::Text(trim(text_of(first), text_of(characters), side).into()))
            }
            _ => unreachable!("the compiler has counted the arguments"),
        }
    }
}

fn text_of<'d>(datum: &'d Datum<'_>) -> &'d str {
    datum.value().as_str().expect("the compiler gives text functions text only")
}

fn integer_of(datum: &Datum<'_>) -> i64 {
    datum.value().as_i64().expect("the compiler gives integer arguments integers only")
}

/// Positions count from 1 and may lie outside the text; the part that lies inside is returned.
fn substring(text: &str, from: i64, count: Option<i64>) -> Result<Datum<'static>, SqlError> {
    let end = match count {
        Some(count) if count < 0 => {
            return Err(SqlError::new(SqlState::SubstringError, "negative substring length not allowed"));
        }
        Some(count) => from.saturating_add(count),
        None => i64::MAX,
    };
    let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(0);
    let taken = usize::try_from(end.saturating_sub(from.max(1))).unwrap_or(0);
    Ok(Datum::Text(text.chars().skip(skipped).take(taken).collect::<String>().into()))
}

fn trim<'t>(text: &'t str, characters: &str, side: TrimSide) -> &'t str {
    let unwanted = |symbol: char| characters.contains(symbol);
    match side {
        TrimSide::Leading => text.trim_start_matches(unwanted),
        TrimSide::Trailing => text.trim_end_matches(unwanted),
        TrimSide::Both => text.trim_matches(unwanted),
    }
}
