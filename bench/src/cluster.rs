// SPDX-License-Identifier: Apache-2.0
//! What brick tables give and cost that are spread over nodes.
//!
//! ```text
//! scans      two nodes | one node | a table of that node's own           in turn; then one process on one core, and on two
//! loads      through two nodes | one | two, two replicas | two clusters  in turn, as many clients for each node in all
//! commits    loads of one row through each of five nodes, one after the other, with nothing that waits for a disk
//! protocol   the same without SQL: nodes in this process
//! ```
//! But for the last, nodes are servers, each a process of its own on one core; clients come by PostgreSQL's protocol, and run on the
//! cores of the nodes that they ask. So "one node" has half of what "two nodes" have, for clients too; but for the disk, and for the system's
//! own threads, which find a second core idle beside one node. What that comes to two clusters of one node each show. Servers that are not measured
//! are idle: behind each measurement of loads it is waited until they are. Figures are medians over the rounds, ratios are of medians. Bars: `scan_two_nodes_ratio` 0.55 at most,
//! `distributed_over_local_ratio` 1.05 at most, `load_two_nodes_ratio` 1.7 at least, `commit_p50_ms` 2 at most.

mod commits;
mod loads;
mod messages;
mod nodes;
mod protocol;
mod scans;

use crate::engine::Place;
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Population, Workload};
use crate::pinning::Cores;
use crate::progress::Progress;
use crate::report::{Report, median};
use coeval::{Durability, Isolation};
use nodes::{Nodes, Plan};
use serde_json::json;
use std::ops::Range;
use std::path::Path;

/// Rows of a tiny population, at most.
const TINY_ROWS: u64 = 20_000;

/// Runs everything as often as the options say. Without a program to start servers of, that is the protocol alone.
///
/// # Errors
/// If the options make no sense, a server does not start, or a statement fails.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let options = &Options { isolation: Isolation::Snapshot, ..options.clone() };
    let place = Place::new(options)?;
    let stage = options.server_program.as_deref().map(|program| Stage::new(program, place.path(), options));
    let stage = stage.transpose()?;
    let sync = measure_sync(place.path())?;
    let rows = stage.as_ref().map_or(options.rows, Stage::rows);
    let mut report = Report::new(Workload::Cluster, options, rows);
    let cpu = CpuWatch::with_children();
    if let Some(stage) = &stage {
        report.name_servers();
        scans::measure(stage, progress, &mut report)?;
        loads::measure(stage, progress, &mut report)?;
        commits::measure(stage, progress, &mut report)?;
    } else {
        report.note("servers", "none, as the program is not known that they would be of");
    }
    protocol::measure(options, progress, &mut report)?;
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

/// Where servers are started, and how.
struct Stage<'a> {
    program: &'a Path,
    place: &'a Path,
    options: &'a Options,
    /// Each node has one of them.
    cores: Cores,
}

impl<'a> Stage<'a> {
    fn new(program: &'a Path, place: &'a Path, options: &'a Options) -> Result<Self, BenchError> {
        let refused = |message: &str| Err(BenchError::Options(message.to_owned()));
        let cores = Cores::allowed()?;
        if cores.count() < 2 {
            return refused(
                "cluster compares two nodes with one, each on a core of its own, and there is one core",
            );
        }
        if options.rows == 0 {
            return refused("cluster needs at least one row");
        }
        Ok(Self { program, place, options, cores })
    }

    /// How many rows are scanned.
    fn rows(&self) -> u64 {
        self.of_population(self.options.rows, TINY_ROWS)
    }

    /// The usual number, or that of a run whose figures mean nothing.
    fn of_population(&self, full: u64, tiny: u64) -> u64 {
        match self.options.population {
            Population::Full => full,
            Population::Tiny => full.min(tiny),
        }
    }

    fn rounds(&self) -> usize {
        self.options.runs.max(1)
    }

    /// Starts a cluster of nodes, each on the core at its place, as far as there are so many.
    fn nodes(
        &self,
        name: &str,
        places: Range<usize>,
        replicas: usize,
        durability: Durability,
    ) -> Result<Nodes, BenchError> {
        let cores: Vec<Cores> = places.map(|place| self.cores.one(place)).collect();
        Nodes::start(&Plan {
            program: self.program,
            place: self.place,
            name,
            replicas,
            durability,
            cores: &cores,
        })
    }
}

/// Which of several ways come first, second and so on in a round, so that none is always behind the same one.
fn order(round: usize, count: usize) -> impl Iterator<Item = usize> {
    let (is_forward, last) = (round.is_multiple_of(2), count - 1);
    (0..count).map(move |place| if is_forward { place } else { last - place })
}

/// Adds the median of the rounds, and each of them, to four digits behind the point or the whole number. The unit is the last word of
/// the name. Gives the median.
fn tell(name: &str, rounds: &[f64], report: &mut Report) -> f64 {
    let middle = median(&mut rounds.to_vec());
    report.figure(name, middle);
    let short = |value: &f64| if *value >= 100.0 { value.round() } else { (value * 1e4).round() / 1e4 };
    report.note(format!("{name}_by_round"), json!(rounds.iter().map(short).collect::<Vec<_>>()));
    middle
}

/// A part of a whole; 0 of nothing.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_come_in_both_orders() {
        assert_eq!(order(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order(1, 3).collect::<Vec<_>>(), [2, 1, 0]);
    }

    #[test]
    fn the_median_is_told_with_its_rounds() {
        let mut report = Report::new(Workload::Cluster, &Options::default(), 1);
        assert_eq!(tell("scan_ms", &[3.0, 1.0, 200.4], &mut report), 3.0);
        assert_eq!(report.value("scan_ms"), Some(3.0));
        let noted = report.figures().find(|(name, _)| *name == "scan_ms_by_round").unwrap().1;
        assert_eq!(*noted, json!([3.0, 1.0, 200.0]));
        assert_eq!((ratio(1.0, 2.0), ratio(1.0, 0.0)), (0.5, 0.0));
    }
}
