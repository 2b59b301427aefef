// SPDX-License-Identifier: Apache-2.0
//! Measures the tree for several block sizes, beside `BTreeMap`, with keys and values as a database has them.
//!
//! ```text
//! cargo run --release -p coeval-ptree --example block_size -- [ENTRIES] [BLOCK ...]
//! ```
//!
//! Keys are 32 bytes inline, values are reference-counted rows of 64 bytes that lie in memory in random order, as
//! rows of a database do after random updates. Without arguments a million entries, for a first look; the figures
//! in the README are for ten million.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use coeval_ptree::PTree;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use triomphe::Arc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Operations per measurement.
const OPERATIONS: usize = 400_000;

/// A key as a database would have it: short ones inline and compared by words, long ones elsewhere.
#[derive(Clone)]
enum Key {
    Inline {
        length: u8,
        words: [u64; 3],
    },
    /// Never made here, but the comparison has to look for it.
    #[allow(dead_code)]
    Heap(Arc<[u8; 64]>),
}

impl Key {
    fn new(number: u64) -> Self {
        // Multiplying by an odd number is a bijection: keys are unique and in random order.
        Key::Inline { length: 8, words: [number.wrapping_mul(0x9E37_79B9_7F4A_7C15), 0, 0] }
    }

    fn bytes(&self) -> Box<[u8]> {
        match self {
            Key::Inline { words, .. } => Box::new(words[0].to_be_bytes()),
            Key::Heap(bytes) => Box::new(**bytes),
        }
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Key::Inline { length: a, words: x }, Key::Inline { length: b, words: y }) => {
                x.cmp(y).then(a.cmp(b))
            }
            _ => self.bytes().cmp(&other.bytes()),
        }
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

type Row = Arc<[u64; 8]>;

/// Nanoseconds that all threads together spent on processors, where the system tells.
fn on_processor() -> Option<u64> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    threads
        .map(|thread| {
            let statistics = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            statistics.split(' ').next()?.parse::<u64>().ok()
        })
        .sum()
}

/// Runs `work` and prints wall time and processor time of all threads per operation. On a busy machine the latter
/// is the one to look at.
fn measure<R>(name: &str, operations: usize, work: impl FnOnce() -> R) -> R {
    let (start, processor_start) = (Instant::now(), on_processor());
    let result = black_box(work());
    let wall = start.elapsed().as_nanos() as f64 / operations as f64;
    print!("  {name:<46} {wall:>9.1} ns");
    if let (Some(start), Some(end)) = (processor_start, on_processor()) {
        print!(" {:>9.1} ns", (end - start) as f64 / operations as f64);
    }
    println!();
    result
}

/// Even numbers are present, odd ones are not.
fn present(random: &mut StdRng, count: usize) -> Key {
    Key::new(2 * random.random_range(0..count as u64))
}

fn absent(random: &mut StdRng, count: usize) -> Key {
    Key::new(2 * random.random_range(0..count as u64) + 1)
}

/// Entries in key order, rows in random order of memory.
fn entries(count: usize) -> Vec<(Key, Row)> {
    let mut entries: Vec<(Key, Row)> =
        (0..count as u64).map(|number| (Key::new(2 * number), Arc::new([number; 8]))).collect();
    entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    entries
}

fn measure_standard_map(entries: &[(Key, Row)], seed: u64) {
    println!("BTreeMap<Box<[u8]>, Box<[u8]>>");
    let mut shuffled: Vec<&(Key, Row)> = entries.iter().collect();
    shuffled.shuffle(&mut StdRng::seed_from_u64(seed));
    let map: BTreeMap<Box<[u8]>, Box<[u8]>> =
        shuffled.iter().map(|(key, _)| (key.bytes(), Box::from([0u8; 64]))).collect();
    let random = &mut StdRng::seed_from_u64(seed);
    let keys: Vec<Box<[u8]>> = (0..OPERATIONS).map(|_| present(random, entries.len()).bytes()).collect();
    measure("get", OPERATIONS, || keys.iter().filter(|key| map.contains_key(*key)).count());
}

fn measure_reads<const B: usize>(tree: &PTree<Key, Row, (), B>, random: &mut StdRng) {
    let count = tree.len();
    let keys: Vec<Key> = (0..OPERATIONS).map(|_| present(random, count)).collect();
    let found = measure("get", OPERATIONS, || keys.iter().filter(|key| tree.get(*key).is_some()).count());
    assert_eq!(found, OPERATIONS);
    measure("range of 10, per range", OPERATIONS, || {
        keys.iter()
            .map(|key| {
                tree.iter_range(key..)
                    .take(10)
                    .map(|(_, row)| usize::from(Arc::is_unique(row)))
                    .sum::<usize>()
            })
            .sum::<usize>()
    });
    measure("iterate, per entry", count, || {
        let mut length_sum = 0u64;
        for (key, _) in tree {
            length_sum += if let Key::Inline { length, .. } = key { u64::from(*length) } else { 0 };
        }
        length_sum
    });
    measure("fold, per entry", count, || {
        tree.iter().fold(
            0u64,
            |sum, (key, _)| if let Key::Inline { words, .. } = key { sum ^ words[0] } else { sum },
        )
    });
}

fn measure_updates<const B: usize>(mut tree: PTree<Key, Row, (), B>, random: &mut StdRng) {
    let count = tree.len();
    let row: Row = Arc::new([7; 8]);
    let keys: Vec<Key> = (0..OPERATIONS).map(|_| present(random, count)).collect();
    let mut held = tree.clone();
    measure("update, last version held", OPERATIONS, || {
        for key in &keys {
            tree.insert(key.clone(), row.clone());
            held = tree.clone();
        }
    });
    let keys: Vec<Key> = (0..OPERATIONS).map(|_| absent(random, count)).collect();
    measure("insert, last version held", OPERATIONS, || {
        for key in &keys {
            tree.insert(key.clone(), row.clone());
            held = tree.clone();
        }
    });
    for batch_size in [1, 10, 100, 20_000] {
        let batches: Vec<Vec<(Key, Row)>> = (0..OPERATIONS / batch_size)
            .map(|_| {
                let mut batch: Vec<Key> = (0..batch_size).map(|_| absent(random, count)).collect();
                batch.sort();
                batch.dedup();
                batch.into_iter().map(|key| (key, row.clone())).collect()
            })
            .collect();
        measure(&format!("multi_insert of {batch_size}, last held, per key"), OPERATIONS, || {
            for batch in batches {
                tree.multi_insert(batch, |_, _, new| new);
                held = tree.clone();
            }
        });
    }
    let keys: Vec<Key> = (0..OPERATIONS).map(|_| present(random, count)).collect();
    measure("remove, last version held", OPERATIONS, || {
        for key in &keys {
            tree.remove(key);
            held = tree.clone();
        }
    });
    drop(held);
    let keys: Vec<Key> = (0..OPERATIONS).map(|_| absent(random, count)).collect();
    measure("insert, sole owner", OPERATIONS, || {
        for key in &keys {
            tree.insert(key.clone(), row.clone());
        }
    });
}

fn measure_blocks<const B: usize>(entries: &[(Key, Row)], seed: u64) {
    println!("PTree with blocks of {B}");
    let random = &mut StdRng::seed_from_u64(seed);
    let copy = entries.to_vec();
    let tree: PTree<Key, Row, (), B> =
        measure("build, per entry", entries.len(), || PTree::from_sorted(copy));
    measure_reads(&tree, random);
    measure_updates(tree, random);
    let tree: PTree<u64, u64, (), B> =
        PTree::from_sorted((0..entries.len() as u64).map(|key| (key, key)).collect());
    measure("iterate u64 -> u64, per entry", tree.len(), || {
        let mut sum = 0u64;
        for (_, value) in &tree {
            sum = sum.wrapping_add(*value);
        }
        sum
    });
    let mut tree: PTree<Key, Row, (), B> = PTree::default();
    for (key, row) in entries.iter().take(500_000) {
        tree.insert(
            Key::new(if let Key::Inline { words, .. } = key { words[1] ^ row[0] } else { 0 }),
            row.clone(),
        );
    }
    let shape = tree.shape();
    let bytes = shape.bytes as f64 / shape.entries as f64;
    println!("  node bytes per entry after random inserts      {bytes:>9.1}    height {}", shape.height);
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("numbers"));
    let count = arguments.next().unwrap_or(1_000_000);
    let blocks: Vec<usize> = arguments.collect();
    let wanted = |block: usize| blocks.is_empty() || blocks.contains(&block);
    let entries = entries(count);
    println!("{count} entries; wall time and processor time per operation");
    if wanted(0) {
        measure_standard_map(&entries, 1);
    }
    if wanted(4) {
        measure_blocks::<4>(&entries, 1);
    }
    if wanted(8) {
        measure_blocks::<8>(&entries, 1);
    }
    if wanted(12) {
        measure_blocks::<12>(&entries, 1);
    }
    if wanted(16) {
        measure_blocks::<16>(&entries, 1);
    }
    if wanted(24) {
        measure_blocks::<24>(&entries, 1);
    }
    if wanted(32) {
        measure_blocks::<32>(&entries, 1);
    }
    if wanted(64) {
        measure_blocks::<64>(&entries, 1);
    }
}
