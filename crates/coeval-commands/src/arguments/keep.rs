// SPDX-License-Identifier: Apache-2.0
//! What is kept of an archive.

use clap::Args;
use coeval_archive::Keep;
use std::time::Duration;

const SECONDS_OF_DAY: u64 = 24 * 60 * 60;

/// See the help of each.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct KeepArguments {
    /// Keep what restores any moment of so many days, and collect the rest. Everything is kept if neither this nor
    /// --keep-backups is given
    #[arg(long, value_name = "N", requires = "archive")]
    pub(crate) keep_days: Option<u32>,
    /// Keep so many backups, the newest, with the log from the oldest of them on, and collect the rest; of each history, if a
    /// database was restored and archives to the same place. With --keep-days as well a backup stays if either keeps it
    #[arg(long, value_name = "N", requires = "archive", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep_backups: Option<u32>,
}

impl KeepArguments {
    /// What is to be kept; nothing is collected if there is none.
    pub(crate) fn keep(self) -> Option<Keep> {
        let Self { keep_days, keep_backups } = self;
        if keep_days.is_none() && keep_backups.is_none() {
            return None;
        }
        let age = Duration::from_secs(u64::from(keep_days.unwrap_or(0)) * SECONDS_OF_DAY);
        let count = keep_backups.map_or(1, |count| usize::try_from(count).unwrap_or(usize::MAX));
        Some(Keep { count, age })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_kept_by_time_by_count_or_by_either() {
        let keep = |keep_days, keep_backups| KeepArguments { keep_days, keep_backups }.keep();
        let days = |days| Duration::from_secs(days * SECONDS_OF_DAY);
        assert_eq!(keep(None, None), None);
        assert_eq!(keep(Some(14), None), Some(Keep { count: 1, age: days(14) }));
        assert_eq!(keep(None, Some(3)), Some(Keep { count: 3, age: days(0) }));
        assert_eq!(keep(Some(14), Some(3)), Some(Keep { count: 3, age: days(14) }));
    }
}
