// SPDX-License-Identifier: Apache-2.0
//! What a backslash and the letters behind it stand for.

use super::super::pattern::wrong;
use super::Place;
use super::parser::Parser;
use crate::error::SqlError;

/// The most digits of a number that may be of any length.
const DIGITS_MAX: usize = 255;

/// The largest letter that an octal number may stand for.
const OCTAL_MAX: u32 = 0xFF;

/// What was escaped.
pub(super) enum Escaped {
    Letter(char),
    /// A class in the syntax of the `regex` crate.
    Class(&'static str),
    Place(Place),
    /// A back reference to the group of this number.
    Back(usize),
}

pub(super) fn wrong_escape() -> SqlError {
    wrong(r"invalid escape \ sequence")
}

impl Parser {
    /// What stands behind a backslash.
    pub(super) fn escape(&mut self) -> Result<Escaped, SqlError> {
        let letter = self.read().ok_or_else(wrong_escape)?;
        let escaped = match letter {
            'a' => Escaped::Letter('\x07'),
            'b' => Escaped::Letter('\x08'),
            'B' => Escaped::Letter('\\'),
            'e' => Escaped::Letter('\x1B'),
            'f' => Escaped::Letter('\x0C'),
            'n' => Escaped::Letter('\n'),
            'r' => Escaped::Letter('\r'),
            't' => Escaped::Letter('\t'),
            'v' => Escaped::Letter('\x0B'),
            'c' => {
                let control = self.read().ok_or_else(wrong_escape)?;
                Escaped::Letter(letter_of(u32::from(control) & 0x1F)?)
            }
            'u' => Escaped::Letter(letter_of(self.digits(16, 4, 4)?)?),
            'U' => Escaped::Letter(letter_of(self.digits(16, 8, 8)?)?),
            'x' => Escaped::Letter(letter_of(self.digits(16, 1, DIGITS_MAX)?)?),
            'd' => Escaped::Class(r"\d"),
            'D' => Escaped::Class(r"\D"),
            's' => Escaped::Class(r"\s"),
            'S' => Escaped::Class(r"\S"),
            'w' => Escaped::Class(r"\w"),
            'W' => Escaped::Class(r"\W"),
            'A' => Escaped::Place(Place::TextBegin),
            'Z' => Escaped::Place(Place::TextEnd),
            'm' => Escaped::Place(Place::WordBegin),
            'M' => Escaped::Place(Place::WordEnd),
            'y' => Escaped::Place(Place::WordEdge),
            'Y' => Escaped::Place(Place::NoWordEdge),
            '0'..='9' => self.number_or_letter(letter)?,
            other if other.is_ascii_alphanumeric() => return Err(wrong_escape()),
            other => Escaped::Letter(other),
        };
        Ok(escaped)
    }

    /// A number of one digit is a back reference, and one of several if there were so many groups. All others are letters, in octal.
    fn number_or_letter(&mut self, first: char) -> Result<Escaped, SqlError> {
        self.back(1);
        let begin = self.place();
        if first != '0' {
            let number = usize::try_from(self.digits(10, 1, DIGITS_MAX)?).map_err(|_| wrong_escape())?;
            let digits = self.place() - begin;
            if digits == 1 || number <= self.groups_opened() {
                return Ok(Escaped::Back(number));
            }
            self.back(digits);
        }
        let mut code = self.digits(8, 1, 3)?;
        if code > OCTAL_MAX {
            self.back(1);
            code >>= 3;
        }
        letter_of(code).map(Escaped::Letter)
    }

    fn digits(&mut self, radix: u32, least: usize, most: usize) -> Result<u32, SqlError> {
        let begin = self.place();
        let mut number = 0_u32;
        while self.place() - begin < most
            && let Some(digit) = self.peek().and_then(|letter| letter.to_digit(radix))
        {
            number = number.saturating_mul(radix).saturating_add(digit);
            self.read();
        }
        if self.place() - begin < least { Err(wrong_escape()) } else { Ok(number) }
    }
}

fn letter_of(code: u32) -> Result<char, SqlError> {
    char::from_u32(code).ok_or_else(wrong_escape)
}
