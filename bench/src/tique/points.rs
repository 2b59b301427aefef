// SPDX-License-Identifier: Apache-2.0
//! Points: what transactions cost where there were none.
//!
//! A table of counters lies twice in the engine: once as TiQuE keeps it, once as a plain table with a primary key. Point
//! reads of both are measured in turns, with an empty and with a filled cache; then increments by several clients. In the
//! end the counters add up to what was committed.

use super::clients::{self, increments};
use super::engine;
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Population, Workload};
use crate::progress::Progress;
use crate::report::{Report, median};
use coeval_tique::{Connection, Database, Effort, Session};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::{Duration, Instant};

/// Rows, unless the options ask for fewer: the default engine has no index.
const ROWS_MAX: u64 = 100_000;
/// Turns of native reads and TiQuE's.
const TURNS: usize = 5;
/// The fewest rows that make sense: a share of them is cached.
const ROWS_MIN: u64 = 100;
/// Share of the rows that have a version in the cache when it is filled.
const FILLED: u64 = 20;
/// Rows of one INSERT while loading.
const LOAD_ROWS: u64 = 5_000;

/// Runs the experiment.
///
/// # Errors
/// If the engine is not there or refuses something.
pub(super) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let tiny = options.population == Population::Tiny;
    let rows = options.rows.min(if tiny { 500 } else { ROWS_MAX });
    if rows < ROWS_MIN {
        return Err(BenchError::Options(format!("tique needs {ROWS_MIN} rows at least")));
    }
    let place = engine::Place::new(options)?;
    let sync = measure_sync(place.path())?;
    let engine = place.engine()?;
    let database = Database::open(engine.clone(), engine::settings(options, 0))?;
    let mut report = Report::new(Workload::Tique, options, rows);
    report.note("engine", engine.dialect().name);
    // Not the connection that reads: a session of MonetDB's that was sent long statements takes longer for each later one.
    let mut loading = engine.connect()?;
    let mut session = database.session()?;
    progress.begin("load", Some(rows));
    let text = engine.dialect().text;
    session.execute("CREATE TABLE counters (k bigint PRIMARY KEY, n bigint NOT NULL, filler text)")?;
    loading
        .execute(&format!("CREATE TABLE native_counters (k BIGINT PRIMARY KEY, n BIGINT, filler {text})"))?;
    load(&mut session, &mut *loading, rows, progress)?;
    let mut native = engine.connect()?;
    database.checkpoint()?;
    progress.end();

    let cpu = CpuWatch::start();
    let slice = Duration::from_secs_f64(options.seconds / 3.0);
    progress.begin("point reads", None);
    let mut random = SmallRng::seed_from_u64(options.seed);
    point_reads(&mut report, "empty", &mut session, &mut *native, (slice, rows), &mut random)?;
    let mut added = fill(&mut session, rows)?;
    report.count("cached_versions", database.cached_versions() as u64);
    point_reads(&mut report, "filled", &mut session, &mut *native, (slice, rows), &mut random)?;
    progress.end();
    progress.begin("increments", None);
    let counts = increments(&database, options.threads, rows, slice, options.seed)?;
    report.figure("increments_per_s", counts.committed as f64 / slice.as_secs_f64());
    report.figure("increments_refused_share", counts.refused_share());
    added += counts.committed;
    progress.end();
    let total = clients::sum(&mut session)?;
    report.count("increments_committed", added);
    report.check("counters_lost_or_doubled", total.abs_diff(added));
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

fn load(
    session: &mut Session,
    native: &mut dyn Connection,
    rows: u64,
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    for first in (0..rows).step_by(LOAD_ROWS as usize) {
        let last = (first + LOAD_ROWS).min(rows);
        let values: Vec<String> = (first..last)
            .map(|k| format!("({k}, 0, 'a filler of some forty characters, number {k}')"))
            .collect();
        session.execute(&format!("INSERT INTO counters VALUES {}", values.join(", ")))?;
        native.execute(&format!("INSERT INTO native_counters VALUES {}", values.join(", ")))?;
        progress.advance(last - first);
    }
    Ok(())
}

/// Point reads of the plain table and of TiQuE's, in turns; medians.
fn point_reads(
    report: &mut Report,
    cache: &str,
    session: &mut Session,
    native: &mut dyn Connection,
    (slice, rows): (Duration, u64),
    random: &mut SmallRng,
) -> Result<(), BenchError> {
    let turn = slice / (2 * TURNS as u32);
    let (mut of_native, mut of_tique) = (Vec::new(), Vec::new());
    session.execute("BEGIN READ ONLY")?;
    for _ in 0..TURNS {
        of_native.push(per_second(turn, || {
            let key = random.random_range(0..rows);
            let sql = format!("SELECT n FROM native_counters WHERE k = {key}");
            Ok(native.query(&sql, Effort::Point)?.count())
        })?);
        of_tique.push(per_second(turn, || {
            let key = random.random_range(0..rows);
            let outcomes = session.execute(&format!("SELECT n FROM counters WHERE k = {key}"))?;
            Ok(outcomes.iter().filter_map(|outcome| outcome.rows.as_ref()).map(|rows| rows.count()).sum())
        })?);
    }
    session.execute("COMMIT")?;
    let (of_native, of_tique) = (median(&mut of_native), median(&mut of_tique));
    report.figure(format!("native_point_reads_per_s_{cache}"), of_native);
    report.figure(format!("point_reads_per_s_{cache}"), of_tique);
    report.figure(format!("point_read_overhead_{cache}"), of_native / of_tique);
    Ok(())
}

/// How often a read that finds one row runs in a second.
fn per_second(
    turn: Duration,
    mut read: impl FnMut() -> Result<usize, BenchError>,
) -> Result<f64, BenchError> {
    let (began, mut count) = (Instant::now(), 0_u64);
    while began.elapsed() < turn || count == 0 {
        let found = read()?;
        if found != 1 {
            return Err(BenchError::Answer(format!("a point read found {found} rows")));
        }
        count += 1;
    }
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

/// Gives a share of the rows a version in the cache; how many.
fn fill(session: &mut Session, rows: u64) -> Result<u64, BenchError> {
    let count = rows / FILLED;
    session.execute(&format!("UPDATE counters SET n = n + 1 WHERE k < {count}"))?;
    Ok(count)
}
