// SPDX-License-Identifier: Apache-2.0
//! Commits that wait until the replica has them durably, beside commits that do not.

use super::pair::Pair;
use super::tell_ratio;
use crate::chbench::{Stations, mix_at};
use crate::error::BenchError;
use crate::interval::Estimate;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::system::{Console, System};

/// So many terminals that one log record, and one way to the replica and back, is for several of them.
const TERMINALS: usize = 24;

/// Whom commits wait for.
const WAYS: [(&str, &str); 2] = [("local", ""), ("synced", "ANY 1 (*)")];

/// Measures both ways in turn, round by round.
///
/// # Errors
/// As the workload's run; commits wait for nobody any more then.
pub(super) fn measure(
    pair: &Pair,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let options = Options { threads: TERMINALS, streams: 0, ..options.clone() };
    let mut found: [Vec<f64>; 2] = Default::default();
    for round in 0..options.runs {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for way in order {
            let per_s = phase(pair, way, &options, progress);
            // Nobody waits for a replica that may be gone.
            wait_for(pair, WAYS[0].1)?;
            found[way].push(per_s?);
        }
        if progress.is_cancelled() {
            break;
        }
    }
    let [local, synced] = &mut found;
    let pairs = synced.iter().copied().zip(local.iter().copied());
    tell_ratio("synced_over_local", Estimate::of(pairs), report);
    report.count("synced_terminals", TERMINALS as u64);
    report.figure("synced_transactions_per_s", median(synced));
    report.figure("local_transactions_per_s", median(local));
    Ok(())
}

fn phase(pair: &Pair, way: usize, options: &Options, progress: &dyn Progress) -> Result<f64, BenchError> {
    let (name, standbys) = WAYS[way];
    progress.begin(&format!("{name} commits of {TERMINALS} terminals"), None);
    wait_for(pair, standbys)?;
    let at = Stations {
        terminals: System::Server(pair.primary()),
        streams: System::Server(pair.replica()),
        watch: &|_| Ok(()),
    };
    let mixed = mix_at(at, options, progress)?;
    progress.end();
    pair.wait_until_caught_up()?;
    Ok(mixed.terminals.total().committed as f64 / mixed.measured.as_secs_f64().max(1e-9))
}

fn wait_for(pair: &Pair, standbys: &str) -> Result<(), BenchError> {
    pair.primary().connect()?.execute(&format!("SET synchronous_standby_names = '{standbys}'"))
}
