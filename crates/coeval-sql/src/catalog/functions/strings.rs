// SPDX-License-Identifier: Apache-2.0
//! Functions of text that DataFusion has not: quoting, type names of values.

use super::{Entry, Gives, called, strict};
use crate::catalog::identifiers::{literal, quoted};
use crate::catalog::types::facts_of_arrow;
use crate::error::{SqlError, SqlState};
use datafusion::common::ScalarValue;

pub(super) const ENTRIES: &[Entry] = &[
    strict("quote_ident", 1..=1, Gives::Text, |call| Ok(call.text(0).map(quoted).into())),
    strict("quote_literal", 1..=1, Gives::Text, |call| {
        Ok(text(&call.arguments[0]).map(|text| literal(&text)).into())
    }),
    called("quote_nullable", 1..=1, Gives::Text, |call| {
        Ok(text(&call.arguments[0]).map_or_else(|| "NULL".to_owned(), |text| literal(&text)).into())
    }),
    called("pg_typeof", 1..=1, Gives::Text, |call| {
        let oid = facts_of_arrow(&call.arguments[0].data_type()).oid;
        Ok(super::type_names::formatted(oid, None).into())
    }),
    strict("coeval_like_pattern", 2..=2, Gives::Text, |call| {
        Ok(like_pattern(call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default()).into())
    }),
    strict("coeval_similar_pattern", 2..=2, Gives::Text, |call| {
        let (pattern, escape) = (call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default());
        similar_pattern(pattern, escape).map(Into::into)
    }),
];

fn text(value: &ScalarValue) -> Option<String> {
    (!value.is_null()).then(|| match value.try_as_str() {
        Some(Some(text)) => text.to_owned(),
        _ => value.to_string(),
    })
}

/// A pattern of LIKE with another escape than the backslash, written with that.
fn like_pattern(pattern: &str, escape: &str) -> String {
    let escape = escape.chars().next();
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
    written
}

/// A pattern of SIMILAR TO as a regular expression of the whole text: `%` and `_` stand for any letters and any letter,
/// `| * + ? {m,n} ( ) [ ]` are those of regular expressions, and all else is itself.
fn similar_pattern(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let mut escapes = escape.chars();
    let escape = escapes.next();
    if escapes.next().is_some() {
        return Err(SqlError::new(SqlState::InvalidEscapeSequence, "invalid escape string")
            .with_hint("Escape string must be empty or one character."));
    }
    let mut written = "^(?s:".to_owned();
    let mut letters = pattern.chars();
    let mut in_brackets = false;
    while let Some(letter) = letters.next() {
        if Some(letter) == escape {
            let itself = letters.next().unwrap_or(letter);
            written.push_str(&regex_of(itself));
        } else if in_brackets {
            in_brackets = letter != ']';
            if letter == '\\' || letter == '[' {
                written.push('\\');
            }
            written.push(letter);
        } else {
            match letter {
                '%' => written.push_str(".*"),
                '_' => written.push('.'),
                '(' => written.push_str("(?:"),
                '[' => {
                    in_brackets = true;
                    written.push('[');
                }
                '|' | '*' | '+' | '?' | '{' | '}' | ')' => written.push(letter),
                other => written.push_str(&regex_of(other)),
            }
        }
    }
    written.push_str(")$");
    Ok(written)
}

/// The regular expression of one letter.
fn regex_of(letter: char) -> String {
    if letter.is_alphanumeric() || letter.is_whitespace() || !letter.is_ascii() {
        letter.to_string()
    } else {
        format!("\\{letter}")
    }
}
