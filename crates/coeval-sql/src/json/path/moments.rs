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
use crate::functions::{ExactPattern, ExactTime};
use crate::types::local_to_utc;
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, Timelike, Utc};
use chrono_tz::Tz;
use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

/// 1970-01-01 in days since the day before the year 1.
const UNIX_EPOCH_DAY_FROM_CE: i64 = 719_163;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// What a text may be read by that comes without a template: the forms of ISO 8601, and those of JSON with a `T`.
static FORMS: LazyLock<Vec<ExactPattern>> = LazyLock::new(|| {
    let times = ["HH24:MI:SS", "HH24:MI:SS.US"];
    let zones = ["", "TZH", "TZH:TZM"];
    let mut forms = vec!["yyyy-mm-dd".to_owned()];
    for before in ["", "yyyy-mm-dd ", "yyyy-mm-dd\"T\""] {
        for time in times {
            forms.extend(zones.map(|zone| format!("{before}{time}{zone}")));
        }
    }
    forms.iter().filter_map(|form| ExactPattern::new(form).ok()).collect()
});

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
        FORMS.iter().find_map(|form| Self::by_template(text, form).ok())
    }

    /// What a text says that follows a template.
    ///
    /// # Errors
    /// `22007` for a text that does not follow it, `22008` for a date or a time that there is not, `22009` for a zone.
    pub(super) fn by_template(text: &str, template: &ExactPattern) -> Result<Self, SqlError> {
        Self::of(template.read(text)?).ok_or_else(|| {
            let message = format!("date/time field value out of range: \"{text}\"");
            SqlError::new(SqlState::DatetimeFieldOverflow, message)
        })
    }

    fn of(time: ExactTime) -> Option<Self> {
        let date = |days: i64| {
            let days = i32::try_from(days + UNIX_EPOCH_DAY_FROM_CE).ok()?;
            NaiveDate::from_num_days_from_ce_opt(days)
        };
        let clock = |micros: i64| {
            let seconds = u32::try_from(micros / MICROS_PER_SECOND).ok()?;
            let nanos = u32::try_from(micros % MICROS_PER_SECOND * 1_000).ok()?;
            NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos)
        };
        let zone = |seconds: i64| FixedOffset::east_opt(i32::try_from(seconds).ok()?);
        Some(match (time.days, time.micros, time.offset_seconds) {
            (Some(days), None, _) => Self::Date(date(days)?),
            (None, Some(micros), None) => Self::Time(clock(micros)?),
            (None, Some(micros), Some(offset)) => Self::ZonedTime(clock(micros)?, zone(offset)?),
            (Some(days), Some(micros), None) => Self::Timestamp(date(days)?.and_time(clock(micros)?)),
            (Some(days), Some(micros), Some(offset)) => {
                let local = date(days)?.and_time(clock(micros)?);
                Self::ZonedTimestamp(local.and_local_timezone(zone(offset)?).single()?)
            }
            (None, None, _) => return None,
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

    /// How two compare; `None` if they do not, as a date and a time of day. What has no zone is of this one beside what has one.
    ///
    /// # Errors
    /// `0A000` for one with a zone beside one without, if there is no zone to take.
    pub(super) fn compare(self, other: Self, zone: Option<Tz>) -> Result<Option<Ordering>, SqlError> {
        Ok(match (self, other) {
            (Self::Date(left), Self::Date(right)) => Some(left.cmp(&right)),
            (Self::Date(_) | Self::Timestamp(_), Self::Date(_) | Self::Timestamp(_)) => {
                self.local().zip(other.local()).map(|(left, right)| left.cmp(&right))
            }
            (Self::ZonedTimestamp(left), Self::ZonedTimestamp(right)) => Some(left.cmp(&right)),
            (Self::Time(left), Self::Time(right)) => Some(left.cmp(&right)),
            (Self::ZonedTime(left, left_zone), Self::ZonedTime(right, right_zone)) => {
                let order = since_midnight(left, left_zone).cmp(&since_midnight(right, right_zone));
                Some(order.then(right_zone.local_minus_utc().cmp(&left_zone.local_minus_utc())))
            }
            (Self::Date(_) | Self::Timestamp(_), Self::ZonedTimestamp(_))
            | (Self::Time(_), Self::ZonedTime(..)) => match zone {
                Some(zone) => return self.in_zone(zone).map_or(Ok(None), |left| left.compare(other, None)),
                None => return Err(self.needs_zone()),
            },
            (Self::ZonedTimestamp(_), Self::Date(_) | Self::Timestamp(_))
            | (Self::ZonedTime(..), Self::Time(_)) => {
                return Ok(other.compare(self, zone)?.map(Ordering::reverse));
            }
            _ => None,
        })
    }

    /// A date or time without a zone, the date as its midnight.
    fn local(self) -> Option<NaiveDateTime> {
        match self {
            Self::Date(date) => Some(date.and_time(NaiveTime::MIN)),
            Self::Timestamp(local) => Some(local),
            Self::Time(_) | Self::ZonedTime(..) | Self::ZonedTimestamp(_) => None,
        }
    }

    /// What has no zone as what it is in this one; a time of day with the offset of today.
    fn in_zone(self, zone: Tz) -> Option<Self> {
        if let Self::Time(time) = self {
            let today = Utc::now().with_timezone(&zone).date_naive();
            let at = instant_of(today.and_time(time), zone)?;
            return Some(Self::ZonedTime(time, *at.offset()));
        }
        instant_of(self.local()?, zone).map(Self::ZonedTimestamp)
    }

    /// The error of what has no zone beside what has one.
    fn needs_zone(self) -> SqlError {
        let (from, to) = match self {
            Self::Date(_) => ("date", "timestamptz"),
            Self::Time(_) | Self::ZonedTime(..) => ("time", "timetz"),
            Self::Timestamp(_) | Self::ZonedTimestamp(_) => ("timestamp", "timestamptz"),
        };
        let message = format!("cannot convert value from {from} to {to} without time zone usage");
        SqlError::new(SqlState::FeatureNotSupported, message)
            .with_hint("Use *_tz() function for time zone support.")
    }
}

/// The instant of a local time, as casts take it where clocks are changed.
fn instant_of(local: NaiveDateTime, zone: Tz) -> Option<DateTime<FixedOffset>> {
    let micros = local_to_utc(local.and_utc().timestamp_micros(), zone)?;
    let at = DateTime::from_timestamp_micros(micros)?.with_timezone(&zone);
    Some(at.fixed_offset())
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

#[cfg(test)]
mod tests {
    use super::{Moment, Tz};

    #[test]
    fn iso_texts_are_written_as_postgresql_writes_them() {
        for (text, written, name) in [
            ("2017-03-10", "2017-03-10", "date"),
            ("2017-3-1", "2017-03-01", "date"),
            ("12:34:50", "12:34:50", "time without time zone"),
            ("12:34:56 +3", "12:34:56+03:00", "time with time zone"),
            ("2017-03-10 12:34:56.50", "2017-03-10T12:34:56.5", "timestamp without time zone"),
            ("2017-03-10T12:34:56-3:30", "2017-03-10T12:34:56-03:30", "timestamp with time zone"),
        ] {
            let moment = Moment::read(text).expect(text);
            assert_eq!((moment.to_string().as_str(), moment.name()), (written, name));
        }
        for text in ["", "17", "2017-02-30", "12:34", "24:00:00", "12:34:56+", "12:34:56.1234567", "aä:12:10"]
        {
            assert_eq!(Moment::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_zone_is_compared_with_no_local_time() {
        let read = |text: &str| Moment::read(text).expect("a date or time");
        let compare = |left: &str, right: &str| read(left).compare(read(right), None);
        assert_eq!(compare("2017-03-10", "2017-03-10 00:00:01").unwrap(), Some(std::cmp::Ordering::Less));
        assert_eq!(compare("10:00:00+01", "09:30:00+00").unwrap(), Some(std::cmp::Ordering::Less));
        assert_eq!(compare("2017-03-10", "10:00:00").unwrap(), None);
        let refused = compare("2017-03-10", "2017-03-10 00:00:01+00").unwrap_err();
        assert_eq!(refused.state.code(), "0A000");
    }

    #[test]
    fn what_has_no_zone_is_of_the_one_that_is_given() {
        let read = |text: &str| Moment::read(text).expect("a date or time");
        let compare = |left: &str, right: &str, zone| read(left).compare(read(right), Some(zone)).unwrap();
        let of_new_york = |left: &str, right: &str| compare(left, right, Tz::America__New_York);
        assert_eq!(of_new_york("2017-07-01", "2017-07-01 00:00:00-04"), Some(std::cmp::Ordering::Equal));
        assert_eq!(of_new_york("2017-07-01 00:00:00-04", "2017-07-02"), Some(std::cmp::Ordering::Less));
        assert_eq!(compare("12:35:00", "13:35:00+01", Tz::UTC), Some(std::cmp::Ordering::Greater));
        assert_eq!(of_new_york("12:35:00", "2017-07-01 00:00:00-04"), None);
    }
}
