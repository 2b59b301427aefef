// SPDX-License-Identifier: Apache-2.0
//! The file system of a directory: what it is, whether it keeps what it is told to keep, and how fast.

use super::{Finding, Verdict};
use crate::readable::{grouped, latency};
use rustix::fs::{statfs, statvfs};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Writes that are synced one by one to learn how long that takes.
const SYNCS: u64 = 32;

/// A commit waits for one of these at least.
const SYNC_SLOW: Duration = Duration::from_millis(10);

/// No disk that keeps what it says it keeps is faster without memory that survives a loss of power.
const SYNC_SUSPICIOUS: Duration = Duration::from_micros(15);

/// Free room below which a load or a checkpoint may not have enough.
const FREE_WANTED: u64 = 2 << 30;

/// What is known of a kind of file system.
enum Kind {
    /// Made for keeping files.
    Local(&'static str),
    Other(&'static str, Verdict, &'static str),
}

const NETWORK: &str = "Whether a synced write survives, and whether a lock holds, depends on the other machine: take a local disk.";

/// By the numbers that the kernel names them with (`linux/magic.h`).
fn kind(number: u64) -> Option<Kind> {
    Some(match number {
        0xEF53 => Kind::Local("ext4"),
        0x5846_5342 => Kind::Local("xfs"),
        0x9123_683E => Kind::Local("btrfs"),
        0x2FC1_2FC1 => Kind::Local("zfs"),
        0xF2F5_2010 => Kind::Local("f2fs"),
        0x0102_1994 => Kind::Other(
            "tmpfs",
            Verdict::Warning,
            "It is memory: nothing is there after a restart of the machine.",
        ),
        0x794C_7630 => Kind::Other(
            "overlay",
            Verdict::Warning,
            "It is a container's own layer, and goes with the container: mount a volume for the database.",
        ),
        0x6969 => Kind::Other("nfs", Verdict::Warning, NETWORK),
        0xFF53_4D42 | 0xFE53_4D42 | 0x517B => Kind::Other("smb", Verdict::Warning, NETWORK),
        0x6573_5546 => {
            Kind::Other("fuse", Verdict::Note, "What a synced write means is up to the program behind it.")
        }
        0x0102_1997 => {
            Kind::Other("9p", Verdict::Note, "What a synced write means is up to the machine behind it.")
        }
        _ => return None,
    })
}

pub(super) fn findings(dir: &Path) -> Vec<Finding> {
    vec![file_system(dir), room(dir), syncs(dir)]
}

fn file_system(dir: &Path) -> Finding {
    let number = match statfs(dir) {
        Ok(found) => u64::try_from(found.f_type).unwrap_or_default(),
        Err(error) => return Finding::good("file system", format!("unknown: {error}")),
    };
    match kind(number) {
        Some(Kind::Local(name)) => Finding::good("file system", name),
        Some(Kind::Other(name, verdict, advice)) => Finding::good("file system", name).with(verdict, advice),
        None => Finding::good("file system", format!("of a kind that is not known here (0x{number:x})")),
    }
}

fn room(dir: &Path) -> Finding {
    match statvfs(dir) {
        Ok(found) => judged_room(found.f_bavail.saturating_mul(found.f_frsize)),
        Err(error) => Finding::good("free room", format!("unknown: {error}")),
    }
}

fn judged_room(free: u64) -> Finding {
    let finding = Finding::good("free room", format!("{} MiB", grouped(free >> 20)));
    if free >= FREE_WANTED {
        return finding;
    }
    finding.with(
        Verdict::Warning,
        "A checkpoint writes what has changed before it removes anything, and queries that do not fit in memory write, too.",
    )
}

fn syncs(dir: &Path) -> Finding {
    match synced(dir) {
        Ok(took) => judged_syncs(took),
        Err(error) => Finding::good("synced writes", error.to_string()).with(
            Verdict::Problem,
            "A file cannot be written and synced there: look at rights, room and quotas.",
        ),
    }
}

/// How long each of some small writes took to be on the disk, in order.
fn synced(dir: &Path) -> io::Result<Vec<Duration>> {
    let path = dir.join(format!(".coeval-doctor-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let measured = (|| {
        let mut took = Vec::new();
        for place in 0..SYNCS {
            let begun = Instant::now();
            file.write_all_at(&[place as u8; 4096], place * 4096)?;
            file.sync_data()?;
            took.push(begun.elapsed());
        }
        Ok(took)
    })();
    std::fs::remove_file(&path)?;
    measured.map(|mut took: Vec<Duration>| {
        took.sort_unstable();
        took
    })
}

fn judged_syncs(sorted: Vec<Duration>) -> Finding {
    let (median, longest) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    let found = format!("{} each, the longest {}", latency(median), latency(longest));
    let finding = Finding::good("synced writes", found);
    if median < SYNC_SUSPICIOUS {
        return finding.with(
            Verdict::Note,
            "No disk is so fast: somebody answers before it is kept. Make sure that a loss of power loses nothing there.",
        );
    }
    if median > SYNC_SLOW {
        return finding.with(
            Verdict::Warning,
            "Each commit waits for one, many at the same time for the same one: few clients will be slow. Take a faster disk.",
        );
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let findings = findings(dir.path());
        assert_eq!(
            findings.iter().filter(|finding| finding.verdict == Verdict::Problem).count(),
            0,
            "{findings:?}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(syncs(&dir.path().join("gone")).verdict, Verdict::Problem);
    }

    #[test]
    fn times_of_syncs_are_judged() {
        let verdict = |micros: u64| judged_syncs(vec![Duration::from_micros(micros)]).verdict;
        assert_eq!([5, 200, 20_000].map(verdict), [Verdict::Note, Verdict::Good, Verdict::Warning]);
        assert_eq!(
            [1 << 20, 1 << 40].map(|free| judged_room(free).verdict),
            [Verdict::Warning, Verdict::Good]
        );
    }
}
