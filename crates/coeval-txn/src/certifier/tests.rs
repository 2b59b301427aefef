// SPDX-License-Identifier: Apache-2.0
//! Tests of certification: single rules here, all small histories in [`schedules`], constraints over a toy
//! database in [`constraints`].

use super::*;

mod bounds;
mod constraints;
mod faulty;
mod history;
mod schedules;

fn at(version: u64, position: u32) -> CommitOrder {
    CommitOrder { version: Version::new(version), position }
}

/// A certifier that has admitted transaction 1 in version 1, with one access to key `"a"`.
fn with_one_commit(access: Access) -> Certifier<&'static str> {
    let mut certifier = Certifier::new();
    certifier.admit(at(1, 0), TransactionId::new(1), [("a", access)]);
    certifier
}

#[test]
fn a_conflict_says_who_did_what_where() {
    let mut certifier = with_one_commit(Access::Identity);
    let mine = [("b", Access::Update), ("a", Access::Reference)];
    let conflict = certifier.certify(Version::ZERO, mine).unwrap_err();
    let expected = Conflict {
        key: "a",
        mine: Access::Reference,
        other: Access::Identity,
        other_version: Version::new(1),
        other_transaction: TransactionId::new(1),
        precision: Precision::Key,
    };
    assert_eq!(conflict, expected);
    let message = conflict.to_string();
    assert!(message.contains("transaction 1, committed in version 1"), "{message}");
    assert!(message.contains("Identity there, Reference here"), "{message}");
}

#[test]
fn every_pair_of_accesses_certifies_as_the_rules_say() {
    for committed in Access::ALL {
        for mine in Access::ALL {
            let mut certifier = with_one_commit(committed);
            let verdict = certifier.certify(Version::ZERO, [("a", mine)]);
            assert_eq!(verdict.is_err(), mine.conflicts_with(committed), "{committed:?}, {mine:?}");
        }
    }
}

#[test]
fn a_snapshot_at_the_version_of_a_commit_sees_it() {
    let mut certifier = with_one_commit(Access::Identity);
    assert!(certifier.certify(Version::new(1), [("a", Access::Identity)]).is_ok());
}

#[test]
fn an_earlier_member_of_the_batch_conflicts_like_a_commit() {
    let mut certifier = with_one_commit(Access::Update);
    let begin = Version::new(1);
    assert!(certifier.certify(begin, [("b", Access::Update)]).is_ok());
    certifier.admit(at(2, 0), TransactionId::new(2), [("b", Access::Update)]);
    let conflict = certifier.certify(begin, [("b", Access::Update)]).unwrap_err();
    assert_eq!(conflict.other_transaction, TransactionId::new(2));
    assert_eq!(conflict.other_version, Version::new(2));
}

#[test]
fn an_old_conflict_is_found_behind_a_younger_access_of_another_kind() {
    let mut certifier = with_one_commit(Access::Identity);
    certifier.admit(at(2, 0), TransactionId::new(2), [("a", Access::Reference)]);
    certifier.admit(at(3, 0), TransactionId::new(3), [("a", Access::Reference)]);
    let conflict = certifier.certify(Version::ZERO, [("a", Access::Reference)]).unwrap_err();
    assert_eq!(conflict.other_transaction, TransactionId::new(1));
    assert!(certifier.certify(Version::new(1), [("a", Access::Reference)]).is_ok());
}

#[test]
fn a_transaction_does_not_conflict_with_itself() {
    let mut certifier = Certifier::<&str>::new();
    let mine = [("a", Access::Identity), ("a", Access::Reference), ("a", Access::Update)];
    assert!(certifier.certify(Version::ZERO, mine).is_ok());
    certifier.admit(at(1, 0), TransactionId::new(1), mine);
    assert_eq!(certifier.len(), 1);
    for access in Access::ALL {
        assert!(certifier.certify(Version::ZERO, [("a", access)]).is_err(), "{access:?}");
    }
}

#[test]
fn a_footprint_may_hold_keys_or_references_to_keys() {
    let mut certifier = Certifier::<String>::new();
    let key = String::from("a");
    certifier.admit(at(1, 0), TransactionId::new(1), [(&key, Access::Update)]);
    assert!(certifier.certify(Version::ZERO, [(key.clone(), Access::Update)]).is_err());
    assert!(certifier.certify(Version::ZERO, [(&key, Access::Update)]).is_err());
}

#[test]
fn refusing_a_transaction_leaves_no_trace() {
    let mut certifier = with_one_commit(Access::Update);
    assert!(certifier.certify(Version::ZERO, [("b", Access::Update), ("a", Access::Update)]).is_err());
    assert!(certifier.certify(Version::ZERO, [("b", Access::Update)]).is_ok());
    assert_eq!(certifier.len(), 1);
}

#[test]
fn write_skew_between_two_rows_is_allowed() {
    // Each reads both rows and writes the other one. SI has no rule against it; SERIALIZABLE will.
    let mut certifier = Certifier::<&str>::new();
    assert!(certifier.certify(Version::ZERO, [("a", Access::Update)]).is_ok());
    certifier.admit(at(1, 0), TransactionId::new(1), [("a", Access::Update)]);
    assert!(certifier.certify(Version::ZERO, [("b", Access::Update)]).is_ok());
}

#[test]
fn a_changed_table_definition_refuses_the_writers_of_that_table_alone() {
    let mut certifier = Certifier::<&str>::new();
    certifier.admit(at(1, 0), TransactionId::new(1), [("definition of t", Access::Identity)]);
    let writes_t = [("definition of t", Access::Reference), ("row of t", Access::Update)];
    let writes_u = [("definition of u", Access::Reference), ("row of u", Access::Update)];
    assert!(certifier.certify(Version::ZERO, writes_t).is_err());
    assert!(certifier.certify(Version::ZERO, writes_u).is_ok());
}

#[test]
fn two_owners_of_a_unique_value_conflict_although_their_rows_differ() {
    let mut certifier = Certifier::<&str>::new();
    let owner = |row| [(row, Access::Identity), ("unique index: value 7", Access::Identity)];
    certifier.admit(at(1, 0), TransactionId::new(1), owner("row 1"));
    let conflict = certifier.certify(Version::ZERO, owner("row 2")).unwrap_err();
    assert_eq!(conflict.key, "unique index: value 7");
}

#[test]
fn at_read_committed_each_statement_certifies_from_its_own_snapshot() {
    let mut certifier = with_one_commit(Access::Update);
    // The first statement ran before the commit and touched another key, the second one after it.
    assert!(certifier.certify(Version::ZERO, [("b", Access::Update)]).is_ok());
    assert!(certifier.certify(Version::new(1), [("a", Access::Update)]).is_ok());
    certifier.admit(at(2, 0), TransactionId::new(2), [("a", Access::Update), ("b", Access::Update)]);
    assert!(certifier.certify(Version::new(1), [("b", Access::Update)]).is_err());
}

#[test]
fn pruning_keeps_what_the_oldest_snapshot_does_not_see() {
    let mut certifier = Certifier::new();
    for version in 1..=10 {
        certifier.admit(at(version, 0), TransactionId::new(version), [(version, Access::Update)]);
    }
    certifier.prune(Version::new(4));
    assert_eq!(certifier.len(), 6);
    assert!(certifier.certify(Version::new(4), [(5, Access::Update)]).is_err());
    assert!(certifier.certify(Version::new(4), [(4, Access::Update)]).is_ok());
    certifier.prune(Version::new(2));
    assert_eq!(certifier.len(), 6);
    certifier.prune(Version::new(10));
    assert!(certifier.is_empty());
}

#[test]
fn a_key_that_every_commit_touches_is_remembered_once() {
    let mut certifier = Certifier::<&str>::new();
    for version in 1..=1000 {
        let footprint = [("definition", Access::Reference)];
        certifier.admit(at(version, 0), TransactionId::new(version), footprint);
    }
    assert_eq!(certifier.len(), 1);
}

#[test]
fn pruning_is_bounded_per_call_and_still_outruns_admission() {
    let mut certifier = Certifier::new();
    let mut version = 0;
    let mut commit = |certifier: &mut Certifier<u64>, keys: std::ops::Range<u64>| {
        version += 1;
        let footprint = keys.map(|key| (key, Access::Update));
        certifier.admit(at(version, 0), TransactionId::new(version), footprint);
        Version::new(version)
    };
    let pile = PRUNE_STEP_MIN as u64 * 10;
    let newest = commit(&mut certifier, 0..pile);
    // While an old snapshot is held nothing is forgotten; the call uses up the allowance of the admission.
    certifier.prune(Version::ZERO);
    assert_eq!(certifier.len() as u64, pile);
    certifier.prune(newest);
    assert_eq!(certifier.len() as u64, pile - PRUNE_STEP_MIN as u64);
    // Keys left over from pruned versions refuse nobody.
    assert!(certifier.certify(newest, [(pile - 1, Access::Identity)]).is_ok());
    let mut calls = 0;
    while !certifier.is_empty() {
        let next_key = pile * 2 + calls * 100;
        let newest = commit(&mut certifier, next_key..next_key + 100);
        certifier.prune(newest);
        calls += 1;
        assert!(calls < 20, "{} keys left", certifier.len());
    }
}

#[test]
#[should_panic(expected = "snapshot 1 is older than the pruned version 2")]
fn a_snapshot_that_was_not_registered_is_noticed() {
    let mut certifier = with_one_commit(Access::Update);
    certifier.admit(at(2, 0), TransactionId::new(2), [("b", Access::Update)]);
    certifier.prune(Version::new(2));
    let _ = certifier.certify(Version::new(1), [("b", Access::Update)]);
}

#[test]
#[should_panic(expected = "commit 1.0 after 1.0")]
fn admitting_out_of_order_is_noticed() {
    let mut certifier = with_one_commit(Access::Update);
    certifier.admit(at(1, 0), TransactionId::new(2), [("b", Access::Update)]);
}

#[test]
#[should_panic(expected = "version 1 has a snapshot already")]
fn a_snapshot_of_a_batch_still_being_formed_is_noticed() {
    let mut certifier = with_one_commit(Access::Update);
    assert!(certifier.certify(Version::new(1), [("b", Access::Update)]).is_ok());
    certifier.admit(at(1, 1), TransactionId::new(2), [("b", Access::Update)]);
}
