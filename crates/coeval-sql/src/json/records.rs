// SPDX-License-Identifier: Apache-2.0
//! Members of documents as columns that are arrays: `json_to_record(document) AS r(tags text[])`.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::json::{Kind, Part};
use std::borrow::Cow;

/// What the elements of an array become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    /// Values: strings without their quotes.
    Values,
    /// Documents, as they are written.
    Documents,
}

/// The member of this name as the text of an array; `None` if it is null or not there. A string is such a text already.
///
/// # Errors
/// `22P02` for a member that is neither an array nor a string, `0A000` for an array of arrays.
pub(super) fn array_text(document: Part<'_>, key: &str, elements: Elements) -> SqlResult<Option<String>> {
    let Some(member) = document.member(key) else { return Ok(None) };
    match member.kind() {
        Kind::Null => Ok(None),
        Kind::String => Ok(member.string().map(Cow::into_owned)),
        Kind::Array => written(member, elements).map(Some),
        Kind::Object | Kind::Number | Kind::Boolean => {
            Err(SqlError::new(SqlState::InvalidTextRepresentation, "expected JSON array")
                .with_hint(format!("See the value of key \"{key}\".")))
        }
    }
}

/// `{1,"a b",NULL}`
fn written(array: Part<'_>, elements: Elements) -> SqlResult<String> {
    // As in PostgreSQL, the first element says how many dimensions there are.
    let first = array.elements().next().map(Part::kind);
    if first == Some(Kind::Array) && elements == Elements::Values {
        return Err(SqlError::unsupported("an array of several dimensions")
            .with_hint("Keep it as jsonb, or its rows in a table of their own."));
    }
    let mut out = String::from("{");
    for (place, element) in array.elements().enumerate() {
        out.push_str(if place == 0 { "" } else { "," });
        match (element.kind(), elements) {
            (Kind::Null, _) => out.push_str("NULL"),
            (Kind::String, Elements::Values) => push_quoted(&element.string().unwrap_or_default(), &mut out),
            _ => push_quoted(element.text(), &mut out),
        }
    }
    out.push('}');
    Ok(out)
}

fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_texts_of_arrays() {
        let document = r#"{"a": [1, "x y", null, "q\"u\\b", {"k": 1}], "n": null, "s": "{1,2}", "w": 5}"#;
        let document = Part::of(document);
        let text = |key: &str, elements| array_text(document, key, elements).unwrap();
        let values = r#"{"1","x y",NULL,"q\"u\\b","{\"k\": 1}"}"#;
        assert_eq!(text("a", Elements::Values).as_deref(), Some(values));
        let documents = r#"{"1","\"x y\"",NULL,"\"q\\\"u\\\\b\"","{\"k\": 1}"}"#;
        assert_eq!(text("a", Elements::Documents).as_deref(), Some(documents));
        assert_eq!(text("n", Elements::Values), None);
        assert_eq!(text("nothing", Elements::Values), None);
        assert_eq!(text("s", Elements::Values).as_deref(), Some("{1,2}"));
        assert_eq!(array_text(document, "w", Elements::Values).unwrap_err().state.code(), "22P02");
    }
}
