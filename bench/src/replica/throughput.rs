// SPDX-License-Identifier: Apache-2.0
//! Figures 8 to 10: transactions on the primary, queries on the replica, and what is refused, by the number of streams.
//!
//! A stream asks one query behind the other, so how many it is through with in some seconds depends on which these were.
//! Pairs are compared by the mean time of each query, BEGIN and COMMIT included, added up over those that both answered: that is
//! the ratio of what streams get through with that ask all of them equally often.

use super::pair::{Kind, Pair};
use super::tell_ratio;
use crate::board::Board;
use crate::chbench::{Mixed, Stations, Turns, mix_at};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::interval::Estimate;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::safe_age::safe_age;
use crate::system::System;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;

/// How often it is looked how old the replica's safe snapshot is.
const LOOK: Duration = Duration::from_millis(20);

/// What one phase found.
struct Phase {
    transactions_per_s: f64,
    abort_rate: f64,
    queries_per_h: f64,
    /// The mean time of each query in milliseconds, if it was answered.
    query_ms: Vec<Option<f64>>,
    answered: u64,
    refused: u64,
    ages: Histogram,
}

/// The phases of both kinds with as many streams, by rounds.
struct Series {
    streams: usize,
    rounds: Vec<[Phase; 2]>,
}

/// No streams, one, and twice as many until there are as many as the options say.
fn stream_counts(most: usize) -> Vec<usize> {
    let doubling = std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count < most);
    std::iter::once(0).chain(doubling).chain([most]).collect()
}

/// Measures all counts of streams, round by round, on both pairs in turn.
///
/// # Errors
/// As the workload's run.
pub(super) fn measure(
    pairs: &[Pair; 2],
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let counts = stream_counts(options.streams).into_iter();
    let mut all: Vec<Series> = counts.map(|streams| Series { streams, rounds: Vec::new() }).collect();
    'rounds: for round in 0..options.runs {
        for (place, series) in all.iter_mut().enumerate() {
            let rss_first = (round + place) % 2 == 0;
            let order = if rss_first { [0, 1] } else { [1, 0] };
            let mut phases = [None, None];
            for pair in order {
                phases[pair] = Some(phase(&pairs[pair], series.streams, options, progress)?);
                if progress.is_cancelled() {
                    break 'rounds;
                }
            }
            series.rounds.push(phases.map(|phase| phase.expect("both pairs were measured")));
        }
    }
    tell(&all, report);
    Ok(())
}

fn phase(
    pair: &Pair,
    streams: usize,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Phase, BenchError> {
    progress.begin(&format!("{}, {streams} streams on the replica", pair.kind().name()), None);
    let options = Options { streams, readers: pair.kind().readers(), ..options.clone() };
    let ages = Mutex::new(Histogram::default());
    let watch = |board: &Board| watch_ages(pair, board, &ages);
    let at = Stations {
        terminals: System::Server(pair.primary()),
        streams: System::Server(pair.replica()),
        watch: &watch,
    };
    let mixed = mix_at(at, &options, progress)?;
    progress.end();
    pair.wait_until_caught_up()?;
    Ok(Phase::of(&mixed, ages.into_inner()))
}

/// On both kinds, so that looking costs both as much; what it finds counts where safe snapshots are made.
fn watch_ages(pair: &Pair, board: &Board, ages: &Mutex<Histogram>) -> Result<(), BenchError> {
    let connection = pair.replica().connect()?;
    while !board.is_stopped() {
        std::thread::sleep(LOOK);
        let age = safe_age(&connection)?;
        if board.is_measuring() && pair.kind() == Kind::Rss {
            ages.lock().record_duration(age);
        }
    }
    Ok(())
}

impl Phase {
    fn of(mixed: &Mixed, ages: Histogram) -> Self {
        let total = mixed.terminals.total();
        let attempts = total.committed + total.rolled_back + total.conflicts;
        let mean = |turns: &Turns| {
            (turns.count > 0).then(|| turns.took.as_secs_f64() * 1e3 / f64::from(turns.count))
        };
        Self {
            transactions_per_s: total.committed as f64 / mixed.measured.as_secs_f64().max(1e-9),
            abort_rate: total.conflicts as f64 / attempts.max(1) as f64,
            queries_per_h: mixed.streams.answered_per_h(mixed.measured),
            query_ms: mixed.streams.turns.iter().map(mean).collect(),
            answered: mixed.streams.answered,
            refused: mixed.streams.aborts,
            ages,
        }
    }
}

/// How long the queries took that both phases answered, of each of them.
fn query_times([rss, si]: &[Phase; 2]) -> (f64, f64) {
    let both = rss.query_ms.iter().zip(&si.query_ms).filter_map(|(rss, si)| rss.zip(*si));
    both.fold((0.0, 0.0), |(all_rss, all_si), (rss, si)| (all_rss + rss, all_si + si))
}

fn tell(all: &[Series], report: &mut Report) {
    let rounds = || all.iter().flat_map(|series| &series.rounds);
    let transactions = |[rss, si]: &[Phase; 2]| (rss.transactions_per_s, si.transactions_per_s);
    let queries = |phases: &[Phase; 2]| {
        let (rss, si) = query_times(phases);
        (si, rss)
    };
    tell_ratio("primary_rss_over_si", Estimate::of(rounds().map(transactions)), report);
    tell_ratio("replica_rss_over_si", Estimate::of(rounds().map(queries)), report);
    report.note("streams", all.iter().map(|series| series.streams).collect::<Vec<_>>());
    tell_ratios("primary_rss_over_si_by_streams", all, transactions, report);
    tell_ratios("replica_rss_over_si_by_streams", all, queries, report);
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        let name = kind.name();
        let by_streams = |figure: fn(&Phase) -> f64| -> Value {
            let one = |series: &Series| middle(&series.rounds, place, figure);
            json!(all.iter().map(one).collect::<Vec<_>>())
        };
        report.note(
            format!("{name}_transactions_per_s_by_streams"),
            by_streams(|phase| phase.transactions_per_s),
        );
        report.note(format!("{name}_abort_rate_by_streams"), by_streams(|phase| phase.abort_rate));
        report.note(format!("{name}_queries_per_h_by_streams"), by_streams(|phase| phase.queries_per_h));
        let phases = || rounds().map(move |phases| &phases[place]);
        let mut rates: Vec<f64> = phases().map(|phase| phase.abort_rate).collect();
        report.figure(format!("{name}_primary_abort_rate"), median(&mut rates));
        report.count(format!("{name}_replica_queries"), phases().map(|phase| phase.answered).sum());
        report.check(format!("{name}_replica_aborts"), phases().map(|phase| phase.refused).sum());
    }
    tell_ages(all, report);
}

/// Of safe snapshots beside the terminals alone, and beside queries.
fn tell_ages(all: &[Series], report: &mut Report) {
    let (mut alone, mut beside) = (Histogram::default(), Histogram::default());
    for series in all {
        let ages = if series.streams == 0 { &mut alone } else { &mut beside };
        series.rounds.iter().for_each(|[rss, _]| ages.merge(&rss.ages));
    }
    for (name, ages) in [("safe_age", &alone), ("safe_age_beside_streams", &beside)] {
        report.figure(format!("{name}_p50_ms"), ages.percentile_ms(50.0));
        report.figure(format!("{name}_p99_ms"), ages.percentile_ms(99.0));
        report.figure(format!("{name}_max_ms"), ages.max() as f64 / 1e6);
        report.count(format!("{name}_looks"), ages.count());
    }
}

/// One ratio for each count of streams, to a thousandth; none where nothing was answered.
fn tell_ratios(name: &str, all: &[Series], pair: impl Fn(&[Phase; 2]) -> (f64, f64), report: &mut Report) {
    let ratio = |series: &Series| {
        let estimate = Estimate::of(series.rounds.iter().map(&pair));
        (estimate.mean > 0.0).then(|| (estimate.mean * 1e3).round() / 1e3)
    };
    report.note(name, json!(all.iter().map(ratio).collect::<Vec<_>>()));
}

/// The middle one of the rounds, to four digits behind the point or the whole number: what lies behind is noise.
fn middle(rounds: &[[Phase; 2]], place: usize, figure: fn(&Phase) -> f64) -> f64 {
    let value = median(&mut rounds.iter().map(|phases| figure(&phases[place])).collect::<Vec<_>>());
    if value >= 100.0 { value.round() } else { (value * 1e4).round() / 1e4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_double_up_to_as_many_as_asked_for() {
        assert_eq!(stream_counts(1), [0, 1]);
        assert_eq!(stream_counts(4), [0, 1, 2, 4]);
        assert_eq!(stream_counts(6), [0, 1, 2, 4, 6]);
    }

    #[test]
    fn only_queries_that_both_answered_are_compared() {
        let phase = |query_ms: [Option<f64>; 3]| Phase {
            transactions_per_s: 1.0,
            abort_rate: 0.0,
            queries_per_h: 1.0,
            query_ms: query_ms.to_vec(),
            answered: 1,
            refused: 0,
            ages: Histogram::default(),
        };
        let phases = [phase([Some(2.0), None, Some(5.0)]), phase([Some(3.0), Some(9.0), Some(4.0)])];
        assert_eq!(query_times(&phases), (7.0, 7.0));
    }
}
