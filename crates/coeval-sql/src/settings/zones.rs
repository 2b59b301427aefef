// SPDX-License-Identifier: Apache-2.0
//! The zones that `SET timezone` takes. A session keeps the name of one of the IANA database's; offsets of whole hours have names there.

use crate::error::SqlError;
use crate::types::posix_offset;

const SECONDS_PER_HOUR: i64 = 3_600;

/// The IANA database's name of a zone as `SET timezone` takes it: a name, a number of hours east of Greenwich, or an offset as POSIX
/// writes it (`UTC+3`, `-05:00`, `<+02>-02`), which counts west. `None` if there is no such zone.
///
/// # Errors
/// `0A000` for an offset that is not of whole hours.
pub(super) fn zone_name(value: &str) -> Result<Option<String>, SqlError> {
    let lower = value.to_lowercase();
    if matches!(lower.as_str(), "default" | "local" | "z" | "zulu" | "utc") {
        return Ok(Some("UTC".to_owned()));
    }
    if let Some(seconds) = seconds_of_hours(value) {
        return named_offset(seconds);
    }
    let known = chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().to_lowercase() == lower);
    match (known, posix_offset(value)) {
        (Some(zone), _) => Ok(Some(zone.name().to_owned())),
        (None, Some(seconds)) => named_offset(seconds),
        (None, None) => Ok(None),
    }
}

/// The seconds of a number of hours, which may have a fraction.
fn seconds_of_hours(value: &str) -> Option<i64> {
    const HOURS_END: f64 = 168.0;
    let hours: f64 = value.trim().parse().ok()?;
    // What is left is far from where seconds are cut off.
    (hours.abs() < HOURS_END).then(|| (hours * SECONDS_PER_HOUR as f64).round() as i64)
}

/// The name of the zone that lies so many seconds east; `None` if none lies so far away.
fn named_offset(seconds: i64) -> Result<Option<String>, SqlError> {
    if seconds % SECONDS_PER_HOUR != 0 {
        return Err(SqlError::unsupported("a time zone that is an offset with minutes")
            .with_hint("Name it as the IANA database does: 'Asia/Kolkata'."));
    }
    Ok(match seconds / SECONDS_PER_HOUR {
        0 => Some("UTC".to_owned()),
        // The names count west.
        hours @ -12..=14 => Some(format!("Etc/GMT{:+}", -hours)),
        _ => None,
    })
}
