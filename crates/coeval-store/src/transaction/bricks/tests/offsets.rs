// SPDX-License-Identifier: Apache-2.0
//! Loads that name their source and offset: each counts once, whatever is repeated and whatever crashes.

use super::{DIR, batch, begin, events, ids, options, try_open};
use crate::catalog::TableDef;
use crate::error::StoreError;
use crate::files::{Fault, SimulatedFiles};
use crate::ingest::{Ingested, SourceOffset};
use crate::store::Store;
use crate::verify::verify;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;

/// Row `number` of a source, as a load of its own that ends at the offset `number`.
fn feed(store: &Store, def: &TableDef, source: &str, number: i64) -> Result<Ingested, StoreError> {
    let from = SourceOffset { source: source.to_owned(), offset: number };
    store.ingest(def.id, &[batch(&[("a", number % 100, number)])], 0, Some(&from))
}

/// How far the sources of a table have come.
fn offsets(store: &Store, def: &TableDef) -> Vec<(String, i64, i64)> {
    let offsets = begin(store).ingest_offsets().unwrap();
    let of_table = offsets.into_iter().filter(|offset| offset.table == def.id);
    of_table.map(|offset| (offset.source, offset.offset, offset.rows)).collect()
}

#[test]
fn a_load_is_repeated_without_harm_also_after_a_crash() {
    let files = SimulatedFiles::new(1);
    let store = try_open(&files).unwrap();
    let (def, other) = (events(&store, "e"), events(&store, "other"));
    assert_eq!(offsets(&store, &def), []);
    for (number, is_new) in [(1, true), (2, true), (2, false), (1, false), (5, true)] {
        assert_eq!(feed(&store, &def, "s", number).unwrap() != Ingested::Repeated, is_new);
    }
    feed(&store, &def, "t", 2).unwrap();
    feed(&store, &other, "s", 1).unwrap();
    let expected = [("s".to_owned(), 5, 3), ("t".to_owned(), 2, 1)];
    assert_eq!((ids(&begin(&store), &def), offsets(&store, &def)), (vec![1, 2, 2, 5], expected.to_vec()));
    let files = files.crash();
    drop(store);
    let store = try_open(&files).unwrap();
    assert_eq!((ids(&begin(&store), &def), offsets(&store, &def)), (vec![1, 2, 2, 5], expected.to_vec()));
    assert_eq!(feed(&store, &def, "s", 5).unwrap(), Ingested::Repeated);
    assert_eq!(ids(&begin(&store), &other), [1]);
}

#[test]
fn a_refused_load_leaves_its_offset_where_it_was() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    feed(&store, &def, "s", 1).unwrap();
    let bad = batch(&[("a", 1, 2), ("a", 100, 3)]);
    let from = SourceOffset { source: "s".to_owned(), offset: 2 };
    let refused = store.ingest(def.id, std::slice::from_ref(&bad), 0, Some(&from));
    assert!(matches!(refused, Err(StoreError::BrickLoad(_))), "{refused:?}");
    assert_eq!(offsets(&store, &def), [("s".to_owned(), 1, 1)]);
    let Ingested::Appended(appended) = store.ingest(def.id, &[bad], 1, Some(&from)).unwrap() else {
        panic!("the refused load does not count")
    };
    assert_eq!((appended.rows, appended.rejected[0].row), (1, 1));
    assert_eq!(
        (ids(&begin(&store), &def), offsets(&store, &def)),
        (vec![1, 2], vec![("s".to_owned(), 2, 2)])
    );
}

#[test]
fn several_feeders_of_one_source_load_each_offset_once() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let loaded: usize = std::thread::scope(|scope| {
        let feeders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let new = |number| feed(&store, &def, "s", number).unwrap() != Ingested::Repeated;
                    (1..=25).filter(|number| new(*number)).count()
                })
            })
            .collect();
        feeders.into_iter().map(|feeder| feeder.join().unwrap()).sum()
    });
    assert_eq!((loaded, ids(&begin(&store), &def)), (25, (1..=25).collect()));
    assert_eq!(offsets(&store, &def), [("s".to_owned(), 25, 25)]);
}

/// A feeder that goes on at the offset it finds, over faults and crashes.
#[test]
fn after_any_crash_the_offset_says_which_rows_are_there() {
    let (mut stopped, mut unacknowledged) = (0, 0);
    for seed in 0..60 {
        let mut dice = StdRng::seed_from_u64(seed);
        let mut files = SimulatedFiles::new(seed);
        let def = events(&try_open(&files).unwrap(), "e");
        let mut acknowledged = 0;
        for _ in 0..4 {
            let store = try_open(&files).unwrap();
            let found = offsets(&store, &def).first().map_or(0, |(_, offset, _)| *offset);
            assert!(found == acknowledged || found == acknowledged + 1, "seed {seed}");
            unacknowledged += found - acknowledged;
            assert_eq!(ids(&begin(&store), &def), (1..=found).collect::<Vec<_>>(), "seed {seed}");
            if found > 0 {
                assert_eq!(feed(&store, &def, "s", found).unwrap(), Ingested::Repeated);
            }
            acknowledged = found;
            if dice.random_ratio(3, 4) {
                files.fail_after(
                    dice.random_range(1..60),
                    if dice.random() { Fault::Io } else { Fault::DiskFull },
                );
            }
            for number in acknowledged + 1..acknowledged + dice.random_range(2..20) {
                if dice.random_ratio(1, 5) {
                    let _ = store.checkpoint();
                }
                if feed(&store, &def, "s", number).is_err() {
                    stopped += 1;
                    break;
                }
                acknowledged = number;
            }
            files.heal();
            files = files.crash();
            drop(store);
        }
        let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
        assert!(report.is_clean(), "seed {seed}: {:?}", report.problems);
    }
    assert!(stopped > 10 && unacknowledged > 0, "{stopped} faults, {unacknowledged} loads without an answer");
}

#[test]
fn sources_whose_first_loads_meet_lose_none_of_them() {
    for _ in 0..200 {
        let store = Store::in_memory(options());
        let def = events(&store, "e");
        std::thread::scope(|scope| {
            for source in ["s", "t", "u", "v"] {
                let (store, def) = (&store, &def);
                scope.spawn(move || {
                    for number in 1..=3 {
                        feed(store, def, source, number).unwrap();
                    }
                });
            }
        });
        let expected = ["s", "t", "u", "v"].map(|source| (source.to_owned(), 3, 3));
        assert_eq!(offsets(&store, &def), expected);
    }
}
