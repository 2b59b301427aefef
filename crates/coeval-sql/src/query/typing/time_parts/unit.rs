// SPDX-License-Identifier: Apache-2.0
//! The names of parts of times.

use crate::error::{SqlError, SqlState};

/// How many digits of the number of a day stand behind the point, where it has a time: as many as PostgreSQL shows of most.
pub(super) const JULIAN_SCALE: i8 = 20;

/// A part of a time, or what a time is cut off at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    IsoYear,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Epoch,
    Julian,
    Zone,
    ZoneHour,
    ZoneMinute,
}

/// The types that have parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Date,
    Time,
    TimeTz,
    Timestamp,
    TimestampTz,
    Interval,
}

impl Of {
    fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Time => "time without time zone",
            Self::TimeTz => "time with time zone",
            Self::Timestamp => "timestamp without time zone",
            Self::TimestampTz => "timestamp with time zone",
            Self::Interval => "interval",
        }
    }
}

/// Each unit with the names it goes by, the longest first.
const NAMES: &[(Unit, &[&str])] = &[
    (Unit::Microseconds, &["microseconds", "microsecond", "useconds", "usecond", "usecs", "usec", "us"]),
    (Unit::Milliseconds, &["milliseconds", "millisecond", "mseconds", "msecond", "msecs", "msec", "ms"]),
    (Unit::Second, &["seconds", "second", "secs", "sec", "s"]),
    (Unit::Minute, &["minutes", "minute", "mins", "min", "m"]),
    (Unit::Hour, &["hours", "hour", "hrs", "hr", "h"]),
    (Unit::Day, &["days", "day", "d"]),
    (Unit::Week, &["weeks", "week", "w"]),
    (Unit::Month, &["months", "month", "mons", "mon"]),
    (Unit::Quarter, &["quarter", "qtr"]),
    (Unit::Year, &["years", "year", "yrs", "yr", "y"]),
    (Unit::Decade, &["decades", "decade", "decs", "dec"]),
    (Unit::Century, &["centuries", "century", "cent", "c"]),
    (Unit::Millennium, &["millennia", "millennium", "mils", "mil"]),
    (Unit::IsoYear, &["isoyear"]),
    (Unit::DayOfWeek, &["dow"]),
    (Unit::IsoDayOfWeek, &["isodow"]),
    (Unit::DayOfYear, &["doy"]),
    (Unit::Epoch, &["epoch"]),
    (Unit::Julian, &["julian", "jd", "j"]),
    (Unit::Zone, &["timezone"]),
    (Unit::ZoneHour, &["timezone_hour", "timezone_h"]),
    (Unit::ZoneMinute, &["timezone_minute", "timezone_m"]),
];

fn unknown(name: &str, of: Of) -> SqlError {
    let message = format!("unit \"{name}\" not recognized for type {}", of.name());
    SqlError::new(SqlState::InvalidParameterValue, message)
}

impl Unit {
    /// The unit of this name.
    ///
    /// # Errors
    /// `22023` if there is none.
    pub(super) fn named(name: &str, of: Of) -> Result<Self, SqlError> {
        let name = name.to_lowercase();
        let found = NAMES.iter().find(|(_, names)| names.contains(&name.as_str()));
        found.map(|(unit, _)| *unit).ok_or_else(|| unknown(&name, of))
    }

    /// `0A000`: this type has no such part.
    pub(super) fn refused(self, of: Of) -> SqlError {
        let message = format!("unit \"{}\" not supported for type {}", self.name(), of.name());
        SqlError::new(SqlState::FeatureNotSupported, message)
    }

    /// `22023`: nothing is cut off at such a unit.
    pub(super) fn refused_as_end(self, of: Of) -> SqlError {
        unknown(self.name(), of)
    }

    /// As it is usually written, in the singular.
    fn name(self) -> &'static str {
        let names = NAMES.iter().find(|(unit, _)| *unit == self).map_or(&[][..], |(_, names)| names);
        names.iter().find(|name| !name.ends_with('s')).or(names.first()).unwrap_or(&"")
    }

    /// How many digits of the part stand behind the point.
    pub(super) fn scale(self, of: Of) -> i8 {
        match self {
            Self::Second => 6,
            Self::Epoch if of != Of::Date => 6,
            Self::Milliseconds => 3,
            Self::Julian if of != Of::Date => JULIAN_SCALE,
            _ => 0,
        }
    }

    /// Whether it only ever grows as time goes on, so that what is infinitely late has an infinite one.
    pub(super) fn grows(self) -> bool {
        matches!(
            self,
            Self::Year
                | Self::Decade
                | Self::Century
                | Self::Millennium
                | Self::IsoYear
                | Self::Epoch
                | Self::Julian
        )
    }

    /// Whether it is smaller than a day.
    pub(super) fn is_of_clock(self) -> bool {
        matches!(self, Self::Microseconds | Self::Milliseconds | Self::Second | Self::Minute | Self::Hour)
    }
}
