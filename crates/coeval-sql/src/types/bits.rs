// SPDX-License-Identifier: Apache-2.0
//! Bit strings: their texts, their bytes on the wire, their lengths, and the integers that they are cast from and to. What is kept of
//! one is said by [`kept_bits`].

use super::casts::CastContext;
use super::names::type_name;
use crate::cancel;
use crate::error::{SqlError, SqlState};
use coeval_store::{ColumnType, bits_length, bits_of, kept_bits};

/// Bits that are read between two looks whether the statement is to end.
const BITS_PIECE: usize = 1 << 20;

/// How many bits a string has at most, as in PostgreSQL: an integer counts them.
const BITS_MAX: usize = 2_147_483_640;

/// The bits that a text stands for, as they are kept: digits of base two, or of base sixteen behind an `x`.
///
/// # Errors
/// `22P02` for what is no such digit, `54000` for too many; that of a cancelled statement.
pub(crate) fn read_bits(text: &str) -> Result<Vec<u8>, SqlError> {
    let (digits, is_hexadecimal) = match text.as_bytes().first() {
        Some(b'b' | b'B') => (&text[1..], false),
        Some(b'x' | b'X') => (&text[1..], true),
        _ => (text, false),
    };
    let (base, kind, places) = if is_hexadecimal { (16, "hexadecimal", 4) } else { (2, "binary", 1) };
    require_length(digits.len().saturating_mul(places))?;
    for (number, digit) in digits.chars().enumerate() {
        if number.is_multiple_of(BITS_PIECE) {
            cancel::check()?;
        }
        if !digit.is_digit(base) {
            let message = format!("\"{digit}\" is not a valid {kind} digit");
            return Err(SqlError::new(SqlState::InvalidTextRepresentation, message));
        }
    }
    // The bits of a long text are never all there, each with a byte of its own.
    let values = digits.chars().filter_map(|digit| digit.to_digit(base));
    Ok(kept_bits(values.flat_map(|value| (0..places).rev().map(move |place| value >> place & 1 == 1))))
}

/// Refuses more bits than there may be in a string.
///
/// # Errors
/// `54000`.
pub(crate) fn require_length(bits: usize) -> Result<(), SqlError> {
    if bits <= BITS_MAX {
        return Ok(());
    }
    let message = format!("bit string length exceeds the maximum allowed ({BITS_MAX})");
    Err(SqlError::new(SqlState::ProgramLimitExceeded, message))
}

/// Appends the digits of base two.
pub(crate) fn push_bits(kept: &[u8], out: &mut String) {
    out.extend(bits_of(kept).map(|bit| if bit { '1' } else { '0' }));
}

/// A bit string as one of this type: an explicit cast cuts it off, and fills a `bit(n)` up with zeros behind it.
///
/// # Errors
/// `22026` and `22001` where the cast is not explicit and the length is not one of the type.
pub(crate) fn fit_bits(kept: Vec<u8>, to: ColumnType, context: CastContext) -> Result<Vec<u8>, SqlError> {
    let length = bits_length(&kept);
    let (most, is_exact) = match to {
        ColumnType::Bit(Some(most)) => (most as usize, true),
        ColumnType::Varbit(Some(most)) => (most as usize, false),
        _ => return Ok(kept),
    };
    if length == most || (length < most && !is_exact) {
        return Ok(kept);
    }
    if context == CastContext::Explicit {
        return Ok(kept_bits(bits_of(&kept).chain(std::iter::repeat(false)).take(most)));
    }
    Err(match is_exact {
        true => {
            let message = format!("bit string length {length} does not match type {to}");
            SqlError::new(SqlState::StringDataLengthMismatch, message)
        }
        false => {
            let message = format!("bit string too long for type {to}");
            SqlError::new(SqlState::StringDataRightTruncation, message)
        }
    })
}

/// The last bits of an integer, in two's complement, as many as the type says, or one.
pub(crate) fn bits_of_integer(value: i64, to: ColumnType) -> Vec<u8> {
    let count = if let ColumnType::Bit(Some(count)) = to { count } else { 1 };
    // Beyond the integer are more of its sign.
    kept_bits((0..count).rev().map(|place| value >> place.min(i64::BITS - 1) & 1 == 1))
}

/// The integer whose last bits these are, in two's complement if there are as many as it has.
///
/// # Errors
/// `22003` for more.
pub(crate) fn integer_of_bits(kept: &[u8], to: ColumnType) -> Result<i64, SqlError> {
    let most = if to == ColumnType::BigInt { i64::BITS } else { i32::BITS };
    if bits_length(kept) > most as usize {
        let message = format!("{} out of range", type_name(to));
        return Err(SqlError::new(SqlState::NumericValueOutOfRange, message));
    }
    let bits = bits_of(kept).fold(0_u64, |bits, bit| bits << 1 | u64::from(bit));
    // Of an `int` the lower half is taken, with the sign that it has.
    Ok(if to == ColumnType::BigInt { bits.cast_signed() } else { i64::from(bits as i32) })
}

/// The type of a literal `B'...'` or `X'...'`, and of a bit string that stands beside another one: of any length.
pub(crate) const fn without_length(ty: ColumnType) -> ColumnType {
    match ty {
        ColumnType::Bit(_) => ColumnType::Bit(None),
        ColumnType::Varbit(_) => ColumnType::Varbit(None),
        ty => ty,
    }
}

/// Appends how many bits there are and, eight in a byte, the bits.
///
/// # Errors
/// `54000` for more bits than the number counts.
pub(crate) fn encode_bits(kept: &[u8], out: &mut Vec<u8>) -> Result<(), SqlError> {
    let length = i32::try_from(bits_length(kept)).map_err(|_| {
        SqlError::new(SqlState::ProgramLimitExceeded, "bit string length exceeds the maximum allowed")
    })?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend(packed(kept));
    Ok(())
}

/// The bits, eight in a byte and zeros behind the last one.
fn packed(kept: &[u8]) -> Vec<u8> {
    let mut packed = vec![0; bits_length(kept).div_ceil(8)];
    for (place, bit) in bits_of(kept).enumerate() {
        packed[place / 8] |= u8::from(bit) << (7 - place % 8);
    }
    packed
}

/// What [`encode_bits`] has written; `None` for other bytes.
pub(crate) fn decode_bits(bytes: &[u8]) -> Option<Vec<u8>> {
    let (length, packed) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    if packed.len() != length.div_ceil(8) {
        return None;
    }
    Some(kept_bits((0..length).map(|place| packed[place / 8] >> (7 - place % 8) & 1 == 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kept: &[u8]) -> String {
        let mut text = String::new();
        push_bits(kept, &mut text);
        text
    }

    #[test]
    fn texts_of_both_bases_are_read() {
        for (given, shown) in [("101", "101"), ("b0", "0"), ("X1f", "00011111"), ("", ""), ("x", "")] {
            assert_eq!(text(&read_bits(given).unwrap()), shown, "{given}");
        }
        for (given, message) in [
            ("102", "\"2\" is not a valid binary digit"),
            ("1 ", "\" \" is not a valid binary digit"),
            ("xä", "\"ä\" is not a valid hexadecimal digit"),
        ] {
            assert_eq!(read_bits(given).unwrap_err().message, message);
        }
    }

    #[test]
    fn an_integer_counts_the_bits_of_a_string() {
        assert!(require_length(2_147_483_640).is_ok());
        let error = require_length(2_147_483_641).unwrap_err();
        assert_eq!(error.state, SqlState::ProgramLimitExceeded);
        assert_eq!(error.message, "bit string length exceeds the maximum allowed (2147483640)");
    }

    #[test]
    fn integers_have_the_bits_of_twos_complement() {
        let all_ones = "1".repeat(70);
        for (value, length, shown) in
            [(44, 10, "0000101100"), (44, 3, "100"), (-44, 12, "111111010100"), (-1, 70, all_ones.as_str())]
        {
            let kept = bits_of_integer(value, ColumnType::Bit(Some(length)));
            assert_eq!(text(&kept), shown);
            if length <= i32::BITS {
                assert!(integer_of_bits(&kept, ColumnType::Int).is_ok());
            }
        }
        let ones = |count: usize| kept_bits(std::iter::repeat_n(true, count));
        assert_eq!(integer_of_bits(&ones(32), ColumnType::Int).unwrap(), -1);
        assert_eq!(integer_of_bits(&ones(32), ColumnType::BigInt).unwrap(), i64::from(u32::MAX));
        assert_eq!(integer_of_bits(&ones(64), ColumnType::BigInt).unwrap(), -1);
        assert_eq!(integer_of_bits(&ones(33), ColumnType::Int).unwrap_err().message, "integer out of range");
    }

    /// The bytes are those of PostgreSQL's `bit_send`.
    #[test]
    fn bytes_on_the_wire_have_eight_bits() {
        for (given, bytes) in [
            ("", &[0, 0, 0, 0][..]),
            ("10101", &[0, 0, 0, 5, 0xA8][..]),
            ("101010101", &[0, 0, 0, 9, 0xAA, 0x80][..]),
        ] {
            let kept = read_bits(given).unwrap();
            let mut out = Vec::new();
            encode_bits(&kept, &mut out).unwrap();
            assert_eq!(out, bytes);
            assert_eq!(decode_bits(&out), Some(kept));
        }
        // Bits behind the last one do not count.
        assert_eq!(decode_bits(&[0, 0, 0, 1, 0xFF]), Some(read_bits("1").unwrap()));
        for bad in [&[0, 0, 0][..], &[0, 0, 0, 9, 1], &[0xFF, 0xFF, 0xFF, 0xFF], &[0, 0, 0, 1, 1, 1]] {
            assert_eq!(decode_bits(bad), None, "{bad:?}");
        }
    }
}
