// SPDX-License-Identifier: Apache-2.0
//! Some nodes, random transactions, and a network that delivers any message that is under way next.
//!
//! What is checked, against the truth that no node knows (which transactions have been decided, how many rows they
//! have where):
//!
//! - a read finds all rows of each other transaction of its snapshot that is committed, none of one that was rolled
//!   back, and no transaction of the snapshot is undecided; so a repeated read finds the same;
//! - a transaction that begins is in nobody's snapshot (case 5), whether writer's or reader's;
//! - what all nodes know as committed before a transaction begins is in its snapshot;
//! - the five cases, when a snapshot is made; nothing up to a node's LCE is undecided.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::{ClusterEpoch, EpochMessage, EpochNode, EpochRequest};
use crate::epochs::{Epoch, EpochSet, Stride};

/// A rule that the simulated cluster does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    NoPendingLists,
    NoClocks,
    ReadBeforeAnswers,
    NoDependenciesAtCommit,
    EndBeforeRowsAreGone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Undecided,
    Committed,
    RolledBack,
}

/// What is true of a transaction that writes.
struct Truth {
    fate: Fate,
    /// Its rows on each node.
    rows: Vec<usize>,
    /// How many nodes know of the commit.
    known_by: usize,
}

#[derive(Clone)]
enum Payload {
    None,
    Append(Epoch, usize),
    Remove(Epoch),
    Read(Option<Epoch>, EpochSet),
}

enum Packet {
    Request {
        to: usize,
        from: usize,
        transaction: usize,
        message: EpochMessage<EpochRequest>,
        payload: Payload,
    },
    Answer {
        to: usize,
        transaction: usize,
        message: EpochMessage<Vec<Epoch>>,
        is_begin: bool,
    },
}

struct Transaction {
    node: usize,
    /// `None` for one that only reads.
    writes: Option<ClusterEpoch>,
    snapshot: Option<EpochSet>,
    /// What was known everywhere as committed when it began.
    settled_before: Vec<Epoch>,
    unanswered: usize,
    steps_left: usize,
    is_removing: bool,
    has_ended: bool,
}

struct Node {
    epochs: EpochNode,
    rows: BTreeMap<Epoch, usize>,
}

struct Cluster {
    random: StdRng,
    fault: Fault,
    nodes: Vec<Node>,
    transactions: Vec<Transaction>,
    truth: BTreeMap<Epoch, Truth>,
    network: Vec<Packet>,
    reads: usize,
    violation: Option<String>,
}

/// Runs the schedule of a seed: how many reads were checked, or the first violation.
pub(super) fn simulate(seed: u64, fault: Fault) -> Result<usize, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let count = random.random_range(2..=4);
    let node = |index| Node { epochs: EpochNode::new(Stride::new(index, count)), rows: BTreeMap::new() };
    let nodes = (1..=count).map(node).collect();
    let mut cluster = Cluster {
        random,
        fault,
        nodes,
        transactions: Vec::new(),
        truth: BTreeMap::new(),
        network: Vec::new(),
        reads: 0,
        violation: None,
    };
    let run = || {
        for _ in 0..300 {
            cluster.step();
            cluster.check_latest_committed();
            if let Some(violation) = cluster.violation.take() {
                return Err(violation);
            }
        }
        Ok(cluster.reads)
    };
    // A rule that is left out may also be caught by an assertion of the code under test.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(_) => Err("an assertion failed".to_owned()),
    }
}

impl Cluster {
    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    fn step(&mut self) {
        match self.random.random_range(0..10) {
            0 => self.begin(),
            1 | 2 if !self.transactions.is_empty() => {
                let transaction = self.random.random_range(0..self.transactions.len());
                self.act(transaction);
            }
            _ if !self.network.is_empty() => {
                let index = self.random.random_range(0..self.network.len());
                let packet = self.network.swap_remove(index);
                self.deliver(packet);
            }
            _ => {}
        }
    }

    fn begin(&mut self) {
        let node = self.random.random_range(0..self.nodes.len());
        let steps_left = self.random.random_range(1..6);
        let known_by_all = self.nodes.len();
        let is_settled = |truth: &Truth| truth.fate == Fate::Committed && truth.known_by == known_by_all;
        let settled = self.truth.iter().filter(|(_, truth)| is_settled(truth));
        let settled_before = settled.map(|(epoch, _)| *epoch).collect();
        let mut transaction = Transaction {
            node,
            writes: None,
            snapshot: None,
            settled_before,
            unanswered: 0,
            steps_left,
            is_removing: false,
            has_ended: false,
        };
        if self.random.random_range(0..3) == 0 {
            transaction.snapshot = Some(self.nodes[node].epochs.read_only());
            self.transactions.push(transaction);
            return;
        }
        let others = self.nodes.len() - 1;
        let (writes, message) = self.nodes[node].epochs.begin(others);
        let epoch = writes.epoch();
        let sees_it = |other: &Transaction| other.snapshot.as_ref().is_some_and(|set| set.contains(epoch));
        if self.transactions.iter().any(sees_it) {
            self.violate(format!("case 5: {epoch} begins and is in a snapshot"));
        }
        let truth = Truth { fate: Fate::Undecided, rows: vec![0; self.nodes.len()], known_by: 0 };
        if self.truth.insert(epoch, truth).is_some() {
            self.violate(format!("{epoch} was handed out twice"));
        }
        transaction.writes = Some(writes);
        self.transactions.push(transaction);
        self.broadcast(self.transactions.len() - 1, &message, &Payload::None);
    }

    /// Sends to all nodes but the coordinator.
    fn broadcast(&mut self, transaction: usize, message: &EpochMessage<EpochRequest>, payload: &Payload) {
        let from = self.transactions[transaction].node;
        for to in (0..self.nodes.len()).filter(|to| *to != from) {
            self.send(transaction, to, message.clone(), payload.clone());
        }
    }

    fn send(
        &mut self,
        transaction: usize,
        to: usize,
        mut message: EpochMessage<EpochRequest>,
        payload: Payload,
    ) {
        if self.fault == Fault::NoClocks {
            message.clock = Epoch::ZERO;
        }
        if let (Fault::NoDependenciesAtCommit, EpochRequest::Commit(_, dependencies)) =
            (self.fault, &mut message.body)
        {
            dependencies.clear();
        }
        let from = self.transactions[transaction].node;
        self.transactions[transaction].unanswered += 1;
        self.network.push(Packet::Request { to, from, transaction, message, payload });
    }

    fn act(&mut self, index: usize) {
        let transaction = &self.transactions[index];
        if transaction.has_ended || transaction.is_removing {
            return;
        }
        if transaction.steps_left == 0 {
            self.end(index);
            return;
        }
        let own = transaction.writes.as_ref().map(ClusterEpoch::epoch);
        let target = self.random.random_range(0..self.nodes.len());
        let appends = self.random.random_range(0..2) == 0;
        let payload = match (own, appends) {
            (Some(epoch), true) => {
                let rows = self.random.random_range(1..4);
                self.truth.get_mut(&epoch).expect("begun").rows[target] += rows;
                Payload::Append(epoch, rows)
            }
            _ => match self.snapshot_to_read(index) {
                Some(set) => Payload::Read(own, set),
                None => return,
            },
        };
        self.transactions[index].steps_left -= 1;
        let node = self.transactions[index].node;
        let message = self.nodes[node].epochs.message(EpochRequest::Operation);
        if target == node {
            self.do_payload(node, payload);
        } else {
            self.send(index, target, message, payload);
        }
    }

    fn snapshot_to_read(&self, index: usize) -> Option<EpochSet> {
        let transaction = &self.transactions[index];
        let known = || transaction.writes.as_ref().map(ClusterEpoch::known_snapshot);
        let early = if self.fault == Fault::ReadBeforeAnswers { known() } else { None };
        transaction.snapshot.clone().or(early)
    }

    fn end(&mut self, index: usize) {
        let transaction = &self.transactions[index];
        let (node, unanswered) = (transaction.node, transaction.unanswered);
        let Some(writes) = transaction.writes.clone() else {
            self.transactions[index].has_ended = true;
            return;
        };
        if unanswered > 0 {
            return;
        }
        let epoch = writes.epoch();
        if self.random.random_range(0..4) > 0 {
            self.transactions[index].has_ended = true;
            let message = self.nodes[node].epochs.commit(&writes);
            let truth = self.truth.get_mut(&epoch).expect("begun");
            (truth.fate, truth.known_by) = (Fate::Committed, 1);
            self.broadcast(index, &message, &Payload::None);
            return;
        }
        self.transactions[index].is_removing = true;
        let message = self.nodes[node].epochs.message(EpochRequest::Operation);
        self.do_payload(node, Payload::Remove(epoch));
        self.broadcast(index, &message, &Payload::Remove(epoch));
        if self.fault == Fault::EndBeforeRowsAreGone {
            self.end_rolled_back(index);
        }
    }

    fn end_rolled_back(&mut self, index: usize) {
        let transaction = &mut self.transactions[index];
        transaction.has_ended = true;
        let (node, writes) = (transaction.node, transaction.writes.clone().expect("it wrote"));
        self.truth.get_mut(&writes.epoch()).expect("begun").fate = Fate::RolledBack;
        let message = self.nodes[node].epochs.end_rolled_back(&writes);
        self.broadcast(index, &message, &Payload::None);
    }

    fn deliver(&mut self, packet: Packet) {
        match packet {
            Packet::Request { to, from, transaction, message, payload } => {
                let mut answer = self.nodes[to].epochs.receive(&message);
                if self.fault == Fault::NoPendingLists {
                    answer.body.clear();
                }
                if self.fault == Fault::NoClocks {
                    answer.clock = Epoch::ZERO;
                }
                if let EpochRequest::Commit(epoch, _) = message.body {
                    self.truth.get_mut(&epoch).expect("begun").known_by += 1;
                }
                self.do_payload(to, payload);
                let is_begin = matches!(message.body, EpochRequest::Begin(_));
                self.network.push(Packet::Answer { to: from, transaction, message: answer, is_begin });
            }
            Packet::Answer { to, transaction: index, message, is_begin } => {
                self.nodes[to].epochs.receive_answer(&message);
                let transaction = &mut self.transactions[index];
                transaction.unanswered -= 1;
                let is_last = transaction.unanswered == 0;
                if let (true, Some(writes)) = (is_begin, &mut transaction.writes) {
                    writes.add_pending(&message);
                    transaction.snapshot = writes.snapshot();
                    if transaction.snapshot.is_some() {
                        self.check_snapshot(index);
                    }
                }
                let transaction = &self.transactions[index];
                if transaction.is_removing && is_last && !transaction.has_ended {
                    self.end_rolled_back(index);
                }
            }
        }
    }

    fn do_payload(&mut self, node: usize, payload: Payload) {
        match payload {
            Payload::None => {}
            Payload::Append(epoch, rows) => *self.nodes[node].rows.entry(epoch).or_default() += rows,
            Payload::Remove(epoch) => drop(self.nodes[node].rows.remove(&epoch)),
            Payload::Read(own, set) => self.check_read(node, own, &set),
        }
    }

    fn check_read(&mut self, node: usize, own: Option<Epoch>, set: &EpochSet) {
        self.reads += 1;
        let others = self.truth.iter().filter(|(epoch, _)| Some(**epoch) != own && set.contains(**epoch));
        let wrong = others.filter_map(|(epoch, truth)| {
            let found = self.nodes[node].rows.get(epoch).copied().unwrap_or_default();
            match truth.fate {
                Fate::Undecided => Some(format!("{own:?} reads {epoch}, which is undecided")),
                Fate::Committed if found == truth.rows[node] => None,
                Fate::RolledBack if found == 0 => None,
                fate => Some(format!("{own:?} finds {found} rows of {epoch}, which is {fate:?}")),
            }
        });
        if let Some(wrong) = wrong.into_iter().next() {
            self.violate(wrong);
        }
    }

    /// The five cases of AOSI IV-C for the snapshot that has just been made.
    fn check_snapshot(&mut self, index: usize) {
        let transaction = &self.transactions[index];
        let (Some(writes), Some(set)) = (&transaction.writes, &transaction.snapshot) else { return };
        let own = writes.epoch();
        let wrong = self.truth.iter().filter(|(epoch, _)| **epoch != own).find_map(|(epoch, truth)| {
            let is_seen = set.contains(*epoch);
            let is_wrong = if *epoch > own { is_seen } else { is_seen && truth.fate == Fate::Undecided };
            is_wrong.then(|| format!("{own} sees {epoch}, which is {:?}", truth.fate))
        });
        let missed = transaction.settled_before.iter().find(|epoch| !set.contains(**epoch));
        let missed =
            missed.map(|epoch| format!("{own} does not see {epoch}, which all nodes knew as committed"));
        if let Some(violation) = wrong.or(missed) {
            self.violate(violation);
        }
    }

    fn check_latest_committed(&mut self) {
        for node in 0..self.nodes.len() {
            let latest = self.nodes[node].epochs.latest_committed();
            let mut below = self.truth.range(..=latest);
            if let Some((epoch, _)) = below.find(|(_, truth)| truth.fate == Fate::Undecided) {
                let violation = format!("LCE {latest} of node {node} has passed {epoch}, which is undecided");
                self.violate(violation);
            }
        }
    }
}
