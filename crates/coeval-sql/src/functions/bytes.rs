// SPDX-License-Identifier: Apache-2.0
//! Bits and bytes of `bytea`, and bytes as text in all its forms.

use super::call::{Call, invalid, text};
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::{SqlError, SqlState};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coeval_store::{ColumnType, Value};

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
        &[Form::new(&[BYTEA, BIGINT], ColumnType::Int, |call| {
            let place = place(call, call.bytes(0).len() * 8)?;
            Ok(Value::Int32(i32::from(call.bytes(0)[place / 8] >> (place % 8) & 1)))
        })],
    ),
    strict("set_bit", &[Form::new(&[BYTEA, BIGINT, INT], ColumnType::Bytea, with_bit)]),
    strict(
        "bit_count",
        &[Form::new(&[BYTEA], ColumnType::BigInt, |call| {
            let ones: u64 = call.bytes(0).iter().map(|byte| u64::from(byte.count_ones())).sum();
            Ok(Value::Int64(i64::try_from(ones).unwrap_or(i64::MAX)))
        })],
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

/// Letters of base64 on a line, as in mails.
const BASE64_LINE: usize = 76;

/// `encode(bytes, 'base64' | 'hex' | 'escape')`.
fn encoded(call: &Call<'_>) -> Result<Value, SqlError> {
    let bytes = call.bytes(0);
    Ok(text(match call.text(1).to_ascii_lowercase().as_str() {
        "base64" => {
            let letters = STANDARD.encode(bytes);
            let lines: Vec<&str> = (0..letters.len().div_ceil(BASE64_LINE))
                .map(|line| &letters[line * BASE64_LINE..letters.len().min((line + 1) * BASE64_LINE)])
                .collect();
            lines.join("\n")
        }
        "hex" => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        "escape" => bytes
            .iter()
            .map(|byte| match byte {
                0 | 0x80.. => format!("\\{byte:03o}"),
                b'\\' => "\\\\".to_owned(),
                other => char::from(*other).to_string(),
            })
            .collect(),
        other => return Err(unknown_form(other)),
    }))
}

/// `decode(text, 'base64' | 'hex' | 'escape')`; blanks do not count.
fn decoded(call: &Call<'_>) -> Result<Value, SqlError> {
    let written = call.text(0);
    let solid: String = written.chars().filter(|letter| !letter.is_whitespace()).collect();
    let bytes = match call.text(1).to_ascii_lowercase().as_str() {
        "base64" => STANDARD.decode(&solid).map_err(|_| invalid("invalid base64 end sequence"))?,
        "hex" => {
            let is_odd = !solid.len().is_multiple_of(2);
            let pairs = (0..solid.len()).step_by(2).map(|at| solid.get(at..at + 2));
            let byte = |pair: Option<&str>| pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
            let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
            match bytes {
                Some(bytes) => bytes,
                None if is_odd => return Err(invalid("invalid hexadecimal data: odd number of digits")),
                None => return Err(invalid("invalid hexadecimal data")),
            }
        }
        "escape" => match crate::types::parse_value(written, ColumnType::Bytea, call.zone)? {
            Value::Bytes(bytes) => bytes.into(),
            _ => return Err(SqlError::internal("bytes were expected")),
        },
        other => return Err(unknown_form(other)),
    };
    Ok(Value::Bytes(bytes.into()))
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
