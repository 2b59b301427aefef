// SPDX-License-Identifier: Apache-2.0
//! Ingestion beside dashboards: does a query cost loads more than the processors that it uses?
//!
//! Loads run beside dashboards that ask again and again, and beside threads that burn as much processor time as the
//! dashboards and their helpers took, by turns. If queries held loads up, the first would be slower.

use super::{CLIENTS, LOAD_ROWS, Target};
use crate::engine::query_number;
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Report, median};
use arrow::array::RecordBatch;
use coeval::Database;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Dashboards, and threads that burn.
const DASHBOARDS: usize = 4;
/// Pairs of runs, and how long each may last.
const PAIRS: usize = 5;
const RUN_SECONDS_MAX: f64 = 2.0;
/// How long a thread burns before it looks at what it has used.
const BURNT_AT_ONCE: Duration = Duration::from_micros(500);
/// The names of threads that load: those of clients, and the first part of those of shards.
const LOADER: &str = "bench-loader";
const SHARD: &str = "brick-shard";

/// What happens beside loads.
#[derive(Clone, Copy)]
enum Company {
    Dashboards,
    /// Threads that use so many cores together.
    Burners(f64),
}

/// What a run found.
struct Run {
    rows_per_s: f64,
    /// Cores that were used by others than loaders and shards.
    company_cores: f64,
}

/// What dashboards found in all runs.
#[derive(Default)]
struct Asked {
    times: Histogram,
    backwards: u64,
}

/// Loads beside dashboards and beside burners, by turns.
///
/// # Errors
/// If the database refuses something.
pub(super) fn beside(
    db: &Database,
    source: &Target,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    let target = Target { name: "watched", ..*source };
    let mut random = StdRng::seed_from_u64(options.seed);
    let batch = target.batch(&mut random, LOAD_ROWS.min(options.rows.max(1) as usize))?;
    let pairs = options.runs.clamp(1, PAIRS);
    let seconds = options.seconds.min(RUN_SECONDS_MAX);
    let asked = Mutex::new(Asked::default());
    let (mut watched, mut burnt, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut watched_cores, mut burnt_cores) = (Vec::new(), Vec::new());
    progress.begin("loads beside dashboards", Some(pairs as u64));
    for _ in 0..pairs {
        let one = run(db, &target, &batch, seconds, Company::Dashboards, &asked)?;
        let other = run(db, &target, &batch, seconds, Company::Burners(one.company_cores), &asked)?;
        ratios.push(one.rows_per_s / other.rows_per_s);
        watched.push(one.rows_per_s);
        burnt.push(other.rows_per_s);
        watched_cores.push(one.company_cores);
        burnt_cores.push(other.company_cores);
        progress.advance(1);
    }
    progress.end();
    report.figure("watched_append_rows_per_s", median(&mut watched));
    report.figure("burnt_append_rows_per_s", median(&mut burnt));
    report.figure("watched_to_burnt_ratio", median(&mut ratios));
    report.figure("dashboards_cores", median(&mut watched_cores));
    report.figure("burners_cores", median(&mut burnt_cores));
    let asked = asked.into_inner().expect("a dashboard does not panic");
    report.count("dashboards_queries", asked.times.count());
    for percent in [50_u8, 99] {
        let ms = asked.times.percentile(f64::from(percent)) as f64 / 1e6;
        report.figure(format!("dashboards_p{percent}_ms"), ms);
    }
    report.figure("dashboards_max_ms", asked.times.max() as f64 / 1e6);
    report.check("dashboards_counts_backwards", asked.backwards);
    Ok(())
}

/// Loads a new table for some seconds.
fn run(
    db: &Database,
    target: &Target,
    batch: &RecordBatch,
    seconds: f64,
    company: Company,
    asked: &Mutex<Asked>,
) -> Result<Run, BenchError> {
    let mut session = db.session();
    target.create(&mut session)?;
    let (is_over, loaded) = (AtomicBool::new(false), AtomicU64::new(0));
    let found = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let load = || {
            while !is_over.load(Ordering::Acquire) {
                loaded.fetch_add(db.append(target.name, batch)?, Ordering::Relaxed);
            }
            Ok::<(), BenchError>(())
        };
        for _ in 0..CLIENTS {
            let named = std::thread::Builder::new().name(LOADER.to_owned());
            let thread = named.spawn_scoped(scope, load);
            threads.push(thread.map_err(|error| BenchError::file("/proc/self/task", error))?);
        }
        let started = Instant::now();
        let cpu_before = company_cpu_s();
        for _ in 0..DASHBOARDS {
            let is_over = &is_over;
            threads.push(scope.spawn(move || match company {
                Company::Dashboards => ask(db, target, is_over, asked),
                Company::Burners(cores) => {
                    burn(cores / DASHBOARDS as f64, is_over);
                    Ok(())
                }
            }));
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        // A short run on a busy machine ends with its first load.
        while loaded.load(Ordering::Relaxed) == 0 && threads.iter().all(|thread| !thread.is_finished()) {
            std::thread::sleep(BURNT_AT_ONCE);
        }
        let (rows, elapsed) = (loaded.load(Ordering::Relaxed), started.elapsed().as_secs_f64());
        // While the threads live: what they used goes with them.
        let company_cores = (company_cpu_s() - cpu_before) / elapsed;
        is_over.store(true, Ordering::Release);
        for thread in threads {
            thread.join().expect("a client does not panic")?;
        }
        Ok::<_, BenchError>(Run { rows_per_s: rows as f64 / elapsed, company_cores })
    });
    session.execute(&format!("DROP TABLE {}", target.name))?;
    db.checkpoint()?;
    found
}

/// Asks what a dashboard asks, on safe snapshots, whose counts never go down.
fn ask(db: &Database, target: &Target, is_over: &AtomicBool, asked: &Mutex<Asked>) -> Result<(), BenchError> {
    let mut session = db.session();
    let mut found = Asked::default();
    let mut last = 0;
    let total = format!("SELECT key, sum(m1), count(*) FROM {} WHERE key < 160 GROUP BY key", target.name);
    let count = format!("SELECT count(*) FROM {}", target.name);
    loop {
        let started = Instant::now();
        session.execute("BEGIN READ ONLY")?;
        session.query(&total)?;
        let rows = query_number(&mut session, &count)?;
        session.execute("COMMIT")?;
        found.times.record_duration(started.elapsed());
        found.backwards += u64::from(rows < last);
        last = rows;
        if is_over.load(Ordering::Acquire) {
            break;
        }
    }
    let mut asked = asked.lock().expect("a dashboard does not panic");
    asked.times.merge(&found.times);
    asked.backwards += found.backwards;
    Ok(())
}

/// Uses so much of a core.
fn burn(share: f64, is_over: &AtomicBool) {
    let started = Instant::now();
    let mut number = 1_u64;
    while !is_over.load(Ordering::Acquire) {
        let used = thread_cpu_s("/proc/thread-self/schedstat");
        if used > share * started.elapsed().as_secs_f64() {
            std::thread::sleep(BURNT_AT_ONCE);
            continue;
        }
        let round = Instant::now();
        while round.elapsed() < BURNT_AT_ONCE {
            for _ in 0..1_000 {
                number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
        }
    }
}

/// The processor time of all threads of this process but those that load, in seconds.
fn company_cpu_s() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let used = tasks.flatten().map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.starts_with(LOADER) || name.starts_with(SHARD) {
            return 0.0;
        }
        thread_cpu_s(&task.path().join("schedstat").display().to_string())
    });
    used.sum()
}

/// The processor time of a thread, in seconds; 0 where nobody says.
fn thread_cpu_s(path: &str) -> f64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}
