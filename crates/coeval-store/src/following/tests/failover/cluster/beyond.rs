// SPDX-License-Identifier: Apache-2.0
//! What may happen to the machines beside what happens in every run. It has dice of its own: a run that asks for none of it is as it
//! was.
//!
//! - *Chains*: a replica follows another replica, that one follows it, and so on. Replicas make checkpoints.
//! - *Changes*: a primary is given another list of synchronous replicas, of any machines, itself among them or not, while commits
//!   wait; and again before enough know of the last one. Whoever is not listed is not promoted.
//! - *Slots*: whoever follows does so by a slot, on a primary or on a replica, with a bound, and is away for long now and then. What a slot has says that it is there
//!   when its follower comes back; one that nobody follows by and that keeps more than the bound is lost with a checkpoint. One that is
//!   followed by may be, too.
//! - *Most*: half of the machines beside the primary or more are asked for, so that one of three, or two of five, may be promoted by
//!   themselves, and each of two candidates. In the other runs a majority has to promise.
//! - *Levels*: some commits ask for less than that replicas have them durably, or that the primary has. They may be lost, and nothing
//!   before them.

use super::{Broken, Clients, Cluster, SimulatedFiles, dir, name};
use crate::error::StoreError;
use crate::files::FileSystem;
use crate::following::LogFeed;
use crate::log::Lsn;
use crate::promises::FILE_NAME;
use crate::replicas::{ReplicaChoice, SynchronousCommit, SynchronousReplicas};
use crate::retention::SlotError;
use crate::store::Store;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

/// What a run has beside the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Extra {
    Nothing,
    Chains,
    Changes,
    Slots,
    Levels,
    Most,
    MostChanges,
    Everything,
}

impl Extra {
    /// Whether commits wait for so many that fewer than half of the machines have to promise a timeline.
    pub(super) fn asks_for_most(self) -> bool {
        matches!(self, Self::Most | Self::MostChanges)
    }
}

/// How much of it there was.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Happened {
    /// A replica began to follow a replica.
    pub(in super::super) chained: usize,
    /// Another list was asked for.
    pub(in super::super) changes: usize,
    /// Somebody came back to a slot that had kept log for it.
    pub(in super::super) kept: usize,
    /// Somebody came back to a slot that was lost.
    pub(in super::super) lost: usize,
}

impl std::ops::AddAssign for Happened {
    fn add_assign(&mut self, other: Self) {
        self.chained += other.chained;
        self.changes += other.changes;
        self.kept += other.kept;
        self.lost += other.lost;
    }
}

/// See the module.
pub(super) struct Beyond {
    extra: Extra,
    dice: SmallRng,
    /// So many steps more these machines follow nobody.
    away: BTreeMap<usize, usize>,
    /// On which machine a slot was made, and for which.
    slots: BTreeSet<(usize, usize)>,
    happened: Happened,
}

impl Beyond {
    pub(super) fn new(seed: u64, extra: Extra) -> Self {
        let (away, slots, happened) = Default::default();
        // Other numbers than those of the run itself.
        Self { extra, dice: SmallRng::seed_from_u64(!seed), away, slots, happened }
    }

    /// How many times as long a run is: with all this, and five machines, less is acknowledged in as many steps.
    pub(super) fn length(&self) -> usize {
        if self.extra == Extra::Nothing { 1 } else { 5 }
    }

    pub(super) fn changes_lists(&self) -> bool {
        matches!(self.extra, Extra::Changes | Extra::MostChanges | Extra::Everything)
    }

    pub(super) fn asks_for_most(&self) -> bool {
        self.extra.asks_for_most()
    }

    fn has_chains(&self) -> bool {
        matches!(self.extra, Extra::Chains | Extra::Everything)
    }

    fn has_slots(&self) -> bool {
        matches!(self.extra, Extra::Slots | Extra::Everything)
    }

    /// Whether a replica is followed by one that has found it.
    pub(super) fn takes_replica(&mut self) -> bool {
        self.has_chains() && self.dice.random_bool(0.3)
    }

    pub(super) fn is_away(&self, node: usize) -> bool {
        self.away.contains_key(&node)
    }

    /// A machine has another directory: what was kept there is not, and it does not go on from where it was.
    pub(super) fn forget_slots(&mut self, node: usize) {
        self.slots.retain(|(of, follower)| *of != node && *follower != node);
    }

    fn pass(&mut self) {
        self.away.retain(|_, steps| {
            *steps -= 1;
            *steps > 0
        });
    }
}

/// A slot keeps so many bytes at most: a few dozen commits.
const SLOT_BYTES_MAX: u64 = 3_000;

impl<C: Clients> Cluster<C> {
    pub(in super::super) fn happened(&self) -> Happened {
        self.beyond.happened
    }

    /// After each step.
    pub(super) fn go_beyond(&mut self) {
        if self.beyond.extra == Extra::Nothing {
            return;
        }
        self.beyond.pass();
        self.bound_slots();
        let node = self.beyond.dice.random_range(0..self.nodes.len());
        match self.beyond.dice.random_range(0..1_000) {
            0..12 if self.beyond.changes_lists() => self.change_list(node),
            12..14 if self.beyond.has_slots() => self.go_away(node),
            14..24 if self.beyond.has_chains() || self.beyond.has_slots() => self.checkpoint(node),
            _ => {}
        }
    }

    /// What the next commit asks for.
    pub(in super::super) fn level_of_commit(&mut self) -> SynchronousCommit {
        let is_mixed = matches!(self.beyond.extra, Extra::Levels | Extra::Everything);
        if !is_mixed || self.beyond.dice.random_bool(0.6) {
            return self.level;
        }
        match self.beyond.dice.random_range(0..3) {
            0 => SynchronousCommit::Off,
            1 => SynchronousCommit::Local,
            _ => SynchronousCommit::RemoteWrite,
        }
    }

    /// Something else is wrong than that what clients were told of is lost.
    pub(super) fn complain(&mut self, what: String) {
        if self.lost.is_none() {
            self.lost = Some(what);
        }
    }

    /// A machine that follows is not reached for a while.
    fn go_away(&mut self, node: usize) {
        if self.node(node).is_primary() {
            return;
        }
        self.cut(node);
        let steps = self.beyond.dice.random_range(50..500);
        self.beyond.away.insert(node, steps);
    }

    /// Another list for commits to wait for, of a primary.
    fn change_list(&mut self, node: usize) {
        if !self.node(node).is_writable() {
            return;
        }
        let store = self.node(node).store.clone();
        let list = self.any_list();
        store.require_replicas(Some(list)).unwrap();
        self.beyond.happened.changes += 1;
        if self.broken == Broken::ListAtOnce {
            store.shared.replicas.require(store.required_replicas());
        }
    }

    /// Three machines or more, of which fewer than half are asked for: then a majority has to promise, and no two candidates find
    /// enough for one number of a timeline. Or half of them or more, where that is what happens.
    fn any_list(&mut self) -> SynchronousReplicas {
        let (machines, asks_for_most) = (self.nodes.len(), self.beyond.asks_for_most());
        let dice = &mut self.beyond.dice;
        let mut nodes: Vec<usize> = (0..machines).collect();
        for place in 0..machines {
            nodes.swap(place, dice.random_range(place..machines));
        }
        nodes.truncate(dice.random_range(3..=machines));
        let listed = nodes.len();
        let counts = if asks_for_most { listed.div_ceil(2)..=listed - 1 } else { 1..=(listed - 1) / 2 };
        let count = dice.random_range(counts);
        let choice = if dice.random_bool(0.25) { ReplicaChoice::First } else { ReplicaChoice::Any };
        let names = nodes.into_iter().map(name).collect();
        SynchronousReplicas { count, choice, names, primary: String::new(), before: Vec::new() }
    }

    /// A primary was opened again.
    pub(super) fn forget_lists_before(&self, store: &Store) {
        if self.broken == Broken::ListForgotten {
            store.shared.replicas.require(store.required_replicas());
        }
    }

    /// A replica is about to be opened again.
    pub(super) fn forget_promise(&self, files: &SimulatedFiles, node: usize) {
        let path = dir(node).join(FILE_NAME);
        if self.broken == Broken::PromisesForgotten && files.exists(&path).unwrap() {
            files.remove(&path).unwrap();
        }
    }

    /// Somebody begins to follow: by its slot, which is made if there is none. Whether what comes next is sure to be there.
    pub(super) fn by_slot(&mut self, node: usize, to: usize, feed: LogFeed) -> Option<(LogFeed, bool)> {
        self.beyond.happened.chained += usize::from(!self.node(to).is_primary());
        if !self.beyond.has_slots() {
            return Some((feed, false));
        }
        let was_made = !self.beyond.slots.insert((to, node));
        if self.broken == Broken::SlotsIgnored {
            return Some((feed, was_made));
        }
        let (store, slot, position) = (self.node(to).store.clone(), name(node), feed.position());
        let end = store.log_position().map_or(Lsn::START, |(end, _)| end);
        match store.slots().into_iter().find(|known| known.name == slot) {
            Some(known) if known.is_lost => {
                self.beyond.happened.lost += 1;
                store.create_slot(&slot).unwrap();
            }
            Some(known) => self.beyond.happened.kept += usize::from(known.log < end),
            None => {
                if was_made {
                    self.complain(format!("node {to} has no slot for node {node} any more"));
                }
                store.create_slot(&slot).unwrap();
            }
        }
        match feed.with_slot(&slot) {
            Ok(feed) => {
                let holds = |known: &crate::Slot| known.name == slot && known.log <= position;
                Some((feed, store.slots().iter().any(holds)))
            }
            // The store's own checkpoint has come between, and the slot kept too much.
            Err(StoreError::Slot(SlotError::Lost(_))) => {
                self.beyond.happened.lost += 1;
                None
            }
            Err(error) => {
                self.complain(format!("node {node} does not follow node {to} by its slot: {error}"));
                None
            }
        }
    }

    /// As a server says it when it is started.
    fn bound_slots(&self) {
        if self.beyond.has_slots() && self.broken != Broken::SlotsUnbounded {
            self.nodes.iter().flatten().for_each(|node| node.store.set_slot_bytes_max(Some(SLOT_BYTES_MAX)));
        }
    }

    /// A checkpoint of any machine. Behind it no slot that is left keeps more than it may.
    fn checkpoint(&mut self, node: usize) {
        if self.node(node).is_primary() && !self.node(node).is_writable() {
            return;
        }
        let store = self.node(node).store.clone();
        let before = store.shared.checkpoints.last_log();
        store.checkpoint().unwrap();
        if !self.beyond.has_slots() || store.shared.checkpoints.last_log() == before {
            return;
        }
        let end = store.log_position().map_or(0, |(end, _)| end.get());
        // The checkpoint itself may have written something behind its look.
        let bound = SLOT_BYTES_MAX + 1_000;
        for slot in store.slots().into_iter().filter(|slot| !slot.is_active && !slot.is_lost) {
            if end.saturating_sub(slot.log.get()) > bound {
                self.complain(format!(
                    "on node {node} the slot {} keeps the log from {} to {end}",
                    slot.name, slot.log
                ));
            }
        }
    }
}
