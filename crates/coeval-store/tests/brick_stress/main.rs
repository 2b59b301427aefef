// SPDX-License-Identifier: Apache-2.0
//! A thousand writers and readers of one brick table at once: loads, deletes, savepoints, rollbacks, purges, long
//! readers. What each of them counts, whenever, is compared with what the recorded history says.
//!
//! A thread plays many transactions that are open at the same time, a step of one here and there. A round ends when all
//! threads have made their steps; then all commits are known, and what was counted meanwhile is checked.
//! Some rounds are the test; the experiment is
//! `COEVAL_STRESS_SECONDS=600 cargo test --release -p coeval-store --test brick_stress -- --nocapture`.

// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

mod actor;
mod history;

use actor::Actor;
use coeval_store::{
    AccessMode, BrickDef, BrickDimension, CatalogChange, CheckpointPolicy, ColumnDef, ColumnState,
    ColumnType, QualifiedName, Store, StoreOptions, TableDef,
};
use coeval_txn::Isolation;
use history::{BRICK_VALUES, BRICKS, History};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ACTORS: usize = 1_000;
const THREADS: usize = 8;
/// Steps of each thread in a round, and the rounds of a short run.
const STEPS: usize = 300;
const ROUNDS: usize = 6;

/// `(place bigint, row bigint)`, partitioned by place.
fn make_table(store: &Store) -> TableDef {
    let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
    hidden.state = ColumnState::Hidden;
    let columns = vec![
        ColumnDef::new("place", ColumnType::BigInt).not_null(),
        ColumnDef::new("row", ColumnType::BigInt),
        hidden,
    ];
    let mut def =
        TableDef::new(store.new_space_id(), QualifiedName::new("public", "events"), columns, vec![2]);
    let place = BrickDimension {
        column: 0,
        cardinality: BRICKS as u64 * BRICK_VALUES as u64,
        range_size: BRICK_VALUES as u64,
        origin: 0,
    };
    def.bricks = Some(BrickDef { dimensions: vec![place], retention: None, replicas: None });
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

/// A round: each thread makes its steps, beside purges.
fn play(store: &Store, def: &TableDef, casts: &mut [(StdRng, Vec<Actor>)], history: &History) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let purger = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                store.checkpoint().unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let threads = casts.iter_mut().map(|(random, actors)| {
            scope.spawn(move || {
                for _ in 0..STEPS {
                    let actor = random.random_range(0..actors.len());
                    actors[actor].step(store, def, random, history);
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Release);
        purger.join().unwrap();
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
}

#[test]
fn every_count_of_a_thousand_writers_and_readers_is_that_of_the_history() {
    let seconds: Option<f64> = std::env::var("COEVAL_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let store = Store::in_memory(options);
    let def = make_table(&store);
    let mut history = History::default();
    let cast = |seed: usize| {
        let actors = (0..ACTORS / THREADS).map(|_| Actor::idle()).collect();
        (StdRng::seed_from_u64(seed as u64), actors)
    };
    let mut casts: Vec<_> = (0..THREADS).map(cast).collect();
    let begun = Instant::now();
    let mut rounds = 0;
    while seconds.map_or(rounds < ROUNDS, |seconds| begun.elapsed().as_secs_f64() < seconds) {
        play(&store, &def, &mut casts, &history);
        let open = casts.iter().flat_map(|(_, actors)| actors).filter_map(Actor::begin);
        history.check_and_fold(open.min().unwrap_or(store.world().version()));
        rounds += 1;
    }
    let totals = history.totals();
    println!("{rounds} rounds in {:.0} s: {totals:?}", begun.elapsed().as_secs_f64());
    assert!(totals.counts > 300 && totals.loads > 300 && totals.deletes > 5, "{totals:?}");
    drop(casts);
    // Everybody has ended: an entry for each brick is left, and no row that nobody sees.
    let look = || {
        let reader = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
        let snapshot = reader.brick_view(def.id, |all| all).unwrap();
        let bricks = snapshot.bricks();
        let rows: usize = bricks.iter().map(|brick| brick.rows()).sum();
        let visible: usize = bricks.iter().map(|brick| snapshot.visible_rows(brick)).sum();
        let entries: usize = bricks.iter().map(|brick| brick.epochs_entries()).sum();
        (bricks.len(), rows, visible, entries)
    };
    let (_, _, visible, _) = look();
    loop {
        store.checkpoint().unwrap();
        let (bricks, rows, now_visible, entries) = look();
        assert_eq!(now_visible, visible, "what is seen stays");
        if entries == bricks && rows == visible {
            break;
        }
        std::thread::yield_now();
    }
}
