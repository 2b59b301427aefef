// SPDX-License-Identifier: Apache-2.0
//! Patterns of `SIMILAR TO`, and of `substring(x SIMILAR pattern ESCAPE escape)`.

use crate::error::{SqlError, SqlState};

/// How much repeated parts of a pattern take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Most,
    Least,
}

/// The pattern as a regular expression of the whole text: `%` and `_` stand for any letters and any letter,
/// `| * + ? {m,n} ( ) [ ]` are those of regular expressions, and all else is itself.
///
/// # Errors
/// `22025` for an escape of several letters.
pub(super) fn as_regular(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let escape = escape_letter(escape)?;
    Ok(format!("^(?s:{})$", written(pattern, escape, Takes::Most)))
}

/// The pattern as a regular expression of the whole text, whose only group is the part between the two places at which the escape
/// stands before a double quote; behind the one if there is one, and all if there is none. What stands before the part takes as
/// little as it can.
///
/// # Errors
/// As [`as_regular`], and for more than two such places.
pub(super) fn as_part(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let escape = escape_letter(escape)?;
    let parts = divided(pattern, escape);
    let most = |part: &String| written(part, escape, Takes::Most);
    let least = |part: &String| written(part, escape, Takes::Least);
    let inner = match parts.as_slice() {
        [whole] => format!("({})", most(whole)),
        [before, part] => format!("(?:{})({})", least(before), most(part)),
        [before, part, behind] => format!("(?:{})({})(?:{})", least(before), most(part), most(behind)),
        _ => {
            let message =
                "SQL regular expression may not contain more than two escape-double-quote separators";
            return Err(SqlError::new(SqlState::InvalidEscapeSequence, message));
        }
    };
    Ok(format!("^(?s:{inner})$"))
}

fn escape_letter(escape: &str) -> Result<Option<char>, SqlError> {
    let mut letters = escape.chars();
    let letter = letters.next();
    if letters.next().is_some() {
        return Err(SqlError::new(SqlState::InvalidEscapeSequence, "invalid escape string")
            .with_hint("Escape string must be empty or one character."));
    }
    Ok(letter)
}

/// The parts of a pattern between which the escape stands before a double quote.
fn divided(pattern: &str, escape: Option<char>) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let escaped = if Some(letter) == escape { letters.next() } else { None };
        if escaped == Some('"') {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(letter);
            part.extend(escaped);
        }
    }
    parts
}

fn written(pattern: &str, escape: Option<char>, takes: Takes) -> String {
    let mut written = String::with_capacity(pattern.len());
    let lazy = if takes == Takes::Least { "?" } else { "" };
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
                '%' => {
                    written.push_str(".*");
                    written.push_str(lazy);
                }
                '_' => written.push('.'),
                '(' => written.push_str("(?:"),
                '*' | '+' | '?' | '}' => {
                    written.push(letter);
                    written.push_str(lazy);
                }
                '[' | '|' | '{' | ')' => written.push(letter),
                other => push_itself(other, &mut written),
            }
        }
    }
    written
}

fn push_itself(letter: char, out: &mut String) {
    out.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_between_the_marks_is_the_group() {
        assert_eq!(as_part("%#\"o_b#\"%", "#").unwrap(), "^(?s:(?:.*?)(o.b)(?:.*))$");
        assert_eq!(as_part("a#\"b+", "#").unwrap(), "^(?s:(?:a)(b+))$");
        assert_eq!(as_part("a|b", "#").unwrap(), "^(?s:(a|b))$");
        assert!(as_part("#\"#\"#\"", "#").is_err());
        assert_eq!(as_regular("a%##", "#").unwrap(), "^(?s:a.*\\#)$");
    }
}
