// SPDX-License-Identifier: Apache-2.0
//! Arrays as parameters: their types' numbers, and their binary form as the text that statements read.

use super::oid;
use super::rows::write_list_element;
use crate::protocol::frontend::violation;
use chrono_tz::Tz;
use coeval::{ColumnType, SqlError, SqlState, format_value};
use coeval_sql::decode_binary;

/// The type of the elements of an array type, by its number; `None` if it is no array type that parameters can have.
pub(crate) fn element_of(array: u32) -> Option<ColumnType> {
    Some(match array {
        1000 => ColumnType::Boolean,
        1001 => ColumnType::Bytea,
        1005 => ColumnType::SmallInt,
        1007 | 1028 => ColumnType::Int,
        1016 => ColumnType::BigInt,
        1003 | 1009 | 1014 | 1015 => ColumnType::Text,
        1021 => ColumnType::Real,
        1022 => ColumnType::Double,
        1115 => ColumnType::Timestamp,
        1182 => ColumnType::Date,
        1183 => ColumnType::Time,
        1185 => ColumnType::TimestampTz,
        1187 => ColumnType::Interval,
        1231 => super::parameters::ANY_NUMERIC,
        1270 => ColumnType::TimeTz,
        1561 => ColumnType::Bit(None),
        1563 => ColumnType::Varbit(None),
        2951 => ColumnType::Uuid,
        3221 => ColumnType::PgLsn,
        199 => ColumnType::Json,
        3807 => ColumnType::Jsonb,
        _ => return None,
    })
}

/// The type of an element as the bytes of an array number it.
fn element_type(number: u32) -> Result<ColumnType, SqlError> {
    Ok(match number {
        oid::BOOL => ColumnType::Boolean,
        oid::BYTEA => ColumnType::Bytea,
        oid::INT2 => ColumnType::SmallInt,
        oid::INT4 | 26 => ColumnType::Int,
        oid::INT8 => ColumnType::BigInt,
        oid::FLOAT4 => ColumnType::Real,
        oid::FLOAT8 => ColumnType::Double,
        oid::NUMERIC => ColumnType::AnyNumeric,
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | 705 => ColumnType::Text,
        oid::JSON => ColumnType::Json,
        oid::JSONB => ColumnType::Jsonb,
        oid::BIT => ColumnType::Bit(None),
        oid::VARBIT => ColumnType::Varbit(None),
        oid::DATE => ColumnType::Date,
        oid::TIME => ColumnType::Time,
        oid::TIMETZ => ColumnType::TimeTz,
        oid::TIMESTAMP => ColumnType::Timestamp,
        oid::TIMESTAMPTZ => ColumnType::TimestampTz,
        oid::INTERVAL => ColumnType::Interval,
        oid::UUID => ColumnType::Uuid,
        oid::PG_LSN => ColumnType::PgLsn,
        // The labels of an enum.
        number if number >= oid::FIRST_OF_USERS => ColumnType::Text,
        other => {
            let message = format!("arrays of the type with number {other} are not supported");
            return Err(SqlError::new(SqlState::FeatureNotSupported, message));
        }
    })
}

/// The bytes that are left of a value.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], SqlError> {
        let malformed = || violation("insufficient data left in message");
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn int(&mut self) -> Result<i32, SqlError> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }
}

/// The text of an array in binary form.
///
/// # Errors
/// `08P01` for bytes that are no array, `0A000` for one of several dimensions, what the type says of an element.
pub(crate) fn text_of_binary(bytes: &[u8], zone: Tz) -> Result<String, SqlError> {
    let mut bytes = Bytes(bytes);
    let dimensions = bytes.int()?;
    let _has_nulls = bytes.int()?;
    let element = u32::from_be_bytes(bytes.int()?.to_be_bytes());
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = bytes.int()?;
            let _first = bytes.int()?;
            count
        }
        _ => return Err(SqlError::unsupported("an array of several dimensions as a parameter")),
    };
    let mut out = vec![b'{'];
    let mut text = String::new();
    for number in 0..count {
        if number > 0 {
            out.push(b',');
        }
        let length = bytes.int()?;
        if length < 0 {
            out.extend_from_slice(b"NULL");
            continue;
        }
        let value = bytes.take(length as usize)?;
        let ty = element_type(element)?;
        let value = decode_binary(value, ty)?;
        text.clear();
        format_value(value.borrow(), ty, zone, &mut text);
        write_list_element(&text, &mut out);
    }
    if !bytes.0.is_empty() {
        return Err(violation("incorrect binary data format in bind parameter"));
    }
    out.push(b'}');
    Ok(String::from_utf8(out).expect("elements are text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(element: u32, members: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&1_i32.to_be_bytes());
        bytes.extend_from_slice(&0_i32.to_be_bytes());
        bytes.extend_from_slice(&element.to_be_bytes());
        bytes.extend_from_slice(&(members.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&1_i32.to_be_bytes());
        for member in members {
            match member {
                None => bytes.extend_from_slice(&(-1_i32).to_be_bytes()),
                Some(member) => {
                    bytes.extend_from_slice(&(member.len() as u32).to_be_bytes());
                    bytes.extend_from_slice(member);
                }
            }
        }
        bytes
    }

    #[test]
    fn arrays_in_binary_form_become_text() {
        let text = |bytes: &[u8]| text_of_binary(bytes, Tz::UTC).unwrap();
        let ints = array(oid::INT4, &[Some(&7_i32.to_be_bytes()), None, Some(&(-1_i32).to_be_bytes())]);
        assert_eq!(text(&ints), "{7,NULL,-1}");
        let texts = array(oid::TEXT, &[Some(b"a"), Some(b"b c"), Some(b""), Some(b"NULL"), Some(b"q\"\\")]);
        assert_eq!(text(&texts), "{a,\"b c\",\"\",\"NULL\",\"q\\\"\\\\\"}");
        // 1.50: one digit of 10,000 before the point, one behind, two digits shown.
        let numeric = [0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88];
        assert_eq!(text(&array(oid::NUMERIC, &[Some(&numeric)])), "{1.50}");
        let empty = [&0_i32.to_be_bytes()[..], &0_i32.to_be_bytes(), &oid::INT4.to_be_bytes()].concat();
        assert_eq!(text(&empty), "{}");
    }

    #[test]
    fn bytes_that_are_no_array_are_refused() {
        let whole = array(oid::INT4, &[Some(&7_i32.to_be_bytes())]);
        for end in 0..whole.len() {
            assert!(text_of_binary(&whole[..end], Tz::UTC).is_err(), "cut at {end}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert!(text_of_binary(&longer, Tz::UTC).is_err());
        let mut many = whole.clone();
        many[12..16].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(text_of_binary(&many, Tz::UTC).is_err());
        let mut deep = whole;
        deep[..4].copy_from_slice(&2_i32.to_be_bytes());
        assert_eq!(text_of_binary(&deep, Tz::UTC).unwrap_err().state, SqlState::FeatureNotSupported);
    }
}
