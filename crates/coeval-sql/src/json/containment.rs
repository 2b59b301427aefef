// SPDX-License-Identifier: Apache-2.0
//! What a document has of another one: `@>`, and of a key: `?`.

use crate::allowance::Meter;
use crate::error::SqlResult;
use crate::types::json::{Kind, Part, canonical};

/// Whether a document is looked at as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Top,
    Inner,
}

/// Whether the left document has all that the right one has, as `@>` wants it.
///
/// # Errors
/// That of a statement that is to end.
pub(super) fn contains(left: Part<'_>, right: Part<'_>, meter: &Meter) -> SqlResult<bool> {
    contains_at(left, right, Level::Top, meter)
}

fn contains_at(left: Part<'_>, right: Part<'_>, level: Level, meter: &Meter) -> SqlResult<bool> {
    meter.step()?;
    match (left.kind(), right.kind()) {
        (Kind::Object, Kind::Object) => {
            for (key, wanted) in right.members() {
                meter.look()?;
                let Some(own) = key.string().and_then(|key| left.member(&key)) else { return Ok(false) };
                if !contains_at(own, wanted, Level::Inner, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Kind::Array, Kind::Array) => {
            for wanted in right.elements() {
                if !has_element(left, wanted, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Kind::Object | Kind::Array, Kind::Object | Kind::Array) => Ok(false),
        // An array as a whole contains a value that is one of its elements.
        (Kind::Array, _) if level == Level::Top => has_element(left, right, meter),
        (Kind::Number, Kind::Number) => Ok(shortest(left.text()) == shortest(right.text())),
        (own, wanted) => Ok(own == wanted && left.plain() == right.plain()),
    }
}

/// Whether an element of an array contains what is wanted.
fn has_element(array: Part<'_>, wanted: Part<'_>, meter: &Meter) -> SqlResult<bool> {
    for own in array.elements() {
        if contains_at(own, wanted, Level::Inner, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A number without the zeros at its end.
fn shortest(number: &str) -> String {
    let text = canonical(number).unwrap_or_else(|_| number.to_owned());
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Whether a string is a key of an object, or an element of an array.
pub(super) fn exists(document: Part<'_>, key: &str) -> bool {
    let is_key =
        |part: Part<'_>| part.kind() == Kind::String && part.string().is_some_and(|text| text == key);
    match document.kind() {
        Kind::Object => document.member(key).is_some(),
        Kind::Array => document.elements().any(is_key),
        _ => is_key(document),
    }
}
