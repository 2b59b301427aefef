// SPDX-License-Identifier: Apache-2.0
//! Settings that have a unit: times and sizes, as PostgreSQL writes them.

use std::time::Duration;

/// Units of durations, each in milliseconds, the largest first.
const DURATION_UNITS: [(&str, i64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

/// Units of sizes, each in bytes, the largest first.
const SIZE_UNITS: [(&str, i64); 5] =
    [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];

/// `coeval.copy_memory`, in bytes, if nobody sets it.
pub(super) const DEFAULT_COPY_BYTES: usize = 2 << 30;

/// The number with its unit as a number of the smallest one.
fn number(value: &str, units: &[(&str, i64)], without_unit: i64) -> Option<i64> {
    let value = value.trim();
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = (value[..end].parse::<i64>().ok()?, value[end..].trim());
    let factor = match unit {
        "" => without_unit,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(factor)
}

/// The number in the largest unit in which it is whole.
fn shown(number: i64, units: &[(&str, i64)]) -> String {
    if number == 0 {
        return "0".to_owned();
    }
    let unit = units.iter().find(|(_, factor)| number % factor == 0);
    unit.map_or_else(|| number.to_string(), |(name, factor)| format!("{}{name}", number / factor))
}

/// The milliseconds that a duration is.
pub(super) fn milliseconds(value: &str) -> Option<i64> {
    number(value, &DURATION_UNITS, 1).filter(|&total| total <= i64::from(i32::MAX))
}

/// A duration in the largest unit in which it is whole.
pub(super) fn shown_duration(milliseconds: i64) -> String {
    shown(milliseconds, &DURATION_UNITS)
}

/// The same as it is shown.
pub(super) fn shown_limit(limit: Option<Duration>) -> String {
    shown_duration(limit.map_or(0, |limit| i64::try_from(limit.as_millis()).unwrap_or(i64::MAX)))
}

/// A duration of which 0 is none.
pub(crate) fn limit(value: &str) -> Option<Duration> {
    let milliseconds = u64::try_from(milliseconds(value)?).ok()?;
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}

/// The bytes that a size is.
pub(super) fn bytes(value: &str) -> Option<usize> {
    usize::try_from(number(value, &SIZE_UNITS, 1 << 10)?).ok()
}

/// A size in the largest unit in which it is whole.
pub(super) fn shown_size(bytes: usize) -> String {
    shown(i64::try_from(bytes).unwrap_or(i64::MAX), &SIZE_UNITS)
}

/// `max_slot_wal_keep_size`, if nobody sets it.
pub(crate) const SLOT_SIZE_DEFAULT: &str = "16GB";

/// `wal_sender_timeout`, if nobody sets it.
pub(crate) const SENDER_TIMEOUT_DEFAULT: &str = "1min";

/// The bytes of log that a slot may keep, in MB if there is no unit; -1: any.
pub(crate) fn slot_bytes(value: &str) -> Option<Option<u64>> {
    if value.trim() == "-1" {
        return Some(None);
    }
    log_bytes(value).map(Some)
}

/// The same as it is shown.
pub(crate) fn shown_slot_bytes(bytes_max: Option<u64>) -> String {
    bytes_max.map_or_else(|| "-1".to_owned(), shown_log_bytes)
}

/// Bytes of log, in MB if there is no unit.
pub(crate) fn log_bytes(value: &str) -> Option<u64> {
    u64::try_from(number(value, &SIZE_UNITS, 1 << 20)?).ok()
}

/// The same as they are shown.
pub(crate) fn shown_log_bytes(bytes: u64) -> String {
    shown(i64::try_from(bytes).unwrap_or(i64::MAX), &SIZE_UNITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_slot_keeps_is_in_megabytes_without_a_unit() {
        assert_eq!(slot_bytes("-1"), Some(None));
        assert_eq!(slot_bytes("64"), Some(Some(64 << 20)));
        let store = coeval_store::Store::in_memory(coeval_store::StoreOptions::default());
        assert_eq!(slot_bytes(SLOT_SIZE_DEFAULT), Some(store.slot_bytes_max()), "what a store begins with");
        assert_eq!(limit(SENDER_TIMEOUT_DEFAULT), store.follower_silence_max(), "likewise");
        assert_eq!((slot_bytes("-2"), slot_bytes("1 XB"), slot_bytes("")), (None, None, None));
        assert_eq!(
            (shown_slot_bytes(None), shown_slot_bytes(Some(64 << 20))),
            ("-1".to_owned(), "64MB".to_owned())
        );
    }

    #[test]
    fn what_stays_behind_checkpoints_is_in_megabytes_without_a_unit() {
        let shown = |value: &str| log_bytes(value).map(shown_log_bytes);
        for (given, wanted) in [("0", "0"), ("64", "64MB"), ("1024MB", "1GB"), ("512 kB", "512kB")] {
            assert_eq!(shown(given).as_deref(), Some(wanted), "{given}");
        }
        assert_eq!((log_bytes("-1"), log_bytes("1 XB"), log_bytes("")), (None, None, None));
    }

    #[test]
    fn times_and_sizes_are_shown_in_the_largest_unit_in_which_they_are_whole() {
        let time = |text: &str| milliseconds(text).map(shown_duration);
        for (given, shown) in
            [("0", "0"), ("1500", "1500ms"), ("60s", "1min"), ("24h", "1d"), ("90 min", "90min")]
        {
            assert_eq!(time(given).as_deref(), Some(shown), "{given}");
        }
        assert_eq!((time("-1"), time("1 week"), time("25d")), (None, None, None));
        let size = |text: &str| bytes(text).map(shown_size);
        for (given, shown) in
            [("0", "0"), ("64", "64kB"), ("2048kB", "2MB"), ("1500B", "1500B"), ("1 GB", "1GB")]
        {
            assert_eq!(size(given).as_deref(), Some(shown), "{given}");
        }
        assert_eq!((size("1 gb"), size("99999999TB")), (None, None));
    }
}
