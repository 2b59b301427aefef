// SPDX-License-Identifier: Apache-2.0
//! A commit that is in the log and neither published nor given up when commits stop: no safe snapshot has it, here or on a
//! replica, since a failover or a crash may lose it.
//!
//! It used to end its registration. So the boundary of safe snapshots came to its first out-edge, whose safe snapshot it
//! belongs to: a former primary, and a replica that still followed it, showed what the new primary never had.

use super::synchronous::Set;
use super::*;
use crate::catalog::TableDef;
use crate::files::Fault;
use crate::replicas::{ReplicaChoice, SynchronousReplicas};
use crate::serializable::DeferralError;
use crate::transaction::Transaction;
use crate::trap::Step;
use coeval_txn::Version;
use coeval_txn::ssi::{Deferral, SessionFloor};
use std::sync::atomic::AtomicBool;

/// What the late commit changes.
const LATE: i32 = 2;

fn begin(files: &SimulatedFiles) -> (Store, TableDef) {
    let store = open_primary(files);
    let def = table(&store, "t");
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    [1, LATE].into_iter().for_each(|id| drop(tx.insert(def.id, row(&def, id, 0)).unwrap()));
    tx.commit().unwrap();
    (store, def)
}

/// A transaction that has read a row and changed another one; then the row that it read was changed, by a commit of this
/// version. It has an out-edge, and belongs to the safe snapshot of that version once it has committed.
fn late(store: &Store, def: &TableDef) -> (Transaction, Version) {
    let mut late = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    assert!(late.get(def.id, &key(1)).unwrap().is_some());
    late.put(def.id, row(def, LATE, 1)).unwrap();
    let mut first = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    first.put(def.id, row(def, 1, 1)).unwrap();
    (late, first.commit_applied().unwrap().version)
}

/// What declared readers at SERIALIZABLE find of a row.
fn safe_value(store: &Store, def: &TableDef, id: i32) -> i64 {
    let reader = store.begin_safe(&SessionFloor::default()).expect("there is a safe snapshot");
    let found = reader.get(def.id, &key(id)).unwrap().unwrap();
    found.get(1).as_i64().unwrap()
}

/// A primary whose commits wait for a replica, which has taken the late commit and not said so.
struct Failover {
    primary: Store,
    store: Store,
    follower: Follower,
    feed: LogFeed,
    def: TableDef,
    /// The version of the late commit's first out-edge, which is published.
    first: Version,
}

impl Failover {
    fn begin(seed: u64) -> (Self, impl FnOnce(&Self)) {
        let (primary, def) = begin(&SimulatedFiles::new(seed));
        let files = SimulatedFiles::new(seed + 1);
        primary.checkpoint().unwrap();
        copy(&primary, &files);
        let (store, follower) = open_follower(&files);
        let feed = feed_of(&primary, &follower).unwrap();
        let (count, choice, names) = (1, ReplicaChoice::Any, vec!["*".to_owned()]);
        let (own, before) = (String::new(), Vec::new());
        let required = SynchronousReplicas { count, choice, names, primary: own, before };
        primary.require_replicas(Some(required)).unwrap();
        let session = primary.replica_session("copy");
        let (late, first) = late(&primary, &def);
        let mut all = Self { primary, store, follower, feed, def, first };
        all.follow();
        let flushed = all.follower.sync().unwrap();
        session.note(|progress| progress.flushed = flushed);
        assert_eq!(all.primary.world().version(), first, "the replica has it durably");
        let committed = late.commit_applied().unwrap();
        assert!(committed.version > first);
        all.follow();
        all.assert_is_not_shown("the primary has not published it");
        let acknowledge = move |all: &Self| {
            let flushed = all.follower.sync().unwrap();
            session.note(|progress| progress.flushed = flushed);
        };
        (all, acknowledge)
    }

    /// All that the primary gives.
    fn follow(&mut self) {
        let log = self.primary.log_position().unwrap();
        self.primary.shared.pipeline.log().unwrap().sync(log.0).unwrap();
        self.primary.shared.pipeline.publishing.go_on(&self.primary.shared);
        take_all(&mut self.feed, &mut self.follower);
    }

    fn values(&self) -> [i64; 2] {
        [&self.primary, &self.store].map(|store| safe_value(store, &self.def, LATE))
    }

    fn assert_is_not_shown(&self, why: &str) {
        assert_eq!(self.values(), [0, 0], "on the primary and the replica: {why}");
    }
}

#[test]
fn a_superseded_primary_and_its_replica_show_no_commit_that_waited_for_replicas() {
    let (mut all, _acknowledge) = Failover::begin(11);
    all.primary.promise(Promise::asked_for(Timeline::new(2))).unwrap();
    all.follow();
    assert_eq!(all.primary.world().version(), all.first, "it takes no commits any more");
    all.assert_is_not_shown("another one may be promoted that does not have it");
}

/// To break it: have `stop_if_superseded` do nothing. A commit that waits for no replica was acknowledged then, and lost with the timeline.
#[test]
fn a_superseded_primary_takes_no_commit_and_none_when_it_is_opened_again() {
    let files = SimulatedFiles::new(21);
    let (store, def) = begin(&files);
    let change = |store: &Store, value: i32| -> Result<(), StoreError> {
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.put(def.id, row(&def, 1, value))?;
        tx.commit().map(drop)
    };
    change(&store, 1).unwrap();
    let shown = store.world().version();
    store.promise(Promise::asked_for(Timeline::new(2))).unwrap();
    let assert_takes_none = |store: &Store| {
        let refused = change(store, 2);
        let is_superseded = matches!(&refused, Err(StoreError::Stopped(reason)) if reason.is_superseded());
        assert!(is_superseded, "{refused:?}");
        assert_eq!(store.world().version(), shown);
    };
    assert_takes_none(&store);
    drop(store);
    assert_takes_none(&open_primary(&files));
}

#[test]
fn one_that_replicas_have_is_shown_everywhere() {
    let (mut all, acknowledge) = Failover::begin(13);
    acknowledge(&all);
    all.follow();
    assert_eq!(all.values(), [1, 1]);
}

#[test]
fn a_deferred_reader_is_told_that_nothing_later_becomes_safe() {
    let (all, _acknowledge) = Failover::begin(15);
    let begin = || {
        let interrupt = Set(AtomicBool::new(true));
        all.primary.begin_deferred(Deferral::until(all.first), Some(&interrupt)).map(drop)
    };
    assert!(matches!(begin(), Err(DeferralError::Interrupted)), "it would wait");
    all.primary.promise(Promise::asked_for(Timeline::new(2))).unwrap();
    let outcome = begin();
    assert!(matches!(outcome, Err(DeferralError::Stopped(StoreError::Stopped(_)))), "{outcome:?}");
}

#[test]
fn a_commit_that_was_not_synced_is_not_shown_when_the_log_fails() {
    for calls in 0..12 {
        let files = SimulatedFiles::new(17 + calls);
        let (store, def) = begin(&files);
        let (late, first) = late(&store, &def);
        store.wait_published(first).unwrap();
        files.fail_from(calls, Fault::Writing);
        let outcome = late.commit_applied().and_then(|committed| store.wait_published(committed.version));
        let shown = i64::from(outcome.is_ok());
        assert_eq!(safe_value(&store, &def, LATE), shown, "after {calls} calls: {outcome:?}");

        assert!(calls > 0 || outcome.is_err(), "no call failed");
    }
}

#[test]
fn a_commit_that_a_panic_has_left_is_not_shown() {
    for step in [Step::Admit, Step::Append, Step::Install, Step::Prune] {
        let (store, def) = begin(&SimulatedFiles::new(19));
        let (late, first) = late(&store, &def);
        store.wait_published(first).unwrap();
        store.shared.trap.arm(step);
        assert!(late.commit_applied().is_err(), "{step:?}");
        assert_eq!(safe_value(&store, &def, LATE), 0, "{step:?}");
    }
}
