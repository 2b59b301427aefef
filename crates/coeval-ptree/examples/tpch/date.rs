// SPDX-License-Identifier: Apache-2.0
//! Days in two bytes.

use std::fmt;

/// A day from 1970-01-02 to 2149-06-06, or none; none sorts before all days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Date(u16);

impl Date {
    /// No day yet. Before all days, so that what has not happened is not later than anything.
    pub(crate) const NONE: Self = Date(0);

    /// The day that lies so many days after 1970-01-01.
    pub(crate) fn from_days(days: i32) -> Self {
        Date(u16::try_from(days).expect("TPC-H's days lie between 1992 and 1998"))
    }

    /// A day of the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
    pub(crate) fn new(year: i32, month: i32, day: i32) -> Self {
        let year = if month <= 2 { year - 1 } else { year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Date::from_days(era * 146_097 + day_of_era - 719_468)
    }

    /// How many days after 1970-01-01 it lies.
    #[inline]
    pub(crate) fn days(self) -> usize {
        usize::from(self.0)
    }

    /// Whether there is a day.
    #[inline]
    pub(crate) fn known(self) -> bool {
        self != Date::NONE
    }

    /// The day so many days later.
    pub(crate) fn plus(self, days: u16) -> Self {
        Date(self.0 + days)
    }

    /// As in a log record.
    pub(crate) fn to_bytes(self) -> [u8; 2] {
        self.0.to_le_bytes()
    }

    /// Out of a log record.
    pub(crate) fn from_bytes(bytes: [u8; 2]) -> Self {
        Date(u16::from_le_bytes(bytes))
    }

    /// Year, month and day.
    pub(crate) fn civil(self) -> (i32, i32, i32) {
        let days = i32::from(self.0) + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        (year_of_era + era * 400 + i32::from(month <= 2), month, day)
    }

    /// The year.
    pub(crate) fn year(self) -> i32 {
        self.civil().0
    }
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(formatter, "{year:04}-{month:02}-{day:02}")
    }
}
