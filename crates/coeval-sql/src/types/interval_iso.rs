// SPDX-License-Identifier: Apache-2.0
//! Intervals as ISO 8601 writes them, behind their `P`.
//!
//! | text | is |
//! |---|---|
//! | `P1Y2M3DT4H5M6.5S`, `P1W` | numbers in front of the letters of their units |
//! | `P0001-02-03T04:05:06`, `P0001-02`, `P1`, `PT4:05`, `PT4` | years, months, days; hours, minutes, seconds |
//! | `P00010203T040506` | the same without marks, with as many digits as these |
//!
//! A number may be as C's `strtod` reads it: `1e3`, `-.5`.

use super::date_text::Flaw;
use super::interval_parts::{Number, Parts, Unit};

/// The greatest number that is taken: those below it have exact fractions.
const NUMBER_MAX: f64 = 1e15;

const DATE: [Unit; 3] = [Unit::Year, Unit::Month, Unit::Day];
const TIME: [Unit; 3] = [Unit::Hour, Unit::Minute, Unit::Second];

/// The parts that stand behind the `P`.
///
/// # Errors
/// [`Flaw::Form`] if it is no interval, [`Flaw::Field`] for too large a number.
pub(super) fn iso_parts(text: &str) -> Result<Parts, Flaw> {
    if text.is_empty() {
        return Err(Flaw::Form);
    }
    let mut parts = Parts::default();
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    if !run_together(date, 8, &DATE, &mut parts)? && !with_marks(date, '-', &DATE, &mut parts)? {
        with_letters(date, &mut parts, |letter| match letter {
            'Y' => Some(Unit::Year),
            'M' => Some(Unit::Month),
            'W' => Some(Unit::Week),
            'D' => Some(Unit::Day),
            _ => None,
        })?;
    }
    if !run_together(time, 6, &TIME, &mut parts)? && !with_marks(time, ':', &TIME, &mut parts)? {
        with_letters(time, &mut parts, |letter| match letter {
            'H' => Some(Unit::Hour),
            'M' => Some(Unit::Minute),
            'S' => Some(Unit::Second),
            _ => None,
        })?;
    }
    Ok(parts)
}

/// One number of so many digits, which is one of each unit, the last two of two digits; whether it is that.
fn run_together(text: &str, digits: usize, units: &[Unit; 3], parts: &mut Parts) -> Result<bool, Flaw> {
    let written = text.strip_prefix('-').unwrap_or(text);
    let length = written.bytes().take_while(u8::is_ascii_digit).count();
    if length != digits {
        return Ok(false);
    }
    let (number, behind) = number(text)?;
    if !behind.is_empty() {
        return Ok(false);
    }
    let numbers = [number.whole / 10_000, number.whole / 100 % 100, number.whole % 100];
    for (number, &unit) in numbers.into_iter().zip(units) {
        parts.add(Number::of_whole(number), unit)?;
    }
    // What is behind the point counts as part of a day, but of a microsecond where a second is meant: PostgreSQL has it so.
    let smallest = if units[2] == Unit::Day { Unit::Day } else { Unit::Microsecond };
    parts.add(Number { whole: 0, part: number.part }, smallest)?;
    Ok(true)
}

/// Up to three numbers with marks between, without letters; whether it is that.
fn with_marks(text: &str, mark: char, units: &[Unit; 3], parts: &mut Parts) -> Result<bool, Flaw> {
    let mut numbers = Vec::with_capacity(units.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (number, behind) = number(rest)?;
        numbers.push(number);
        match behind.strip_prefix(mark) {
            Some(next) if !next.is_empty() => rest = next,
            None if behind.is_empty() => break,
            // The letter of a unit.
            None if numbers.len() == 1 => return Ok(false),
            _ => return Err(Flaw::Form),
        }
    }
    if numbers.len() > units.len() {
        return Err(Flaw::Form);
    }
    for (number, &unit) in numbers.into_iter().zip(units) {
        parts.add(number, unit)?;
    }
    Ok(true)
}

fn with_letters(text: &str, parts: &mut Parts, unit_of: fn(char) -> Option<Unit>) -> Result<(), Flaw> {
    let mut rest = text;
    while !rest.is_empty() {
        let (number, behind) = number(rest)?;
        let mut letters = behind.chars();
        let unit = letters.next().and_then(unit_of).ok_or(Flaw::Form)?;
        parts.add(number, unit)?;
        rest = letters.as_str();
    }
    Ok(())
}

/// The number that a text begins with, and what stands behind it.
fn number(text: &str) -> Result<(Number, &str), Flaw> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let start = usize::from(bytes.first() == Some(&b'-'));
    let mut count = digits(start);
    let mut end = start + count;
    if bytes.get(end) == Some(&b'.') {
        let behind = digits(end + 1);
        count += behind;
        end += 1 + behind;
    }
    if count == 0 {
        return Err(Flaw::Form);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let (number, behind) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| Flaw::Form)?;
    if number.abs() > NUMBER_MAX {
        return Err(Flaw::Field);
    }
    Ok((Number { whole: number.trunc() as i64, part: number.fract() }, behind))
}
