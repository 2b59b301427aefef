// SPDX-License-Identifier: Apache-2.0
//! A measured run of TPC-C: terminals without think times against one database or server.

use super::consistency::check_all;
use super::embedded::EmbeddedClient;
use super::execution::{Executor, HistoryIds};
use super::foreign::ForeignClient;
use super::input::{Kind, Terminals};
use super::load::populate_system;
use super::population::Sizes;
use super::sql::SqlExecutor;
use super::typed::TypedExecutor;
use super::wire::WireClient;
use crate::board::{Board, Figures, Step, Worker};
use crate::error::BenchError;
use crate::machine::measure_sync;
use crate::options::{Api, Options, UpdateReads, Workload};
use crate::progress::Progress;
use crate::report::Report;
use crate::system::{Console, System, with_system};
use coeval::{CheckpointPolicy, Isolation};
use std::path::Path;
use std::time::Duration;

/// Runs TPC-C as the options say.
///
/// # Errors
/// If the database refuses something; conflicts are not errors, they are counted and tried again.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    with_system(options, CheckpointPolicy::default(), |system, directory| {
        run_on(system, directory, options, progress)
    })
}

fn run_on(
    system: System<'_>,
    directory: &Path,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, BenchError> {
    populate_system(&mut *system.console()?, options, progress)?;
    let sync = measure_sync(directory)?;
    let mut report = Report::new(Workload::Tpcc, options, options.warehouses);
    report.name_system(system);
    report.name_statements(system, options);
    let board = Board::new(options.threads, Kind::ALL.len());
    let workers = terminal_workers(system, options)?;
    progress.begin("TPC-C", None);
    let cpu = system.watch_cpu(options);
    let measured = board.run(workers, options, progress)?;
    let usage = cpu.usage();
    progress.end();
    report_terminals(&mut report, &board.figures(), measured);
    report.cpu(usage);
    progress.begin("check TPC-C's consistency conditions", None);
    check_all(&mut *system.console()?, &mut report)?;
    progress.end();
    report.environment(usage.foreign, sync);
    Ok(report)
}

/// The terminals that one thread plays, and how it runs what they ask for.
struct TerminalWorker<'d> {
    terminals: Terminals,
    executor: Box<dyn Executor + 'd>,
}

impl Worker for TerminalWorker<'_> {
    fn step(&mut self) -> Result<Step, BenchError> {
        let input = self.terminals.next();
        let ended = self.executor.execute(&input)?;
        Ok(Step { kind: input.kind() as usize, outcome: ended.outcome, conflicts: ended.conflicts })
    }
}

/// Prepares terminals and statements for all threads.
pub(crate) fn terminal_workers<'d>(
    system: System<'d>,
    options: &Options,
) -> Result<Vec<Box<dyn Worker + 'd>>, BenchError> {
    if options.threads == 0 {
        return Err(BenchError::Options("TPC-C needs at least one thread".to_owned()));
    }
    if options.isolation == Isolation::ReadCommitted && options.update_reads == UpdateReads::Plain {
        let reason = "at READ COMMITTED, TPC-C must read FOR NO KEY UPDATE what it is about to write";
        return Err(BenchError::Options(reason.to_owned()));
    }
    let largest = largest_history_id(&mut *system.console()?)?;
    (0..options.threads).map(|thread| terminal_worker(system, options, thread, largest)).collect()
}

/// The largest `h_id` that is taken.
pub(crate) fn largest_history_id(console: &mut dyn Console) -> Result<i64, BenchError> {
    console.query_number("SELECT max(h_id) FROM history")
}

/// Prepares the terminals and statements of one of the threads; all of them begin behind the same `h_id`.
pub(crate) fn terminal_worker<'d>(
    system: System<'d>,
    options: &Options,
    thread: usize,
    largest_history_id: i64,
) -> Result<Box<dyn Worker + 'd>, BenchError> {
    let warehouses = i32::try_from(options.warehouses)
        .map_err(|_| BenchError::Options("there are at most 2,147,483,647 warehouses".to_owned()))?;
    let ids = HistoryIds::new(largest_history_id, thread, options.threads);
    let executor = executor(system, options, ids)?;
    let sizes = Sizes::new(options.population);
    let terminals = Terminals::new(sizes, warehouses, options.seed, thread, options.threads);
    let terminals = terminals.kept_to(options.hot_warehouses);
    Ok(Box::new(TerminalWorker { terminals, executor }))
}

/// How one thread runs what its terminals ask for.
fn executor<'d>(
    system: System<'d>,
    options: &Options,
    ids: HistoryIds,
) -> Result<Box<dyn Executor + 'd>, BenchError> {
    let isolation = options.isolation;
    Ok(match (system, options.api) {
        (System::Embedded(db), Api::Typed) => Box::new(TypedExecutor::new(db, isolation, ids)?),
        (System::Embedded(db), Api::Sql) => {
            Box::new(SqlExecutor::new(EmbeddedClient::new(db, options)?, ids))
        }
        (System::Foreign(foreign), _) => Box::new(SqlExecutor::new(ForeignClient::new(foreign)?, ids)),
        (System::Server(server), _) => {
            let client = WireClient::new(server, options)?;
            Box::new(SqlExecutor::new(client, ids))
        }
    })
}

/// Adds what the terminals did to a report.
pub(crate) fn report_terminals(report: &mut Report, figures: &Figures, measured: Duration) {
    let seconds = measured.as_secs_f64().max(1e-9);
    let total = figures.total();
    let through = total.committed + total.rolled_back;
    let of = |kind: Kind| &figures.kinds[kind as usize];
    let new_order = of(Kind::NewOrder);
    report.figure("transactions_per_s", total.committed as f64 / seconds);
    report.figure("new_orders_per_minute", new_order.committed as f64 / seconds * 60.0);
    report.figure("latency_p50_ms", total.latency.percentile_ms(50.0));
    report.figure("latency_p99_ms", total.latency.percentile_ms(99.0));
    report.figure("latency_max_ms", total.latency.max() as f64 / 1e6);
    report.figure("abort_rate", share(total.conflicts, through + total.conflicts));
    report.count("committed", total.committed);
    report.count("conflicts", total.conflicts);
    report.figure(
        "rolled_back_rate",
        share(new_order.rolled_back, new_order.committed + new_order.rolled_back),
    );
    for kind in Kind::ALL {
        let (name, figures) = (kind.name(), of(kind));
        report.figure(format!("{name}_share"), share(figures.committed + figures.rolled_back, through));
        report.figure(format!("{name}_p50_ms"), figures.latency.percentile_ms(50.0));
        report.figure(format!("{name}_p90_ms"), figures.latency.percentile_ms(90.0));
        report.figure(format!("{name}_p99_ms"), figures.latency.percentile_ms(99.0));
        report.count(format!("{name}_committed"), figures.committed);
        report.count(format!("{name}_conflicts"), figures.conflicts);
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
