// SPDX-License-Identifier: Apache-2.0
//! The tokens of a date's or time's text, and what its words mean.

use super::date_text::Flaw;
use super::zones::{Clock, abbreviated};

/// Tokens of a text: more than any date has.
const TOKENS_MAX: usize = 25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// Digits, or words and digits, with points, slashes or hyphens between; a zone's name, too.
    Date(&'t str),
    /// Digits with colons.
    Time(&'t str),
    /// A sign and digits.
    Offset(&'t str),
    /// Digits, perhaps with a point.
    Number(&'t str),
    Word(&'t str),
}

/// The place behind the letters from `start` on that are of a kind.
fn behind(bytes: &[u8], start: usize, is_of: impl Fn(u8) -> bool) -> usize {
    bytes[start..].iter().position(|&byte| !is_of(byte)).map_or(bytes.len(), |length| start + length)
}

/// No date, time or interval is longer, however it is written.
pub(super) const TIME_BYTES_MAX: usize = 1 << 10;

/// The tokens of a text.
///
/// # Errors
/// If it has something else between them than blanks and punctuation, or is too long.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Flaw> {
    if text.len() > TIME_BYTES_MAX {
        return Err(Flaw::Form);
    }
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&first) = bytes.get(at) {
        let start = at;
        let token = match first {
            b'0'..=b'9' => number_token(text, start),
            b'.' => Token::Number(&text[start..behind(bytes, start + 1, |byte| byte.is_ascii_digit())]),
            b'+' | b'-' => offset_token(text, start)?,
            first if first.is_ascii_alphabetic() => word_token(text, start),
            first if first.is_ascii_whitespace() || first.is_ascii_punctuation() || first == 0xb => {
                at += 1;
                continue;
            }
            _ => return Err(Flaw::Form),
        };
        let (Token::Date(part)
        | Token::Time(part)
        | Token::Offset(part)
        | Token::Number(part)
        | Token::Word(part)) = token;
        at = start + part.len();
        tokens.push(token);
        if tokens.len() > TOKENS_MAX {
            return Err(Flaw::Form);
        }
    }
    Ok(tokens)
}

fn number_token(text: &str, start: usize) -> Token<'_> {
    let bytes = text.as_bytes();
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let end = behind(bytes, start, is_digit);
    match bytes.get(end) {
        Some(b':') => {
            let end = behind(bytes, end, |byte| is_digit(byte) || byte == b':' || byte == b'.');
            Token::Time(&text[start..end])
        }
        Some(&mark @ (b'-' | b'/' | b'.')) => {
            if !bytes.get(end + 1).copied().is_some_and(is_digit) {
                let end = behind(bytes, end + 1, |byte| byte.is_ascii_alphanumeric() || byte == mark);
                return Token::Date(&text[start..end]);
            }
            let second = behind(bytes, end + 1, is_digit);
            if bytes.get(second) == Some(&mark) {
                return Token::Date(
                    &text[start..behind(bytes, second, |byte| is_digit(byte) || byte == mark)],
                );
            }
            // With one point it may be a number of seconds.
            if mark == b'.' { Token::Number(&text[start..second]) } else { Token::Date(&text[start..second]) }
        }
        _ => Token::Number(&text[start..end]),
    }
}

fn word_token(text: &str, start: usize) -> Token<'_> {
    let bytes = text.as_bytes();
    let end = behind(bytes, start, |byte| byte.is_ascii_alphabetic());
    let goes_on = match bytes.get(end) {
        Some(b'-' | b'/' | b'.') => true,
        // `UTC+3` is a zone, `BC+3` and `T12` are two things.
        Some(b'+' | b'0'..=b'9') => matches!(Word::of(&text[start..end]), Word::Name | Word::Zone(_)),
        _ => false,
    };
    if !goes_on {
        return Token::Word(&text[start..end]);
    }
    let end = behind(bytes, end, |byte| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte));
    Token::Date(&text[start..end])
}

fn offset_token(text: &str, start: usize) -> Result<Token<'_>, Flaw> {
    let bytes = text.as_bytes();
    match bytes.get(start + 1) {
        Some(b'0'..=b'9') => {
            let end = behind(bytes, start + 1, |byte| byte.is_ascii_digit() || b":.-".contains(&byte));
            Ok(Token::Offset(&text[start..end]))
        }
        _ => Err(Flaw::Form),
    }
}

/// What a word means.
pub(super) enum Word {
    Month(i64),
    BeforeChrist,
    AnnoDomini,
    Morning,
    Afternoon,
    /// A time is next.
    Time,
    /// The number of a day is next.
    Julian,
    /// Midnight of Greenwich.
    Midnight,
    /// Says nothing.
    Filler,
    /// A zone's abbreviation.
    Zone(Clock),
    /// Perhaps a zone's.
    Name,
}

/// The beginnings of months' names, which stand for them too.
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const FILLERS: [&str; 20] = [
    "at",
    "on",
    "sun",
    "sunday",
    "mon",
    "monday",
    "tue",
    "tues",
    "tuesday",
    "wed",
    "weds",
    "wednesday",
    "thu",
    "thur",
    "thurs",
    "thursday",
    "fri",
    "friday",
    "sat",
    "saturday",
];

impl Word {
    pub(super) fn of(word: &str) -> Self {
        let word = word.to_ascii_lowercase();
        if let Some(clock) = abbreviated(&word) {
            return Self::Zone(clock);
        }
        let is_month =
            |name: &&str| **name == word || name[..3] == word || (word == "sept" && name.starts_with("sept"));
        if let Some(place) = MONTHS.iter().position(is_month) {
            return Self::Month(place as i64 + 1);
        }
        match word.as_str() {
            "bc" => Self::BeforeChrist,
            "ad" => Self::AnnoDomini,
            "am" => Self::Morning,
            "pm" => Self::Afternoon,
            "t" => Self::Time,
            "j" | "jd" | "julian" => Self::Julian,
            "allballs" => Self::Midnight,
            word if FILLERS.contains(&word) => Self::Filler,
            _ => Self::Name,
        }
    }
}
