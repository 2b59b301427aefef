// SPDX-License-Identifier: Apache-2.0
//! The RSS paper's experiment (its Figures 5 to 7) on one node: TPC-C's terminals at SERIALIZABLE beside streams of
//! analytical queries, where only these are declared read-only.
//!
//! ```text
//! each round     alone | readers under SSI | under DEFERRABLE | on safe snapshots | alone beside a CPU burner
//! at the end     readers on safe snapshots beside a transaction that sits idle, without and with a bound on their age
//! ```
//!
//! The ways alternate, and each figure is the median of its rounds. Order-Status and Stock-Level are transactions like
//! the others. The burner uses as much of the processors as the streams on safe snapshots did in the same round.

mod analyst;
mod phase;
mod watcher;

use crate::chbench::populate_all;
use crate::engine::{Place, open};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::{Report, median};
use coeval::{CheckpointPolicy, Database, Isolation};
use phase::{Beside, Phase, measure};
use std::time::Duration;

/// Beside whom the terminals run in each round, with the name of its figures. The burner comes behind the streams whose
/// share it takes.
const WAYS: [(&str, Beside); 5] = [
    ("alone", Beside::Nobody),
    ("ssi", Beside::Ssi),
    ("deferrable", Beside::Deferrable),
    ("rss", Beside::Safe),
    ("burner", Beside::Burner),
];

/// The bound on the age of safe snapshots beside the idle transaction.
const LAG_MAX: Duration = Duration::from_millis(100);

/// Runs all ways as often as the options say, each for their time.
///
/// # Errors
/// If the database refuses something; conflicts are counted and tried again.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    if options.threads == 0 || options.streams == 0 {
        return Err(BenchError::Options("rss needs at least one terminal and one stream".to_owned()));
    }
    let options = Options { isolation: Isolation::Serializable, ..options.clone() };
    let place = Place::new(&options)?;
    let db = open(place.path(), &options, CheckpointPolicy::default())?;
    populate_all(&db, &options, progress)?;
    let sync = measure_sync(place.path())?;
    let mut report = Report::new(Workload::Rss, &options, options.warehouses);
    report.count("streams", options.streams as u64);
    report.count("rounds", options.runs as u64);
    let cpu = CpuWatch::start();
    let mut rounds: [Vec<Phase>; WAYS.len()] = Default::default();
    for _ in 0..options.runs.max(1) {
        let mut share = 0.0;
        for ((name, beside), phases) in WAYS.iter().zip(&mut rounds) {
            progress.begin(name, None);
            let phase = measure(&db, &options, *beside, share, progress)?;
            progress.end();
            share = phase.stream_cores;
            phases.push(phase);
        }
    }
    for ((name, beside), phases) in WAYS.iter().zip(&rounds) {
        tell(name, *beside, phases, &mut report);
    }
    compare(&rounds, &mut report);
    beside_idle(&db, &options, progress, &mut report)?;
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

/// The middle one of what the phases found.
fn middle(phases: &[Phase], figure: impl Fn(&Phase) -> f64) -> f64 {
    median(&mut phases.iter().map(figure).collect::<Vec<_>>())
}

fn tell(name: &str, beside: Beside, phases: &[Phase], report: &mut Report) {
    let mut figure = |figure: &str, value: f64| report.figure(format!("{name}_{figure}"), value);
    figure("transactions_per_s", middle(phases, |phase| phase.transactions_per_s));
    figure("abort_percent", middle(phases, |phase| phase.abort_percent));
    if beside.has_streams() {
        figure("queries_per_h", middle(phases, |phase| phase.streams.answered_per_h));
        figure("query_p50_ms", middle(phases, |phase| phase.streams.latency.percentile_ms(50.0)));
        figure("first_statement_p50_ms", middle(phases, |phase| phase.streams.first.percentile_ms(50.0)));
        figure("first_statement_max_ms", middle(phases, |phase| phase.streams.first.max() as f64 / 1e6));
        figure("stream_cores", middle(phases, |phase| phase.stream_cores));
        figure("safe_world_cpu_percent", middle(phases, |phase| phase.making_percent));
        let sum = |count: fn(&Phase) -> u64| phases.iter().map(count).sum::<u64>();
        report.count(format!("{name}_queries"), sum(|phase| phase.streams.answered));
        report.count(format!("{name}_reader_aborts"), sum(|phase| phase.streams.aborts));
        report.count(format!("{name}_dangerous_structures"), sum(|phase| phase.dangerous));
        report.count(format!("{name}_structures_with_reader"), sum(|phase| phase.with_reader));
        report.count(format!("{name}_safe_worlds_made"), sum(|phase| phase.made));
        report.count(format!("{name}_fallbacks"), sum(|phase| phase.fallbacks));
    }
}

/// What the ways are to each other, and what holds in any run on safe snapshots.
fn compare(rounds: &[Vec<Phase>; WAYS.len()], report: &mut Report) {
    let [alone, ssi, deferrable, safe, burner] = rounds;
    let transactions = |phases: &[Phase]| middle(phases, |phase| phase.transactions_per_s);
    let queries = |phases: &[Phase]| middle(phases, |phase| phase.streams.answered_per_h);
    let aborts = |phases: &[Phase]| middle(phases, |phase| phase.abort_percent);
    let ratio = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
    report.figure("rss_to_burner_transactions", ratio(transactions(safe), transactions(burner)));
    report.figure("rss_to_ssi_transactions", ratio(transactions(safe), transactions(ssi)));
    report.figure("rss_to_ssi_queries", ratio(queries(safe), queries(ssi)));
    report.figure("rss_to_deferrable_queries", ratio(queries(safe), queries(deferrable)));
    report.figure("rss_minus_alone_abort_points", aborts(safe) - aborts(alone));
    // With as much of the processors for the terminals: alone they run twice as often, and meet more.
    report.figure("rss_minus_burner_abort_points", aborts(safe) - aborts(burner));
    let mut seen = watcher::Seen::default();
    safe.iter().for_each(|phase| seen.merge(&phase.seen));
    seen.tell("rss", report);
    if let Some(last) = safe.last() {
        report.note("rss_age_over_time_ms", last.seen.ages_over_time_ms());
    }
    report.check("aborts_with_a_reader_on_a_safe_snapshot", safe.iter().map(|phase| phase.with_reader).sum());
    report.check("aborts_of_readers_on_safe_snapshots", safe.iter().map(|phase| phase.streams.aborts).sum());
}

/// Streams on safe snapshots beside a session that sits in a read-write transaction.
fn beside_idle(
    db: &Database,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    for (name, bound) in [("idle", None), ("idle_bounded", Some(LAG_MAX))] {
        progress.begin(name, None);
        let mut idle = db.session();
        idle.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")?;
        idle.query("SELECT r_name FROM region WHERE r_regionkey = 1")?;
        db.store().set_safe_snapshot_lag_max(bound);
        let phase = measure(db, options, Beside::Safe, 0.0, progress);
        db.store().set_safe_snapshot_lag_max(None);
        idle.execute("ROLLBACK")?;
        let phase = phase?;
        progress.end();
        phase.seen.tell(name, report);
        report.figure(format!("{name}_transactions_per_s"), phase.transactions_per_s);
        report.figure(format!("{name}_abort_percent"), phase.abort_percent);
        report.count(format!("{name}_fallbacks"), phase.fallbacks);
        report.note(format!("{name}_age_over_time_ms"), phase.seen.ages_over_time_ms());
    }
    Ok(())
}
