// SPDX-License-Identifier: Apache-2.0
//! TPC-HC: transactions, with and without a log, and queries beside them on the latest world (P-Trees paper, sections 8.1
//! and 8.4, Tables 2 and 4).
//!
//! One thread updates. After each transaction it publishes the new world, and drops the one before, unless a query
//! reads it. A query takes the latest world; when it is done, the updating thread gets that world back to drop it, as
//! collecting garbage is the updates' business.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use arc_swap::ArcSwap;

use crate::log::Log;
use crate::olap::{json, mean, median, pool};
use crate::pin::to_core;
use crate::queries::QUERIES;
use crate::transactions::{KINDS, Source, Transaction};
use crate::world::World;

/// What a run of transactions took.
#[derive(Debug, Default)]
struct Updates {
    count: [usize; KINDS],
    seconds: [f64; KINDS],
    total_s: f64,
    syncs: u64,
}

impl Updates {
    /// Transactions per second, overall.
    fn rate(&self) -> f64 {
        self.count.iter().sum::<usize>() as f64 / self.total_s
    }

    /// Transactions per second of each kind, while one of it ran.
    fn rates(&self) -> [f64; KINDS] {
        std::array::from_fn(|kind| self.count[kind] as f64 / self.seconds[kind])
    }
}

/// Loads the database, runs all variants, and prints one JSON line.
///
/// # Panics
/// If the log cannot be written, if replaying it does not lead to the same world, or if the trees do not agree.
pub(crate) fn run(scale: f64, count: usize, directory: &Path) {
    let (start, _) = crate::load(scale);
    start.check();
    let mut source = Source::new(&start, 7);
    let transactions: Vec<Transaction> = (0..count).map(|_| source.draw()).collect();
    let path = directory.join("tpch-transactions.log");

    let world = ArcSwap::from_pointee(start.clone());
    let plain = on_core(1, || update(&world, &transactions, None, None));
    let world = ArcSwap::from_pointee(start.clone());
    let log = Log::create(&path).expect("the directory can be written to");
    let logged = on_core(1, || update(&world, &transactions, Some(log), None));
    let end = world.load_full();
    end.check();
    assert_eq!(replayed(&start, &path).fingerprint(), end.fingerprint(), "the log holds all there was");
    drop(end);

    let sequential = beside(&start, &transactions, &path, 1);
    let parallel = beside(&start, &transactions, &path, 2);
    fs::remove_file(&path).expect("the log was made above");
    println!(
        "{{\"experiment\":\"tpc-hc\",\"scale\":{scale},\"transactions\":{count},\"alone_per_s\":{:.0},\
         \"alone_by_kind_per_s\":{},\"logged_per_s\":{:.0},\"logged_by_kind_per_s\":{},\"syncs\":{},\
         \"one_thread\":{sequential},\"two_threads\":{parallel}}}",
        plain.rate(),
        json(&plain.rates()),
        logged.rate(),
        json(&logged.rates()),
        logged.syncs,
    );
}

/// Runs on a thread of its own that stays on a core.
fn on_core<R: Send>(core: usize, work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if !to_core(core) {
                eprintln!("threads are not pinned: no taskset");
            }
            work()
        });
        thread.join().expect("the work does not panic")
    })
}

/// Applies transactions one by one, each visible when the next one begins.
fn update(
    world: &ArcSwap<World>,
    transactions: &[Transaction],
    mut log: Option<Log>,
    returned: Option<Receiver<Arc<World>>>,
) -> Updates {
    let mut updates = Updates::default();
    let mut latest = World::clone(&world.load());
    let start = Instant::now();
    let mut before = start;
    for transaction in transactions {
        latest.apply(transaction);
        if let Some(log) = &mut log {
            log.append(transaction).expect("the log takes a record");
        }
        drop(world.swap(Arc::new(latest.clone())));
        if let Some(returned) = &returned {
            returned.try_iter().for_each(drop);
        }
        let after = Instant::now();
        updates.count[transaction.kind()] += 1;
        updates.seconds[transaction.kind()] += (after - before).as_secs_f64();
        before = after;
    }
    updates.syncs = log.map_or(0, |log| log.close().expect("the log gets to the disk"));
    updates.total_s = start.elapsed().as_secs_f64();
    updates
}

/// The world after all transactions of a log.
fn replayed(start: &World, path: &Path) -> World {
    let log = fs::read(path).expect("the log was written");
    let mut rest = log.as_slice();
    let mut world = start.clone();
    while let Some(transaction) = Transaction::decode(&mut rest) {
        world.apply(&transaction);
    }
    assert!(rest.is_empty(), "the log ends with a whole record");
    world
}

/// Queries alone, then beside logged updates, on so many threads; a JSON object. On one thread the queries have core 0
/// and the updates core 1.
fn beside(start: &World, transactions: &[Transaction], path: &Path, threads: usize) -> String {
    let world = ArcSwap::from_pointee(start.clone());
    let (done, (back, returned)) = (AtomicBool::new(false), channel());
    let queries = pool(threads);
    if threads == 1 {
        queries.install(|| to_core(0));
    }
    let alone = queries.install(|| rounds(&world, &back, |round| round < 4));
    let log = Log::create(path).expect("the directory can be written to");
    let (updates, with) = thread::scope(|scope| {
        let updating = scope.spawn({
            let (world, done) = (&world, &done);
            move || {
                to_core(1);
                let updates = update(world, transactions, Some(log), Some(returned));
                done.store(true, Ordering::Release);
                updates
            }
        });
        let with = queries.install(|| rounds(&world, &back, |_| !done.load(Ordering::Acquire)));
        (updating.join().expect("updates do not panic"), with)
    });
    // The data have grown; the same again without updates.
    let after = queries.install(|| rounds(&world, &back, |round| round < 4));
    format!(
        "{{\"updates_per_s\":{:.0},\"rounds_beside\":{},\"alone_mean_ms\":{:.3},\"with_updates_mean_ms\":{:.3},\
         \"alone_after_mean_ms\":{:.3},\"alone_ms\":{},\"with_updates_ms\":{}}}",
        updates.rate(),
        with.1,
        mean(&alone.0),
        mean(&with.0),
        mean(&after.0),
        json(&alone.0),
        json(&with.0),
    )
}

/// The median times of all queries in milliseconds, each on the latest world, and the number of rounds: the queries
/// that ran while `go` said so.
fn rounds(
    world: &ArcSwap<World>,
    back: &Sender<Arc<World>>,
    go: impl Fn(usize) -> bool,
) -> (Vec<f64>, usize) {
    let mut times = vec![Vec::new(); QUERIES.len()];
    let mut round = 0;
    while go(round) {
        for (times, query) in times.iter_mut().zip(QUERIES) {
            let start = Instant::now();
            let snapshot = world.load_full();
            let answer = query(&snapshot);
            let time = start.elapsed().as_secs_f64() * 1e3;
            drop(answer);
            // Without updates nobody takes it.
            if let Err(unsent) = back.send(snapshot) {
                drop(unsent);
            }
            if go(round) {
                times.push(time);
            }
        }
        round += 1;
    }
    let times = times.into_iter().map(|times| if times.is_empty() { f64::NAN } else { median(times) });
    (times.collect(), round)
}
