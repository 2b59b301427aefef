// SPDX-License-Identifier: Apache-2.0
//! `(doc -> 'price')::int`: the number or the truth value that a `jsonb` is. Of a number with a fraction an integer is the nearest one.

use super::call::Call;
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::{SqlError, SqlState};
use crate::types::any_numeric::parse_number;
use crate::types::json::{Kind, Part};
use coeval_store::{ColumnType, Value};

/// The function that gives the number that a document is; its second argument is the name of the type that was asked for.
pub(crate) const DOCUMENT_NUMBER: &str = "coeval_jsonb_number";

/// The same for truth values.
pub(crate) const DOCUMENT_TRUTH: &str = "coeval_jsonb_truth";

const TAKES: &[Takes] = &[Takes::Type(ColumnType::Text), Takes::Type(ColumnType::Text)];

pub(super) const ENTRIES: &[Entry] = &[
    strict(DOCUMENT_NUMBER, &[Form::new(TAKES, ColumnType::AnyNumeric, number)]),
    strict(DOCUMENT_TRUTH, &[Form::new(TAKES, ColumnType::Boolean, truth)]),
];

fn number(call: &Call<'_>) -> Result<Value, SqlError> {
    let document = Part::of(call.text(0));
    match document.kind() {
        Kind::Number => parse_number(document.text()).map(Value::Number),
        other => Err(no_cast(other, call)),
    }
}

fn truth(call: &Call<'_>) -> Result<Value, SqlError> {
    let document = Part::of(call.text(0));
    match document.kind() {
        Kind::Boolean => Ok(Value::Boolean(document.text() == "true")),
        other => Err(no_cast(other, call)),
    }
}

/// `22023` for a document that is something else than what its cast is to give.
fn no_cast(kind: Kind, call: &Call<'_>) -> SqlError {
    let kind = if kind == Kind::Number { "numeric" } else { kind.name() };
    let message = format!("cannot cast jsonb {kind} to type {}", call.text(1));
    SqlError::new(SqlState::InvalidParameterValue, message)
}
