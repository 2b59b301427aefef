// SPDX-License-Identifier: Apache-2.0
//! Errors of the parser as SQL errors, with the position in the statement.

use super::texts::word_as_postgres;
use crate::error::{SqlError, SqlState};
use coeval_tique::place_of_parser;
use datafusion::sql::sqlparser::parser::ParserError;

/// The parser's error about this text.
pub(crate) fn syntax_error(error: ParserError, sql: &str) -> SqlError {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => {
            return SqlError::new(SqlState::StatementTooComplex, "the statement is nested too deeply");
        }
    };
    let (text, place) = place_of_parser(&text);
    let error = SqlError::syntax(word_as_postgres(text));
    match place.and_then(|place| character_position(sql, place.line, place.column)) {
        Some(position) => error.with_position(position),
        None => error,
    }
}

/// The position in characters, from 1, of a line and column, both from 1; nothing if the text has no such line.
pub(crate) fn character_position(sql: &str, line: u64, column: u64) -> Option<usize> {
    if line == 0 || column == 0 {
        return None;
    }
    let mut lines = sql.split_inclusive('\n');
    let mut before = 0;
    for _ in 1..line {
        before += lines.next()?.chars().count();
    }
    Some(before + usize::try_from(column).ok()?)
}
