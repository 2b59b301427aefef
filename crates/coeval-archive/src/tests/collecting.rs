// SPDX-License-Identifier: Apache-2.0
//! Nothing that somebody may restore is removed, and what is damaged is named.

use super::archiving::{impatient, options, wait};
use super::faulty::Faulty;
use super::primary::{Primary, archive_in, check_restore, restored};
use crate::announcement::new_mark;
use crate::archiver::{Archiver, ArchiverOptions};
use crate::backup::{Base, KnownFiles, backup};
use crate::check::check;
use crate::collect::{Keep, collect};
use crate::error::ArchiveError;
use crate::names::{BACKUPS, COLLECTING, SEGMENTS, mark};
use crate::restore::{Target, restore};
use crate::sealed::seal;
use coeval_store::LogTime;
use object_store::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ONE: Keep = Keep { count: 1, age: Duration::ZERO };

#[test]
fn what_no_kept_backup_needs_goes() {
    let archive = archive_in(&Faulty::in_memory(1, 8));
    let mut primary = Primary::new(1);
    for _ in 0..4 {
        primary.load();
        (0..10).for_each(|_| primary.commit());
        backup(primary.store(), &archive, &mut |_| {}).unwrap();
        primary.commit();
    }
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let all = check(&archive).unwrap();
    assert_eq!(all.backups.len(), 5);
    let nothing = collect(&archive, Keep { count: 1, age: Duration::from_secs(3_600) }).unwrap();
    assert_eq!((nothing.backups_removed, nothing.pieces_removed), (0, 0));
    let report = collect(&archive, Keep { count: 2, ..ONE }).unwrap();
    assert!(report.backups_removed == 3 && report.pieces_removed > 0, "{report:?}");
    let left = check(&archive).unwrap();
    assert_eq!((left.backups.len(), left.unnamed_pieces, left.problems.len()), (2, 0, 0));
    assert!(left.pieces < all.pieces);
    check_restore(&archive, Target::Latest, None, primary.last());
}

/// A database and one that was restored from it archive to one place, and only the restored one goes on. Seen to fail if `divide` takes
/// all backups for those of one history: the idle database's were gone, with its log.
#[test]
fn of_a_database_that_is_idle_as_much_stays_as_of_the_one_that_goes_on() {
    let archive = archive_in(&Faulty::in_memory(41, 4));
    let mut old = Primary::new(41);
    old.add_table(1);
    backup(old.store(), &archive, &mut |_| {}).unwrap();
    let moment = old.last().clone();
    (0..5).for_each(|_| old.commit());
    backup(old.store(), &archive, &mut |_| {}).unwrap();
    let (_, files) = restored(&archive, Target::Version(moment.version), None);
    let mut new = Primary::restored(files, &old, &moment, 42);
    for _ in 0..3 {
        (0..5).for_each(|_| new.commit());
        backup(new.store(), &archive, &mut |_| {}).unwrap();
    }
    let report = collect(&archive, ONE).unwrap();
    assert_eq!((report.backups_kept, report.backups_removed), (2, 3), "{report:?}");
    let left = check(&archive).unwrap();
    assert_eq!((left.problems, left.gaps, left.unnamed_pieces), (vec![], vec![], 0));
    assert!(left.histories.len() == 2 && left.histories.iter().all(|history| history.backups == 1));
    check_restore(&archive, Target::Latest, None, new.last());
    let idle = old.store().terms().last().unwrap().id;
    check_restore(&archive, Target::Latest, Some(idle), old.last());
}

/// Seen to fail without the announcement (`announced` that gives nothing): the backup then names pieces that are gone.
#[test]
fn what_an_unfinished_backup_relies_on_stays() {
    let archive = archive_in(&Faulty::in_memory(2, 0));
    let mut primary = Primary::new(2);
    primary.add_table(1);
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    primary.commit();
    // It finds the table's pieces there, and is not finished yet.
    let base = Base::send(primary.store(), &archive, &mut KnownFiles::new(), &mut |_| Ok(())).unwrap();
    let moment = primary.last().clone();
    // The table is dropped and two more backups are made: nothing else needs its pieces.
    primary.drop_tables();
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let report = collect(&archive, ONE).unwrap();
    assert!(report.backups_removed > 0, "{report:?}");
    let (copy, entry) = base.into_parts();
    entry.finish(&archive, copy.position(), 0).unwrap();
    assert_eq!(check(&archive).unwrap().problems, []);
    check_restore(&archive, Target::Version(moment.version), None, &moment);
}

#[test]
fn a_backup_waits_for_a_collection_but_not_for_a_dead_one() {
    let archive = archive_in(&Faulty::in_memory(3, 0));
    let primary = Primary::new(3);
    let running = new_mark(COLLECTING);
    archive.put_new(&running, seal(&(), &[])).unwrap();
    let refused = backup(primary.store(), &archive, &mut |_| {}).unwrap_err();
    assert!(matches!(&refused, ArchiveError::Collecting { object, .. } if *object == running), "{refused}");
    let beside = archive.clone();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        beside.remove(&running).unwrap();
    });
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    ends.join().unwrap();
    let yesterday = LogTime::from_micros(LogTime::now().micros() - 25 * 3_600 * 1_000_000);
    archive.put_new(&mark(COLLECTING, yesterday, 1), seal(&(), &[])).unwrap();
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    collect(&archive, ONE).unwrap();
    assert_eq!(archive.list(COLLECTING).unwrap(), []);
}

/// A server that was stopped while it collected held up all backups for a day. Seen to fail if `collect_in` asks the archive that is not
/// waited for any more to remove the mark.
#[test]
fn a_collection_that_is_stopped_anywhere_leaves_no_mark() {
    let archive = archive_in(&Faulty::in_memory(6, 0));
    let mut primary = Primary::new(6);
    for _ in 0..3 {
        primary.load();
        backup(primary.store(), &archive, &mut |_| {}).unwrap();
    }
    let mut stopped = 0;
    for looks in 0.. {
        let looked = AtomicU64::new(0);
        let check = Arc::new(move || match looked.fetch_add(1, Ordering::SeqCst) {
            before if before < looks => Ok(()),
            _ => Err(ArchiveError::Stopping),
        });
        let outcome = collect(&archive.checked_by(check), ONE);
        assert_eq!(archive.list(COLLECTING).unwrap(), [], "{looks}: {outcome:?}");
        match outcome {
            Ok(_) => break,
            Err(error) => assert!(matches!(error, ArchiveError::Stopping), "{error}"),
        }
        stopped += 1;
        backup(primary.store(), &archive, &mut |_| {}).unwrap();
    }
    assert!(stopped > 5, "{stopped}");
    check_restore(&archive, Target::Latest, None, primary.last());
}

/// Seen to fail if nobody looks for marks when an archiver begins, and if it takes those of others for its own.
#[test]
fn the_mark_of_a_collection_that_was_killed_goes_when_the_database_is_archived_again() {
    let storage = Faulty::in_memory(7, 0);
    let archive = archive_in(&storage);
    let mut primary = Primary::new(7);
    primary.commit();
    let first = backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let killed = primary.store().terms().last().unwrap().id;
    primary.reopen();
    primary.load();
    let mark = |term: u64| {
        let name = new_mark(COLLECTING);
        archive.put_new(&name, seal(&Some(term), &[])).unwrap();
        name
    };
    let (_, of_another) = (mark(killed), mark(killed ^ 1));
    let options = ArchiverOptions { backup_log_bytes: 1, ..options() };
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options).unwrap();
    wait(&archiver, |status| status.last_error.as_ref().is_some_and(|error| error.contains(&of_another)));
    let left: Vec<_> = archive.list(COLLECTING).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, [of_another.as_str()]);
    archive.remove(&of_another).unwrap();
    wait(&archiver, |status| status.last_backup.is_some_and(|(position, _)| position > first.position));
    drop(archiver);
    check_restore(&archive, Target::Latest, None, primary.last());
}

#[test]
fn a_backup_that_ends_anywhere_harms_nothing_and_is_gone_on_with() {
    let storage = Faulty::in_memory(4, 0);
    let archive = archive_in(&storage);
    let impatient = archive.with_patience(archive.patience().once());
    let mut primary = Primary::new(4);
    primary.add_table(1);
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let before = primary.last().clone();
    (2..5).for_each(|number| primary.add_table(number));
    let mut failed = 0;
    for after in 0.. {
        storage.fails_from.store(storage.calls.load(Ordering::SeqCst) + after, Ordering::SeqCst);
        let outcome = backup(primary.store(), &impatient, &mut |_| {});
        storage.fails_from.store(u64::MAX, Ordering::SeqCst);
        if outcome.is_ok() {
            break;
        }
        failed += 1;
        let report = check(&archive).unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
        if failed % 3 == 0 {
            collect(&archive, ONE).unwrap();
            check_restore(&archive, Target::Version(before.version), None, &before);
        }
    }
    assert!(failed > 8, "{failed}");
    check_restore(&archive, Target::Latest, None, primary.last());
}

/// One damaged entry ended every collection, also one that would have gone. Seen to fail so.
#[test]
fn a_damaged_backup_goes_with_the_others_and_keeps_only_pieces_while_it_stays() {
    let storage = Faulty::in_memory(8, 0);
    let archive = archive_in(&storage);
    let mut primary = Primary::new(8);
    let mut back_up = || {
        primary.load();
        backup(primary.store(), &archive, &mut |_| {}).unwrap();
    };
    (0..4).for_each(|_| back_up());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let damage = |name: &str| runtime.block_on(storage.damage(&Path::from(name), 30));
    let names = || archive.list(BACKUPS).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    damage(&names()[0]);
    let report = collect(&archive, Keep { count: 3, ..ONE }).unwrap();
    assert_eq!((report.backups_kept, report.backups_removed), (3, 1));
    // The newest is kept, whatever it needs.
    damage(&names()[2]);
    let pieces = archive.list(SEGMENTS).unwrap();
    let refused = collect(&archive, ONE).unwrap_err();
    assert!(matches!(&refused, ArchiveError::Damaged { object, .. } if *object == names()[1]), "{refused}");
    assert_eq!((names().len(), archive.list(SEGMENTS).unwrap()), (2, pieces));
    assert_eq!(archive.list(COLLECTING).unwrap(), []);
    back_up();
    let report = collect(&archive, ONE).unwrap();
    assert_eq!((report.backups_kept, report.backups_removed), (1, 2));
    assert_eq!(check(&archive).unwrap().problems, []);
    check_restore(&archive, Target::Latest, None, primary.last());
}

#[test]
fn damage_is_named_by_a_check_and_refused_by_a_restore() {
    let storage = Faulty::in_memory(5, 0);
    let archive = archive_in(&storage);
    let mut primary = Primary::new(5);
    primary.load();
    // The log behind this backup names a file.
    let base = Base::send(primary.store(), &archive, &mut KnownFiles::new(), &mut |_| Ok(())).unwrap();
    primary.load();
    primary.commit();
    primary.wait_durable();
    let (copy, entry) = base.into_parts();
    let feed = copy.into_feed().unwrap();
    let mut sender = crate::log_sender::LogSender::new(archive.clone(), primary.store(), feed, 1 << 20);
    sender.send_to(primary.last().end, &mut |_| Ok(())).unwrap();
    entry.finish(&archive, sender.sent().end, 0).unwrap();
    check_restore(&archive, Target::Latest, None, primary.last());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let damage = |name: &str, at: u64| runtime.block_on(storage.damage(&Path::from(name), at));
    let home = tempfile::tempdir().unwrap();
    let objects: Vec<_> =
        [SEGMENTS, "log", "backups"].iter().flat_map(|folder| archive.list(folder).unwrap()).collect();
    assert!(objects.len() >= 5, "{objects:?}");
    for (place, (name, bytes)) in objects.iter().enumerate() {
        let at = bytes / 3;
        damage(name, at);
        let report = check(&archive).unwrap();
        assert!(report.problems.iter().any(|problem| problem.object.starts_with(name)), "{name}: {report:?}");
        let refused =
            restore(&archive, &home.path().join(place.to_string()), Target::Latest, None).unwrap_err();
        assert!(matches!(&refused, ArchiveError::Damaged { object, .. } if object == name), "{refused}");
        damage(name, at);
    }
    archive.remove(&objects[0].0).unwrap();
    let report = check(&archive).unwrap();
    assert!(report.problems[0].to_string().contains("missing"), "{report:?}");
    let refused = restore(&archive, &home.path().join("last"), Target::Latest, None).unwrap_err();
    assert!(matches!(refused, ArchiveError::Missing { .. }), "{refused}");
}
