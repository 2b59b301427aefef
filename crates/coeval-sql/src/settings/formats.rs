// SPDX-License-Identifier: Apache-2.0
//! Settings of how values are written: what PostgreSQL knows and Coeval does not write is refused, so that no client
//! reads a date or a number in another form than it has asked for.

use crate::error::SqlError;

/// A setting of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `DateStyle`: how dates are written, and which field comes first where that is not plain.
    Dates,
    /// `IntervalStyle`.
    Intervals,
    /// `extra_float_digits`.
    Floats,
}

/// Digits with which floats are written exactly: each of them means so since PostgreSQL 12.
const EXACT_DIGITS: std::ops::RangeInclusive<i64> = 1..=3;

impl Format {
    /// The value as it is kept; `None` if it is none.
    ///
    /// # Errors
    /// `0A000` for a value of PostgreSQL's in which nothing is written here.
    pub(super) fn normalized(self, value: &str) -> Result<Option<String>, SqlError> {
        match self {
            Self::Dates => date_style(value),
            Self::Intervals => match value.to_ascii_lowercase().as_str() {
                known @ "postgres" => Ok(Some(known.to_owned())),
                "postgres_verbose" | "sql_standard" | "iso_8601" => {
                    let error = SqlError::unsupported(format_args!("IntervalStyle {value}"));
                    Err(error.with_hint(
                        "Intervals are written in the style postgres. They are read in all styles.",
                    ))
                }
                _ => Ok(None),
            },
            Self::Floats => match value.trim().parse::<i64>() {
                Ok(digits) if EXACT_DIGITS.contains(&digits) => Ok(Some(digits.to_string())),
                Ok(digits @ -15..=0) => {
                    let error = SqlError::unsupported(format_args!("extra_float_digits {digits}"));
                    Err(error.with_hint("Floats are written with the fewest digits that are exact: 1 to 3. round() rounds them."))
                }
                Ok(_) | Err(_) => Ok(None),
            },
        }
    }
}

/// `ISO, MDY`, in either order, or one of the two.
fn date_style(value: &str) -> Result<Option<String>, SqlError> {
    let mut is_other = false;
    for word in value.split(',').map(|word| word.trim().to_ascii_lowercase()) {
        match word.as_str() {
            "iso" | "mdy" | "us" | "default" => {}
            word if word.starts_with("noneuro") => {}
            "sql" | "german" | "dmy" | "ymd" => is_other = true,
            word if word.starts_with("postgres") || word.starts_with("euro") => is_other = true,
            _ => return Ok(None),
        }
    }
    if is_other {
        let error = SqlError::unsupported(format_args!("DateStyle {value}"));
        return Err(error
            .with_hint("Dates are written as ISO 8601 has them, and read with the month before the day."));
    }
    Ok(Some("ISO, MDY".to_owned()))
}
