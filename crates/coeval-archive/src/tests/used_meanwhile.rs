// SPDX-License-Identifier: Apache-2.0
//! Backups of a database that is used meanwhile: how much of its log they hold, and those that a replica makes.

use super::faulty::Faulty;
use super::following::Copy;
use super::primary::{Primary, archive_in, check_restore};
use crate::backup::backup;
use crate::check::check;
use crate::error::ArchiveError;
use crate::restore::Target;

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
