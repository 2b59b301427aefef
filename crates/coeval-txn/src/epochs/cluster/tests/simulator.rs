// SPDX-License-Identifier: Apache-2.0
//! Machines on a network that loses, repeats, delays and reorders, which stop, return and lose their disks. Keepers die too.
//!
//! One event after another is chosen at random from a seed. The machines run the code of the product; here are only
//! the network, the disks, the users, and what is true. Invariants, after every step or with every read:
//!
//! - whoever has an epoch in its snapshot, wherever and whenever, finds all rows of it in every brick, or none in any;
//!   so a snapshot never changes, and transactions are seen whole or not at all;
//! - what was once seen is never rolled back, and what was acknowledged is seen;
//! - what was acknowledged is in the log, on disk, of every node that serves its bricks, and some node does;
//! - a declared reader that lacks a delete sees nothing that the delete lacks; LSE is below what any reader sees;
//! - a reader that comes with an age that rows name sees all up to it, wherever it comes, and LSE is below it;
//! - a load that is one transaction with rows is seen if these are there, and not if they are not; rows without it name only what is before it;
//! - what is not above somebody's LCE has ended; no epoch is given twice;
//! - a code has one text and a text one code, over all that any node was told at any time; what was told is on the disks of
//!   all that serve its dictionary's place; whatever rows a node has, it has the texts of their codes; whoever knows all texts
//!   sends nothing to get them;
//! - what keepers settle, whichever and wherever they are, is one sequence of views; where machines are gone for good, what `losses` says;
//! - nodes that come get numbers that nobody has had, the same when they ask again; who was removed is in no view any more;
//!   who was drained has no bricks in the end;
//! - when faults end, everything ends within a bound of rounds, and LCE reaches the newest acknowledged epoch everywhere.

mod ages;
mod check;
mod keepers;
mod losses;
mod machine;
mod nodes;
mod rows;
mod run;
mod texts;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::epochs::cluster::rules::Rules;
use crate::epochs::cluster::{
    AskId, BrickAddress, Code, DictionaryId, DictionaryMessage, HolderSays, Incarnation, KeeperSays,
    LoadFate, Member, Message, NodeId, Placement, ReaderId, Spelling, ToKeeper, ViewKeeper, ViewNumber,
    ViewRecord,
};
use crate::epochs::{Epoch, EpochSet};

pub(super) use ages::AGES_FROM;
use ages::RowAges;
use keepers::{Keeping, moves_keeper};
pub(super) use losses::LOSSES_FROM;
use losses::Losses;
use machine::{Bricks, Machine};
use nodes::{Asking, COMING_MAX, changes_nodes};
pub(super) use rows::ROWS_FROM;
use rows::RowTransactions;

/// The rows of an append: numbers that no other append has, and the texts of their codes. Which code a row has, its number
/// tells (`Simulation::row_codes`).
#[derive(Clone, Debug, Default)]
struct Rows {
    numbers: Vec<u64>,
    texts: Vec<(DictionaryId, Spelling)>,
}

impl Rows {
    /// One row, as a copy has it.
    fn of(number: u64) -> Self {
        Self { numbers: vec![number], texts: Vec::new() }
    }
}

/// Consecutive nodes, beginning with the brick's own.
#[derive(Clone, Copy, Debug)]
struct Ring {
    replicas: usize,
}

impl Placement for Ring {
    fn holders(&self, nodes: &[NodeId], brick: BrickAddress) -> Vec<NodeId> {
        let first = usize::try_from(brick.brick).unwrap();
        (0..self.replicas.min(nodes.len())).map(|index| nodes[(first + index) % nodes.len()]).collect()
    }
}

const BRICKS: u64 = 4;

fn bricks() -> impl Iterator<Item = BrickAddress> {
    (0..BRICKS).map(|brick| BrickAddress { table: 1, brick })
}

/// What is true of a transaction.
#[derive(Debug)]
struct Truth {
    owner: Member,
    rows: BTreeMap<BrickAddress, Vec<u64>>,
    told: Option<LoadFate>,
    /// The view of the node that has told it.
    told_in: ViewNumber,
    /// Whether those who have it in their snapshot find its rows.
    is_visible: Option<bool>,
    /// The view of the node where somebody has found that first.
    seen_in: ViewNumber,
    /// Of a delete: what it sees, once that is known. Its rows are markers.
    delete: Option<Option<EpochSet>>,
}

/// A snapshot that a machine's user holds.
struct Held {
    owner: Member,
    own: Option<Epoch>,
    reader: Option<ReaderId>,
    set: EpochSet,
}

/// Bricks that one machine is to get from another.
#[derive(Clone)]
struct Copying {
    to: usize,
    from: Member,
    view: ViewNumber,
    /// What is under way, once it was given.
    given: Option<Gift>,
}

/// What one machine gives another.
#[derive(Clone)]
struct Gift {
    bricks: Bricks,
    /// The texts of the codes in them.
    texts: Vec<(DictionaryId, Spelling)>,
    /// The dictionaries that come too, by themselves.
    dictionaries: Vec<DictionaryId>,
}

/// What has happened in a run, to see that enough has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) committed: usize,
    pub(super) rolled_back: usize,
    pub(super) unknown: usize,
    pub(super) closed_committed: usize,
    pub(super) reads: usize,
    pub(super) views: usize,
    pub(super) crashes: usize,
    pub(super) losses: usize,
    pub(super) deletes: usize,
    pub(super) declared: usize,
    /// How often bricks came to be placed on other nodes, before faults ended.
    pub(super) moves: usize,
    /// How often LSE moved.
    pub(super) safe: usize,
    /// How many asks for codes were answered.
    pub(super) answered: usize,
    /// How many failed.
    pub(super) unanswered: usize,
    /// How often somebody wanted codes and knew them all.
    pub(super) asked_nobody: usize,
    /// How many rows with a code were logged, on whichever machine.
    pub(super) spelled: usize,
    /// How many machines came.
    pub(super) came: usize,
    /// How many nodes were drained.
    pub(super) drained: usize,
    /// How many were removed for good.
    pub(super) removed: usize,
    /// How many readers came with the age of their rows.
    pub(super) by_age: usize,
    /// How many transactions with rows had these committed.
    pub(super) with_rows: usize,
    /// How often a keeper asked what became of rows.
    pub(super) rows_asked: usize,
    /// How many keepers began after another one.
    pub(super) keepers: usize,
    /// How many machines are gone for good.
    pub(super) gone: usize,
    /// How many keepers began without lost nodes, and had their first record settled.
    pub(super) recovered: usize,
    /// How many of these had views given up.
    pub(super) given_up: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.unknown += other.unknown;
        self.closed_committed += other.closed_committed;
        self.reads += other.reads;
        self.views += other.views;
        self.crashes += other.crashes;
        self.losses += other.losses;
        self.deletes += other.deletes;
        self.declared += other.declared;
        self.moves += other.moves;
        self.safe += other.safe;
        self.answered += other.answered;
        self.unanswered += other.unanswered;
        self.asked_nobody += other.asked_nobody;
        self.spelled += other.spelled;
        self.came += other.came;
        self.drained += other.drained;
        self.removed += other.removed;
        self.by_age += other.by_age;
        self.with_rows += other.with_rows;
        self.rows_asked += other.rows_asked;
        self.keepers += other.keepers;
        self.gone += other.gone;
        self.recovered += other.recovered;
        self.given_up += other.given_up;
    }
}

/// What goes wrong besides messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Messages are lost, late, or come twice.
    Network,
    /// Machines stop too, return, are replaced, and taken for dead.
    Machines,
}

struct Simulation {
    random: StdRng,
    /// What happens to dictionaries is chosen by this.
    texts_random: StdRng,
    /// What happens to the list of nodes is chosen by this.
    nodes_random: StdRng,
    /// Whether nodes come and go.
    changes_nodes: bool,
    /// What rows name, in runs in which readers come with that.
    row_ages: Option<RowAges>,
    /// Loads that are one transaction with rows, in runs in which there are some.
    row_transactions: Option<RowTransactions>,
    /// So many machines there are at most, and so many numbers.
    nodes_max: u32,
    /// The machine that is coming.
    asking: Option<Asking>,
    /// What happens to keepers is chosen by this.
    keepers_random: StdRng,
    /// Whether keepers come one after the other.
    moves_keeper: bool,
    /// Those that there are then, the newest last.
    keepers: Vec<Keeping>,
    /// So many there have been.
    terms: u64,
    to_holders: Vec<(usize, KeeperSays)>,
    to_keepers: Vec<HolderSays>,
    /// Who is gone for good, in runs in which somebody is.
    losses: Option<Losses>,
    /// How often machines break: so often for 100 other events.
    storm: u32,
    /// A machine that nothing reaches and that reaches nobody, for a while.
    isolated: Option<usize>,
    ring: Ring,
    rules: Rules,
    machines: Vec<Machine>,
    /// The keeper. If they come one after the other, it has what is settled, and decides nothing.
    keeper: ViewKeeper,
    /// The keeper's log, or what is settled.
    records: Vec<ViewRecord>,
    network: Vec<Message<Rows>>,
    text_network: Vec<DictionaryMessage>,
    to_keeper: Vec<ToKeeper>,
    copies: Vec<Copying>,
    truth: BTreeMap<Epoch, Truth>,
    held: Vec<Held>,
    /// The snapshots that declared readers have got, each with the view of the node that has given it.
    declared: Vec<(Epoch, ViewNumber)>,
    next_row: u64,
    /// The rows that have a code.
    row_codes: BTreeMap<u64, (DictionaryId, Code)>,
    /// What codes mean, and texts, for all that anybody was ever told.
    told_texts: BTreeMap<(DictionaryId, Code), Arc<str>>,
    told_codes: BTreeMap<(DictionaryId, Arc<str>), Code>,
    /// By machine and ask: the texts that readers look for and have to find.
    finds: BTreeMap<(usize, AskId), BTreeSet<Arc<str>>>,
    counts: Counts,
    violation: Option<String>,
}

/// Runs the schedule of a seed: what has happened, or the first violation.
pub(super) fn simulate(seed: u64, faults: Faults, rules: Rules) -> Result<Counts, String> {
    let run = || {
        let mut simulation = Simulation::new(seed, faults, rules);
        simulation.run().map(|()| simulation.counts)
    };
    // A rule that is left out may also be caught by an assertion of the code under test.
    let result = std::panic::catch_unwind(run);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("an assertion failed: {}", text.unwrap_or_default()))
    })
}

impl Simulation {
    fn new(seed: u64, faults: Faults, rules: Rules) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let count: u32 = [2, 2, 3, 3, 3, 4, 4, 5][random.random_range(0..8)];
        let ring = Ring { replicas: [1, 2, 2, 2, 3, 3][random.random_range(0..6)].min(count as usize) };
        let losses = Losses::of_run(seed, faults);
        let changes_nodes = losses.is_none() && changes_nodes(seed, faults);
        let nodes_max = if changes_nodes { count + COMING_MAX } else { count };
        let storm = if faults == Faults::Machines { random.random_range(1..8) } else { 0 };
        let member = |node| Member { node: NodeId::new(node), incarnation: Incarnation::new(1) };
        let founders: Vec<Member> = (1..=count).map(member).collect();
        let (mut keeper, record) = ViewKeeper::found(&founders, ring.replicas);
        keeper.keep_rules(rules);
        let machines =
            founders.iter().map(|founder| Machine::new(*founder, nodes_max, ring, rules)).collect();
        let mut simulation = Self {
            random,
            // Not the same one: what happens to epochs does not depend on what happens to dictionaries, but by their logs.
            texts_random: StdRng::seed_from_u64(!seed),
            nodes_random: StdRng::seed_from_u64(seed ^ (1 << 63)),
            changes_nodes,
            row_ages: (seed >= AGES_FROM && losses.is_none()).then(RowAges::default),
            row_transactions: (seed >= ROWS_FROM && losses.is_none()).then(RowTransactions::default),
            nodes_max,
            asking: None,
            keepers_random: StdRng::seed_from_u64(seed ^ (1 << 62)),
            moves_keeper: losses.is_some() || moves_keeper(seed, faults),
            keepers: Vec::new(),
            terms: 0,
            to_holders: Vec::new(),
            to_keepers: Vec::new(),
            losses,
            storm,
            isolated: None,
            ring,
            rules,
            machines,
            keeper,
            records: vec![record],
            network: Vec::new(),
            text_network: Vec::new(),
            to_keeper: Vec::new(),
            copies: Vec::new(),
            truth: BTreeMap::new(),
            held: Vec::new(),
            declared: Vec::new(),
            next_row: 0,
            row_codes: BTreeMap::new(),
            told_texts: BTreeMap::new(),
            told_codes: BTreeMap::new(),
            finds: BTreeMap::new(),
            counts: Counts::default(),
            violation: None,
        };
        for machine in 0..simulation.machines.len() {
            simulation.expect_ages(machine);
            // A cluster is founded by nodes that have a log.
            simulation.pump(machine);
            simulation.sync(machine, 1);
        }
        simulation.found_keepers();
        simulation
    }

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.random.random_range(0..count) == 0
    }

    fn any_machine(&mut self) -> usize {
        self.random.random_range(0..self.machines.len())
    }
}
