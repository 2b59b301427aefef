// SPDX-License-Identifier: Apache-2.0
//! Times of day with the offset of a zone. What is kept of one is said by [`kept_zoned_time`].
//!
//! A zone whose offset depends on the day has the one of today, as in PostgreSQL.

use super::datetime::{format_time, write_offset};
use super::zones::{Clock, MICROS_PER_DAY, MICROS_PER_SECOND, utc_to_local};
use chrono::Utc;
use chrono_tz::Tz;
use coeval_store::{Value, kept_zoned_time, zoned_time_of};

/// No zone is so many seconds away from Greenwich.
const OFFSET_END: i32 = 16 * 3_600;

/// Such a time as a value.
pub(crate) fn zoned_time(micros: i64, seconds_west: i32) -> Value {
    Value::Bytes(kept_zoned_time(micros, seconds_west).into())
}

/// The days from 1970-01-01 to today, in a zone.
pub(super) fn today(zone: Tz) -> i64 {
    let now = Utc::now().timestamp_micros();
    utc_to_local(now, zone).unwrap_or(now).div_euclid(MICROS_PER_DAY)
}

/// How many seconds west of Greenwich clocks are that show a local time, in microseconds since 1970; `None` if it is out of range.
pub(super) fn seconds_west(local: i64, clock: Clock) -> Option<i32> {
    i32::try_from((clock.to_utc(local)? - local) / MICROS_PER_SECOND).ok()
}

/// A time of day as clocks of a zone show it today; `None` if it is out of range.
pub(crate) fn zoned_today(micros: i64, zone: Tz) -> Option<Value> {
    let local = today(zone).checked_mul(MICROS_PER_DAY)?.checked_add(micros)?;
    Some(zoned_time(micros, seconds_west(local, Clock::Region(zone))?))
}

/// The time of day that clocks of a zone show at an instant; `None` if it is out of range.
pub(crate) fn zoned_at(instant: i64, zone: Tz) -> Option<Value> {
    let local = utc_to_local(instant, zone)?;
    let west = i32::try_from((instant - local) / MICROS_PER_SECOND).ok()?;
    Some(zoned_time(local.rem_euclid(MICROS_PER_DAY), west))
}

/// The same time in Greenwich, as these clocks show it now; `None` if it is out of range.
pub(crate) fn zoned_elsewhere(kept: &[u8], clock: Clock) -> Option<Value> {
    let (micros, west) = zoned_time_of(kept);
    let now = Utc::now().timestamp_micros();
    let other = i32::try_from((now - clock.to_local(now)?) / MICROS_PER_SECOND).ok()?;
    let moved = micros + i64::from(west - other) * MICROS_PER_SECOND;
    Some(zoned_time(moved.rem_euclid(MICROS_PER_DAY), other))
}

/// Appends `12:00:00+02`.
pub(super) fn format_zoned_time(kept: &[u8], out: &mut String) {
    let (micros, west) = zoned_time_of(kept);
    format_time(micros, out);
    write_offset(-i64::from(west), out);
}

/// Appends the microseconds since midnight, and the seconds west of Greenwich.
pub(super) fn encode_zoned_time(kept: &[u8], out: &mut Vec<u8>) {
    let (micros, west) = zoned_time_of(kept);
    out.extend_from_slice(&micros.to_be_bytes());
    out.extend_from_slice(&west.to_be_bytes());
}

/// What is wrong with the bytes of such a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrongTime {
    /// There are not as many as it has.
    Length,
    /// A day has no such time.
    Time,
    /// No zone has this offset.
    Offset,
}

/// What [`encode_zoned_time`] has written.
///
/// # Errors
/// What is wrong with other bytes.
pub(super) fn decode_zoned_time(bytes: &[u8]) -> Result<Value, WrongTime> {
    let (time, zone) = bytes.split_first_chunk::<8>().ok_or(WrongTime::Length)?;
    let zone: [u8; 4] = zone.try_into().map_err(|_| WrongTime::Length)?;
    let (micros, west) = (i64::from_be_bytes(*time), i32::from_be_bytes(zone));
    if !(0..=MICROS_PER_DAY).contains(&micros) {
        return Err(WrongTime::Time);
    }
    if west <= -OFFSET_END || west >= OFFSET_END {
        return Err(WrongTime::Offset);
    }
    Ok(zoned_time(micros, west))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600 * MICROS_PER_SECOND;

    fn shown(value: &Value) -> String {
        let mut text = String::new();
        if let Value::Bytes(kept) = value {
            format_zoned_time(kept, &mut text);
        }
        text
    }

    #[test]
    fn the_offset_is_written_with_as_many_parts_as_it_has() {
        for (micros, west, text) in [
            (12 * HOUR, -7_200, "12:00:00+02"),
            (12 * HOUR + 500_000, 12_600, "12:00:00.5-03:30"),
            (0, -3_208, "00:00:00+00:53:28"),
            (24 * HOUR, 0, "24:00:00+00"),
        ] {
            assert_eq!(shown(&zoned_time(micros, west)), text);
        }
    }

    #[test]
    fn other_clocks_show_the_same_time_otherwise() {
        let elsewhere = |micros, west, east| {
            let kept = kept_zoned_time(micros, west);
            shown(&zoned_elsewhere(&kept, Clock::Offset(east)).unwrap())
        };
        assert_eq!(elsewhere(12 * HOUR, -7_200, 0), "10:00:00+00");
        assert_eq!(elsewhere(HOUR, -7_200, -3_600), "22:00:00-01");
        assert_eq!(shown(&zoned_at(0, Tz::Asia__Kolkata).unwrap()), "05:30:00+05:30");
    }

    /// The bytes are those of PostgreSQL's `timetz_send`.
    #[test]
    fn bytes_on_the_wire_have_the_zone_behind_the_time() {
        let Value::Bytes(kept) = zoned_time(1, -7_200) else { panic!("bytes") };
        let mut bytes = Vec::new();
        encode_zoned_time(&kept, &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0xFF, 0xE3, 0xE0]);
        assert_eq!(decode_zoned_time(&bytes), Ok(zoned_time(1, -7_200)));
        assert_eq!(decode_zoned_time(&bytes[1..]), Err(WrongTime::Length));
        assert_eq!(decode_zoned_time(&[0xFF; 12]), Err(WrongTime::Time));
        let far = [[0; 8].as_slice(), &57_600_i32.to_be_bytes()].concat();
        assert_eq!(decode_zoned_time(&far), Err(WrongTime::Offset));
    }
}
