// SPDX-License-Identifier: Apache-2.0
//! Figure 9: the 22 queries of CH-benCHmark after a run of TPC-C whose versions are still in the caches.

use crate::board::Board;
use crate::chbench::{self, QUERIES};
use crate::error::BenchError;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::system::System;
use crate::tpcc::{Kind, terminal_workers};
use coeval_tique::Effort;
use std::time::Instant;

/// Tables of which the caches are to hold a share.
const CACHED: [&str; 2] = ["order_line", "stock"];

/// Loads, runs terminals for as long as the options say, then each query as often as they say.
///
/// # Errors
/// What the engine says.
pub(super) fn run(
    system: System<'_>,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let System::Foreign(foreign) = system else { unreachable!("the experiment opens a foreign engine") };
    chbench::populate(&mut *system.console()?, options, progress)?;
    let board = Board::new(options.threads, Kind::ALL.len());
    progress.begin("fill the caches", None);
    board.run(terminal_workers(system, options)?, options, progress)?;
    progress.end();
    report.count("transactions_before", board.figures().total().committed);
    let mut session = foreign.session()?;
    if foreign.database().is_some() {
        for table in CACHED {
            let cached =
                foreign.physical_number(&format!("SELECT count(DISTINCT tique_key) FROM {table}_cache"))?;
            let all = foreign.physical_number(&format!("SELECT count(*) FROM {table}_storage"))?;
            report.figure(format!("{table}_cached_share"), cached as f64 / all.max(1) as f64);
        }
    }
    let (mut sum, mut sum_of_first) = (0.0, 0.0);
    progress.begin("queries", Some(QUERIES.len() as u64));
    for (number, query) in (1..).zip(QUERIES) {
        // The first is counted apart: it reads what the run before has not, and may make what later ones keep.
        let mut times = Vec::with_capacity(options.runs);
        for run in 0..=options.runs {
            let began = Instant::now();
            let ran = session.run(query.trim_end(), Effort::Analytical);
            ran.map_err(|error| BenchError::Answer(format!("query {number}: {error}")))?;
            let time = began.elapsed().as_secs_f64() * 1e3;
            if run > 0 {
                times.push(time);
            } else {
                sum_of_first += time;
            }
        }
        let middle = median(&mut times);
        sum += middle;
        report.figure(format!("q{number:02}_ms"), middle);
        progress.advance(1);
    }
    progress.end();
    report.figure("sum_ms", sum);
    report.figure("sum_of_first_ms", sum_of_first);
    Ok(())
}
