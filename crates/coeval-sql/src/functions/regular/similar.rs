// SPDX-License-Identifier: Apache-2.0
//! Patterns of `SIMILAR TO`.

use crate::error::{SqlError, SqlState};

/// The pattern as a regular expression of the whole text: `%` and `_` stand for any letters and any letter,
/// `| * + ? {m,n} ( ) [ ]` are those of regular expressions, and all else is itself.
///
/// # Errors
/// `22025` for an escape of several letters.
pub(super) fn as_regular(pattern: &str, escape: &str) -> Result<String, SqlError> {
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
            push_itself(letters.next().unwrap_or(letter), &mut written);
        } else if in_brackets {
            in_brackets = letter != ']';
            // These are special in brackets to the crate alone.
            if matches!(letter, '\\' | '[' | '&' | '~') {
                written.push('\\');
            }
            written.push(letter);
        } else {
            in_brackets = letter == '[';
            match letter {
                '%' => written.push_str(".*"),
                '_' => written.push('.'),
                '(' => written.push_str("(?:"),
                '[' | '|' | '*' | '+' | '?' | '{' | '}' | ')' => written.push(letter),
                other => push_itself(other, &mut written),
            }
        }
    }
    written.push_str(")$");
    Ok(written)
}

fn push_itself(letter: char, out: &mut String) {
    out.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4])));
}
