// SPDX-License-Identifier: Apache-2.0
//! `to_char` of times, `to_date` and `to_timestamp`: the patterns of PostgreSQL, `FMDay, DD Mon YYYY HH24:MI`.

mod calendar;
mod read;
mod write;

pub(crate) use read::{ExactPattern, ExactTime};

use super::call::{Call, text};
use super::choice::{Form, Takes};
use super::number_pattern::{decimal_to_char, float_to_char, number_to_char};
use super::{Entry, require_short, strict};
use crate::error::{SqlError, SqlState};
use calendar::Clock;
use coeval_store::{ColumnType, Value};

const TEXT: Takes = Takes::Type(ColumnType::Text);

const fn to_char(takes: &'static [Takes], body: fn(&Call<'_>) -> Result<Value, SqlError>) -> Form {
    Form::new(takes, ColumnType::Text, body)
}

pub(super) const ENTRIES: &[Entry] = &[
    strict(
        "to_char",
        &[
            to_char(&[Takes::Type(ColumnType::TimestampTz), TEXT], |call| {
                shown(call, Clock::of_instant(call.int(0), call.zone))
            }),
            to_char(&[Takes::Type(ColumnType::Timestamp), TEXT], |call| {
                shown(call, Clock::of_timestamp(call.int(0)))
            }),
            to_char(&[Takes::Type(ColumnType::Interval), TEXT], |call| {
                shown(call, Some(Clock::of_interval(call.interval(0))))
            }),
            to_char(&[Takes::Type(ColumnType::Time), TEXT], |call| {
                shown(call, Some(Clock::of_time(call.int(0))))
            }),
            to_char(&[Takes::Type(ColumnType::Int), TEXT], decimal_to_char),
            to_char(&[Takes::Type(ColumnType::BigInt), TEXT], decimal_to_char),
            to_char(&[Takes::Numeric, TEXT], decimal_to_char),
            to_char(&[Takes::Type(ColumnType::AnyNumeric), TEXT], number_to_char),
            to_char(&[Takes::Type(ColumnType::Real), TEXT], float_to_char),
            to_char(&[Takes::Type(ColumnType::Double), TEXT], float_to_char),
        ],
    )
    .stable(),
    strict(
        "to_date",
        &[Form::new(&[TEXT, TEXT], ColumnType::Date, |call| {
            require_short(call.text(1))?;
            read::date(call.text(0), call.text(1)).map(Value::Int32)
        })],
    )
    .stable(),
    strict(
        "to_timestamp",
        &[
            Form::new(&[Takes::Type(ColumnType::Double)], ColumnType::TimestampTz, |call| {
                calendar::of_epoch(call.double(0)).map(Value::Int64)
            }),
            Form::new(&[TEXT, TEXT], ColumnType::TimestampTz, |call| {
                require_short(call.text(1))?;
                read::timestamp(call.text(0), call.text(1), call.zone).map(Value::Int64)
            }),
        ],
    )
    .stable(),
];

/// The time in the pattern; NULL for infinity and for no pattern.
fn shown(call: &Call<'_>, clock: Option<Clock>) -> Result<Value, SqlError> {
    let (Some(clock), false) = (clock, call.text(1).is_empty()) else { return Ok(Value::Null) };
    require_short(call.text(1))?;
    write::written(&parts(call.text(1)), &clock).map(text)
}

/// How a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Upper,
    Capital,
    Lower,
}

/// A field of a pattern.
#[derive(Clone, Debug)]
struct Field {
    /// Its word in capitals.
    word: &'static str,
    case: Case,
    /// Without blanks and zeros that fill it up: `FM`, and in front of a name `TM`.
    is_short: bool,
    /// `TH` behind it, or `th`.
    ordinal: Option<Case>,
}

/// What a pattern consists of.
#[derive(Clone, Debug)]
enum Part {
    Field(Field),
    Literal(char),
    /// A letter within quotes.
    Quoted(char),
}

/// The words. Of two that fit the first is meant, so longer ones come first.
const WORDS: &[&str] = &[
    "SSSSS", "Y,YYY", "MONTH", "A.D.", "A.M.", "B.C.", "P.M.", "HH24", "HH12", "IDDD", "IYYY", "SSSS",
    "YYYY", "DAY", "DDD", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "IYY", "MON", "TZH", "TZM", "YYY", "AD",
    "AM", "BC", "CC", "DD", "DY", "FX", "HH", "ID", "IW", "IY", "MI", "MM", "MS", "OF", "PM", "RM", "SS",
    "TZ", "US", "WW", "YY", "D", "I", "J", "Q", "W", "Y",
];

/// Words whose letters say how the result is written; others are the same in capitals and small letters.
fn is_name(word: &str) -> bool {
    matches!(word, "MONTH" | "MON" | "DAY" | "DY")
}

/// The word at the beginning of a text.
fn word_at(rest: &str) -> Option<(&'static str, Case)> {
    let word = WORDS
        .iter()
        .find(|word| rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)))?;
    let mut letters = rest.chars().take(word.len());
    let is_upper = letters.next().is_some_and(char::is_uppercase);
    let is_rest_upper = letters.find(|letter| letter.is_alphabetic()).is_none_or(char::is_uppercase);
    let case = match (is_upper, is_rest_upper) {
        (true, false) if is_name(word) => Case::Capital,
        (true, _) => Case::Upper,
        (false, _) => Case::Lower,
    };
    Some((word, case))
}

fn starts_with(rest: &str, mark: &str) -> bool {
    rest.get(..mark.len()).is_some_and(|head| head.eq_ignore_ascii_case(mark))
}

/// The parts of a pattern.
fn parts(pattern: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let (marks, behind_marks) = marks(rest);
        if let Some((word, case)) = word_at(behind_marks) {
            rest = &behind_marks[word.len()..];
            let ordinal = if rest.starts_with("TH") {
                Some(Case::Upper)
            } else {
                rest.starts_with("th").then_some(Case::Lower)
            };
            rest = &rest[ordinal.map_or(0, |_| 2)..];
            let is_short = marks.is_short || (marks.is_translated && is_name(word));
            if word != "FX" {
                parts.push(Part::Field(Field { word, case, is_short, ordinal }));
            }
            continue;
        }
        if behind_marks.len() < rest.len() {
            rest = behind_marks;
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        match letter {
            '"' => rest = quoted(rest, &mut parts),
            '\\' if rest.starts_with('"') => {
                parts.push(Part::Literal('"'));
                rest = &rest[1..];
            }
            other => parts.push(Part::Literal(other)),
        }
    }
    parts
}

/// What stands in front of a field.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// `FM`.
    is_short: bool,
    /// `TM`: names are those of a language, which is always English.
    is_translated: bool,
}

/// The marks in front of a field, and what follows them.
fn marks(mut rest: &str) -> (Marks, &str) {
    let mut marks = Marks::default();
    loop {
        if starts_with(rest, "FM") {
            marks.is_short = true;
        } else if starts_with(rest, "TM") {
            marks.is_translated = true;
        } else {
            return (marks, rest);
        }
        rest = &rest[2..];
    }
}

/// Appends what stands up to the next quote, and gives what follows that.
fn quoted<'t>(text: &'t str, parts: &mut Vec<Part>) -> &'t str {
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return &text[at + 1..],
            '\\' => parts.extend(letters.next().map(|(_, letter)| Part::Quoted(letter))),
            other => parts.push(Part::Quoted(other)),
        }
    }
    ""
}

/// `22007`: a text that is not what the pattern says.
fn invalid_datetime(message: String) -> SqlError {
    SqlError::new(SqlState::InvalidDatetimeFormat, message)
}
