// SPDX-License-Identifier: Apache-2.0
//! Columns whose times have fewer than six digits of seconds: `timestamp(p)`, `time(p)`, `interval(p)`.
//!
//! They are kept like all times. What is written into such a column is rounded on its way, whoever writes it.

use crate::catalog::{ColumnDef, TableDef};
use crate::column::ColumnBuilder;
use crate::error::StoreError;
use crate::row::Row;
use crate::table::{RowRef, Table};
use crate::types::ColumnType;
use crate::value::{IntervalValue, Value, ValueRef, kept_zoned_time, value_at, zoned_time_of};
use arrow::array::{ArrayRef, RecordBatch};

/// The digits of seconds that every time has.
pub const SECOND_DIGITS_MAX: u8 = 6;

const NANOS_PER_MICRO: i64 = 1_000;

/// 2000-01-01 in microseconds since 1970. Half a unit is rounded away from it, as in PostgreSQL, whose times count from there.
const YEAR_2000: i64 = 946_684_800_000_000;

impl ColumnDef {
    /// To how many digits of seconds its values are rounded; `None` if they stay as they are.
    fn rounds_to(&self) -> Option<u8> {
        self.second_digits.filter(|digits| *digits < SECOND_DIGITS_MAX && !self.is_dropped())
    }

    /// Whether what is written into it may become another value on the way: it is generated, or rounds its times.
    #[must_use]
    pub fn is_made_on_write(&self) -> bool {
        self.generated.is_some() || self.rounds_to().is_some()
    }

    /// A value of the column's type as the column keeps it, with no more digits of seconds than were declared.
    #[must_use]
    pub fn rounded(&self, value: Value) -> Value {
        self.rounded_otherwise(value.borrow()).unwrap_or(value)
    }

    /// The value that the column keeps instead of this one; `None` if it keeps this one.
    fn rounded_otherwise(&self, value: ValueRef<'_>) -> Option<Value> {
        let unit = 10_i64.pow(u32::from(SECOND_DIGITS_MAX - self.rounds_to()?));
        match (value, self.ty) {
            // Infinity has no digits.
            (ValueRef::Int64(i64::MIN | i64::MAX), _) => None,
            (ValueRef::Int64(micros), ColumnType::Timestamp | ColumnType::TimestampTz) => {
                let kept = round(micros.saturating_sub(YEAR_2000), unit).saturating_add(YEAR_2000);
                (kept != micros).then_some(Value::Int64(kept))
            }
            (ValueRef::Int64(micros), ColumnType::Time) => {
                let kept = round(micros, unit);
                (kept != micros).then_some(Value::Int64(kept))
            }
            (ValueRef::Bytes(time), ColumnType::TimeTz) => {
                let (micros, west) = zoned_time_of(time);
                let kept = round(micros, unit);
                (kept != micros).then(|| Value::Bytes(kept_zoned_time(kept, west).into()))
            }
            (ValueRef::Interval(interval), ColumnType::Interval) => {
                let micros = round(interval.nanoseconds / NANOS_PER_MICRO, unit);
                let nanoseconds = micros.saturating_mul(NANOS_PER_MICRO);
                (nanoseconds != interval.nanoseconds)
                    .then_some(Value::Interval(IntervalValue { nanoseconds, ..interval }))
            }
            _ => None,
        }
    }
}

/// Half a unit goes away from zero.
fn round(micros: i64, unit: i64) -> i64 {
    let half = unit / 2;
    let away = if micros < 0 { micros.saturating_sub(half) } else { micros.saturating_add(half) };
    away / unit * unit
}

/// The row as the table keeps it, its generated columns aside.
pub(crate) fn rounded_row(table: &Table, row: Row) -> Row {
    let def = table.def();
    let mut changed = Vec::new();
    for (index, column) in def.columns.iter().enumerate() {
        let value = row.get(def.layout(), index).and_then(|value| column.rounded_otherwise(value));
        changed.extend(value.map(|value| (index, value)));
    }
    if changed.is_empty() {
        return row;
    }
    RowRef::of_row(def, table.missing(), &row).with(&changed)
}

/// The rows as the table keeps them, its generated columns aside.
///
/// # Errors
/// If the batch's columns are not those of the definition.
pub(crate) fn rounded_batch(def: &TableDef, batch: RecordBatch) -> Result<RecordBatch, StoreError> {
    if def.columns.iter().all(|column| column.rounds_to().is_none()) {
        return Ok(batch);
    }
    let columns = def.columns.iter().zip(batch.columns());
    let columns = columns.map(|(column, array)| rounded_array(column, array));
    Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
}

fn rounded_array(column: &ColumnDef, array: &ArrayRef) -> ArrayRef {
    if column.rounds_to().is_none() {
        return array.clone();
    }
    let mut builder = ColumnBuilder::new(column.ty, array.len());
    for index in 0..array.len() {
        let value = value_at(array, index);
        let kept = column.rounded_otherwise(value);
        builder.push(kept.as_ref().map_or(value, Value::borrow));
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(ty: ColumnType, digits: u8) -> ColumnDef {
        ColumnDef { second_digits: Some(digits), ..ColumnDef::new("at", ty) }
    }

    #[test]
    fn halves_go_away_from_the_year_2000_and_infinity_stays() {
        let seconds = column(ColumnType::Timestamp, 0);
        let kept = |micros| seconds.rounded(Value::Int64(micros));
        assert_eq!(kept(YEAR_2000 + 1_500_000), Value::Int64(YEAR_2000 + 2_000_000));
        assert_eq!(kept(YEAR_2000 - 1_500_000), Value::Int64(YEAR_2000 - 2_000_000));
        assert_eq!(kept(YEAR_2000 + 1_499_999), Value::Int64(YEAR_2000 + 1_000_000));
        assert_eq!(kept(i64::MAX), Value::Int64(i64::MAX));
        assert_eq!(kept(i64::MIN), Value::Int64(i64::MIN));
    }

    #[test]
    fn the_last_moment_of_a_day_becomes_its_end() {
        let time = column(ColumnType::Time, 3);
        assert_eq!(time.rounded(Value::Int64(86_399_999_600)), Value::Int64(86_400_000_000));
        let all = column(ColumnType::Time, 6);
        assert_eq!(all.rounded(Value::Int64(86_399_999_600)), Value::Int64(86_399_999_600));
    }

    #[test]
    fn days_and_months_of_an_interval_stay() {
        let interval = column(ColumnType::Interval, 1);
        let of = |nanoseconds| Value::Interval(IntervalValue { months: 1, days: 2, nanoseconds });
        assert_eq!(interval.rounded(of(-1_250_000_000)), of(-1_300_000_000));
        assert_eq!(interval.rounded(Value::Null), Value::Null);
    }
}
