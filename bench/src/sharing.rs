// SPDX-License-Identifier: Apache-2.0
//! How processors are shared: TPC-C's terminals and streams of CH-benCHmark's queries by themselves, beside each other, and beside
//! threads that burn processor time.
//!
//! ```text
//! each round     terminals | a stream | terminals and a stream | terminals and all streams
//!                terminals beside burners | a stream beside eight burners
//! ```
//!
//! Of the burners beside terminals there are as many as an engine has threads for queries. What queries take is compared by those that
//! both sides have answered, each stream by itself: a stream that gets more than its share does not make up for one that gets less.

use crate::board::Board;
use crate::burner::burn;
use crate::chbench::{Mixed, Stations, Turns, mix_at, populate};
use crate::error::BenchError;
use crate::machine::measure_sync;
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::Report;
use crate::system::{System, with_system};
use crate::tpcc::check_all;
use coeval::CheckpointPolicy;
use serde_json::json;

/// Burners beside the stream that has no terminals beside it.
const CROWD: usize = 8;

/// Who works at the same time.
struct Company {
    name: &'static str,
    terminals: usize,
    streams: usize,
    burners: usize,
}

/// The phases of a round, where there are so many processors.
fn companies(options: &Options, processors: usize) -> [Company; 6] {
    let (terminals, all) = (options.threads, options.streams.max(2));
    let company = |name, terminals, streams, burners| Company { name, terminals, streams, burners };
    [
        company("terminals", terminals, 0, 0),
        company("one", 0, 1, 0),
        company("one_beside", terminals, 1, 0),
        company("all_beside", terminals, all, 0),
        company("burnt", terminals, 0, processors),
        company("crowded", 0, 1, CROWD),
    ]
}

/// What was done in a phase, in all rounds.
#[derive(Default)]
struct Done {
    transactions: u64,
    queries: u64,
    seconds: f64,
    /// Of each stream, how long its queries took.
    streams: Vec<Vec<Turns>>,
}

impl Done {
    fn add(&mut self, mixed: &Mixed) {
        self.transactions += mixed.terminals.total().committed;
        self.queries += mixed.streams.answered;
        self.seconds += mixed.measured.as_secs_f64();
        let new = &mixed.streams.turns_by_stream;
        self.streams.resize_with(new.len(), Vec::new);
        for (sum, stream) in self.streams.iter_mut().zip(new) {
            sum.resize(stream.len(), Turns::default());
            for (sum, turns) in sum.iter_mut().zip(stream) {
                sum.count += turns.count;
                sum.took += turns.took;
            }
        }
    }

    fn transactions_per_s(&self) -> f64 {
        self.transactions as f64 / self.seconds.max(1e-9)
    }
}

/// Runs all phases as often as the options say, each for their time; the order alternates.
///
/// # Errors
/// If the database refuses something; conflicts of transactions are counted and tried again.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    if options.threads == 0 {
        return Err(BenchError::Options("sharing needs at least one terminal".to_owned()));
    }
    with_system(options, CheckpointPolicy::default(), |system, directory| {
        populate(&mut *system.console()?, options, progress)?;
        let sync = measure_sync(directory)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let companies = companies(options, processors);
        let mut phases: [Done; 6] = Default::default();
        let cpu = system.watch_cpu(options);
        for round in 0..options.runs.max(1) {
            let mut order: Vec<usize> = (0..companies.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for place in order {
                let company = &companies[place];
                progress.begin(company.name, None);
                phases[place].add(&measure(system, options, company, progress)?);
                progress.end();
            }
        }
        let usage = cpu.usage();
        let mut report = Report::new(Workload::Sharing, options, options.warehouses);
        report.name_system(system);
        report.name_statements(system, options);
        report.count("streams", options.streams.max(2) as u64);
        report.count("rounds", options.runs.max(1) as u64);
        report.count("processors", processors as u64);
        companies.iter().zip(&phases).for_each(|(company, done)| tell(company, done, &mut report));
        compare(&phases, processors, &mut report);
        report.cpu(usage);
        report.environment(usage.foreign, sync);
        progress.begin("check TPC-C's consistency conditions", None);
        check_all(&mut *system.console()?, &mut report)?;
        progress.end();
        Ok(report)
    })
}

fn measure(
    system: System<'_>,
    options: &Options,
    company: &Company,
    progress: &dyn Progress,
) -> Result<Mixed, BenchError> {
    let options = Options { threads: company.terminals, streams: company.streams, ..options.clone() };
    let burners = |board: &Board| -> Result<(), BenchError> {
        std::thread::scope(|scope| {
            for _ in 0..company.burners {
                scope.spawn(|| burn(1.0, board));
            }
        });
        Ok(())
    };
    mix_at(Stations { terminals: system, streams: system, watch: &burners }, &options, progress)
}

/// What a phase did by itself.
fn tell(company: &Company, done: &Done, report: &mut Report) {
    let name = company.name;
    if company.terminals > 0 {
        report.figure(format!("{name}_transactions_per_s"), done.transactions_per_s());
    }
    if company.streams > 0 {
        report.count(format!("{name}_queries"), done.queries);
        let per_h = done.queries as f64 / done.seconds.max(1e-9) * 3_600.0;
        report.figure(format!("{name}_queries_per_h"), per_h);
    }
}

/// What the phases are to each other.
fn compare(
    [_, one, one_beside, all_beside, burnt, crowded]: &[Done; 6],
    processors: usize,
    report: &mut Report,
) {
    for (name, done) in [("one_beside", one_beside), ("all_beside", all_beside)] {
        let ratio = done.transactions_per_s() / burnt.transactions_per_s().max(1e-9);
        report.figure(format!("{name}_over_burnt_transactions_ratio"), ratio);
    }
    tell_times("one_beside_over_one", one_beside, one, report);
    tell_times("all_beside_over_one_beside", all_beside, one_beside, report);
    tell_times("all_beside_over_one", all_beside, one, report);
    tell_times("crowded_over_one", crowded, one, report);
    // As many threads for queries as processors, beside the others.
    report.figure("crowded_fair_ratio", (processors + CROWD) as f64 / processors as f64);
}

/// How much longer queries took in each stream than in another phase's only one, and in the slowest of them.
fn tell_times(name: &str, done: &Done, by: &Done, report: &mut Report) {
    let Some(by) = by.streams.first() else { return };
    let ratios: Vec<Option<f64>> = done.streams.iter().map(|stream| times_ratio(stream, by)).collect();
    let slowest = ratios.iter().flatten().copied().reduce(f64::max);
    if let Some(slowest) = slowest {
        report.figure(format!("{name}_slowest_ratio"), slowest);
    }
    let thousandths = |ratio: f64| (ratio * 1e3).round() / 1e3;
    let ratios: Vec<_> = ratios.into_iter().map(|ratio| ratio.map(thousandths)).collect();
    report.note(format!("{name}_ratio_by_stream"), json!(ratios));
}

/// The mean times of the queries that both have answered, added up: the ratio of the first to the second; `None` if there are no
/// such queries.
fn times_ratio(stream: &[Turns], by: &[Turns]) -> Option<f64> {
    let mean = |turns: &Turns| (turns.count > 0).then(|| turns.took.as_secs_f64() / f64::from(turns.count));
    let both = stream.iter().zip(by).filter_map(|(stream, by)| mean(stream).zip(mean(by)));
    let (own, others) = both.fold((0.0, 0.0), |(own, others), (stream, by)| (own + stream, others + by));
    (others > 0.0).then(|| own / others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn turns(count: u32, millis: u64) -> Turns {
        Turns { count, took: Duration::from_millis(millis) }
    }

    #[test]
    fn times_are_compared_by_queries_that_both_have_answered() {
        let one = [turns(2, 200), turns(1, 50), turns(0, 0)];
        let beside = [turns(1, 220), turns(0, 0), turns(3, 900)];
        assert!((times_ratio(&beside, &one).unwrap() - 2.2).abs() < 1e-9);
        assert_eq!(times_ratio(&[turns(0, 0)], &[turns(1, 1)]), None);
    }

    #[test]
    fn the_slowest_stream_is_told_beside_the_ratios_of_all() {
        let by = Done { streams: vec![vec![turns(1, 100)]], ..Done::default() };
        let streams = vec![vec![turns(1, 150)], vec![turns(2, 500)], vec![turns(0, 0)]];
        let done = Done { streams, ..Done::default() };
        let mut report = Report::new(Workload::Sharing, &Options::default(), 1);
        tell_times("x", &done, &by, &mut report);
        assert_eq!(report.value("x_slowest_ratio"), Some(2.5));
        let (_, all) = report.figures().find(|(name, _)| *name == "x_ratio_by_stream").unwrap();
        assert_eq!(*all, json!([1.5, 2.5, null]));
    }
}
