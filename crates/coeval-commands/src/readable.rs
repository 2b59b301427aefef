// SPDX-License-Identifier: Apache-2.0
//! Numbers as people read them.

use std::time::Duration;

/// `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Milliseconds with three digits or more: `0.123`, `1.23`, `12.3`, `1,234`.
pub(crate) fn milliseconds(value: f64) -> String {
    match value {
        value if value < 0.9995 => format!("{value:.3}"),
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => grouped(value.round() as u64),
    }
}

/// The same of a duration, with its unit.
pub(crate) fn latency(duration: Duration) -> String {
    format!("{} ms", milliseconds(duration.as_secs_f64() * 1_000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        let all = [0, 7, 999, 1_000, 12_345, 123_456, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "7", "999", "1,000", "12,345", "123,456", "1,234,567"]);
    }

    #[test]
    fn milliseconds_keep_three_digits() {
        let all = [0.0, 0.1234, 0.9996, 1.234, 12.34, 99.96, 1234.5].map(milliseconds);
        assert_eq!(all, ["0.000", "0.123", "1.00", "1.23", "12.3", "100", "1,235"]);
        assert_eq!(latency(Duration::from_micros(1_500)), "1.50 ms");
    }
}
