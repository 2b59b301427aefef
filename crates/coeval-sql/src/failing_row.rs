// SPDX-License-Identifier: Apache-2.0
//! The error of a change that a constraint refuses, with the row that it refuses.

use crate::error::{Secrets, SqlError, SqlState, TableName};
use crate::types::format_value;
use chrono_tz::Tz;
use coeval_store::{ConstraintError, StoreError, TableDef, ValueRef};

/// The error of a change, with the row in its detail where PostgreSQL shows it. Who may not read the table is shown what the
/// statement itself said: the columns of `given`, which it assigns or lists.
pub(crate) fn refused<'v>(
    error: StoreError,
    def: &TableDef,
    given: &[usize],
    value: impl Fn(usize) -> ValueRef<'v>,
    zone: Tz,
) -> SqlError {
    // A domain refuses a value, and knows no row.
    let is_of_value = matches!(
        &error,
        StoreError::Constraint(ConstraintError::DomainNull { .. } | ConstraintError::DomainCheck { .. })
    );
    let error = SqlError::from(error);
    if is_of_value || !matches!(error.state, SqlState::NotNullViolation | SqlState::CheckViolation) {
        return error;
    }
    with_row(error, def, given, value, zone)
}

/// An error with the row in its detail that it is about, as [`refused`] shows it.
pub(crate) fn with_row<'v>(
    error: SqlError,
    def: &TableDef,
    given: &[usize],
    value: impl Fn(usize) -> ValueRef<'v>,
    zone: Tz,
) -> SqlError {
    let shown = def.live_columns().map(|(column, definition)| {
        let mut text = String::new();
        match value(column) {
            ValueRef::Null => text.push_str("null"),
            value => format_value(value, definition.ty, zone, &mut text),
        }
        (column, definition.name.as_str(), shorten(text))
    });
    let shown: Vec<_> = shown.collect();
    let values: Vec<&str> = shown.iter().map(|(.., value)| value.as_str()).collect();
    error.with_detail(format!("Failing row contains ({}).", values.join(", "))).with_secrets(Secrets {
        tables: vec![TableName::Space(def.id)],
        session: None,
        instead: of_given(&shown, given),
    })
}

/// What is said of these columns of a row alone, each with its place, name and value; nothing of none.
fn of_given(shown: &[(usize, &str, String)], given: &[usize]) -> Option<String> {
    let known = shown.iter().filter(|(column, ..)| given.contains(column));
    let (names, values): (Vec<&str>, Vec<&str>) =
        known.map(|(_, name, value)| (*name, value.as_str())).unzip();
    (!names.is_empty())
        .then(|| format!("Failing row contains ({}) = ({}).", names.join(", "), values.join(", ")))
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
