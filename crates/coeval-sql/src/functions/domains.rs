// SPDX-License-Identifier: Apache-2.0
//! Values on their way into a domain, which casts to it are made of.

use super::call::Call;
use super::choice::{Form, Takes};
use super::{Entry, called};
use crate::column_name::IN_DOMAIN;
use crate::error::{SqlError, SqlState};
use crate::types::column_type_of_arrow;
use coeval_store::{ColumnType, Value, ValueRef};

const TEXT: Takes = Takes::Type(ColumnType::Text);

pub(super) const ENTRIES: &[Entry] = &[called(
    IN_DOMAIN,
    &[Form::new(&[Takes::Any, Takes::Type(ColumnType::Boolean), TEXT, TEXT], ColumnType::Text, in_domain)
        .giving(|types, _| types.first().and_then(column_type_of_arrow).unwrap_or(ColumnType::Text))],
)];

/// The value, if the condition is not false.
///
/// # Errors
/// `23514` for a check, `23502` for NULL in a domain that refuses it.
fn in_domain(call: &Call<'_>) -> Result<Value, SqlError> {
    if !matches!(call.values.get(1), Some(ValueRef::Boolean(false))) {
        return Ok(call.values.first().map_or(Value::Null, |value| (*value).to_owned()));
    }
    let (check, domain) = (call.text(2), call.text(3));
    if check.is_empty() {
        let message = format!("domain {domain} does not allow null values");
        return Err(SqlError::new(SqlState::NotNullViolation, message));
    }
    let message = format!("value for domain {domain} violates check constraint \"{check}\"");
    Err(SqlError::new(SqlState::CheckViolation, message))
}
