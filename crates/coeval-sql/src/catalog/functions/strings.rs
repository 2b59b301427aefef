// SPDX-License-Identifier: Apache-2.0
//! Names of the types of values, patterns.

use super::{Entry, Gives, called, strict};
use crate::error::SqlError;
use crate::functions::escape_letter;
use crate::types::{column_type_of_field, facts, facts_of_arrow};

pub(super) const ENTRIES: &[Entry] = &[
    called("pg_typeof", 1..=1, Gives::Text, |call| {
        let known = column_type_of_field(&call.fields[0]);
        if let Some(known) = known.filter(|known| known.user_type().is_some()) {
            return Ok(known.to_string().into());
        }
        let oid = known.map_or_else(|| facts_of_arrow(&call.arguments[0].data_type()), facts).oid;
        Ok(super::type_names::formatted(oid, None).into())
    }),
    strict("coeval_like_pattern", 2..=2, Gives::Text, |call| {
        Ok(like_pattern(call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default())?.into())
    }),
];

/// A pattern of LIKE with another escape than the backslash, written with that.
///
/// # Errors
/// `22025` for an escape of several letters.
fn like_pattern(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let escape = escape_letter(escape)?;
    let mut written = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if Some(letter) == escape {
            written.push('\\');
            written.extend(letters.next());
        } else if letter == '\\' {
            written.push_str("\\\\");
        } else {
            written.push(letter);
        }
    }
    Ok(written)
}
