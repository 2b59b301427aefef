// SPDX-License-Identifier: Apache-2.0
//! Random histories of loads, deletes, savepoints, rollbacks and purges: whatever a reader finds, value by value,
//! equals what the definition gives for the recorded history.
//!
//! The definition knows neither epochs vectors nor purge: a row is seen if its epoch is, unless a delete that is
//! seen covers it.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod history;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coeval_brick::{BrickTable, Reader, Shards};
use coeval_txn::{Epoch, EpochClock, EpochSet, Stride};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use history::{Contents, History};
use writer::Writer;

/// Everything that the actors of a history share.
struct Stage {
    table: BrickTable,
    clock: EpochClock,
    history: History,
    rows_loaded: AtomicUsize,
}

impl Stage {
    fn new(shards: usize) -> Self {
        Self {
            table: BrickTable::new(writer::schema(), Arc::new(Shards::start(shards, 4).unwrap())),
            clock: EpochClock::new(Stride::ALONE),
            history: History::default(),
            rows_loaded: AtomicUsize::new(0),
        }
    }

    fn purge(&self) -> usize {
        let safe = self.clock.advance_safe(Epoch::MAX);
        self.table.purge(safe).unwrap().wait().unwrap().rows_removed
    }

    fn read(&self, reader: &Reader) -> Contents {
        let view = self.table.view(&self.table.selection());
        let contents = writer::contents(&view, reader);
        let rows: usize = contents.values().map(Vec::len).sum();
        assert_eq!(view.count(reader), rows, "the count is that of the rows");
        contents
    }

    fn check(&self, set: &EpochSet) {
        let found = self.read(&Reader::of(set.clone()));
        assert_eq!(found, self.history.contents(set, None), "by {set}");
    }
}

/// One thread drives some writers and readers at random; after each step every reader is checked.
#[test]
fn every_reader_finds_its_snapshot_after_every_step() {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let stage = Stage::new(1 + seed as usize % 3);
        let mut writers: Vec<Writer> = Vec::new();
        let mut readers = Vec::new();
        for _ in 0..60 {
            match random.random_range(0..10) {
                0 | 1 if writers.len() < 4 => writers.push(Writer::begin(&stage)),
                2 => readers.push(stage.clock.snapshot()),
                3 if !readers.is_empty() => drop(readers.swap_remove(random.random_range(0..readers.len()))),
                4 => drop(stage.purge()),
                5 if !writers.is_empty() => {
                    let writer = writers.swap_remove(random.random_range(0..writers.len()));
                    if random.random_range(0..4) == 0 { writer.roll_back() } else { writer.commit() }
                }
                _ if !writers.is_empty() => {
                    let index = random.random_range(0..writers.len());
                    writers[index].act(&mut random);
                }
                _ => {}
            }
            readers.iter().for_each(|held| stage.check(held.set()));
            stage.check(&stage.clock.committed());
            writers.iter().for_each(Writer::check);
        }
        writers.into_iter().for_each(Writer::commit);
        drop(readers);
        stage.purge();
        stage.check(&stage.clock.committed());
        let memory = stage.table.memory();
        let left: usize = stage.read(&Reader::of(stage.clock.committed())).values().map(Vec::len).sum();
        assert_eq!(memory.rows, left, "purge leaves no row that nobody sees");
        let bricks = stage.table.view(&stage.table.selection()).bricks().len();
        assert_eq!(memory.epochs_entries, bricks, "and one entry for each brick");
    }
}

/// Counts a writer out when it ends, also by a panic, so that the others end as well.
struct Writing<'a>(&'a AtomicUsize);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Writers, readers and a purge, each with a thread of its own. `HISTORY_TRANSACTIONS` makes it longer.
#[test]
fn every_concurrent_reader_finds_its_snapshot() {
    const WRITERS: usize = 4;
    let transactions =
        std::env::var("HISTORY_TRANSACTIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    let stage = Stage::new(2);
    let writing = AtomicUsize::new(WRITERS);
    std::thread::scope(|scope| {
        for seed in 0..WRITERS as u64 {
            let (stage, writing) = (&stage, &writing);
            scope.spawn(move || {
                let _writing = Writing(writing);
                let mut random = StdRng::seed_from_u64(seed);
                for _ in 0..transactions {
                    let mut writer = Writer::begin(stage);
                    for _ in 0..random.random_range(1..6) {
                        writer.act(&mut random);
                        writer.check();
                    }
                    if random.random_range(0..5) == 0 { writer.roll_back() } else { writer.commit() }
                }
            });
        }
        for reader in 0..2 {
            let (stage, writing) = (&stage, &writing);
            scope.spawn(move || {
                while writing.load(Ordering::Acquire) > 0 {
                    let held = stage.clock.snapshot();
                    for _ in 0..=reader * 3 {
                        stage.check(held.set());
                    }
                }
            });
        }
        let (stage, writing) = (&stage, &writing);
        scope.spawn(move || {
            while writing.load(Ordering::Acquire) > 0 {
                stage.purge();
                std::thread::yield_now();
            }
        });
    });
    stage.check(&stage.clock.committed());
    assert!(stage.rows_loaded.load(Ordering::Relaxed) > transactions, "something was loaded");
}
