// SPDX-License-Identifier: Apache-2.0
//! Three or five machines over a network that delays and cuts, disks that lose what was not synced, processes that die anywhere,
//! primaries that run on while another one is promoted.
//!
//! Everything happens on one thread, as a seed says. Commits wait for any one of three machines beside the primary, or any
//! two of five; or for so many that one machine or two may be promoted without the others ([`Extra::Most`]). A replica is promoted by
//! the product's own rules (`candidacy.rs`) with the promises of those that it reaches; the primary need not be dead. Readers look at a store once it [has confirmed](Store::has_confirmed) what it was opened with, as a
//! server lets them in.
//!
//! A former primary that comes back is cut back by the product's own rule and steps (`former_primary.rs`, `rewinding.rs`), or, where
//! that does not go, follows as it is until it is given a copy. So is a replica that followed one too far, when it meets the new
//! primary. Now and then a machine dies while it is cut back, and goes on with that.
//!
//! # The network
//! A connection is a stream: what arrives is in order and without holes. So what a network drops is the end of a connection
//! (a cut: what was on its way either way is gone), and what it sends twice comes with the next connection. That one begins
//! where the replica has its log, or, every second time, where it has it *synced*: records come again that it has. It refuses
//! those, and is as before. Acknowledgements arrive late, in any mixture with records.
//!
//! # What else may happen
//! Chains, changes of the list of synchronous replicas, and slots: [`beyond`].

mod beyond;

use super::{SimulatedFiles, Store, copy_to, feed_of, log_options, options, sizes};
use crate::candidacy::{Candidacy, CandidacyError, NotPromoted};
use crate::disk::LOG_DIR;
use crate::error::StoreError;
use crate::files::{Fault, Lie};
use crate::following::rewinding::rewind_if;
use crate::following::{
    CopyWriter, Fed, FollowError, Follower, FormerPrimary, LogFeed, ReplicaSession, WayBack, demote,
    go_on_rewinding, is_replica, promote, rewind,
};
use crate::log::{LogError, LogRecord, Lsn};
use crate::promises::{LogStanding, Promise};
use crate::replicas::{ReplicaChoice, SynchronousCommit, SynchronousReplicas};
use crate::terms::{TermHistory, TermNumber, Timeline};
use beyond::Beyond;
pub(super) use beyond::{Extra, Happened};
use coeval_txn::Version;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Nothing,
    /// Others say how long their logs are, and promise nothing.
    NoPromises,
    /// One promise less is enough.
    FewPromises,
    /// Whoever asks is promoted, whatever the others have.
    ShorterLog,
    /// Readers are let in at once.
    Unconfirmed,
    /// Replicas are told that safe snapshots may go as far as the primary has published, whoever is active there.
    UnsafeBoundary,
    /// A primary is cut back to the log of whoever takes itself for one, though that has not come after it.
    AnySuccessor,
    /// So is a replica, whatever it has followed or promised.
    AnyUpstream,
    /// A replica shows what it has taken, whether or not that is published.
    ShownAtOnce,
    /// A replica that is opened again has forgotten what it has promised.
    PromisesForgotten,
    /// Disks say that the log is synced, and it is not.
    LyingDisks,
    /// Of two logs the longer one is that which ends at a higher place, whatever their last terms are.
    PlacesAlone,
    /// A replica of a replica is told that safe snapshots may go as far as that one shows.
    ChainBoundary,
    /// Commits wait for a new list of replicas alone, from the moment on in which it is asked for.
    ListAtOnce,
    /// A primary that is opened again while one list follows another waits for the new one alone.
    ListForgotten,
    /// All candidates for a timeline of one number are one.
    OneCandidate,
    /// Slots keep nothing.
    SlotsIgnored,
    /// Slots keep as much as they like.
    SlotsUnbounded,
    /// A replica acknowledges what it has taken, which it has not synced. Now and then it dies behind that, and somebody tries to be promoted.
    AcknowledgedUnsynced,
    /// A candidate needs promises by the newest list alone, also while that follows another one. It reaches fewer.
    NewestListAlone,
    /// A replica of a replica shows what it has taken, whether or not that is published.
    ChainShowsAll,
}

/// What clients do with the machines, and what is looked at.
pub(super) trait Clients: Sized {
    /// How many of a hundred steps disturb nobody: clients of transactions that last need machines that do.
    const CALM: u32;

    /// So many steps has a run.
    const STEPS: usize;

    /// What they have open at one machine. It goes with its process.
    type Open: Default;

    /// Makes the table that they use.
    fn prepare(store: &Store);

    /// Some client does something.
    fn act(cluster: &mut Cluster<Self>);

    /// Clients are told of commits that may be acknowledged.
    fn acknowledge(cluster: &mut Cluster<Self>);

    /// After each step.
    fn look(cluster: &mut Cluster<Self>);

    /// The primary of the highest timeline was opened anew: what is lost is noted.
    fn look_for_losses(cluster: &mut Cluster<Self>, behind: &str);
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
    // What waits for nobody is seen before it is synced, which is a step of its own here.
    store.shared.pipeline.publishing.begin_syncer();
    store
}

fn deceive(files: &SimulatedFiles, node: usize, broken: Broken) {
    if broken == Broken::LyingDisks {
        files.tell_about(Lie::IgnoreSync, &dir(node).join(LOG_DIR));
    }
}

/// Whether whoever committed this version may be told so. Nobody is asked to do anything for it.
pub(super) fn is_acknowledged(store: &Store, version: Version) -> bool {
    store.shared.pipeline.publishing.is_acknowledged(version)
}

/// What is on its way between a primary and a replica. A cut loses it.
struct Connection {
    to: usize,
    feed: LogFeed,
    /// Whether a slot has all that comes next.
    is_kept: bool,
    session: ReplicaSession,
    to_replica: VecDeque<Fed>,
    to_primary: VecDeque<(Lsn, Lsn)>,
}

/// What a machine is. Dropped with its process, so that nobody holds its directory.
enum Role {
    Primary,
    Replica(Follower, Option<Box<Connection>>),
}

pub(super) struct Node<O> {
    files: SimulatedFiles,
    pub(super) store: Store,
    role: Role,
    /// What clients have open here.
    pub(super) open: O,
}

impl<O: Default> Node<O> {
    fn primary(files: SimulatedFiles, store: Store) -> Self {
        Self { files, store, role: Role::Primary, open: O::default() }
    }

    fn replica(files: SimulatedFiles, node: usize) -> Self {
        let (store, follower) = {
            let files = Arc::new(files.clone());
            Store::open_follower_tuned(files, &dir(node), options(), log_options(), sizes()).unwrap()
        };
        Self { files, store, role: Role::Replica(follower, None), open: O::default() }
    }

    pub(super) fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary)
    }

    /// Whether it takes commits.
    pub(super) fn is_writable(&self) -> bool {
        self.is_primary() && self.store.superseded_by().is_none()
    }
}

pub(super) struct Cluster<C: Clients> {
    pub(super) dice: SmallRng,
    /// Of candidates: others than those of the run itself.
    candidates: SmallRng,
    pub(super) broken: Broken,
    nodes: Vec<Option<Node<C::Open>>>,
    pub(super) clients: C,
    pub(super) level: SynchronousCommit,
    /// The primary of the highest timeline.
    pub(super) current: usize,
    /// An attempt was refused behind promises that keep commits from being acknowledged: the next one comes soon.
    is_undecided: bool,
    /// What is lost, and behind what.
    pub(super) lost: Option<String>,
    /// Two terms of one number that differ.
    pub(super) two_terms: Option<String>,
    pub(super) counts: Counts,
    beyond: Beyond,
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) failovers: usize,
    pub(super) refused: usize,
    pub(super) copies: usize,
    /// Former primaries that were cut back.
    pub(super) rewound: usize,
    /// Replicas that were.
    pub(super) replicas_rewound: usize,
    /// Records that came again.
    pub(super) again: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.failovers += other.failovers;
        self.refused += other.refused;
        self.copies += other.copies;
        self.rewound += other.rewound;
        self.replicas_rewound += other.replicas_rewound;
        self.again += other.again;
    }
}

/// Gives records to a replica, and first all that came again, which it refuses. How many these were.
fn take_records(follower: &mut Follower, records: &[LogRecord]) -> (usize, Result<(), FollowError>) {
    let position = follower.position();
    let again = records.iter().take_while(|record| record.end <= position).count();
    if again > 0 {
        let refused = follower.take(records);
        assert!(matches!(refused, Err(FollowError::OutOfPlace { .. })), "{refused:?}");
        assert_eq!(follower.position(), position, "nothing was taken twice");
    }
    (again, follower.take(&records[again..]))
}

impl<C: Clients> Cluster<C> {
    pub(super) fn new(seed: u64, broken: Broken, clients: C) -> Self {
        Self::with(seed, broken, clients, Extra::Nothing)
    }

    /// One to which this happens, too.
    pub(super) fn with(seed: u64, broken: Broken, clients: C, extra: Extra) -> Self {
        let (count, needed) = if seed.is_multiple_of(3) { (5, 2) } else { (3, 1) };
        let needed = needed + usize::from(extra.asks_for_most());
        let files = SimulatedFiles::new(seed * 10);
        deceive(&files, 0, broken);
        let store = open_node(&files, 0);
        C::prepare(&store);
        let any = SynchronousReplicas {
            count: needed,
            choice: ReplicaChoice::Any,
            names: (0..count).map(name).collect(),
            primary: name(0),
            before: Vec::new(),
        };
        store.require_replicas(Some(any)).unwrap();
        let mut nodes: Vec<Option<Node<C::Open>>> = (0..count).map(|_| None).collect();
        nodes[0] = Some(Node::primary(files, store));
        let mut cluster = Self {
            dice: SmallRng::seed_from_u64(seed),
            candidates: SmallRng::seed_from_u64(seed.rotate_left(32)),
            broken,
            nodes,
            clients,
            level: if seed.is_multiple_of(2) {
                SynchronousCommit::On
            } else {
                SynchronousCommit::RemoteApply
            },
            current: 0,
            is_undecided: false,
            lost: None,
            two_terms: None,
            counts: Counts::default(),
            beyond: Beyond::new(seed, extra),
        };
        (1..count).for_each(|node| cluster.copy(node, 0));
        cluster
    }

    pub(super) fn node(&self, node: usize) -> &Node<C::Open> {
        self.nodes[node].as_ref().expect("it is open between steps")
    }

    pub(super) fn node_mut(&mut self, node: usize) -> &mut Node<C::Open> {
        self.nodes[node].as_mut().expect("it is open between steps")
    }

    pub(super) fn any_node(&mut self) -> usize {
        self.dice.random_range(0..self.nodes.len())
    }

    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// One that writes its log, perhaps not knowing that another one does.
    pub(super) fn any_writable(&mut self) -> Option<usize> {
        let writable: Vec<_> = (0..self.nodes.len()).filter(|node| self.node(*node).is_writable()).collect();
        (!writable.is_empty()).then(|| writable[self.dice.random_range(0..writable.len())])
    }

    /// Gives a machine a copy of a primary's database, in the place of what it has.
    fn copy(&mut self, node: usize, from: usize) {
        if !self.node(from).is_writable() {
            return;
        }
        self.leave(node);
        self.beyond.forget_slots(node);
        self.nodes[node] = None;
        let files = SimulatedFiles::new(self.dice.random());
        deceive(&files, node, self.broken);
        let primary = &self.node(from).store;
        primary.checkpoint().unwrap();
        let copying = CopyWriter::begin(Arc::new(files.clone()), &dir(node)).unwrap();
        copying.note_timeline(primary.terms().timeline()).unwrap();
        drop(copying);
        copy_to(primary, &files, &dir(node));
        self.nodes[node] = Some(Node::replica(files, node));
        self.counts.copies += 1;
    }

    fn step(&mut self) {
        let is_calm = self.dice.random_range(0..100) < C::CALM;
        match self.dice.random_range(0..if is_calm { 900 } else { 1_000 }) {
            0..180 => C::act(self),
            180..280 => self.sync(),
            280..430 => C::acknowledge(self),
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
            _ if self.is_undecided => self.stand(),
            _ => C::acknowledge(self),
        }
        self.go_beyond();
        C::look(self);
    }

    fn sync(&mut self) {
        let Some(node) = self.any_writable() else { return };
        let shared = &self.node(node).store.shared;
        let version = shared.applied().version();
        shared.wait_for(version, crate::publishing::Until::Durable, None).unwrap();
        // What nobody waits for is synced for those who follow a moment later; no time passes here.
        let log = shared.pipeline.log().expect("a machine has a log");
        log.sync(log.end_lsn()).unwrap();
        shared.pipeline.publishing.go_on(shared);
    }

    fn step_replica(&mut self) {
        let node = self.any_node();
        let dice = self.dice.random_range(0..4);
        let (is_unsynced, mut is_confirmed) = (self.broken == Broken::AcknowledgedUnsynced, false);
        let Role::Replica(follower, connection) = &mut self.node_mut(node).role else { return };
        let Some(open) = connection else {
            self.connect(node);
            return;
        };
        let Connection { to, feed, is_kept, session, to_replica, to_primary } = &mut **open;
        let (to, is_kept) = (*to, *is_kept);
        match dice {
            0 => match feed.next_piece() {
                Ok(fed) => to_replica.extend(fed),
                Err(StoreError::Log(gone @ LogError::Gone { .. })) if is_kept => {
                    self.complain(format!("what a slot on node {to} keeps for node {node}: {gone}"));
                }
                // It comes back and makes the slot anew, from where it is.
                Err(StoreError::Slot(_)) => self.cut(node),
                Err(_) if to == self.current => self.copy(node, to),
                Err(_) => self.cut(node),
            },
            1 => {
                if let Some(piece) = to_replica.pop_front() {
                    self.take(node, to, piece);
                }
            }
            2 => {
                if !is_unsynced {
                    follower.sync().unwrap();
                }
                match follower.acknowledgement() {
                    Ok(told) if is_unsynced => to_primary.push_back((told.written, told.shown)),
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
                    is_confirmed = true;
                }
            }
        }
        if is_unsynced && is_confirmed {
            self.die_behind_acknowledgement(node);
        }
    }

    /// Whoever has acknowledged something dies when a client has been told, and others look for a new primary.
    fn die_behind_acknowledgement(&mut self, node: usize) {
        if self.dice.random_bool(0.1) {
            C::acknowledge(self);
            let (files, _) = self.lose(node);
            self.nodes[node] = Some(Node::replica(files, node));
            self.stand();
        }
    }

    /// A piece arrives at a replica.
    fn take(&mut self, node: usize, from: usize, piece: Fed) {
        let is_chained = !self.node(from).is_primary();
        let is_safe =
            self.broken != Broken::UnsafeBoundary && !(is_chained && self.broken == Broken::ChainBoundary);
        let shows_at_once =
            self.broken == Broken::ShownAtOnce || (is_chained && self.broken == Broken::ChainShowsAll);
        let published = self.node(from).store.world().version();
        let Role::Replica(follower, connection) = &mut self.node_mut(node).role else { return };
        match piece {
            Fed::Records(records) => {
                let (again, outcome) = take_records(follower, &records);
                match outcome {
                    Ok(()) if shows_at_once => follower.note_all_published(),
                    Ok(()) => {}
                    Err(FollowError::Superseded { .. }) => *connection = None,
                    Err(error) => panic!("{error}"),
                }
                self.counts.again += again;
            }
            Fed::Published(version) => follower.note_published(version),
            Fed::Boundary(boundary) => follower.note_boundary(if is_safe { boundary } else { published }),
            Fed::File(..) => unreachable!("nothing is loaded"),
        }
    }

    /// A replica looks for somebody to follow.
    fn connect(&mut self, node: usize) {
        let to = self.any_node();
        let is_offered = to != node && (self.node(to).is_primary() || self.beyond.takes_replica());
        if !is_offered || self.beyond.is_away(node) {
            return;
        }
        let (primary, sends_again) = (self.node(to).store.clone(), self.dice.random_bool(0.5));
        let timeline = primary.terms().timeline();
        let Role::Replica(follower, _) = &mut self.node_mut(node).role else { return };
        if follower.begin_following(timeline).is_err() {
            if self.broken == Broken::AnyUpstream {
                self.cut_back_replica(node, &primary.terms());
            }
            return;
        }
        let begun = feed_of(&primary, follower).and_then(|feed| {
            let term = follower.terms().last().map(|term| term.id);
            // The other one has shown that both histories are one up to where the replica is.
            let from_synced = || Ok(primary.log_feed(term, follower.durable())?.ahead_of_publication());
            if sends_again { from_synced() } else { Ok(feed) }
        });
        match begun {
            Ok(feed) => self.begin_connection(node, to, feed),
            Err(StoreError::ForeignHistory(_)) => {
                let is_cut_back = self.cut_back_replica(node, &primary.terms());
                // One that was left behind by the others has nothing to give.
                if !is_cut_back && to == self.current {
                    self.copy(node, to);
                }
            }
            Err(_) => {}
        }
    }

    /// Cuts a replica back to the log of a primary with these terms, if that is to be done. Whether it was.
    fn cut_back_replica(&mut self, node: usize, new: &TermHistory) -> bool {
        let Role::Replica(follower, _) = &self.node(node).role else { return false };
        let own = follower.as_former_primary();
        // Only who was promoted has what was acknowledged by replicas.
        let was_promoted = new.timeline() > own.terms.timeline() && new.timeline() >= own.promised;
        let WayBack::CutBack(parting) = own.way_back(new) else { return false };
        if !was_promoted && self.broken != Broken::AnyUpstream {
            return false;
        }
        let (files, _) = self.lose(node);
        // The crash may have taken what it had not synced.
        let left = FormerPrimary::look(&files, &dir(node)).unwrap();
        let is_beyond = matches!(left.way_back(new), WayBack::CutBack(found) if found.at == parting.at);
        let files = if is_beyond { self.cut_back(node, files, parting.at, new) } else { files };
        self.counts.replicas_rewound += usize::from(is_beyond);
        self.nodes[node] = Some(Node::replica(files, node));
        true
    }

    fn begin_connection(&mut self, node: usize, to: usize, feed: LogFeed) {
        let Some((feed, is_kept)) = self.by_slot(node, to, feed) else { return };
        let session = self.node(to).store.replica_session(&name(node));
        let (to_replica, to_primary) = Default::default();
        let open = Connection { to, feed, is_kept, session, to_replica, to_primary };
        if let Role::Replica(_, connection) = &mut self.node_mut(node).role {
            *connection = Some(Box::new(open));
        }
    }

    fn cut(&mut self, node: usize) {
        if let Role::Replica(_, connection) = &mut self.node_mut(node).role {
            *connection = None;
        }
    }

    /// Whoever is connected to a machine is not any more.
    fn leave(&mut self, node: usize) {
        for other in self.nodes.iter_mut().flatten() {
            if let Role::Replica(_, connection) = &mut other.role {
                connection.take_if(|connection| connection.to == node);
            }
        }
    }

    /// Closes a machine whose process dies; who is connected to it is not any more. Its files, as the disk has them.
    fn lose(&mut self, node: usize) -> (SimulatedFiles, bool) {
        self.leave(node);
        let Node { files, store, role, open } = self.nodes[node].take().expect("it is open between steps");
        let is_primary = matches!(role, Role::Primary);
        // First of all: what is closed syncs its log, which a machine that has stopped does not.
        let left = files.crash();
        drop((role, open));
        drop(store);
        (left, is_primary)
    }

    /// A machine dies and comes back as what it was.
    fn restart(&mut self) {
        let node = self.any_node();
        let (files, is_primary) = self.lose(node);
        self.nodes[node] = Some(if is_primary {
            let store = open_node(&files, node);
            self.forget_lists_before(&store);
            Node::primary(files, store)
        } else {
            self.forget_promise(&files, node);
            Node::replica(files, node)
        });
        if node == self.current {
            C::look_for_losses(self, "a crash");
        }
    }

    /// A replica tries to be promoted, with those that it reaches.
    fn stand(&mut self) {
        let node = self.any_node();
        if self.node(node).is_primary() {
            return;
        }
        let mut others: Vec<_> = (0..self.nodes.len()).filter(|other| *other != node).collect();
        // Where few have to promise, few are asked now and then: others may find as many.
        let asks_few = self.beyond.asks_for_most() || self.broken == Broken::NewestListAlone;
        let reach = if asks_few { 0.4 } else { 0.85 };
        // A primary that runs has more than others, mostly.
        let primaries: Vec<_> = others.iter().map(|other| self.node(*other).is_primary()).collect();
        let mut primaries = primaries.into_iter();
        others.retain(|_| {
            let is_primary = primaries.next().expect("one for each");
            self.dice.random_bool(if is_primary { 0.1 } else { reach })
        });
        let reached = others.iter().chain([&node]).map(|other| self.node(*other).store.timeline());
        let timeline = reached.max().expect("it reaches itself").next();
        let promise = Promise::of(timeline, self.candidate(timeline));
        let mut candidacy = match Candidacy::begin_with(&self.node(node).store, &name(node), promise) {
            Ok(candidacy) => candidacy,
            Err(CandidacyError::Store(error)) => panic!("{error}"),
            Err(CandidacyError::Refused(_)) if self.beyond.changes_lists() => return,
            Err(CandidacyError::Refused(refused)) => panic!("{refused}"),
        };
        for other in others {
            let mut answer = self.ask(other, &candidacy);
            if self.broken == Broken::PlacesAlone {
                let own = self.node(node).store.log_standing();
                (answer.timeline, answer.term) = (own.timeline, own.term);
            }
            if candidacy.note_promise(&name(other), answer).is_err() && self.broken != Broken::ShorterLog {
                self.refuse();
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
            Err(_) if self.broken == Broken::NewestListAlone && candidacy.has_enough_by_newest_list() => {
                self.promote(node, &candidacy);
            }
            Err(_) if self.broken == Broken::ShorterLog => self.promote(node, &candidacy),
            Err(_) => self.refuse(),
        }
    }

    /// The number of one that tries to be promoted to this timeline.
    fn candidate(&mut self, timeline: Timeline) -> u64 {
        let candidate = self.candidates.random_range(1..=u64::MAX / 2);
        // Even: whether it is a candidate's own the lists say.
        2 * if self.broken == Broken::OneCandidate { u64::from(timeline.get()) } else { candidate }
    }

    fn refuse(&mut self) {
        self.counts.refused += 1;
        self.is_undecided = true;
    }

    fn ask(&self, node: usize, candidacy: &Candidacy) -> LogStanding {
        let store = &self.node(node).store;
        if self.broken == Broken::NoPromises {
            return store.log_standing();
        }
        store.promise(candidacy.promise()).expect("the timeline is above all that is known")
    }

    fn promote(&mut self, node: usize, candidacy: &Candidacy) {
        let highest = self.node(self.current).store.terms().timeline();
        let (files, _) = self.lose(node);
        promote(&files, &dir(node), candidacy.promise()).unwrap();
        let store = open_node(&files, node);
        self.forget_lists_before(&store);
        assert_eq!(store.terms().timeline(), candidacy.promise().timeline);
        // Where few have to promise, others may have promised a higher one.
        let is_highest = store.terms().timeline() > highest || !self.beyond.asks_for_most();
        self.nodes[node] = Some(Node::primary(files, store));
        if is_highest {
            self.current = node;
        }
        self.counts.failovers += 1;
        self.is_undecided = false;
        self.look_at_terms();
        C::look_for_losses(self, "a failover");
    }

    /// A primary that has heard of another one follows it.
    fn step_down(&mut self) {
        let node = self.any_node();
        let to = if self.broken == Broken::AnySuccessor { self.any_node() } else { self.current };
        if node == to || !self.node(node).is_primary() || !self.node(to).is_primary() {
            return;
        }
        // Somebody tells it, if nobody has.
        let (new, timeline) = (self.node(to).store.terms(), self.node(to).store.timeline());
        let _ = self.node(node).store.promise(Promise::of_begun(timeline));
        let (files, _) = self.lose(node);
        let files = self.make_follow(node, files, &new);
        self.nodes[node] = Some(Node::replica(files, node));
        if node == self.current {
            C::look_for_losses(self, "a return");
        }
    }

    /// Makes the directory of a former primary a replica's: of a log of these terms, if those come after its own. Its files then.
    fn make_follow(&mut self, node: usize, files: SimulatedFiles, new: &TermHistory) -> SimulatedFiles {
        let former = FormerPrimary::look(&files, &dir(node)).unwrap();
        let term = TermNumber(new.last().map_or(0, |term| term.number));
        let timeline = new.timeline();
        let has_come_after = timeline >= former.promised && former.comes_before(timeline, term);
        let is_followed = has_come_after || self.broken == Broken::AnySuccessor;
        let parting = match former.way_back(new) {
            WayBack::CutBack(parting) if is_followed => parting,
            _ => {
                demote(&files, &dir(node)).unwrap();
                return files;
            }
        };
        self.counts.rewound += 1;
        self.cut_back(node, files, parting.at, new)
    }

    /// Cuts a machine's log back. Its files then.
    fn cut_back(
        &mut self,
        node: usize,
        files: SimulatedFiles,
        place: Lsn,
        new: &TermHistory,
    ) -> SimulatedFiles {
        let is_done = |files: &SimulatedFiles| {
            is_replica(files, &dir(node)).unwrap()
                && FormerPrimary::look(files, &dir(node)).unwrap().end == place
        };
        let is_kept = self.broken == Broken::Nothing;
        let cut = |files: &SimulatedFiles| {
            let timeline = new.timeline();
            if is_kept {
                rewind(files, &dir(node), place, timeline)
            } else {
                // Whoever takes the wrong one for the primary is not stopped here either.
                rewind_if(files, &dir(node), (place, timeline), |_, _, _| Ok(()))
            }
        };
        // Every second time it dies meanwhile, or not quite.
        if self.dice.random_bool(0.5) {
            files.fail_after(self.dice.random_range(0..80), Fault::Io);
        }
        if cut(&files).is_ok() {
            files.heal();
            return files;
        }
        let files = files.crash();
        let has_gone_on = go_on_rewinding(&files, &dir(node)).unwrap().is_some();
        if !has_gone_on && !is_done(&files) {
            cut(&files).unwrap();
        }
        files
    }

    /// Two primaries of one term would have given it two ids, or begun it at two places. Where few have to promise, timelines of one
    /// number may be those of two candidates.
    fn look_at_terms(&mut self) {
        let has_two_of_a_number = self.beyond.asks_for_most();
        let mut known = BTreeMap::new();
        for node in 0..self.nodes.len() {
            let terms = self.node(node).store.terms();
            for (place, term) in terms.terms().iter().enumerate() {
                let timeline = TermHistory::of(&terms.terms()[..=place]).timeline();
                let candidate = if has_two_of_a_number { timeline.candidate() } else { 0 };
                let before = known.insert((candidate, term.number), *term);
                if let Some(other) = before.filter(|other| other != term) {
                    self.two_terms = Some(format!("{other}, and {term} on node {node}"));
                }
            }
        }
    }

    /// Goes on until something is lost, or for so many steps.
    pub(super) fn run(&mut self) {
        for _ in 0..C::STEPS * self.beyond.length() {
            self.step();
            if self.lost.is_some() {
                return;
            }
        }
        self.look_at_terms();
    }
}
