// SPDX-License-Identifier: Apache-2.0
//! Numbers of dimensions as a user writes them: dates and timestamps are not numbers to anybody.

use arrow::datatypes::{DataType, TimeUnit};
use arrow::temporal_conversions::{
    date32_to_datetime, date64_to_datetime, timestamp_ms_to_datetime, timestamp_ns_to_datetime,
    timestamp_s_to_datetime, timestamp_us_to_datetime,
};

/// The value of a dimension of this type that `number` stands for; timestamps in UTC.
pub(crate) fn written(data_type: &DataType, number: i128) -> String {
    let as_moment = || {
        let value = i64::try_from(number).ok()?;
        match data_type {
            DataType::Date32 => Some(date32_to_datetime(i32::try_from(value).ok()?)?.date().to_string()),
            DataType::Date64 => Some(date64_to_datetime(value)?.date().to_string()),
            DataType::Timestamp(unit, _) => {
                let moment = match unit {
                    TimeUnit::Second => timestamp_s_to_datetime(value),
                    TimeUnit::Millisecond => timestamp_ms_to_datetime(value),
                    TimeUnit::Microsecond => timestamp_us_to_datetime(value),
                    TimeUnit::Nanosecond => timestamp_ns_to_datetime(value),
                };
                Some(moment?.to_string())
            }
            _ => None,
        }
    };
    as_moment().unwrap_or_else(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_timestamps_look_like_themselves_and_what_is_none_is_a_number() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(written(&DataType::Date32, 20_454), "2026-01-01");
        assert_eq!(written(&micros, 1_767_225_600_000_000), "2026-01-01 00:00:00");
        assert_eq!(written(&micros, 1_767_225_599_999_999), "2025-12-31 23:59:59.999999");
        assert_eq!(written(&DataType::Int32, 20_454), "20454");
        assert_eq!(written(&DataType::Date32, i128::from(i64::MAX)), i64::MAX.to_string());
    }
}
