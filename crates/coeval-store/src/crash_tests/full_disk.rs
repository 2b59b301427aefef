// SPDX-License-Identifier: Apache-2.0
//! A disk without room, from a random moment on: commits stop with an error that says so, reads go on, and with
//! room again everything acknowledged is there.

use super::lives::{DIR, SMALL};
use crate::checkpoint;
use crate::files::{Fault, FileSystem, SimulatedFiles};
use crate::log::{ChecksumPolicy, LogOptions};
use crate::manifest::manifest_path;
use crate::model_workload::{End, Outcome, Workload};
use crate::options::{CheckpointPolicy, StoreOptions};
use crate::store::Store;
use crate::verify::verify;
use std::path::Path;
use std::sync::Arc;

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let log = LogOptions { segment_bytes: 4_000, extend_bytes: 256, checksums: ChecksumPolicy::Verified };
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(DIR), options, log, SMALL).unwrap()
}

/// A commit that was refused for want of room used to be found after a restart. Now it was never begun, and with room the
/// next one is taken; only a failed sync stops commits, and then nobody claims to know.
#[test]
fn on_a_full_disk_commits_are_refused_or_of_unknown_fate_reads_go_on_and_nothing_acknowledged_is_lost() {
    let (mut refused, mut stopped, mut taken_again) = (0, 0, 0);
    for seed in 0..300 {
        let mut files = SimulatedFiles::new(seed);
        let mut workload = Workload::new(seed);
        for _ in 0..2 {
            let store = open(&files);
            workload.take_recovered(&store.world()).unwrap();
            (0..seed % 7).for_each(|_| drop(workload.step(&store)));
            files.fail_from(seed % 29, Fault::DiskFull);
            for _ in 0..30 {
                if let Outcome::Unknown(error) = workload.step(&store) {
                    assert!(error.contains("disk full"), "{error}");
                    stopped += 1;
                }
                workload.model.check(&store.world()).unwrap();
            }
            let before = workload.met.get("no room").copied().unwrap_or(0);
            files.heal();
            let outcomes: Vec<Outcome> = (0..5).map(|_| workload.step(&store)).collect();
            assert_eq!(workload.met.get("no room").copied().unwrap_or(0), before, "there is room again");
            if !workload.has_stopped {
                taken_again += u64::from(outcomes.contains(&Outcome::Committed));
            }
            workload.model.check(&store.world()).unwrap();
            // Half of them are closed first, and the others end as they are: a close makes durable what was not.
            let not_closed = (seed % 4 < 2).then_some(store);
            let end = if seed % 2 == 0 { End::Machine } else { End::Process };
            workload.note_end(end);
            files = if end == End::Machine { files.crash() } else { files.restart() };
            drop(not_closed);
            let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
            assert_eq!(report.problems, [], "seed {seed}");
        }
        workload.take_recovered(&open(&files).world()).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        refused += workload.met.get("no room").copied().unwrap_or(0);
    }
    // Of 600 lives, some begin without room between the room for a record and its sync, which stops commits for good, and
    // some anywhere else, which stops none.
    assert!(refused > 300 && stopped > 300 && taken_again > 20, "{refused} {stopped} {taken_again}");
}

#[test]
fn a_checkpoint_without_room_leaves_the_old_manifest_and_no_files_and_the_next_one_succeeds() {
    let mut failures = 0;
    for seed in 0..20 {
        for calls in 0.. {
            let files = SimulatedFiles::new(seed);
            let store = open(&files);
            let mut workload = Workload::new(seed);
            (0..12).for_each(|_| drop(workload.step(&store)));
            checkpoint::run(&store.shared).unwrap();
            (0..12).for_each(|_| drop(workload.step(&store)));
            let manifest = files.read(&manifest_path(Path::new(DIR))).unwrap();
            let segments = files.list(&Path::new(DIR).join("segments")).unwrap();
            files.fail_from(calls, Fault::DiskFull);
            let outcome = checkpoint::run(&store.shared);
            files.heal();
            workload.model.check(&store.world()).unwrap();
            let Err(error) = outcome else { break };
            failures += 1;
            assert!(error.to_string().contains("disk full"), "{error}");
            assert_eq!(files.read(&manifest_path(Path::new(DIR))).unwrap(), manifest, "seed {seed}");
            assert_eq!(files.list(&Path::new(DIR).join("segments")).unwrap(), segments, "seed {seed}");
            // Commits go on, and so does a checkpoint.
            assert!((0..8).any(|_| workload.step(&store) == Outcome::Committed));
            if calls % 2 == 0 {
                checkpoint::run(&store.shared).unwrap();
            }
            workload.note_end(End::Machine);
            let files = files.crash();
            drop(store);
            workload
                .take_recovered(&open(&files).world())
                .unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        }
    }
    assert!(failures > 100, "{failures} checkpoints failed");
}
