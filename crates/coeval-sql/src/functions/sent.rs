// SPDX-License-Identifier: Apache-2.0
//! Values as bytes, as the protocol sends them in its binary format: `int8send`, `float8send`, `uuid_send` ...

use super::call::Call;
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::SqlError;
use crate::types::encode_binary;
use coeval_store::{ColumnType, Value};

const fn sent(takes: &'static [Takes]) -> Form {
    Form::new(takes, ColumnType::Bytea, bytes)
}

pub(super) const ENTRIES: &[Entry] = &[
    strict("boolsend", &[sent(&[Takes::Type(ColumnType::Boolean)])]),
    strict("bit_send", &[sent(&[Takes::Type(ColumnType::Bit(None))])]),
    strict("varbit_send", &[sent(&[Takes::Type(ColumnType::Varbit(None))])]),
    strict("byteasend", &[sent(&[Takes::Type(ColumnType::Bytea)])]),
    strict("date_send", &[sent(&[Takes::Type(ColumnType::Date)])]),
    strict("float4send", &[sent(&[Takes::Type(ColumnType::Real)])]),
    strict("float8send", &[sent(&[Takes::Type(ColumnType::Double)])]),
    strict("int2send", &[sent(&[Takes::Type(ColumnType::SmallInt)])]),
    strict("int4send", &[sent(&[Takes::Type(ColumnType::Int)])]),
    strict("int8send", &[sent(&[Takes::Type(ColumnType::BigInt)])]),
    strict("interval_send", &[sent(&[Takes::Type(ColumnType::Interval)])]),
    strict("numeric_send", &[sent(&[Takes::Type(ColumnType::AnyNumeric)])]),
    strict("textsend", &[sent(&[Takes::Type(ColumnType::Text)])]),
    strict("time_send", &[sent(&[Takes::Type(ColumnType::Time)])]),
    strict("timestamp_send", &[sent(&[Takes::Type(ColumnType::Timestamp)])]),
    strict("timestamptz_send", &[sent(&[Takes::Type(ColumnType::TimestampTz)])]).stable(),
    strict("timetz_send", &[sent(&[Takes::Type(ColumnType::TimeTz)])]),
    strict("uuid_send", &[sent(&[Takes::Type(ColumnType::Uuid)])]),
];

fn bytes(call: &Call<'_>) -> Result<Value, SqlError> {
    let mut bytes = Vec::new();
    encode_binary(call.values[0], call.types[0], &mut bytes)?;
    Ok(Value::Bytes(bytes.into()))
}
