// SPDX-License-Identifier: Apache-2.0
//! Digests: `md5`, `sha256` ...

use super::call::{Call, text};
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::SqlError;
use crate::types::push_hex;
use coeval_store::{ColumnType, Value};
use md5_digests::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

const BYTEA: Takes = Takes::Type(ColumnType::Bytea);
const TEXT: Takes = Takes::Type(ColumnType::Text);

pub(super) const ENTRIES: &[Entry] = &[
    strict(
        "md5",
        &[
            Form::new(&[TEXT], ColumnType::Text, |call| in_hex(call, call.text(0).as_bytes())),
            Form::new(&[BYTEA], ColumnType::Text, |call| in_hex(call, call.bytes(0))),
        ],
    ),
    strict("sha224", &[Form::new(&[BYTEA], ColumnType::Bytea, bytes::<Sha224>)]),
    strict("sha256", &[Form::new(&[BYTEA], ColumnType::Bytea, bytes::<Sha256>)]),
    strict("sha384", &[Form::new(&[BYTEA], ColumnType::Bytea, bytes::<Sha384>)]),
    strict("sha512", &[Form::new(&[BYTEA], ColumnType::Bytea, bytes::<Sha512>)]),
];

/// What is digested between two looks.
const PIECE_BYTES: usize = 1 << 20;

fn digest<D: Digest>(call: &Call<'_>, bytes: &[u8]) -> Result<Vec<u8>, SqlError> {
    let mut digest = D::new();
    for piece in bytes.chunks(PIECE_BYTES) {
        call.meter.look()?;
        digest.update(piece);
    }
    Ok(digest.finalize().to_vec())
}

fn in_hex(call: &Call<'_>, bytes: &[u8]) -> Result<Value, SqlError> {
    let mut shown = String::new();
    push_hex(&digest::<Md5>(call, bytes)?, &mut shown);
    Ok(text(shown))
}

fn bytes<D: Digest>(call: &Call<'_>) -> Result<Value, SqlError> {
    Ok(Value::Bytes(digest::<D>(call, call.bytes(0))?.into()))
}
