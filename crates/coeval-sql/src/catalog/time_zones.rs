// SPDX-License-Identifier: Apache-2.0
//! The zones that `SET TIME ZONE` takes, with what their clocks show now.

use super::rows::{Cell, Table};
use chrono::{Offset, TimeZone, Utc};
use chrono_tz::{OffsetComponents, OffsetName, TZ_VARIANTS};

/// Fills `pg_timezone_names`.
pub(super) fn push_names(table: &mut Table) {
    let now = Utc::now().naive_utc();
    for zone in &TZ_VARIANTS {
        let offset = zone.offset_from_utc_datetime(&now);
        table.push([
            ("name", zone.name().into()),
            ("abbrev", offset.abbreviation().into()),
            ("utc_offset", Cell::Seconds(i64::from(offset.fix().local_minus_utc()))),
            ("is_dst", (!offset.dst_offset().is_zero()).into()),
        ]);
    }
}
