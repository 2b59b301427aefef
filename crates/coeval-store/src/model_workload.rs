// SPDX-License-Identifier: Apache-2.0
//! For tests: random transactions, definitions, bulk loads and sequences against a store and a model of it.
//!
//! Every step has one of three outcomes: it is acknowledged, it has no effect, or nobody knows because the log
//! stopped under it. After an open, [`Workload::take_recovered`] says whether what was found is legal: the last
//! acknowledged contents, those with the step of unknown fate, or, where durability was waived and the machine
//! crashed, any earlier contents since the last moment at which everything was durable.

mod bricks;
mod changes;
mod model;

use crate::catalog::SequenceDef;
use crate::error::StoreError;
use crate::ids::SequenceId;
use crate::log::LogError;
use crate::options::Durability;
use crate::replicas::SynchronousCommit;
use crate::store::{SetValue, Store};
use crate::transaction::{AccessMode, Transaction};
use crate::world::World;
use coeval_txn::Isolation;
use model::Draft;
pub(crate) use model::Model;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

/// Row ids are below this, so that rows are met again.
const IDS: i64 = 400;
const TABLES_MAX: usize = 4;

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is acknowledged.
    Committed,
    /// It has no effect.
    Refused,
    /// Nobody knows; the log has stopped.
    Unknown(String),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The machine stopped: what was not synced may be lost.
    Machine,
    /// The process alone.
    Process,
}

/// Random steps and what they must lead to.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) dice: StdRng,
    /// The newest acknowledged contents.
    pub(crate) model: Model,
    /// The model if the step whose fate is unknown took effect.
    possible: Option<Model>,
    /// Contents before, oldest first, that a crash may lead back to.
    earlier: Vec<Model>,
    durability: Durability,
    /// Whether some transactions waive it.
    some_waive: bool,
    machine_crashed: bool,
    /// Whether the log has stopped: nothing is acknowledged any more.
    pub(crate) has_stopped: bool,
    /// Every number that a sequence has handed out.
    handed_out: BTreeMap<SequenceId, BTreeSet<i64>>,
    name_count: u32,
    /// Rows that brick tables ever got.
    brick_row_count: i64,
    /// All acknowledged contents by version, if they are wanted.
    pub(crate) all: Option<BTreeMap<u64, Model>>,
    /// What steps have met, by kind.
    pub(crate) met: BTreeMap<&'static str, u64>,
}

impl Workload {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: StdRng::seed_from_u64(seed),
            model: Model::default(),
            possible: None,
            earlier: Vec::new(),
            durability: Durability::Fsync,
            some_waive: false,
            machine_crashed: false,
            has_stopped: false,
            handed_out: BTreeMap::new(),
            name_count: 0,
            brick_row_count: 0,
            all: None,
            met: BTreeMap::new(),
        }
    }

    /// For stores that are opened with this durability.
    pub(crate) fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// With transactions that are acknowledged before they are durable, among others.
    pub(crate) fn with_waivers(mut self) -> Self {
        self.some_waive = true;
        self
    }

    /// Which keeps all contents that there were.
    pub(crate) fn keeping_all(mut self) -> Self {
        self.all = Some(BTreeMap::from([(0, Model::default())]));
        self
    }

    fn begin(&mut self, store: &Store) -> Transaction {
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        if self.some_waive && self.dice.random_ratio(2, 3) {
            store.set_synchronous_commit(&mut tx, SynchronousCommit::Off);
        }
        tx
    }

    fn new_name(&mut self, kind: &str) -> String {
        self.name_count += 1;
        format!("{kind}{}", self.name_count)
    }

    fn note(&mut self, kind: &'static str) {
        *self.met.entry(kind).or_default() += 1;
    }

    /// One random step.
    pub(crate) fn step(&mut self, store: &Store) -> Outcome {
        let kind = self.dice.random_range(0..100);
        if self.model.tables.is_empty() || (kind < 4 && self.model.tables.len() < TABLES_MAX) {
            return self.transact(store, "create table", |workload, tx, draft| {
                workload.create_table(store, tx, draft);
            });
        }
        match kind {
            0..42 => self.transact(store, "rows", Self::change_rows),
            42..50 => self.step_bricks(store),
            50..60 => self.race(store),
            60..72 => self.transact(store, "bulk load", Self::load),
            72..76 => self.transact(store, "create index", |workload, tx, draft| {
                workload.create_index(store, tx, draft);
            }),
            76..78 => self.transact(store, "drop index", Self::drop_index),
            78..80 => self.transact(store, "add column", Self::add_column),
            80..82 => self.transact(store, "alter table", Self::alter_table),
            82..85 => self.transact(store, "truncate", Self::truncate),
            85..86 => self.transact(store, "drop table", Self::drop_table),
            86..88 => self.transact(store, "view", Self::change_views),
            88..90 => self.transact(store, "sequence", |workload, tx, draft| {
                workload.change_sequences(store, tx, draft);
            }),
            90..92 => self.transact(store, "load and rows", |workload, tx, draft| {
                workload.truncate(tx, draft);
                workload.load(tx, draft);
                workload.change_rows(tx, draft);
            }),
            _ => self.next_value(store),
        }
    }

    /// One random step with brick tables.
    pub(crate) fn step_bricks(&mut self, store: &Store) -> Outcome {
        self.transact(store, "bricks", |workload, tx, draft| workload.change_bricks(store, tx, draft))
    }

    fn transact(
        &mut self,
        store: &Store,
        kind: &'static str,
        change: impl FnOnce(&mut Self, &mut Transaction, &mut Draft),
    ) -> Outcome {
        let mut tx = self.begin(store);
        let mut draft = Draft::of(&self.model);
        change(self, &mut tx, &mut draft);
        self.note(kind);
        self.commit(tx, draft.model)
    }

    /// Two transactions on one snapshot: of two that wrote one key the second is refused.
    fn race(&mut self, store: &Store) -> Outcome {
        let (mut first, mut second) = (self.begin(store), self.begin(store));
        let (mut draft, mut other) = (Draft::of(&self.model), Draft::of(&self.model));
        self.change_rows(&mut first, &mut draft);
        self.change_rows(&mut second, &mut other);
        self.note("race");
        let outcome = self.commit(first, draft.model);
        if outcome != Outcome::Committed {
            return outcome;
        }
        let overlap = other.effects.keys().any(|place| draft.effects.contains_key(place));
        let mut merged = self.model.clone();
        other.effects.into_iter().for_each(|((table, key), row)| merged.set(table, key, row));
        let is_legal = !overlap && merged.is_unique();
        let outcome = self.commit(second, merged);
        assert!(is_legal || outcome != Outcome::Committed, "the second of two writers committed");
        if outcome == Outcome::Refused {
            self.note("conflict");
        }
        outcome
    }

    fn commit(&mut self, tx: Transaction, mut model: Model) -> Outcome {
        let writes = tx.has_writes();
        let is_waived = tx.synchronous_commit() == SynchronousCommit::Off;
        match tx.commit() {
            Ok(committed) => {
                if writes {
                    model.version = self.model.version + 1;
                    assert_eq!(committed.version.get(), model.version, "each commit is a batch of its own");
                    assert!(!self.has_stopped, "a commit was acknowledged after the log had stopped");
                    if let Some(all) = &mut self.all {
                        all.insert(model.version, model.clone());
                    }
                    let before = std::mem::replace(&mut self.model, model);
                    if is_waived {
                        self.note("waived");
                    }
                    if is_waived || self.durability == Durability::None {
                        self.earlier.push(before);
                    } else {
                        // With it all before it is durable.
                        self.earlier.clear();
                    }
                }
                Outcome::Committed
            }
            // The file of a bulk load: the log has not heard of it, and goes on.
            Err(StoreError::Conflict(_) | StoreError::Constraint(_) | StoreError::File(_)) => {
                Outcome::Refused
            }
            // No room for the record: nothing was done, and the log goes on.
            Err(StoreError::Log(LogError::NoRoom(_))) => {
                self.note("no room");
                Outcome::Refused
            }
            Err(error @ StoreError::Stopped(_)) => {
                self.has_stopped = true;
                Outcome::Unknown(error.to_string())
            }
            Err(error) => {
                // After the first failure the log takes nothing, so only the first may be found.
                let is_unknown = matches!(error, StoreError::OutcomeUnknown(_));
                assert!(is_unknown, "a commit failed, and nobody says whether it is there: {error}");
                if !self.has_stopped {
                    model.version = self.model.version + 1;
                    self.possible = Some(model);
                }
                self.has_stopped = true;
                Outcome::Unknown(error.to_string())
            }
        }
    }

    fn next_value(&mut self, store: &Store) -> Outcome {
        let Some(def) = self.pick(|model| model.sequences.values().cloned().collect()) else {
            return self.transact(store, "sequence", |workload, tx, draft| {
                workload.change_sequences(store, tx, draft);
            });
        };
        self.note("next value");
        if self.dice.random_ratio(1, 8) {
            let outcome = store.set_value(&def, self.beyond(&def), SetValue::Used);
            return self.sequence_outcome(outcome);
        }
        let outcome = store.next_value(&def);
        if let Ok(number) = outcome {
            let is_new = self.handed_out.entry(def.id).or_default().insert(number);
            assert!(is_new, "sequence {} handed {number} out twice", def.name);
            assert!((def.min..=def.max).contains(&number), "{number} is out of bounds");
        }
        self.sequence_outcome(outcome.map(drop))
    }

    /// A number that lies behind all that the sequence has handed out.
    fn beyond(&self, def: &SequenceDef) -> i64 {
        let numbers = self.handed_out.get(&def.id);
        if def.increment > 0 {
            let last = numbers.and_then(BTreeSet::last).copied().unwrap_or(def.start);
            last.saturating_add(5_000).min(def.max)
        } else {
            let last = numbers.and_then(BTreeSet::first).copied().unwrap_or(def.start);
            last.saturating_sub(5_000).max(def.min)
        }
    }

    fn sequence_outcome(&mut self, outcome: Result<(), StoreError>) -> Outcome {
        match outcome {
            Ok(()) => Outcome::Committed,
            Err(StoreError::SequenceExhausted(_)) => {
                self.note("exhausted sequence");
                Outcome::Refused
            }
            Err(StoreError::Log(LogError::NoRoom(_))) => Outcome::Refused,
            Err(error) => {
                self.has_stopped = true;
                Outcome::Unknown(error.to_string())
            }
        }
    }

    fn pick<T>(&mut self, choices: impl FnOnce(&Model) -> Vec<T>) -> Option<T> {
        let mut choices = choices(&self.model);
        if choices.is_empty() {
            return None;
        }
        let at = self.dice.random_range(0..choices.len());
        Some(choices.swap_remove(at))
    }

    /// Takes over what readers see of a store that has stopped: all that was acknowledged, and perhaps the step of unknown fate.
    /// What they have seen is there after the next open.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn take_shown(&mut self, world: &World) -> Result<(), String> {
        if let Some(seen) = self.possible.take_if(|possible| possible.version == world.version().get()) {
            self.model = seen;
        }
        self.model.check(world)
    }

    /// Notes that everything acknowledged is durable.
    pub(crate) fn note_durable(&mut self) {
        self.earlier.clear();
    }

    /// Notes how the process ended.
    pub(crate) fn note_end(&mut self, end: End) {
        self.machine_crashed |= end == End::Machine;
        self.has_stopped = false;
    }

    /// Takes over what was found after an open.
    ///
    /// # Errors
    /// If it is none of the legal contents.
    pub(crate) fn take_recovered(&mut self, world: &World) -> Result<(), String> {
        let found = world.version().get();
        let acknowledged = self.model.version;
        let (kind, model) = if found == acknowledged {
            self.possible = None;
            ("exactly the acknowledged", self.model.clone())
        } else if let Some(possible) = self.possible.take().filter(|model| model.version == found) {
            ("kept unacknowledged", possible)
        } else if self.machine_crashed
            && let Some(earlier) = self.earlier.iter().find(|model| model.version == found)
        {
            ("lost undurable", earlier.clone())
        } else {
            return Err(format!("version {acknowledged} was acknowledged, {found} is found"));
        };
        model.check(world)?;
        self.note(kind);
        self.model = model;
        self.earlier.clear();
        self.machine_crashed = false;
        Ok(())
    }
}
