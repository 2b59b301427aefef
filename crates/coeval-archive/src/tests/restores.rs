// SPDX-License-Identifier: Apache-2.0
//! Backups of random databases come back, to any moment that they have.

use super::faulty::Faulty;
use super::following::Copy;
use super::primary::{Moment, Primary, archive_in, check_restore, restored, rows_of};
use crate::archive::Archive;
use crate::backup::backup;
use crate::check::check;
use crate::error::ArchiveError;
use crate::restore::{Target, restore};
use coeval_store::Store;
use coeval_store::log::Lsn;
use rand::Rng;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_backup_alone_brings_everything_back() {
    let mut faults = 0;
    for seed in 0..5 {
        let storage = Faulty::in_memory(seed, 15);
        let archive = archive_in(&storage);
        let mut primary = Primary::new(seed);
        for _ in 0..3 {
            for _ in 0..30 {
                primary.step();
            }
            let report = backup(primary.store(), &archive, &mut |_| {}).unwrap();
            assert!(report.log_end >= report.position);
            check_restore(&archive, Target::Latest, None, &primary.last().clone());
            if primary.dice.random_ratio(1, 2) {
                primary.reopen();
            }
        }
        faults += storage.faults.load(Ordering::SeqCst);
    }
    assert!(faults > 30, "{faults}");
}

#[test]
fn what_is_there_is_not_sent_again() {
    let storage = Faulty::in_memory(1, 0);
    let archive = archive_in(&storage);
    let mut primary = Primary::new(1);
    (0..5).for_each(|number| primary.add_table(number));
    let first = backup(primary.store(), &archive, &mut |_| {}).unwrap();
    assert!(first.bytes_sent >= first.bytes && first.files >= 5, "{first:?}");
    let again = backup(primary.store(), &archive, &mut |_| {}).unwrap();
    assert!(again.bytes_sent < 10_000, "{again:?}");
    primary.add_table(6);
    let mut last = None;
    let next = backup(primary.store(), &archive, &mut |progress| last = Some(progress)).unwrap();
    assert!(next.bytes_sent < next.bytes / 2 && next.files > first.files, "{next:?}");
    assert_eq!(last.unwrap().bytes_there, next.bytes);
    check_restore(&archive, Target::Latest, None, primary.last());
}

#[test]
fn a_backup_ends_when_it_is_not_waited_for_any_more() {
    let storage = Faulty::in_memory(2, 0);
    let stop = Arc::new(AtomicBool::new(false));
    let archive = archive_in(&storage).until(Arc::clone(&stop));
    let mut primary = Primary::new(2);
    (0..5).for_each(|number| primary.add_table(number));
    let mut looks = 0;
    let ended = backup(primary.store(), &archive, &mut |_| {
        looks += 1;
        stop.store(looks == 3, Ordering::Relaxed);
    });
    assert!(matches!(ended, Err(ArchiveError::Stopping)), "{ended:?}");
    assert_eq!(looks, 3, "nothing is done behind that");
    stop.store(false, Ordering::Relaxed);
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    check_restore(&archive, Target::Latest, None, primary.last());
}

#[test]
fn a_directory_is_an_archive() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("a place").join("archive");
    std::fs::write(home.path().join("somebody's"), "").unwrap();
    let mut primary = Primary::new(3);
    (0..40).for_each(|_| primary.step());
    for place in [place.display().to_string(), format!("file://{}", home.path().join("other").display())] {
        let archive = Archive::open(&place).unwrap();
        assert!(matches!(
            restore(&archive, home.path(), Target::Latest, None),
            Err(ArchiveError::NotEmpty { .. })
        ));
        let target = home.path().join("nothing");
        let refused = restore(&archive, &target, Target::Latest, None);
        assert!(matches!(refused, Err(ArchiveError::NoArchive { .. })) && !target.exists(), "{refused:?}");
        assert!(check(&archive).is_err() && !Path::new(&place).exists(), "who only reads makes nothing");
        backup(primary.store(), &archive, &mut |_| {}).unwrap();
        let again = Archive::open(&place).unwrap();
        check_restore(&again, Target::Latest, None, primary.last());
    }
    let refused = Archive::open("ftp://somewhere/else").unwrap_err();
    assert!(refused.to_string().contains("ftp://somewhere/else"), "{refused}");
}

/// Seen to fail if nobody asks whether the storage overwrites.
#[test]
fn a_storage_that_overwrites_is_refused() {
    let storage = Faulty::in_memory(1, 20);
    let archive = archive_in(&storage);
    let primary = Primary::new(1);
    for already in [false, true] {
        storage.overwrites.store(true, Ordering::SeqCst);
        let refused = backup(primary.store(), &archive, &mut |_| {}).unwrap_err();
        assert!(matches!(refused, ArchiveError::Refused { .. }), "{already}: {refused}");
        assert!(refused.to_string().contains("without overwriting"), "{refused}");
        storage.overwrites.store(false, Ordering::SeqCst);
        backup(primary.store(), &archive, &mut |_| {}).unwrap();
        check_restore(&archive, Target::Latest, None, primary.last());
    }
}

#[test]
fn each_database_has_a_place_of_its_own() {
    let archive = archive_in(&Faulty::in_memory(1, 0));
    let (one, other) = (Primary::new(1), Primary::new(2));
    backup(one.store(), &archive, &mut |_| {}).unwrap();
    let refused = backup(other.store(), &archive, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, ArchiveError::AnotherDatabase { .. }), "{refused}");
    check_restore(&archive, Target::Latest, None, one.last());
}

/// Restoring is seen to fail here without the cut at a target (`Restored::is_behind` that never says so): the newest version
/// comes back for each of them.
#[test]
fn every_moment_behind_a_backup_comes_back() {
    for seed in 0..4 {
        let storage = Faulty::in_memory(seed, 5);
        let archive = archive_in(&storage);
        let mut primary = Primary::new(seed + 10);
        (0..20).for_each(|_| primary.step());
        // Held from here on, and sent in the end: the log behind it has everything that comes now.
        let base =
            crate::backup::Base::send(primary.store(), &archive, &mut Default::default(), &mut |_| Ok(()))
                .unwrap();
        let from = primary.last().version;
        for _ in 0..60 {
            primary.step();
        }
        let (copy, entry) = base.into_parts();
        let feed = copy.into_feed().unwrap();
        let mut sender = crate::log_sender::LogSender::new(archive.clone(), primary.store(), feed, 600);
        let (end, _) = primary.store().log_position().unwrap();
        while primary.store().log_position().unwrap().1 < end {
            sender.read().unwrap();
            sender.close();
            sender.send().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        sender.send_to(end, &mut |_| Ok(())).unwrap();
        assert!(sender.sent().chunks > 3);
        entry.finish(&archive, sender.sent().end, 0).unwrap();
        let moments: Vec<_> =
            primary.moments.iter().filter(|moment| moment.version >= from).cloned().collect();
        for (place, moment) in
            moments.iter().enumerate().filter(|(place, _)| (*place as u64 + seed).is_multiple_of(4))
        {
            check_restore(&archive, Target::Version(moment.version), None, moment);
            if moment.version > from {
                check_restore(&archive, Target::Lsn(moment.end), None, moment);
                // One byte less: the last record is not whole.
                check_restore(
                    &archive,
                    Target::Lsn(Lsn::new(moment.end.get() - 1)),
                    None,
                    &moments[place - 1],
                );
            }
            // All that was committed under the same time comes back with it.
            if moment.version > from {
                let last = moments.iter().rev().find(|other| other.time == moment.time).unwrap();
                check_restore(&archive, Target::Time(moment.time), None, last);
            }
        }
    }
}

/// The log names the file of a new index. Fails if a record of one is sent without its file: what is restored does not open.
#[test]
fn a_new_index_comes_back_with_its_file_though_it_is_dropped_later() {
    let archive = archive_in(&Faulty::in_memory(11, 4));
    let mut primary = Primary::new(11);
    primary.load();
    let base = crate::backup::Base::send(primary.store(), &archive, &mut Default::default(), &mut |_| Ok(()))
        .unwrap();
    let from = primary.last().version;
    primary.commit();
    primary.make_index();
    assert!(primary.has_index_in_file());
    (0..3).for_each(|_| primary.commit());
    primary.drop_index();
    primary.store().checkpoint().unwrap();
    primary.wait_durable();
    let (copy, entry) = base.into_parts();
    let mut sender =
        crate::log_sender::LogSender::new(archive.clone(), primary.store(), copy.into_feed().unwrap(), 600);
    sender.send_to(primary.last().end, &mut |_| Ok(())).unwrap();
    entry.finish(&archive, sender.sent().end, 0).unwrap();
    let moments = primary.moments.iter().filter(|moment| moment.version >= from);
    let mut count = 0;
    for moment in moments {
        check_restore(&archive, Target::Version(moment.version), None, moment);
        count += 1;
    }
    assert!(count >= 4, "{count} moments");
}

/// A safe snapshot has commits of later versions than its own, and a token of it brought back a database without them. Seen to fail if
/// `Plan::without_snapshot` gives the version alone, or the end.
#[test]
fn what_belongs_to_the_safe_snapshot_of_a_token_comes_back() {
    let archive = archive_in(&Faulty::in_memory(3, 4));
    let mut primary = Primary::new(33);
    primary.commit();
    let base = crate::backup::Base::send(primary.store(), &archive, &mut Default::default(), &mut |_| Ok(()))
        .unwrap();
    (0..3).for_each(|_| primary.commit());
    primary.commit_antidependency();
    (0..3).for_each(|_| primary.commit());
    primary.wait_durable();
    let (copy, entry) = base.into_parts();
    let mut sender =
        crate::log_sender::LogSender::new(archive.clone(), primary.store(), copy.into_feed().unwrap(), 100);
    sender.send_to(primary.last().end, &mut |_| Ok(())).unwrap();
    entry.finish(&archive, sender.sent().end, 0).unwrap();
    let end = primary.last().end;
    let [.., before, out, member, _, _, _] = primary.moments.as_slice() else { panic!("so many were noted") };
    let snapshot = |of: &Moment, end| Target::Snapshot { version: of.version, end };
    check_restore(&archive, snapshot(out, end), None, member);
    check_restore(&archive, snapshot(before, end), None, before);
    check_restore(&archive, snapshot(member, end), None, member);
    check_restore(&archive, snapshot(out, out.end), None, out);
    let home = tempfile::tempdir().unwrap();
    let beyond = snapshot(out, Lsn::new(sender.sent().end.get() + 1));
    let refused = restore(&archive, &home.path().join("new"), beyond, None).unwrap_err();
    assert!(matches!(refused, ArchiveError::OutOfRange { .. }), "{refused}");
}

#[test]
fn what_the_archive_does_not_have_is_refused_with_its_range() {
    let archive = archive_in(&Faulty::in_memory(1, 0));
    let mut primary = Primary::new(5);
    (0..10).for_each(|_| primary.commit());
    let report = backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("new");
    let beyond = |micros| coeval_store::LogTime::from_micros(micros);
    let targets = [
        Target::Lsn(Lsn::new(report.position.get() - 1)),
        Target::Lsn(Lsn::new(report.log_end.get() + 1)),
        Target::Time(beyond(report.time.micros() - 1)),
        Target::Time(beyond(primary.store().log_time().micros() + 1)),
        Target::Version(primary.last().version.next()),
        Target::Version(primary.moments[3].version),
    ];
    for target in targets {
        let refused = restore(&archive, &dir, target, None).unwrap_err();
        assert!(matches!(refused, ArchiveError::OutOfRange { .. }), "{refused}");
        assert!(
            refused.to_string().contains("LSN") || refused.to_string().contains("ends with"),
            "{refused}"
        );
        assert!(!dir.exists());
    }
    let refused = restore(&archive, &dir, Target::Latest, Some(7)).unwrap_err();
    assert!(refused.to_string().contains("0000000000000007"), "{refused}");
}

#[test]
fn a_restored_database_goes_on_in_a_history_of_its_own() {
    let storage = Faulty::in_memory(9, 3);
    let archive = archive_in(&storage);
    let mut old = Primary::new(9);
    (0..20).for_each(|_| old.step());
    backup(old.store(), &archive, &mut |_| {}).unwrap();
    old.load();
    (0..10).for_each(|_| old.commit());
    backup(old.store(), &archive, &mut |_| {}).unwrap();
    let (last, first) = (old.last().clone(), old.store().terms().last().unwrap());
    // Restored to the first backup's end; both go on, and write to the same places.
    let moment = {
        let contents = crate::contents::Contents::read(&archive).unwrap();
        let position = contents.backups[0].position;
        old.moments.iter().rev().find(|moment| moment.end <= position).unwrap().clone()
    };
    let (_, files) = restored(&archive, Target::Version(moment.version), None);
    let mut new = Primary::restored(files, &old, &moment, 77);
    new.load();
    (0..15).for_each(|_| new.commit());
    backup(new.store(), &archive, &mut |_| {}).unwrap();
    (0..5).for_each(|_| old.commit());
    backup(old.store(), &archive, &mut |_| {}).unwrap();
    let second = new.store().terms().last().unwrap();
    assert_ne!(first.id, second.id);
    check_restore(&archive, Target::Latest, None, new.last());
    check_restore(&archive, Target::Latest, Some(first.id), old.last());
    check_restore(&archive, Target::Version(last.version), Some(first.id), &last);
    assert_eq!(new.store().terms().database_id(), old.store().terms().database_id());
}

/// The newest history was the one with the highest number of a term, and each opening of the old database gave it a higher one: a
/// restore brought back what had been restored away from. Seen to fail if `PrimaryWriter::finish` promises no timeline.
#[test]
fn a_restored_history_stays_the_newest_however_often_the_old_database_is_opened() {
    let archive = archive_in(&Faulty::in_memory(21, 3));
    let mut old = Primary::new(21);
    (0..10).for_each(|_| old.commit());
    backup(old.store(), &archive, &mut |_| {}).unwrap();
    let moment = old.last().clone();
    let go_on = |old: &mut Primary| {
        old.reopen();
        (0..5).for_each(|_| old.commit());
        backup(old.store(), &archive, &mut |_| {}).unwrap();
    };
    (0..2).for_each(|_| go_on(&mut old));
    let (report, files) = restored(&archive, Target::Version(moment.version), None);
    let left = old.store().terms().last().unwrap();
    assert_eq!((report.history, report.timeline), (left, old.store().timeline().of_restore()));
    let mut new = Primary::restored(files, &old, &moment, 22);
    (0..5).for_each(|_| new.commit());
    backup(new.store(), &archive, &mut |_| {}).unwrap();
    (0..2).for_each(|_| go_on(&mut old));
    check_restore(&archive, Target::Latest, None, new.last());
    Copy::of(&archive, 3).check(&new.moments);
    let left = old.store().terms().last().unwrap();
    check_restore(&archive, Target::Latest, Some(left.id), old.last());
    let report = check(&archive).unwrap();
    let ends: Vec<_> = report.histories.iter().map(|history| history.last.id).collect();
    assert_eq!(ends, [new.store().terms().last().unwrap().id, left.id]);
    // Two that were restored beside each other are equally new, and nobody guesses which one is meant.
    let beside = [31, 32].map(|seed| {
        let (_, files) = restored(&archive, Target::Version(new.last().version), None);
        let mut beside = Primary::restored(files, &new, new.last(), seed);
        beside.commit();
        beside
    });
    for (times, mut beside) in (1..).zip(beside) {
        (0..times).for_each(|_| go_on(&mut beside));
    }
    let home = tempfile::tempdir().unwrap();
    let refused = restore(&archive, &home.path().join("new"), Target::Latest, None).unwrap_err();
    assert!(matches!(refused, ArchiveError::Ambiguous { .. }), "{refused}");
}

/// A replica is promoted, and before the archive hears of that the database is restored from it. Fails if a restore takes the next
/// number: both histories had it, nobody knew which was meant, and replicas of the archive followed neither.
#[test]
fn a_restore_beside_a_promotion_that_the_archive_has_not_heard_of_is_the_newest() {
    let archive = archive_in(&Faulty::in_memory(23, 3));
    let mut old = Primary::new(23);
    (0..10).for_each(|_| old.commit());
    backup(old.store(), &archive, &mut |_| {}).unwrap();
    let moment = old.last().clone();
    let [copy, second] = [5, 6].map(|seed| Copy::of(&archive, seed));
    let promoted_from = |copy: Copy| {
        let version = copy.store().world().version();
        let has = old.moments.iter().rfind(|moment| moment.version <= version).unwrap().clone();
        (copy.promote(), has)
    };
    let (files, has) = promoted_from(copy);
    let mut promoted = Primary::restored(files, &old, &has, 24);
    (0..5).for_each(|_| promoted.commit());
    let (report, files) = restored(&archive, Target::Latest, None);
    let mut new = Primary::restored(files, &old, &moment, 25);
    (0..5).for_each(|_| new.commit());
    // Whichever of them the archive hears of first.
    backup(new.store(), &archive, &mut |_| {}).unwrap();
    check_restore(&archive, Target::Latest, None, new.last());
    backup(promoted.store(), &archive, &mut |_| {}).unwrap();
    check_restore(&archive, Target::Latest, None, new.last());
    let timelines = [&promoted, &new].map(|primary| primary.store().terms().timeline());
    assert_eq!(timelines[1], report.timeline);
    assert!(timelines[0] < timelines[1], "{timelines:?}");
    Copy::of(&archive, 7).check(&new.moments);
    // Each is there for who asks for it.
    let left = promoted.store().terms().last().unwrap();
    check_restore(&archive, Target::Latest, Some(left.id), promoted.last());
    // A second one that was promoted to the same number changes nothing.
    let (files, has) = promoted_from(second);
    let mut beside = Primary::restored(files, &old, &has, 26);
    (0..5).for_each(|_| beside.commit());
    backup(beside.store(), &archive, &mut |_| {}).unwrap();
    check_restore(&archive, Target::Latest, None, new.last());
}

#[test]
fn a_restore_that_did_not_end_is_begun_anew() {
    let storage = Faulty::in_memory(1, 0);
    let archive = archive_in(&storage);
    let mut primary = Primary::new(8);
    (0..3).for_each(|_| primary.load());
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("new");
    let impatient = archive.with_patience(archive.patience().once());
    let calls = || storage.calls.load(Ordering::SeqCst);
    let set = |from: u64| storage.fails_from.store(from, Ordering::SeqCst);
    let mut failed = 0;
    for after in 0.. {
        set(calls() + after);
        let outcome = restore(&impatient, &dir, Target::Latest, None);
        set(u64::MAX);
        match outcome {
            Ok(_) => break,
            Err(error) => {
                assert!(matches!(error, ArchiveError::Unreachable { .. }), "{error}");
                failed += 1;
            }
        }
        if dir.exists() {
            assert!(Store::open(&dir, super::primary::options()).is_err(), "it is no database yet");
        }
    }
    assert!(failed > 5, "{failed}");
    let store = Store::open(&dir, super::primary::options()).unwrap();
    assert!(rows_of(&store) == *primary.last().rows);
}
