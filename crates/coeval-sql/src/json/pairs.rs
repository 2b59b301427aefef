// SPDX-License-Identifier: Apache-2.0
//! `json_object` of arrays of texts: keys and values in turn, in rows of two, or in an array each.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::array_elements;
use crate::types::json::push_string;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

/// The most dimensions of an array, as in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;

/// An array of texts.
pub(super) struct Texts {
    /// How many there are along each dimension; none if it is empty.
    lengths: Vec<usize>,
    /// All of them, row by row.
    elements: Vec<Option<String>>,
}

fn subscript_error(message: &str) -> SqlError {
    SqlError::new(SqlState::ArraySubscriptError, message)
}

impl Texts {
    /// The array that a text writes.
    ///
    /// # Errors
    /// `22P02` for a text that is none, `54000` for one of too many dimensions.
    pub(super) fn read(text: &str) -> SqlResult<Self> {
        Self::read_below(text, 0)
    }

    fn read_below(text: &str, depth: usize) -> SqlResult<Self> {
        let malformed = || {
            let message = format!("malformed array literal: \"{text}\"");
            SqlError::new(SqlState::InvalidTextRepresentation, message)
        };
        let trimmed = text.trim_ascii();
        let inner = trimmed.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let inner = inner.ok_or_else(malformed)?;
        if !inner.trim_ascii_start().starts_with('{') {
            return Ok(Self::of_row(array_elements(trimmed)?));
        }
        if depth + 1 >= DIMENSIONS_MAX {
            let message =
                format!("number of array dimensions exceeds the maximum allowed ({DIMENSIONS_MAX})");
            return Err(SqlError::new(SqlState::ProgramLimitExceeded, message));
        }
        let rows = rows_of(inner).into_iter().map(|row| Self::read_below(row, depth + 1));
        Self::of_rows(rows.collect::<SqlResult<_>>()?).ok_or_else(malformed)
    }

    /// The array that is the value of a list.
    ///
    /// # Errors
    /// `2202E` for rows of different lengths.
    pub(super) fn of_list(list: &ArrayRef) -> SqlResult<Self> {
        if let Some(rows) = list.as_list_opt::<i32>() {
            let rows = (0..rows.len()).map(|row| Self::of_list(&rows.value(row)));
            let rows: Vec<Self> = rows.collect::<SqlResult<_>>()?;
            let message = "multidimensional arrays must have array expressions with matching dimensions";
            return Self::of_rows(rows).ok_or_else(|| subscript_error(message));
        }
        let texts = cast(list, &DataType::Utf8View)?;
        Ok(Self::of_row(texts.as_string_view().iter().map(|text| text.map(str::to_owned)).collect()))
    }

    fn of_row(elements: Vec<Option<String>>) -> Self {
        let lengths = if elements.is_empty() { Vec::new() } else { vec![elements.len()] };
        Self { lengths, elements }
    }

    /// Rows of one length as one array; `None` if they are not.
    fn of_rows(rows: Vec<Self>) -> Option<Self> {
        let first = rows.first().map(|row| row.lengths.clone()).unwrap_or_default();
        if rows.iter().any(|row| row.lengths != first) {
            return None;
        }
        let lengths = if first.is_empty() { Vec::new() } else { [vec![rows.len()], first].concat() };
        Some(Self { lengths, elements: rows.into_iter().flat_map(|row| row.elements).collect() })
    }

    /// The object of keys and values in turn.
    ///
    /// # Errors
    /// `2202E` for an array of another form, `22004` for a key that is NULL.
    pub(super) fn object(&self) -> SqlResult<String> {
        match self.lengths[..] {
            [] => {}
            [count] if count.is_multiple_of(2) => {}
            [_] => return Err(subscript_error("array must have even number of elements")),
            [_, 2] => {}
            [_, _] => return Err(subscript_error("array must have two columns")),
            _ => return Err(subscript_error("wrong number of array subscripts")),
        }
        written(self.elements.chunks_exact(2).map(|pair| (&pair[0], &pair[1])))
    }

    /// The object of these keys and those values.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub(super) fn object_with(&self, values: &Self) -> SqlResult<String> {
        if self.lengths.len() > 1 || self.lengths.len() != values.lengths.len() {
            return Err(subscript_error("wrong number of array subscripts"));
        }
        if self.lengths != values.lengths {
            return Err(subscript_error("mismatched array dimensions"));
        }
        written(self.elements.iter().zip(&values.elements))
    }
}

/// The rows in an array of arrays: what stands between commas that are in no braces and no quotes.
fn rows_of(inner: &str) -> Vec<&str> {
    let (mut rows, mut start) = (Vec::new(), 0);
    let (mut depth, mut is_quoted) = (0_usize, false);
    let mut letters = inner.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
            }
            '"' => is_quoted = !is_quoted,
            '{' if !is_quoted => depth += 1,
            '}' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 0 => {
                rows.push(&inner[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    rows.push(&inner[start..]);
    rows
}

/// `{"a" : "1", "b" : null}`.
fn written<'t>(pairs: impl Iterator<Item = (&'t Option<String>, &'t Option<String>)>) -> SqlResult<String> {
    let mut out = String::from("{");
    for (place, (key, value)) in pairs.enumerate() {
        let Some(key) = key else {
            let message = "null value not allowed for object key";
            return Err(SqlError::new(SqlState::NullValueNotAllowed, message));
        };
        out.push_str(if place == 0 { "" } else { ", " });
        push_string(key, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => push_string(value, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_pairs_in_three_forms() {
        let object = |text: &str| Texts::read(text).and_then(|texts| texts.object());
        let wanted = r#"{"a" : "1", "d e,}f" : null}"#;
        assert_eq!(object(r#"{a,1,"d e,}f",NULL}"#).unwrap(), wanted);
        assert_eq!(object(r#" {{a,1} , {"d e,}f",NULL}} "#).unwrap(), wanted);
        let (keys, values) = (Texts::read(r#"{a,"d e,}f"}"#).unwrap(), Texts::read("{1,NULL}").unwrap());
        assert_eq!(keys.object_with(&values).unwrap(), wanted);
        assert_eq!(object("{}").unwrap(), "{}");
        for (text, message) in [
            ("{a,b,c}", "array must have even number of elements"),
            ("{{a},{b}}", "array must have two columns"),
            ("{{{a,b},{c,d}},{{b,c},{d,e}}}", "wrong number of array subscripts"),
            ("{NULL,1}", "null value not allowed for object key"),
            ("{{a,b},{c}}", "malformed array literal: \"{{a,b},{c}}\""),
        ] {
            assert_eq!(object(text).unwrap_err().message, message, "{text}");
        }
        let refused = keys.object_with(&Texts::read("{1}").unwrap()).unwrap_err();
        assert_eq!(refused.message, "mismatched array dimensions");
    }
}
