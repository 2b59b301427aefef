// SPDX-License-Identifier: Apache-2.0
//! Places in a log: how far two are apart, a place so many bytes away, and the place that a number names.

use super::call::{Call, invalid};
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::SqlError;
use coeval_store::{ColumnType, NUMERIC_PRECISION_MAX, Value, kept_place, place_of};

const PLACE: Takes = Takes::Type(ColumnType::PgLsn);

/// The function behind the difference of two places.
pub(crate) const PLACE_DISTANCE: &str = "pg_wal_lsn_diff";
/// The function behind the sum of a place and a number of bytes.
pub(crate) const PLACE_AFTER: &str = "coeval_place_after";
/// The function behind the difference of a place and a number of bytes.
pub(crate) const PLACE_BEFORE: &str = "coeval_place_before";

/// A whole `numeric`: the distance of two places may be more than a `bigint` counts.
const WHOLE: ColumnType = ColumnType::Numeric { precision: NUMERIC_PRECISION_MAX, scale: 0 };

pub(super) const ENTRIES: &[Entry] = &[
    strict(
        PLACE_DISTANCE,
        &[Form::new(&[PLACE, PLACE], WHOLE, |call| {
            Ok(Value::Decimal(i128::from(place(call)) - i128::from(place_of(call.int(1)))))
        })],
    ),
    strict(
        PLACE_AFTER,
        &[Form::new(&[PLACE, Takes::Numeric], ColumnType::PgLsn, |call| {
            moved(place(call), call.decimal(1), 1)
        })],
    ),
    strict(
        PLACE_BEFORE,
        &[Form::new(&[PLACE, Takes::Numeric], ColumnType::PgLsn, |call| {
            moved(place(call), call.decimal(1), -1)
        })],
    ),
    strict(
        "pg_lsn",
        &[
            // A text is read, and is no number.
            Form::new(&[PLACE], ColumnType::PgLsn, |call| Ok(Value::Int64(call.int(0)))),
            Form::new(&[Takes::Numeric], ColumnType::PgLsn, |call| moved(0, call.decimal(0), 1)),
        ],
    ),
];

fn place(call: &Call<'_>) -> u64 {
    place_of(call.int(0))
}

/// The place that is so many bytes behind `place`, or in front of it if `sign` is -1. Parts of bytes are rounded in the sum, half
/// away from zero.
///
/// # Errors
/// `22023` if there is no such place.
fn moved(place: u64, (bytes, scale): (i128, i8), sign: i128) -> Result<Value, SqlError> {
    let no_place = || invalid("pg_lsn out of range");
    let unit = 10_i128.checked_pow(u32::try_from(scale).unwrap_or_default()).ok_or_else(no_place)?;
    let bytes = bytes * sign;
    let (whole, part) = (bytes.div_euclid(unit), bytes.rem_euclid(unit));
    let below = i128::from(place).checked_add(whole).ok_or_else(no_place)?;
    // A half below zero goes down, away from zero.
    let is_up = part > unit - part || (part == unit - part && below >= 0);
    let place = u64::try_from(below + i128::from(is_up)).map_err(|_| no_place())?;
    Ok(Value::Int64(kept_place(place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved_to(place: u64, bytes: (i128, i8), sign: i128) -> Option<u64> {
        match moved(place, bytes, sign) {
            Ok(Value::Int64(kept)) => Some(place_of(kept)),
            _ => None,
        }
    }

    #[test]
    fn parts_of_bytes_are_rounded_half_away_from_zero_and_there_is_no_place_beyond_the_ends() {
        assert_eq!(moved_to(16, (15, 1), 1), Some(18));
        assert_eq!(moved_to(16, (5, 1), -1), Some(16));
        assert_eq!(moved_to(16, (6, 1), -1), Some(15));
        assert_eq!(moved_to(0, (4, 1), -1), Some(0));
        assert_eq!(moved_to(0, (5, 1), -1), None);
        assert_eq!(moved_to(0, (6, 1), -1), None);
        assert_eq!(moved_to(16, (17, 0), -1), None);
        assert_eq!(moved_to(0, (i128::from(u64::MAX), 0), 1), Some(u64::MAX));
        assert_eq!(moved_to(1, (i128::from(u64::MAX), 0), 1), None);
    }
}
