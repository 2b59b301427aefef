// SPDX-License-Identifier: Apache-2.0
//! The time in the log: so that a database can be restored as it was at a moment.
//!
//! Before a batch a record says what time it is, if the last one said so more than [`RECORDED_EVERY`] ago. Times never go
//! back, whatever the machine's clock does: a clock that was set ahead is waited for. So all batches behind a record of time
//! were committed at that time or later, but for the moment that the commit itself took.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time of the log: microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogTime(u64);

impl LogTime {
    /// Before all times that a log has.
    pub const ZERO: Self = Self(0);

    /// So many microseconds after the beginning of 1970.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The microseconds since 1970.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// What the machine's clock says.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for LogTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0 / MICROS_PER_DAY, self.0 % MICROS_PER_DAY);
        let (year, month, day) = date_of(days);
        let (seconds, micros) = (rest / 1_000_000, rest % 1_000_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(formatter, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06} UTC")
    }
}

const MICROS_PER_DAY: u64 = 24 * 60 * 60 * 1_000_000;

/// Year, month and day of the Gregorian calendar, so many days after 1970-01-01.
fn date_of(days: u64) -> (u64, u64, u64) {
    // In years that begin with March, a leap day is the last one.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The log says what time it is again once so much has passed.
pub(crate) const RECORDED_EVERY: Duration = Duration::from_millis(10);

/// The last time that the log has.
#[derive(Debug)]
pub(crate) struct LogClock(AtomicU64);

impl LogClock {
    pub(crate) fn new(last: LogTime) -> Self {
        Self(AtomicU64::new(last.micros()))
    }

    /// The last time that the log has.
    pub(crate) fn last(&self) -> LogTime {
        LogTime(self.0.load(Ordering::Acquire))
    }

    /// The time for a record, if one is due.
    #[inline]
    pub(crate) fn due(&self) -> Option<LogTime> {
        let now = LogTime::now();
        let next = self.last().micros().saturating_add(RECORDED_EVERY.as_micros() as u64);
        (now.micros() >= next).then_some(now)
    }

    /// The log has a record of this time. Under the leader's lock.
    pub(crate) fn raise(&self, time: LogTime) {
        self.0.fetch_max(time.micros(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        let text = |seconds: u64| LogTime(seconds * 1_000_000 + 7).to_string();
        assert_eq!(text(0), "1970-01-01 00:00:00.000007 UTC");
        assert_eq!(text(951_782_400), "2000-02-29 00:00:00.000007 UTC");
        assert_eq!(text(1_795_428_000), "2026-11-23 10:00:00.000007 UTC");
        assert_eq!(text(4_107_542_399), "2100-02-28 23:59:59.000007 UTC");
        assert_eq!(text(4_107_542_400), "2100-03-01 00:00:00.000007 UTC");
    }

    #[test]
    fn the_clock_never_goes_back() {
        let clock = LogClock::new(LogTime(u64::MAX - 1));
        assert_eq!(clock.due(), None, "the machine's clock is behind");
        clock.raise(LogTime(5));
        assert_eq!(clock.last(), LogTime(u64::MAX - 1));
        assert!(LogClock::new(LogTime::ZERO).due().is_some());
    }
}
