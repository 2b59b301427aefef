// SPDX-License-Identifier: Apache-2.0
//! A number's digits in the places of a pattern.
//!
//! The places of `9` and `0` are gone through from the left. Those that the number has no digit for are blank, or zero
//! from the first `0` on; the sign stands in front of the first digit unless the pattern says where. With `FM` nothing
//! is blank, and zeros at the end are left out but for those that a `0` asks for.

use super::{Anchor, Letters, Part, Pattern};
use crate::types::numeric::{format_decimal, rescale};
use coeval_store::NUMERIC_PRECISION_MAX;

/// A `numeric`, written.
pub(super) fn of_decimal(number: i128, scale: i8, pattern: &Pattern) -> String {
    if pattern.is_roman {
        let whole = rescale(number, scale, 0, u8::MAX).unwrap_or(i128::MAX);
        return roman(whole, pattern);
    }
    if pattern.is_scientific {
        let mut text = String::new();
        format_decimal(number, scale, &mut text);
        return scientific(&text, pattern);
    }
    let behind = i8::try_from(pattern.behind.min(usize::from(NUMERIC_PRECISION_MAX))).unwrap_or(0);
    let shift = i8::try_from(pattern.shifted.min(usize::from(NUMERIC_PRECISION_MAX))).unwrap_or(0);
    // Digits behind V belong to the number, which is to be whole.
    let rounded = rescale(number, scale, if shift > 0 { shift } else { behind }, u8::MAX);
    let mut text = String::new();
    match rounded {
        Ok(rounded) => format_decimal(rounded, if shift > 0 { 0 } else { behind }, &mut text),
        // More digits than there are: zeros are written behind those of the number.
        Err(_) => {
            format_decimal(number, scale, &mut text);
            let present = text.split_once('.').map_or(0, |(_, behind)| behind.len());
            if present == 0 {
                text.push('.');
            }
            text.extend(std::iter::repeat_n('0', usize::from(behind.unsigned_abs()).saturating_sub(present)));
        }
    }
    written(&text, pattern)
}

/// A float, of whose digits `significant` count.
pub(super) fn of_float(number: f64, significant: usize, pattern: &Pattern) -> String {
    if !number.is_finite() {
        // Its letters stand where digits would.
        let word = if number.is_nan() { "NaN" } else { "Infinity" };
        return written(&format!("{}{word}", if number < 0.0 { "-" } else { "" }), pattern);
    }
    if pattern.is_roman {
        return roman(number.round_ties_even() as i128, pattern);
    }
    if pattern.is_scientific {
        return scientific(&format!("{number:.*e}", pattern.behind), pattern);
    }
    let number = number * 10_f64.powi(i32::try_from(pattern.shifted).unwrap_or(0));
    let whole = format!("{:.0}", number.abs());
    let behind = if whole.len() >= significant { 0 } else { pattern.behind.min(significant - whole.len()) };
    written(&format!("{number:.behind$}"), pattern)
}

/// The digits of a number that is written `-12.30`, in the places of the pattern.
fn written(number: &str, pattern: &Pattern) -> String {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let room = pattern.before + pattern.shifted;
    let whole = digits.find('.').unwrap_or(digits.len());
    let digits = if whole > room {
        let mut overflow = "#".repeat(room);
        overflow.push('.');
        overflow.push_str(&"#".repeat(pattern.behind));
        overflow
    } else {
        digits.to_owned()
    };
    let blanks = room.saturating_sub(whole);
    let mut writer = Writer::new(pattern, number, digits.into_bytes(), blanks);
    for part in &pattern.parts {
        writer.part(part);
    }
    writer.out
}

struct Writer<'p> {
    pattern: &'p Pattern,
    anchor: Anchor,
    has_brackets: bool,
    /// The number without its sign.
    digits: Vec<u8>,
    is_negative: bool,
    /// Places in front of the first digit.
    blanks: usize,
    /// The last digit that is not left out, or the point.
    last: Option<usize>,
    is_sign_written: bool,
    /// How many digits there are places for.
    places: usize,
    /// The next of the number's digits.
    digit: usize,
    /// The next place.
    place: usize,
    /// Whether the last place had a digit.
    is_inside: bool,
    out: String,
}

impl<'p> Writer<'p> {
    fn new(pattern: &'p Pattern, number: &str, digits: Vec<u8>, blanks: usize) -> Self {
        let is_negative = number.starts_with('-');
        let has_own_sign = pattern.has_minus || pattern.has_plus;
        let needs_none = !is_negative && pattern.is_short && !pattern.has_sign;
        let is_behind = pattern.anchor == Anchor::Before && pattern.before == pattern.before_sign;
        let is_sign_written = if has_own_sign { pattern.has_minus || !pattern.has_plus } else { needs_none };
        let places = pattern.before + pattern.behind + pattern.shifted;
        let mut writer = Self {
            pattern,
            anchor: if is_behind && !has_own_sign { Anchor::Behind } else { pattern.anchor },
            has_brackets: pattern.has_brackets && (is_negative || !pattern.is_short),
            digits,
            is_negative,
            blanks,
            last: None,
            is_sign_written,
            places,
            digit: 0,
            place: 0,
            is_inside: false,
            out: String::new(),
        };
        writer.last = writer.last_relevant();
        writer
    }

    /// Where zeros at the end begin that FM leaves out.
    fn last_relevant(&self) -> Option<usize> {
        if !self.pattern.is_short || !self.pattern.has_point {
            return None;
        }
        let point = self.digits.iter().position(|&digit| digit == b'.')?;
        let nonzero = self.digits.iter().rposition(|&digit| digit != b'0')?;
        let last = nonzero.max(point);
        let asked = self.pattern.zeros_end.checked_sub(self.blanks).filter(|&asked| asked > 0);
        let asked = asked.map_or(0, |asked| asked.min(self.digits.len() - 1));
        Some(last.max(asked))
    }

    fn sign(&self) -> char {
        if self.is_negative { '-' } else { '+' }
    }

    fn part(&mut self, part: &Part) {
        let is_short = self.pattern.is_short;
        match part {
            Part::Nine | Part::Zero | Part::Point => self.number_part(part),
            Part::Group if self.is_inside => self.out.push(','),
            Part::Group | Part::Currency if is_short && *part == Part::Group => {}
            Part::Group | Part::Currency => self.out.push(' '),
            Part::Minus if self.is_negative => self.out.push('-'),
            Part::Plus if !self.is_negative => self.out.push('+'),
            Part::Minus | Part::Plus if is_short => {}
            Part::Minus | Part::Plus => self.out.push(' '),
            Part::Sign => self.out.push(self.sign()),
            Part::Ordinal(letters) => self.ordinal(*letters),
            Part::Mark => {}
            Part::Literal(text) => self.out.push_str(text),
        }
    }

    fn ordinal(&mut self, letters: Letters) {
        if self.digits.first() == Some(&b'#') || self.is_negative || self.pattern.has_point {
            return;
        }
        let ending = ordinal_ending(&self.digits);
        self.out.push_str(&if letters == Letters::Capital {
            ending.to_uppercase()
        } else {
            ending.to_owned()
        });
    }

    /// Whether the digit is the zero in front of the point that only a `0` shows.
    fn is_lone_zero(&self) -> bool {
        self.pattern.first_zero.is_none()
            && self.digit == 0
            && self.digits.first() == Some(&b'0')
            && self.pattern.behind != 0
    }

    /// Whether no digit behind the point is shown.
    fn ends_at_point(&self) -> bool {
        self.last.is_some_and(|last| self.digits[last] == b'.')
    }

    fn number_part(&mut self, part: &Part) {
        self.is_inside = false;
        self.sign_in_front();
        let is_blank = self.place < self.blanks;
        let is_zero = self.pattern.first_zero.is_some_and(|zero| zero <= self.place);
        if is_blank && is_zero {
            self.out.push('0');
            self.is_inside = true;
        } else if is_blank {
            if !self.pattern.is_short {
                self.out.push(' ');
            }
        } else {
            self.number_digit(part);
        }
        self.sign_behind();
        self.place += 1;
    }

    fn number_digit(&mut self, part: &Part) {
        let Some(&digit) = self.digits.get(self.digit) else { return };
        let is_left_out = self.last.is_some_and(|last| self.digit > last) && *part != Part::Zero;
        if digit == b'.' {
            if self.last.is_none() || !self.ends_at_point() || self.pattern.is_short {
                self.out.push('.');
            }
        } else if is_left_out {
        } else if self.is_lone_zero() {
            if !self.pattern.is_short {
                self.out.push(' ');
            } else if self.ends_at_point() {
                self.out.push('0');
            }
        } else {
            self.out.push(char::from(digit));
            self.is_inside = true;
        }
        self.digit += 1;
    }

    fn sign_in_front(&mut self) {
        let is_reached = self.place >= self.blanks || self.pattern.first_zero == Some(self.place);
        if self.is_sign_written || !is_reached || (self.is_lone_zero() && !self.ends_at_point()) {
            return;
        }
        if self.pattern.has_sign {
            if self.anchor == Anchor::Before {
                self.out.push(self.sign());
                self.is_sign_written = true;
            }
            return;
        }
        match (self.has_brackets, self.is_negative) {
            (true, true) => self.out.push('<'),
            (_, false) if self.has_brackets || !self.pattern.is_short => self.out.push(' '),
            (false, true) => self.out.push('-'),
            _ => {}
        }
        self.is_sign_written = true;
    }

    fn sign_behind(&mut self) {
        if self.place + 1 != self.places + usize::from(self.pattern.has_point) {
            return;
        }
        if self.is_sign_written && self.has_brackets {
            self.out.push(if self.is_negative { '>' } else { ' ' });
            self.has_brackets = false;
        } else if self.pattern.has_sign && self.anchor == Anchor::Behind && !self.is_sign_written {
            self.out.push(self.sign());
            self.is_sign_written = true;
        }
    }
}

/// `st`, `nd`, `rd`, `th`.
fn ordinal_ending(digits: &[u8]) -> &'static str {
    let tens = digits.len().checked_sub(2).map(|place| digits[place]);
    match (tens, digits.last()) {
        (Some(b'1'), _) => "th",
        (_, Some(b'1')) => "st",
        (_, Some(b'2')) => "nd",
        (_, Some(b'3')) => "rd",
        _ => "th",
    }
}

/// The width of a Roman number that is not short.
const ROMAN_WIDTH: usize = 15;

fn roman(number: i128, pattern: &Pattern) -> String {
    const LETTERS: &[(i128, &str)] = &[
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..=3999).contains(&number) {
        return "#".repeat(ROMAN_WIDTH);
    }
    let (mut rest, mut letters) = (number, String::new());
    for (value, letter) in LETTERS {
        while rest >= *value {
            letters.push_str(letter);
            rest -= value;
        }
    }
    if pattern.is_lower {
        letters.make_ascii_lowercase();
    }
    if pattern.is_short { letters } else { format!("{letters:>ROMAN_WIDTH$}") }
}

/// `1.23e+04`, of a number that is written `-12.30` or with an exponent.
fn scientific(number: &str, pattern: &Pattern) -> String {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => (" ", number),
    };
    let (mantissa, exponent) = match digits.split_once('e') {
        Some((mantissa, exponent)) => (mantissa.to_owned(), exponent.parse().unwrap_or(0)),
        None => normalized(digits, pattern.behind),
    };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{mantissa}e{exponent_sign}{:02}", i32::abs(exponent))
}

/// A number with one digit in front of the point and so many behind, and its exponent.
fn normalized(digits: &str, behind: usize) -> (String, i32) {
    let point = digits.find('.').unwrap_or(digits.len());
    let all: Vec<u8> = digits.bytes().filter(|&byte| byte != b'.').collect();
    let Some(first) = all.iter().position(|&digit| digit != b'0') else {
        return (with_point(&vec![b'0'; behind + 1]), 0);
    };
    let mut kept: Vec<u8> = all[first..].iter().copied().take(behind + 1).collect();
    kept.resize(behind + 1, b'0');
    let mut exponent = point as i32 - first as i32 - 1;
    if all.get(first + behind + 1).is_some_and(|&next| next >= b'5') && carry(&mut kept) {
        kept.insert(0, b'1');
        kept.pop();
        exponent += 1;
    }
    (with_point(&kept), exponent)
}

/// Adds one to the last digit; whether that is one digit more.
fn carry(digits: &mut [u8]) -> bool {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return false;
        }
        *digit = b'0';
    }
    true
}

fn with_point(digits: &[u8]) -> String {
    let mut text: String = digits.iter().map(|&digit| char::from(digit)).collect();
    if text.len() > 1 {
        text.insert(1, '.');
    }
    text
}
