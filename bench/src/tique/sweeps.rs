// SPDX-License-Identifier: Apache-2.0
//! TPC-C on a foreign engine again and again: with more clients, fewer warehouses, or streams of queries beside it.

use crate::board::Board;
use crate::chbench;
use crate::error::BenchError;
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::Report;
use crate::system::System;
use crate::tpcc::{Kind, check_all, populate_system, report_terminals, terminal_workers};

/// Figure 7's horizontal axis.
const CLIENTS: [usize; 5] = [1, 2, 4, 8, 16];
/// Figures 10 and 11: terminals and streams.
const HYBRID: [(usize, usize); 9] = [(2, 0), (2, 1), (2, 2), (0, 1), (0, 2), (1, 1), (4, 1), (4, 2), (4, 4)];

/// One run of terminals.
fn terminals(
    system: System<'_>,
    options: &Options,
    progress: &dyn Progress,
    name: &str,
) -> Result<Report, BenchError> {
    let board = Board::new(options.threads, Kind::ALL.len());
    let workers = terminal_workers(system, options)?;
    progress.begin(name, None);
    let measured = board.run(workers, options, progress)?;
    progress.end();
    let mut run = Report::new(Workload::Tique, options, options.warehouses);
    report_terminals(&mut run, &board.figures(), measured);
    Ok(run)
}

/// Loads, runs terminals once with each of the options, whose names the figures get, and checks what they leave.
fn sweep(
    system: System<'_>,
    options: &Options,
    runs: impl IntoIterator<Item = (String, Options)>,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    populate_system(&mut *system.console()?, options, progress)?;
    for (name, options) in runs {
        let run = terminals(system, &options, progress, &name)?;
        copy(&run, &["transactions_per_s", "abort_rate", "latency_p50_ms", "latency_p99_ms"], &name, report);
    }
    check(system, progress, report)
}

/// Adds figures of one run, with the run's name behind theirs.
fn copy(run: &Report, figures: &[&str], name: &str, report: &mut Report) {
    for figure in figures {
        report.figure(format!("{figure}_{name}"), run.value(figure).unwrap_or(0.0));
    }
}

fn check(system: System<'_>, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    progress.begin("check TPC-C's consistency conditions", None);
    check_all(&mut *system.console()?, report)?;
    progress.end();
    Ok(())
}

/// Figure 7. One client more or less than the options' threads is not asked for: the axis is fixed.
///
/// # Errors
/// What the engine says.
pub(super) fn clients(
    system: System<'_>,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let with = |threads| (format!("{threads}_clients"), Options { threads, ..options.clone() });
    sweep(system, options, CLIENTS.map(with), progress, report)
}

/// Figure 8: the options' clients on all warehouses, then on half of them, and so on to one.
///
/// # Errors
/// What the engine says.
pub(super) fn contention(
    system: System<'_>,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let all = i32::try_from(options.warehouses).unwrap_or(i32::MAX);
    let halves = std::iter::successors(Some(all), |hot| Some(hot / 2)).take_while(|hot| *hot > 0);
    let on = |hot_warehouses| {
        (format!("{hot_warehouses}_warehouses"), Options { hot_warehouses, ..options.clone() })
    };
    sweep(system, options, halves.map(on), progress, report)
}

/// Figures 10 and 11.
///
/// # Errors
/// What the engine says.
pub(super) fn hybrid(
    system: System<'_>,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    chbench::populate(&mut *system.console()?, options, progress)?;
    for (threads, streams) in HYBRID {
        let options = Options { threads, streams, ..options.clone() };
        let (mixed, _) = chbench::mix(system, &options, progress)?;
        let name = format!("{threads}_terminals_{streams}_streams");
        copy(&mixed, &["transactions_per_s", "queries_per_h", "abort_rate"], &name, report);
    }
    check(system, progress, report)
}
