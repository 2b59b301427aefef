// SPDX-License-Identifier: Apache-2.0
//! Functions of bit strings, and those behind their operators and behind `#` of integers. Those that there are of texts or bytes, too, are
//! listed with these.

use super::call::{Call, invalid};
use super::choice::{Form, Takes};
use super::search::{BORDER_BYTES, first_place};
use super::{Entry, strict};
use crate::error::{SqlError, SqlState};
use crate::types::require_length;
use coeval_store::{ColumnType, Value, bits_length, bits_of, kept_bits};
use std::iter::repeat_n;

pub(super) const BITS: Takes = Takes::Type(BIT);
/// What most functions give.
pub(super) const BIT: ColumnType = ColumnType::Bit(None);
const SMALLINT: Takes = Takes::Type(ColumnType::SmallInt);
const INT: Takes = Takes::Type(ColumnType::Int);
const BIGINT: Takes = Takes::Type(ColumnType::BigInt);

/// The function behind `&`.
pub(crate) const BITS_AND: &str = "bitand";
/// The function behind `|`.
pub(crate) const BITS_OR: &str = "bitor";
/// The function behind `#`.
pub(crate) const BITS_XOR: &str = "bitxor";
/// The function behind `#` of two `smallint`.
pub(crate) const SMALLINT_XOR: &str = "int2xor";
/// The function behind `#` of two `integer`.
pub(crate) const INT_XOR: &str = "int4xor";
/// The function behind `#` of two `bigint`.
pub(crate) const BIGINT_XOR: &str = "int8xor";
/// The function behind `~`.
pub(crate) const BITS_NOT: &str = "bitnot";
/// The function behind `<<`.
pub(crate) const BITS_LEFT: &str = "bitshiftleft";
/// The function behind `>>`.
pub(crate) const BITS_RIGHT: &str = "bitshiftright";
/// The function behind `||`.
pub(crate) const BITS_JOINED: &str = "bitcat";
/// The function that counts bits, behind `length`.
pub(crate) const BITS_LENGTH: &str = "coeval_bits_length";

pub(super) const ENTRIES: &[Entry] = &[
    strict(BITS_AND, &[Form::new(&[BITS, BITS], BIT, |call| paired(call, BitOperation::And))]),
    strict(BITS_OR, &[Form::new(&[BITS, BITS], BIT, |call| paired(call, BitOperation::Or))]),
    strict(BITS_XOR, &[Form::new(&[BITS, BITS], BIT, |call| paired(call, BitOperation::Xor))]),
    strict(SMALLINT_XOR, &[Form::new(&[SMALLINT, SMALLINT], ColumnType::SmallInt, exclusive_or)]),
    strict(INT_XOR, &[Form::new(&[INT, INT], ColumnType::Int, exclusive_or)]),
    strict(BIGINT_XOR, &[Form::new(&[BIGINT, BIGINT], ColumnType::BigInt, exclusive_or)]),
    strict(BITS_NOT, &[Form::new(&[BITS], BIT, |call| Ok(value(bits_of(call.bytes(0)).map(|bit| !bit))))]),
    strict(BITS_LEFT, &[Form::new(&[BITS, INT], BIT, |call| shifted(call, call.int(1)))]),
    strict(BITS_RIGHT, &[Form::new(&[BITS, INT], BIT, |call| shifted(call, -call.int(1)))]),
    strict(BITS_JOINED, &[Form::new(&[BITS, BITS], ColumnType::Varbit(None), joined)]),
    strict(BITS_LENGTH, &[Form::new(&[BITS], ColumnType::Int, length)]),
];

/// What is done with each two bits of two strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BitOperation {
    And,
    Or,
    Xor,
}

impl BitOperation {
    const fn verb(self) -> &'static str {
        match self {
            Self::And => "AND",
            Self::Or => "OR",
            Self::Xor => "XOR",
        }
    }

    const fn of(self, (one, other): (bool, bool)) -> bool {
        match self {
            Self::And => one & other,
            Self::Or => one | other,
            Self::Xor => one ^ other,
        }
    }

    /// The string that it makes of two, as it is kept.
    ///
    /// # Errors
    /// `22026` for strings of two lengths.
    pub(crate) fn of_strings(self, one: &[u8], other: &[u8]) -> Result<Vec<u8>, SqlError> {
        if bits_length(one) != bits_length(other) {
            let message = format!("cannot {} bit strings of different sizes", self.verb());
            return Err(SqlError::new(SqlState::StringDataLengthMismatch, message));
        }
        Ok(kept_bits(bits_of(one).zip(bits_of(other)).map(|bits| self.of(bits))))
    }
}

fn value(bits: impl IntoIterator<Item = bool>) -> Value {
    Value::Bytes(kept_bits(bits).into())
}

fn paired(call: &Call<'_>, operation: BitOperation) -> Result<Value, SqlError> {
    Ok(Value::Bytes(operation.of_strings(call.bytes(0), call.bytes(1))?.into()))
}

/// The bits that one of two integers of a type has, which another one of it has.
fn exclusive_or(call: &Call<'_>) -> Result<Value, SqlError> {
    let bits = call.int(0) ^ call.int(1);
    Ok(match call.result {
        ColumnType::SmallInt => Value::Int16(bits as i16),
        ColumnType::Int => Value::Int32(bits as i32),
        _ => Value::Int64(bits),
    })
}

/// The bits of one string and, behind them, those of the other.
fn joined(call: &Call<'_>) -> Result<Value, SqlError> {
    let (one, other) = (call.bytes(0), call.bytes(1));
    require_length(bits_length(one) + bits_length(other))?;
    Ok(value(bits_of(one).chain(bits_of(other))))
}

/// The bits moved so many places to the left, or to the right if the number is negative; zeros come after them, and what is moved beyond
/// the ends is gone.
fn shifted(call: &Call<'_>, places: i64) -> Result<Value, SqlError> {
    let kept = call.bytes(0);
    call.meter.look()?;
    let length = bits_length(kept);
    let moved = usize::try_from(places.unsigned_abs()).map_or(length, |places| places.min(length));
    Ok(match places {
        0.. => value(bits_of(kept).skip(moved).chain(repeat_n(false, moved))),
        _ => value(repeat_n(false, moved).chain(bits_of(kept)).take(length)),
    })
}

/// `length(bits)` and `bit_length(bits)`.
pub(super) fn length(call: &Call<'_>) -> Result<Value, SqlError> {
    Ok(Value::Int32(bits_length(call.bytes(0)) as i32))
}

/// `octet_length(bits)`: of the bytes that PostgreSQL keeps them in.
pub(super) fn octets(call: &Call<'_>) -> Result<Value, SqlError> {
    Ok(Value::Int32(bits_length(call.bytes(0)).div_ceil(8) as i32))
}

/// The bits from one place on, and in front of another; from 0 on.
pub(super) fn part(call: &Call<'_>, start: usize, end: usize) -> Value {
    value(bits_of(call.bytes(0)).take(end).skip(start))
}

/// `position(part in bits)`, and `strpos`: where the part is for the first time, from 1 on, and 0 if it is not there. An empty one is not
/// in an empty one.
pub(super) fn place(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, part) = (call.bytes(0), call.bytes(1));
    if part.is_empty() {
        return Ok(Value::Int32(i32::from(!all.is_empty())));
    }
    let length = bits_length(part);
    if length > bits_length(all) {
        return Ok(Value::Int32(0));
    }
    // Of the string that is looked in no bit is kept.
    call.meter.workspace(length * (1 + BORDER_BYTES))?;
    let wanted = bits_of(part).map(|bit| call.meter.step().map(|()| u8::from(bit)));
    let wanted = wanted.collect::<Result<Vec<u8>, SqlError>>()?;
    let found = first_place(&wanted, bits_of(all).map(u8::from), call.meter)?;
    Ok(Value::Int32(found.map_or(0, |place| place as i32 + 1)))
}

/// The bits with those between two places replaced by the other argument's; from 0 on.
///
/// # Errors
/// `54000` for more bits than there may be in a string.
pub(super) fn overlaid(call: &Call<'_>, start: usize, end: usize) -> Result<Value, SqlError> {
    let (all, other) = (call.bytes(0), call.bytes(1));
    let length = bits_length(all);
    require_length(start.min(length) + bits_length(other) + length.saturating_sub(end))?;
    Ok(value(bits_of(all).take(start).chain(bits_of(other)).chain(bits_of(all).skip(end))))
}

/// `get_bit(bits, place)`, from 0 on.
pub(super) fn bit(call: &Call<'_>) -> Result<Value, SqlError> {
    let place = index(call)?;
    Ok(Value::Int32(bits_of(call.bytes(0)).nth(place).map_or(0, i32::from)))
}

/// `set_bit(bits, place, bit)`.
pub(super) fn with_bit(call: &Call<'_>) -> Result<Value, SqlError> {
    let place = index(call)?;
    let new = match call.int(2) {
        0 => false,
        1 => true,
        _ => return Err(invalid("new bit must be 0 or 1")),
    };
    let bits = bits_of(call.bytes(0)).enumerate();
    Ok(value(bits.map(|(at, bit)| if at == place { new } else { bit })))
}

/// `bit_count(bits)`: how many are 1.
pub(super) fn ones(call: &Call<'_>) -> Result<Value, SqlError> {
    Ok(Value::Int64(bits_of(call.bytes(0)).map(i64::from).sum()))
}

/// The second argument as a place in the string.
fn index(call: &Call<'_>) -> Result<usize, SqlError> {
    let (place, length) = (call.int(1), bits_length(call.bytes(0)));
    usize::try_from(place).ok().filter(|&place| place < length).ok_or_else(|| {
        let message = format!("bit index {place} out of valid range (0..{})", length as i64 - 1);
        SqlError::new(SqlState::ArraySubscriptError, message)
    })
}
