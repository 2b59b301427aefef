// SPDX-License-Identifier: Apache-2.0
//! A change of the list of synchronous replicas that one replica alone has, and a primary of those that have not got it: why whoever has
//! the change needs promises by the list of before, too.
//!
//! 1. Commits of `a` wait by `ANY 1 (a, b, c)`.
//! 2. `a` changes the list to `ANY 1 (a, d, e)`. The change comes to `e` alone, and `a` is lost.
//! 3. `b`, which does not know of the change, is promoted with the promise of `c`, and commits; `c` acknowledges.
//! 4. `e` stands with the promise of `d`.

use super::*;
use crate::candidacy::Candidacy;
use coeval_txn::Version;

/// The row that `b` commits.
const ROW: i32 = 1;

/// A replica.
struct Machine {
    name: &'static str,
    files: SimulatedFiles,
    store: Store,
    follower: Follower,
}

impl Machine {
    fn copied_from(primary: &Store, name: &'static str, seed: u64) -> Self {
        let files = SimulatedFiles::new(seed);
        copy(primary, &files);
        let (store, follower) = open_follower(&files);
        Self { name, files, store, follower }
    }

    /// Gets all that this primary has, has it durably, and says so.
    fn follow(&mut self, primary: &Store) {
        self.follower.begin_following(primary.terms().timeline()).unwrap();
        let (end, _) = primary.log_position().unwrap();
        primary.shared.pipeline.log().unwrap().sync(end).unwrap();
        primary.shared.pipeline.publishing.go_on(&primary.shared);
        let mut feed = feed_of(primary, &self.follower).unwrap();
        take_all(&mut feed, &mut self.follower);
        let flushed = self.follower.sync().unwrap();
        let session = primary.replica_session(self.name);
        session.note(|progress| progress.flushed = flushed);
    }

    fn stand(&self, timeline: u32) -> Candidacy {
        let promise = Promise::asked_for(Timeline::new(timeline));
        Candidacy::begin_with(&self.store, self.name, promise).unwrap()
    }

    /// Promises a candidate its timeline, which hears of it.
    fn promise(&self, candidacy: &mut Candidacy) -> Result<(), NotPromoted> {
        let standing = self.store.promise(candidacy.promise()).unwrap();
        candidacy.note_promise(self.name, standing)
    }

    fn promoted(self, promise: Promise) -> Store {
        let Self { name, files, store, follower } = self;
        drop((follower, store));
        let dir = Path::new(COPY);
        promote(&files, dir, promise).unwrap();
        let store = Store::open_tuned(Arc::new(files), dir, options(), log_options(), sizes()).unwrap();
        store.set_own_name(name).unwrap();
        store
    }
}

/// Any one of these, by their names.
fn any_of(names: [&str; 3]) -> SynchronousReplicas {
    SynchronousReplicas {
        count: 1,
        choice: ReplicaChoice::Any,
        names: names.map(str::to_owned).into(),
        primary: String::new(),
        before: Vec::new(),
    }
}

/// The first three steps: the new primary, with the version of its commit, and `c`, `d` and `e`.
fn begin(seed: u64) -> (Store, Version, [Machine; 3]) {
    let primary = open_primary(&SimulatedFiles::new(seed));
    primary.set_own_name("a").unwrap();
    let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(table(&primary, "t")))).unwrap();
    tx.commit().unwrap();
    primary.checkpoint().unwrap();
    primary.require_replicas(Some(any_of(["a", "b", "c"]))).unwrap();
    let mut number = seed;
    let [mut b, mut c, mut d, mut e] = ["b", "c", "d", "e"].map(|name| {
        number += 1;
        Machine::copied_from(&primary, name, number)
    });
    [&mut b, &mut c, &mut d, &mut e].into_iter().for_each(|machine| machine.follow(&primary));
    primary.require_replicas(Some(any_of(["a", "d", "e"]))).unwrap();
    e.follow(&primary);
    drop(primary);

    let mut candidacy = b.stand(2);
    c.promise(&mut candidacy).unwrap();
    let primary = b.promoted(candidacy.outcome().unwrap());
    c.follow(&primary);
    let def = primary.world().tables().next().unwrap().def().clone();
    let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.insert(def.id, row(&def, ROW, 0)).unwrap();
    let version = tx.commit_applied().unwrap().version;
    c.follow(&primary);
    (primary, version, [c, d, e])
}

fn has_row(store: &Store) -> bool {
    let world = store.world();
    world.tables().next().unwrap().get(&key(ROW)).unwrap().is_some()
}

/// Fails if the newest list alone is asked.
#[test]
fn whoever_alone_has_a_changed_list_needs_promises_by_the_one_before() {
    let (_primary, _, [c, d, e]) = begin(31);
    let mut candidacy = e.stand(3);
    d.promise(&mut candidacy).unwrap();
    let refused = candidacy.outcome();
    assert!(matches!(refused, Err(NotPromoted::TooFew { promised: 0, needed: 2, .. })), "{refused:?}");
    // Those of the list before have the commit.
    let longer = c.promise(&mut candidacy);
    assert!(matches!(&longer, Err(NotPromoted::Longer { name }) if name == "c"), "{longer:?}");
}

#[test]
fn promoted_by_the_newest_list_alone_it_lacks_what_was_acknowledged() {
    let (primary, version, [_c, d, e]) = begin(41);
    assert!(primary.shared.pipeline.publishing.is_acknowledged(version));
    assert!(has_row(&primary));
    let mut candidacy = e.stand(3);
    d.promise(&mut candidacy).unwrap();
    assert!(candidacy.has_enough_by_newest_list());
    let newer = e.promoted(candidacy.promise());
    primary.promise(Promise::of_begun(newer.terms().timeline())).unwrap();
    assert_eq!(primary.superseded_by(), Some(newer.terms().timeline()), "its log does not count any more");
    assert!(!has_row(&newer));
}
