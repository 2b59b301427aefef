// SPDX-License-Identifier: Apache-2.0
//! The error of a change that a constraint refuses, with the row that it refuses.

use crate::error::{SqlError, SqlState};
use crate::types::format_value;
use chrono_tz::Tz;
use coeval_store::{StoreError, TableDef, ValueRef};

/// The error of a change, with the row in its detail where PostgreSQL shows it.
pub(crate) fn refused<'v>(
    error: StoreError,
    def: &TableDef,
    value: impl Fn(usize) -> ValueRef<'v>,
    zone: Tz,
) -> SqlError {
    let error = SqlError::from(error);
    if !matches!(error.state, SqlState::NotNullViolation | SqlState::CheckViolation) {
        return error;
    }
    let shown = def.live_columns().map(|(column, definition)| {
        let mut text = String::new();
        match value(column) {
            ValueRef::Null => text.push_str("null"),
            value => format_value(value, definition.ty, zone, &mut text),
        }
        shorten(text)
    });
    let shown: Vec<String> = shown.collect();
    error.with_detail(format!("Failing row contains ({}).", shown.join(", ")))
}

/// Longer values are cut in messages, as PostgreSQL cuts them.
const SHOWN_BYTES_MAX: usize = 64;

fn shorten(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        let end = (0..=SHOWN_BYTES_MAX).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}
