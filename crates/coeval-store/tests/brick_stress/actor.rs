// SPDX-License-Identifier: Apache-2.0
//! One of the thousand: now a writer, now a reader, a step at a time.

use crate::history::{BRICK_VALUES, BRICKS, Counts, Event, History};
use arrow::array::{Int64Array, RecordBatch};
use coeval_store::{AccessMode, Savepoint, Store, TableDef, Transaction};
use coeval_txn::{Isolation, Version};
use rand::Rng;
use rand::rngs::StdRng;
use std::sync::Arc;

/// Rows of most loads, and of a few: more than a block of a brick.
const ROWS_MAX: usize = 20;
const MANY_ROWS: usize = 2_000;

pub(crate) struct Actor {
    part: Part,
}

enum Part {
    Idle,
    Reader { transaction: Box<Transaction>, steps_left: u32 },
    Writer(Box<Writer>),
}

struct Writer {
    transaction: Transaction,
    events: Vec<Event>,
    /// Each with the events before it.
    savepoints: Vec<(Savepoint, usize)>,
}

impl Actor {
    pub(crate) fn idle() -> Self {
        Self { part: Part::Idle }
    }

    /// The version of the snapshot that it holds.
    pub(crate) fn begin(&self) -> Option<Version> {
        match &self.part {
            Part::Idle => None,
            Part::Reader { transaction, .. } => Some(transaction.begin_version()),
            Part::Writer(writer) => Some(writer.transaction.begin_version()),
        }
    }

    /// Does something.
    pub(crate) fn step(&mut self, store: &Store, def: &TableDef, random: &mut StdRng, history: &History) {
        self.part = match std::mem::replace(&mut self.part, Part::Idle) {
            Part::Idle if random.random_ratio(2, 5) => {
                let transaction = Box::new(store.begin(Isolation::Snapshot, AccessMode::ReadOnly));
                let steps_left = if random.random_ratio(1, 20) { 60 } else { random.random_range(1..6) };
                Part::Reader { transaction, steps_left }
            }
            Part::Idle => Part::Writer(Box::new(Writer {
                transaction: store.begin(Isolation::Snapshot, AccessMode::ReadWrite),
                events: Vec::new(),
                savepoints: Vec::new(),
            })),
            Part::Reader { steps_left: 0, .. } => Part::Idle,
            Part::Reader { transaction, steps_left } => {
                let found = count(&transaction, def, random);
                history.observe(transaction.begin_version(), Vec::new(), found);
                Part::Reader { transaction, steps_left: steps_left - 1 }
            }
            Part::Writer(writer) => writer.step(def, random, history),
        };
    }
}

impl Writer {
    fn step(mut self: Box<Self>, def: &TableDef, random: &mut StdRng, history: &History) -> Part {
        match random.random_range(0..100) {
            0..45 => self.load(def, random),
            45..50 => self.delete(def, random),
            50..58 => self.savepoints.push((self.transaction.savepoint(), self.events.len())),
            58..65 => {
                if let Some((savepoint, events)) = self.savepoints.pop() {
                    self.transaction.rollback_to(&savepoint);
                    self.events.truncate(events);
                }
            }
            65..75 => {
                let found = count(&self.transaction, def, random);
                history.observe(self.transaction.begin_version(), self.events.clone(), found);
            }
            75..95 => {
                let begin = self.transaction.begin_version();
                let committed = self.transaction.commit().unwrap();
                if !self.events.is_empty() {
                    history.commit(begin, committed.version, self.events);
                }
                return Part::Idle;
            }
            _ => {
                self.transaction.rollback();
                return Part::Idle;
            }
        }
        Part::Writer(self)
    }

    fn load(&mut self, def: &TableDef, random: &mut StdRng) {
        let rows = if random.random_ratio(1, 60) { MANY_ROWS } else { random.random_range(1..ROWS_MAX) };
        let mut counts = Counts::default();
        let mut places = Vec::with_capacity(rows);
        for _ in 0..rows {
            let place = random.random_range(0..BRICKS * BRICK_VALUES);
            counts[place / BRICK_VALUES] += 1;
            places.push(place as i64);
        }
        let batch = RecordBatch::try_from_iter([
            ("place", Arc::new(Int64Array::from(places.clone())) as _),
            ("row", Arc::new(Int64Array::from(places)) as _),
        ]);
        assert_eq!(self.transaction.append(def.id, &batch.unwrap(), 0).unwrap().rows, rows as u64);
        self.events.push(Event::Load(counts));
    }

    fn delete(&mut self, def: &TableDef, random: &mut StdRng) {
        let first = random.random_range(0..BRICKS);
        let last = random.random_range(first..BRICKS.min(first + 3));
        let values = (first * BRICK_VALUES) as i64..=(last * BRICK_VALUES + BRICK_VALUES - 1) as i64;
        self.transaction.delete_bricks(def.id, |all| all.within(0, &[values])).unwrap();
        self.events.push(Event::Delete(std::array::from_fn(|brick| (first..=last).contains(&brick))));
    }
}

/// How many rows a transaction finds in each brick: by its epochs, and sometimes by looking at them.
fn count(transaction: &Transaction, def: &TableDef, random: &mut StdRng) -> Counts {
    let snapshot = transaction.brick_view(def.id, |all| all).unwrap();
    let is_scanned = random.random_ratio(1, 4);
    let mut counts = Counts::default();
    for brick in snapshot.bricks() {
        let rows = snapshot.visible_rows(brick);
        if is_scanned {
            let scanned: usize = snapshot.batches(brick, &[0, 1]).map(|batch| batch.num_rows()).sum();
            assert_eq!(scanned, rows, "a scan gives the rows that are counted");
        }
        counts[brick.id().get() as usize] = rows as u64;
    }
    counts
}
