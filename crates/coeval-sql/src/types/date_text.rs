// SPDX-License-Identifier: Apache-2.0
//! Dates, times and timestamps read from text, in all forms that PostgreSQL takes with `DateStyle` `ISO, MDY`.
//!
//! A text is cut into [tokens](Token) first, and what a token means depends on those before it:
//!
//! | text | is |
//! |---|---|
//! | `2024-07-01`, `7/1/2024`, `1-Jul-2024`, `Jul 1, 2024`, `20240701`, `240701`, `2024.183`, `J2460493` | a date |
//! | `01/02/03` | 2 January 2003: the month first, a year of two digits between 1970 and 2069 |
//! | `12:00`, `12:00:05.5`, `120005` behind a date, `T120005`, `1:00 PM` | a time |
//! | `+02`, `-05:30`, `EST`, `Europe/Berlin`, `UTC+3` | a zone, whose date may stand before or behind it |
//! | `BC`, `Mon`, commas | an era; nothing |
//!
//! `today`, `now` and their like are not read: a value has no statement that would know the time. (Literals that are cast are read by the
//! statement itself, `parse/clock_words.rs`.)

use super::date_tokens::{Token, Word, tokens};
use super::datetime::{is_date, is_timestamp};
use super::zoned_time::{seconds_west, today};
use super::zones::{Clock, MICROS_PER_DAY, MICROS_PER_SECOND, clock_named, local_to_utc, offset};
use chrono::{Datelike, Duration, NaiveDate};
use chrono_tz::Tz;

const UNIX_EPOCH_DAY_FROM_CE: i32 = 719_163;
/// The number of 1970-01-01 in the count of days that astronomers use.
const UNIX_EPOCH_DAY_OF_JULIAN: i64 = 2_440_588;

/// The days that a month may have.
const DAYS_OF_MONTH: std::ops::RangeInclusive<i64> = 1..=31;

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It has not the form of a date or time.
    Form,
    /// A field is out of its range: a 30 February.
    Field,
    /// The offset of a zone is too large.
    Offset,
    /// There is no zone of this name.
    Zone,
    /// There is such a date, but not in the type.
    Type,
}

/// The days since 1970-01-01.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn read_date(text: &str) -> Result<i32, Flaw> {
    if let Some(days) = plain_date(text.as_bytes()) {
        return Ok(days);
    }
    match read(text, Wanted::Date)? {
        Read::Infinite(sign) => Ok(if sign > 0 { i32::MAX } else { i32::MIN }),
        Read::Fields(fields) => {
            let days = fields.days()?;
            // A time that is none makes the date none; one half of a day without a time does not.
            if fields.time.is_some() {
                fields.time_of_day()?;
            }
            i32::try_from(days).ok().filter(|&days| is_date(days)).ok_or(Flaw::Type)
        }
    }
}

/// The microseconds since 1970-01-01. A zone in the text counts if `zone` is given and is passed over if not, as
/// PostgreSQL does; without one the text is local time of `zone`.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn read_timestamp(text: &str, zone: Option<Tz>) -> Result<i64, Flaw> {
    let fields = match read(text, Wanted::Date)? {
        Read::Infinite(sign) => return Ok(if sign > 0 { i64::MAX } else { i64::MIN }),
        Read::Fields(fields) => fields,
    };
    let local = fields.days()?.checked_mul(MICROS_PER_DAY);
    let local =
        local.and_then(|midnight| midnight.checked_add(fields.time_of_day().ok()?)).ok_or(Flaw::Type)?;
    let time = match (zone, fields.clock) {
        (None, _) => Some(local),
        (Some(_), Some(clock)) => clock.to_utc(local),
        (Some(zone), None) => local_to_utc(local, zone),
    };
    time.filter(|&micros| is_timestamp(micros)).ok_or(Flaw::Type)
}

/// The microseconds since midnight. A zone behind the time is passed over, as PostgreSQL does.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn read_time(text: &str) -> Result<i64, Flaw> {
    match read(text, Wanted::Time)? {
        Read::Infinite(_) => Err(Flaw::Form),
        // The offset of a region depends on the day.
        Read::Fields(Fields { clock: Some(Clock::Region(zone)), year: None, .. }) if zone != Tz::UTC => {
            Err(Flaw::Form)
        }
        Read::Fields(fields) => fields.time_of_day(),
    }
}

/// The microseconds since midnight, and how many seconds west of Greenwich clocks are that show it: those of the zone in the text, or of
/// `zone`, on the day in the text, or today.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn read_zoned_time(text: &str, zone: Tz) -> Result<(i64, i32), Flaw> {
    let Read::Fields(fields) = read(text, Wanted::Time)? else { return Err(Flaw::Form) };
    let is_dated = fields.year.is_some() && fields.has_day();
    // The offset of a region depends on the day.
    if !is_dated && matches!(fields.clock, Some(Clock::Region(named)) if named != Tz::UTC) {
        return Err(Flaw::Form);
    }
    let time = fields.time_of_day()?;
    let day = if is_dated { fields.days()? } else { today(zone) };
    let local = day.checked_mul(MICROS_PER_DAY).and_then(|midnight| midnight.checked_add(time));
    let west = local.and_then(|local| seconds_west(local, fields.clock.unwrap_or(Clock::Region(zone))));
    west.map(|west| (time, west)).ok_or(Flaw::Type)
}

/// The most common form, `2024-07-01`, without a list of tokens.
fn plain_date(text: &[u8]) -> Option<i32> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else { return None };
    let digits = [y1, y2, y3, y4, m1, m2, d1, d2].map(|byte| byte.wrapping_sub(b'0'));
    if digits.iter().any(|&digit| digit > 9) {
        return None;
    }
    let [y1, y2, y3, y4, m1, m2, d1, d2] = digits.map(u32::from);
    let year = y1 * 1_000 + y2 * 100 + y3 * 10 + y4;
    let date = NaiveDate::from_ymd_opt(year as i32, m1 * 10 + m2, d1 * 10 + d2).filter(|_| year > 0)?;
    Some(date.num_days_from_ce() - UNIX_EPOCH_DAY_FROM_CE)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// A date, and a time if there is one.
    Date,
    /// A time alone.
    Time,
}

/// What a text stands for.
enum Read {
    /// The end of time, or with a negative sign its beginning.
    Infinite(i32),
    Fields(Fields),
}

/// The words that are all of a text, other than fields.
fn whole(text: &str, wanted: Wanted) -> Option<Read> {
    let word = text.trim();
    let infinite = |word: &str| word.eq_ignore_ascii_case("infinity");
    match word.strip_prefix('-') {
        Some(rest) if infinite(rest) => return Some(Read::Infinite(-1)),
        Some(_) => return None,
        None if infinite(word.strip_prefix('+').unwrap_or(word)) => return Some(Read::Infinite(1)),
        None => {}
    }
    if word.eq_ignore_ascii_case("epoch") && wanted == Wanted::Date {
        let fields = Fields { clock: Some(Clock::Offset(0)), ..Fields::of_day(1970, 1, 1) };
        return Some(Read::Fields(fields));
    }
    None
}

fn read(text: &str, wanted: Wanted) -> Result<Read, Flaw> {
    if let Some(whole) = whole(text, wanted) {
        return Ok(whole);
    }
    let tokens = tokens(text)?;
    let mut fields = Fields::default();
    for (place, &token) in tokens.iter().enumerate() {
        // A date beside a time counts nothing, and is looked for in few places; no date begins with the T of a time.
        let is_dated = wanted == Wanted::Date
            || (place == 0
                && !matches!(token, Token::Word(_))
                && matches!(
                    (tokens.get(1), tokens.last()),
                    (Some(Token::Time(_)), _) | (Some(_), Some(Token::Date(_)))
                ));
        let part = if is_dated { Part::DateOrTime } else { Part::Time };
        fields.take(token, tokens.get(place + 1), part)?;
    }
    if fields.next.is_some() {
        return Err(Flaw::Form);
    }
    let is_complete = match wanted {
        Wanted::Date => fields.year.is_some() && fields.has_day(),
        Wanted::Time => fields.time.is_some(),
    };
    if is_complete { Ok(Read::Fields(fields)) } else { Err(Flaw::Form) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    BeforeChrist,
    AnnoDomini,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Morning,
    Afternoon,
}

/// What a word has said of the number behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Time,
    Julian,
}

/// Hours, minutes, seconds and microseconds as they are written.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

/// What tokens have said so far.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    /// In place of month and day, the number of the day in its year.
    day_of_year: Option<i64>,
    /// In place of all three, the days since 1970-01-01.
    day_number: Option<i64>,
    is_short_year: bool,
    has_word_month: bool,
    era: Option<Era>,
    time: Option<Time>,
    half: Option<Half>,
    clock: Option<Clock>,
    next: Option<Next>,
}

/// Puts a field in its place, which must be free.
fn put<T>(place: &mut Option<T>, value: T) -> Result<(), Flaw> {
    if place.is_some() {
        return Err(Flaw::Form);
    }
    *place = Some(value);
    Ok(())
}

fn integer(text: &str) -> Result<i64, Flaw> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Flaw::Form);
    }
    text.parse::<i32>().map(i64::from).map_err(|_| Flaw::Field)
}

/// Microseconds of the digits behind a point, rounded.
fn fraction(digits: &str) -> Result<i64, Flaw> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Flaw::Form);
    }
    if digits.is_empty() {
        return Ok(0);
    }
    let seconds: f64 = format!("0.{digits}").parse().map_err(|_| Flaw::Form)?;
    Ok((seconds * MICROS_PER_SECOND as f64).round_ties_even() as i64)
}

impl Fields {
    fn of_day(year: i64, month: i64, day: i64) -> Self {
        Self { year: Some(year), month: Some(month), day: Some(day), ..Self::default() }
    }

    fn has_day(&self) -> bool {
        self.month.is_some() && self.day.is_some()
    }

    /// Whether nothing of a date has been said.
    fn is_undated(&self) -> bool {
        self.year.is_none() && self.month.is_none() && self.day.is_none()
    }

    fn has_date(&self) -> bool {
        self.year.is_some() && self.has_day()
    }

    fn take(&mut self, token: Token<'_>, behind: Option<&Token<'_>>, part: Part) -> Result<(), Flaw> {
        match token {
            Token::Date(text) if part == Part::DateOrTime && !self.has_day() && self.next.is_none() => {
                self.date(text)
            }
            Token::Date(text) => self.time_or_zone(text),
            Token::Time(text) => {
                match self.next.take() {
                    None | Some(Next::Time) => {}
                    Some(Next::Julian) => return Err(Flaw::Form),
                }
                put(&mut self.time, clock_time(text)?)
            }
            Token::Offset(text) => {
                put(&mut self.clock, Clock::Offset(offset(text).ok_or_else(|| flaw_of_offset(text))?))
            }
            Token::Number(text) => self.number_token(text, part),
            Token::Word(word) => self.word(word, behind, part),
        }
    }

    /// Behind a date: digits of a time with an offset, `120000-05`, or the name of a zone. Behind `J`, the number of a day with an offset.
    fn time_or_zone(&mut self, text: &str) -> Result<(), Flaw> {
        let next = self.next.take();
        if next == Some(Next::Julian) {
            let (day, zone) = text.split_at(text.find('-').ok_or(Flaw::Form)?);
            put(&mut self.clock, Clock::Offset(offset(zone).ok_or_else(|| flaw_of_offset(zone))?))?;
            return self.julian(day);
        }
        if next.is_none() && !text.starts_with(|letter: char| letter.is_ascii_digit()) {
            return put(&mut self.clock, clock_named(text).ok_or(Flaw::Zone)?);
        }
        let (digits, zone) = text.split_at(text.find('-').ok_or(Flaw::Form)?);
        put(&mut self.clock, Clock::Offset(offset(zone).ok_or_else(|| flaw_of_offset(zone))?))?;
        self.run_together(digits, Part::Time)
    }

    fn number_token(&mut self, text: &str, wanted: Part) -> Result<(), Flaw> {
        match self.next.take() {
            Some(Next::Julian) => return self.julian(text),
            Some(Next::Time) => return self.run_together(text, Part::Time),
            None => {}
        }
        let is_date_left = wanted == Part::DateOrTime && !self.has_date();
        let part = if is_date_left { Part::DateOrTime } else { Part::Time };
        match text.find('.') {
            Some(_) if is_date_left => self.date(text),
            Some(point) if point > 2 => self.run_together(text, part),
            // A year of so many digits may stand behind the rest of the date and the time.
            _ if text.len() >= 6 && (self.is_undated() || self.time.is_none()) => {
                self.run_together(text, part)
            }
            _ if is_date_left => self.number(text),
            _ => self.run_together(text, Part::Time),
        }
    }

    /// The number of a day, with what has passed of it behind a point.
    fn julian(&mut self, text: &str) -> Result<(), Flaw> {
        let (day, behind) = text.split_once('.').map_or((text, None), |(day, behind)| (day, Some(behind)));
        put(&mut self.year, 1970)?;
        put(&mut self.month, 1)?;
        put(&mut self.day, 1)?;
        put(&mut self.day_number, integer(day)? - UNIX_EPOCH_DAY_OF_JULIAN)?;
        let Some(behind) = behind else { return Ok(()) };
        if behind.is_empty() || !behind.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Flaw::Form);
        }
        let part: f64 = format!("0.{behind}").parse().map_err(|_| Flaw::Form)?;
        let micros = (part * MICROS_PER_DAY as f64).round_ties_even() as i64;
        let seconds = micros / MICROS_PER_SECOND;
        let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
        let micros = micros % MICROS_PER_SECOND;
        put(&mut self.time, Time { hours, minutes, seconds: seconds % 60, micros })
    }

    fn word(&mut self, word: &str, behind: Option<&Token<'_>>, part: Part) -> Result<(), Flaw> {
        if self.next.is_some() {
            return Err(Flaw::Form);
        }
        match Word::of(word) {
            Word::Month(month) => self.word_month(month),
            Word::BeforeChrist => put(&mut self.era, Era::BeforeChrist),
            Word::AnnoDomini => put(&mut self.era, Era::AnnoDomini),
            Word::Morning => put(&mut self.half, Half::Morning),
            Word::Afternoon => put(&mut self.half, Half::Afternoon),
            Word::Time => {
                let is_sensible = (self.has_date() || part == Part::Time)
                    && matches!(behind, Some(Token::Number(_) | Token::Time(_) | Token::Date(_)));
                self.next = Some(Next::Time);
                if is_sensible { Ok(()) } else { Err(Flaw::Form) }
            }
            Word::Julian => {
                self.next = Some(Next::Julian);
                Ok(())
            }
            Word::Midnight => {
                put(&mut self.time, Time::default())?;
                put(&mut self.clock, Clock::Offset(0))
            }
            Word::Filler => Ok(()),
            Word::Zone(clock) => put(&mut self.clock, clock),
            Word::Name => put(&mut self.clock, clock_named(word).ok_or(Flaw::Form)?),
        }
    }

    /// A month by its name. A number before it that looked like a month was the day, if it can be one.
    fn word_month(&mut self, month: i64) -> Result<(), Flaw> {
        if !self.has_word_month && self.day.is_none() {
            self.day = self.month.take_if(|day| DAYS_OF_MONTH.contains(&*day));
        }
        self.has_word_month = true;
        put(&mut self.month, month)
    }

    /// A date whose parts marks stand between.
    fn date(&mut self, text: &str) -> Result<(), Flaw> {
        let parts =
            text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        let mut numbers = Vec::new();
        for part in parts {
            // Digits and letters without a mark between are two parts.
            for part in split_kinds(part) {
                if part.starts_with(|letter: char| letter.is_ascii_digit()) {
                    numbers.push(part);
                    continue;
                }
                match Word::of(part) {
                    Word::Month(month) => self.word_month(month)?,
                    Word::Filler => {}
                    _ => return Err(Flaw::Form),
                }
            }
        }
        for number in numbers {
            self.number(number)?;
        }
        if self.has_date() { Ok(()) } else { Err(Flaw::Form) }
    }

    /// A number of a date, by what is there already: a year of three digits or more comes first, else the month.
    fn number(&mut self, text: &str) -> Result<(), Flaw> {
        let value = integer(text)?;
        let is_long = text.len() >= 3;
        match (self.year, self.month, self.day) {
            (Some(_), None, None) if text.len() == 3 && (1..=366).contains(&value) => {
                (self.month, self.day, self.day_of_year) = (Some(1), Some(1), Some(value));
                return Ok(());
            }
            (None, None, None) if is_long => {}
            (None, None, None) | (Some(_), None, None) | (None, None, Some(_)) => {
                self.month = Some(value);
                return Ok(());
            }
            (None, Some(_), None) if self.has_word_month && is_long => {}
            // `99-Jan-2008`: what was taken for a year was the day.
            (Some(year), Some(_), None) if self.has_word_month && is_long && self.is_short_year => {
                self.day = Some(year);
            }
            (_, Some(_), None) => {
                self.day = Some(value);
                return Ok(());
            }
            (None, Some(_), Some(_)) => {}
            (Some(_), _, Some(_)) => return Err(Flaw::Form),
        }
        self.year = Some(value);
        self.is_short_year = text.len() <= 2;
        Ok(())
    }

    /// Digits without marks between: `20240701`, `240701`, `120005`, `1200`.
    fn run_together(&mut self, text: &str, part: Part) -> Result<(), Flaw> {
        let (digits, micros) = match text.split_once('.') {
            Some((digits, behind)) => (digits, Some(fraction(behind)?)),
            None => (text, None),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Flaw::Form);
        }
        if part == Part::DateOrTime && micros.is_none() && digits.len() >= 6 {
            let (year, rest) = digits.split_at(digits.len() - 4);
            put(&mut self.year, integer(year)?)?;
            put(&mut self.month, integer(&rest[..2])?)?;
            put(&mut self.day, integer(&rest[2..])?)?;
            self.is_short_year = year.len() == 2;
            return Ok(());
        }
        let number = |place: usize| integer(&digits[place..place + 2]);
        let micros = micros.unwrap_or(0);
        let time = match digits.len() {
            6 => Time { hours: number(0)?, minutes: number(2)?, seconds: number(4)?, micros },
            4 => Time { hours: number(0)?, minutes: number(2)?, seconds: 0, micros },
            _ => return Err(Flaw::Form),
        };
        put(&mut self.time, time)
    }

    fn days(&self) -> Result<i64, Flaw> {
        if let Some(day) = self.day_number {
            return Ok(day);
        }
        let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day) else {
            return Err(Flaw::Form);
        };
        let year = match self.era {
            _ if year < 0 => return Err(Flaw::Field),
            // There is no year zero: before 1 AD comes 1 BC.
            Some(Era::BeforeChrist) if year > 0 => 1 - year,
            Some(Era::BeforeChrist) => return Err(Flaw::Field),
            _ if self.is_short_year => year + if year < 70 { 2_000 } else { 1_900 },
            _ if year == 0 => return Err(Flaw::Field),
            _ => year,
        };
        let year = i32::try_from(year).map_err(|_| Flaw::Type)?;
        if year.abs() > chrono::NaiveDate::MAX.year() {
            return Err(Flaw::Type);
        }
        let date = NaiveDate::from_ymd_opt(year, month as u32, day as u32).ok_or(Flaw::Field)?;
        let date = match self.day_of_year {
            Some(number) => date.checked_add_signed(Duration::days(number - 1)).ok_or(Flaw::Type)?,
            None => date,
        };
        Ok(i64::from(date.num_days_from_ce() - UNIX_EPOCH_DAY_FROM_CE))
    }

    fn time_of_day(&self) -> Result<i64, Flaw> {
        let Some(time) = self.time else {
            return if self.half.is_none() { Ok(0) } else { Err(Flaw::Form) };
        };
        let hours = match (self.half, time.hours) {
            (Some(_), hours) if hours > 12 => return Err(Flaw::Field),
            (Some(Half::Morning), 12) => 0,
            (Some(Half::Afternoon), hours) if hours < 12 => hours + 12,
            (_, hours) => hours,
        };
        let is_time = hours <= 24 && time.minutes < 60 && time.seconds <= 60;
        let seconds = hours * 3_600 + time.minutes * 60 + time.seconds;
        let micros = seconds * MICROS_PER_SECOND + time.micros;
        if is_time && micros <= MICROS_PER_DAY { Ok(micros) } else { Err(Flaw::Field) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    DateOrTime,
    Time,
}

/// What is wrong with an offset that is none.
fn flaw_of_offset(text: &str) -> Flaw {
    let is_number = text[1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    if is_number { Flaw::Offset } else { Flaw::Form }
}

/// `12:00`, `12:00:05.5`, `00:05.5`: with a point and one colon, minutes and seconds.
fn clock_time(text: &str) -> Result<Time, Flaw> {
    let (text, micros) = match text.split_once('.') {
        Some((text, behind)) => (text, Some(fraction(behind)?)),
        None => (text, None),
    };
    let mut parts = text.split(':').map(integer);
    let mut part = || parts.next().transpose();
    let (first, second, third) = (part()?, part()?, part()?);
    let time = match (first, second, third) {
        (Some(minutes), Some(seconds), None) if micros.is_some() => {
            Time { hours: 0, minutes, seconds, micros: 0 }
        }
        (Some(hours), Some(minutes), seconds) => {
            Time { hours, minutes, seconds: seconds.unwrap_or(0), micros: 0 }
        }
        _ => return Err(Flaw::Form),
    };
    if parts.next().is_some() { Err(Flaw::Form) } else { Ok(Time { micros: micros.unwrap_or(0), ..time }) }
}

/// The digits and the letters of a text, one after the other.
fn split_kinds(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_digit = rest.chars().next()?.is_ascii_digit();
        let end = rest.find(|letter: char| letter.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        rest = behind;
        Some(part)
    })
}
