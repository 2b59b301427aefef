// SPDX-License-Identifier: Apache-2.0
//! TPC-C on a foreign engine again and again: with more clients, fewer warehouses, or streams of queries beside it.

use crate::board::Board;
use crate::chbench;
use crate::error::BenchError;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::Report;
use crate::system::System;
use crate::tpcc::{Kind, check_all, populate_system, terminal_workers};

/// Figure 7's horizontal axis.
const CLIENTS: [usize; 5] = [1, 2, 4, 8, 16];
/// Figures 10 and 11: terminals and streams.
const HYBRID: [(usize, usize); 7] = [(2, 0), (2, 1), (2, 2), (1, 1), (4, 1), (4, 2), (4, 4)];

/// One run of terminals; adds its throughput and abort rate under `name`.
fn terminals(
    system: System<'_>,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
    name: &str,
) -> Result<(), BenchError> {
    let board = Board::new(options.threads, Kind::ALL.len());
    let workers = terminal_workers(system, options)?;
    progress.begin(name, None);
    let measured = board.run(workers, options, progress)?;
    progress.end();
    let total = board.figures().total();
    let through = total.committed + total.rolled_back;
    report.figure(format!("transactions_per_s_{name}"), total.committed as f64 / measured.as_secs_f64());
    report.figure(
        format!("abort_rate_{name}"),
        total.conflicts as f64 / (through + total.conflicts).max(1) as f64,
    );
    report.figure(format!("latency_p50_ms_{name}"), total.latency.percentile_ms(50.0));
    report.figure(format!("latency_p99_ms_{name}"), total.latency.percentile_ms(99.0));
    Ok(())
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
    populate_system(&mut *system.console()?, options, progress)?;
    for clients in CLIENTS {
        let options = Options { threads: clients, ..options.clone() };
        terminals(system, &options, progress, report, &format!("{clients}_clients"))?;
    }
    check(system, progress, report)
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
    populate_system(&mut *system.console()?, options, progress)?;
    let mut hot = i32::try_from(options.warehouses).unwrap_or(i32::MAX);
    while hot > 0 {
        let options = Options { hot_warehouses: hot, ..options.clone() };
        terminals(system, &options, progress, report, &format!("{hot}_warehouses"))?;
        hot /= 2;
    }
    check(system, progress, report)
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
        for figure in ["transactions_per_s", "queries_per_h", "abort_rate"] {
            report.figure(format!("{figure}_{name}"), mixed.value(figure).unwrap_or(0.0));
        }
    }
    check(system, progress, report)
}
