// SPDX-License-Identifier: Apache-2.0
//! Documents with something of them changed: `jsonb_set`, `jsonb_insert`, `-`, `#-`, without nulls, indented.
//!
//! A changed document is written anew from the parts of the old one; `canonical` makes a `jsonb` of it.

use crate::cancel;
use crate::error::{SqlError, SqlState};
use crate::memory::room_for_a_value;
use crate::types::json::{Kind, Part, canonical, push_string};
use std::fmt::Write;

/// What happens at the end of a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'a> {
    /// The value that is there is replaced by this one; where none is, it is made if `creates`.
    Set { value: &'a str, creates: bool },
    /// This value is put before the element that is there, or behind it. A member must not be there.
    Insert { value: &'a str, is_after: bool },
    /// The value that is there goes.
    Delete,
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(SqlState::InvalidParameterValue, message)
}

/// The document with a change at the end of the path.
///
/// # Errors
/// `22023` for a document without parts, or for a member that is there already; `22P02` for a step into an array that is
/// no number.
pub(super) fn changed(document: Part<'_>, path: &[String], change: Change<'_>) -> Result<String, SqlError> {
    if !matches!(document.kind(), Kind::Object | Kind::Array) {
        return Err(wrong(match change {
            Change::Delete => "cannot delete path in scalar",
            Change::Set { .. } | Change::Insert { .. } => "cannot set path in scalar",
        }));
    }
    let is_empty = document.elements().next().is_none() && document.members().next().is_none();
    // There is nothing that a step could lead to, be it a number or not.
    if is_empty && matches!(change, Change::Delete | Change::Set { creates: false, .. }) {
        return canonical(document.text());
    }
    let mut out = String::with_capacity(document.text().len());
    push_changed(document, path, 0, change, &mut out)?;
    canonical(&out)
}

fn push_changed(
    part: Part<'_>,
    path: &[String],
    depth: usize,
    change: Change<'_>,
    out: &mut String,
) -> Result<(), SqlError> {
    match (part.kind(), path.get(depth)) {
        (Kind::Object, Some(key)) => push_object(part, (path, depth), key, change, out),
        (Kind::Array, Some(step)) => push_array(part, (path, depth), step, change, out),
        _ => {
            out.push_str(part.text());
            Ok(())
        }
    }
}

/// Appends what is separated from what stands before it.
fn separate(is_first: &mut bool, out: &mut String) {
    if !std::mem::take(is_first) {
        out.push(',');
    }
}

fn push_object(
    object: Part<'_>,
    (path, depth): (&[String], usize),
    key: &str,
    change: Change<'_>,
    out: &mut String,
) -> Result<(), SqlError> {
    let is_last = depth + 1 == path.len();
    let (mut is_first, mut is_there) = (true, false);
    out.push('{');
    for (name, value) in object.members() {
        let is_meant = name.string().is_some_and(|name| name == key);
        is_there |= is_meant;
        if is_meant && is_last && matches!(change, Change::Delete) {
            continue;
        }
        separate(&mut is_first, out);
        let _ = write!(out, "{}:", name.text());
        match change {
            _ if !is_meant => out.push_str(value.text()),
            Change::Set { value, .. } if is_last => out.push_str(value),
            Change::Insert { .. } if is_last => {
                return Err(wrong("cannot replace existing key")
                    .with_hint("Try using the function jsonb_set to replace key value."));
            }
            _ => push_changed(value, path, depth + 1, change, out)?,
        }
    }
    if let (false, true, Change::Set { value, creates: true } | Change::Insert { value, .. }) =
        (is_there, is_last, change)
    {
        separate(&mut is_first, out);
        push_string(key, out);
        let _ = write!(out, ":{value}");
    }
    out.push('}');
    Ok(())
}

/// The place that a step means, which counts from the end if it is negative: behind the last element, or before the
/// first one (`None`), if there are fewer.
fn place_of(step: &str, depth: usize, count: usize) -> Result<Option<usize>, SqlError> {
    let number: i32 = step.trim().parse().map_err(|_| {
        let message = format!("path element at position {} is not an integer: \"{step}\"", depth + 1);
        SqlError::new(SqlState::InvalidTextRepresentation, message)
    })?;
    let distance = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(if number < 0 { count.checked_sub(distance) } else { Some(distance.min(count)) })
}

fn push_array(
    array: Part<'_>,
    (path, depth): (&[String], usize),
    step: &str,
    change: Change<'_>,
    out: &mut String,
) -> Result<(), SqlError> {
    let elements: Vec<_> = array.elements().collect();
    let place = place_of(step, depth, elements.len())?;
    let is_last = depth + 1 == path.len();
    let added = match change {
        Change::Set { value, creates: true } | Change::Insert { value, .. } if is_last => Some(value),
        _ => None,
    };
    let mut is_first = true;
    out.push('[');
    if let (None, Some(value)) = (place, added) {
        separate(&mut is_first, out);
        out.push_str(value);
    }
    for (index, element) in elements.iter().enumerate() {
        if place != Some(index) {
            separate(&mut is_first, out);
            out.push_str(element.text());
            continue;
        }
        match change {
            Change::Delete if is_last => continue,
            Change::Set { value, .. } if is_last => {
                separate(&mut is_first, out);
                out.push_str(value);
            }
            Change::Insert { value, is_after } if is_last => {
                let (first, second) =
                    if is_after { (element.text(), value) } else { (value, element.text()) };
                separate(&mut is_first, out);
                let _ = write!(out, "{first},{second}");
            }
            _ => {
                separate(&mut is_first, out);
                push_changed(*element, path, depth + 1, change, out)?;
            }
        }
    }
    if let (true, Some(value)) = (place == Some(elements.len()), added) {
        separate(&mut is_first, out);
        out.push_str(value);
    }
    out.push(']');
    Ok(())
}

/// `document - keys`: without members of these names, or elements that are these strings.
///
/// # Errors
/// `22023` for a document without parts.
pub(super) fn without_keys(document: Part<'_>, keys: &[String]) -> Result<String, SqlError> {
    let is_meant = |part: Part<'_>| part.string().is_some_and(|text| keys.iter().any(|key| *key == text));
    let (open, close, kept): (_, _, Vec<String>) = match document.kind() {
        Kind::Object => {
            let members = document.members().filter(|(key, _)| !is_meant(*key));
            ('{', '}', members.map(|(key, value)| format!("{}:{}", key.text(), value.text())).collect())
        }
        Kind::Array => {
            let elements = document.elements().filter(|element| !is_meant(*element));
            ('[', ']', elements.map(|element| element.text().to_owned()).collect())
        }
        _ => return Err(wrong("cannot delete from scalar")),
    };
    canonical(&format!("{open}{}{close}", kept.join(",")))
}

/// `document - place`: without this element.
///
/// # Errors
/// `22023` for a document that is no array.
pub(super) fn without_element(document: Part<'_>, place: i64) -> Result<String, SqlError> {
    match document.kind() {
        Kind::Array => {}
        Kind::Object => return Err(wrong("cannot delete from object using integer index")),
        _ => return Err(wrong("cannot delete from scalar")),
    }
    let elements: Vec<&str> = document.elements().map(Part::text).collect();
    let meant = match usize::try_from(place) {
        Ok(place) => Some(place),
        Err(_) => {
            usize::try_from(place.unsigned_abs()).ok().and_then(|back| elements.len().checked_sub(back))
        }
    };
    let kept = elements.iter().enumerate().filter(|(index, _)| Some(*index) != meant);
    canonical(&format!("[{}]", kept.map(|(_, element)| *element).collect::<Vec<_>>().join(",")))
}

/// The document without members that are null, at every depth, and without blanks. One walk over the text, since a `json`
/// may have any number of arrays and objects within each other.
///
/// # Errors
/// `53200` where there is no memory for it; the error of a statement that was told to end.
pub(super) fn without_nulls(document: Part<'_>) -> Result<String, SqlError> {
    let text = document.text();
    let _promise = room_for_a_value(text.len())?;
    let mut out = String::with_capacity(text.len());
    // Where the newest string began, with the comma in front of it: there the member begins, if that was its key.
    let (mut member, mut is_value) = (0, false);
    for token in document.tokens() {
        cancel::check()?;
        match token {
            // The next thing that stays puts it there.
            "," => continue,
            ":" | "}" | "]" => out.push_str(token),
            "null" if is_value => out.truncate(member),
            _ => {
                if token.starts_with('"') {
                    member = out.len();
                }
                if !out.is_empty() && !out.ends_with(['{', '[', ':']) {
                    out.push(',');
                }
                out.push_str(token);
            }
        }
        is_value = token == ":";
    }
    Ok(out)
}

/// Blanks in front of what is inside.
const INDENT: usize = 4;

/// The document with each member and element on a line of its own.
pub(super) fn indented(part: Part<'_>, depth: usize, out: &mut String) {
    let start_line = |depth: usize, out: &mut String| {
        let _ = write!(out, "\n{:1$}", "", depth * INDENT);
    };
    let mut is_first = true;
    match part.kind() {
        Kind::Object => {
            out.push('{');
            for (key, value) in part.members() {
                separate(&mut is_first, out);
                start_line(depth + 1, out);
                let _ = write!(out, "{}: ", key.text());
                indented(value, depth + 1, out);
            }
            start_line(depth, out);
            out.push('}');
        }
        Kind::Array => {
            out.push('[');
            for element in part.elements() {
                separate(&mut is_first, out);
                start_line(depth + 1, out);
                indented(element, depth + 1, out);
            }
            start_line(depth, out);
            out.push(']');
        }
        _ => out.push_str(part.text()),
    }
}
