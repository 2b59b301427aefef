// SPDX-License-Identifier: Apache-2.0
//! Numbers, changed definitions, `setval`, checkpoints and crashes at random: never a number twice.

use crate::catalog::{CatalogChange, QualifiedName, SequenceDef};
use crate::error::StoreError;
use crate::files::SimulatedFiles;
use crate::log::{ChecksumPolicy, LogOptions};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::store::{SetValue, Store};
use crate::transaction::AccessMode;
use coeval_txn::Isolation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let log = LogOptions { segment_bytes: 10_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };
    Store::open_tuned(Arc::new(files.clone()), Path::new("/db"), options, log, Sizes::default()).unwrap()
}

fn define(store: &Store, def: &SequenceDef) {
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutSequence(def.clone())).unwrap();
    tx.commit().unwrap();
}

fn ascending(store: &Store) -> SequenceDef {
    SequenceDef {
        id: store.new_sequence_id(),
        name: QualifiedName::new("public", "numbers"),
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        ty: Default::default(),
        owned_by: None,
        access: Default::default(),
    }
}

#[test]
fn a_number_is_not_given_again_after_a_larger_step_and_a_crash() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let mut def = ascending(&store);
    define(&store, &def);
    assert_eq!(store.next_value(&def).unwrap(), 1);
    def.increment = 100;
    define(&store, &def);
    let mut last = 0;
    for _ in 0..50 {
        last = store.next_value(&def).unwrap();
    }
    let files = files.crash();
    drop(store);
    let store = open(&files);
    for _ in 0..50 {
        let number = store.next_value(&def).unwrap();
        assert!(number > last, "{number} is given behind {last}");
        last = number;
    }
}

#[test]
fn a_sequence_at_its_end_goes_on_when_the_end_is_moved_also_after_a_crash() {
    let mut files = SimulatedFiles::new(1);
    let mut store = open(&files);
    let mut def = SequenceDef { max: 2, ..ascending(&store) };
    define(&store, &def);
    for end in [2, 4, 6] {
        def.max = end;
        define(&store, &def);
        assert_eq!(store.next_value(&def).unwrap(), end - 1);
        assert_eq!(store.next_value(&def).unwrap(), end);
        assert!(matches!(store.next_value(&def), Err(StoreError::SequenceExhausted(_))));
        if end == 4 {
            files = files.crash();
            drop(store);
            store = open(&files);
        }
    }
}

#[test]
fn a_changed_step_counts_from_the_number_that_was_given_last() {
    let store = Store::in_memory(StoreOptions::default());
    let mut def = ascending(&store);
    assert_eq!(store.next_value(&def).unwrap(), 1);
    def.increment = 10;
    assert_eq!(store.upcoming_value(&def), Some(11));
    assert_eq!(store.next_value(&def).unwrap(), 11);
    store.set_value(&def, 20, SetValue::Used).unwrap();
    def.increment = 5;
    assert_eq!(store.next_value(&def).unwrap(), 25);
    store.set_value(&def, 30, SetValue::Next).unwrap();
    def.increment = 1;
    assert_eq!(store.next_value(&def).unwrap(), 30);
}

/// One sequence and the last number that it gave since it was set.
struct Model {
    def: SequenceDef,
    last: Option<i64>,
}

impl Model {
    /// Another definition that keeps the direction, so that no number may come again.
    fn alter(&mut self, dice: &mut StdRng) {
        let step = [1, 2, 7, 100, 5_000, i64::MAX / 4][dice.random_range(0..6)];
        let def = &mut self.def;
        def.increment = step * def.increment.signum();
        // Nearer and farther ends, never one that has been passed.
        let far = [0, 3, 1_000, 1_000_000][dice.random_range(0..4)];
        let last = self.last.unwrap_or(def.start);
        if def.increment > 0 {
            def.max = if dice.random() { i64::MAX } else { last.saturating_add(far).max(def.min + 1) };
        } else {
            def.min = if dice.random() { i64::MIN } else { last.saturating_sub(far).min(def.max - 1) };
        }
    }

    fn take(&mut self, store: &Store, seed: u64) {
        let (def, last) = (&self.def, self.last);
        match store.next_value(def) {
            Ok(number) => {
                assert!((def.min..=def.max).contains(&number), "seed {seed}: {number} is outside of {def:?}");
                let is_new =
                    last.is_none_or(|last| if def.increment > 0 { number > last } else { number < last });
                assert!(is_new, "seed {seed}: {number} behind {last:?} of {def:?}");
                self.last = Some(number);
            }
            Err(StoreError::SequenceExhausted(_)) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

#[test]
fn whatever_is_altered_set_and_crashed_no_number_is_given_twice() {
    for seed in 0..300 {
        let mut dice = StdRng::seed_from_u64(seed);
        let mut files = SimulatedFiles::new(seed);
        let mut store = open(&files);
        let upwards = ascending(&store);
        let downwards = SequenceDef {
            id: store.new_sequence_id(),
            name: QualifiedName::new("public", "downwards"),
            increment: -1,
            start: 10,
            min: i64::MIN,
            max: 10,
            ..upwards.clone()
        };
        let mut models = [upwards, downwards].map(|def| Model { def, last: None });
        models.iter().for_each(|model| define(&store, &model.def));
        for _ in 0..60 {
            let model = &mut models[dice.random_range(0..2)];
            match dice.random_range(0..20) {
                0..10 => {
                    for _ in 0..[1, 5, 600, 1_100][dice.random_range(0..4)] {
                        model.take(&store, seed);
                    }
                }
                10..14 => {
                    model.alter(&mut dice);
                    define(&store, &model.def);
                }
                14 => {
                    // Back to any of its numbers: from here on it may give again what lies behind.
                    let value = dice.random_range(model.def.min.max(-500)..=model.def.max.min(500));
                    let how = if dice.random() { SetValue::Used } else { SetValue::Next };
                    store.set_value(&model.def, value, how).unwrap();
                    model.last = (how == SetValue::Used).then_some(value);
                }
                15 => drop(store.checkpoint().unwrap()),
                _ => {
                    files = if dice.random() { files.crash() } else { files.restart() };
                    drop(store);
                    store = open(&files);
                }
            }
        }
    }
}
