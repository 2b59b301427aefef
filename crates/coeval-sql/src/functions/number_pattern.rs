// SPDX-License-Identifier: Apache-2.0
//! `to_char` of numbers and `to_number`: the patterns of PostgreSQL, `FM9,999.00`.
//!
//! A [`Pattern`] is read once for each call; [`written`](write::written) puts a number's digits into its places,
//! [`read`](read::read) finds them there.

mod read;
mod write;

use super::call::{Call, text};
use super::choice::{Form, Takes};
use super::{Entry, require_short, strict};
use crate::error::{SqlError, SqlState};
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, NUMERIC_PRECISION_MAX, Value};
use datafusion::common::ScalarValue;

const TEXT: Takes = Takes::Type(ColumnType::Text);

/// The entries; `to_char` of times is [`time_pattern`](super::time_pattern)'s, of the same name.
pub(super) const ENTRIES: &[Entry] = &[strict(
    "to_number",
    &[Form::new(&[TEXT, TEXT], ColumnType::Text, |call| {
        let scale = match call.result {
            ColumnType::Numeric { scale, .. } => scale,
            _ => 0,
        };
        read::read(call.text(0), &Pattern::parse(call.text(1))?, scale).map(Value::Decimal)
    })
    .giving(number_shape)],
)
.stable()];

/// Digits behind the point where the pattern is not known in time.
const SCALE_UNKNOWN: u8 = 10;

/// A `numeric` with the digits behind the point that the pattern has.
fn number_shape(_: &[DataType], values: &[Option<&ScalarValue>]) -> ColumnType {
    let pattern = values.get(1).copied().flatten().and_then(|value| value.try_as_str().flatten());
    let pattern = pattern.and_then(|pattern| Pattern::parse(pattern).ok());
    let digits = pattern.map_or(usize::from(SCALE_UNKNOWN), |pattern| pattern.behind + pattern.shifted);
    let scale = i8::try_from(digits.min(usize::from(NUMERIC_PRECISION_MAX))).unwrap_or(0);
    ColumnType::Numeric { precision: NUMERIC_PRECISION_MAX, scale }
}

/// `to_char(number, pattern)` of a number as PostgreSQL writes it, `-12.30`.
pub(super) fn decimal_to_char(call: &Call<'_>) -> Result<Value, SqlError> {
    require_short(call.text(1))?;
    let pattern = Pattern::parse(call.text(1))?;
    let (number, scale) = match call.values[0] {
        coeval_store::ValueRef::Decimal(_) => call.decimal(0),
        _ => (i128::from(call.int(0)), 0),
    };
    Ok(text(write::of_decimal(number, scale, &pattern)))
}

/// The same of a number of any number of digits, if it has no more than patterns have places for.
pub(super) fn number_to_char(call: &Call<'_>) -> Result<Value, SqlError> {
    require_short(call.text(1))?;
    let pattern = Pattern::parse(call.text(1))?;
    let beyond = || {
        SqlError::unsupported("to_char of a numeric that is NaN, infinite or has more than 38 digits")
            .with_hint("Cast it to a numeric with digits: x::numeric(38,10).")
    };
    let number = call.number(0);
    let scale = number.scale().ok_or_else(beyond)?;
    let scale = i8::try_from(scale.min(u32::from(NUMERIC_PRECISION_MAX))).unwrap_or(0);
    let units = number.decimal(NUMERIC_PRECISION_MAX, scale).map_err(|_| beyond())?;
    Ok(text(write::of_decimal(units, scale, &pattern)))
}

/// The same of a float: of its fifteen digits.
pub(super) fn float_to_char(call: &Call<'_>) -> Result<Value, SqlError> {
    require_short(call.text(1))?;
    let pattern = Pattern::parse(call.text(1))?;
    let significant = if matches!(call.types[0], ColumnType::Real) { 6 } else { 15 };
    Ok(text(write::of_float(call.double(0), significant, &pattern)))
}

/// What stands at a place of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `9`: a digit, or a blank in front of the number.
    Nine,
    /// `0`: a digit, also in front of the number.
    Zero,
    /// `.` or `D`.
    Point,
    /// `,` or `G`.
    Group,
    /// `L`: no currency has a sign in the `C` locale.
    Currency,
    /// `MI`.
    Minus,
    /// `PL`.
    Plus,
    /// `SG`.
    Sign,
    /// `TH`, `th`.
    Ordinal(Letters),
    /// What says something of the whole number, and has no place.
    Mark,
    /// Anything else.
    Literal(String),
}

/// How letters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letters {
    Capital,
    Small,
}

/// Where the sign of `S` is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    None,
    Before,
    Behind,
}

/// A pattern, and what its parts say of the whole number.
#[derive(Clone, Debug)]
struct Pattern {
    parts: Vec<Part>,
    /// Digits in front of the point.
    before: usize,
    /// Digits behind the point.
    behind: usize,
    /// Digits behind `V`.
    shifted: usize,
    /// The place of the first `0`, if that is in front of the point.
    first_zero: Option<usize>,
    /// Digits up to the last `0`.
    zeros_end: usize,
    /// Digits in front of `S`.
    before_sign: usize,
    anchor: Anchor,
    /// `FM`.
    is_short: bool,
    has_point: bool,
    has_shift: bool,
    has_minus: bool,
    has_plus: bool,
    has_sign: bool,
    has_brackets: bool,
    is_roman: bool,
    /// `rn`.
    is_lower: bool,
    is_scientific: bool,
}

/// What can stand in a pattern. Of two that fit the first is meant, so longer ones come first.
const WORDS: &[&str] = &[
    "EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", "0", "9", ",", ".", "B", "C", "D", "G", "L", "S",
    "V",
];

impl Pattern {
    fn empty() -> Self {
        Self {
            parts: Vec::new(),
            before: 0,
            behind: 0,
            shifted: 0,
            first_zero: None,
            zeros_end: 0,
            before_sign: 0,
            anchor: Anchor::None,
            is_short: false,
            has_point: false,
            has_shift: false,
            has_minus: false,
            has_plus: false,
            has_sign: false,
            has_brackets: false,
            is_roman: false,
            is_lower: false,
            is_scientific: false,
        }
    }

    /// The pattern that a text is.
    ///
    /// # Errors
    /// `42601` for words that do not go together.
    fn parse(pattern: &str) -> Result<Self, SqlError> {
        let mut parsed = Self::empty();
        let mut rest = pattern;
        while let Some(letter) = rest.chars().next() {
            let word = WORDS
                .iter()
                .find(|word| rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)));
            if let Some(word) = word {
                let (written, behind) = rest.split_at(word.len());
                parsed.word(word, written)?;
                rest = behind;
            } else if letter == '"' {
                let (quoted, behind) = quoted(&rest[1..]);
                parsed.parts.push(Part::Literal(quoted));
                rest = behind;
            } else {
                // A backslash keeps a quote from being one.
                let skipped = usize::from(rest.starts_with("\\\""));
                let literal = rest[skipped..].chars().next().map(String::from).unwrap_or_default();
                rest = &rest[skipped + literal.len()..];
                parsed.parts.push(Part::Literal(literal));
            }
        }
        Ok(parsed)
    }

    fn word(&mut self, word: &str, written: &str) -> Result<(), SqlError> {
        if self.is_scientific && word != "FM" {
            return Err(wrong("\"EEEE\" must be the last pattern used"));
        }
        let part = match word {
            "9" => self.digit(Part::Nine)?,
            "0" => self.digit(Part::Zero)?,
            "." | "D" => self.point()?,
            "," | "G" => Part::Group,
            "L" => Part::Currency,
            "S" => self.locale_sign()?,
            "MI" => self.plain_sign("MI", |all| all.has_minus = true, Part::Minus)?,
            "PL" => self.plain_sign("PL", |all| all.has_plus = true, Part::Plus)?,
            "SG" => self.plain_sign("SG", |all| (all.has_minus, all.has_plus) = (true, true), Part::Sign)?,
            "PR" if self.has_sign || self.has_plus || self.has_minus => {
                return Err(wrong("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
            }
            "TH" => Part::Ordinal(if written == "TH" { Letters::Capital } else { Letters::Small }),
            _ => {
                self.mark(word, written)?;
                Part::Mark
            }
        };
        self.parts.push(part);
        Ok(())
    }

    fn mark(&mut self, word: &str, written: &str) -> Result<(), SqlError> {
        match word {
            "FM" => self.is_short = true,
            "PR" => self.has_brackets = true,
            "RN" => (self.is_roman, self.is_lower) = (true, written == "rn"),
            "V" if self.has_point => return Err(wrong("cannot use \"V\" and decimal point together")),
            "V" => self.has_shift = true,
            "EEEE"
                if self.has_sign || self.has_brackets || self.is_short || self.has_shift || self.is_roman =>
            {
                let message = "\"EEEE\" is incompatible with other formats";
                return Err(wrong(message).with_detail(
                    "\"EEEE\" may only be used together with digit and decimal point patterns.",
                ));
            }
            "EEEE" => self.is_scientific = true,
            _ => {}
        }
        Ok(())
    }

    fn digit(&mut self, part: Part) -> Result<Part, SqlError> {
        let is_zero = part == Part::Zero;
        if self.has_brackets {
            return Err(wrong("\"9\" must be ahead of \"PR\""));
        }
        if is_zero && self.first_zero.is_none() && !self.has_point {
            self.first_zero = Some(self.before);
        }
        if self.has_point {
            self.behind += 1;
        } else if self.has_shift && !is_zero {
            self.shifted += 1;
        } else {
            self.before += 1;
        }
        if is_zero {
            self.zeros_end = self.before + self.behind;
        }
        Ok(part)
    }

    fn point(&mut self) -> Result<Part, SqlError> {
        if self.has_point {
            return Err(wrong("multiple decimal points"));
        }
        if self.has_shift {
            return Err(wrong("cannot use \"V\" and decimal point together"));
        }
        self.has_point = true;
        Ok(Part::Point)
    }

    fn locale_sign(&mut self) -> Result<Part, SqlError> {
        if self.has_sign {
            return Err(wrong("cannot use \"S\" twice"));
        }
        if self.has_plus || self.has_minus || self.has_brackets {
            return Err(wrong("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
        }
        if self.has_point {
            self.anchor = Anchor::Behind;
        } else {
            (self.anchor, self.before_sign) = (Anchor::Before, self.before);
        }
        self.has_sign = true;
        Ok(Part::Mark)
    }

    fn plain_sign(&mut self, word: &str, note: fn(&mut Self), part: Part) -> Result<Part, SqlError> {
        if self.has_sign {
            return Err(wrong(&format!("cannot use \"S\" and \"{word}\" together")));
        }
        note(self);
        Ok(part)
    }
}

/// The text up to the next quote, and what follows that.
fn quoted(text: &str) -> (String, &str) {
    let mut literal = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (literal, &text[at + 1..]),
            '\\' => literal.extend(letters.next().map(|(_, letter)| letter)),
            other => literal.push(other),
        }
    }
    (literal, "")
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(SqlState::SyntaxError, message)
}
