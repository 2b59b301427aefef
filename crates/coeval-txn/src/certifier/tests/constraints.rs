// SPDX-License-Identifier: Apache-2.0
//! Constraints of a toy database hold under concurrent transactions, because what they rely on is certified.
//!
//! Parents carry a counter, children belong to a parent, names have one owner. Each transaction checks the
//! constraints on its snapshot alone and commits its writes by certification alone; after each commit the
//! constraints are checked on the whole.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::faulty::{Fault, FaultyCertifier};
use crate::{Access, CommitOrder, TransactionId, Version};

/// A row of the toy database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Row {
    /// Its value counts the increments since it was inserted.
    Parent(u8),
    Child {
        parent: u8,
        id: u64,
    },
    /// The name is unique among owners.
    Owner {
        name: u8,
        id: u64,
    },
}

/// A key of the certifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Row(Row),
    /// The entry of the unique index over owners' names.
    UniqueName(u8),
}

type World = BTreeMap<Row, u64>;

/// A write: the row's new value, or its end. With an increment, what it adds to the history.
#[derive(Clone, Copy, Debug)]
enum Write {
    Put(Row, u64),
    Delete(Row),
}

/// What a transaction did on its private world.
struct Draft {
    begin: Version,
    world: World,
    accesses: Vec<(Key, Access)>,
    writes: Vec<Write>,
    incremented: Vec<u8>,
}

impl Draft {
    fn new(begin: Version, world: World) -> Self {
        Self { begin, world, accesses: Vec::new(), writes: Vec::new(), incremented: Vec::new() }
    }

    fn put(&mut self, row: Row, value: u64, access: Access) {
        self.world.insert(row, value);
        self.writes.push(Write::Put(row, value));
        self.accesses.push((Key::Row(row), access));
    }

    fn delete(&mut self, row: Row) {
        self.world.remove(&row);
        self.writes.push(Write::Delete(row));
        self.accesses.push((Key::Row(row), Access::Identity));
    }

    fn has_child(&self, parent: u8) -> bool {
        let children = Row::Child { parent, id: 0 }..=Row::Child { parent, id: u64::MAX };
        self.world.range(children).next().is_some()
    }

    fn owner_of(&self, name: u8) -> Option<Row> {
        let owners = Row::Owner { name, id: 0 }..=Row::Owner { name, id: u64::MAX };
        self.world.range(owners).next().map(|(row, _)| *row)
    }

    /// One random statement; one that its snapshot's constraints refuse does nothing.
    fn statement(&mut self, random: &mut StdRng, new_id: u64) {
        let target = random.random_range(0..3);
        let parent = Row::Parent(target);
        let counter = self.world.get(&parent).copied();
        match (random.random_range(0..5), counter) {
            (0, Some(counter)) => {
                self.put(parent, counter + 1, Access::Update);
                self.incremented.push(target);
            }
            (1, Some(_)) if !self.has_child(target) => self.delete(parent),
            (1 | 2, None) => self.put(parent, 0, Access::Identity),
            (2, Some(_)) => {
                self.put(Row::Child { parent: target, id: new_id }, 0, Access::Identity);
                self.accesses.push((Key::Row(parent), Access::Reference));
            }
            (3, _) => {
                let children =
                    Row::Child { parent: target, id: 0 }..=Row::Child { parent: target, id: u64::MAX };
                if let Some(child) = self.world.range(children).next().map(|(row, _)| *row) {
                    self.delete(child);
                }
            }
            (4, _) => {
                match self.owner_of(target) {
                    Some(owner) => self.delete(owner),
                    None => self.put(Row::Owner { name: target, id: new_id }, 0, Access::Identity),
                }
                self.accesses.push((Key::UniqueName(target), Access::Identity));
            }
            _ => {}
        }
    }
}

/// What is broken in the committed world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Orphan,
    TwoOwners,
    LostIncrement,
}

/// The committed world, and how often each parent was incremented since it was inserted.
#[derive(Default)]
struct Truth {
    world: World,
    increments: [u64; 3],
}

impl Truth {
    /// Applies a draft's writes, in the order of its statements.
    fn apply(&mut self, draft: &Draft) {
        for write in &draft.writes {
            match *write {
                Write::Put(row, value) => {
                    let is_new = self.world.insert(row, value).is_none();
                    if let (Row::Parent(parent), true) = (row, is_new) {
                        self.increments[usize::from(parent)] = 0;
                    }
                }
                Write::Delete(row) => {
                    self.world.remove(&row);
                    if let Row::Parent(parent) = row {
                        self.increments[usize::from(parent)] = 0;
                    }
                }
            }
            if let Write::Put(Row::Parent(parent), 1..) = *write {
                self.increments[usize::from(parent)] += 1;
            }
        }
    }

    fn broken(&self) -> Option<Broken> {
        let mut owner_count = [0; 3];
        for (row, value) in &self.world {
            match row {
                Row::Parent(parent) if self.increments[usize::from(*parent)] != *value => {
                    return Some(Broken::LostIncrement);
                }
                Row::Child { parent, .. } if !self.world.contains_key(&Row::Parent(*parent)) => {
                    return Some(Broken::Orphan);
                }
                Row::Owner { name, .. } => owner_count[usize::from(*name)] += 1,
                Row::Parent(_) | Row::Child { .. } => {}
            }
        }
        owner_count.iter().any(|count| *count > 1).then_some(Broken::TwoOwners)
    }
}

/// Runs random transactions in random batches; returns what broke first, and how many committed.
fn run(seed: u64, fault: Fault) -> (Option<Broken>, usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut certifier = FaultyCertifier::new(fault);
    let mut truth = Truth::default();
    let (mut snapshot, mut version) = (World::new(), Version::ZERO);
    let mut drafts: Vec<Draft> = Vec::new();
    let (mut batch_size, mut commit_count) = (0, 0);
    for step in 0..200 {
        match random.random_range(0..5) {
            0 | 1 => {
                let mut draft = Draft::new(version, snapshot.clone());
                for statement in 0..random.random_range(1..=3) {
                    draft.statement(&mut random, step * 10 + statement);
                }
                drafts.push(draft);
            }
            2 | 3 if !drafts.is_empty() => {
                let draft = drafts.swap_remove(random.random_range(0..drafts.len()));
                if certifier.certify(draft.begin, &draft.accesses).is_ok() {
                    let order = CommitOrder { version: version.next(), position: batch_size };
                    certifier.admit(order, TransactionId::new(step), &draft.accesses);
                    (batch_size, commit_count) = (batch_size + 1, commit_count + 1);
                    truth.apply(&draft);
                    if let Some(broken) = truth.broken() {
                        return (Some(broken), commit_count);
                    }
                }
            }
            _ if batch_size > 0 => {
                (snapshot, version, batch_size) = (truth.world.clone(), version.next(), 0);
                certifier.close_batch(version);
                let oldest = drafts.iter().map(|draft| draft.begin).min();
                certifier.prune(oldest.unwrap_or(version));
            }
            _ => {}
        }
    }
    (None, commit_count)
}

#[test]
fn foreign_keys_unique_names_and_counters_hold_under_certification() {
    let mut commit_count = 0;
    for seed in 0..5_000 {
        let (broken, count) = run(seed, Fault::None);
        assert_eq!(broken, None, "seed {seed}");
        commit_count += count;
    }
    assert!(commit_count > 100_000, "most transactions must get through: {commit_count}");
}

#[test]
fn without_validated_reads_children_lose_their_parents() {
    for fault in [Fault::IgnoresReferences, Fault::RecordsNoReferences, Fault::ChecksNoReferences] {
        assert!((0..500).any(|seed| run(seed, fault).0 == Some(Broken::Orphan)), "{fault:?}");
    }
}

#[test]
fn without_batch_members_or_with_early_pruning_every_constraint_breaks() {
    for fault in [Fault::IgnoresBatchMembers, Fault::PrunesTooEarly, Fault::SeesOneVersionTooMany] {
        for expected in [Broken::Orphan, Broken::TwoOwners, Broken::LostIncrement] {
            assert!((0..2_000).any(|seed| run(seed, fault).0 == Some(expected)), "{fault:?}: {expected:?}");
        }
    }
}

#[test]
fn without_updates_in_the_footprint_increments_are_lost() {
    assert!((0..500).any(|seed| run(seed, Fault::IgnoresUpdates).0 == Some(Broken::LostIncrement)));
}
