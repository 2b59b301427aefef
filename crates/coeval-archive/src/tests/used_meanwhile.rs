// SPDX-License-Identifier: Apache-2.0
//! Backups of a database that is used meanwhile: how much of its log they hold, what they have of it, and those that a replica makes.

use super::archiving::{impatient, options, wait};
use super::faulty::Faulty;
use super::following::Copy;
use super::primary::{Primary, archive_in, check_restore, restored};
use crate::archiver::Archiver;
use crate::backup::backup;
use crate::check::check;
use crate::error::ArchiveError;
use crate::log_sender::LogSender;
use crate::patience::Patience;
use crate::restore::{RestoreReport, Target};
use coeval_store::log::Lsn;
use coeval_store::{ReplicaChoice, SynchronousReplicas};
use std::time::{Duration, Instant};

/// It held all that came while a slow storage took the backup. Seen to fail without the check.
#[test]
fn a_backup_holds_no_more_log_than_a_slot_may() {
    let archive = archive_in(&Faulty::in_memory(1, 0));
    let mut primary = Primary::new(77);
    (0..3).for_each(|number| primary.add_table(number));
    let store = primary.store().clone();
    store.set_slot_bytes_max(Some(10_000));
    let refused = backup(&store, &archive, &mut |_| {
        (0..400).for_each(|_| primary.commit());
        primary.wait_durable();
    });
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, ArchiveError::HeldTooMuch { bytes, bytes_max: 10_000 } if bytes > 10_000),
        "{refused}"
    );
    store.set_slot_bytes_max(None);
    backup(&store, &archive, &mut |_| primary.commit()).unwrap();
    primary.wait_durable();
    backup(&store, &archive, &mut |_| {}).unwrap();
    check_restore(&archive, Target::Latest, None, primary.last());
}

/// Commits wait for a replica that is away.
fn nobody() -> SynchronousReplicas {
    SynchronousReplicas {
        count: 1,
        choice: ReplicaChoice::Any,
        names: vec!["nobody".to_owned()],
        primary: String::new(),
        before: Vec::new(),
    }
}

/// Fails, without an end, if whoever sends is not asked meanwhile: the backup of an archiver waited for as long as a replica was away, and all log
/// that came was held, however much of it may be kept.
#[test]
fn what_is_not_published_is_waited_for_as_long_as_there_is_room_for_it() {
    let archive = archive_in(&Faulty::in_memory(6, 0));
    let mut primary = Primary::new(80);
    primary.reopen_to_wait();
    (0..5).for_each(|_| primary.commit());
    primary.store().require_replicas(Some(nobody())).unwrap();
    primary.commit_unacknowledged();
    let store = primary.store();
    archive.claim(store.terms().database_id()).unwrap();
    let feed = store.base_copy().unwrap().into_feed().unwrap();
    let mut sender = LogSender::new(archive.clone(), store, feed, 1 << 20);
    let (end, _) = store.log_position().unwrap();
    let mut looks = 0;
    let refused = sender.send_to(end, &mut |from| {
        looks += 1;
        let bytes = end.get() - from.get();
        if looks < 3 { Ok(()) } else { Err(ArchiveError::HeldTooMuch { bytes, bytes_max: 0 }) }
    });
    let refused = refused.unwrap_err();
    assert!(matches!(refused, ArchiveError::HeldTooMuch { bytes, .. } if bytes > 0), "{refused}");
    assert!(sender.sent().end > Lsn::START, "what is published was sent");
}

/// Fails if only each request has a bound: an archiver that was far behind had sent all of it before its server ended.
#[test]
fn what_waits_in_the_end_is_sent_up_to_a_moment_and_no_longer() {
    let archive = archive_in(&Faulty::in_memory(7, 0));
    let mut primary = Primary::new(81);
    (0..20).for_each(|_| primary.commit());
    primary.wait_durable();
    let store = primary.store();
    archive.claim(store.terms().database_id()).unwrap();
    let (_, durable) = store.log_position().unwrap();
    let sent_until = |moment: Instant| {
        let feed = store.base_copy().unwrap().into_feed().unwrap();
        let mut sender = LogSender::new(archive.until_moment(moment), store, feed, 100);
        let outcome = sender.send_published(durable);
        (outcome, sender.sent().end)
    };
    let (late, sent) = sent_until(Instant::now());
    assert!(matches!(late, Err(ArchiveError::Stopping)) && sent < durable, "{late:?}");
    let (in_time, sent) = sent_until(Instant::now() + Duration::from_secs(600));
    assert!(in_time.is_ok() && sent >= durable, "{in_time:?}");
}

/// A replica of the archive showed what the database did not. Seen to fail if `published_copy` makes a checkpoint, or takes one, whatever it has.
#[test]
fn a_backup_has_nothing_that_its_database_does_not_show() {
    let archive = archive_in(&Faulty::in_memory(5, 0));
    let archive =
        archive.with_patience(Patience { attempt_max: Duration::from_millis(200), ..archive.patience() });
    let mut primary = Primary::new(79);
    primary.reopen_to_wait();
    (0..10).for_each(|_| primary.commit());
    primary.store().checkpoint().unwrap();
    (0..5).for_each(|_| primary.commit());
    primary.store().require_replicas(Some(nobody())).unwrap();
    let waiting = primary.commit_unacknowledged();
    assert!(primary.store().world().version() < waiting);
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let (report, _) = restored(&archive, Target::Latest, None);
    assert!(report.version >= primary.last().version && report.version < waiting, "{report:?}");
    // Of the log, and behind the last backup of the checkpoint. Seen to fail without either.
    let wait_for = |report: RestoreReport| report.synchronous_replicas.map(|required| required.names);
    assert_eq!(wait_for(report), Some(vec!["nobody".to_owned()]));
    let mut copy = Copy::of(&archive, 4);
    while copy.take().unwrap() {}
    assert!(copy.store().world().version() < waiting);
    // Now the last checkpoint has it.
    primary.store().checkpoint().unwrap();
    let refused = backup(primary.store(), &archive, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, ArchiveError::Unpublished), "{refused}");
    assert_eq!(check(&archive).unwrap().backups.len(), 1);
    let session = primary.store().replica_session("nobody");
    let (end, _) = primary.store().log_position().unwrap();
    session.note(|progress| (progress.written, progress.flushed) = (end, end));
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let (report, _) = restored(&archive, Target::Latest, None);
    assert!(report.version >= waiting, "{report:?}");
    assert_eq!(wait_for(report), Some(vec!["nobody".to_owned()]));
    primary.store().require_replicas(None).unwrap();
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    assert_eq!(wait_for(restored(&archive, Target::Latest, None).0), None);
}

/// Behind a crash a primary has commits that perhaps no replica has, and lets in superusers alone. An archive that was begun then had them, so
/// that a replica of it showed what a failover could lose. Seen to fail if what the newest world has counts as published.
#[test]
fn an_archiver_makes_no_backup_before_it_is_known_what_may_be_shown() {
    let storage = Faulty::in_memory(6, 0);
    let mut primary = Primary::new(81);
    primary.reopen_to_wait();
    (0..5).for_each(|_| primary.commit());
    let nobody = SynchronousReplicas {
        count: 1,
        choice: ReplicaChoice::Any,
        names: vec!["nobody".to_owned()],
        primary: String::new(),
        before: Vec::new(),
    };
    primary.store().require_replicas(Some(nobody)).unwrap();
    let waiting = primary.commit_unacknowledged();
    primary.reopen_to_wait();
    assert!(primary.store().world().version() >= waiting && !primary.store().has_confirmed());
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
    std::thread::sleep(options().poll * 50);
    let status = archiver.status();
    assert!(status.is_running && status.last_backup.is_none() && status.archived.is_none(), "{status:?}");
    let session = primary.store().replica_session("nobody");
    let (end, _) = primary.store().log_position().unwrap();
    session.note(|progress| (progress.written, progress.flushed) = (end, end));
    assert!(primary.store().has_confirmed());
    wait(&archiver, |status| status.last_backup.is_some());
    drop(archiver);
    let (report, _) = restored(&archive_in(&storage), Target::Latest, None);
    assert!(report.version >= waiting, "{report:?}");
}

/// They are backups of the primary's history, whose term may end between them.
#[test]
fn backups_that_a_replica_makes_come_back() {
    let of_primary = archive_in(&Faulty::in_memory(2, 0));
    let archive = archive_in(&Faulty::in_memory(3, 10));
    let mut primary = Primary::new(78);
    primary.add_table(0);
    (0..20).for_each(|_| primary.commit());
    primary.wait_durable();
    backup(primary.store(), &of_primary, &mut |_| {}).unwrap();
    let mut copy = Copy::of(&of_primary, 2);
    for round in 0..6 {
        primary.load();
        (0..10).for_each(|_| primary.commit());
        if round % 2 == 1 {
            primary.reopen();
            (0..5).for_each(|_| primary.commit());
        }
        copy.take_from(&primary);
        if round == 3 {
            copy.restart();
            copy.take_from(&primary);
        }
        let store = copy.store().clone();
        backup(&store, &archive, &mut |_| {}).unwrap();
        check_restore(&archive, Target::Latest, None, primary.last());
        // Log comes, and perhaps a term, while the replica's checkpoint is sent.
        let moment = primary.last().clone();
        backup(&store, &archive, &mut |_| {
            primary.commit();
            copy.take_from(&primary);
        })
        .unwrap();
        check_restore(&archive, Target::Version(moment.version), None, &moment);
    }
    primary.wait_durable();
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    check_restore(&archive, Target::Latest, None, primary.last());
    assert_eq!(check(&archive).unwrap().problems, vec![]);
}
