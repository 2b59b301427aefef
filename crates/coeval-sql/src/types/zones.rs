// SPDX-License-Identifier: Apache-2.0
//! Time zones as texts name them, and the change between local times and instants.
//!
//! A name is an abbreviation (`EST`, `CEST`, `MSK`), a name of the IANA database, or an offset as POSIX writes it: `UTC+3`, or `+3` alone, is
//! three hours *west* of Greenwich. An offset behind a time, as in `12:00+03`, counts hours east, as ISO 8601 does.

use super::abbreviations::{Meaning, meaning_of};
use chrono::{DateTime, Months, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{OffsetName, Tz};
use coeval_store::IntervalValue;
use datafusion::common::config::ConfigOptions;

pub(super) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(super) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
const NANOS_PER_MICRO: i64 = 1_000;
const SECONDS_PER_HOUR: i64 = 3_600;
/// The greatest offset that a text may name has fewer hours.
const OFFSET_HOURS_END: i64 = 16;

/// The functions behind an instant and an interval that is added or taken away, as plans name them: they go by the clocks of
/// the session's zone.
pub(crate) const INSTANT_AFTER: &str = "coeval_instant_after";
pub(crate) const INSTANT_BEFORE: &str = "coeval_instant_before";

/// The time zone of the session whose options these are.
pub(crate) fn session_zone(options: &ConfigOptions) -> Tz {
    let zone = options.execution.time_zone.as_deref();
    zone.and_then(|zone| zone.parse().ok()).unwrap_or(Tz::UTC)
}

/// What clocks follow: an offset, the rules of a region, or what a region calls so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Seconds east of Greenwich.
    Offset(i64),
    Region(Tz),
    /// The offset that a region's clocks have under this name.
    Abbreviated(&'static str, Tz),
}

impl Clock {
    /// The instant at which these clocks show a local time; both in microseconds. `None` if it is out of range.
    pub(crate) fn to_utc(self, local: i64) -> Option<i64> {
        match self {
            Self::Offset(seconds) => local.checked_sub(seconds.checked_mul(MICROS_PER_SECOND)?),
            Self::Region(zone) => local_to_utc(local, zone),
            Self::Abbreviated(name, zone) => {
                let seconds = offset_named(name, zone, local_to_utc(local, zone)?)?;
                Self::Offset(seconds).to_utc(local)
            }
        }
    }

    /// What these clocks show at an instant.
    pub(crate) fn to_local(self, utc: i64) -> Option<i64> {
        match self {
            Self::Offset(seconds) => utc.checked_add(seconds.checked_mul(MICROS_PER_SECOND)?),
            Self::Region(zone) => utc_to_local(utc, zone),
            Self::Abbreviated(name, zone) => Self::Offset(offset_named(name, zone, utc)?).to_local(utc),
        }
    }
}

/// What clocks in a zone of this name follow; `None` if there is none.
pub(crate) fn clock_named(name: &str) -> Option<Clock> {
    abbreviated(name)
        .or_else(|| region(name).map(Clock::Region))
        .or_else(|| posix_offset(name).map(Clock::Offset))
}

/// The region of this name; letters count alike, small and large.
fn region(name: &str) -> Option<Tz> {
    // Exact names, the common case, need no search.
    name.parse()
        .ok()
        .or_else(|| chrono_tz::TZ_VARIANTS.into_iter().find(|zone| zone.name().eq_ignore_ascii_case(name)))
}

/// What clocks follow in a zone of this abbreviation; `None` if there is none.
pub(super) fn abbreviated(abbreviation: &str) -> Option<Clock> {
    let (name, meaning) = meaning_of(abbreviation)?;
    Some(match meaning {
        Meaning::Fixed { minutes, .. } => Clock::Offset(minutes * 60),
        Meaning::Region(zone) => Clock::Abbreviated(name, zone),
    })
}

/// The seconds east that a region's clocks showed under a name, at an instant or the last time before it that they had that name. If they had
/// not for a year it is what they showed then.
fn offset_named(name: &str, zone: Tz, utc: i64) -> Option<i64> {
    const STEPS: i64 = 13;
    const DAYS_PER_STEP: i64 = 30;
    let instant = DateTime::from_timestamp_micros(utc)?.naive_utc();
    let offset = |step: i64| {
        let before = instant.checked_sub_signed(chrono::Duration::days(step * DAYS_PER_STEP))?;
        Some(zone.offset_from_utc_datetime(&before))
    };
    let named = (0..STEPS).filter_map(offset).find(|offset| offset.abbreviation() == Some(name));
    let shown = named.or_else(|| offset(0))?;
    Some(i64::from(shown.fix().local_minus_utc()))
}

/// Seconds east of `UTC+3`, `+3`, `-05:30`, `<+05>-05`, whose numbers count west. What is in angle brackets is a name.
pub(crate) fn posix_offset(name: &str) -> Option<i64> {
    if let Some((_, digits)) = name.strip_prefix('<').and_then(|named| named.split_once('>')) {
        return offset(digits).map(|east| -east);
    }
    let digits = name.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let letters = name.len() - digits.len();
    let digits = if digits.starts_with(['+', '-']) { digits.to_owned() } else { format!("+{digits}") };
    if letters > 0 && letters < 3 || (letters == 0 && !name.starts_with(['+', '-'])) {
        return None;
    }
    offset(&digits).map(|east| -east)
}

/// Seconds of `+02`, `-03:30`, `+0530`, `+02:30:15`; `None` if it is no such offset or too large.
pub(crate) fn offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { digits.parse::<i64>().ok() } else { None }
    };
    // Nothing behind a colon is zero.
    let part = |digits: &str| if digits.is_empty() { Some(0) } else { number(digits) };
    let mut parts = digits.split(':');
    let first = parts.next()?;
    let (hours, minutes, seconds) = match (parts.next(), parts.next(), parts.next()) {
        // Without a colon, more than two digits end in minutes.
        (None, ..) if first.len() > 2 => (number(first)? / 100, number(first)? % 100, 0),
        (None, ..) => (number(first)?, 0, 0),
        (Some(minutes), None, _) => (number(first)?, part(minutes)?, 0),
        (Some(minutes), Some(seconds), None) => (number(first)?, part(minutes)?, part(seconds)?),
        (Some(_), Some(_), Some(_)) => return None,
    };
    let is_offset = hours < OFFSET_HOURS_END && minutes < 60 && seconds < 60;
    is_offset.then_some(sign * (hours * SECONDS_PER_HOUR + minutes * 60 + seconds))
}

/// The instant of a local time of a zone. A time that clocks show twice is the later one, one that they skip is read as
/// if they had not been changed yet: as PostgreSQL does.
pub(crate) fn local_to_utc(local: i64, zone: Tz) -> Option<i64> {
    let naive: NaiveDateTime = DateTime::from_timestamp_micros(local)?.naive_utc();
    if let Some(time) = naive.and_local_timezone(zone).latest() {
        return Some(time.timestamp_micros());
    }
    // No change of clocks skips more than a day, and none follows another within one.
    let before = naive.checked_sub_signed(chrono::Duration::days(1))?;
    let seconds = zone.offset_from_utc_datetime(&before).fix().local_minus_utc();
    local.checked_sub(i64::from(seconds) * MICROS_PER_SECOND)
}

/// An instant as local time of a zone.
pub(crate) fn utc_to_local(utc: i64, zone: Tz) -> Option<i64> {
    let time = DateTime::from_timestamp_micros(utc)?.with_timezone(&zone);
    Some(time.naive_local().and_utc().timestamp_micros())
}

/// An instant so much later, as clocks of the zone count: a day later they show the same time, whether or not they were
/// changed between; hours are hours. Months come first, then days, then the time. `None` if it is out of range.
pub(crate) fn instant_after(instant: i64, interval: IntervalValue, zone: Tz) -> Option<i64> {
    let mut instant = instant;
    if interval.months != 0 {
        let local = DateTime::from_timestamp_micros(utc_to_local(instant, zone)?)?.naive_utc();
        let months = Months::new(interval.months.unsigned_abs());
        let moved = if interval.months < 0 {
            local.checked_sub_months(months)
        } else {
            local.checked_add_months(months)
        };
        instant = local_to_utc(moved?.and_utc().timestamp_micros(), zone)?;
    }
    if interval.days != 0 {
        let days = i64::from(interval.days).checked_mul(MICROS_PER_DAY)?;
        instant = local_to_utc(utc_to_local(instant, zone)?.checked_add(days)?, zone)?;
    }
    instant.checked_add(interval.nanoseconds / NANOS_PER_MICRO)
}
