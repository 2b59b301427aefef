// SPDX-License-Identifier: Apache-2.0
//! Values as messages show them, in PostgreSQL's words where Arrow has others. Instants are shown as in Greenwich.

use crate::column::ColumnBuilder;
use crate::types::ColumnType;
use crate::value::{ValueRef, bits_of, place_of, zoned_time_of};

/// A value of a column of this type.
pub(crate) fn described(ty: ColumnType, value: ValueRef<'_>) -> String {
    match (ty, value) {
        (_, ValueRef::Null) => return "null".to_owned(),
        (_, ValueRef::Number(number)) => return number.to_string(),
        (_, ValueRef::Boolean(truth)) => return if truth { "t" } else { "f" }.to_owned(),
        (ColumnType::Enum(ty), ValueRef::Int64(place)) => {
            return ty.def().label_at(place).unwrap_or_default().to_owned();
        }
        (ColumnType::Bit(_) | ColumnType::Varbit(_), ValueRef::Bytes(kept)) => {
            return bits_of(kept).map(|bit| if bit { '1' } else { '0' }).collect();
        }
        (ColumnType::TimeTz, ValueRef::Bytes(kept)) => {
            let (micros, west) = zoned_time_of(kept);
            return described(ColumnType::Time, ValueRef::Int64(micros)) + &offset(-west);
        }
        (ColumnType::PgLsn, ValueRef::Int64(kept)) => {
            let place = place_of(kept);
            return format!("{:X}/{:X}", place >> 32, place & 0xffff_ffff);
        }
        (ColumnType::Timestamp | ColumnType::TimestampTz, ValueRef::Int64(i64::MAX))
        | (ColumnType::Date, ValueRef::Int32(i32::MAX)) => return "infinity".to_owned(),
        (ColumnType::Timestamp | ColumnType::TimestampTz, ValueRef::Int64(i64::MIN))
        | (ColumnType::Date, ValueRef::Int32(i32::MIN)) => return "-infinity".to_owned(),
        _ => {}
    }
    let mut builder = ColumnBuilder::new(ty.stored(), 1);
    builder.push(value);
    let array = builder.finish();
    match arrow::util::display::array_value_to_string(&array, 0) {
        Ok(shown) => as_postgres(ty, &shown),
        Err(_) => value.to_string(),
    }
}

fn as_postgres(ty: ColumnType, shown: &str) -> String {
    match ty {
        ColumnType::Time => without_zeros(shown).to_owned(),
        ColumnType::Timestamp => without_zeros(shown).replacen('T', " ", 1),
        ColumnType::TimestampTz => {
            let time = without_zeros(shown.trim_end_matches('Z')).replacen('T', " ", 1);
            format!("{time}+00")
        }
        ColumnType::Bytea => format!("\\x{shown}"),
        _ => shown.to_owned(),
    }
}

/// `+02`, `-03:30`, `+00:53:28`, of so many seconds east of Greenwich.
fn offset(east: i32) -> String {
    let (sign, seconds) = (if east < 0 { '-' } else { '+' }, east.unsigned_abs());
    let mut shown = format!("{sign}{:02}", seconds / 3_600);
    if seconds % 3_600 != 0 {
        shown.push_str(&format!(":{:02}", seconds / 60 % 60));
    }
    if seconds % 60 != 0 {
        shown.push_str(&format!(":{:02}", seconds % 60));
    }
    shown
}

/// A time without the zeros at the end of its fraction.
fn without_zeros(time: &str) -> &str {
    if time.contains('.') { time.trim_end_matches('0').trim_end_matches('.') } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{kept_bits, kept_place, kept_zoned_time};

    #[test]
    fn moments_places_and_bytes_are_shown_as_postgresql_does() {
        let moment = ValueRef::Int64(1_767_225_600_500_000);
        assert_eq!(described(ColumnType::Timestamp, moment), "2026-01-01 00:00:00.5");
        assert_eq!(described(ColumnType::TimestampTz, moment), "2026-01-01 00:00:00.5+00");
        assert_eq!(described(ColumnType::Timestamp, ValueRef::Int64(0)), "1970-01-01 00:00:00");
        assert_eq!(described(ColumnType::Timestamp, ValueRef::Int64(i64::MAX)), "infinity");
        assert_eq!(described(ColumnType::Time, ValueRef::Int64(3_600_250_000)), "01:00:00.25");
        assert_eq!(described(ColumnType::PgLsn, ValueRef::Int64(kept_place(0x1_0000_001F))), "1/1F");
        assert_eq!(described(ColumnType::Bytea, ValueRef::Bytes(&[0xDE, 0xAD])), "\\xdead");
        let zoned = kept_zoned_time(3_600_250_000, 12_600);
        assert_eq!(described(ColumnType::TimeTz, ValueRef::Bytes(&zoned)), "01:00:00.25-03:30");
        let bits = kept_bits([true, false, false]);
        assert_eq!(described(ColumnType::Bit(Some(3)), ValueRef::Bytes(&bits)), "100");
        assert_eq!(described(ColumnType::Int, ValueRef::Null), "null");
    }
}
