// SPDX-License-Identifier: Apache-2.0
//! A replica that holds what the archive lacks, and is promoted when its primary is lost before that is archived.

use super::archiving::{archived, impatient, options, wait};
use super::faulty::Faulty;
use super::following::Copy;
use super::primary::{Primary, archive_in, check_restore, rows_of};
use crate::archiver::Archiver;
use crate::check::check;
use crate::restore::Target;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Everything that a test begins with: a primary, its archiver, which is stopped before anything else ends, and a replica.
fn three(seed: u64) -> (Arc<Faulty>, Primary, Archiver, Copy) {
    let storage = Faulty::in_memory(seed, 0);
    let primary = Primary::new(seed + 900);
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
    wait(&archiver, |status| status.last_backup.is_some());
    let copy = Copy::of(&archive_in(&storage), seed);
    (storage, primary, archiver, copy)
}

/// The storage is gone while the primary works, and there again when the replica is a primary. Of the replica's files, its own
/// checkpoints would remove what the archive needs.
#[test]
fn what_a_lost_primary_had_not_archived_comes_from_the_replica() {
    for (seed, stands_by) in [(1, true), (2, true), (3, false)] {
        let (storage, mut primary, archiver, mut copy) = three(seed);
        let start = |store| Archiver::start(store, impatient(&storage), options()).unwrap();
        let mut standing_by = stands_by.then(|| start(copy.store().clone()));
        let from = primary.last().version;
        storage.is_gone.store(true, Ordering::SeqCst);
        for round in 0..5 {
            if round == 3 {
                drop(standing_by.take());
                copy.restart();
                standing_by = stands_by.then(|| start(copy.store().clone()));
            }
            (0..10).for_each(|_| primary.commit());
            primary.load();
            copy.take_from(&primary);
            copy.store().checkpoint().unwrap();
        }
        drop((archiver, standing_by));
        let files = copy.promote();
        let mut new = Primary::restored(files, &primary, primary.last(), seed);
        assert!(rows_of(new.store()) == *primary.last().rows);
        let archiver = start(new.store().clone());
        new.commit();
        new.store().checkpoint().unwrap();
        storage.is_gone.store(false, Ordering::SeqCst);
        new.commit();
        wait(&archiver, archived(new.last().end));
        drop(archiver);
        let archive = archive_in(&storage);
        let report = check(&archive).unwrap();
        assert_eq!((report.problems, report.gaps.is_empty()), (vec![], stands_by));
        for moment in new.moments.iter().filter(|moment| stands_by && moment.version > from) {
            check_restore(&archive, Target::Version(moment.version), None, moment);
        }
        check_restore(&archive, Target::Latest, None, new.last());
    }
}

/// What is held is what the archive lacks, so that it does not grow.
#[test]
fn a_replica_lets_go_of_what_the_archive_has() {
    let (storage, mut primary, archiver, mut copy) = three(4);
    let standing_by = Archiver::start(copy.store().clone(), impatient(&storage), options()).unwrap();
    for _ in 0..3 {
        (0..10).for_each(|_| primary.commit());
        primary.load();
        copy.take_from(&primary);
        let end = primary.last().end;
        wait(&archiver, archived(end));
        wait(&standing_by, archived(end));
        // Where it is kept. The replica takes its time to have that durably.
        wait(&standing_by, |_| copy.store().whole_log_feed().unwrap().position() >= end);
        let before = copy.store().checkpoint().unwrap();
        assert!(
            before.segments_removed > 0,
            "the file of the load, whose rows are in one of its own now: {before:?}"
        );
    }
    assert_eq!(standing_by.status().failures_in_all, 0);
    // A storage that does not answer is asked again, and that it does not is seen until it does.
    storage.is_gone.store(true, Ordering::SeqCst);
    wait(&standing_by, |status| status.failures > 2 && status.last_error.is_some());
    storage.is_gone.store(false, Ordering::SeqCst);
    wait(&standing_by, |status| status.failures == 0);
}
