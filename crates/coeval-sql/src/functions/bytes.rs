// SPDX-License-Identifier: Apache-2.0
//! Bits and bytes of `bytea`, and bytes as text in all its forms.

use super::bit_strings::{self, BIT, BITS};
use super::call::{Call, invalid, text};
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::{SqlError, SqlState};
use crate::types::{push_hex, read_hex};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coeval_store::{ColumnType, Value};
use std::borrow::Cow;

/// The function that counts bytes, behind `length`.
pub(crate) const BYTES_LENGTH: &str = "coeval_bytes_length";

const BYTEA: Takes = Takes::Type(ColumnType::Bytea);
const TEXT: Takes = Takes::Type(ColumnType::Text);
const INT: Takes = Takes::Type(ColumnType::Int);
const BIGINT: Takes = Takes::Type(ColumnType::BigInt);

pub(super) const ENTRIES: &[Entry] = &[
    strict(
        BYTES_LENGTH,
        &[Form::new(&[BYTEA], ColumnType::Int, |call| Ok(Value::Int32(call.bytes(0).len() as i32)))],
    ),
    strict("encode", &[Form::new(&[BYTEA, TEXT], ColumnType::Text, encoded)]),
    strict("decode", &[Form::new(&[TEXT, TEXT], ColumnType::Bytea, decoded)]),
    strict(
        "to_hex",
        &[
            Form::new(&[INT], ColumnType::Text, |call| Ok(text(format!("{:x}", call.int(0) as i32)))),
            Form::new(&[BIGINT], ColumnType::Text, |call| Ok(text(format!("{:x}", call.int(0))))),
        ],
    ),
    strict(
        "get_byte",
        &[Form::new(&[BYTEA, INT], ColumnType::Int, |call| {
            let place = place(call, call.bytes(0).len())?;
            Ok(Value::Int32(i32::from(call.bytes(0)[place])))
        })],
    ),
    strict(
        "set_byte",
        &[Form::new(&[BYTEA, INT, INT], ColumnType::Bytea, |call| {
            let place = place(call, call.bytes(0).len())?;
            let mut bytes: Box<[u8]> = call.bytes(0).into();
            bytes[place] = call.int(2) as u8;
            Ok(Value::Bytes(bytes))
        })],
    ),
    strict(
        "get_bit",
        &[
            Form::new(&[BYTEA, BIGINT], ColumnType::Int, |call| {
                let place = place(call, call.bytes(0).len() * 8)?;
                Ok(Value::Int32(i32::from(call.bytes(0)[place / 8] >> (place % 8) & 1)))
            }),
            Form::new(&[BITS, INT], ColumnType::Int, bit_strings::bit),
        ],
    ),
    strict(
        "set_bit",
        &[
            Form::new(&[BYTEA, BIGINT, INT], ColumnType::Bytea, with_bit),
            Form::new(&[BITS, INT, INT], BIT, bit_strings::with_bit),
        ],
    ),
    strict(
        "bit_count",
        &[
            Form::new(&[BYTEA], ColumnType::BigInt, |call| {
                let ones: u64 = call.bytes(0).iter().map(|byte| u64::from(byte.count_ones())).sum();
                Ok(Value::Int64(i64::try_from(ones).unwrap_or(i64::MAX)))
            }),
            Form::new(&[BITS], ColumnType::BigInt, bit_strings::ones),
        ],
    ),
    strict(
        "convert_from",
        &[Form::new(&[BYTEA, TEXT], ColumnType::Text, |call| {
            utf8(call.text(1))?;
            let decoded = std::str::from_utf8(call.bytes(0)).map_err(|error| {
                let at = error.valid_up_to();
                let message = format!("invalid byte sequence for encoding \"UTF8\" behind byte {at}");
                SqlError::new(SqlState::CharacterNotInRepertoire, message)
            })?;
            Ok(text(decoded))
        })],
    ),
    strict(
        "convert_to",
        &[Form::new(&[TEXT, TEXT], ColumnType::Bytea, |call| {
            utf8(call.text(1))?;
            Ok(Value::Bytes(call.text(0).as_bytes().into()))
        })],
    ),
];

/// Bytes that make a line of base64 as in mails: 76 letters.
const BASE64_LINE: usize = 57;

/// What is written or read between two looks: whole lines of base64, about a mebibyte.
const PIECE_BYTES: usize = BASE64_LINE << 14;

/// `encode(bytes, 'base64' | 'hex' | 'escape')`.
fn encoded(call: &Call<'_>) -> Result<Value, SqlError> {
    let push = match call.text(1).to_ascii_lowercase().as_str() {
        "base64" => push_base64,
        "hex" => push_hex,
        "escape" => push_escaped,
        other => return Err(unknown_form(other)),
    };
    let mut out = String::new();
    for piece in call.bytes(0).chunks(PIECE_BYTES) {
        call.meter.look()?;
        let before = out.len();
        push(piece, &mut out);
        call.meter.longer(before, out.len() - before)?;
    }
    Ok(text(out))
}

fn push_base64(bytes: &[u8], out: &mut String) {
    for line in bytes.chunks(BASE64_LINE) {
        if !out.is_empty() {
            out.push('\n');
        }
        STANDARD.encode_string(line, out);
    }
}

fn push_escaped(bytes: &[u8], out: &mut String) {
    for &byte in bytes {
        match byte {
            0 | 0x80.. => {
                out.push('\\');
                out.extend([byte >> 6, byte >> 3 & 7, byte & 7].map(|digit| char::from(b'0' + digit)));
            }
            b'\\' => out.push_str("\\\\"),
            other => out.push(char::from(other)),
        }
    }
}

/// `decode(text, 'base64' | 'hex' | 'escape')`; blanks do not count.
fn decoded(call: &Call<'_>) -> Result<Value, SqlError> {
    let written = call.text(0);
    let bytes = match call.text(1).to_ascii_lowercase().as_str() {
        "base64" => {
            STANDARD.decode(solid(call)?.as_bytes()).map_err(|_| invalid("invalid base64 end sequence"))?
        }
        "hex" => of_hex(call, solid(call)?.as_bytes())?,
        "escape" => match crate::types::parse_value(written, ColumnType::Bytea, call.zone)? {
            Value::Bytes(bytes) => bytes.into(),
            _ => return Err(SqlError::internal("bytes were expected")),
        },
        other => return Err(unknown_form(other)),
    };
    Ok(Value::Bytes(bytes.into()))
}

/// The text without its blanks.
fn solid<'a>(call: &'a Call<'_>) -> Result<Cow<'a, str>, SqlError> {
    let written = call.text(0);
    let may_be_blank = |byte: &u8| byte.is_ascii_whitespace() || !byte.is_ascii();
    let mut pieces = written.as_bytes().chunks(PIECE_BYTES);
    if pieces.all(|piece| !piece.iter().any(may_be_blank)) {
        return Ok(Cow::Borrowed(written));
    }
    let mut solid = String::new();
    for part in written.split_whitespace() {
        call.meter.step()?;
        call.meter.longer(solid.len(), part.len())?;
        solid.push_str(part);
    }
    Ok(Cow::Owned(solid))
}

fn of_hex(call: &Call<'_>, digits: &[u8]) -> Result<Vec<u8>, SqlError> {
    if !digits.len().is_multiple_of(2) {
        return Err(invalid("invalid hexadecimal data: odd number of digits"));
    }
    call.meter.value(digits.len() / 2)?;
    read_hex(digits, || call.meter.look())?.ok_or_else(|| invalid("invalid hexadecimal data"))
}

fn unknown_form(name: &str) -> SqlError {
    invalid(format!("unrecognized encoding: \"{name}\"")).with_hint("Use base64, hex or escape.")
}

/// The second argument as a place among so many.
fn place(call: &Call<'_>, count: usize) -> Result<usize, SqlError> {
    let place = call.int(1);
    usize::try_from(place).ok().filter(|&place| place < count).ok_or_else(|| {
        let message = format!("index {place} out of valid range, 0..{}", count as i64 - 1);
        SqlError::new(SqlState::ArraySubscriptError, message)
    })
}

fn with_bit(call: &Call<'_>) -> Result<Value, SqlError> {
    let place = place(call, call.bytes(0).len() * 8)?;
    let mask = 1_u8 << (place % 8);
    let mut bytes: Box<[u8]> = call.bytes(0).into();
    match call.int(2) {
        0 => bytes[place / 8] &= !mask,
        1 => bytes[place / 8] |= mask,
        _ => return Err(invalid("new bit must be 0 or 1")),
    }
    Ok(Value::Bytes(bytes))
}

/// Texts are UTF-8, and nothing is converted.
fn utf8(name: &str) -> Result<(), SqlError> {
    if name.eq_ignore_ascii_case("utf8") || name.eq_ignore_ascii_case("utf-8") {
        return Ok(());
    }
    Err(SqlError::unsupported(format_args!("encoding \"{name}\"")).with_hint("Use UTF8."))
}
