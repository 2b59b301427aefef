// SPDX-License-Identifier: Apache-2.0
//! The one way in which a `jsonb` is written: keys once, the shorter first, then by bytes; one blank behind colons and
//! commas; numbers without exponents.

use super::document::{Kind, Part};
use crate::error::{SqlError, SqlState};

/// The most digits that the exponent of a number can make of it.
const EXPONENT_MAX: i32 = 16_383;

/// The text of a document as a `jsonb`. The text has to be JSON.
///
/// # Errors
/// `22P05` for a character that text cannot hold, `22003` for a number that is too long.
pub(crate) fn canonical(text: &str) -> Result<String, SqlError> {
    let mut out = String::with_capacity(text.len());
    write(Part::of(text), &mut out)?;
    Ok(out)
}

fn write(part: Part<'_>, out: &mut String) -> Result<(), SqlError> {
    match part.kind() {
        Kind::Object => {
            let mut members = Vec::new();
            for (key, value) in part.members() {
                members.push((string(key)?, value));
            }
            // The last one of several of a name counts: the order among them stays.
            members.sort_by(|(left, _), (right, _)| (left.len(), left).cmp(&(right.len(), right)));
            out.push('{');
            let mut is_first = true;
            for (place, (key, value)) in members.iter().enumerate() {
                if members.get(place + 1).is_some_and(|(next, _)| next == key) {
                    continue;
                }
                out.push_str(if std::mem::take(&mut is_first) { "" } else { ", " });
                push_string(key, out);
                out.push_str(": ");
                write(*value, out)?;
            }
            out.push('}');
        }
        Kind::Array => {
            out.push('[');
            for (place, element) in part.elements().enumerate() {
                out.push_str(if place == 0 { "" } else { ", " });
                write(element, out)?;
            }
            out.push(']');
        }
        Kind::String => push_string(&string(part)?, out),
        Kind::Number => push_number(part.text(), out)?,
        Kind::Boolean | Kind::Null => out.push_str(part.text()),
    }
    Ok(())
}

fn string(part: Part<'_>) -> Result<String, SqlError> {
    match part.string() {
        Some(text) if !text.contains('\0') => Ok(text.into_owned()),
        _ => Err(SqlError::new(SqlState::UntranslatableCharacter, "unsupported Unicode escape sequence")
            .with_detail(format!("{} cannot be converted to text.", part.text()))),
    }
}

/// A text as a string of JSON.
pub(super) fn push_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::String(text.to_owned()).to_string());
}

/// A number without its exponent.
fn push_number(text: &str, out: &mut String) -> Result<(), SqlError> {
    let too_long = || SqlError::new(SqlState::NumericValueOutOfRange, "value overflows numeric format");
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| too_long())?),
        None => (text, 0),
    };
    if exponent.abs() > EXPONENT_MAX {
        return Err(too_long());
    }
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    // Where the point stands among the digits.
    let point = i32::try_from(whole.len()).map_err(|_| too_long())? + exponent;
    let count = i32::try_from(digits.len()).map_err(|_| too_long())?;
    let (before, behind) = if point <= 0 {
        let zeros = "0".repeat(usize::try_from(-point).unwrap_or_default());
        ("0".to_owned(), format!("{zeros}{digits}"))
    } else if point >= count {
        let zeros = "0".repeat(usize::try_from(point - count).unwrap_or_default());
        (format!("{digits}{zeros}"), String::new())
    } else {
        let (before, behind) = digits.split_at(usize::try_from(point).unwrap_or_default());
        (before.to_owned(), behind.to_owned())
    };
    let before = before.trim_start_matches('0');
    let is_zero = before.is_empty() && behind.bytes().all(|digit| digit == b'0');
    out.push_str(if negative && !is_zero { "-" } else { "" });
    out.push_str(if before.is_empty() { "0" } else { before });
    if !behind.is_empty() {
        out.push('.');
        out.push_str(&behind);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_one_text() {
        for (text, wanted) in [
            (r#" {"bb":1,"a":[ 1,2 ],"a":{"x" : null}} "#, r#"{"a": {"x": null}, "bb": 1}"#),
            (r#"{"b": "\u0041\n\u00e9", "é":true}"#, r#"{"b": "A\né", "é": true}"#),
            (
                "[1.50, -0.0, 1e3, 1.5e1, 12E-4, -1.25e+1, 0, 100]",
                "[1.50, 0.0, 1000, 15, 0.0012, -12.5, 0, 100]",
            ),
            ("[]", "[]"),
            (" \"x\" ", "\"x\""),
        ] {
            assert_eq!(canonical(text).unwrap(), wanted, "{text}");
            assert_eq!(canonical(wanted).unwrap(), wanted, "{text}");
        }
        assert_eq!(canonical(r#""\u0000""#).unwrap_err().state, SqlState::UntranslatableCharacter);
        assert_eq!(canonical("1e99999").unwrap_err().state, SqlState::NumericValueOutOfRange);
    }
}
