// SPDX-License-Identifier: Apache-2.0
//! A follower has what its primary has, at every version that it shows, and shows nothing that can be lost.

mod bricks;
mod catching_up;
mod chain;
mod changed_list;
mod changes;
mod failover;
mod kept;
mod left_behind;
mod new_indexes;
mod panics;
mod paused;
mod rewinding;
mod safe;
mod showing;
mod slots;
mod synchronous;
mod undecided;
mod unpublished;

use super::{CopyWriter, Fed, FollowError, Follower, LogFeed, promote};
use crate::candidacy::{CandidacyError, NotPromoted};
use crate::catalog::CatalogChange;
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::id_value::{key, row, table};
use crate::log::{LogError, LogOptions};
use crate::model_workload::{End, Model, Workload};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::promises::Promise;
use crate::replicas::{ReplicaChoice, SynchronousReplicas};
use crate::store::Store;
use crate::terms::{ForeignHistory, Timeline};
use crate::transaction::AccessMode;
use crate::verify::verify;
use crate::world::World;
use coeval_txn::Isolation;
use rand::Rng;
use std::path::Path;
use std::sync::Arc;

const PRIMARY: &str = "/primary";
const COPY: &str = "/copy";

fn sizes() -> Sizes {
    Sizes { chunk_rows: 16, direct_load_rows_min: 8, begins_terms: true, ..Sizes::default() }
}

fn options() -> StoreOptions {
    StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() }
}

fn log_options() -> LogOptions {
    LogOptions { segment_bytes: 4_096, extend_bytes: 512, ..LogOptions::default() }
}

fn open_primary(files: &SimulatedFiles) -> Store {
    let dir = Path::new(PRIMARY);
    Store::open_tuned(Arc::new(files.clone()), dir, options(), log_options(), sizes()).unwrap()
}

fn open_follower(files: &SimulatedFiles) -> (Store, Follower) {
    let dir = Path::new(COPY);
    Store::open_follower_tuned(Arc::new(files.clone()), dir, options(), log_options(), sizes()).unwrap()
}

/// Copies the newest checkpoint of an open primary.
fn copy(primary: &Store, files: &SimulatedFiles) {
    copy_to(primary, files, Path::new(COPY));
}

fn copy_to(from: &Store, files: &SimulatedFiles, dir: &Path) {
    let copy = from.base_copy().unwrap();
    let writer = CopyWriter::begin(Arc::new(files.clone()), dir).unwrap();
    for name in copy.files() {
        let (mut from, mut to) = (copy.open(name).unwrap(), writer.file(name).unwrap());
        loop {
            let bytes = from.read(100).unwrap();
            if bytes.is_empty() {
                break;
            }
            to.write(&bytes).unwrap();
        }
        to.finish().unwrap();
    }
    writer.finish(copy.manifest()).unwrap();
}

fn feed_of(primary: &Store, follower: &Follower) -> Result<LogFeed, StoreError> {
    let feed = primary.log_feed(follower.terms().last().map(|term| term.id), follower.position())?;
    Ok(feed.ahead_of_publication())
}

/// Takes what one `next` of the feed gives. Whether there was anything.
fn take(feed: &mut LogFeed, follower: &mut Follower) -> Result<bool, FollowError> {
    match feed.next_piece()? {
        None => return Ok(false),
        Some(Fed::File(name, mut file)) => {
            let mut received = follower.receive_file(&name)?;
            received.write(&file.read(usize::MAX)?)?;
            received.finish()?;
        }
        Some(Fed::Records(records)) => follower.take(&records)?,
        Some(Fed::Published(version)) => follower.note_published(version),
        Some(Fed::Boundary(boundary)) => follower.note_boundary(boundary),
    }
    Ok(true)
}

fn take_all(feed: &mut LogFeed, follower: &mut Follower) {
    loop {
        while take(feed, follower).unwrap() {}
        // A record that nobody waits for is synced a moment later.
        std::thread::sleep(std::time::Duration::from_millis(6));
        if !take(feed, follower).unwrap() {
            return;
        }
    }
}

/// A primary and one that follows it.
struct Pair {
    primary_files: SimulatedFiles,
    files: SimulatedFiles,
    primary: Option<Store>,
    follower: Option<(Store, Follower)>,
    feed: Option<LogFeed>,
    workload: Workload,
    /// Worlds that readers of the follower hold.
    held: Vec<Arc<World>>,
    copies: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let (primary_files, files) = (SimulatedFiles::new(seed), SimulatedFiles::new(seed + 1));
        let primary = open_primary(&primary_files);
        Self {
            primary_files,
            files,
            primary: Some(primary),
            follower: None,
            feed: None,
            workload: Workload::new(seed).keeping_all(),
            held: Vec::new(),
            copies: 0,
        }
    }

    fn primary(&self) -> &Store {
        self.primary.as_ref().expect("it is open between steps")
    }

    fn step(&mut self) {
        match self.workload.dice.random_range(0..100) {
            0..60 => {
                let primary = self.primary.take().expect("it is open between steps");
                self.workload.step(&primary);
                self.primary = Some(primary);
            }
            60..80 => self.take_some(),
            80..84 => drop(self.primary().checkpoint().unwrap()),
            84..87 => {
                if let Some((store, _)) = &self.follower {
                    store.checkpoint().unwrap();
                }
            }
            87..91 => {
                if let (Some((_, follower)), Some(feed)) = (&self.follower, &mut self.feed) {
                    feed.confirm(follower.sync().unwrap());
                }
            }
            91..93 => self.restart_follower(),
            93..95 => self.restart_primary(),
            95..97 => self.feed = None,
            _ => self.hold(),
        }
        self.check();
    }

    /// Takes a few pieces of the feed; makes a copy or a feed first if there is none.
    fn take_some(&mut self) {
        if self.follower.is_none() {
            copy(self.primary(), &self.files);
            self.copies += 1;
            self.follower = Some(open_follower(&self.files));
        }
        let (store, mut follower) = self.follower.take().expect("it was just made");
        let mut feed = match self.feed.take() {
            Some(feed) => feed,
            None => feed_of(self.primary(), &follower).unwrap(),
        };
        for _ in 0..self.workload.dice.random_range(1..12) {
            match take(&mut feed, &mut follower) {
                Ok(_) => {}
                Err(FollowError::Store(StoreError::Log(LogError::Gone { .. }) | StoreError::File(_))) => {
                    // It was away for too long: a new copy.
                    drop((store, follower));
                    self.files = SimulatedFiles::new(self.workload.dice.random());
                    self.held.clear();
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
        self.feed = Some(feed);
        self.follower = Some((store, follower));
    }

    /// Half of the time it is closed first, which makes durable what was not.
    fn restart_follower(&mut self) {
        if self.follower.is_none() {
            return;
        }
        self.feed = None;
        self.held.clear();
        if self.workload.dice.random() {
            self.follower = None;
        }
        let crashes = self.workload.dice.random_ratio(1, 2);
        self.files = if crashes { self.files.crash() } else { self.files.restart() };
        self.follower = None;
        self.follower = Some(open_follower(&self.files));
    }

    /// Likewise. What was acknowledged is there.
    fn restart_primary(&mut self) {
        if self.workload.dice.random() {
            self.feed = None;
            self.primary = None;
        }
        let end = if self.workload.dice.random() { End::Machine } else { End::Process };
        self.workload.note_end(end);
        self.primary_files = match end {
            End::Machine => self.primary_files.crash(),
            End::Process => self.primary_files.restart(),
        };
        self.feed = None;
        self.primary = None;
        let primary = open_primary(&self.primary_files);
        self.workload.take_recovered(&primary.world()).unwrap();
        self.primary = Some(primary);
    }

    fn hold(&mut self) {
        if let Some((store, _)) = &self.follower {
            self.held.push(store.world());
            if self.held.len() > 4 {
                self.held.remove(0);
            }
        }
    }

    /// What the primary has held at a version.
    fn model(&self, version: u64) -> &Model {
        &self.workload.all.as_ref().expect("it keeps all")[&version]
    }

    /// Whatever is shown is what the primary had at that version; what readers hold stays what it was.
    fn check(&self) {
        let newest = self.follower.iter().map(|(store, _)| store.world());
        for world in self.held.iter().cloned().chain(newest) {
            let version = world.version().get();
            self.model(version).check(&world).unwrap_or_else(|error| panic!("version {version}: {error}"));
        }
    }
}

#[test]
fn at_every_version_a_follower_has_what_the_primary_had() {
    let (mut versions, mut copies) = (0, 0);
    for seed in 0..24 {
        let mut pair = Pair::new(seed * 2);
        for _ in 0..250 {
            pair.step();
        }
        // In the end it has everything.
        pair.take_some();
        if pair.follower.is_none() {
            pair.take_some();
        }
        let (store, mut follower) = pair.follower.take().unwrap();
        let mut feed = feed_of(pair.primary(), &follower).unwrap();
        take_all(&mut feed, &mut follower);
        assert_eq!(store.world().version(), pair.primary().world().version(), "seed {seed}");
        assert_eq!(follower.position(), pair.primary().log_position().unwrap().0, "seed {seed}");
        pair.model(store.world().version().get()).check(&store.world()).unwrap();
        follower.sync().unwrap();
        versions += store.world().version().get();
        copies += pair.copies;
        drop((feed, store, follower));
        let report = verify(Arc::new(pair.files.clone()), Path::new(COPY), None).unwrap();
        assert!(report.problems.is_empty(), "seed {seed}: {:?}", report.problems);
    }
    assert!(versions > 1_500 && copies > 24, "{versions} versions, {copies} copies");
}

/// A primary with a few rows, and one that follows it, with the files of both.
fn small_pair() -> (Store, SimulatedFiles, Store, Follower) {
    let (primary, primary_files, _, store, follower) = small_pair_with_files();
    (primary, primary_files, store, follower)
}

fn small_pair_with_files() -> (Store, SimulatedFiles, SimulatedFiles, Store, Follower) {
    let (primary_files, files) = (SimulatedFiles::new(1), SimulatedFiles::new(2));
    let primary = open_primary(&primary_files);
    let def = table(&primary, "items");
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    transaction.commit().unwrap();
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.put(def.id, row(&def, 1, 1)).unwrap();
    transaction.commit().unwrap();
    copy(&primary, &files);
    let (store, follower) = open_follower(&files);
    (primary, primary_files, files, store, follower)
}

#[test]
fn a_follower_is_not_written_to() {
    let (primary, _, store, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let def = store.world().tables().next().unwrap().def().clone();
    let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    assert!(matches!(transaction.put(def.id, row(&def, 2, 2)), Err(StoreError::OnReplica(_))));
    assert!(store.begin(Isolation::Snapshot, AccessMode::ReadOnly).get(def.id, &key(1)).unwrap().is_some());
    let before = follower.position();
    store.checkpoint().unwrap();
    drop(transaction);
    drop(store);
    assert_eq!(follower.position(), before, "it writes nothing into its log");
}

#[test]
fn directories_are_what_they_are() {
    let (primary_files, files) = (SimulatedFiles::new(1), SimulatedFiles::new(2));
    let primary = open_primary(&primary_files);
    let all: Arc<SimulatedFiles> = Arc::new(files.clone());
    let writer = CopyWriter::begin(all.clone(), Path::new(COPY)).unwrap();
    writer.file("00000000000000000009.arrow").unwrap().write(b"half").unwrap();
    drop(writer);
    let opened = Store::open_tuned(all.clone(), Path::new(COPY), options(), log_options(), sizes());
    assert!(matches!(opened, Err(StoreError::UnfinishedCopy { .. })), "{opened:?}");
    copy(&primary, &files);
    let opened = Store::open_tuned(all.clone(), Path::new(COPY), options(), log_options(), sizes());
    assert!(matches!(opened, Err(StoreError::FollowsAnother { .. })), "{opened:?}");
    assert!(matches!(CopyWriter::begin(all, Path::new(COPY)), Err(StoreError::ForeignDirectory { .. })));
    drop(primary);
    let opened = Store::open_follower(Arc::new(primary_files), Path::new(PRIMARY), options());
    assert!(matches!(opened, Err(StoreError::FollowsNobody { .. })));
    let (_store, _follower) = open_follower(&files);
}

/// It made the directory, and then said that this holds no replica.
#[test]
fn a_replica_that_is_not_there_is_refused_and_no_directory_is_made() {
    let files = SimulatedFiles::new(1);
    let dir = Path::new("/not/there");
    let opened = Store::open_follower(Arc::new(files.clone()), dir, options());
    let refused = opened.expect_err("there is no replica");
    assert!(matches!(refused, StoreError::FollowsNobody { .. }), "{refused}");
    assert!(refused.to_string().contains("/not/there"), "{refused}");
    assert!(!files.exists(dir).unwrap());
}

#[test]
fn a_promoted_copy_goes_on_in_a_term_of_its_own() {
    let (primary, _, files, store, mut follower) = small_pair_with_files();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    follower.sync().unwrap();
    let def = store.world().tables().next().unwrap().def().clone();
    drop((store, follower));
    assert!(matches!(
        promote(&files, Path::new(PRIMARY), Promise::asked_for(Timeline::new(2))),
        Err(StoreError::FollowsNobody { .. })
    ));
    promote(&files, Path::new(COPY), Promise::asked_for(Timeline::new(2))).unwrap();
    let promoted =
        Store::open_tuned(Arc::new(files), Path::new(COPY), options(), log_options(), sizes()).unwrap();
    let mut transaction = promoted.begin(Isolation::Serializable, AccessMode::ReadWrite);
    assert!(transaction.get(def.id, &key(1)).unwrap().is_some());
    transaction.put(def.id, row(&def, 2, 2)).unwrap();
    transaction.commit().unwrap();
    assert_eq!(promoted.terms().database_id(), primary.terms().database_id());
    let (one, other) = (primary.terms().timeline(), promoted.terms().timeline());
    assert_eq!((one, other.get()), (Timeline::FIRST, 2));
    assert_eq!(promoted.own_promise().map(|promise| promise.timeline), Some(other));
    // The former primary is not taken for a beginning of it once it has written more.
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.put(def.id, row(&def, 3, 3)).unwrap();
    transaction.commit().unwrap();
    let (end, _) = primary.log_position().unwrap();
    let refused = promoted.log_feed(primary.terms().last().map(|term| term.id), end);
    assert!(matches!(refused, Err(StoreError::ForeignHistory(ForeignHistory::Parted { .. }))), "{refused:?}");
}

/// Two may be begun with one number there, and whoever takes them for one may acknowledge to the lower what the higher lacks. Fails if
/// `promise_number` promises whatever the lists say; the last lines, if it refuses where a majority has to promise, too.
#[test]
fn a_candidate_of_an_older_program_is_promised_nothing_where_few_have_to_promise() {
    let (primary, _, store, mut follower) = small_pair();
    primary.set_own_name("a").unwrap();
    let list = |count, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let (choice, primary, before) = (ReplicaChoice::Any, String::new(), Vec::new());
        Some(SynchronousReplicas { count, choice, names, primary, before })
    };
    let mut feed = feed_of(&primary, &follower).unwrap();
    primary.require_replicas(list(2, &["a", "b", "c"])).unwrap();
    take_all(&mut feed, &mut follower);
    let refused = store.promise_number(Timeline::new(2), 51);
    assert!(matches!(refused, Err(CandidacyError::Refused(NotPromoted::OlderProgram))), "{refused:?}");
    assert_eq!(store.timeline(), Timeline::FIRST, "nothing is promised");
    primary.require_replicas(None).unwrap();
    primary.require_replicas(list(1, &["a", "b", "c"])).unwrap();
    take_all(&mut feed, &mut follower);
    store.promise_number(Timeline::new(2), 51).unwrap();
    assert_eq!(store.timeline(), Timeline::new(2));
    // It begins the timeline under another id, which is lower here.
    follower.begin_following(Timeline::new(2).of_candidate(49)).unwrap();
    // A primary may be told by anybody that it is none any more.
    primary.require_replicas(None).unwrap();
    primary.require_replicas(list(2, &["a", "b", "c"])).unwrap();
    primary.promise_number(Timeline::new(2), 51).unwrap();
    assert_eq!(primary.superseded_by(), Some(Timeline::new(2)));
}

#[test]
fn histories_that_part_are_told_apart() {
    let (primary, primary_files, store, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let def = store.world().tables().next().unwrap().def().clone();
    // A copy of the primary's directory is opened as another primary, and both go on.
    drop(primary);
    let other_files = primary_files.copy();
    let write = |files: &SimulatedFiles, value| {
        let primary = open_primary(files);
        let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.put(def.id, row(&def, 7, value)).unwrap();
        transaction.commit().unwrap();
        primary
    };
    let (primary, other) = (write(&primary_files, 1), write(&other_files, 2));
    assert_eq!(primary.log_position(), other.log_position(), "the places are equal");
    let mut feed = feed_of(&other, &follower).unwrap();
    take_all(&mut feed, &mut follower);
    let refused = feed_of(&primary, &follower);
    let unknown =
        |error: &StoreError| matches!(error, StoreError::ForeignHistory(ForeignHistory::UnknownTerm { .. }));
    assert!(refused.as_ref().is_err_and(unknown), "{refused:?}");
}

#[test]
fn who_was_away_for_too_long_is_told_so() {
    let (primary, _, store, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let def = store.world().tables().next().unwrap().def().clone();
    let change = |value| {
        for id in 0..100 {
            let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
            transaction.put(def.id, row(&def, id, value)).unwrap();
            transaction.commit().unwrap();
        }
        primary.checkpoint().unwrap();
    };
    // What a feed has not given is held for it.
    let mut feed = feed_of(&primary, &follower).unwrap();
    change(2);
    take_all(&mut feed, &mut follower);
    drop(feed);
    change(3);
    let mut feed = feed_of(&primary, &follower).unwrap();
    assert!(matches!(feed.next_piece(), Err(StoreError::Log(LogError::Gone { .. }))));
}

#[test]
fn a_record_in_the_wrong_place_is_refused() {
    let (primary, _, store, mut follower) = small_pair();
    let mut feed = feed_of(&primary, &follower).unwrap();
    let records = loop {
        if let Some(Fed::Records(records)) = feed.next_piece().unwrap() {
            break records;
        }
    };
    follower.take(&records).unwrap();
    let (position, version) = (follower.position(), store.world().version());
    assert!(matches!(follower.take(&records), Err(FollowError::OutOfPlace { .. })));
    assert_eq!((follower.position(), store.world().version()), (position, version));
}
