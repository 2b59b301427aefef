// SPDX-License-Identifier: Apache-2.0
//! The time that a text is in the places of a pattern.
//!
//! A number takes as many digits as its field has, or all there are if no digit can follow it. Blanks around a
//! field do not count; a separator of the pattern takes one of the text if there is one, a letter takes any. Where the
//! text ends the rest of the pattern counts nothing: the year alone is its first of January.

mod exact;

pub(crate) use exact::{ExactPattern, ExactTime};

use super::calendar::{EPOCH_AS_JULIAN, of_iso_week};
use super::write::{DAYS, MONTHS, ROMAN_MONTHS};
use super::{Field, Part, invalid_datetime, parts};
use crate::error::{SqlError, SqlState};
use crate::types::{is_date, is_timestamp, local_to_utc};
use chrono::{Datelike, NaiveDate};
use chrono_tz::Tz;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
const UNIX_EPOCH_DAY_FROM_CE: i64 = 719_163;

/// The moment from which PostgreSQL counts, 2000-01-01, in microseconds since 1970.
const POSTGRES_EPOCH: i64 = 946_684_800 * MICROS_PER_SECOND;

/// The days since 1970-01-01 of a date.
///
/// # Errors
/// `22007` for text that is not what the pattern says, `22008` for a date that does not exist.
pub(super) fn date(text: &str, pattern: &str) -> Result<i32, SqlError> {
    let read = Read::of(text, pattern)?;
    let days = read.days(text)?;
    // A date is none whose time is none.
    read.time(text)?;
    i32::try_from(days).ok().filter(|&days| is_date(days)).ok_or_else(|| out_of_range(text))
}

/// The instant of a time, which is one of this zone unless the text says otherwise.
///
/// # Errors
/// As [`date`].
pub(super) fn timestamp(text: &str, pattern: &str, zone: Tz) -> Result<i64, SqlError> {
    let read = Read::of(text, pattern)?;
    let local = read.local(text)?;
    let instant = match read.offset() {
        Some(seconds) => Some(local - seconds * MICROS_PER_SECOND),
        None => local_to_utc(local, zone),
    };
    let instant = instant.filter(|&micros| is_timestamp(micros)).ok_or_else(|| out_of_range(text))?;
    Ok(read.rounded(instant))
}

fn out_of_range(text: &str) -> SqlError {
    let message = format!("date/time field value out of range: \"{text}\"");
    SqlError::new(SqlState::DatetimeFieldOverflow, message)
}

/// How days are counted: by months, or by weeks that begin on a Monday. A pattern has one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convention {
    Gregorian,
    IsoWeek,
}

impl Convention {
    /// That of a field; `None` if it goes with both.
    fn of(word: &str) -> Option<Self> {
        match word {
            "DDD" | "DD" | "D" | "MM" | "MONTH" | "MON" | "RM" | "WW" | "W" | "Y,YYY" | "YYYY" | "YYY"
            | "YY" | "Y" => Some(Self::Gregorian),
            "IDDD" | "ID" | "IW" | "IYYY" | "IYY" | "IY" | "I" => Some(Self::IsoWeek),
            _ => None,
        }
    }
}

/// Puts a number into its field. One that another part of the pattern put there has to be the same, or zero.
fn put(place: &mut Option<i64>, number: i64, word: &str) -> Result<(), SqlError> {
    if place.is_some_and(|before| before != 0 && before != number) {
        let message = format!("conflicting values for \"{word}\" field in formatting string");
        return Err(invalid_datetime(message)
            .with_detail("This value contradicts a previous setting for the same field type."));
    }
    *place = Some(number);
    Ok(())
}

/// What a text says, field by field.
#[derive(Default)]
struct Read {
    convention: Option<Convention>,
    year: Option<i64>,
    century: Option<i64>,
    is_before_christ: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    week_of_month: Option<i64>,
    week_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    /// From Monday, which is one.
    iso_weekday: Option<i64>,
    julian: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    micros: i64,
    /// To how many digits of seconds the pattern rounds.
    second_digits: Option<u32>,
    is_half_day: bool,
    is_afternoon: bool,
    zone_sign: i64,
    zone_hours: Option<i64>,
    zone_minutes: Option<i64>,
}

impl Read {
    fn of(text: &str, pattern: &str) -> Result<Self, SqlError> {
        let parts = parts(pattern);
        let mut reader = Reader::new(text);
        for (place, part) in parts.iter().enumerate() {
            if reader.rest.is_empty() {
                break;
            }
            if place == 0 || matches!(part, Part::Field(_)) {
                reader.skip_blanks();
            }
            match part {
                Part::Field(field) => {
                    let next = parts.get(place + 1);
                    let is_open = field.is_short || !begins_with_digit(next);
                    reader.field(field, if is_open { Length::Open } else { Length::Fixed })?;
                    reader.skipped = 0;
                    reader.skip_blanks();
                }
                Part::Literal(letter) if !letter.is_alphanumeric() => reader.separator(),
                Part::Literal(_) | Part::Quoted(_) => reader.letter(),
            }
        }
        Ok(reader.read)
    }

    /// Whole days since 1970-01-01.
    fn days(&self, text: &str) -> Result<i64, SqlError> {
        if let Some(julian) = self.julian {
            return Ok(julian - EPOCH_AS_JULIAN);
        }
        let to_u32 = |number: i64| u32::try_from(number).ok();
        // Without a week the day of one says nothing, and the year is taken for one of months.
        if let (Some(iso_year), Some(week)) = (self.iso_year, self.iso_week) {
            let weekday = self.iso_weekday.unwrap_or(1);
            let year = i32::try_from(iso_year).ok();
            let days = year.zip(to_u32(week)).zip(to_u32(weekday));
            let days = days.and_then(|((year, week), weekday)| of_iso_week(year, week, weekday));
            return days.ok_or_else(|| out_of_range(text));
        }
        let year = i32::try_from(self.astronomical_year()).map_err(|_| out_of_range(text))?;
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        let date = match (self.day_of_year, self.week_of_year) {
            (Some(day), _) => to_u32(day).and_then(|day| NaiveDate::from_yo_opt(year, day)),
            (None, Some(week)) => {
                to_u32((week - 1) * 7 + 1).and_then(|day| NaiveDate::from_yo_opt(year, day))
            }
            (None, None) => {
                let day = self.week_of_month.map_or(day, |week| (week - 1) * 7 + 1);
                to_u32(month)
                    .zip(to_u32(day))
                    .and_then(|(month, day)| NaiveDate::from_ymd_opt(year, month, day))
            }
        };
        let date = date.ok_or_else(|| out_of_range(text))?;
        Ok(i64::from(date.num_days_from_ce()) - UNIX_EPOCH_DAY_FROM_CE)
    }

    /// Without any year it is 1 BC, which is zero.
    fn astronomical_year(&self) -> i64 {
        let year = match (self.year.or(self.iso_year), self.century) {
            (Some(year), Some(century)) if year < 100 => (century - 1) * 100 + year,
            (Some(year), _) => year,
            (None, Some(century)) => (century - 1) * 100 + 1,
            (None, None) => return 0,
        };
        let year = if self.is_before_christ { -year } else { year };
        // 1 BC is the year before 1.
        if year < 0 { year + 1 } else { year }
    }

    /// Microseconds since midnight.
    fn time(&self, text: &str) -> Result<i64, SqlError> {
        let (minute, second) = (self.minute.unwrap_or(0), self.second.unwrap_or(0));
        let mut hour = self.hour.unwrap_or(0);
        if self.is_half_day {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(invalid_datetime(message)
                    .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            hour = hour % 12 + if self.is_afternoon { 12 } else { 0 };
        }
        let seconds = self.second_of_day.unwrap_or(hour * 3_600 + minute * 60 + second);
        let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        let is_fraction = (0..MICROS_PER_SECOND).contains(&self.micros);
        if !is_time || !is_fraction || !(0..86_400).contains(&seconds) {
            return Err(out_of_range(text));
        }
        Ok(seconds * MICROS_PER_SECOND + self.micros)
    }

    /// Microseconds since 1970 in local time.
    fn local(&self, text: &str) -> Result<i64, SqlError> {
        let midnight = self.days(text)?.checked_mul(MICROS_PER_DAY);
        let time = self.time(text)?;
        midnight.and_then(|midnight| midnight.checked_add(time)).ok_or_else(|| out_of_range(text))
    }

    /// Seconds east of UTC, if the text says so.
    fn offset(&self) -> Option<i64> {
        if self.zone_hours.is_none() && self.zone_minutes.is_none() {
            return None;
        }
        let (hours, minutes) = (self.zone_hours.unwrap_or(0), self.zone_minutes.unwrap_or(0));
        Some(self.zone_sign * (hours * 3_600 + minutes * 60))
    }

    /// The time of a day with the digits of seconds that the pattern has.
    fn rounded_time(&self, micros: i64) -> i64 {
        self.rounded(POSTGRES_EPOCH + micros) - POSTGRES_EPOCH
    }

    /// The instant with the digits of seconds that the pattern has. Halves are rounded away from where PostgreSQL counts from.
    fn rounded(&self, instant: i64) -> i64 {
        let Some(digits) = self.second_digits else { return instant };
        let unit = 10_i64.pow(6_u32.saturating_sub(digits));
        let since = instant - POSTGRES_EPOCH;
        let rounded = (since.abs() + unit / 2) / unit * unit;
        POSTGRES_EPOCH + if since < 0 { -rounded } else { rounded }
    }
}

/// Whether a number that stands there could go on with a digit of what follows.
fn begins_with_digit(next: Option<&Part>) -> bool {
    match next {
        None => false,
        Some(Part::Literal(letter) | Part::Quoted(letter)) => letter.is_ascii_digit(),
        Some(Part::Field(field)) => !matches!(
            field.word,
            "MONTH"
                | "MON"
                | "DAY"
                | "DY"
                | "AM"
                | "PM"
                | "A.M."
                | "P.M."
                | "AD"
                | "BC"
                | "A.D."
                | "B.C."
                | "RM"
                | "TZ"
                | "TZH"
        ),
    }
}

/// Where a number ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// Behind as many digits as its field has.
    Fixed,
    /// Behind the last digit.
    Open,
}

struct Reader<'r> {
    whole: &'r str,
    rest: &'r str,
    /// Letters that were passed over though no part of the pattern asked for it.
    skipped: i64,
    read: Read,
}

impl<'r> Reader<'r> {
    fn new(text: &'r str) -> Self {
        Self { whole: text, rest: text, skipped: 0, read: Read { zone_sign: 1, ..Read::default() } }
    }

    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn advance(&mut self) {
        self.rest = &self.rest[self.next().map_or(0, char::len_utf8)..];
    }

    /// The text before the place where the reader is.
    fn passed(&self) -> &str {
        &self.whole[..self.whole.len() - self.rest.len()]
    }

    fn skip_blanks(&mut self) {
        while self.next().is_some_and(char::is_whitespace) {
            self.advance();
            self.skipped += 1;
        }
    }

    fn separator(&mut self) {
        self.skipped -= 1;
        if self.next().is_some_and(|letter| !letter.is_alphanumeric()) {
            self.advance();
            self.skipped += 1;
        }
    }

    fn letter(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
        } else {
            self.advance();
        }
    }

    /// A number of at most so many digits, and how many those were.
    fn number(&mut self, field: &Field, digits: usize, end: Length) -> Result<(i64, usize), SqlError> {
        self.rest = self.rest.trim_start();
        let sign = usize::from(self.rest.starts_with(['-', '+']));
        let length = self.rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let length = if end == Length::Open { length } else { length.min(digits) };
        if length == 0 || (end == Length::Fixed && length < digits) {
            return Err(self.no_number(field, digits, length));
        }
        let written = &self.rest[..sign + length];
        let number = written.parse::<i32>().map_err(|_| {
            let message = format!("value for \"{}\" in source string is out of range", field.word);
            SqlError::new(SqlState::DatetimeFieldOverflow, message)
        })?;
        self.rest = &self.rest[sign + length..];
        if field.ordinal.is_some() {
            self.advance();
            self.advance();
        }
        Ok((i64::from(number), length))
    }

    fn no_number(&self, field: &Field, digits: usize, length: usize) -> SqlError {
        let shown: String = self.rest.chars().take(digits).collect();
        let error = invalid_datetime(format!("invalid value \"{shown}\" for \"{}\"", field.word));
        if length == 0 {
            return error.with_detail("Value must be an integer.");
        }
        error
            .with_detail(format!("Field requires {digits} characters, but only {length} could be parsed."))
            .with_hint("If your source string is not fixed-width, try using the \"FM\" modifier.")
    }

    fn field(&mut self, field: &Field, end: Length) -> Result<(), SqlError> {
        self.agree(field.word)?;
        let digits = match field.word {
            "YYYY" | "IYYY" => 4,
            "YYY" | "IYY" | "DDD" | "IDDD" | "MS" | "FF3" => 3,
            "Y" | "I" | "D" | "ID" | "W" | "Q" | "FF1" => 1,
            "SSSS" | "SSSSS" | "FF5" => 5,
            "US" | "FF6" => 6,
            "FF4" => 4,
            "J" => 9,
            "HH" | "HH12" | "HH24" | "MI" | "SS" | "MM" | "DD" | "YY" | "IY" | "CC" | "WW" | "IW" | "FF2"
            | "TZM" => 2,
            "TZH" => return self.zone_hours(field),
            "Y,YYY" => return self.year_with_comma(field),
            word => return self.word(word),
        };
        let end = if field.word == "J" { Length::Open } else { end };
        let (number, length) = self.number(field, digits, end)?;
        self.put(field.word, number, length)
    }

    /// Refuses a field that counts days in another way than those before it.
    fn agree(&mut self, word: &str) -> Result<(), SqlError> {
        let Some(convention) = Convention::of(word) else { return Ok(()) };
        if *self.read.convention.get_or_insert(convention) == convention {
            return Ok(());
        }
        Err(invalid_datetime("invalid combination of date conventions".to_owned())
            .with_hint("Do not mix Gregorian and ISO week date conventions in a formatting template."))
    }

    fn zone_hours(&mut self, field: &Field) -> Result<(), SqlError> {
        if let Some(sign @ ('+' | '-' | ' ')) = self.next() {
            self.read.zone_sign = if sign == '-' { -1 } else { 1 };
            self.advance();
        } else if self.skipped > 0 && self.passed().ends_with('-') {
            // A separator of the pattern took the sign, because a blank before it was passed over already.
            self.read.zone_sign = -1;
        }
        let (hours, _) = self.number(field, 2, Length::Open)?;
        self.read.zone_hours = Some(hours);
        Ok(())
    }

    fn put(&mut self, word: &str, number: i64, length: usize) -> Result<(), SqlError> {
        let read = &mut self.read;
        let micros = |digits: usize| {
            let shift = 6 - i32::try_from(digits.min(6)).unwrap_or(6);
            number.saturating_mul(10_i64.pow(shift.unsigned_abs()))
        };
        match word {
            "YYYY" => put(&mut read.year, number, word)?,
            "YYY" | "YY" | "Y" => put(&mut read.year, near_today(number, length), word)?,
            "IYYY" => put(&mut read.iso_year, number, word)?,
            "IYY" | "IY" | "I" => put(&mut read.iso_year, near_today(number, length), word)?,
            "CC" => put(&mut read.century, number, word)?,
            "MM" => put(&mut read.month, number, word)?,
            "DD" => put(&mut read.day, number, word)?,
            "DDD" => put(&mut read.day_of_year, number, word)?,
            "W" => put(&mut read.week_of_month, number, word)?,
            "WW" => put(&mut read.week_of_year, number, word)?,
            "IW" => put(&mut read.iso_week, number, word)?,
            "IDDD" => {
                read.iso_week = Some((number - 1) / 7 + 1);
                read.iso_weekday = Some((number - 1) % 7 + 1);
            }
            "ID" => put(&mut read.iso_weekday, number, word)?,
            "D" => put(&mut read.iso_weekday, if number == 1 { 7 } else { number - 1 }, word)?,
            "J" => put(&mut read.julian, number, word)?,
            "HH" | "HH12" => {
                read.is_half_day = true;
                put(&mut read.hour, number, word)?;
            }
            "HH24" => put(&mut read.hour, number, word)?,
            "MI" => put(&mut read.minute, number, word)?,
            "SS" => put(&mut read.second, number, word)?,
            "SSSS" | "SSSSS" => put(&mut read.second_of_day, number, word)?,
            "MS" | "US" => read.micros = micros(length),
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                read.micros = micros(length);
                read.second_digits = word[2..].parse().ok();
            }
            "TZM" => put(&mut read.zone_minutes, number, word)?,
            // A quarter says nothing of a date.
            _ => {}
        }
        Ok(())
    }

    /// A field that is no number.
    fn word(&mut self, word: &str) -> Result<(), SqlError> {
        match word {
            "MONTH" => self.month(&MONTHS, word),
            "MON" => self.month(&MONTHS.map(|name| &name[..3]), word),
            "RM" => self.month(&ROMAN_MONTHS, word),
            "DAY" => self.weekday(&DAYS, word),
            "DY" => self.weekday(&DAYS.map(|name| &name[..3]), word),
            "AM" | "PM" => self.half(&["AM", "PM"], word),
            "A.M." | "P.M." => self.half(&["A.M.", "P.M."], word),
            "BC" | "AD" => self.era(&["AD", "BC"], word),
            "B.C." | "A.D." => self.era(&["A.D.", "B.C."], word),
            "TZ" | "OF" => Err(SqlError::unsupported(format_args!(
                "formatting field \"{word}\" is only supported in to_char: it"
            ))),
            _ => Ok(()),
        }
    }

    /// `1,582`: thousands, and up to three digits behind a comma.
    fn year_with_comma(&mut self, field: &Field) -> Result<(), SqlError> {
        let refused = || invalid_datetime("invalid input string for \"Y,YYY\"".to_owned());
        let (thousands, rest) = self.rest.split_once(',').ok_or_else(refused)?;
        let (behind, rest) = rest.split_at(rest.bytes().take(3).take_while(u8::is_ascii_digit).count());
        let numbers = thousands.parse::<i32>().ok().zip(behind.parse::<i32>().ok());
        let (thousands, behind) = numbers.ok_or_else(refused)?;
        put(&mut self.read.year, i64::from(thousands) * 1_000 + i64::from(behind), field.word)?;
        self.rest = rest;
        if field.ordinal.is_some() {
            self.advance();
            self.advance();
        }
        Ok(())
    }

    fn month(&mut self, names: &[&str; 12], word: &str) -> Result<(), SqlError> {
        let place = self.one_of(names, word)?;
        put(&mut self.read.month, i64::try_from(place + 1).unwrap_or(0), word)
    }

    /// The name of a day, which counts where weeks do.
    fn weekday(&mut self, names: &[&str; 7], word: &str) -> Result<(), SqlError> {
        let place = self.one_of(names, word)?;
        // Sunday comes first among the names, and last in a week.
        put(&mut self.read.iso_weekday, i64::try_from(if place == 0 { 7 } else { place }).unwrap_or(0), word)
    }

    fn half(&mut self, names: &[&str], word: &str) -> Result<(), SqlError> {
        self.read.is_afternoon = self.one_of(names, word)? == 1;
        self.read.is_half_day = true;
        Ok(())
    }

    fn era(&mut self, names: &[&str], word: &str) -> Result<(), SqlError> {
        self.read.is_before_christ = self.one_of(names, word)? == 1;
        Ok(())
    }

    /// Which of the names stands here; the longest that does.
    fn one_of(&mut self, names: &[&str], word: &str) -> Result<usize, SqlError> {
        let stands =
            |name: &str| self.rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
        let found =
            names.iter().enumerate().filter(|(_, name)| stands(name)).max_by_key(|(_, name)| name.len());
        let Some((place, name)) = found else {
            let shown: String = self.rest.chars().take_while(|letter| !letter.is_whitespace()).collect();
            return Err(invalid_datetime(format!("invalid value \"{shown}\" for \"{word}\""))
                .with_detail("The given value did not match any of the allowed values for this field."));
        };
        self.rest = &self.rest[name.len()..];
        Ok(place)
    }
}

/// A year of fewer than four digits is the one that is nearest to 2020.
fn near_today(number: i64, length: usize) -> i64 {
    match number {
        _ if length >= 4 => number,
        0..70 => number + 2_000,
        70..100 => number + 1_900,
        100..520 => number + 2_000,
        520..1_000 => number + 1_000,
        _ => number,
    }
}
