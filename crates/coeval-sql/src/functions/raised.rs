// SPDX-License-Identifier: Apache-2.0
//! The error of a subquery that was run before anybody asked for its value, raised where a row asks for that.

use super::call::Call;
use super::choice::{Form, Takes};
use super::{Entry, called};
use crate::error::{SqlError, SqlState};
use coeval_store::ColumnType;

/// The function that fails with its arguments: a SQLSTATE, the message, and the detail and the hint where there are some.
pub(crate) const RAISED: &str = "coeval_raised";

const TEXT: Takes = Takes::Type(ColumnType::Text);

const FORMS: &[Form] = &[Form::new(&[TEXT; 4], ColumnType::Text, |call| Err(error(call)))];

pub(super) const ENTRIES: &[Entry] = &[called(RAISED, FORMS).volatile()];

fn error(call: &Call<'_>) -> SqlError {
    let Some(state) = SqlState::of_code(call.text(0)) else {
        return SqlError::internal(format!("{} of no SQLSTATE", call.name));
    };
    let mut error = SqlError::new(state, call.text(1));
    if call.has(2) {
        error = error.with_detail(call.text(2));
    }
    if call.has(3) {
        error = error.with_hint(call.text(3));
    }
    error
}
