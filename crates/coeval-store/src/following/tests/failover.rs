// SPDX-License-Identifier: Apache-2.0
//! Three machines over a network that delays and cuts, disks that lose what was not synced, processes that die anywhere: nothing
//! that was acknowledged with a replica's say, and nothing that anybody was shown, is lost in a failover.
//!
//! One exception: whoever is started again shows all that its log has, a primary also what no replica has yet (as PostgreSQL
//! does), a replica also what its primary has not published. Readers count as soon as a replica has durably what the primary was
//! started with, those of a replica as soon as a primary has told it that what it was started with is published.
//!
//! Everything is decided by a seed and runs on one thread. Commits wait for any one of two replicas. A primary that dies either
//! comes back, or the replica with the longest log is promoted: of two, where any one will do, both have to be asked. Then the
//! others follow it, with a copy if their histories have parted.

use super::*;
use crate::following::ReplicaSession;
use crate::following::demote;
use crate::log::Lsn;
use crate::replicas::{ReplicaChoice, SynchronousCommit, SynchronousReplicas};
use coeval_txn::Version;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const NODES: usize = 3;

fn dir(node: usize) -> PathBuf {
    PathBuf::from(format!("/node{node}"))
}

fn open_node(files: &SimulatedFiles, node: usize) -> Store {
    Store::open_tuned(Arc::new(files.clone()), &dir(node), options(), log_options(), sizes()).unwrap()
}

fn open_replica(files: &SimulatedFiles, node: usize) -> (Store, Follower) {
    let files = Arc::new(files.clone());
    Store::open_follower_tuned(files, &dir(node), options(), log_options(), sizes()).unwrap()
}

/// What is on its way between the primary and a replica. A cut loses it.
struct Connection {
    feed: LogFeed,
    session: ReplicaSession,
    to_replica: VecDeque<Fed>,
    to_primary: VecDeque<(Lsn, Lsn)>,
}

#[derive(Default)]
struct Replica {
    open: Option<(Store, Follower)>,
    connection: Option<Connection>,
    /// What it was opened with, and whether a primary has told it since that this is published.
    begun: Version,
    is_told: bool,
}

impl Replica {
    fn opened(files: &SimulatedFiles, node: usize) -> Self {
        let open = open_replica(files, node);
        let begun = open.0.world().version();
        Self { open: Some(open), connection: None, begun, is_told: false }
    }
}

/// A commit that nobody has been told of yet.
struct Waiting {
    id: i32,
    version: Version,
}

struct Cluster {
    dice: SmallRng,
    files: Vec<SimulatedFiles>,
    primary: Option<(usize, Store)>,
    replicas: Vec<Replica>,
    level: SynchronousCommit,
    /// The end of the log that the primary was started with.
    begun: Lsn,
    next: i32,
    waiting: Vec<Waiting>,
    acknowledged: BTreeSet<i32>,
    /// What readers of any machine have seen.
    shown: BTreeSet<i32>,
    failovers: usize,
    copies: usize,
}

impl Cluster {
    fn new(seed: u64, level: SynchronousCommit) -> Self {
        let files: Vec<_> = (0..NODES as u64).map(|node| SimulatedFiles::new(seed * 10 + node)).collect();
        let primary = open_node(&files[0], 0);
        let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.change_catalog(CatalogChange::PutTable(Box::new(table(&primary, "t")))).unwrap();
        tx.commit().unwrap();
        let mut cluster = Self {
            dice: SmallRng::seed_from_u64(seed),
            files,
            primary: Some((0, primary)),
            replicas: (0..NODES).map(|_| Replica::default()).collect(),
            level,
            begun: Lsn::START,
            next: 0,
            waiting: Vec::new(),
            acknowledged: BTreeSet::new(),
            shown: BTreeSet::new(),
            failovers: 0,
            copies: 0,
        };
        (1..NODES).for_each(|node| cluster.copy(node));
        cluster.require();
        cluster
    }

    fn primary(&self) -> &Store {
        &self.primary.as_ref().expect("it is open between steps").1
    }

    fn is_primary(&self, node: usize) -> bool {
        self.primary.as_ref().is_some_and(|(primary, _)| *primary == node)
    }

    fn require(&self) {
        let names = vec!["*".to_owned()];
        let any = SynchronousReplicas { count: 1, choice: ReplicaChoice::Any, names };
        self.primary().require_replicas(Some(any));
    }

    /// Gives a machine a copy of the primary's database, in the place of what it has.
    fn copy(&mut self, node: usize) {
        self.replicas[node] = Replica::default();
        self.files[node] = SimulatedFiles::new(self.dice.random());
        self.primary().checkpoint().unwrap();
        copy_to(self.primary(), &self.files[node], &dir(node));
        self.replicas[node] = Replica::opened(&self.files[node], node);
        self.copies += 1;
    }

    fn step(&mut self) {
        match self.dice.random_range(0..1_000) {
            0..200 => self.write(),
            200..300 => self.sync_primary(),
            300..450 => self.acknowledge(),
            450..900 => {
                let node = self.dice.random_range(0..NODES);
                self.step_replica(node);
            }
            900..930 => {
                let node = self.dice.random_range(0..NODES);
                self.replicas[node].connection = None;
            }
            930..960 => {
                let node = self.dice.random_range(0..NODES);
                self.restart_replica(node);
            }
            960..970 => drop(self.primary().checkpoint().unwrap()),
            970..976 => self.restart_primary(),
            976..980 => self.fail_over(),
            _ => self.acknowledge(),
        }
        self.look();
    }

    fn write(&mut self) {
        let store = self.primary();
        let def = store.world().tables().next().unwrap().def().clone();
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.insert(def.id, row(&def, self.next, 0)).unwrap();
        store.set_synchronous_commit(&mut tx, self.level);
        let version = tx.commit_applied().unwrap().version;
        self.waiting.push(Waiting { id: self.next, version });
        self.next += 1;
    }

    fn sync_primary(&mut self) {
        let shared = &self.primary().shared;
        let version = shared.applied().version();
        shared.wait_for(version, crate::publishing::Until::Durable, None).unwrap();
    }

    /// Tells clients whose commits may be acknowledged.
    fn acknowledge(&mut self) {
        let store = self.primary().clone();
        self.waiting.retain(|waiting| {
            let ready = store.publication(waiting.version).is_none_or(|publication| {
                let mut publication = pin!(publication);
                matches!(
                    publication.as_mut().poll(&mut Context::from_waker(Waker::noop())),
                    Poll::Ready(Ok(()))
                )
            });
            if ready {
                self.acknowledged.insert(waiting.id);
            }
            !ready
        });
    }

    fn step_replica(&mut self, node: usize) {
        if self.is_primary(node) || self.replicas[node].open.is_none() {
            return;
        }
        if self.replicas[node].connection.is_none() {
            self.connect(node);
            return;
        }
        let dice = self.dice.random_range(0..4);
        let Replica { open: Some((_, follower)), connection: Some(connection), begun, is_told } =
            &mut self.replicas[node]
        else {
            return;
        };
        match dice {
            0 => match connection.feed.next_piece() {
                Ok(fed) => connection.to_replica.extend(fed),
                Err(_) => self.copy(node),
            },
            1 => match connection.to_replica.pop_front() {
                Some(Fed::Records(records)) => follower.take(&records).unwrap(),
                Some(Fed::Published(version)) => {
                    follower.note_published(version);
                    *is_told |= version >= *begun;
                }
                Some(Fed::Boundary(boundary)) => follower.note_boundary(boundary),
                Some(Fed::File(..)) => unreachable!("nothing is loaded"),
                None => {}
            },
            2 => {
                let flushed = follower.sync().unwrap();
                connection.to_primary.push_back((flushed, follower.shown_position()));
            }
            _ => {
                if let Some((flushed, applied)) = connection.to_primary.pop_front() {
                    connection.feed.confirm(flushed);
                    connection.session.note(|progress| {
                        (progress.written, progress.flushed, progress.applied) = (flushed, flushed, applied);
                    });
                }
            }
        }
    }

    fn connect(&mut self, node: usize) {
        let Some((_, follower)) = &self.replicas[node].open else { return };
        match feed_of(self.primary(), follower) {
            Ok(feed) => {
                let session = self.primary().replica_session("copy");
                let (to_replica, to_primary) = Default::default();
                self.replicas[node].connection = Some(Connection { feed, session, to_replica, to_primary });
            }
            Err(StoreError::ForeignHistory(_)) => self.copy(node),
            Err(error) => panic!("{error}"),
        }
    }

    /// A replica dies and comes back.
    fn restart_replica(&mut self, node: usize) {
        if self.replicas[node].open.is_some() {
            drop(std::mem::take(&mut self.replicas[node]));
            self.files[node] = self.files[node].crash();
            self.replicas[node] = Replica::opened(&self.files[node], node);
        }
    }

    /// The primary dies; who waits for an answer gets none.
    fn lose_primary(&mut self) -> usize {
        self.replicas.iter_mut().for_each(|replica| replica.connection = None);
        let (node, store) = self.primary.take().expect("it is open between steps");
        drop(store);
        self.files[node] = self.files[node].crash();
        self.waiting.clear();
        node
    }

    fn open_primary(&mut self, node: usize) {
        let store = open_node(&self.files[node], node);
        self.begun = store.log_position().unwrap().0;
        self.primary = Some((node, store));
        self.require();
    }

    /// It comes back as what it was.
    fn restart_primary(&mut self) {
        let node = self.lose_primary();
        self.open_primary(node);
        self.expect_all("a crash");
    }

    /// Another one takes its place, and it follows.
    fn fail_over(&mut self) {
        let old = self.lose_primary();
        let length = |replica: &Replica| {
            replica
                .open
                .as_ref()
                .map(|(_, follower)| (follower.terms().last().map(|term| term.number), follower.durable()))
        };
        let new = (0..NODES).filter(|node| *node != old).max_by_key(|node| length(&self.replicas[*node]));
        let new = new.expect("there are others");
        drop(std::mem::take(&mut self.replicas[new]));
        // Whatever was not synced is gone with it.
        self.files[new] = self.files[new].crash();
        promote(&self.files[new], &dir(new)).unwrap();
        self.open_primary(new);
        self.failovers += 1;
        self.expect_all("a failover");
        // The term is in the log with the first commit.
        self.write();
        self.waiting.clear();
        demote(&self.files[old], &dir(old)).unwrap();
        self.replicas[old] = Replica::opened(&self.files[old], old);
        // Nobody reads there before it is known whether it has what the new one never had.
        self.connect(old);
    }

    /// The rows that a reader of this store sees.
    fn ids(&self, store: &Store) -> BTreeSet<i32> {
        let world = store.world();
        let Some(table) = world.tables().next() else { return BTreeSet::new() };
        (0..self.next).filter(|id| table.get(&key(*id)).unwrap().is_some()).collect()
    }

    /// What readers see everywhere.
    fn look(&mut self) {
        let has_begun = |replica: &Replica| {
            let has_it = |(_, follower): &(Store, Follower)| follower.durable() >= self.begun;
            replica.connection.is_some() && replica.open.as_ref().is_some_and(has_it)
        };
        if !self.replicas.iter().any(has_begun) {
            return;
        }
        let told = self.replicas.iter().filter(|replica| replica.is_told);
        let replicas = told.filter_map(|replica| replica.open.as_ref().map(|open| &open.0));
        let primary = self.primary.iter().map(|(_, store)| store);
        let seen: Vec<i32> = replicas.chain(primary).flat_map(|store| self.ids(store)).collect();
        self.shown.extend(seen);
    }

    /// Nothing is lost that somebody was told of, or saw.
    fn expect_all(&self, behind: &str) {
        let there = self.ids(self.primary());
        let lost: Vec<_> = self.acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "{lost:?} were acknowledged, and are lost behind {behind}");
        let lost: Vec<_> = self.shown.difference(&there).collect();
        assert!(lost.is_empty(), "{lost:?} were shown, and are lost behind {behind}");
    }
}

/// So many seeds; `COEVAL_FAILOVERS` asks for more.
const SEEDS: u64 = 40;

#[test]
fn nothing_acknowledged_or_shown_is_lost_in_a_failover() {
    let seeds = std::env::var("COEVAL_FAILOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let (mut failovers, mut acknowledged, mut copies) = (0, 0, 0);
    for seed in 0..seeds {
        let level = if seed % 2 == 0 { SynchronousCommit::On } else { SynchronousCommit::RemoteApply };
        let mut cluster = Cluster::new(seed, level);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..2_000).for_each(|_| cluster.step());
        }));
        assert!(outcome.is_ok(), "seed {seed}");
        failovers += cluster.failovers;
        acknowledged += cluster.acknowledged.len();
        copies += cluster.copies;
    }
    println!("{seeds} seeds: {failovers} failovers, {acknowledged} acknowledged, {copies} copies");
    assert!(failovers > seeds as usize && acknowledged > 10 * seeds as usize);
}
