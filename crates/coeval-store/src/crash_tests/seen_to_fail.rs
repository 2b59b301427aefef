// SPDX-License-Identifier: Apache-2.0
//! The harness of the crash test finds violations when something is left out on purpose: a sync of any kind of
//! file or directory, or the checksums of the log. (Checksums of the other files: `damage.rs`.)

use super::lives::{HONEST, Met, Rig, run_seed};
use crate::files::Lie;
use crate::log::ChecksumPolicy;

const SEEDS: u64 = 120;

/// How many seeds see the rig.
fn seeds_that_fail(rig: Rig) -> u64 {
    (0..SEEDS).filter(|seed| run_seed(*seed, rig, &mut Met::new()).is_err()).count() as u64
}

#[track_caller]
fn is_seen(rig: Rig, at_least: u64) {
    let failed = seeds_that_fail(rig);
    assert!(failed >= at_least, "only {failed} of {SEEDS} seeds saw {rig:?}");
}

fn lying(lie: Lie, place: &'static str) -> Rig {
    Rig { lie: Some((lie, place)), ..HONEST }
}

#[test]
fn a_disk_that_ignores_syncs_of_the_log_is_seen() {
    is_seen(lying(Lie::IgnoreSync, "/db/log/"), SEEDS / 2);
}

#[test]
fn a_disk_that_ignores_syncs_of_segments_is_seen() {
    is_seen(lying(Lie::IgnoreSync, "/db/segments/"), SEEDS / 4);
}

#[test]
fn a_disk_that_ignores_syncs_of_the_manifest_is_seen() {
    is_seen(lying(Lie::IgnoreSync, "/db/MANIFEST"), SEEDS / 4);
}

#[test]
fn a_disk_that_ignores_syncs_of_the_names_of_the_log_is_seen() {
    is_seen(lying(Lie::IgnoreDirectorySync, "/db/log"), SEEDS / 4);
}

#[test]
fn a_disk_that_ignores_syncs_of_the_names_of_segments_is_seen() {
    is_seen(lying(Lie::IgnoreDirectorySync, "/db/segments"), SEEDS / 4);
}

#[test]
fn a_disk_that_ignores_syncs_of_the_name_of_the_manifest_is_seen() {
    is_seen(lying(Lie::IgnoreDirectorySync, "/db"), SEEDS / 4);
}

#[test]
fn a_log_without_checksums_is_seen() {
    is_seen(Rig { checksums: ChecksumPolicy::IgnoredOnPurpose, ..HONEST }, SEEDS / 10);
}
