// SPDX-License-Identifier: Apache-2.0
//! The text of an array, taken apart: `{a,"b c",NULL}`.

use crate::cancel;
use crate::error::{SqlError, SqlState};

/// Whether a letter does not count around the elements of an array: PostgreSQL's blanks, and no others of Unicode.
pub(crate) fn is_blank(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == '\u{b}'
}

/// The elements of `{a,"b c",NULL}`.
///
/// # Errors
/// As [`each_element`].
pub(crate) fn array_elements(text: &str) -> Result<Vec<Option<String>>, SqlError> {
    let mut elements = Vec::new();
    each_element(text, |element| {
        elements.push(element.map(str::to_owned));
        Ok(())
    })?;
    Ok(elements)
}

/// Hands over each element of `{a,"b c",NULL}`.
///
/// # Errors
/// `22P02` for text that is no array, `0A000` for one of several dimensions; the error of an element; that of a statement that was
/// told to end.
pub(crate) fn each_element(
    text: &str,
    mut push: impl FnMut(Option<&str>) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let malformed =
        || SqlError::new(SqlState::InvalidTextRepresentation, format!("malformed array literal: \"{text}\""));
    let text = text.trim_matches(is_blank);
    if text.strip_prefix('{').is_some_and(|inner| inner.trim_start_matches(is_blank).starts_with('{')) {
        return Err(SqlError::unsupported("an array of several dimensions")
            .with_hint("Keep it as jsonb, or its rows in a table of their own."));
    }
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(malformed)?;
    let mut letters = inner.chars().peekable();
    if inner.trim_matches(is_blank).is_empty() {
        return Ok(());
    }
    let mut part = String::new();
    let mut is_last = false;
    while !is_last {
        cancel::check()?;
        part.clear();
        let (mut quoted, mut inside) = (false, false);
        loop {
            match letters.next() {
                Some('"') => (quoted, inside) = (true, !inside),
                Some('\\') => part.push(letters.next().ok_or_else(malformed)?),
                Some(',') if !inside => {
                    letters.next_if_eq(&',').map_or(Ok(()), |_| Err(malformed()))?;
                    break;
                }
                Some('{' | '}') if !inside => return Err(malformed()),
                // Blanks around an element do not count.
                Some(blank) if !inside && is_blank(blank) && (quoted || part.is_empty()) => {}
                Some(letter) => part.push(letter),
                None if inside => return Err(malformed()),
                None => {
                    is_last = true;
                    break;
                }
            }
        }
        push(if quoted { Some(&part) } else { bare_element(&part) })?;
    }
    Ok(())
}

/// An element without quotes.
fn bare_element(part: &str) -> Option<&str> {
    let trimmed = part.trim_matches(is_blank);
    (!trimmed.eq_ignore_ascii_case("null")).then_some(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(parts: &[&str]) -> Vec<Option<String>> {
        parts.iter().map(|part| Some((*part).to_owned())).collect()
    }

    #[test]
    fn elements_may_be_quoted_escaped_and_null() {
        assert_eq!(array_elements("{}").unwrap(), vec![]);
        assert_eq!(array_elements("{ a , \"b c\" }").unwrap(), some(&["a", "b c"]));
        assert_eq!(array_elements(r#"{"a\"b",c\,d,""}"#).unwrap(), some(&["a\"b", "c,d", ""]));
        assert_eq!(array_elements("{NULL,\"NULL\"}").unwrap(), vec![None, Some("NULL".to_owned())]);
    }

    #[test]
    fn blanks_of_postgresql_do_not_count_and_others_are_letters() {
        assert_eq!(array_elements("{\u{b}a \t, b\u{c}}").unwrap(), some(&["a", "b"]));
        assert_eq!(array_elements("{a\u{a0},\u{3000}}").unwrap(), some(&["a\u{a0}", "\u{3000}"]));
    }

    #[test]
    fn what_is_no_array_is_refused() {
        for text in ["", "1,2", "{1", "{a,,b}", "{\"a}"] {
            let error = array_elements(text).unwrap_err();
            assert_eq!(error.state, SqlState::InvalidTextRepresentation, "{text}");
        }
        assert_eq!(array_elements("{ {1}}").unwrap_err().state, SqlState::FeatureNotSupported);
    }
}
