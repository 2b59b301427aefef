// SPDX-License-Identifier: Apache-2.0
//! The number that a text is in the places of a pattern.

use super::{Anchor, Part, Pattern};
use crate::error::{SqlError, SqlState};
use crate::types::numeric::{overflow, parse_decimal, power_of_ten};

/// The number, unscaled.
///
/// # Errors
/// `22P02` if there is none, `22003` for more digits than a number may have.
pub(super) fn read(text: &str, pattern: &Pattern, scale: i8) -> Result<i128, SqlError> {
    if pattern.is_roman || pattern.is_scientific {
        let word = if pattern.is_roman { "RN" } else { "EEEE" };
        return Err(SqlError::unsupported(format_args!("\"{word}\" for input")));
    }
    let mut reader = Reader { pattern, rest: text, is_negative: None, digits: String::new(), behind: None };
    for part in &pattern.parts {
        if reader.rest.is_empty() {
            break;
        }
        reader.part(part);
    }
    let digits = reader.digits.trim_end_matches('.');
    if digits.is_empty() {
        let message = format!("invalid input syntax for type numeric: \"{}\"", text.trim());
        return Err(SqlError::new(SqlState::InvalidTextRepresentation, message));
    }
    let number = parse_decimal(digits, scale).ok_or_else(overflow)?;
    let divisor = power_of_ten(u32::try_from(pattern.shifted).unwrap_or(u32::MAX)).ok_or_else(overflow)?;
    let number = if pattern.has_shift { number / divisor } else { number };
    Ok(if reader.is_negative == Some(true) { -number } else { number })
}

struct Reader<'r> {
    pattern: &'r Pattern,
    rest: &'r str,
    is_negative: Option<bool>,
    digits: String,
    /// How many digits behind the point have been read; `None` in front of it.
    behind: Option<usize>,
}

impl Reader<'_> {
    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        self.rest = &self.rest[self.next().map_or(0, char::len_utf8)..];
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Nine | Part::Zero | Part::Point => self.number_part(part),
            Part::Group => {
                if self.next() == Some(',') {
                    self.skip();
                }
            }
            Part::Minus | Part::Plus | Part::Sign => self.own_sign(),
            Part::Currency => self.foreign_letter(),
            Part::Ordinal(_) => (0..2).for_each(|_| self.foreign_letter()),
            Part::Literal(text) => text.chars().for_each(|_| self.skip()),
            Part::Mark => {}
        }
    }

    /// A letter that cannot be of the number.
    fn foreign_letter(&mut self) {
        if self
            .next()
            .is_some_and(|letter| !letter.is_ascii_digit() && !matches!(letter, '.' | ',' | '+' | '-'))
        {
            self.skip();
        }
    }

    fn own_sign(&mut self) {
        match self.next() {
            Some(sign @ ('-' | '+')) => {
                self.is_negative = Some(sign == '-');
                self.skip();
            }
            _ => self.foreign_letter(),
        }
    }

    fn number_part(&mut self, part: &Part) {
        if self.next() == Some(' ') {
            self.skip();
        }
        if self.is_negative.is_none() && self.digits.is_empty() && *part != Part::Point {
            self.sign_in_front();
        }
        match self.next() {
            Some(digit) if digit.is_ascii_digit() => {
                if self.behind == Some(self.pattern.behind) {
                    return;
                }
                self.digits.push(digit);
                self.behind = self.behind.map(|count| count + 1);
            }
            Some('.') if self.pattern.has_point && self.behind.is_none() => {
                self.digits.push('.');
                self.behind = Some(0);
            }
            _ => return,
        }
        self.skip();
        self.sign_behind();
    }

    fn sign_in_front(&mut self) {
        let is_anchored = self.pattern.has_sign && self.pattern.anchor == Anchor::Before;
        match self.next() {
            Some('<') if self.pattern.has_brackets => self.is_negative = Some(true),
            Some(sign @ ('-' | '+')) if is_anchored || !self.pattern.has_sign => {
                self.is_negative = Some(sign == '-');
            }
            _ => return,
        }
        self.skip();
    }

    /// Where exactly a sign stands behind the number is not known: it is read where it comes.
    fn sign_behind(&mut self) {
        let may_follow = self.pattern.has_sign || self.pattern.has_minus || self.pattern.has_plus;
        if let (None, true, Some(sign @ ('-' | '+'))) = (self.is_negative, may_follow, self.next()) {
            self.is_negative = Some(sign == '-');
            self.skip();
        }
    }
}
