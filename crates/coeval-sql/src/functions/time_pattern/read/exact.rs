// SPDX-License-Identifier: Apache-2.0
//! Times that follow a pattern to the letter, as the SQL standard has it: separators and letters of the pattern stand in the text,
//! and nothing is left over. Whether there is a date, a time and a zone follows from the fields of the pattern.

use super::{
    Length, MICROS_PER_DAY, Part, Read, Reader, begins_with_digit, invalid_datetime, out_of_range, parts,
};
use crate::error::{SqlError, SqlState};
use crate::functions::require_short;
use crate::types::{is_date, is_timestamp};

/// What may stand between the fields.
const SEPARATORS: &str = "-./,':; ";

/// Hours that a zone is away from UTC at most, as in PostgreSQL.
const ZONE_HOURS_MAX: i64 = 15;

/// A pattern that texts follow to the letter.
pub(crate) struct ExactPattern {
    parts: Vec<Part>,
}

/// What a text says by such a pattern, each part if the pattern has fields of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExactTime {
    /// Days since 1970-01-01.
    pub(crate) days: Option<i64>,
    /// Microseconds since midnight.
    pub(crate) micros: Option<i64>,
    /// Seconds east of UTC.
    pub(crate) offset_seconds: Option<i64>,
}

/// What a field is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Date,
    Time,
    Zone,
}

fn part_of(word: &str) -> Of {
    match word {
        "AM" | "PM" | "A.M." | "P.M." | "HH" | "HH12" | "HH24" | "MI" | "SS" | "MS" | "US" | "FF1"
        | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" | "SSSS" | "SSSSS" => Of::Time,
        "TZ" | "TZH" | "TZM" | "OF" => Of::Zone,
        _ => Of::Date,
    }
}

impl ExactPattern {
    /// The pattern that a text writes.
    ///
    /// # Errors
    /// `22007` for a separator that the standard has not, `54000` for a pattern that is too long.
    pub(crate) fn new(pattern: &str) -> Result<Self, SqlError> {
        require_short(pattern)?;
        let parts = parts(pattern);
        for part in &parts {
            if let Part::Literal(letter) = part
                && !SEPARATORS.contains(*letter)
            {
                let message = format!("invalid datetime format separator: \"{letter}\"");
                return Err(invalid_datetime(message));
            }
        }
        Ok(Self { parts })
    }

    /// What a text says.
    ///
    /// # Errors
    /// `22007` for a text that does not follow the pattern, and for a pattern of no date and no time; `22008` for a date or a time
    /// that there is not, `22009` for a zone that is too far away.
    pub(crate) fn read(&self, text: &str) -> Result<ExactTime, SqlError> {
        let read = self.fields(text)?;
        let refused = |message: &str| Err(invalid_datetime(message.to_owned()));
        let offset_seconds = if self.has(Of::Zone) { Some(offset(&read, text)?) } else { None };
        match (self.has(Of::Date), self.has(Of::Time)) {
            (false, false) => refused("datetime format is not dated and not timed"),
            (true, false) if offset_seconds.is_some() => refused("datetime format is zoned but not timed"),
            (true, false) => dated(read.days(text)?, None, None, text),
            (false, true) => {
                let micros = Some(read.rounded_time(read.time(text)?));
                Ok(ExactTime { days: None, micros, offset_seconds })
            }
            (true, true) => {
                let local = Some(read.local(text)?).filter(|&micros| is_timestamp(micros));
                let local = read.rounded(local.ok_or_else(|| out_of_range(text))?);
                let micros = local.rem_euclid(MICROS_PER_DAY);
                dated(local.div_euclid(MICROS_PER_DAY), Some(micros), offset_seconds, text)
            }
        }
    }

    fn has(&self, of: Of) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Field(field) if part_of(field.word) == of))
    }

    fn fields(&self, text: &str) -> Result<Read, SqlError> {
        let mut reader = Reader::new(text);
        for (place, part) in self.parts.iter().enumerate() {
            let Some(next) = reader.next() else {
                let message = "input string is too short for datetime format";
                return Err(invalid_datetime(message.to_owned()));
            };
            match part {
                Part::Field(field) => {
                    let is_open = field.is_short || !begins_with_digit(self.parts.get(place + 1));
                    reader.field(field, if is_open { Length::Open } else { Length::Fixed })?;
                }
                Part::Literal(letter) | Part::Quoted(letter) if *letter == next => reader.advance(),
                Part::Literal(letter) => {
                    return Err(invalid_datetime(format!("unmatched format separator \"{letter}\"")));
                }
                Part::Quoted(letter) => {
                    return Err(invalid_datetime(format!("unmatched format character \"{letter}\"")));
                }
            }
        }
        if reader.rest.trim_ascii_start().is_empty() {
            return Ok(reader.read);
        }
        let message = "trailing characters remain in input string after datetime format";
        Err(invalid_datetime(message.to_owned()))
    }
}

/// What there is on a day, if there is such a day.
fn dated(
    days: i64,
    micros: Option<i64>,
    offset_seconds: Option<i64>,
    text: &str,
) -> Result<ExactTime, SqlError> {
    if i32::try_from(days).is_ok_and(is_date) {
        Ok(ExactTime { days: Some(days), micros, offset_seconds })
    } else {
        Err(out_of_range(text))
    }
}

/// Seconds east of UTC.
fn offset(read: &Read, text: &str) -> Result<i64, SqlError> {
    let (hours, minutes) = (read.zone_hours.unwrap_or(0), read.zone_minutes.unwrap_or(0));
    if (0..=ZONE_HOURS_MAX).contains(&hours) && (0..60).contains(&minutes) {
        return Ok(read.offset().unwrap_or(0));
    }
    let message = format!("time zone displacement out of range: \"{text}\"");
    Err(SqlError::new(SqlState::InvalidTimeZoneDisplacementValue, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 answers to `jsonb_path_query('"text"', '$.datetime("pattern")')`.
    #[test]
    fn a_text_follows_the_pattern_to_the_letter() {
        let read = |text: &str, pattern: &str| ExactPattern::new(pattern).and_then(|exact| exact.read(text));
        let time = |hour: i64, minute: i64| Some((hour * 3_600 + minute * 60) * 1_000_000);
        for (text, pattern, days, micros, offset_seconds) in [
            ("10-03-2017", "dd-mm-yyyy", Some(17_235), None, None),
            ("10-03-2017T12:34", "dd-mm-yyyy\"T\"HH24:MI", Some(17_235), time(12, 34), None),
            ("12:34 -05:20", "HH24:MI TZH:TZM", None, time(12, 34), Some(-19_200)),
            ("10-03-2017 12:34 +05", "dd-mm-yyyy HH24:MI TZH", Some(17_235), time(12, 34), Some(18_000)),
            ("2017-12-31 23:59:59.99", "YYYY-MM-DD HH24:MI:SS.FF1", Some(17_532), Some(0), None),
        ] {
            assert_eq!(read(text, pattern).unwrap(), ExactTime { days, micros, offset_seconds }, "{text}");
        }
        for (text, pattern, message) in [
            ("12:34", "aaa", "invalid datetime format separator: \"a\""),
            ("aaaa", "HH24", "invalid value \"aa\" for \"HH24\""),
            ("2017 1", "yyyy", "trailing characters remain in input string after datetime format"),
            ("10-03-2017t12", "dd-mm-yyyy\"T\"HH24", "unmatched format character \"T\""),
            ("10/03", "dd-mm", "unmatched format separator \"-\""),
            ("12:34", "HH24:MI TZH", "input string is too short for datetime format"),
            ("12 +05", "DD TZH", "datetime format is zoned but not timed"),
            ("12", "\"12\"", "datetime format is not dated and not timed"),
            ("12+16", "HH24TZH", "time zone displacement out of range: \"12+16\""),
        ] {
            assert_eq!(read(text, pattern).unwrap_err().message, message, "{text} by {pattern}");
        }
    }
}
