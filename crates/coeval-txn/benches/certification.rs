// SPDX-License-Identifier: Apache-2.0
//! Prints what certification and the snapshot registry cost, in nanoseconds per operation.
//!
//! `cargo bench -p coeval-txn`. Each figure is the best of several rounds: other work on the machine only
//! ever adds to it. Keys look like the store's: a table, an index and up to 24 bytes kept inline.

use std::hint::black_box;
use std::time::{Duration, Instant};

use coeval_txn::{Access, ActiveSnapshots, Certifier, CommitOrder, TransactionId, Version};

const ROUND_COUNT: usize = 7;
const ACCESS_PER_TRANSACTION_COUNT: u64 = 20;
const TRANSACTION_PER_BATCH_COUNT: u64 = 10;
const BATCH_COUNT: u64 = 2_000;
const ACCESS_COUNT: u64 = ACCESS_PER_TRANSACTION_COUNT * TRANSACTION_PER_BATCH_COUNT * BATCH_COUNT;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    table: u32,
    index: u16,
    length: u8,
    bytes: [u8; 24],
}

impl Key {
    fn new(number: u64) -> Self {
        // Scatters the numbers, as uniformly random keys would be.
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        Self { table: 7, index: 0, length: 8, bytes }
    }
}

fn main() {
    report("register and drop a snapshot", snapshot_registration(0));
    report("register and drop a snapshot, 64 others held", snapshot_registration(64));
    for lag in [0, 1, 100, 1_000] {
        let [certify, admit, prune] = best_of(|| certification(lag));
        println!("certification, snapshots {lag} batches old, per access:");
        report("  certify", certify);
        report("  admit", admit);
        report("  prune", prune);
    }
}

fn report(what: &str, nanoseconds: f64) {
    println!("{what:<48} {nanoseconds:>8.1} ns");
}

fn best_of<const FIGURE_COUNT: usize>(measure: impl Fn() -> [f64; FIGURE_COUNT]) -> [f64; FIGURE_COUNT] {
    let mut best = [f64::INFINITY; FIGURE_COUNT];
    for _ in 0..ROUND_COUNT {
        for (best, figure) in best.iter_mut().zip(measure()) {
            *best = best.min(figure);
        }
    }
    best
}

fn snapshot_registration(other_count: u64) -> f64 {
    const REGISTRATION_COUNT: u64 = 1_000_000;
    let snapshots = ActiveSnapshots::new();
    let _others: Vec<_> =
        (0..other_count).map(|number| snapshots.register(|| Version::new(number))).collect();
    let [figure] = best_of(|| {
        let start = Instant::now();
        for number in 0..REGISTRATION_COUNT {
            drop(black_box(snapshots.register(|| Version::new(other_count + number))));
        }
        [per_operation(start.elapsed(), REGISTRATION_COUNT)]
    });
    figure
}

/// Commits batches of transactions whose snapshots are `lag` batches older than the newest, each of 20
/// accesses of which one is to a key that all share. Returns the cost per access of each step.
fn certification(lag: u64) -> [f64; 3] {
    let mut certifier = Certifier::<Key>::new();
    let mut spent = [Duration::ZERO; 3];
    let mut number = 0;
    for batch in 1..=BATCH_COUNT {
        let begin = Version::new((batch - 1).saturating_sub(lag));
        for position in 0..TRANSACTION_PER_BATCH_COUNT {
            let mut footprint: Vec<(Key, Access)> = (1..ACCESS_PER_TRANSACTION_COUNT)
                .map(|own| (Key::new(number + own), Access::Update))
                .collect();
            footprint.push((Key::new(0), Access::Reference));
            number += ACCESS_PER_TRANSACTION_COUNT;
            let accesses = || footprint.iter().map(|(key, access)| (key, *access));

            let start = Instant::now();
            assert!(black_box(certifier.certify(begin, accesses())).is_ok());
            let certified = Instant::now();
            let order = CommitOrder {
                version: Version::new(batch),
                position: u32::try_from(position).expect("a batch is small"),
            };
            certifier.admit(order, TransactionId::new(number), accesses());
            spent[0] += certified - start;
            spent[1] += certified.elapsed();
        }
        let start = Instant::now();
        certifier.prune(begin);
        spent[2] += start.elapsed();
    }
    spent.map(|spent| per_operation(spent, ACCESS_COUNT))
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people, of a count below 2^53")]
fn per_operation(spent: Duration, count: u64) -> f64 {
    spent.as_nanos() as f64 / count as f64
}
