// SPDX-License-Identifier: Apache-2.0
//! Measures single operations of the tree beside other ordered maps, and its parallel operations beside themselves on
//! one thread. One JSON line per figure.
//!
//! ```text
//! cargo run --release -p coeval-ptree --example peers -- find|blocks|batch|union|drop|allocation [ENTRIES]
//! cargo run --release -p coeval-ptree --example peers -- speedup ENTRIES passes|builds|batches|sets
//! cargo run --release -p coeval-ptree --example peers -- memory ENTRIES 16|30|62|packed|btree|imbl|...
//! ```
//!
//! Keys and values are `u64`, keys at random, ten million of them unless said otherwise. Figures of one line come from
//! alternating rounds of one process, the best round of each.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use coeval_ptree::{
    Fate, Grain, Max, PTree, PackedTree, group_batch, pairing, pairing_outer, primary, secondary,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::ThreadPoolBuilder;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A block that fills one kilobyte: where keys and values are small, larger blocks than the default are better.
const LARGE: usize = 62;

/// Lookups, or keys of a batch.
const OPERATIONS: usize = 1_000_000;

type Pairs = Vec<(u64, u64)>;

/// A bijection that scatters numbers: keys are unique and in random order.
fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn sorted_pairs(count: usize) -> Pairs {
    let mut pairs: Pairs = (0..count as u64).map(|number| (scatter(2 * number), number)).collect();
    pairs.sort_unstable();
    pairs
}

fn random_pairs(random: &mut StdRng, count: usize) -> Pairs {
    (0..OPERATIONS).map(|_| (scatter(random.random_range(0..2 * count as u64)), random.random())).collect()
}

fn print(bench: &str, what: &str, entries: usize, unit: &str, value: f64) {
    println!(r#"{{"bench":"{bench}","what":"{what}","entries":{entries},"{unit}":{value:.3}}}"#);
}

fn time<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let start = Instant::now();
    let result = black_box(work());
    (start.elapsed(), result)
}

/// The best of some rounds, in nanoseconds per operation.
#[derive(Clone, Copy)]
struct Best(f64);

impl Best {
    fn round<R>(&mut self, operations: usize, work: impl FnOnce() -> R) -> R {
        let (elapsed, result) = time(work);
        self.0 = self.0.min(elapsed.as_nanos() as f64 / operations as f64);
        result
    }
}

/// What all lookups find, folded.
fn found(keys: &[u64], get: impl FnMut(&u64) -> Option<u64>) -> u64 {
    keys.iter().filter_map(get).fold(0, |one, other| one ^ other)
}

/// A map under the lookups of [`find`].
type Finder = (String, Box<dyn Fn(&[u64]) -> u64>);

/// A tree with blocks of this size.
fn finder<const B: usize>(pairs: &Pairs) -> Finder {
    let tree = PTree::<u64, u64, (), B>::from_sorted(pairs.clone());
    (format!("PTree {B}"), Box::new(move |keys| found(keys, |key| tree.get(key).copied())))
}

/// The directory of a tree with blocks of this size, and what it took to make.
fn directory_finder<const B: usize>(pairs: &Pairs) -> Finder {
    let tree = PTree::<u64, u64, (), B>::from_sorted(pairs.clone());
    let (elapsed, directory) = time(|| tree.directory());
    print("find", &format!("PTree {B}, making a directory"), pairs.len(), "ms", elapsed.as_secs_f64() * 1e3);
    (format!("PTree {B}, directory"), Box::new(move |keys| found(keys, |key| directory.get(key).copied())))
}

/// As [`directory_finder`], sixty-four keys at a time.
fn group_finder<const B: usize>(pairs: &Pairs) -> Finder {
    let directory = PTree::<u64, u64, (), B>::from_sorted(pairs.clone()).directory();
    let find = move |keys: &[u64]| {
        let values = keys.chunks(64).flat_map(|group| directory.multi_find(group));
        values.flatten().fold(0, |one, other| one ^ other)
    };
    (format!("PTree {B}, directory, groups of 64"), Box::new(find))
}

fn find(count: usize) {
    let pairs = sorted_pairs(count);
    let standard: BTreeMap<u64, u64> = pairs.iter().copied().collect();
    let persistent: imbl::OrdMap<u64, u64> = pairs.iter().copied().collect();
    let packed = PackedTree::<u64, u64>::from_sorted(pairs.clone());
    let large: PTree<u64, u64, (), LARGE> = PTree::from_sorted(pairs.clone());
    let mut finders: Vec<Finder> = vec![
        ("BTreeMap".into(), Box::new(move |keys| found(keys, |key| standard.get(key).copied()))),
        ("imbl::OrdMap".into(), Box::new(move |keys| found(keys, |key| persistent.get(key).copied()))),
        ("PackedTree".into(), Box::new(move |keys| found(keys, |key| packed.get(key)))),
        (
            "PTree 62 multi_find, 1 thread".into(),
            Box::new(move |keys| {
                let pool = ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
                pool.install(|| {
                    large.multi_find(keys).into_iter().flatten().fold(0, |one, other| one ^ other)
                })
            }),
        ),
    ];
    finders.extend([finder::<16>(&pairs), finder::<23>(&pairs)]);
    finders.extend([finder::<30>(&pairs), finder::<62>(&pairs)]);
    finders.extend([directory_finder::<30>(&pairs), directory_finder::<62>(&pairs)]);
    finders.extend([group_finder::<30>(&pairs), group_finder::<62>(&pairs)]);
    drop(pairs);
    let random = &mut StdRng::seed_from_u64(1);
    let mut best = vec![Best(f64::MAX); finders.len()];
    for _ in 0..6 {
        let keys: Vec<u64> =
            (0..OPERATIONS).map(|_| scatter(2 * random.random_range(0..count as u64))).collect();
        let sums: Vec<u64> = finders
            .iter()
            .zip(&mut best)
            .map(|((_, find), best)| best.round(OPERATIONS, || find(&keys)))
            .collect();
        assert!(sums.windows(2).all(|two| two[0] == two[1]), "all find the same");
    }
    for ((name, _), best) in finders.iter().zip(best) {
        print("find", name, count, "ns", best.0);
    }
}

fn batch(count: usize) {
    let pairs = sorted_pairs(count);
    let random = &mut StdRng::seed_from_u64(2);
    let batches: Vec<Pairs> = (0..3).map(|_| random_pairs(random, count)).collect();
    let mut standard: BTreeMap<u64, u64> = pairs.iter().copied().collect();
    let mut best = Best(f64::MAX);
    for batch in &batches {
        best.round(OPERATIONS, || {
            batch.iter().for_each(|(key, value)| {
                standard.insert(*key, *value);
            })
        });
    }
    print("multi_insert", "BTreeMap, one by one", count, "ns", best.0);
    let expected = standard.len();
    drop(standard);
    let mut persistent: imbl::OrdMap<u64, u64> = pairs.iter().copied().collect();
    let mut best = Best(f64::MAX);
    for batch in &batches {
        let held = persistent.clone();
        best.round(OPERATIONS, || {
            batch.iter().for_each(|(key, value)| {
                persistent.insert(*key, *value);
            })
        });
        drop(held);
    }
    print("multi_insert", "imbl::OrdMap, one by one, old version held", count, "ns", best.0);
    drop(persistent);
    batch_into(PTree::<u64, u64, (), 16>::from_sorted(pairs.clone()), &batches, expected, "PTree 16");
    batch_into(PTree::<u64, u64>::from_sorted(pairs.clone()), &batches, expected, "PTree 30");
    batch_into(PTree::<u64, u64, (), LARGE>::from_sorted(pairs), &batches, expected, "PTree 62");
}

fn batch_into<const B: usize>(
    mut tree: PTree<u64, u64, (), B>,
    batches: &[Pairs],
    expected: usize,
    name: &str,
) {
    let count = tree.len();
    let mut best = Best(f64::MAX);
    for batch in batches {
        let (held, batch) = (tree.clone(), batch.clone());
        best.round(OPERATIONS, || tree.multi_insert_unsorted(batch, |_, _, new| new));
        drop(held);
    }
    assert_eq!(tree.len(), expected, "as many entries as the others have");
    print("multi_insert", &format!("{name}, sorting included, old version held"), count, "ns", best.0);
}

/// What the default block size was chosen by: trees of several ones in turn, a round of each.
fn blocks(count: usize) {
    let pairs = sorted_pairs(count);
    let random = &mut StdRng::seed_from_u64(5);
    for _ in 0..3 {
        let changes = random_pairs(random, count);
        updates::<16>(&pairs, &changes);
        updates::<20>(&pairs, &changes);
        updates::<23>(&pairs, &changes);
        updates::<27>(&pairs, &changes);
        updates::<30>(&pairs, &changes);
        updates::<62>(&pairs, &changes);
    }
}

/// What changes a tree.
type Work<'w> = &'w mut dyn FnMut(&[(u64, u64)]);

/// Changes of one tree, one by one and at once, and the memory that it takes.
fn updates<const B: usize>(pairs: &Pairs, changes: &Pairs) {
    let loaded = PTree::<u64, u64, (), B>::from_sorted(pairs.clone());
    let report = |what: &str, unit: &str, value: f64| {
        print("blocks", &format!("PTree {B}, {what}"), pairs.len(), unit, value);
    };
    let each = |work: Work<'_>, changes: &[(u64, u64)]| {
        time(|| work(changes)).0.as_nanos() as f64 / changes.len() as f64
    };
    let (few, others) = changes.split_at(changes.len() / 4);
    let mut tree = loaded.clone();
    let held = |changes: &[(u64, u64)]| {
        changes.iter().for_each(|(key, value)| {
            let held = tree.clone();
            tree.insert(*key, *value);
            drop(held);
        });
    };
    report("insert, last version held", "ns", each(&mut { held }, few));
    let at_once = |changes: &[(u64, u64)]| tree.multi_insert_unsorted(changes.to_vec(), |_, _, new| new);
    report("multi_insert, old version held", "ns", each(&mut { at_once }, others));
    drop((tree, loaded));
    let mut tree = PTree::<u64, u64, (), B>::from_sorted(pairs.clone());
    let alone = |changes: &[(u64, u64)]| {
        changes.iter().for_each(|(key, value)| {
            tree.insert(*key, *value);
        });
    };
    report("insert, sole owner", "ns", each(&mut { alone }, changes));
    report("nodes after these", "mb", tree.memory().bytes as f64 / 1e6);
}

/// What two threads do on one job, against what two sequential copies of it do side by side.
fn speedup_of(name: &str, count: usize, job: impl Fn() + Sync) {
    let pool = |threads| ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let (two, alone) = (pool(2), [pool(1), pool(1)]);
    let (mut parallel, mut copies) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        parallel = parallel.min(time(|| two.install(&job)).0.as_secs_f64());
        let barrier = Barrier::new(2);
        let elapsed = time(|| {
            std::thread::scope(|scope| {
                for pool in &alone {
                    scope.spawn(|| {
                        barrier.wait();
                        pool.install(&job);
                    });
                }
            });
        });
        copies = copies.min(elapsed.0.as_secs_f64());
    }
    print("speedup", &format!("{name}, 2 threads, seconds"), count, "s", parallel);
    print(
        "speedup",
        &format!("{name}, share of two sequential copies"),
        count,
        "ratio",
        copies / (2.0 * parallel),
    );
}

/// The input of an operation that takes it, copied in parallel as well: a clone would be a part on one thread.
fn copied(pairs: &Pairs) -> Pairs {
    pairs.par_iter().copied().collect()
}

type Large = PTree<u64, u64, (), LARGE>;

/// What the operations below work on.
struct Subjects {
    count: usize,
    tree: Large,
    /// A tenth as many entries, half of whose keys are in `tree`.
    other: Large,
    nested: PTree<u64, Large>,
    batch: Pairs,
    keys: Vec<u64>,
}

impl Subjects {
    fn new(count: usize) -> Self {
        let pairs = sorted_pairs(count);
        let tenth =
            pairs.iter().step_by(10).enumerate().map(|(at, (key, value))| (key + at as u64 % 2, *value));
        let other = Large::from_sorted(tenth.collect());
        let tree = Large::from_sorted(pairs);
        let nested = secondary(&tree, |_, value| value / 100);
        let batch: BTreeMap<u64, u64> =
            random_pairs(&mut StdRng::seed_from_u64(3), count).into_iter().collect();
        let keys = batch.keys().copied().collect();
        Subjects { count, tree, other, nested, batch: batch.into_iter().collect(), keys }
    }

    fn passes(&self) {
        let Subjects { count, tree, .. } = self;
        speedup_of("map_reduce", *count, || {
            black_box(tree.map_reduce(|_, value| *value, u64::wrapping_add, 0));
        });
        speedup_of("map_reduce with more work", *count, || {
            black_box(tree.map_reduce(|key, value| (key ^ value).pow(7) % 1_000_003, u64::wrapping_add, 0));
        });
        speedup_of("semi_map_reduce into counts", *count, || {
            let add = |one: [u64; 16], other: [u64; 16]| std::array::from_fn(|at| one[at] + other[at]);
            let count = |mut counts: [u64; 16], key: &u64, _: &u64| {
                counts[(key >> 60) as usize] += 1;
                counts
            };
            black_box(tree.semi_map_reduce([0; 16], count, add));
        });
        speedup_of("foreach_index", *count, || {
            tree.foreach_index(|index, key, value| {
                black_box((index, key, value));
            });
        });
        let slices = [Mutex::new(vec![0; *count]), Mutex::new(vec![0; *count])];
        speedup_of("collect_into", *count, || {
            let mut slice =
                slices.iter().find_map(|slice| slice.try_lock().ok()).expect("two copies at most");
            tree.collect_into(&mut slice, |_, value| *value);
        });
        speedup_of("par_iter, a maximum", *count, || {
            black_box(tree.par_iter().map(|(_, value)| *value).max());
        });
        speedup_of("filter half", *count, || tree.filter(|key, _| key & 1024 == 0).drop_parallel());
        speedup_of("map_values", *count, || {
            let mapped: Large = tree.map_values(|_, value| value + 1);
            mapped.drop_parallel();
        });
        let largest: PTree<u64, u64, Max<u64>, LARGE> = tree.map_values(|_, value| *value);
        let limit = *count as u64 * 999 / 1_000;
        speedup_of("aug_filter, a thousandth stays", *count, || {
            largest.aug_filter(|max| max.0 >= Some(limit)).drop_parallel();
        });
    }

    fn builds(&self) {
        let Subjects { count, tree, .. } = self;
        let shuffled: Pairs = (0..*count as u64).map(|number| (scatter(2 * number), number)).collect();
        let pairs = sorted_pairs(*count);
        speedup_of("build from unsorted", *count, || {
            Large::build(copied(&shuffled), |_, _, new| new).drop_parallel()
        });
        speedup_of("from_sorted", *count, || Large::from_sorted(copied(&pairs)).drop_parallel());
        speedup_of("primary", *count, || {
            let index: PTree<u64, (u64, u64)> = primary(copied(&shuffled), |row| row.0);
            index.drop_parallel();
        });
        speedup_of("secondary, groups of a hundred", *count, || {
            let index: PTree<u64, Large> = secondary(tree, |_, value| value / 100);
            index.drop_by(Grain::entries(32));
        });
    }

    fn batches(&self) {
        let Subjects { count, tree, nested, batch, keys, .. } = self;
        let change = |name: &str, change: &(dyn Fn(&mut Large) + Sync)| {
            speedup_of(name, *count, || {
                let mut tree = tree.clone();
                change(&mut tree);
                tree.drop_parallel();
            });
        };
        change("multi_insert", &|tree| tree.multi_insert(batch.clone(), |_, _, new| new));
        let mut unsorted = batch.clone();
        unsorted.sort_unstable_by_key(|(key, _)| scatter(*key));
        change("multi_insert_unsorted", &|tree| {
            tree.multi_insert_unsorted(unsorted.clone(), |_, _, new| new)
        });
        let updates: Vec<(u64, Option<u64>)> =
            batch.iter().map(|(key, value)| (*key, (value % 2 == 0).then_some(*value))).collect();
        change("multi_update", &|tree| tree.multi_update(updates.clone()));
        change("multi_delete", &|tree| tree.multi_delete(keys));
        change("alter_many", &|tree| {
            tree.alter_many(batch.clone(), |old, new| Some(old.map_or(new, |old| old ^ new)))
        });
        change("multi_modify", &|tree| {
            tree.multi_modify(batch.clone(), Grain::UPDATE, |_, value, new| {
                *value ^= new;
                Fate::Keep
            });
        });
        speedup_of("multi_find", *count, || {
            black_box(tree.multi_find(keys));
        });
        let groups: BTreeMap<(u64, u64), u64> =
            batch.iter().map(|(key, value)| ((key % (*count as u64 / 100), *key), *value)).collect();
        let groups = group_batch(groups.into_iter().collect());
        speedup_of("multi_insert_nested", *count, || {
            let mut nested = nested.clone();
            nested.multi_insert_nested(groups.clone(), |_, _, new| new);
            nested.drop_by(Grain::entries(32));
        });
    }

    fn sets(&self) {
        let Subjects { count, tree, other, .. } = self;
        speedup_of("union with a tenth", *count, || {
            tree.clone().union(other.clone(), |_, _, theirs| theirs).drop_parallel();
        });
        speedup_of("intersection with a tenth", *count, || {
            tree.clone().intersection(other.clone(), |_, _, theirs| theirs).drop_parallel();
        });
        speedup_of("difference with a tenth", *count, || tree.clone().difference(other).drop_parallel());
        speedup_of("pairing with a tenth", *count, || {
            let paired: PTree<u64, (u64, u64), (), LARGE> = pairing(tree, other);
            paired.drop_parallel();
        });
        speedup_of("pairing_outer with a tenth", *count, || {
            let paired: PTree<u64, (u64, u64), (), LARGE> = pairing_outer(tree, other);
            paired.drop_parallel();
        });
    }
}

fn speedup(count: usize, part: &str) {
    let subjects = Subjects::new(count);
    match part {
        "passes" => subjects.passes(),
        "builds" => subjects.builds(),
        "batches" => subjects.batches(),
        "sets" => subjects.sets(),
        other => panic!("there is no part {other}"),
    }
}

/// Two trees of the same size whose keys interleave in ever more runs.
fn union(count: usize) {
    type Tree = Large;
    for runs in [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000] {
        let length = (count / runs) as u64;
        let side = |side: u64| -> Tree {
            let keys = (0..count as u64).map(|at| (at / length * 2 + side) * length + at % length);
            Tree::from_sorted(keys.map(|key| (key, key)).collect())
        };
        let (left, right) = (side(0), side(1));
        let (elapsed, all) = time(|| left.clone().union(right.clone(), |_, _, theirs| theirs));
        assert_eq!(all.len(), 2 * count);
        print(
            "union",
            &format!("{runs} runs of {length} interleave"),
            count,
            "us",
            elapsed.as_secs_f64() * 1e6,
        );
    }
}

/// Resident megabytes of this process.
fn resident_mb() -> f64 {
    // Freed pages go back to the system after a while.
    std::thread::sleep(Duration::from_millis(300));
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statistics.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0.0);
    pages * 4096.0 / 1e6
}

/// Resident memory after building one map, of several; each variant wants a process of its own.
fn memory(count: usize, variant: &str) {
    let (sorted, shuffled) = (sorted_pairs(count), (0..count as u64).map(|row| (scatter(2 * row), row)));
    let before = resident_mb();
    let report = |what: &str, kept: &dyn std::any::Any, bytes: usize| {
        print("memory", &format!("{what}, resident"), count, "mb", resident_mb() - before);
        if bytes > 0 {
            print("memory", &format!("{what}, nodes"), count, "mb", bytes as f64 / 1e6);
        }
        black_box(kept);
    };
    match variant {
        "16" => {
            let tree = PTree::<u64, u64, (), 16>::from_sorted_iter(sorted.iter().copied());
            report("PTree 16 from sorted", &tree, tree.memory().bytes);
        }
        "30" => {
            let tree = PTree::<u64, u64, (), 30>::from_sorted_iter(sorted.iter().copied());
            report("PTree 30 from sorted", &tree, tree.memory().bytes);
        }
        "62" => {
            let tree = PTree::<u64, u64, (), LARGE>::from_sorted_iter(sorted.iter().copied());
            report("PTree 62 from sorted", &tree, tree.memory().bytes);
        }
        "62-inserted" => {
            let tree: PTree<u64, u64, (), LARGE> = shuffled.collect();
            report("PTree 62 after random inserts", &tree, tree.memory().bytes);
        }
        "packed" => {
            let tree = PackedTree::<u64, u64>::from_sorted(sorted.clone());
            report("PackedTree, scattered keys, row numbers", &tree, tree.memory().bytes);
        }
        "packed-dense" => {
            let rows = (0..count as u64).map(|row| (row, scatter(row)));
            let tree = PackedTree::<u64, u64>::from_sorted(rows.collect());
            report("PackedTree, dense keys, random values", &tree, tree.memory().bytes);
        }
        "packed-random" => {
            let rows = sorted.iter().map(|(key, row)| (*key, scatter(*row)));
            let tree = PackedTree::<u64, u64>::from_sorted(rows.collect());
            report("PackedTree, scattered keys, random values", &tree, tree.memory().bytes);
        }
        "btree" => {
            let map: BTreeMap<u64, u64> = sorted.iter().copied().collect();
            report("BTreeMap from sorted", &map, 0);
        }
        "btree-inserted" => {
            let mut map = BTreeMap::new();
            shuffled.for_each(|(key, row)| assert_eq!(map.insert(key, row), None));
            report("BTreeMap after random inserts", &map, 0);
        }
        "imbl" => {
            let map: imbl::OrdMap<u64, u64> = sorted.iter().copied().collect();
            report("imbl::OrdMap from sorted", &map, 0);
        }
        other => panic!("there is no map {other}"),
    }
}

fn drop_and_scan(count: usize) {
    let pairs = sorted_pairs(count);
    let tree: PTree<u64, u64, (), LARGE> = PTree::from_sorted(pairs.clone());
    // Allocators take back memory that another thread has got from them at a higher price.
    let alone = ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one thread");
    let mut best = [Best(f64::MAX); 5];
    for _ in 0..3 {
        best[0].round(1, || tree.iter().fold(0, |sum: u64, (_, value)| sum.wrapping_add(*value)));
        best[1].round(1, || tree.map_reduce(|_, value| *value, u64::wrapping_add, 0));
        let copy: PTree<u64, u64, (), LARGE> = PTree::from_sorted(pairs.clone());
        best[2].round(1, || drop(copy));
        let copy: PTree<u64, u64, (), LARGE> = PTree::from_sorted(pairs.clone());
        best[3].round(1, || copy.drop_parallel());
        alone.install(|| {
            let copy: PTree<u64, u64, (), LARGE> = PTree::from_sorted(pairs.clone());
            best[4].round(1, || drop(copy));
        });
    }
    let names = [
        "scan, 1 thread",
        "scan, 2 threads",
        "drop, 1 thread",
        "drop_parallel, 2 threads",
        "drop by the thread that made it",
    ];
    for (name, best) in names.iter().zip(best) {
        print("drop", name, count, "ms", best.0 / 1e6);
    }
    let mut best = Best(f64::MAX);
    best.round(OPERATIONS, || (0..OPERATIONS).for_each(|_| drop(black_box(tree.clone()))));
    print("drop", "snapshot taken and dropped", count, "ns", best.0);
}

/// As large as an inner node.
type Node = [u64; 8];

/// Nodes of a pool that are taken from the system at once (P-Trees paper, section 6).
const CHUNK: usize = 1 << 16;

/// Nodes by number, in chunks, with a list of the free ones.
#[derive(Default)]
struct Pool {
    chunks: Vec<Vec<Node>>,
    free: Vec<usize>,
}

impl Pool {
    fn allocate(&mut self, node: Node) -> usize {
        if let Some(place) = self.free.pop() {
            self.chunks[place / CHUNK][place % CHUNK] = node;
            return place;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let last = self.chunks.len() - 1;
        self.chunks[last].push(node);
        last * CHUNK + self.chunks[last].len() - 1
    }
}

/// Nodes made, and then replaced one by one at random: by the allocator, and from a pool of one thread.
fn allocation(count: usize) {
    let random = &mut StdRng::seed_from_u64(6);
    let mut best = [Best(f64::MAX); 4];
    for _ in 0..3 {
        let places: Vec<usize> = (0..OPERATIONS).map(|_| random.random_range(0..count)).collect();
        let mut boxes: Vec<Box<Node>> = Vec::with_capacity(count);
        best[0].round(count, || boxes.extend((0..count as u64).map(|number| Box::new([number; 8]))));
        best[1].round(OPERATIONS, || {
            for place in &places {
                drop(std::mem::replace(&mut boxes[*place], Box::new([1; 8])));
            }
        });
        drop(boxes);
        let (mut pool, mut taken) = (Pool::default(), Vec::with_capacity(count));
        best[2].round(count, || taken.extend((0..count as u64).map(|number| pool.allocate([number; 8]))));
        best[3].round(OPERATIONS, || {
            for place in &places {
                let new = pool.allocate([1; 8]);
                pool.free.push(std::mem::replace(&mut taken[*place], new));
            }
        });
    }
    let names = ["mimalloc, made", "mimalloc, replaced", "pool, made", "pool, replaced"];
    for (name, best) in names.iter().zip(best) {
        print("allocation", name, count, "ns", best.0);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let bench = arguments.next().unwrap_or_else(|| "find".to_owned());
    let count = arguments.next().map_or(10_000_000, |count| count.parse().expect("a number of entries"));
    match bench.as_str() {
        "find" => find(count),
        "batch" => batch(count),
        "blocks" => blocks(count),
        "speedup" => speedup(count, &arguments.next().unwrap_or_else(|| "passes".to_owned())),
        "union" => union(count),
        "allocation" => allocation(count),
        "memory" => memory(count, &arguments.next().unwrap_or_else(|| "16".to_owned())),
        "drop" => drop_and_scan(count),
        other => panic!("there is no benchmark {other}"),
    }
}
