// SPDX-License-Identifier: Apache-2.0
//! Three or five machines over a network that delays and cuts, disks that lose what was not synced, processes that die anywhere,
//! primaries that run on while another one is promoted: nothing that was acknowledged with replicas' say, and nothing that
//! anybody was shown, is lost in a failover.
//!
//! Everything is decided by a seed and runs on one thread. Commits wait for any one of three machines beside the primary, or any
//! two of five. A replica is promoted by the product's own rules (`candidacy.rs`) with the promises of those that it reaches; the
//! primary need not be dead. Readers look at a store once it [has confirmed](Store::has_confirmed) what it was opened with, as a
//! server lets them in.
//!
//! Each rule is also switched off, and the loss is seen.

use super::*;
use crate::candidacy::{Candidacy, CandidacyError, NotPromoted};
use crate::following::{ReplicaSession, demote};
use crate::log::Lsn;
use crate::promises::LogStanding;
use crate::replicas::{ReplicaChoice, SynchronousCommit, SynchronousReplicas};
use coeval_txn::Version;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Others say how long their logs are, and promise nothing.
    NoPromises,
    /// One promise less is enough.
    FewPromises,
    /// Whoever asks is promoted, whatever the others have.
    ShorterLog,
    /// Readers are let in at once.
    Unconfirmed,
}

fn dir(node: usize) -> PathBuf {
    PathBuf::from(format!("/node{node}"))
}

fn name(node: usize) -> String {
    format!("node{node}")
}

fn open_node(files: &SimulatedFiles, node: usize) -> Store {
    let files = Arc::new(files.clone());
    let store = Store::open_tuned(files, &dir(node), options(), log_options(), sizes()).unwrap();
    store.set_own_name(&name(node)).unwrap();
    store
}

/// What is on its way between a primary and a replica. A cut loses it.
struct Connection {
    to: usize,
    feed: LogFeed,
    session: ReplicaSession,
    to_replica: VecDeque<Fed>,
    to_primary: VecDeque<(Lsn, Lsn)>,
}

/// A commit that nobody has been told of yet.
struct Waiting {
    id: i32,
    version: Version,
}

enum Role {
    Primary(Vec<Waiting>),
    Replica(Follower, Option<Box<Connection>>),
}

struct Node {
    files: SimulatedFiles,
    store: Store,
    role: Role,
}

impl Node {
    fn replica(files: SimulatedFiles, node: usize) -> Self {
        let (store, follower) = {
            let files = Arc::new(files.clone());
            Store::open_follower_tuned(files, &dir(node), options(), log_options(), sizes()).unwrap()
        };
        Self { files, store, role: Role::Replica(follower, None) }
    }

    fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary(_))
    }

    /// Whether it takes commits.
    fn is_writable(&self) -> bool {
        self.is_primary() && self.store.superseded_by().is_none()
    }
}

struct Cluster {
    dice: SmallRng,
    broken: Broken,
    nodes: Vec<Option<Node>>,
    level: SynchronousCommit,
    /// The primary of the highest timeline.
    current: usize,
    next: i32,
    acknowledged: BTreeSet<i32>,
    /// What readers of any machine have seen.
    shown: BTreeSet<i32>,
    /// What is lost, and behind what.
    lost: Option<String>,
    failovers: usize,
    refused: usize,
    copies: usize,
}

impl Cluster {
    fn new(seed: u64, broken: Broken) -> Self {
        let (count, needed) = if seed.is_multiple_of(3) { (5, 2) } else { (3, 1) };
        let files = SimulatedFiles::new(seed * 10);
        let store = open_node(&files, 0);
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.change_catalog(CatalogChange::PutTable(Box::new(table(&store, "t")))).unwrap();
        tx.commit().unwrap();
        let any = SynchronousReplicas {
            count: needed,
            choice: ReplicaChoice::Any,
            names: (0..count).map(name).collect(),
            primary: name(0),
        };
        store.require_replicas(Some(any)).unwrap();
        let mut nodes: Vec<Option<Node>> = (0..count).map(|_| None).collect();
        nodes[0] = Some(Node { files, store, role: Role::Primary(Vec::new()) });
        let mut cluster = Self {
            dice: SmallRng::seed_from_u64(seed),
            broken,
            nodes,
            level: if seed.is_multiple_of(2) {
                SynchronousCommit::On
            } else {
                SynchronousCommit::RemoteApply
            },
            current: 0,
            next: 0,
            acknowledged: BTreeSet::new(),
            shown: BTreeSet::new(),
            lost: None,
            failovers: 0,
            refused: 0,
            copies: 0,
        };
        (1..count).for_each(|node| cluster.copy(node, 0));
        cluster
    }

    fn node(&self, node: usize) -> &Node {
        self.nodes[node].as_ref().expect("it is open between steps")
    }

    fn node_mut(&mut self, node: usize) -> &mut Node {
        self.nodes[node].as_mut().expect("it is open between steps")
    }

    fn any_node(&mut self) -> usize {
        self.dice.random_range(0..self.nodes.len())
    }

    /// One that writes its log, perhaps not knowing that another one does.
    fn any_writable(&mut self) -> Option<usize> {
        let writable: Vec<_> = (0..self.nodes.len()).filter(|node| self.node(*node).is_writable()).collect();
        (!writable.is_empty()).then(|| writable[self.dice.random_range(0..writable.len())])
    }

    /// Gives a machine a copy of a primary's database, in the place of what it has.
    fn copy(&mut self, node: usize, from: usize) {
        if !self.node(from).is_writable() {
            return;
        }
        self.nodes[node] = None;
        let files = SimulatedFiles::new(self.dice.random());
        let primary = &self.node(from).store;
        primary.checkpoint().unwrap();
        let copying = CopyWriter::begin(Arc::new(files.clone()), &dir(node)).unwrap();
        copying.note_timeline(primary.terms().timeline()).unwrap();
        drop(copying);
        copy_to(primary, &files, &dir(node));
        self.nodes[node] = Some(Node::replica(files, node));
        self.copies += 1;
    }

    fn step(&mut self) {
        match self.dice.random_range(0..1_000) {
            0..180 => self.write(),
            180..280 => self.sync(),
            280..430 => self.acknowledge(),
            430..900 => self.step_replica(),
            900..925 => {
                let node = self.any_node();
                self.cut(node);
            }
            925..955 => self.restart(),
            955..965 => {
                if let Some(node) = self.any_writable() {
                    self.node(node).store.checkpoint().unwrap();
                }
            }
            965..970 => self.stand(),
            970..980 => self.step_down(),
            _ => self.acknowledge(),
        }
        self.look();
    }

    fn write(&mut self) {
        let Some(node) = self.any_writable() else { return };
        let (id, level) = (self.next, self.level);
        let Node { store, role: Role::Primary(waiting), .. } = self.node_mut(node) else { return };
        let Some(def) = store.world().tables().next().map(|table| table.def().clone()) else { return };
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.insert(def.id, row(&def, id, 0)).unwrap();
        store.set_synchronous_commit(&mut tx, level);
        let version = tx.commit_applied().unwrap().version;
        waiting.push(Waiting { id, version });
        self.next += 1;
    }

    fn sync(&mut self) {
        let Some(node) = self.any_writable() else { return };
        let shared = &self.node(node).store.shared;
        let version = shared.applied().version();
        shared.wait_for(version, crate::publishing::Until::Durable, None).unwrap();
    }

    /// Tells clients whose commits may be acknowledged.
    fn acknowledge(&mut self) {
        let Some(node) = self.any_writable() else { return };
        let Node { store, role: Role::Primary(waiting), .. } = self.node_mut(node) else { return };
        let mut told = Vec::new();
        waiting.retain(|waiting| {
            let ready = store.publication(waiting.version).is_none_or(|publication| {
                let mut publication = pin!(publication);
                let mut context = Context::from_waker(Waker::noop());
                matches!(publication.as_mut().poll(&mut context), Poll::Ready(Ok(())))
            });
            if ready {
                told.push(waiting.id);
            }
            !ready
        });
        for id in told {
            self.acknowledged.insert(id);
            if !self.has(self.current, id) {
                self.lost =
                    Some(format!("{id}, acknowledged by node {node} though there is another primary"));
            }
        }
    }

    fn step_replica(&mut self) {
        let node = self.any_node();
        let dice = self.dice.random_range(0..4);
        let Role::Replica(follower, connection) = &mut self.node_mut(node).role else { return };
        let Some(open) = connection else {
            self.connect(node);
            return;
        };
        let Connection { to, feed, session, to_replica, to_primary } = &mut **open;
        let to = *to;
        match dice {
            0 => match feed.next_piece() {
                Ok(fed) => to_replica.extend(fed),
                Err(_) if to == self.current => self.copy(node, to),
                Err(_) => self.cut(node),
            },
            1 => match to_replica.pop_front() {
                Some(Fed::Records(records)) => match follower.take(&records) {
                    Ok(()) => {}
                    Err(FollowError::Superseded { .. }) => *connection = None,
                    Err(error) => panic!("{error}"),
                },
                Some(Fed::Published(version)) => follower.note_published(version),
                Some(Fed::Boundary(boundary)) => follower.note_boundary(boundary),
                Some(Fed::File(..)) => unreachable!("nothing is loaded"),
                None => {}
            },
            2 => {
                follower.sync().unwrap();
                match follower.acknowledgement() {
                    Ok(told) => to_primary.push_back((told.flushed, told.shown)),
                    Err(_) => *connection = None,
                }
            }
            // What is on its way arrives, whatever has become of who sent it.
            _ => {
                if let Some((flushed, applied)) = to_primary.pop_front() {
                    feed.confirm(flushed);
                    session.note(|progress| {
                        (progress.written, progress.flushed, progress.applied) = (flushed, flushed, applied);
                    });
                }
            }
        }
    }

    /// A replica looks for somebody to follow.
    fn connect(&mut self, node: usize) {
        let to = self.any_node();
        if to == node || !self.node(to).is_primary() {
            return;
        }
        let primary = self.node(to).store.clone();
        let timeline = primary.terms().timeline();
        let Role::Replica(follower, connection) = &mut self.node_mut(node).role else { return };
        if follower.begin_following(timeline).is_err() {
            return;
        }
        match feed_of(&primary, follower) {
            Ok(feed) => {
                let session = primary.replica_session(&name(node));
                let (to_replica, to_primary) = Default::default();
                let open = Connection { to, feed, session, to_replica, to_primary };
                *connection = Some(Box::new(open));
            }
            // One that was left behind by the others has nothing to give.
            Err(StoreError::ForeignHistory(_)) if to == self.current => self.copy(node, to),
            Err(_) => {}
        }
    }

    fn cut(&mut self, node: usize) {
        if let Role::Replica(_, connection) = &mut self.node_mut(node).role {
            *connection = None;
        }
    }

    /// Closes a machine whose process dies; who is connected to it is not any more. Its files, as the disk has them.
    fn lose(&mut self, node: usize) -> (SimulatedFiles, bool) {
        for other in 0..self.nodes.len() {
            if other == node {
                continue;
            }
            if let Role::Replica(_, connection) = &mut self.node_mut(other).role {
                connection.take_if(|connection| connection.to == node);
            }
        }
        let Node { files, store, role } = self.nodes[node].take().expect("it is open between steps");
        let is_primary = matches!(role, Role::Primary(_));
        drop(role);
        drop(store);
        (files.crash(), is_primary)
    }

    /// A machine dies and comes back as what it was.
    fn restart(&mut self) {
        let node = self.any_node();
        let (files, is_primary) = self.lose(node);
        self.nodes[node] = Some(if is_primary {
            let store = open_node(&files, node);
            Node { files, store, role: Role::Primary(Vec::new()) }
        } else {
            Node::replica(files, node)
        });
        if node == self.current {
            self.expect_all("a crash");
        }
    }

    /// A replica tries to be promoted, with those that it reaches.
    fn stand(&mut self) {
        let node = self.any_node();
        if self.node(node).is_primary() {
            return;
        }
        let mut others: Vec<_> = (0..self.nodes.len()).filter(|other| *other != node).collect();
        // A primary that runs has more than others, mostly.
        let primaries: Vec<_> = others.iter().map(|other| self.node(*other).is_primary()).collect();
        let mut primaries = primaries.into_iter();
        others.retain(|_| {
            let is_primary = primaries.next().expect("one for each");
            self.dice.random_bool(if is_primary { 0.1 } else { 0.85 })
        });
        let reached = others.iter().chain([&node]).map(|other| self.node(*other).store.timeline());
        let timeline = reached.max().expect("it reaches itself").next();
        let mut candidacy = match Candidacy::begin(&self.node(node).store, &name(node), timeline) {
            Ok(candidacy) => candidacy,
            Err(CandidacyError::Store(error)) => panic!("{error}"),
            Err(CandidacyError::Refused(refused)) => panic!("{refused}"),
        };
        for other in others {
            let answer = self.ask(other, &candidacy);
            if candidacy.note_promise(&name(other), answer).is_err() && self.broken != Broken::ShorterLog {
                self.refused += 1;
                return;
            }
        }
        match candidacy.outcome() {
            Ok(_) => self.promote(node, &candidacy),
            Err(NotPromoted::TooFew { promised, needed, .. })
                if self.broken == Broken::FewPromises && promised + 1 == needed =>
            {
                self.promote(node, &candidacy);
            }
            Err(_) if self.broken == Broken::ShorterLog => self.promote(node, &candidacy),
            Err(_) => self.refused += 1,
        }
    }

    fn ask(&self, node: usize, candidacy: &Candidacy) -> LogStanding {
        let store = &self.node(node).store;
        if self.broken == Broken::NoPromises {
            return store.log_standing();
        }
        store.promise(candidacy.promise()).expect("the timeline is above all that is known")
    }

    fn promote(&mut self, node: usize, candidacy: &Candidacy) {
        let (files, _) = self.lose(node);
        promote(&files, &dir(node), candidacy.promise()).unwrap();
        let store = open_node(&files, node);
        assert_eq!(store.terms().timeline(), candidacy.promise().timeline);
        self.nodes[node] = Some(Node { files, store, role: Role::Primary(Vec::new()) });
        self.current = node;
        self.failovers += 1;
        self.expect_all("a failover");
    }

    /// A primary that has heard of another one follows it.
    fn step_down(&mut self) {
        let node = self.any_node();
        if node == self.current || !self.node(node).is_primary() {
            return;
        }
        // Somebody tells it, if nobody has.
        let promise = crate::promises::Promise::asked_for(self.node(self.current).store.timeline());
        let _ = self.node(node).store.promise(promise);
        let (files, _) = self.lose(node);
        demote(&files, &dir(node)).unwrap();
        self.nodes[node] = Some(Node::replica(files, node));
    }

    fn has(&self, node: usize, id: i32) -> bool {
        let world = self.node(node).store.world();
        world.tables().next().is_some_and(|table| table.get(&key(id)).unwrap().is_some())
    }

    /// What readers see everywhere.
    fn look(&mut self) {
        for node in 0..self.nodes.len() {
            if self.node(node).store.has_confirmed() || self.broken == Broken::Unconfirmed {
                let seen: Vec<_> = (0..self.next).filter(|id| self.has(node, *id)).collect();
                self.shown.extend(seen);
            }
        }
    }

    /// Nothing is lost that somebody was told of, or saw.
    fn expect_all(&mut self, behind: &str) {
        let is_lost = |id: &&i32| !self.has(self.current, **id);
        let kinds = [(&self.acknowledged, "acknowledged"), (&self.shown, "shown")];
        let lost = kinds.into_iter().find_map(|(ids, what)| {
            let lost: Vec<_> = ids.iter().filter(is_lost).collect();
            (!lost.is_empty()).then(|| format!("{lost:?}, {what} before {behind}"))
        });
        self.lost = lost.or(self.lost.take());
    }

    /// Goes on until something is lost, or for so many steps.
    fn run(&mut self) {
        for _ in 0..STEPS {
            self.step();
            if self.lost.is_some() {
                return;
            }
        }
    }
}

/// So many seeds; `COEVAL_FAILOVERS` asks for more.
const SEEDS: u64 = 40;

const STEPS: usize = 2_000;

#[test]
fn nothing_acknowledged_or_shown_is_lost_in_a_failover() {
    let seeds = std::env::var("COEVAL_FAILOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let (mut failovers, mut refused, mut acknowledged, mut copies) = (0, 0, 0, 0);
    for seed in 0..seeds {
        let mut cluster = Cluster::new(seed, Broken::Nothing);
        let outcome = catch_unwind(AssertUnwindSafe(|| cluster.run()));
        assert!(outcome.is_ok(), "seed {seed}");
        assert_eq!(cluster.lost, None, "seed {seed}");
        failovers += cluster.failovers;
        refused += cluster.refused;
        acknowledged += cluster.acknowledged.len();
        copies += cluster.copies;
    }
    println!(
        "{seeds} seeds: {failovers} failovers, {refused} refused, {acknowledged} acknowledged, {copies} copies"
    );
    let seeds = seeds as usize;
    assert!(failovers > seeds && refused > seeds && acknowledged > 10 * seeds, "too little has happened");
}

#[test]
fn each_rule_that_is_not_kept_loses_something() {
    for broken in [Broken::NoPromises, Broken::FewPromises, Broken::ShorterLog, Broken::Unconfirmed] {
        let loses = |seed| {
            let mut cluster = Cluster::new(seed, broken);
            cluster.run();
            cluster.lost.is_some()
        };
        let found = (0..200).find(|seed| loses(*seed));
        println!("{broken:?}: lost with seed {found:?}");
        assert!(found.is_some(), "{broken:?}: nothing was lost");
    }
}
