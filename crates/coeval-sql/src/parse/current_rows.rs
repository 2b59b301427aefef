// SPDX-License-Identifier: Apache-2.0
//! `UPDATE t SET ... WHERE CURRENT OF cursor`, the row at which a cursor stands. A cursor has its rows collected here, and does not
//! know where they came from.

use super::{is_space, is_word};
use crate::error::SqlError;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

/// Refuses it before the parser takes CURRENT for a column.
///
/// # Errors
/// `0A000`.
pub(super) fn refuse_current_rows(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    if !tokens.iter().any(|token| is_word(token, "current")) {
        return Ok(());
    }
    let words: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_space(token)).collect();
    let is_clause = |words: &[&TokenWithSpan]| {
        words.iter().zip(["where", "current", "of"]).all(|(token, word)| is_word(token, word))
    };
    if words.windows(3).any(is_clause) {
        let hint = "Name the row by its key, and lock it by FOR UPDATE in the query of the cursor.";
        return Err(SqlError::unsupported("WHERE CURRENT OF").with_hint(hint));
    }
    Ok(())
}
