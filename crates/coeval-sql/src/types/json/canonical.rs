// SPDX-License-Identifier: Apache-2.0
//! The one way in which a `jsonb` is written: keys once, the shorter first, then by bytes; one blank behind colons and
//! commas; numbers without exponents.

use super::document::{Kind, Part};
use super::escapes::check_escapes;
use crate::cancel;
use crate::error::{SqlError, SqlState};
use crate::memory::room_for_a_value;
use std::borrow::Cow;

/// The most digits that the exponent of a number can make of it.
const EXPONENT_MAX: i32 = 16_383;

/// The most arrays and objects within each other: what looks for one `jsonb` in another calls itself for each, and each
/// is walked over once for every one around it.
const DEPTH_MAX: usize = 1_000;

/// The longest `jsonb`, as in PostgreSQL. An exponent of six bytes writes 16 KiB of zeros, so the text that it is made of
/// need not be long.
const DOCUMENT_BYTES_MAX: usize = (256 << 20) - 1;

/// From here on it is asked whether there is room for what a document becomes.
const LARGE_BYTES: usize = 1 << 20;

/// The text of a document as a `jsonb`. The text has to be JSON.
///
/// # Errors
/// `22P02` for half a character, `22P05` for one that text cannot hold, `22003` for a number that is too long, `54000` for a document
/// that is, `54001` for one that is too deep, `53200` for one that there is no memory for; that of a statement that is to
/// end.
pub(crate) fn canonical(text: &str) -> Result<String, SqlError> {
    let mut out = String::with_capacity(text.len());
    let (mut asked_for, mut promise) = (LARGE_BYTES, None);
    // What is still to be written, the next one last.
    let mut steps = vec![Step::Value(Part::of(text), 0)];
    while let Some(step) = steps.pop() {
        cancel::check()?;
        match step {
            Step::Text(text) => out.push_str(text),
            Step::Key(key) => {
                push_long_string(&key, &mut out)?;
                out.push_str(": ");
            }
            Step::Value(part, depth) => write(part, depth, &mut out, &mut steps)?,
        }
        if out.len() > DOCUMENT_BYTES_MAX {
            return Err(too_long());
        }
        if out.len() > asked_for {
            // With the number that makes it too long.
            asked_for = (out.len() * 2).min(DOCUMENT_BYTES_MAX + LARGE_BYTES);
            // The shorter one is copied into it.
            drop(promise.replace(room_for_a_value(asked_for)?));
            out.reserve_exact(asked_for - out.len());
        }
    }
    Ok(out)
}

fn too_long() -> SqlError {
    let message = format!("a jsonb has at most {DOCUMENT_BYTES_MAX} bytes");
    SqlError::new(SqlState::ProgramLimitExceeded, message)
        .with_detail("Numbers are written without exponents.")
        .with_hint("Keep the document as json, which stays as it is written.")
}

/// A piece of a document.
enum Step<'a> {
    Text(&'static str),
    Key(Cow<'a, str>),
    /// A value below so many arrays and objects.
    Value(Part<'a>, usize),
}

/// Writes the beginning of a value, and notes the rest of it.
fn write<'a>(
    part: Part<'a>,
    depth: usize,
    out: &mut String,
    steps: &mut Vec<Step<'a>>,
) -> Result<(), SqlError> {
    if depth > DEPTH_MAX {
        let message = format!("a jsonb has at most {DEPTH_MAX} arrays and objects within each other");
        let error = SqlError::new(SqlState::StatementTooComplex, message);
        return Err(error.with_hint("Keep the document as json, which has no limit."));
    }
    let inside = steps.len();
    match part.kind() {
        Kind::Object => {
            let mut members = Vec::new();
            for (key, value) in part.members() {
                members.push((string(key)?, value));
            }
            // The last one of several of a name counts: the order among them stays.
            members.sort_by(|(left, _), (right, _)| (left.len(), &**left).cmp(&(right.len(), &**right)));
            out.push('{');
            let mut members = members.into_iter().peekable();
            while let Some((key, value)) = members.next() {
                if members.peek().is_some_and(|(next, _)| *next == key) {
                    continue;
                }
                if steps.len() > inside {
                    steps.push(Step::Text(", "));
                }
                steps.extend([Step::Key(key), Step::Value(value, depth + 1)]);
            }
            steps.push(Step::Text("}"));
        }
        Kind::Array => {
            out.push('[');
            for element in part.elements() {
                cancel::check()?;
                if steps.len() > inside {
                    steps.push(Step::Text(", "));
                }
                steps.push(Step::Value(element, depth + 1));
            }
            steps.push(Step::Text("]"));
        }
        Kind::String => push_long_string(&string(part)?, out)?,
        Kind::Number => push_number(part.text(), out)?,
        Kind::Boolean | Kind::Null => out.push_str(part.text()),
    }
    steps[inside..].reverse();
    Ok(())
}

fn string(part: Part<'_>) -> Result<Cow<'_, str>, SqlError> {
    match part.string() {
        Some(text) if !text.contains('\0') => Ok(text),
        _ => {
            check_escapes(part.text())?;
            let message = "unsupported Unicode escape sequence";
            Err(SqlError::new(SqlState::UntranslatableCharacter, message)
                .with_detail(format!("{} cannot be converted to text.", part.text())))
        }
    }
}

/// What of a text is written between two looks.
const PIECE_BYTES: usize = 1 << 20;

/// A text as a string of JSON.
pub(crate) fn push_string(text: &str, out: &mut String) {
    out.push('"');
    push_escaped(text, out);
    out.push('"');
}

/// A text that may be long as a string of JSON.
///
/// # Errors
/// The error of a statement that was told to end.
pub(crate) fn push_long_string(text: &str, out: &mut String) -> Result<(), SqlError> {
    let mut rest = text;
    out.push('"');
    while !rest.is_empty() {
        cancel::check()?;
        let end = rest.floor_char_boundary(PIECE_BYTES);
        push_escaped(&rest[..end], out);
        rest = &rest[end..];
    }
    out.push('"');
    Ok(())
}

fn push_escaped(text: &str, out: &mut String) {
    let quoted = serde_json::Value::from(text).to_string();
    out.push_str(&quoted[1..quoted.len() - 1]);
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
    fn a_short_text_makes_no_document_without_end() {
        // 200 KB that would be 320 MB.
        let text = format!("[{}1]", "1e16000,".repeat(20_000));
        assert_eq!(canonical(&text).unwrap_err().state, SqlState::ProgramLimitExceeded);
        assert_eq!(canonical("[1e16000]").unwrap().len(), 16_003);
    }

    #[test]
    fn a_document_is_as_deep_as_it_may_be_and_no_deeper() {
        let nested =
            |open: &str, close: &str, depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        for (open, close) in [("[", "]"), ("{\"a\": ", "}")] {
            let deepest = nested(open, close, DEPTH_MAX);
            assert_eq!(canonical(&deepest).unwrap(), deepest);
            for depth in [DEPTH_MAX + 1, 100_000] {
                let error = canonical(&nested(open, close, depth)).unwrap_err();
                assert_eq!(error.state, SqlState::StatementTooComplex);
            }
        }
    }

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
        assert_eq!(canonical(r#""\ud83dX""#).unwrap_err().state, SqlState::InvalidTextRepresentation);
        assert_eq!(canonical("1e99999").unwrap_err().state, SqlState::NumericValueOutOfRange);
    }
}
