// SPDX-License-Identifier: Apache-2.0
//! Intervals as text, with `IntervalStyle` `postgres`.
//!
//! | text | is |
//! |---|---|
//! | `1 year 2 mons -3 days 04:05:06`, `1h30m`, `3 days ago` | numbers, each with its unit |
//! | `3 04:05:06` | days and a time |
//! | `1-2` | years and months |
//! | `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`, `P00010203T040506` | as ISO 8601 has it (`interval_iso.rs`) |

use super::date_text::Flaw;
use super::date_tokens::TIME_BYTES_MAX;
use super::interval_iso::iso_parts;
use super::interval_parts::{Number, Parts, Unit};
use super::zones::MICROS_PER_SECOND;
use coeval_store::IntervalValue;
use std::borrow::Cow;
use std::fmt::Write;

const NANOS_PER_MICRO: i64 = 1_000;

/// The interval as PostgreSQL's style `postgres` prints it: `1 year 2 mons 3 days 04:05:06.789`.
pub(crate) fn format_interval(value: IntervalValue, out: &mut String) {
    let start = out.len();
    // A part behind a negative one shows its sign.
    let mut after_negative = false;
    let mut part = |count: i64, one: &str, many: &str| {
        if count != 0 {
            if out.len() > start {
                out.push(' ');
            }
            let sign = if after_negative && count > 0 { "+" } else { "" };
            let _ = write!(out, "{sign}{count} {}", if count == 1 { one } else { many });
            after_negative = count < 0;
        }
    };
    part(i64::from(value.months / 12), "year", "years");
    part(i64::from(value.months % 12), "mon", "mons");
    part(i64::from(value.days), "day", "days");
    let micros = value.nanoseconds / NANOS_PER_MICRO;
    if micros != 0 || out.len() == start {
        if out.len() > start {
            out.push(' ');
        }
        if micros < 0 {
            out.push('-');
        } else if after_negative {
            out.push('+');
        }
        let micros = micros.abs();
        let seconds = micros / MICROS_PER_SECOND;
        let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        super::datetime::write_fraction(micros % MICROS_PER_SECOND, out);
    }
}

/// The interval that a text stands for.
///
/// # Errors
/// [`Flaw::Form`] if it is none, [`Flaw::Field`] if one of its numbers is out of range, [`Flaw::Type`] if all together are.
pub(crate) fn read_interval(text: &str) -> Result<IntervalValue, Flaw> {
    let text = text.trim();
    if text.len() > TIME_BYTES_MAX {
        return Err(Flaw::Form);
    }
    parts_of(text, Unit::Second)?.interval()
}

/// The parts of an interval, where a number without a unit counts the `last` one.
fn parts_of(text: &str, last: Unit) -> Result<Parts, Flaw> {
    match text.strip_prefix('P') {
        Some(iso) => iso_parts(iso),
        None => worded_parts(&with_signs_at_numbers(text), last),
    }
}

/// The interval that a text stands for with fields behind it, as in `interval '1:30' minute to second`: a number without
/// a unit counts the last one, and what is smaller than that is left away.
///
/// # Errors
/// As [`read_interval`].
pub(crate) fn read_interval_in(text: &str, first: Unit, last: Unit) -> Result<IntervalValue, Flaw> {
    let is_short = (first, last) == (Unit::Minute, Unit::Second);
    // Hours stand before minutes and seconds.
    let whole = match text.split_once(':') {
        Some((hours, behind)) if is_short && !hours.contains('P') && !behind.contains([':', '.']) => {
            format!("{text}.")
        }
        _ => text.to_owned(),
    };
    let mut value = parts_of(whole.trim(), last)?.interval()?;
    let nanoseconds = |unit: i64| value.nanoseconds / unit * unit;
    match last {
        Unit::Year => value = IntervalValue { months: value.months / 12 * 12, ..IntervalValue::default() },
        Unit::Month => value = IntervalValue { months: value.months, ..IntervalValue::default() },
        Unit::Day => value.nanoseconds = 0,
        Unit::Hour => value.nanoseconds = nanoseconds(3_600 * MICROS_PER_SECOND * NANOS_PER_MICRO),
        Unit::Minute => value.nanoseconds = nanoseconds(60 * MICROS_PER_SECOND * NANOS_PER_MICRO),
        _ => {}
    }
    Ok(value)
}

/// Numbers and units, read from the end. What stands before a time or hours is days, and what stands before nothing is of
/// the `last` unit.
fn worded_parts(text: &str, last: Unit) -> Result<Parts, Flaw> {
    let mut parts = Parts::default();
    let mut unit = None;
    let mut is_ago = false;
    let words = split_words(text)?;
    for (place, word) in words.iter().enumerate().rev() {
        if word.contains(':') {
            parts.clock(word)?;
            unit = Some(Unit::Day);
        } else if word.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            match Unit::of(word) {
                Some(known) => unit = Some(known),
                None if word.eq_ignore_ascii_case("ago") && place + 1 == words.len() => is_ago = true,
                None => return Err(Flaw::Form),
            }
        } else if let Some(hyphen) = word.rfind('-').filter(|&place| place > 0) {
            parts.years_and_months(&word[..hyphen], &word[hyphen + 1..])?;
            unit = Some(Unit::Month);
        } else {
            // What is past has to have a unit.
            let counted = match unit {
                None if is_ago => return Err(Flaw::Form),
                unit => unit.unwrap_or(last),
            };
            parts.add_once(Number::of(word)?, counted)?;
            if counted == Unit::Hour {
                unit = Some(Unit::Day);
            }
        }
    }
    if parts.is_empty() {
        return Err(Flaw::Form);
    }
    if is_ago { parts.negated() } else { Ok(parts) }
}

/// The text with each sign at its number: blanks between the two count nothing.
fn with_signs_at_numbers(text: &str) -> Cow<'_, str> {
    const SIGNS: [char; 2] = ['+', '-'];
    let is_apart = |pair: &[u8]| matches!(pair[0], b'+' | b'-') && pair[1].is_ascii_whitespace();
    if !text.as_bytes().windows(2).any(is_apart) {
        return Cow::Borrowed(text);
    }
    let mut joined = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(SIGNS) {
        let (before, behind) = rest.split_at(place + 1);
        joined.push_str(before);
        // One behind a letter or a digit is no number's.
        let is_first = before[..place].chars().next_back().is_none_or(|letter| letter.is_ascii_whitespace());
        rest = if is_first { behind.trim_ascii_start() } else { behind };
    }
    joined.push_str(rest);
    Cow::Owned(joined)
}

/// The words of an interval: `3days` is two, a sign is one with its number.
fn split_words(text: &str) -> Result<Vec<&str>, Flaw> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let first = bytes[start];
        let is_mark = first.is_ascii_punctuation() && !b"+-.:".contains(&first);
        if first.is_ascii_whitespace() || is_mark {
            start += 1;
            continue;
        }
        let is_letter = first.is_ascii_alphabetic();
        let is_of = |byte: u8| {
            if is_letter {
                byte.is_ascii_alphabetic()
            } else {
                byte.is_ascii_digit() || b":.-".contains(&byte)
            }
        };
        let mut end = start + 1;
        while end < bytes.len() && is_of(bytes[end]) {
            end += 1;
        }
        // Units of one letter may have the next number behind them, as `1h30m`, and such as are called like a month or a day of the week.
        let may_be_joined = |unit: &str| unit.len() == 1 || ["mon", "dec"].contains(&unit);
        if is_letter
            && bytes.get(end).is_some_and(u8::is_ascii_digit)
            && !may_be_joined(&text[start..end].to_ascii_lowercase())
        {
            return Err(Flaw::Form);
        }
        // A letter that is not one of ASCII may be longer than a byte.
        while !text.is_char_boundary(end) {
            end += 1;
        }
        words.push(&text[start..end]);
        start = end;
    }
    Ok(words)
}
