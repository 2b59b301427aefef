// SPDX-License-Identifier: Apache-2.0
//! Times of day with the offset of a zone, as values of columns of type `time with time zone`.
//!
//! Rows, keys and arrays keep twelve bytes: the time that it is in Greenwich then, in microseconds, and how many seconds west of there the
//! zone is. Both have the highest byte first and the bit of the sign turned, so that the order of bytes is PostgreSQL's: by the time in
//! Greenwich, and by the zone where that is one.

/// Bytes of such a time.
pub(crate) const ZONED_TIME_SIZE: i32 = 12;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SIGN: u64 = 1 << 63;
const SIGN_OF_ZONE: u32 = 1 << 31;

/// What is kept of a time, in microseconds since midnight, that clocks show so many seconds west of Greenwich.
#[must_use]
pub fn kept_zoned_time(micros: i64, seconds_west: i32) -> [u8; ZONED_TIME_SIZE as usize] {
    let greenwich = micros.wrapping_add(i64::from(seconds_west) * MICROS_PER_SECOND);
    let mut kept = [0; ZONED_TIME_SIZE as usize];
    let (time, zone) = kept.split_at_mut(size_of::<i64>());
    time.copy_from_slice(&(greenwich.cast_unsigned() ^ SIGN).to_be_bytes());
    zone.copy_from_slice(&(seconds_west.cast_unsigned() ^ SIGN_OF_ZONE).to_be_bytes());
    kept
}

/// The time, and how many seconds west of Greenwich clocks show it, that these bytes are kept of.
///
/// # Panics
/// If there are fewer bytes than are kept of one: rows and columns of one table agree.
#[must_use]
pub fn zoned_time_of(kept: &[u8]) -> (i64, i32) {
    let (time, zone) = kept.split_first_chunk::<8>().expect("a time has eight bytes");
    let zone = zone.first_chunk::<4>().expect("its zone has four bytes");
    let greenwich = (u64::from_be_bytes(*time) ^ SIGN).cast_signed();
    let seconds_west = (u32::from_be_bytes(*zone) ^ SIGN_OF_ZONE).cast_signed();
    (greenwich.wrapping_sub(i64::from(seconds_west) * MICROS_PER_SECOND), seconds_west)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600 * MICROS_PER_SECOND;

    #[test]
    fn what_is_kept_has_the_order_of_greenwich_and_of_zones_and_gives_times_back() {
        // Each but the first is later in Greenwich than the one before it, or in the same moment farther west.
        let times = [(0, -57_540), (HOUR, -7_200), (0, -3_600), (HOUR, 0), (0, 3_600), (24 * HOUR, 57_540)];
        let kept = times.map(|(micros, west)| kept_zoned_time(micros, west));
        assert!(kept.is_sorted_by(|one, next| one < next));
        assert_eq!(kept.map(|kept| zoned_time_of(&kept)), times);
    }
}
