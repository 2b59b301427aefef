// SPDX-License-Identifier: Apache-2.0
//! Prints what serializability costs: to note reads, to certify and to remember, per transaction of TPC-C's
//! shape, beside what first committer wins costs alone.
//!
//! `cargo bench -p coeval-txn --bench serializability`. Each figure is the best of several rounds: other work on
//! the machine only ever adds to it.

use std::hint::black_box;
use std::ops::Bound;
use std::time::{Duration, Instant};

use coeval_txn::ssi::{Boundary, ReadSet, Ssi, Written};
use coeval_txn::{Access, ActiveSnapshots, Certifier, CommitOrder, TransactionId, Version};

const ROUND_COUNT: usize = 7;
const BATCH_COUNT: u64 = 2_000;
const TRANSACTION_PER_BATCH_COUNT: u64 = 4;
const TRANSACTION_COUNT: u64 = BATCH_COUNT * TRANSACTION_PER_BATCH_COUNT;

/// As large as the store's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    bytes: [u8; 30],
    length: u8,
}

impl Key {
    fn new(number: u64) -> Self {
        // Scatters the numbers, as uniformly random keys would be.
        let mut bytes = [0; 30];
        bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        Self { bytes, length: 8 }
    }
}

type Space = u32;

/// What a New-Order reads, ranges aside: a warehouse, a district, a customer, ten items and their stock.
fn keys_read(number: u64) -> impl Iterator<Item = (Space, Key)> {
    let of_one = [(1, number % 4), (2, number % 40), (3, number % 120_000)].into_iter();
    let lines = (0..10).map(move |line| (number * 7919 + line * 104_729) % 100_000);
    of_one
        .chain(lines.clone().map(|item| (4, item)))
        .chain(lines.map(|item| (5, item + 1_000_000)))
        .map(|(space, key)| (space, Key::new(key)))
}

/// What it writes: the district, ten rows of stock, an order with its entry in an index, ten lines.
fn keys_written(number: u64) -> Vec<(Space, Key)> {
    let district = [(2, number % 40)].into_iter();
    let stock = (0..10).map(move |line| (5, (number * 7919 + line * 104_729) % 100_000 + 1_000_000));
    let order = [(6, number), (7, number), (8, number)].into_iter();
    let lines = (0..10).map(move |line| (9, number * 16 + line));
    district.chain(stock).chain(order).chain(lines).map(|(space, key)| (space, Key::new(key))).collect()
}

fn reads_of(number: u64) -> ReadSet<Space, Key> {
    let mut reads = ReadSet::new();
    for (space, key) in keys_read(number) {
        reads.read_key(space, &key);
    }
    // Two short ranges, as Payment by name and Delivery have them.
    for space in [3, 7] {
        let (first, last) = (Key::new(number * 3), Key::new(number * 3 + 1));
        reads.read_range(space, Bound::Included(&first), Bound::Included(&last));
    }
    reads.settle();
    reads
}

fn main() {
    let [generate] = best_of(|| {
        [per_transaction(|number| {
            black_box(keys_read(number).count());
        })]
    });
    let [note] = best_of(|| [per_transaction(|number| drop(black_box(reads_of(number))))]);
    report("note 23 keys and 2 ranges read, drop them", note - generate);
    for lag in [0, 1, 10, 100] {
        let [si, certify, admit, prune] = best_of(|| pipeline(lag));
        println!("23 keys and 2 ranges read, 24 keys written, snapshots {lag} batches old:");
        report("  first committer wins, all of it", si);
        report("  certify", certify);
        report("  admit", admit);
        report("  prune", prune);
    }
    let [register] = best_of(registration);
    report("register in both registries and drop", register);
    for writes in [1_000, 60_000] {
        let [key, range] = best_of(|| old_snapshot(writes));
        println!("a snapshot behind {writes} writes of the space:");
        report("  certify one key", key);
        report("  certify one range", range);
    }
}

fn report(what: &str, nanoseconds: f64) {
    println!("{what:<48} {nanoseconds:>9.1} ns");
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

fn per_transaction(run: impl Fn(u64)) -> f64 {
    let start = Instant::now();
    (0..TRANSACTION_COUNT).for_each(run);
    per_operation(start.elapsed(), TRANSACTION_COUNT)
}

/// Commits batches of transactions whose snapshots are `lag` batches older than the newest, and returns the cost
/// per transaction of first committer wins, and of each step of serializability. Who is refused has cost its
/// certification.
fn pipeline(lag: u64) -> [f64; 4] {
    let mut certifier = Certifier::<(Space, Key)>::new();
    let mut ssi = Ssi::<Space, Key>::new();
    let mut spent = [Duration::ZERO; 4];
    for batch in 1..=BATCH_COUNT {
        let begin = Version::new((batch - 1).saturating_sub(lag));
        for position in 0..TRANSACTION_PER_BATCH_COUNT {
            let number = batch * TRANSACTION_PER_BATCH_COUNT + position;
            let (reads, written) = (reads_of(number), keys_written(number));
            let order = CommitOrder { version: Version::new(batch), position: position as u32 };
            let writes = || written.iter().map(|(space, key)| (*space, Written::Key(key)));
            let footprint = || written.iter().map(|key| (key, Access::Update));

            let start = Instant::now();
            let _ = black_box(certifier.certify(begin, footprint()));
            certifier.admit(order, TransactionId::new(number), footprint());
            let si = Instant::now();
            let verdict = black_box(ssi.certify(begin, &reads, writes(), None));
            let certified = Instant::now();
            if let Ok(verdict) = verdict {
                ssi.admit(order, TransactionId::new(number), &reads, writes(), verdict);
            }
            spent[0] += si - start;
            spent[1] += certified - si;
            spent[2] += certified.elapsed();
        }
        let start = Instant::now();
        certifier.prune(begin);
        let si = Instant::now();
        ssi.prune(begin, begin);
        spent[0] += si - start;
        spent[3] += si.elapsed();
    }
    spent.map(|spent| per_operation(spent, TRANSACTION_COUNT))
}

fn registration() -> [f64; 1] {
    const COUNT: u64 = 200_000;
    let (all, boundary) = (ActiveSnapshots::new(), Boundary::new(Version::ZERO));
    let now = Instant::now();
    let start = Instant::now();
    for number in 0..COUNT {
        let mut snapshot = None;
        let guard = boundary.register(TransactionId::new(number), now, || {
            let version = Version::new(number);
            (snapshot.insert(all.register(|| version)).version(), ())
        });
        drop(black_box((guard, snapshot)));
    }
    [per_operation(start.elapsed(), COUNT)]
}

/// What it costs to certify one read against so many writes of its space since the snapshot.
fn old_snapshot(writes: u64) -> [f64; 2] {
    const COUNT: u64 = 50;
    let mut ssi = Ssi::<Space, Key>::new();
    for number in 1..=writes / 10 {
        let keys: Vec<Key> = (0..10).map(|key| Key::new(number * 10 + key)).collect();
        let written = || keys.iter().map(|key| (1, Written::Key(key)));
        let begin = Version::new(number - 1);
        let certified = ssi.certify(begin, &ReadSet::new(), written(), None).expect("a blind writer");
        let order = CommitOrder { version: Version::new(number), position: 0 };
        ssi.admit(order, TransactionId::new(number), &ReadSet::new(), written(), certified);
    }
    let mut key = ReadSet::new();
    key.read_key(1, &Key::new(3));
    let mut range = ReadSet::new();
    range.read_range(1, Bound::Included(&Key::new(3)), Bound::Included(&Key::new(3)));
    [key, range].map(|reads| {
        let start = Instant::now();
        (0..COUNT).for_each(|_| assert!(black_box(ssi.first_overwrite(Version::ZERO, &reads)).is_none()));
        per_operation(start.elapsed(), COUNT)
    })
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people, of a count below 2^53")]
fn per_operation(spent: Duration, count: u64) -> f64 {
    spent.as_nanos() as f64 / count as f64
}
