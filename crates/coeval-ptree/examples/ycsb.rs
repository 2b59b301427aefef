// SPDX-License-Identifier: Apache-2.0
//! YCSB A, B, C and insert-only on the tree and on concurrent ordered maps (P-Trees paper, 8.1 and 8.2).
//!
//! ```text
//! cargo run --release -p coeval-ptree --example ycsb -- [ENTRIES] [SECONDS] [BATCH_MS] [MAP ...]
//! ```
//!
//! Keys and values are `u64`, keys drawn from a scrambled Zipfian distribution (0.99), two threads. The persistent
//! maps are read at the last published root, and written in batches: each thread collects its writes for `BATCH_MS`
//! milliseconds or until there are a million, then hands them in. Who finds the writer's lock free applies all that was
//! handed in and publishes the new root; who finds it taken lends a hand if there is work to share, and goes on
//! otherwise. A write's latency is the time from its collection to its publication; each write of a batch is taken to
//! have waited for as long as the first one. The others are written directly. One JSON line per map and workload.
//!
//! Maps are `ptree`, `skiplist`, `btree`, `scc` and `imbl`; `ptree30`, `ptree62`, `ptree254` are the tree with other blocks.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Cache};
use coeval_ptree::PTree;
use crossbeam_skiplist::SkipMap;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::ThreadPoolBuilder;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const THREADS: usize = 2;

/// Operations between two looks at the clock.
const STRIDE: usize = 64;

/// Writes of a batch at most.
const BATCH_MAX: usize = 1_000_000;

type Pairs = Vec<(u64, u64)>;

/// Numbers below `count`, small ones more often: the generator of YCSB (Gray et al., SIGMOD 1994).
#[derive(Clone, Copy)]
struct Zipfian {
    count: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    const THETA: f64 = 0.99;

    fn new(count: usize) -> Self {
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-Self::THETA)).sum();
        let zeta_two = 1.0 + 0.5f64.powf(Self::THETA);
        let count = count as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - Self::THETA)) / (1.0 - zeta_two / zeta);
        Zipfian { count, zeta, alpha: 1.0 / (1.0 - Self::THETA), eta }
    }

    fn draw(&self, random: &mut impl Rng) -> u64 {
        let uniform: f64 = random.random();
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(Self::THETA) {
            return 1;
        }
        (self.count * (self.eta * uniform - self.eta + 1.0).powf(self.alpha)) as u64
    }
}

fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A map under test; each thread works on a handle of its own.
trait Subject: Sync {
    type Handle<'a>: Handle
    where
        Self: 'a;

    fn handle(&self) -> Self::Handle<'_>;
    fn len(&self) -> usize;
}

trait Handle {
    fn get(&mut self, key: u64) -> Option<u64>;
    fn put(&mut self, key: u64, value: u64);
    /// Called every [`STRIDE`] operations, to publish what is due.
    fn tick(&mut self, _now: Instant) {}
    /// Publishes the rest; returns how long batches waited and how many writes were in each.
    fn finish(&mut self) -> Vec<(Duration, usize)> {
        Vec::new()
    }
}

/// A persistent map behind an atomic pointer, and what applying a batch to it means.
struct Published<M> {
    root: ArcSwap<M>,
    writer: Mutex<()>,
    /// Batches that wait for whoever writes next, and when each was begun.
    queue: Mutex<Vec<(Pairs, Instant)>>,
    batch_time: Duration,
    apply: fn(&mut M, Pairs),
    read: fn(&M, &u64) -> Option<u64>,
    len: fn(&M) -> usize,
}

struct Batching<'a, M> {
    map: &'a Published<M>,
    root: Cache<&'a ArcSwap<M>, Arc<M>>,
    pending: Pairs,
    since: Option<Instant>,
    is_queued: bool,
    latencies: Vec<(Duration, usize)>,
}

impl<M: Clone + Send + Sync> Subject for Published<M> {
    type Handle<'a>
        = Batching<'a, M>
    where
        M: 'a;

    fn handle(&self) -> Batching<'_, M> {
        let (pending, latencies) = (Pairs::new(), Vec::new());
        let root = Cache::new(&self.root);
        Batching { map: self, root, pending, since: None, is_queued: false, latencies }
    }

    fn len(&self) -> usize {
        (self.len)(&self.root.load())
    }
}

impl<M: Clone> Batching<'_, M> {
    fn hand_in(&mut self) {
        let Some(since) = self.since.take() else { return };
        let pending = std::mem::take(&mut self.pending);
        self.map.queue.lock().expect("no thread panics").push((pending, since));
        self.is_queued = true;
    }

    /// Applies and publishes everything that was handed in.
    fn publish(&mut self, writer: MutexGuard<'_, ()>) {
        self.is_queued = false;
        let queue = std::mem::take(&mut *self.map.queue.lock().expect("no thread panics"));
        if queue.is_empty() {
            return;
        }
        let times: Vec<(Instant, usize)> = queue.iter().map(|(batch, since)| (*since, batch.len())).collect();
        let batch = queue.into_iter().map(|(batch, _)| batch).reduce(|mut all, batch| {
            all.extend(batch);
            all
        });
        let mut next = M::clone(&self.map.root.load());
        (self.map.apply)(&mut next, batch.unwrap_or_default());
        let old = self.map.root.swap(Arc::new(next));
        drop(writer);
        self.latencies.extend(times.into_iter().map(|(since, count)| (since.elapsed(), count)));
        self.root.load();
        drop(old);
    }
}

impl<M: Clone> Handle for Batching<'_, M> {
    fn get(&mut self, key: u64) -> Option<u64> {
        (self.map.read)(self.root.load(), &key)
    }

    fn put(&mut self, key: u64, value: u64) {
        self.since.get_or_insert_with(Instant::now);
        self.pending.push((key, value));
    }

    fn tick(&mut self, now: Instant) {
        let is_full = self.pending.len() >= BATCH_MAX;
        if is_full || self.since.is_some_and(|since| now.duration_since(since) >= self.map.batch_time) {
            self.hand_in();
        }
        while self.is_queued {
            match self.map.writer.try_lock() {
                Ok(writer) => self.publish(writer),
                // The pool's threads are ours: what the other one has forked is taken here.
                Err(_) if rayon::yield_now() == Some(rayon::Yield::Executed) || is_full => {}
                Err(_) => break,
            }
        }
    }

    fn finish(&mut self) -> Vec<(Duration, usize)> {
        self.hand_in();
        self.publish(self.map.writer.lock().expect("no writer panics"));
        std::mem::take(&mut self.latencies)
    }
}

impl Subject for SkipMap<u64, u64> {
    type Handle<'a> = &'a Self;

    fn handle(&self) -> &Self {
        self
    }

    fn len(&self) -> usize {
        SkipMap::len(self)
    }
}

impl Handle for &SkipMap<u64, u64> {
    fn get(&mut self, key: u64) -> Option<u64> {
        SkipMap::get(self, &key).map(|entry| *entry.value())
    }

    fn put(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }
}

impl Subject for RwLock<BTreeMap<u64, u64>> {
    type Handle<'a> = &'a Self;

    fn handle(&self) -> &Self {
        self
    }

    fn len(&self) -> usize {
        self.read().expect("no writer panics").len()
    }
}

impl Handle for &RwLock<BTreeMap<u64, u64>> {
    fn get(&mut self, key: u64) -> Option<u64> {
        self.read().expect("no writer panics").get(&key).copied()
    }

    fn put(&mut self, key: u64, value: u64) {
        self.write().expect("no writer panics").insert(key, value);
    }
}

impl Subject for scc::TreeIndex<u64, u64> {
    type Handle<'a> = &'a Self;

    fn handle(&self) -> &Self {
        self
    }

    fn len(&self) -> usize {
        scc::TreeIndex::len(self)
    }
}

impl Handle for &scc::TreeIndex<u64, u64> {
    fn get(&mut self, key: u64) -> Option<u64> {
        self.peek_with(&key, |_, value| *value)
    }

    fn put(&mut self, key: u64, value: u64) {
        // It replaces no values: an update is a removal and an insert.
        while let Err((key, _)) = self.insert_sync(key, value) {
            self.remove_sync(&key);
        }
    }
}

/// What a thread does: this share of reads, the rest updates of present keys, or inserts of new ones.
#[derive(Clone, Copy)]
enum Workload {
    Mixed { read_percent: u32 },
    InsertOnly,
}

/// The 99th percentile and the maximum of the writes' latencies, in milliseconds.
fn quantiles(mut latencies: Vec<(Duration, usize)>) -> (f64, f64) {
    latencies.sort_unstable();
    let mut slower: usize = latencies.iter().map(|(_, count)| count).sum::<usize>() / 100;
    let milliseconds = |latency: &Duration| latency.as_secs_f64() * 1e3;
    let maximum = latencies.last().map_or(0.0, |(latency, _)| milliseconds(latency));
    while let Some((latency, count)) = latencies.pop() {
        if count > slower {
            return (milliseconds(&latency), maximum);
        }
        slower -= count;
    }
    (0.0, maximum)
}

fn run<S: Subject>(map: &S, name: &str, workload: (&str, Workload), count: usize, time: Duration) {
    let zipfian = Zipfian::new(count);
    let (stop, done, latencies) = (AtomicBool::new(false), AtomicU64::new(0), Mutex::new(Vec::new()));
    let pool = ThreadPoolBuilder::new().num_threads(THREADS).build().expect("threads");
    let before = map.len();
    let start = Instant::now();
    pool.broadcast(|context| {
        let mut random = StdRng::seed_from_u64(context.index() as u64);
        let mut map = map.handle();
        let mut serial = context.index() as u64;
        let mut operations = 0u64;
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..STRIDE {
                match workload.1 {
                    Workload::Mixed { read_percent } => {
                        // The hash scatters popular keys over the key space.
                        let key = scatter(scatter(zipfian.draw(&mut random)) % count as u64);
                        if random.random_range(0..100) < read_percent {
                            black_box(map.get(key));
                        } else {
                            map.put(key, operations);
                        }
                    }
                    Workload::InsertOnly => {
                        map.put(scatter(serial), operations);
                        serial += THREADS as u64;
                    }
                }
            }
            operations += STRIDE as u64;
            let now = Instant::now();
            map.tick(now);
            let is_over = match workload.1 {
                Workload::Mixed { .. } => now.duration_since(start) >= time,
                Workload::InsertOnly => operations as usize >= count / THREADS,
            };
            if is_over {
                break;
            }
        }
        latencies.lock().expect("no thread panics").extend(map.finish());
        done.fetch_add(operations, Ordering::Relaxed);
    });
    let seconds = start.elapsed().as_secs_f64();
    let per_second = done.into_inner() as f64 / seconds;
    let (latency_99, latency_max) = quantiles(latencies.into_inner().expect("no thread panics"));
    if let Workload::InsertOnly = workload.1 {
        assert!(map.len() >= before + count - STRIDE * THREADS, "every key was inserted");
    }
    println!(
        r#"{{"bench":"ycsb","workload":"{}","map":"{name}","entries":{count},"threads":{THREADS},"ops_per_s":{per_second:.0},"write_latency_99_ms":{latency_99:.1},"write_latency_max_ms":{latency_max:.1}}}"#,
        workload.0
    );
}

fn run_all<S: Subject>(make: impl Fn(&[(u64, u64)]) -> S, name: &str, count: usize, time: Duration) {
    let mut pairs: Pairs = (0..count as u64).map(|number| (scatter(number), number)).collect();
    pairs.sort_unstable();
    let map = make(&pairs);
    drop(pairs);
    assert_eq!(map.len(), count);
    for (letter, read_percent) in [("C", 100), ("B", 95), ("A", 50)] {
        run(&map, name, (letter, Workload::Mixed { read_percent }), count, time);
    }
    drop(map);
    run(&make(&[]), name, ("insert-only", Workload::InsertOnly), count, time);
}

fn run_tree<const B: usize>(count: usize, time: Duration, batch_time: Duration) {
    let make = |pairs: &[(u64, u64)]| Published::<PTree<u64, u64, (), B>> {
        root: ArcSwap::from_pointee(PTree::from_sorted(pairs.to_vec())),
        writer: Mutex::new(()),
        queue: Mutex::default(),
        batch_time,
        apply: |tree, batch| tree.multi_insert_unsorted(batch, |_, _, new| new),
        read: |tree, key| tree.get(key).copied(),
        len: PTree::len,
    };
    run_all(make, &format!("PTree {B}"), count, time);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default: usize| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (count, seconds, batch_ms) = (number(10_000_000), number(3), number(20));
    let maps: Vec<String> = arguments.collect();
    let time = Duration::from_secs(seconds as u64);
    let batch_time = Duration::from_millis(batch_ms as u64);
    let is_wanted = |name: &str| maps.is_empty() || maps.iter().any(|map| map == name);
    for (block, run) in [
        (30, run_tree::<30> as fn(usize, Duration, Duration)),
        (62, run_tree::<62>),
        (126, run_tree::<126>),
        (254, run_tree::<254>),
    ] {
        if is_wanted("ptree") && block == 126 || maps.contains(&format!("ptree{block}")) {
            run(count, time, batch_time);
        }
    }
    if is_wanted("skiplist") {
        run_all(
            |pairs| pairs.iter().copied().collect::<SkipMap<u64, u64>>(),
            "crossbeam SkipMap",
            count,
            time,
        );
    }
    if is_wanted("btree") {
        run_all(|pairs| RwLock::new(pairs.iter().copied().collect()), "RwLock<BTreeMap>", count, time);
    }
    if is_wanted("scc") {
        let make = |pairs: &[(u64, u64)]| {
            let index = scc::TreeIndex::new();
            pairs.iter().for_each(|(key, value)| {
                index.insert_sync(*key, *value).expect("keys are unique");
            });
            index
        };
        run_all(make, "scc::TreeIndex", count, time);
    }
    if is_wanted("imbl") {
        let make = |pairs: &[(u64, u64)]| Published::<imbl::OrdMap<u64, u64>> {
            root: ArcSwap::from_pointee(pairs.iter().copied().collect()),
            writer: Mutex::new(()),
            queue: Mutex::default(),
            batch_time,
            apply: |map, batch| {
                batch.into_iter().for_each(|(key, value)| {
                    map.insert(key, value);
                })
            },
            read: |map, key| map.get(key).copied(),
            len: imbl::OrdMap::len,
        };
        run_all(make, "imbl::OrdMap behind ArcSwap", count, time);
    }
}
