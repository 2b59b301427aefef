// SPDX-License-Identifier: Apache-2.0
//! What fuzzers call (`tests/fuzz`): the readers of what clients send, on any bytes.
//!
//! A function returns whatever the bytes are, and panics only if a reader is wrong.

use crate::auth::scram::{Exchange, Mechanisms};
use crate::protocol::frontend::{Bind, Frontend};
use crate::protocol::input::{Input, MessageLimit};
use crate::protocol::startup::Opening;
use crate::types::{WireType, bound_values, declared_types, described_types};
use chrono_tz::Tz;
use coeval::{ColumnType, ElementType};
use coeval_sql::Verifier;
use std::sync::{Arc, OnceLock};

/// The types that parameters have, one after the other.
const TYPES: [ColumnType; 22] = [
    ColumnType::BigInt,
    ColumnType::Text,
    ColumnType::Numeric { precision: 38, scale: 10 },
    ColumnType::Timestamp,
    ColumnType::Array(ElementType::Int),
    ColumnType::Jsonb,
    ColumnType::Interval,
    ColumnType::Date,
    ColumnType::Int,
    ColumnType::SmallInt,
    ColumnType::Real,
    ColumnType::Double,
    ColumnType::Boolean,
    ColumnType::Bytea,
    ColumnType::Varbit(None),
    ColumnType::Time,
    ColumnType::TimeTz,
    ColumnType::TimestampTz,
    ColumnType::Uuid,
    ColumnType::PgLsn,
    ColumnType::Json,
    ColumnType::Char(3),
];

/// What a client sends: the first byte says whether it opens a connection, has one, or proves a password.
pub fn wire(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 3 {
        0 => drop(Opening::read(bytes)),
        1 => messages(bytes),
        _ => password(bytes),
    }
}

fn messages(bytes: &[u8]) {
    let mut input = Input::of(bytes, MessageLimit(1 << 20));
    while let Ok(Some(frame)) = input.frame() {
        match Frontend::read(frame.kind, frame.body) {
            Ok(Frontend::Bind(bind)) => values(&bind),
            Ok(Frontend::Parse { types, .. }) => {
                drop(declared_types(types.iter(), |_| None));
                drop(described_types(types.iter(), std::iter::empty()));
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// The values of a Bind message, as parameters of all types.
fn values(bind: &Bind<'_>) {
    let count = bind.values.len().min(4 * TYPES.len());
    let types: Vec<ColumnType> = TYPES.iter().copied().cycle().take(count).collect();
    let told: Vec<u32> = types.iter().map(|ty| WireType::of(*ty).oid).collect();
    for zone in [Tz::UTC, Tz::Europe__Lisbon] {
        drop(bound_values(bind, &types, &told, zone));
    }
    for index in 0..bind.values.len() {
        bind.result_formats.of(index);
    }
}

/// The two messages of a client that proves a password, a zero byte between them, and before them the mechanism that it has
/// chosen and another zero byte.
fn password(bytes: &[u8]) {
    static VERIFIER: OnceLock<Verifier> = OnceLock::new();
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (name, first, last) = (next(), next(), next());
    for certificate in [None, Some(Arc::from(b"digest".as_slice()))] {
        let Some(channel) = Mechanisms::new(certificate).chosen(name) else { continue };
        let verifier = VERIFIER.get_or_init(|| Verifier::salted("pencil", b"salt of a test".to_vec()));
        let Ok(first) = std::str::from_utf8(first) else { continue };
        let Ok(exchange) = Exchange::begin_with(verifier.clone(), &channel, first, "ours") else { continue };
        assert!(exchange.finish(&String::from_utf8_lossy(last)).is_err(), "nobody guesses a proof");
    }
}
