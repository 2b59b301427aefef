// SPDX-License-Identifier: Apache-2.0
//! Commits that wait for a replica: what is seen where, and when.

use super::*;
use crate::log::Lsn;
use crate::replicas::{ReplicaChoice, SynchronousCommit, SynchronousReplicas};
use coeval_txn::{Interrupt, Version};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

pub(super) struct Set(pub(super) AtomicBool);

impl Interrupt for Set {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn notify(&self, _: Waker) {}

    fn wait_ended(&self) {}
}

/// A primary that waits for any one replica, and one replica.
struct Synchronous {
    primary_files: SimulatedFiles,
    files: SimulatedFiles,
    primary: Store,
    store: Store,
    follower: Follower,
    feed: LogFeed,
    next: i32,
}

impl Synchronous {
    fn begin(seed: u64) -> Self {
        let (primary_files, files) = (SimulatedFiles::new(seed), SimulatedFiles::new(seed + 1));
        let primary = open_primary(&primary_files);
        let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.change_catalog(CatalogChange::PutTable(Box::new(table(&primary, "t")))).unwrap();
        tx.commit().unwrap();
        primary.checkpoint().unwrap();
        copy(&primary, &files);
        let (store, mut follower) = open_follower(&files);
        let mut feed = feed_of(&primary, &follower).unwrap();
        take_all(&mut feed, &mut follower);
        primary
            .require_replicas(Some(SynchronousReplicas {
                count: 1,
                choice: ReplicaChoice::Any,
                names: vec!["*".to_owned()],
                primary: String::new(),
                before: Vec::new(),
            }))
            .unwrap();
        Self { primary_files, files, primary, store, follower, feed, next: 0 }
    }

    fn apply(&mut self, level: SynchronousCommit) -> Version {
        let def = self.primary.world().tables().next().unwrap().def().clone();
        let mut tx = self.primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.insert(def.id, row(&def, self.next, 0)).unwrap();
        self.next += 1;
        // Without the thread that syncs what waits for nobody.
        tx.set_synchronous_commit(level);
        tx.commit_applied().unwrap().version
    }

    /// A commit that is published before it is durable, and the word of it, which the follower has before its record.
    fn publish_ahead(&mut self) -> Version {
        self.follow();
        // There is somebody who syncs it, who has not come to it yet.
        self.primary.shared.pipeline.publishing.begin_syncer();
        let version = self.apply(SynchronousCommit::Off);
        assert_eq!(self.sees(version), (true, false));
        let fed = self.feed.next_piece().unwrap();
        assert!(matches!(fed, Some(Fed::Published(told)) if told == version), "{fed:?}");
        self.follower.note_published(version);
        version
    }

    /// The follower's process ends in order and begins anew; its primary is not there. Whether it knows that all it has is published.
    fn confirmed_when_reopened(self) -> bool {
        let Self { files, store, follower, feed, .. } = self;
        drop((feed, follower, store));
        let (store, _follower) = open_follower(&files);
        store.has_confirmed()
    }

    /// Takes all that the feed has within a while.
    fn follow(&mut self) {
        take_all(&mut self.feed, &mut self.follower);
    }

    fn sees(&self, version: Version) -> (bool, bool) {
        (self.primary.world().version() >= version, self.store.world().version() >= version)
    }

    fn is_acknowledged(&self, version: Version) -> bool {
        let Some(publication) = self.primary.publication(version) else { return true };
        let mut publication = pin!(publication);
        publication.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// The version is durable on the primary.
    fn sync(&self) {
        let log = self.primary.log_position().unwrap();
        self.primary.shared.pipeline.log().unwrap().sync(log.0).unwrap();
        self.primary.shared.pipeline.publishing.go_on(&self.primary.shared);
    }
}

#[test]
fn a_commit_is_seen_nowhere_before_a_replica_has_it_durably() {
    let mut pair = Synchronous::begin(1);
    let session = pair.primary.replica_session("copy");
    let version = pair.apply(SynchronousCommit::On);
    pair.sync();
    pair.follow();
    assert_eq!(pair.sees(version), (false, false), "it is durable here, and taken there");
    assert!(pair.follower.position() > pair.follower.shown_position());
    assert!(!pair.is_acknowledged(version));
    let interrupt = Set(AtomicBool::new(true));
    let interrupted = pair.primary.wait_acknowledged(version, Some(&interrupt));
    assert!(matches!(interrupted, Err(StoreError::NotReplicated)), "{interrupted:?}");
    let flushed = pair.follower.sync().unwrap();
    session.note(|progress| progress.written = flushed);
    assert_eq!(pair.sees(version), (false, false), "written is not durable");
    session.note(|progress| progress.flushed = flushed);
    assert_eq!(pair.sees(version), (true, false));
    assert!(pair.is_acknowledged(version));
    pair.follow();
    assert_eq!(pair.sees(version), (true, true));
    assert_eq!(pair.follower.position(), pair.follower.shown_position());
}

#[test]
fn what_waits_for_nobody_stays_behind_what_does() {
    let mut pair = Synchronous::begin(3);
    let first = pair.apply(SynchronousCommit::Local);
    pair.primary.wait_published(first).unwrap();
    let session = pair.primary.replica_session("copy");
    let written = pair.apply(SynchronousCommit::RemoteWrite);
    let local = pair.apply(SynchronousCommit::Local);
    pair.sync();
    pair.follow();
    assert_eq!(pair.sees(local), (false, false));
    assert_eq!(pair.sees(first), (true, true));
    let position = pair.follower.position();
    session.note(|progress| progress.written = position);
    assert_eq!(pair.sees(local), (true, false), "version {written} has what it asks for");
    drop(session);
    // Nobody is there any more: the next one waits, until nobody is asked for.
    let next = pair.apply(SynchronousCommit::On);
    pair.sync();
    assert!(!pair.is_acknowledged(next));
    // A checkpoint does not.
    pair.primary.checkpoint().unwrap();
    pair.primary.require_replicas(None).unwrap();
    assert!(pair.is_acknowledged(next) && pair.sees(next).0);
}

#[test]
fn a_commit_that_is_to_be_shown_there_is_published_before_it_is_acknowledged() {
    let mut pair = Synchronous::begin(5);
    let session = pair.primary.replica_session("copy");
    let version = pair.apply(SynchronousCommit::RemoteApply);
    let behind = pair.apply(SynchronousCommit::On);
    pair.sync();
    pair.follow();
    let flushed = pair.follower.sync().unwrap();
    let shown = pair.follower.shown_position();
    session.note(|progress| (progress.flushed, progress.applied) = (flushed, shown));
    assert_eq!(pair.sees(version), (true, false));
    assert!(!pair.is_acknowledged(version), "no reader there has seen it");
    assert!(pair.is_acknowledged(behind), "one behind it asks for less");
    pair.follow();
    let shown = pair.follower.shown_position();
    assert_eq!((shown, pair.sees(version)), (flushed, (true, true)));
    session.note(|progress| progress.applied = shown);
    assert!(pair.is_acknowledged(version));
    // Who waits with a thread is woken too.
    let version = pair.apply(SynchronousCommit::RemoteApply);
    let primary = pair.primary.clone();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || primary.wait_acknowledged(version, None));
        pair.sync();
        pair.follow();
        let flushed = pair.follower.sync().unwrap();
        session.note(|progress| progress.flushed = flushed);
        pair.follow();
        let shown = pair.follower.shown_position();
        session.note(|progress| progress.applied = shown);
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn an_archive_is_given_nothing_that_is_not_published() {
    let mut pair = Synchronous::begin(7);
    let position = pair.follower.position();
    let term = pair.follower.terms().last().map(|term| term.id);
    let mut feed = pair.primary.log_feed(term, position).unwrap();
    let session = pair.primary.replica_session("copy");
    let version = pair.apply(SynchronousCommit::On);
    pair.sync();
    let mut given = Vec::new();
    let mut all = |feed: &mut LogFeed| {
        while let Some(fed) = feed.next_piece().unwrap() {
            if let Fed::Records(records) = fed {
                given.extend(records.into_iter().map(|record| record.end));
            }
        }
        given.last().copied().unwrap_or(Lsn::START)
    };
    assert!(all(&mut feed) < pair.primary.log_position().unwrap().0);
    pair.follow();
    let flushed = pair.follower.sync().unwrap();
    session.note(|progress| progress.flushed = flushed);
    assert_eq!(pair.sees(version), (true, false));
    assert!(all(&mut feed) >= flushed);
    assert!(feed.position() >= flushed);
}

/// A replica that is opened again shows all that it has.
#[test]
fn what_was_not_shown_is_there_after_a_promotion() {
    let mut pair = Synchronous::begin(9);
    let version = pair.apply(SynchronousCommit::On);
    pair.sync();
    pair.follow();
    assert_eq!(pair.sees(version), (false, false));
    let Synchronous { files, store, follower, .. } = pair;
    // Closing it with what is not shown waits for nobody.
    drop((store, follower));
    promote(&files, Path::new(COPY), Promise::asked_for(Timeline::new(2))).unwrap();
    let dir = Path::new(COPY);
    let promoted = Store::open_tuned(Arc::new(files), dir, options(), log_options(), sizes()).unwrap();
    assert_eq!(promoted.world().version(), version);
    assert_eq!(promoted.world().tables().next().unwrap().row_count(), 1);
}

/// A replica that has all that the log had when a primary was opened may have got it from the one before, and another machine of a
/// later term, with a shorter log, may be promoted in its place. One that has the beginning of this term has it for good.
#[test]
fn what_predecessors_wrote_counts_with_the_beginning_of_the_own_term() {
    let files = SimulatedFiles::new(20);
    let primary = open_primary(&files);
    let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(table(&primary, "t")))).unwrap();
    tx.commit().unwrap();
    let any = SynchronousReplicas {
        count: 1,
        choice: ReplicaChoice::Any,
        names: vec!["*".to_owned()],
        primary: String::new(),
        before: Vec::new(),
    };
    primary.require_replicas(Some(any)).unwrap();
    let (before, _) = primary.log_position().unwrap();
    drop(primary);

    let primary = open_primary(&files);
    let (end, _) = primary.log_position().unwrap();
    assert!(end > before, "the term begins in the log, though nobody has written");
    let session = primary.replica_session("copy");
    session
        .note(|progress| (progress.written, progress.flushed, progress.applied) = (before, before, before));
    assert!(!primary.has_confirmed());
    session.note(|progress| progress.flushed = end);
    assert!(primary.has_confirmed());
}

/// Fails without the lists before in what is written down, and if they are never taken out of it.
#[test]
fn a_list_is_written_down_with_the_one_before_until_enough_know_of_it() {
    let pair = Synchronous::begin(11);
    let (names, primary, before) = (vec!["copy".to_owned()], String::new(), Vec::new());
    let list = SynchronousReplicas { count: 1, choice: ReplicaChoice::Any, names, primary, before };
    pair.primary.require_replicas(Some(list.clone())).unwrap();
    let recorded = || pair.primary.recorded_replicas().unwrap();
    assert_eq!(recorded().before.iter().map(|before| before.names.concat()).collect::<String>(), "*");
    let session = pair.primary.replica_session("copy");
    let (end, _) = pair.primary.log_position().unwrap();
    session.note(|progress| (progress.written, progress.flushed, progress.applied) = (end, end, end));
    assert_eq!(recorded(), list);
}

/// Fails if an empty list leaves those before it: machines that are gone for good would be waited for.
#[test]
fn an_empty_list_ends_the_waits_for_all_lists_before_it() {
    let mut pair = Synchronous::begin(13);
    let list = |name: &str| {
        let (names, primary, before) = (vec![name.to_owned()], String::new(), Vec::new());
        SynchronousReplicas { count: 1, choice: ReplicaChoice::Any, names, primary, before }
    };
    for gone in ["gone", "never there"] {
        pair.primary.require_replicas(Some(list(gone))).unwrap();
    }
    let version = pair.apply(SynchronousCommit::On);
    pair.sync();
    assert!(!pair.is_acknowledged(version));
    pair.primary.require_replicas(None).unwrap();
    assert!(pair.is_acknowledged(version));
    pair.primary.require_replicas(Some(list("copy"))).unwrap();
    assert_eq!(pair.primary.recorded_replicas(), Some(list("copy")), "it follows none");
}

/// The next primary gives the number of a commit that was lost to another one. Fails if a word holds beyond the connection that it came
/// over, and, behind the restart, if it is written down beyond what the log has.
#[test]
fn what_a_former_primary_has_published_and_lost_says_nothing_of_the_next_ones_commits() {
    let mut pair = Synchronous::begin(15);
    pair.follow();
    let without = pair.primary_files.copy();
    let lost = pair.publish_ahead();
    pair.primary = open_primary(&without);
    let timeline = pair.primary.timeline();
    pair.follower.begin_following(timeline).unwrap();
    pair.feed = feed_of(&pair.primary, &pair.follower).unwrap();
    let version = pair.apply(SynchronousCommit::On);
    assert!(version <= lost, "the number comes again");
    pair.sync();
    pair.follow();
    assert!(pair.follower.position() > pair.follower.shown_position(), "it is taken");
    assert_eq!(pair.sees(version), (false, false), "no replica has said that it has it");
    assert!(!pair.confirmed_when_reopened());
}

/// A word that has come before its record counts once that is there, and is known behind a restart. Fails if it is noted for what the
/// log has when it comes, and no more.
#[test]
fn what_was_published_before_its_record_came_is_known_to_be_when_it_has_come() {
    let mut pair = Synchronous::begin(17);
    let version = pair.publish_ahead();
    pair.sync();
    pair.follow();
    assert_eq!(pair.sees(version), (true, true));
    assert!(pair.confirmed_when_reopened());
}

/// Fails with the end of the log in the place of the record's: there lie other sessions' commits, which a failover may lose. The token
/// was refused then, though nothing was lost of what it stands for.
#[test]
fn a_snapshot_is_in_the_log_before_what_others_have_not_published() {
    let mut pair = Synchronous::begin(19);
    let session = pair.primary.replica_session("copy");
    let version = pair.apply(SynchronousCommit::On);
    pair.sync();
    pair.follow();
    let flushed = pair.follower.sync().unwrap();
    session.note(|progress| progress.flushed = flushed);
    pair.follow();
    assert_eq!(pair.sees(version), (true, true));
    let another = pair.apply(SynchronousCommit::On);
    let (log_end, _) = pair.primary.log_position().unwrap();
    assert!(log_end > flushed, "it is appended, and nobody has it");
    let (end, term) = pair.primary.end_of_snapshot(version).unwrap();
    assert!(end <= flushed, "a replica has the snapshot");
    assert_eq!(Some(term), pair.primary.terms().last());
    let of_another = pair.primary.end_of_snapshot(another).unwrap();
    assert_eq!(of_another.0, log_end, "who reads what is not published finds it before the end");

    // The replica is promoted without the other commit. It knows the place.
    let Synchronous { files, store, follower, feed, .. } = pair;
    let has_snapshot = |store: &Store| {
        store.terms().check_follower(Some(term.id), end).is_ok() && store.world().version() >= version
    };
    assert!(has_snapshot(&store));
    drop((feed, follower, store));
    promote(&files, Path::new(COPY), Promise::asked_for(Timeline::new(2))).unwrap();
    let dir = Path::new(COPY);
    let promoted = Store::open_tuned(Arc::new(files), dir, options(), log_options(), sizes()).unwrap();
    assert!(promoted.world().version() < another);
    assert!(has_snapshot(&promoted));
    assert!(
        promoted.terms().check_follower(Some(term.id), log_end).is_err(),
        "the end of the log is not there"
    );
}
