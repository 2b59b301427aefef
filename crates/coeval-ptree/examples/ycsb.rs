// SPDX-License-Identifier: Apache-2.0
//! YCSB A, B, C and insert-only on the tree and on concurrent ordered maps (P-Trees paper, 8.1 and 8.2).
//!
//! ```text
//! cargo run --release -p coeval-ptree --example ycsb -- [ENTRIES] [SECONDS] [BATCH_MS] [only=LETTERS] [threads=N] [grouped] [MAP ...]
//! ```
//!
//! Keys and values are `u64`, keys drawn from a scrambled Zipfian distribution (0.99), two threads unless said otherwise.
//! `only=CA` runs these workloads in this order; `I` is insert-only.
//!
//! The persistent maps are read at the last published root, and written in batches: the writes of all threads wait in one
//! queue until the oldest one has waited for `BATCH_MS` milliseconds or there are a million. Then the first thread applies
//! all and publishes the new root; the others go on, because nodes that one thread makes and another one frees cost the
//! allocator more, but lend a hand once the oldest write has waited for twice that long or the queue is full. A write's latency is the time until its publication; each
//! write of the 64 operations between two looks at the clock is taken to have waited for as long as the first one. The
//! others are written directly. One JSON line per map and workload.
//!
//! With `grouped` each thread hands in the 64 operations at once, first the reads and then the writes, as a server has them
//! that takes several requests from each of its connections. Every map may do with such a group what serves it best: the
//! tree runs its lookups side by side, a locked map takes its lock once for all reads and once for all writes.
//!
//! Maps are `skiplist`, `btree`, `scc` and `imbl`; `ptree16`, `ptree30`, `ptree62`, `ptree126`, `ptree254` are the tree with
//! these blocks; `directory30` and `directory62` make a directory of each version before they publish it.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Cache};
use coeval_ptree::{Directory, PTree};
use crossbeam_skiplist::SkipMap;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::ThreadPoolBuilder;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    /// Appends the values of all keys to `found`.
    fn get_group(&mut self, keys: &[u64], found: &mut Vec<Option<u64>>);
    fn put_group(&mut self, pairs: &[(u64, u64)]);
    /// Called every [`STRIDE`] operations, to publish what is due.
    fn tick(&mut self, _now: Instant) {}
    /// Publishes the rest; returns how long batches waited and how many writes were in each.
    fn finish(&mut self) -> Vec<(Duration, usize)> {
        Vec::new()
    }
}

/// A persistent map behind an atomic pointer, and what applying a batch to it means.
///
/// # Locking
/// `writer` is taken first, and held while a batch is applied and published; it guards the version before the current one,
/// which is dropped when the next one is published, because readers have let go of it by then. `queue` guards the writes
/// that wait; it is held while some are added or all are taken.
struct Published<M> {
    root: ArcSwap<M>,
    writer: Mutex<Option<Arc<M>>>,
    queue: Mutex<Queue>,
    batch_time: Duration,
    /// Handles made so far; each run makes one per thread.
    handles: AtomicUsize,
    threads: usize,
    apply: fn(&M, Pairs) -> M,
    read: fn(&M, &u64) -> Option<u64>,
    read_group: fn(&M, &[u64], &mut Vec<Option<u64>>),
    len: fn(&M) -> usize,
    discard: fn(M),
}

/// Writes that wait for the next publication, and since when, in chunks.
#[derive(Default)]
struct Queue {
    pairs: Pairs,
    chunks: Vec<(Instant, usize)>,
}

struct Batching<'a, M> {
    map: &'a Published<M>,
    root: Cache<&'a ArcSwap<M>, Arc<M>>,
    /// Writes since the last look at the clock, the first of them at `since`.
    pending: Pairs,
    since: Option<Instant>,
    /// How long writes wait before this thread applies them.
    patience: Duration,
    latencies: Vec<(Duration, usize)>,
}

/// How many times as long as the first thread the others wait before they publish.
const OTHERS_PATIENCE: u32 = 2;

impl<M: Send + Sync> Subject for Published<M> {
    type Handle<'a>
        = Batching<'a, M>
    where
        M: 'a;

    fn handle(&self) -> Batching<'_, M> {
        let (pending, latencies) = (Pairs::new(), Vec::new());
        let is_first = self.handles.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.threads);
        let patience = self.batch_time * if is_first { 1 } else { OTHERS_PATIENCE };
        Batching { map: self, root: Cache::new(&self.root), pending, since: None, patience, latencies }
    }

    fn len(&self) -> usize {
        (self.len)(&self.root.load())
    }
}

impl<M> Batching<'_, M> {
    /// Adds the writes of this thread to those that wait; returns since when the oldest waits and how many do.
    fn hand_in(&mut self) -> Option<(Instant, usize)> {
        let mut queue = self.map.queue.lock().expect("no thread panics");
        if let Some(since) = self.since.take() {
            queue.chunks.push((since, self.pending.len()));
            queue.pairs.append(&mut self.pending);
        }
        Some((queue.chunks.first()?.0, queue.pairs.len()))
    }

    /// Applies and publishes everything that waits.
    fn publish(&mut self, mut writer: MutexGuard<'_, Option<Arc<M>>>) {
        let queue = std::mem::take(&mut *self.map.queue.lock().expect("no thread panics"));
        if queue.pairs.is_empty() {
            return;
        }
        let next = (self.map.apply)(&self.map.root.load(), queue.pairs);
        let old = self.map.root.swap(Arc::new(next));
        self.latencies.extend(queue.chunks.into_iter().map(|(since, count)| (since.elapsed(), count)));
        let older = writer.replace(old);
        drop(writer);
        self.root.load();
        older.and_then(Arc::into_inner).into_iter().for_each(self.map.discard);
    }
}

impl<M> Handle for Batching<'_, M> {
    fn get(&mut self, key: u64) -> Option<u64> {
        (self.map.read)(self.root.load(), &key)
    }

    fn put(&mut self, key: u64, value: u64) {
        self.since.get_or_insert_with(Instant::now);
        self.pending.push((key, value));
    }

    fn get_group(&mut self, keys: &[u64], found: &mut Vec<Option<u64>>) {
        (self.map.read_group)(self.root.load(), keys, found);
    }

    fn put_group(&mut self, pairs: &[(u64, u64)]) {
        self.since.get_or_insert_with(Instant::now);
        self.pending.extend_from_slice(pairs);
    }

    fn tick(&mut self, now: Instant) {
        while let Some((oldest, count)) = self.hand_in() {
            let is_full = count >= BATCH_MAX;
            if !is_full && now.duration_since(oldest) < self.patience {
                return;
            }
            match self.map.writer.try_lock() {
                Ok(writer) => return self.publish(writer),
                // The pool's threads are ours: what the other one has forked is taken here.
                Err(_) if rayon::yield_now() == Some(rayon::Yield::Executed) || is_full => {}
                Err(_) => return,
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

    fn get_group(&mut self, keys: &[u64], found: &mut Vec<Option<u64>>) {
        found.extend(keys.iter().map(|key| Handle::get(self, *key)));
    }

    fn put_group(&mut self, pairs: &[(u64, u64)]) {
        pairs.iter().for_each(|(key, value)| self.put(*key, *value));
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

    fn get_group(&mut self, keys: &[u64], found: &mut Vec<Option<u64>>) {
        let map = self.read().expect("no writer panics");
        found.extend(keys.iter().map(|key| map.get(key).copied()));
    }

    fn put_group(&mut self, pairs: &[(u64, u64)]) {
        self.write().expect("no writer panics").extend(pairs.iter().copied());
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

    fn get_group(&mut self, keys: &[u64], found: &mut Vec<Option<u64>>) {
        let guard = scc::Guard::new();
        found.extend(keys.iter().map(|key| self.peek(key, &guard).copied()));
    }

    fn put_group(&mut self, pairs: &[(u64, u64)]) {
        pairs.iter().for_each(|(key, value)| self.put(*key, *value));
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

/// What is run on each map, and how.
struct Plan {
    count: usize,
    time: Duration,
    batch_time: Duration,
    threads: usize,
    /// Whether each thread hands in its operations in groups of [`STRIDE`].
    is_grouped: bool,
    /// C, B, A, and I for insert-only.
    letters: String,
}

/// One operation on a key.
#[derive(Clone, Copy)]
enum Operation {
    Read(u64),
    Write(u64, u64),
}

/// What a thread is going to do, one operation after the other.
struct Operations<'p> {
    workload: Workload,
    plan: &'p Plan,
    zipfian: &'p Zipfian,
    random: StdRng,
    /// The next number to insert, in insert-only.
    serial: u64,
    count: u64,
}

impl Operations<'_> {
    fn next(&mut self) -> Operation {
        self.count += 1;
        match self.workload {
            Workload::Mixed { read_percent } => {
                // The hash scatters popular keys over the key space.
                let number = scatter(self.zipfian.draw(&mut self.random)) % self.plan.count as u64;
                let key = scatter(number);
                let is_read = self.random.random_range(0..100) < read_percent;
                if is_read { Operation::Read(key) } else { Operation::Write(key, self.count) }
            }
            Workload::InsertOnly => {
                let key = scatter(self.serial);
                self.serial += self.plan.threads as u64;
                Operation::Write(key, self.count)
            }
        }
    }

    fn is_over(&self, elapsed: Duration) -> bool {
        match self.workload {
            Workload::Mixed { .. } => elapsed >= self.plan.time,
            Workload::InsertOnly => self.count as usize >= self.plan.count / self.plan.threads,
        }
    }
}

/// A group of operations, and what its reads have found.
#[derive(Default)]
struct Group {
    reads: Vec<u64>,
    writes: Pairs,
    found: Vec<Option<u64>>,
}

impl Group {
    fn serve(&mut self, map: &mut impl Handle, operations: &mut Operations<'_>) {
        self.reads.clear();
        self.writes.clear();
        self.found.clear();
        for _ in 0..STRIDE {
            match operations.next() {
                Operation::Read(key) => self.reads.push(key),
                Operation::Write(key, value) => self.writes.push((key, value)),
            }
        }
        if !self.reads.is_empty() {
            map.get_group(&self.reads, &mut self.found);
            assert_eq!(self.found.len(), self.reads.len(), "each read has its answer");
            black_box(&self.found);
        }
        if !self.writes.is_empty() {
            map.put_group(&self.writes);
        }
    }
}

fn serve_one(map: &mut impl Handle, operation: Operation) {
    match operation {
        Operation::Read(key) => {
            black_box(map.get(key));
        }
        Operation::Write(key, value) => map.put(key, value),
    }
}

/// Operations of one thread until the time is over, or until its share of the inserts is done; returns how many.
fn operate(map: &mut impl Handle, mut operations: Operations<'_>) -> u64 {
    let start = Instant::now();
    let mut group = Group::default();
    loop {
        if operations.plan.is_grouped {
            group.serve(map, &mut operations);
        } else {
            (0..STRIDE).for_each(|_| serve_one(map, operations.next()));
        }
        let now = Instant::now();
        map.tick(now);
        if operations.is_over(now.duration_since(start)) {
            return operations.count;
        }
    }
}

fn run<S: Subject>(map: &S, name: &str, letter: char, plan: &Plan) {
    let workload = match letter {
        'C' => Workload::Mixed { read_percent: 100 },
        'B' => Workload::Mixed { read_percent: 95 },
        'A' => Workload::Mixed { read_percent: 50 },
        'I' => Workload::InsertOnly,
        other => panic!("there is no workload {other}"),
    };
    let zipfian = Zipfian::new(plan.count);
    let (done, latencies) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let pool = ThreadPoolBuilder::new().num_threads(plan.threads).build().expect("threads");
    let before = map.len();
    let start = Instant::now();
    pool.broadcast(|context| {
        let mut map = map.handle();
        let (thread, zipfian) = (context.index() as u64, &zipfian);
        let random = StdRng::seed_from_u64(thread);
        let operations = Operations { workload, plan, zipfian, random, serial: thread, count: 0 };
        let operations = operate(&mut map, operations);
        latencies.lock().expect("no thread panics").extend(map.finish());
        done.fetch_add(operations, Ordering::Relaxed);
    });
    let per_second = done.into_inner() as f64 / start.elapsed().as_secs_f64();
    let (latency_99, latency_max) = quantiles(latencies.into_inner().expect("no thread panics"));
    if let Workload::InsertOnly = workload {
        assert!(map.len() >= before + plan.count - STRIDE * plan.threads, "every key was inserted");
    }
    println!(
        r#"{{"bench":"ycsb","workload":"{}","map":"{name}","entries":{},"threads":{},"grouped":{},"batch_ms":{},"ops_per_s":{per_second:.0},"write_latency_99_ms":{latency_99:.1},"write_latency_max_ms":{latency_max:.1}}}"#,
        if letter == 'I' { "insert-only".to_owned() } else { letter.to_string() },
        plan.count,
        plan.threads,
        plan.is_grouped,
        plan.batch_time.as_millis(),
    );
}

fn run_all<S: Subject>(make: impl Fn(&[(u64, u64)]) -> S, name: &str, plan: &Plan) {
    let mixed = plan.letters.replace('I', "");
    if !mixed.is_empty() {
        let mut pairs: Pairs = (0..plan.count as u64).map(|number| (scatter(number), number)).collect();
        pairs.sort_unstable();
        let map = make(&pairs);
        drop(pairs);
        assert_eq!(map.len(), plan.count);
        mixed.chars().for_each(|letter| run(&map, name, letter, plan));
    }
    if plan.letters.contains('I') {
        run(&make(&[]), name, 'I', plan);
    }
}

/// A version after a batch.
fn after<const B: usize>(tree: &PTree<u64, u64, (), B>, batch: Pairs) -> PTree<u64, u64, (), B> {
    let mut tree = tree.clone();
    tree.multi_insert_unsorted(batch, |_, _, new| new);
    tree
}

fn run_tree<const B: usize>(plan: &Plan) {
    let make = |pairs: &[(u64, u64)]| Published::<PTree<u64, u64, (), B>> {
        root: ArcSwap::from_pointee(PTree::from_sorted(pairs.to_vec())),
        writer: Mutex::default(),
        queue: Mutex::default(),
        batch_time: plan.batch_time,
        handles: AtomicUsize::new(0),
        threads: plan.threads,
        apply: after,
        read: |tree, key| tree.get(key).copied(),
        read_group: |tree, keys, found| {
            found.extend(tree.multi_find(keys).into_iter().map(Option::<&u64>::copied))
        },
        len: PTree::len,
        discard: PTree::drop_parallel,
    };
    run_all(make, &format!("PTree {B}"), plan);
}

/// As [`run_tree`], with a directory of each published version.
fn run_directory<const B: usize>(plan: &Plan) {
    let make = |pairs: &[(u64, u64)]| Published::<Directory<u64, u64, (), B>> {
        root: ArcSwap::from_pointee(PTree::from_sorted(pairs.to_vec()).directory()),
        writer: Mutex::default(),
        queue: Mutex::default(),
        batch_time: plan.batch_time,
        handles: AtomicUsize::new(0),
        threads: plan.threads,
        apply: |version, batch| after(version.tree(), batch).directory(),
        read: |version, key| version.get(key).copied(),
        read_group: |version, keys, found| {
            found.extend(version.multi_find(keys).into_iter().map(Option::<&u64>::copied));
        },
        len: |version| version.tree().len(),
        discard: drop,
    };
    run_all(make, &format!("PTree {B} and a directory"), plan);
}

/// The map, if it is a tree.
fn run_trees(plan: &Plan, map: &str) {
    match map {
        "ptree16" => run_tree::<16>(plan),
        "ptree30" => run_tree::<30>(plan),
        "ptree62" => run_tree::<62>(plan),
        "ptree126" => run_tree::<126>(plan),
        "ptree254" => run_tree::<254>(plan),
        "directory16" => run_directory::<16>(plan),
        "directory30" => run_directory::<30>(plan),
        "directory62" => run_directory::<62>(plan),
        _ => {}
    }
}

/// The map, if it is one that others have made.
fn run_peers(plan: &Plan, map: &str) {
    match map {
        "skiplist" => {
            let make = |pairs: &[(u64, u64)]| pairs.iter().copied().collect::<SkipMap<u64, u64>>();
            run_all(make, "crossbeam SkipMap", plan);
        }
        "btree" => {
            let make =
                |pairs: &[(u64, u64)]| RwLock::new(pairs.iter().copied().collect::<BTreeMap<u64, u64>>());
            run_all(make, "RwLock<BTreeMap>", plan);
        }
        "scc" => {
            let make = |pairs: &[(u64, u64)]| {
                let index = scc::TreeIndex::new();
                pairs.iter().for_each(|(key, value)| {
                    index.insert_sync(*key, *value).expect("keys are unique");
                });
                index
            };
            run_all(make, "scc::TreeIndex", plan);
        }
        "imbl" => {
            let make = |pairs: &[(u64, u64)]| Published::<imbl::OrdMap<u64, u64>> {
                root: ArcSwap::from_pointee(pairs.iter().copied().collect()),
                writer: Mutex::default(),
                queue: Mutex::default(),
                batch_time: plan.batch_time,
                handles: AtomicUsize::new(0),
                threads: plan.threads,
                discard: drop,
                apply: |map, batch| {
                    let mut map = map.clone();
                    batch.into_iter().for_each(|(key, value)| {
                        map.insert(key, value);
                    });
                    map
                },
                read: |map, key| map.get(key).copied(),
                read_group: |map, keys, found| found.extend(keys.iter().map(|key| map.get(key).copied())),
                len: imbl::OrdMap::len,
            };
            run_all(make, "imbl::OrdMap behind ArcSwap", plan);
        }
        _ => {}
    }
}

fn main() {
    let (mut numbers, mut maps) = (Vec::new(), Vec::new());
    let mut plan = Plan {
        count: 10_000_000,
        time: Duration::from_secs(3),
        batch_time: Duration::from_millis(12),
        threads: 2,
        is_grouped: false,
        letters: "CBAI".to_owned(),
    };
    for argument in std::env::args().skip(1) {
        if let Some(letters) = argument.strip_prefix("only=") {
            plan.letters = letters.to_owned();
        } else if let Some(threads) = argument.strip_prefix("threads=") {
            plan.threads = threads.parse().expect("a number of threads");
        } else if argument == "grouped" {
            plan.is_grouped = true;
        } else if let Ok(number) = argument.parse::<u64>() {
            numbers.push(number);
        } else {
            maps.push(argument);
        }
    }
    if let Some(count) = numbers.first() {
        plan.count = *count as usize;
    }
    plan.time = numbers.get(1).map_or(plan.time, |seconds| Duration::from_secs(*seconds));
    plan.batch_time = numbers.get(2).map_or(plan.batch_time, |batch| Duration::from_millis(*batch));
    if maps.is_empty() {
        maps = ["ptree30", "ptree62", "directory30", "skiplist", "btree", "scc", "imbl"]
            .map(str::to_owned)
            .to_vec();
    }
    for map in &maps {
        run_trees(&plan, map);
        run_peers(&plan, map);
    }
}
