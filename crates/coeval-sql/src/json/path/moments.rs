// SPDX-License-Identifier: Apache-2.0
//! Dates and times of `.datetime()`: read from ISO 8601 texts, compared, and written as these.
//!
//! | text | type |
//! |---|---|
//! | `2024-07-01` | `date` |
//! | `12:34:56` | `time without time zone` |
//! | `12:34:56 +3`, `12:34:56+03:30` | `time with time zone` |
//! | `2024-07-01 12:34:56`, `2024-07-01T12:34:56.5` | `timestamp without time zone` |
//! | `2024-07-01T12:34:56+03:00` | `timestamp with time zone` |

use crate::error::{SqlError, SqlState};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use std::cmp::Ordering;
use std::fmt;

/// Digits behind the point of seconds.
const FRACTION_DIGITS_MAX: usize = 6;

/// A date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Date(NaiveDate),
    Time(NaiveTime),
    ZonedTime(NaiveTime, FixedOffset),
    Timestamp(NaiveDateTime),
    ZonedTimestamp(DateTime<FixedOffset>),
}

impl Moment {
    /// What a text says; `None` if it has none of the forms above.
    pub(super) fn read(text: &str) -> Option<Self> {
        let Some((date, rest)) = date_of(text) else {
            let (time, rest) = time_of(text)?;
            return Some(match zone_of(rest)? {
                None => Self::Time(time),
                Some(zone) => Self::ZonedTime(time, zone),
            });
        };
        if rest.is_empty() {
            return Some(Self::Date(date));
        }
        let (time, rest) = time_of(rest.strip_prefix([' ', 'T'])?)?;
        let local = date.and_time(time);
        Some(match zone_of(rest)? {
            None => Self::Timestamp(local),
            Some(zone) => Self::ZonedTimestamp(local.and_local_timezone(zone).single()?),
        })
    }

    /// As `.type()` names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Date(_) => "date",
            Self::Time(_) => "time without time zone",
            Self::ZonedTime(..) => "time with time zone",
            Self::Timestamp(_) => "timestamp without time zone",
            Self::ZonedTimestamp(_) => "timestamp with time zone",
        }
    }

    /// How two compare; `None` if they do not, as a date and a time of day.
    ///
    /// # Errors
    /// `0A000` for one with a time zone beside one without: that of the session does not count in a path.
    pub(super) fn compare(self, other: Self) -> Result<Option<Ordering>, SqlError> {
        let midnight = |date: NaiveDate| date.and_time(NaiveTime::MIN);
        Ok(match (self, other) {
            (Self::Date(left), Self::Date(right)) => Some(left.cmp(&right)),
            (Self::Date(left), Self::Timestamp(right)) => Some(midnight(left).cmp(&right)),
            (Self::Timestamp(left), Self::Date(right)) => Some(left.cmp(&midnight(right))),
            (Self::Timestamp(left), Self::Timestamp(right)) => Some(left.cmp(&right)),
            (Self::ZonedTimestamp(left), Self::ZonedTimestamp(right)) => Some(left.cmp(&right)),
            (Self::Time(left), Self::Time(right)) => Some(left.cmp(&right)),
            (Self::ZonedTime(left, left_zone), Self::ZonedTime(right, right_zone)) => {
                let order = since_midnight(left, left_zone).cmp(&since_midnight(right, right_zone));
                Some(order.then(right_zone.local_minus_utc().cmp(&left_zone.local_minus_utc())))
            }
            (Self::Date(_), Self::ZonedTimestamp(_)) | (Self::ZonedTimestamp(_), Self::Date(_)) => {
                return Err(needs_zone("date", "timestamptz"));
            }
            (Self::Timestamp(_), Self::ZonedTimestamp(_)) | (Self::ZonedTimestamp(_), Self::Timestamp(_)) => {
                return Err(needs_zone("timestamp", "timestamptz"));
            }
            (Self::Time(_), Self::ZonedTime(..)) | (Self::ZonedTime(..), Self::Time(_)) => {
                return Err(needs_zone("time", "timetz"));
            }
            _ => None,
        })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Date(date) => write!(f, "{date}"),
            Self::Time(time) => f.write_str(&time_text(*time)),
            Self::ZonedTime(time, zone) => write!(f, "{}{zone}", time_text(*time)),
            Self::Timestamp(local) => write!(f, "{}T{}", local.date(), time_text(local.time())),
            Self::ZonedTimestamp(at) => {
                let local = at.naive_local();
                write!(f, "{}T{}{}", local.date(), time_text(local.time()), at.offset())
            }
        }
    }
}

fn needs_zone(from: &str, to: &str) -> SqlError {
    let message = format!("cannot convert value from {from} to {to} without time zone usage");
    SqlError::new(SqlState::FeatureNotSupported, message)
        .with_hint("Compare them in SQL, as (document ->> 'key')::timestamptz.")
}

/// Seconds and nanoseconds since midnight of Greenwich.
fn since_midnight(time: NaiveTime, zone: FixedOffset) -> (i64, u32) {
    let seconds = i64::from(time.num_seconds_from_midnight()) - i64::from(zone.local_minus_utc());
    (seconds, time.nanosecond())
}

/// `12:34:56.5`
fn time_text(time: NaiveTime) -> String {
    let text = time.format("%H:%M:%S%.6f").to_string();
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number of so many digits, and what is behind it.
fn number(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { Some((number.parse().ok()?, rest)) } else { None }
}

fn date_of(text: &str) -> Option<(NaiveDate, &str)> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    Some((NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?, rest))
}

fn time_of(text: &str) -> Option<(NaiveTime, &str)> {
    let (hours, rest) = number(text, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (seconds, mut rest) = number(rest.strip_prefix(':')?, 2)?;
    let mut micros = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits > FRACTION_DIGITS_MAX {
            return None;
        }
        let (given, behind) = number(fraction, digits)?;
        micros = (digits..FRACTION_DIGITS_MAX).fold(given, |micros, _| micros * 10);
        rest = behind;
    }
    Some((NaiveTime::from_hms_micro_opt(hours, minutes, seconds, micros)?, rest))
}

/// The offset behind a time; none if nothing is there.
fn zone_of(text: &str) -> Option<Option<FixedOffset>> {
    let text = text.trim_start_matches(' ');
    if text.is_empty() {
        return Some(None);
    }
    let (sign, rest) = match text.strip_prefix('+') {
        Some(rest) => (1, rest),
        None => (-1, text.strip_prefix('-')?),
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "00"));
    let all = |text: &str, digits: usize| {
        number(text, digits).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
    };
    let hours = all(hours, hours.len().min(2))?;
    let minutes = all(minutes, 2).filter(|minutes| *minutes < 60)?;
    let seconds = i32::try_from(hours * 3_600 + minutes * 60).ok()?;
    FixedOffset::east_opt(sign * seconds).map(Some)
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn iso_texts_are_written_as_postgresql_writes_them() {
        for (text, written, name) in [
            ("2017-03-10", "2017-03-10", "date"),
            ("12:34:50", "12:34:50", "time without time zone"),
            ("12:34:56 +3", "12:34:56+03:00", "time with time zone"),
            ("2017-03-10 12:34:56.50", "2017-03-10T12:34:56.5", "timestamp without time zone"),
            ("2017-03-10T12:34:56-3:30", "2017-03-10T12:34:56-03:30", "timestamp with time zone"),
        ] {
            let moment = Moment::read(text).expect(text);
            assert_eq!((moment.to_string().as_str(), moment.name()), (written, name));
        }
        for text in
            ["", "2017-3-10", "2017-02-30", "12:34", "24:00:00", "12:34:56+", "12:34:56.1234567", "aä:12:10"]
        {
            assert_eq!(Moment::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_zone_is_compared_with_no_local_time() {
        let read = |text: &str| Moment::read(text).expect("a date or time");
        let compare = |left: &str, right: &str| read(left).compare(read(right));
        assert_eq!(compare("2017-03-10", "2017-03-10 00:00:01").unwrap(), Some(std::cmp::Ordering::Less));
        assert_eq!(compare("10:00:00+01", "09:30:00+00").unwrap(), Some(std::cmp::Ordering::Less));
        assert_eq!(compare("2017-03-10", "10:00:00").unwrap(), None);
        let refused = compare("2017-03-10", "2017-03-10 00:00:01+00").unwrap_err();
        assert_eq!(refused.state.code(), "0A000");
    }
}
