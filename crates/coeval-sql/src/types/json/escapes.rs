// SPDX-License-Identifier: Apache-2.0
//! Escapes of documents that write no character of a text: `\u0000`, and halves of characters without their other half.
//!
//! A `json` may have them; whatever looks into one refuses it, and a `jsonb` is not made of it, as in PostgreSQL.

use crate::error::{SqlError, SqlState};

/// Bytes of `\u0041`.
const ESCAPE_BYTES: usize = 6;

/// Whether all escapes of a document write characters that a text can hold. The document has to be JSON.
///
/// # Errors
/// `22P02` for half a character, `22P05` for the character zero.
pub(crate) fn check_escapes(document: &str) -> Result<(), SqlError> {
    let mut rest = document;
    while let Some(place) = rest.find('\\') {
        rest = &rest[place..];
        let Some(number) = code(rest) else {
            // Another escape has one letter.
            rest = rest.get(2..).unwrap_or_default();
            continue;
        };
        rest = &rest[ESCAPE_BYTES..];
        match number {
            0 => {
                let message = "unsupported Unicode escape sequence";
                return Err(SqlError::new(SqlState::UntranslatableCharacter, message)
                    .with_detail("\\u0000 cannot be converted to text."));
            }
            0xD800..=0xDBFF => match code(rest) {
                Some(0xDC00..=0xDFFF) => rest = &rest[ESCAPE_BYTES..],
                Some(0xD800..=0xDBFF) => {
                    return Err(half("Unicode high surrogate must not follow a high surrogate."));
                }
                _ => return Err(half("Unicode low surrogate must follow a high surrogate.")),
            },
            0xDC00..=0xDFFF => return Err(half("Unicode low surrogate must follow a high surrogate.")),
            _ => {}
        }
    }
    Ok(())
}

/// The number that an escape at the beginning of a text writes; `None` if there is none of a number.
fn code(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

fn half(detail: &str) -> SqlError {
    let message = "invalid input syntax for type json";
    SqlError::new(SqlState::InvalidTextRepresentation, message).with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::check_escapes;

    #[test]
    fn halves_of_characters_and_zero_are_refused() {
        for whole in [r#""\ud83d\ude04\ud83d\udc36""#, r#""\\u0000 \\ud83d \u00e9\n""#, "{}", r#""\"\\""#] {
            assert!(check_escapes(whole).is_ok(), "{whole}");
        }
        for (text, state) in [
            (r#""\ud83d\ud83d""#, "22P02"),
            (r#""\ude04\ud83d""#, "22P02"),
            (r#""\ud83dX""#, "22P02"),
            (r#"["\ud83d", "\ude04"]"#, "22P02"),
            (r#"{"a\u0000": 1}"#, "22P05"),
            (r#""\\\u0000""#, "22P05"),
        ] {
            assert_eq!(check_escapes(text).unwrap_err().state.code(), state, "{text}");
        }
    }
}
