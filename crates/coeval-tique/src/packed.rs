// SPDX-License-Identifier: Apache-2.0
//! The concatenated key (3.2.5) as one number, where all of a key's columns are integers of 128 bits together at most.
//!
//! ```text
//! key of (a, b, c) = (a * 2^bits(b) + b) * 2^bits(c) + c        bits: smallint 16, int 32, bigint 64
//! ```
//! **Different keys have different numbers, in the keys' order.** Of `n` bits a column has values from `-2^(n-1)` to
//! `2^(n-1) - 1`, so what stands behind a column differs by less than `2^n` in all, and one step of the column is worth
//! `2^n`. **Nothing overflows** where no column of 64 bits or four of 32 are at their minimum, which MonetDB cannot store: its
//! integers keep it for NULL. What overflows or is outside of its column's type has no number here.

use crate::engine::Dialect;
use crate::literal::Row;
use crate::schema::{Column, Definition};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::DataType;

/// So many bits a key's number has.
const BITS_MAX: u32 = 128;

/// The bits of a column of integers; nothing for other types.
pub(crate) fn bits(column: &Column) -> Option<u32> {
    match column.kind {
        DataType::SmallInt(_) | DataType::Int2(_) => Some(16),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Some(32),
        DataType::BigInt(_) | DataType::Int8(_) => Some(64),
        _ => None,
    }
}

/// Whether the keys of a table have numbers.
pub(crate) fn fits(table: &Definition) -> bool {
    let sum: Option<u32> = table.key.iter().map(|&column| bits(&table.columns[column])).sum();
    sum.is_some_and(|sum| sum > 0 && sum <= BITS_MAX)
}

/// Whether the one column of a table's keys is a number in new tables of an engine.
pub(crate) fn is_kept(table: &Definition, dialect: &Dialect) -> bool {
    table.has_key_column() && dialect.integers.wide().is_some() && fits(table)
}

/// The number of a row's key; nothing if a value is not one of its column's, or NULL.
pub(crate) fn packed(table: &Definition, row: &Row) -> Option<i128> {
    let part = |&column: &usize| Some((integer(&row[column])?, bits(&table.columns[column])?));
    pack(table.key.iter().map(part).collect::<Option<Vec<_>>>()?)
}

/// The number of a key whose columns have these values and bits (16, 32 or 64). For those who write rows into the storage tables
/// of an engine with numbers for keys themselves.
///
/// Nothing if a value does not fit its bits, or all of them do not fit 128.
#[must_use]
pub fn pack(parts: impl IntoIterator<Item = (i64, u32)>) -> Option<i128> {
    parts.into_iter().try_fold(0_i128, |key, (value, bits)| {
        let half = 1_i128.checked_shl(bits.checked_sub(1)?)?;
        let value = i128::from(value);
        if value < -half || value >= half {
            return None;
        }
        // A first column of 128 bits would do too, but there is no such type.
        key.checked_mul(2 * half)?.checked_add(value)
    })
}

fn integer(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        // The engine computes some values in types of its own.
        other => match other.cast_to(&arrow::datatypes::DataType::Int64) {
            Ok(ScalarValue::Int64(value)) => value,
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests;
