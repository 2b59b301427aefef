// SPDX-License-Identifier: Apache-2.0
//! Patterns of `SIMILAR TO`, and of `substring(x SIMILAR pattern ESCAPE escape)`.

use crate::error::{SqlError, SqlState};

/// The pattern as a regular expression of the whole text: `%` and `_` stand for any letters and any letter,
/// `| * + ? {m,n} ( ) [ ]` are those of regular expressions, and all else is itself. The marks of a part take no letters.
///
/// # Errors
/// `22025` for an escape of several letters, and for more than two marks.
pub(crate) fn as_regular(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let letter = escape_letter(escape)?;
    if divided(pattern, letter).len() > 1 {
        return as_part(pattern, escape);
    }
    Ok(format!("^(?:{})$", written(pattern, letter)))
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
    let written: Vec<_> = parts.iter().map(|part| written(part, escape)).collect();
    match written.as_slice() {
        [whole] => Ok(format!("^({whole})$")),
        [before, part] => Ok(format!("^(?:{before}){{1,1}}?({part})$")),
        [before, part, behind] => Ok(format!("^(?:{before}){{1,1}}?({part}){{1,1}}(?:{behind})$")),
        _ => {
            let message =
                "SQL regular expression may not contain more than two escape-double-quote separators";
            Err(SqlError::new(SqlState::InvalidEscapeSequence, message))
        }
    }
}

/// The letter that an escape is; none if it is empty.
///
/// # Errors
/// `22025` for one of several letters.
pub(crate) fn escape_letter(escape: &str) -> Result<Option<char>, SqlError> {
    let mut letters = escape.chars();
    let letter = letters.next();
    if letters.next().is_some() {
        return Err(SqlError::new(SqlState::InvalidEscapeSequence, "invalid escape string")
            .with_hint("Escape string must be empty or one character."));
    }
    Ok(letter)
}

/// The parts of a pattern between which the escape stands before a double quote, and not within brackets.
fn divided(pattern: &str, escape: Option<char>) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut letters = pattern.chars();
    let mut in_brackets = false;
    while let Some(letter) = letters.next() {
        let escaped = if Some(letter) == escape { letters.next() } else { None };
        if Some(letter) != escape {
            in_brackets = if in_brackets { letter != ']' } else { letter == '[' };
        }
        if escaped == Some('"') && !in_brackets {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(letter);
            part.extend(escaped);
        }
    }
    parts
}

fn written(pattern: &str, escape: Option<char>) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    let mut in_brackets = false;
    while let Some(letter) = letters.next() {
        if Some(letter) == escape {
            // Any letter may be escaped, so that `\d` is what it is in regular expressions.
            if let Some(escaped) = letters.next() {
                written.extend(['\\', escaped]);
            }
        } else if in_brackets {
            in_brackets = letter != ']';
            if letter == '\\' {
                written.push('\\');
            }
            written.push(letter);
        } else {
            in_brackets = letter == '[';
            match letter {
                '%' => written.push_str(".*"),
                '_' => written.push('.'),
                '(' => written.push_str("(?:"),
                '\\' | '.' | '^' | '$' => written.extend(['\\', letter]),
                other => written.push(other),
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_between_the_marks_is_the_group() {
        assert_eq!(as_part("%#\"o_b#\"%", "#").unwrap(), "^(?:.*){1,1}?(o.b){1,1}(?:.*)$");
        assert_eq!(as_part("a#\"b+", "#").unwrap(), "^(?:a){1,1}?(b+)$");
        assert_eq!(as_part("a|b", "#").unwrap(), "^(a|b)$");
        assert!(as_part("#\"#\"#\"", "#").is_err());
        assert_eq!(as_regular("a%##", "#").unwrap(), "^(?:a.*\\#)$");
        assert_eq!(as_regular("a#\"b#\"c", "#").unwrap(), "^(?:a){1,1}?(b){1,1}(?:c)$");
        assert_eq!(as_part("[a#\"]#\"b", "#").unwrap(), "^(?:[a\\\"]){1,1}?(b)$");
        assert_eq!(as_regular("[[:alpha:]\\d]#d.", "#").unwrap(), "^(?:[[:alpha:]\\\\d]\\d\\.)$");
    }
}
