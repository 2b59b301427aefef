// SPDX-License-Identifier: Apache-2.0
//! The zones that `SET TIME ZONE` takes, with what their clocks show now, and abbreviations of zones in texts.

use super::rows::{Cell, Table};
use crate::types::{ZoneMeaning, clock_named, zone_abbreviations};
use chrono::{Offset, TimeZone, Utc};
use chrono_tz::{OffsetComponents, OffsetName, TZ_VARIANTS};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Fills `pg_timezone_names`.
pub(super) fn push_names(table: &mut Table) {
    let now = Utc::now().naive_utc();
    for zone in &TZ_VARIANTS {
        let offset = zone.offset_from_utc_datetime(&now);
        let seconds = offset.fix().local_minus_utc();
        table.push([
            ("name", zone.name().into()),
            ("abbrev", offset.abbreviation().map_or_else(|| in_digits(seconds), str::to_owned).into()),
            ("utc_offset", Cell::Seconds(i64::from(seconds))),
            ("is_dst", (!offset.dst_offset().is_zero()).into()),
        ]);
    }
}

/// Fills `pg_timezone_abbrevs`.
pub(super) fn push_abbreviations(table: &mut Table) {
    let now = Utc::now();
    let micros = now.timestamp_micros();
    let mut known: Vec<_> = zone_abbreviations().collect();
    known.sort_unstable_by_key(|(name, _)| *name);
    for (name, meaning) in known {
        let local = clock_named(name).and_then(|clock| clock.to_local(micros)).unwrap_or(micros);
        let is_dst = match meaning {
            ZoneMeaning::Fixed { is_dst, .. } => is_dst,
            ZoneMeaning::Region(zone) => {
                !zone.offset_from_utc_datetime(&now.naive_utc()).dst_offset().is_zero()
            }
        };
        table.push([
            ("abbrev", name.into()),
            ("utc_offset", Cell::Seconds((local - micros) / MICROS_PER_SECOND)),
            ("is_dst", is_dst.into()),
        ]);
    }
}

/// What a zone is called for short that has no letters: the hours that its clocks are ahead, and minutes if there are any.
fn in_digits(seconds: i32) -> String {
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    match minutes % 60 {
        0 => format!("{sign}{:02}", minutes / 60),
        rest => format!("{sign}{:02}{rest:02}", minutes / 60),
    }
}
