// SPDX-License-Identifier: Apache-2.0
//! Values as the protocol carries them: parameters from the engine's values, numbers out of answers.

use bytes::{BufMut, BytesMut};
use coeval::Value;
use std::error::Error;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type};

/// Microseconds from 1970 to 2000, where the protocol's timestamps begin.
const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;

/// Digits behind the point of every decimal that a workload sends: all of them are money.
const MONEY_SCALE: u32 = 2;

/// A value on its way to a server.
#[derive(Debug)]
pub(super) struct Parameter<'a>(pub(super) &'a Value);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self.0, ty) {
            (Value::Null, _) => return Ok(IsNull::Yes),
            (Value::Int32(number), &Type::INT4) => out.put_i32(*number),
            (Value::Int32(number), &Type::INT8) => out.put_i64(i64::from(*number)),
            (Value::Int64(number), &Type::INT8) => out.put_i64(*number),
            (Value::Int64(microseconds), &Type::TIMESTAMP) => out.put_i64(microseconds - EPOCH_MICROSECONDS),
            (Value::Decimal(unscaled), &Type::NUMERIC) => put_money(*unscaled, out),
            (Value::Text(text), &Type::TEXT | &Type::VARCHAR | &Type::BPCHAR) => {
                out.put_slice(text.as_bytes())
            }
            (value, ty) => return Err(format!("no workload sends {value:?} as {ty}").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_ty: &Type) -> bool {
        // It depends on the value, which only `to_sql` sees.
        true
    }

    fn encode_format(&self, ty: &Type) -> Format {
        if *ty == Type::NUMERIC { Format::Text } else { Format::Binary }
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(ty, out)
    }
}

/// Cents as a decimal with two digits.
fn put_money(cents: i128, out: &mut BytesMut) {
    let one = 10u128.pow(MONEY_SCALE);
    let sign = if cents < 0 { "-" } else { "" };
    let (whole, rest) = (cents.unsigned_abs() / one, cents.unsigned_abs() % one);
    out.put_slice(format!("{sign}{whole}.{rest:02}").as_bytes());
}

/// A whole number, or a decimal without its point: 12.50 is 1250.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) i64);

impl<'a> FromSql<'a> for Number {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        match *ty {
            Type::INT2 => i16::from_sql(ty, raw).map(|number| Self(number.into())),
            Type::INT4 => i32::from_sql(ty, raw).map(|number| Self(number.into())),
            Type::INT8 => i64::from_sql(ty, raw).map(Self),
            _ => unscaled(raw).map(Self).ok_or_else(|| "not a decimal that fits".into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC)
    }
}

/// The protocol's decimals are digits to the base 10,000: their count, the power of the first, the sign, the number of
/// decimal digits behind the point, then the digits.
fn unscaled(raw: &[u8]) -> Option<i64> {
    const NEGATIVE: i64 = 0x4000;
    let mut words = raw.chunks_exact(2).map(|word| i64::from(u16::from_be_bytes([word[0], word[1]])));
    let (count, weight, sign, scale) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if sign > NEGATIVE {
        // Not a number, or an infinite one.
        return None;
    }
    // The weight alone has a sign of its own.
    let weight = i64::from(weight as u16 as i16);
    let mut digits: i128 = 0;
    for _ in 0..count {
        digits = digits.checked_mul(10_000)?.checked_add(words.next()?.into())?;
    }
    // The power of ten of the last digit's unit, counted in units of the scale.
    let power = 4 * (weight - (count - 1)) + scale;
    let size = 10i128.checked_pow(u32::try_from(power.abs()).ok()?)?;
    let number = if power >= 0 { digits.checked_mul(size)? } else { digits / size };
    i64::try_from(if sign == NEGATIVE { -number } else { number }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(value: &Value, ty: &Type) -> Vec<u8> {
        let mut out = BytesMut::new();
        Parameter(value).to_sql(ty, &mut out).unwrap();
        out.to_vec()
    }

    #[test]
    fn money_is_sent_with_two_digits() {
        for (cents, text) in [(12_345, "123.45"), (-7, "-0.07"), (0, "0.00"), (-123_400, "-1234.00")] {
            assert_eq!(sent(&Value::Decimal(cents), &Type::NUMERIC), text.as_bytes());
        }
    }

    #[test]
    fn whole_numbers_take_the_width_of_their_column_and_times_begin_in_2000() {
        assert_eq!(sent(&Value::Int32(-2), &Type::INT4), (-2i32).to_be_bytes());
        assert_eq!(sent(&Value::Int32(-2), &Type::INT8), (-2i64).to_be_bytes());
        assert_eq!(sent(&Value::Int64(EPOCH_MICROSECONDS + 5), &Type::TIMESTAMP), 5i64.to_be_bytes());
        let wrong = Parameter(&Value::Int32(1)).to_sql(&Type::BOOL, &mut BytesMut::new());
        assert!(wrong.is_err());
    }

    /// Words as PostgreSQL's `numeric_send` writes them.
    fn decimal(words: &[i16]) -> Result<Number, Box<dyn Error + Sync + Send>> {
        let raw: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        Number::from_sql(&Type::NUMERIC, &raw)
    }

    #[test]
    fn decimals_come_without_their_point() {
        // 123.45; -10.00; 0.0007; 300000.00; 0.00; 0.12 of a scale of 4.
        assert_eq!(decimal(&[2, 0, 0, 2, 123, 4_500]).unwrap(), Number(12_345));
        assert_eq!(decimal(&[1, 0, 0x4000, 2, 10]).unwrap(), Number(-1_000));
        assert_eq!(decimal(&[1, -1, 0, 4, 7]).unwrap(), Number(7));
        assert_eq!(decimal(&[1, 1, 0, 2, 30]).unwrap(), Number(30_000_000));
        assert_eq!(decimal(&[0, 0, 0, 2]).unwrap(), Number(0));
        assert_eq!(decimal(&[1, -1, 0, 4, 1_200]).unwrap(), Number(1_200));
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        assert!(decimal(&[0, 0, 0xc000u16 as i16, 0]).is_err(), "NaN");
        assert!(decimal(&[3, 0, 0, 2, 1]).is_err(), "digits are missing");
        assert!(Number::from_sql(&Type::NUMERIC, &[0]).is_err());
    }
}
