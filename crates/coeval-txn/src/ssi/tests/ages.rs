// SPDX-License-Identifier: Apache-2.0
//! Readers of rows, and of bricks into which other nodes load. Versions of rows name an *age*: up to which load their readers see
//! bricks. That gives all of them one order with transactions and loads; the proof is in `epochs/cluster/README.md`, "Rows and bricks".
//!
//! Loads are blind and certified nowhere, so the real certification of rows runs as it does without them. Judged are all that have
//! only read, declared or not, and a safe reader of each boundary, which all read the loads too.
//!
//! A load may be one with a transaction that has written rows, if that has no out-edge: the age of its version is the first that has it.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::pipeline::{Pipeline, Setup};
use super::samples::sample;
use crate::Version;

/// What is done otherwise than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// Readers see all loads up to the moment at which they look, which is behind that of their rows.
    ReadsNewest,
    /// A later version may name fewer loads: whoever notes ages has changed, and knows of fewer.
    AgesMoveBack,
    /// A transaction that is one with a load has an out-edge.
    OneHasOutEdge,
    /// Its load is not in the age of its own version, but in that of the next one.
    OneIsNamedLate,
}

const LOADS: u32 = 6;

/// Whether the history of a seed has a serial order.
fn has_order(seed: u64, setup: &Setup, fault: Fault) -> bool {
    let random = &mut StdRng::seed_from_u64(seed);
    let (specs, events) = sample(random, setup.item_count);
    let pipeline = Pipeline::run(setup, &specs, &events, Instant::now());
    let mut ages: Vec<u32> = vec![0];
    for version in 1..pipeline.worlds().len() {
        // They are noted now and then: many versions name what the one before does.
        let next = ages[version - 1] + u32::from(random.random_range(0..3) == 0);
        let is_back = fault == Fault::AgesMoveBack && random.random_range(0..4) == 0;
        ages.push(if is_back { next.saturating_sub(2) } else { next.min(LOADS) });
    }
    let graph = pipeline.graph_with_loads(&[None; LOADS as usize], |version| {
        let age = ages[usize::try_from(version.get()).unwrap()];
        if fault == Fault::ReadsNewest { random.random_range(age..=LOADS) } else { age }
    });
    graph.is_acyclic()
}

/// The same, where some loads are one with transactions.
fn has_order_with_ones(seed: u64, setup: &Setup, fault: Fault) -> bool {
    let random = &mut StdRng::seed_from_u64(seed);
    let (specs, events) = sample(random, setup.item_count);
    let pipeline = Pipeline::run(setup, &specs, &events, Instant::now());
    let (mut loads, mut ages): (Vec<Option<usize>>, Vec<usize>) = (Vec::new(), vec![0]);
    for version in 1..pipeline.worlds().len() {
        let writers = pipeline.writers_of(Version::new(version as u64));
        let fits = |(_, has_out_edge): &&(usize, bool)| *has_out_edge == (fault == Fault::OneHasOutEdge);
        let one =
            writers.iter().find(fits).map(|(index, _)| *index).filter(|_| random.random_range(0..2) == 0);
        let before = loads.len();
        if before < LOADS as usize && (one.is_some() || random.random_range(0..3) == 0) {
            loads.push(one);
        }
        let is_late = fault == Fault::OneIsNamedLate && one.is_some();
        ages.push(if is_late { before } else { loads.len() });
    }
    loads.resize(LOADS as usize, None);
    let graph = pipeline.graph_with_loads(&loads, |version| {
        u32::try_from(ages[usize::try_from(version.get()).unwrap()]).unwrap()
    });
    graph.is_acyclic()
}

#[test]
fn readers_that_go_by_the_age_of_their_rows_have_an_order() {
    for item_count in [3, 4, 6] {
        let setup = Setup::new(item_count);
        for seed in 0..10_000 {
            assert!(has_order(seed, &setup, Fault::Nothing), "seed {seed}, {item_count} items");
        }
    }
}

fn shows(fault: Fault) -> bool {
    let setup = Setup::new(4);
    (0..10_000).any(|seed| !has_order(seed, &setup, fault))
}

#[test]
fn loads_that_are_one_with_transactions_have_an_order_with_all() {
    for item_count in [3, 4, 6] {
        let setup = Setup::new(item_count);
        for seed in 0..10_000 {
            assert!(has_order_with_ones(seed, &setup, Fault::Nothing), "seed {seed}, {item_count} items");
        }
    }
}

/// A transaction that comes before what it has not seen, in an earlier version, may come before readers who lack its load.
#[test]
fn what_is_one_with_a_load_must_have_no_out_edge_and_be_named_at_once() {
    let setup = Setup::new(4);
    for fault in [Fault::OneHasOutEdge, Fault::OneIsNamedLate] {
        assert!((0..10_000).any(|seed| !has_order_with_ones(seed, &setup, fault)), "{fault:?}");
    }
}

/// Two readers see a commit of rows and a load in different orders.
#[test]
fn readers_of_the_newest_bricks_have_no_order() {
    assert!(shows(Fault::ReadsNewest));
}

#[test]
fn ages_must_not_move_back() {
    assert!(shows(Fault::AgesMoveBack));
}
