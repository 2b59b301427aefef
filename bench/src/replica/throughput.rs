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
use crate::machine::process_cpu;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::safe_age::safe_age;
use crate::system::System;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

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
    /// Processor time of the primary and of the replica, for each transaction.
    us_per_transaction: [f64; 2],
}

/// What is seen beside a phase.
#[derive(Default)]
struct Seen {
    ages: Histogram,
    /// Processors that the primary and the replica used, while the clock ran.
    cores: [f64; 2],
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
    let seen = Mutex::new(Seen::default());
    let watch = |board: &Board| {
        *seen.lock() = look(pair, board)?;
        Ok(())
    };
    let at = Stations {
        terminals: System::Server(pair.primary()),
        streams: System::Server(pair.replica()),
        watch: &watch,
    };
    let mixed = mix_at(at, &options, progress)?;
    progress.end();
    pair.wait_until_caught_up()?;
    Ok(Phase::of(&mixed, seen.into_inner()))
}

/// Looks how old the replica's safe snapshot is, and what both servers use of the processors. On both kinds, so that looking costs
/// both as much; ages count where safe snapshots are made.
fn look(pair: &Pair, board: &Board) -> Result<Seen, BenchError> {
    let connection = pair.replica().connect()?;
    let used = || (Instant::now(), pair.processes().map(process_cpu));
    let (mut seen, mut begun) = (Seen::default(), None);
    while !board.is_stopped() {
        std::thread::sleep(LOOK);
        let age = safe_age(&connection)?;
        if board.is_measuring() {
            begun.get_or_insert_with(used);
            if pair.kind() == Kind::Rss {
                seen.ages.record_duration(age);
            }
        }
    }
    if let Some((since, before)) = begun {
        let (now, after) = used();
        let seconds = (now - since).as_secs_f64().max(1e-9);
        let cores = |place: usize| after[place].saturating_sub(before[place]).as_secs_f64() / seconds;
        seen.cores = [0, 1].map(cores);
    }
    Ok(seen)
}

impl Phase {
    fn of(mixed: &Mixed, seen: Seen) -> Self {
        let total = mixed.terminals.total();
        let attempts = total.committed + total.rolled_back + total.conflicts;
        let mean = |turns: &Turns| {
            (turns.count > 0).then(|| turns.took.as_secs_f64() * 1e3 / f64::from(turns.count))
        };
        let transactions_per_s = total.committed as f64 / mixed.measured.as_secs_f64().max(1e-9);
        Self {
            transactions_per_s,
            abort_rate: total.conflicts as f64 / attempts.max(1) as f64,
            queries_per_h: mixed.streams.answered_per_h(mixed.measured),
            query_ms: mixed.streams.turns.iter().map(mean).collect(),
            answered: mixed.streams.answered,
            refused: mixed.streams.aborts,
            ages: seen.ages,
            us_per_transaction: seen.cores.map(|cores| cores * 1e6 / transactions_per_s.max(1e-9)),
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
    tell_processors(all, report);
    tell_ages(all, report);
}

/// What both servers use of the processors for a transaction: hardly touched by who else has them. A replica that answers queries uses
/// them for those, so its figures are those beside the terminals alone.
fn tell_processors(all: &[Series], report: &mut Report) {
    let rounds = || all.iter().flat_map(|series| &series.rounds);
    let alone = || all.iter().filter(|series| series.streams == 0).flat_map(|series| &series.rounds);
    let ratio = |server: usize| {
        move |[rss, si]: &[Phase; 2]| (rss.us_per_transaction[server], si.us_per_transaction[server])
    };
    tell_ratio("primary_cpu_rss_over_si", Estimate::of(rounds().map(ratio(0))), report);
    tell_ratio("replica_cpu_rss_over_si", Estimate::of(alone().map(ratio(1))), report);
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        for (server, name) in ["primary", "replica"].into_iter().enumerate() {
            let mut times: Vec<f64> =
                alone().map(|phases| phases[place].us_per_transaction[server]).collect();
            report.figure(format!("{}_{name}_us_per_transaction", kind.name()), median(&mut times));
        }
    }
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
            us_per_transaction: [1.0; 2],
        };
        let phases = [phase([Some(2.0), None, Some(5.0)]), phase([Some(3.0), Some(9.0), Some(4.0)])];
        assert_eq!(query_times(&phases), (7.0, 7.0));
    }
}
