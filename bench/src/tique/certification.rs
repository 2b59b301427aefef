// SPDX-License-Identifier: Apache-2.0
//! The time of COMMIT by the size of the write set, with more and more versions in the cache; as a drawing if asked.

use super::clients::sum;
use super::curve::draw;
use super::engine::{Place, settings};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Population, Workload};
use crate::progress::Progress;
use crate::report::{Report, median};
use coeval_tique::{Database, Session};
use std::time::Instant;

/// Rows of a write set.
const WRITE_SETS: [u64; 5] = [1, 10, 100, 1_000, 10_000];
/// Versions in the cache; each stands in a write set too, as no checkpoint has removed them.
const CACHES: [u64; 4] = [0, 1_000, 10_000, 50_000];
/// How often a commit is timed.
const COMMITS: usize = 5;
/// Rows of one transaction that fills the cache.
const FILLING: u64 = 1_000;

/// Runs the experiment. It takes as long as it takes.
///
/// # Errors
/// If the engine is not there or refuses something.
pub(super) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let tiny = options.population == Population::Tiny;
    let scale = if tiny { 100 } else { 1 };
    let place = Place::new(options)?;
    let sync = measure_sync(place.path())?;
    let engine = place.engine()?;
    let database = Database::open(engine.clone(), settings(options, 0))?;
    let mut session = database.session()?;
    session.execute("CREATE TABLE counters (k bigint PRIMARY KEY, n bigint NOT NULL)")?;
    let mut report = Report::new(Workload::Tique, options, CACHES[CACHES.len() - 1] / scale);
    report.note("engine", engine.dialect().name);
    let (cpu, mut next) = (CpuWatch::start(), 0);
    let mut lines = Vec::new();
    for versions in CACHES.map(|versions| versions / scale) {
        progress.begin("commits", None);
        // A run before has left versions of its own.
        database.checkpoint()?;
        while (database.cached_versions() as u64) < versions {
            insert(&mut session, &mut next, FILLING.min(versions))?;
        }
        let mut line = Vec::new();
        for size in WRITE_SETS.map(|size| (size / scale).max(1)) {
            let mut times = Vec::with_capacity(COMMITS);
            for _ in 0..COMMITS {
                times.push(insert(&mut session, &mut next, size)?);
            }
            let time = median(&mut times);
            report.figure(format!("commit_ms_{versions}_cached_{size}_rows"), time);
            line.push((size as f64, time));
        }
        lines.push((format!("{versions} versions in the cache"), line));
        progress.end();
    }
    report.check("counters_lost_or_doubled", sum(&mut session)?.abs_diff(next));
    if let Some(path) = &options.out {
        draw(&lines, path)?;
    }
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

/// Inserts new rows in a transaction; how long its COMMIT took, in milliseconds.
fn insert(session: &mut Session, next: &mut u64, rows: u64) -> Result<f64, BenchError> {
    let values: Vec<String> = (*next..*next + rows).map(|k| format!("({k}, 1)")).collect();
    *next += rows;
    session.execute("BEGIN")?;
    session.execute(&format!("INSERT INTO counters VALUES {}", values.join(", ")))?;
    let began = Instant::now();
    session.execute("COMMIT")?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
