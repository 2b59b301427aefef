// SPDX-License-Identifier: Apache-2.0
//! An archiver beside a database that is written to, with a storage that does what storages do.

use super::faulty::Faulty;
use super::primary::{Primary, archive_in, check_restore, restored};
use crate::archive::Archive;
use crate::archiver::{Archiver, ArchiverOptions, ArchiverStatus};
use crate::check::check;
use crate::collect::Keep;
use crate::patience::Patience;
use crate::restore::{Target, restore};
use coeval_store::log::Lsn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) fn options() -> ArchiverOptions {
    ArchiverOptions {
        chunk_bytes: 2_000,
        archive_timeout: Duration::from_millis(20),
        poll: Duration::from_millis(2),
        ..ArchiverOptions::default()
    }
}

/// An archive that is asked again soon, and not often.
pub(super) fn impatient(storage: &Arc<Faulty>) -> Archive {
    impatient_of(&archive_in(storage))
}

pub(super) fn impatient_of(archive: &Archive) -> Archive {
    let patience = Patience {
        attempts: 3,
        pause: Duration::from_millis(1),
        pause_max: Duration::from_millis(10),
        attempt_max: Duration::from_secs(2),
    };
    archive.with_patience(patience)
}

pub(super) fn wait(archiver: &Archiver, wanted: impl Fn(&ArchiverStatus) -> bool) -> ArchiverStatus {
    let begun = Instant::now();
    loop {
        let status = archiver.status();
        assert!(status.is_running, "{status:?}");
        if wanted(&status) {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{status:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn archived(end: Lsn) -> impl Fn(&ArchiverStatus) -> bool {
    move |status| status.archived.is_some_and(|archived| archived >= end)
}

/// Seen to fail if `LogSender::send` goes on behind a stretch that the storage did not take: log is missing then.
#[test]
fn whatever_the_storage_does_every_version_comes_back() {
    let mut restores = 0;
    for seed in 0..4 {
        let storage = Faulty::in_memory(seed, 12);
        let mut primary = Primary::new(seed + 100);
        let start = |primary: &Primary| {
            let options = ArchiverOptions { backup_log_bytes: 4_000, ..options() };
            Archiver::start(primary.store().clone(), impatient(&storage), options).unwrap()
        };
        let mut archiver = start(&primary);
        let first = wait(&archiver, |status| status.last_backup.is_some());
        let from = primary.last().version;
        for step in 0..120 {
            primary.step();
            if step % 10 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            if step % 30 == 29 {
                // Ended at any moment, and begun again; what the archive has, the database has.
                let before = archiver.status().archived;
                drop(archiver);
                if primary.dice_says_checkpoint() {
                    primary.reopen();
                } else {
                    // Nobody syncs these.
                    (0..5).for_each(|_| primary.commit());
                    primary.crash();
                }
                // Where it was begun a moment ago, it has not looked yet.
                assert!(before.is_none_or(|before| before <= primary.store().log_position().unwrap().0));
                archiver = start(&primary);
            }
        }
        let status = wait(&archiver, archived(primary.last().end));
        assert!(status.bytes_behind < 200, "{status:?}");
        // One is due behind so much log; it may still be on its way.
        wait(&archiver, |status| status.last_backup > first.last_backup);
        drop(archiver);
        storage.percent.store(0, Ordering::SeqCst);
        let archive = archive_in(&storage);
        let report = check(&archive).unwrap();
        assert_eq!(report.problems, vec![], "seed {seed}");
        // What was not sent when the database was closed, or crashed, is there when it is opened again.
        assert_eq!(report.gaps, vec![], "seed {seed}");
        assert!(report.backups.len() > 1 && report.chunks > 5);
        let moments: Vec<_> = primary.moments.iter().filter(|moment| moment.version >= from).collect();
        for moment in moments.iter().skip(usize::try_from(seed).unwrap()).step_by(13) {
            check_restore(&archive, Target::Version(moment.version), None, moment);
            check_restore(&archive, Target::Lsn(moment.end), None, moment);
            restores += 1;
        }
        check_restore(&archive, Target::Latest, None, primary.last());
    }
    assert!(restores > 20, "{restores} restores");
}

#[test]
fn a_storage_that_is_gone_stops_no_commit_and_is_caught_up_with() {
    let storage = Faulty::in_memory(1, 0);
    let mut primary = Primary::new(1);
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
    wait(&archiver, archived(primary.last().end));
    storage.is_gone.store(true, Ordering::SeqCst);
    for _ in 0..40 {
        primary.commit();
        if primary.dice_says_checkpoint() {
            primary.store().checkpoint().unwrap();
        }
    }
    let status = wait(&archiver, |status| status.failures > 2);
    assert!(status.bytes_behind > 0 && status.last_error.is_some(), "{status:?}");
    storage.is_gone.store(false, Ordering::SeqCst);
    let status = wait(&archiver, archived(primary.last().end));
    assert_eq!((status.gaps, status.has_let_go), (vec![], false));
    wait(&archiver, |status| status.failures == 0 && status.last_error.is_none());
    drop(archiver);
    check_restore(&archive_in(&storage), Target::Latest, None, primary.last());
}

#[test]
fn past_the_bound_log_is_let_go_of_and_the_gap_has_a_name() {
    let storage = Faulty::in_memory(1, 0);
    let mut primary = Primary::new(2);
    let options = ArchiverOptions { keep_max: 3_000, ..options() };
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options).unwrap();
    wait(&archiver, archived(primary.last().end));
    let before = primary.last().clone();
    storage.is_gone.store(true, Ordering::SeqCst);
    (0..80).for_each(|_| primary.commit());
    wait(&archiver, |status| status.has_let_go);
    let lost = primary.moments[primary.moments.len() - 40].clone();
    primary.commit();
    storage.is_gone.store(false, Ordering::SeqCst);
    let status = wait(&archiver, |status| !status.gaps.is_empty());
    primary.commit();
    wait(&archiver, archived(primary.last().end));
    drop(archiver);
    let archive = archive_in(&storage);
    let report = check(&archive).unwrap();
    assert_eq!((&report.problems, &report.gaps), (&vec![], &status.gaps));
    assert!(report.gaps[0].from >= before.end && report.gaps[0].to > lost.end, "{report:?}");
    assert!(!report.is_whole() && report.lost_gaps().count() == report.gaps.len());
    check_restore(&archive, Target::Version(before.version), None, &before);
    check_restore(&archive, Target::Latest, None, primary.last());
    let home = tempfile::tempdir().unwrap();
    let refused =
        restore(&archive, &home.path().join("new"), Target::Version(lost.version), None).unwrap_err();
    assert!(refused.to_string().contains(&report.gaps[0].to_string()), "{refused}");
}

#[test]
fn an_archiver_collects_what_is_not_to_be_kept() {
    let storage = Faulty::in_memory(3, 5);
    let mut primary = Primary::new(3);
    let keep = Some(Keep { count: 2, age: Duration::ZERO });
    let options = ArchiverOptions { keep, backup_log_bytes: 4_000, ..options() };
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options).unwrap();
    for _ in 0..6 {
        let before = wait(&archiver, |status| status.last_backup.is_some()).last_backup;
        (0..60).for_each(|_| primary.commit());
        primary.load();
        wait(&archiver, |status| status.last_backup > before);
    }
    wait(&archiver, archived(primary.last().end));
    drop(archiver);
    storage.percent.store(0, Ordering::SeqCst);
    let report = check(&archive_in(&storage)).unwrap();
    assert!(report.backups.len() <= 3 && report.problems.is_empty(), "{report:?}");
    check_restore(&archive_in(&storage), Target::Latest, None, primary.last());
}

#[test]
fn what_waits_is_sent_at_the_end() {
    let storage = Faulty::in_memory(4, 0);
    let mut primary = Primary::new(4);
    let options =
        ArchiverOptions { archive_timeout: Duration::from_secs(3_600), chunk_bytes: 1 << 20, ..options() };
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options).unwrap();
    wait(&archiver, |status| status.last_backup.is_some());
    (0..5).for_each(|_| primary.commit());
    primary.wait_durable();
    let status = archiver.stop();
    assert!(!status.is_running && status.archived >= Some(primary.last().end), "{status:?}");
    check_restore(&archive_in(&storage), Target::Latest, None, primary.last());
}

/// Seen to fail if `Restored::take` goes on behind the end of a stretch in its history: the other one's rows come back.
#[test]
fn a_stretch_that_crosses_the_parting_of_two_histories_is_cut_there() {
    let storage = Faulty::in_memory(6, 5);
    let archive = archive_in(&storage);
    let mut old = Primary::new(6);
    old.load();
    let long =
        ArchiverOptions { chunk_bytes: 1 << 20, archive_timeout: Duration::from_secs(3_600), ..options() };
    let archiver = Archiver::start(old.store().clone(), archive.clone(), long).unwrap();
    wait(&archiver, |status| status.last_backup.is_some());
    (0..5).for_each(|_| old.commit());
    old.load();
    let parting = old.last().clone();
    (0..9).for_each(|_| old.commit());
    old.load();
    old.wait_durable();
    drop(archiver);
    check_restore(&archive, Target::Latest, None, old.last());
    // Both give the same numbers to other files, and write other records to the same places.
    let (_, files) = restored(&archive, Target::Lsn(parting.end), None);
    let mut new = Primary::restored(files, &old, &parting, 61);
    let archiver = Archiver::start(new.store().clone(), archive.clone(), options()).unwrap();
    (0..3).for_each(|_| new.commit());
    new.load();
    (0..20).for_each(|_| new.commit());
    wait(&archiver, archived(new.last().end));
    drop(archiver);
    let report = check(&archive).unwrap();
    assert_eq!((report.backups.len(), report.gaps, report.problems), (1, vec![], vec![]));
    for moment in new.moments.iter().filter(|moment| moment.end > parting.end).step_by(5) {
        check_restore(&archive, Target::Lsn(moment.end), None, moment);
    }
    check_restore(&archive, Target::Latest, None, new.last());
    let first = old.store().terms().last().unwrap().id;
    check_restore(&archive, Target::Latest, Some(first), old.last());
}

/// A storage that is gone when the database is closed, and checkpoints before and behind that: everything is there in the end.
/// Seen to fail if the file `kept-log` is not read by an open, and if a checkpoint does not write it before its manifest.
#[test]
fn what_was_not_sent_is_there_when_the_database_is_opened_again() {
    for seed in 0..6 {
        let storage = Faulty::in_memory(seed, 0);
        let mut primary = Primary::new(40 + seed);
        let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
        wait(&archiver, archived(primary.last().end));
        let backed_up = |status: &ArchiverStatus| status.last_backup.map(|(position, _)| position);
        let last_backup = backed_up(&archiver.status());
        storage.is_gone.store(true, Ordering::SeqCst);
        (0..20).for_each(|_| primary.commit());
        primary.load();
        primary.store().checkpoint().unwrap();
        // Nobody needs the file of the load any more but the log.
        primary.empty();
        (0..20).for_each(|_| primary.commit());
        primary.store().checkpoint().unwrap();
        primary.wait_durable();
        drop(archiver);
        if seed % 2 == 0 {
            primary.reopen();
        } else {
            primary.crash();
        }
        // Nobody archives for a while.
        primary.load();
        primary.store().checkpoint().unwrap();
        primary.reopen();
        primary.empty();
        primary.store().checkpoint().unwrap();
        let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
        wait(&archiver, |status| status.failures > 0);
        primary.commit();
        primary.store().checkpoint().unwrap();
        storage.is_gone.store(false, Ordering::SeqCst);
        let status = wait(&archiver, archived(primary.last().end));
        assert_eq!((&status.gaps, backed_up(&status)), (&vec![], last_backup), "no new backup was needed");
        drop(archiver);
        let archive = archive_in(&storage);
        let report = check(&archive).unwrap();
        assert_eq!((report.problems, report.gaps), (vec![], vec![]));
        for moment in primary.moments.iter().rev().take(70).step_by(7) {
            check_restore(&archive, Target::Lsn(moment.end), None, moment);
        }
    }
}

/// Seen to fail if nobody lets go of what was left.
#[test]
fn no_more_than_may_be_is_kept_for_an_archiver_that_does_not_come_back() {
    let storage = Faulty::in_memory(1, 0);
    let mut primary = Primary::new(50);
    let options = ArchiverOptions { keep_max: 3_000, ..options() };
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options).unwrap();
    wait(&archiver, archived(primary.last().end));
    let before = primary.last().clone();
    storage.is_gone.store(true, Ordering::SeqCst);
    (0..5).for_each(|_| primary.commit());
    primary.wait_durable();
    drop(archiver);
    primary.reopen();
    (0..80).for_each(|_| primary.commit());
    primary.store().checkpoint().unwrap();
    assert!(!primary.has_file("kept-log"));
    storage.is_gone.store(false, Ordering::SeqCst);
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options).unwrap();
    wait(&archiver, archived(primary.last().end));
    drop(archiver);
    assert!(primary.has_file("kept-log"));
    let archive = archive_in(&storage);
    check_restore(&archive, Target::Lsn(before.end), None, &before);
    check_restore(&archive, Target::Latest, None, primary.last());
}
