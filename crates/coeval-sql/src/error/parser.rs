// SPDX-License-Identifier: Apache-2.0
//! Errors of the parser as SQL errors, with the position in the statement.

use crate::error::{SqlError, SqlState};
use datafusion::sql::sqlparser::parser::ParserError;

/// The parser's error about this text.
pub(crate) fn syntax_error(error: ParserError, sql: &str) -> SqlError {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => {
            return SqlError::new(SqlState::StatementTooComplex, "the statement is nested too deeply");
        }
    };
    let (text, place) = split_place(&text);
    let message = word_as_postgres(text);
    let error = SqlError::syntax(message);
    match place {
        Some((line, column)) => match character_position(sql, line, column) {
            Some(position) => error.with_position(position),
            None => error,
        },
        None => error,
    }
}

/// `text at Line: 1, Column: 7` in its parts.
fn split_place(text: &str) -> (&str, Option<(u64, u64)>) {
    let Some((head, tail)) = text.rsplit_once(" at Line: ") else {
        return (text, None);
    };
    let place = tail
        .split_once(", Column: ")
        .and_then(|(line, column)| Some((line.trim().parse().ok()?, column.trim().parse().ok()?)));
    (head, place)
}

/// `Expected: an expression, found: FROM` as `syntax error at or near "FROM"`.
fn word_as_postgres(text: &str) -> String {
    match text.split_once(", found: ") {
        Some((_, "EOF")) => "syntax error at end of input".to_owned(),
        Some((expected, found)) => {
            let expected = expected.strip_prefix("Expected: ").unwrap_or(expected);
            format!("syntax error at or near \"{found}\": expected {expected}")
        }
        None => format!("syntax error: {text}"),
    }
}

/// The position in characters, from 1, of a line and column, both from 1; nothing if the text has no such line.
pub(crate) fn character_position(sql: &str, line: u64, column: u64) -> Option<usize> {
    if line == 0 || column == 0 {
        return None;
    }
    let lines_before = usize::try_from(line).ok()? - 1;
    let before: Vec<_> = sql.split_inclusive('\n').take(lines_before).collect();
    // Of another text, which has more lines.
    if before.len() < lines_before {
        return None;
    }
    let before: usize = before.into_iter().map(|line| line.chars().count()).sum();
    Some(before + usize::try_from(column).ok()?)
}
