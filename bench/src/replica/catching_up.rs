// SPDX-License-Identifier: Apache-2.0
//! How fast a replica applies what a primary has committed, compared with how fast that committed it.

use super::pair::Pair;
use super::{copy_of, tell_ratio};
use crate::board::Board;
use crate::chbench::{Stations, mix_at};
use crate::engine::open;
use crate::error::BenchError;
use crate::followed::wait_until_shown;
use crate::interval::Estimate;
use crate::options::{Api, Options};
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::system::System;
use crate::tpcc::{Kind, terminal_workers};
use coeval::{CheckpointPolicy, Database, Durability, Fed, Follower, LogFeed, Lsn};
use std::path::Path;
use std::time::{Duration, Instant};

/// A stretch of log, how long it took to write it, and how long to apply it.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    bytes: f64,
    commit: Duration,
    apply: Duration,
}

impl Stretch {
    fn apply_bytes_per_s(&self) -> f64 {
        self.bytes / self.apply.as_secs_f64().max(1e-9)
    }

    fn commit_bytes_per_s(&self) -> f64 {
        self.bytes / self.commit.as_secs_f64().max(1e-9)
    }
}

/// Over the wire: the replica halts while the primary works, and catches up while that is idle.
///
/// # Errors
/// As the workload's run.
pub(super) fn measure(
    pair: &Pair,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let options = Options { streams: 0, ..options.clone() };
    let mut stretches = Vec::new();
    for _ in 0..options.runs {
        progress.begin("terminals while the replica halts, then it catches up", None);
        let begin = pair.log_end()?;
        pair.replica_process().halt()?;
        let at = Stations {
            terminals: System::Server(pair.primary()),
            streams: System::Server(pair.primary()),
            watch: &|_| Ok(()),
        };
        let mixed = mix_at(at, &options, progress);
        let end = pair.log_end();
        pair.replica_process().go_on()?;
        let started = Instant::now();
        let (mixed, end) = (mixed?, end?);
        wait_until_shown(pair.replica(), end)?;
        let bytes = bytes_between(begin, end);
        stretches.push(Stretch { bytes, commit: mixed.lasted, apply: started.elapsed() });
        progress.end();
        if progress.is_cancelled() {
            break;
        }
    }
    tell("", &stretches, report);
    Ok(())
}

/// In this process: typed transactions whose commits wait for no disk, on as many threads as the options say, then their log
/// applied by one thread.
///
/// # Errors
/// As the workload's run.
pub(super) fn measure_typed(
    base: &Path,
    place: &Path,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let options = Options { durability: Durability::None, api: Api::Typed, streams: 0, ..options.clone() };
    let followed = copy_of(base, place, "typed-primary")?;
    let following = copy_of(base, place, "typed-replica")?;
    Database::demote(&following)?;
    let primary = open(&followed, &options, CheckpointPolicy::default())?;
    let opened = Database::options().durability(options.durability).open_replica(&following)?;
    let (_replica, mut follower) = opened;
    let term = follower.terms().last().map(|term| term.id);
    let mut feed = primary.store().log_feed(term, follower.position()).map_err(coeval::Error::from)?;
    take_up_to(log_end(&primary), &mut feed, &mut follower)?;
    let mut stretches = Vec::new();
    for _ in 0..options.runs {
        progress.begin("typed terminals without durability, then their log is applied", None);
        let begin = log_end(&primary);
        let board = Board::new(options.threads, Kind::ALL.len());
        let workers = terminal_workers(System::Embedded(&primary), &options)?;
        let started = Instant::now();
        board.run(workers, &options, progress)?;
        let commit = started.elapsed();
        let end = log_end(&primary);
        let started = Instant::now();
        take_up_to(end, &mut feed, &mut follower)?;
        let bytes = bytes_between(begin, end);
        stretches.push(Stretch { bytes, commit, apply: started.elapsed() });
        progress.end();
        if progress.is_cancelled() {
            break;
        }
    }
    tell("typed_", &stretches, report);
    Ok(())
}

/// Takes the log until the follower has it up to there, durably.
fn take_up_to(end: Lsn, feed: &mut LogFeed, follower: &mut Follower) -> Result<(), BenchError> {
    while follower.position() < end {
        match feed.next_piece().map_err(coeval::Error::from)? {
            Some(Fed::Records(records)) => {
                let taken = follower.take(&records);
                taken.map_err(|error| BenchError::Answer(format!("the log is not applied: {error}")))?;
            }
            Some(Fed::Published(version)) => follower.note_published(version),
            Some(Fed::Boundary(boundary)) => follower.note_boundary(boundary),
            Some(Fed::File(name, _)) => {
                return Err(BenchError::Answer(format!("{name} was loaded, and TPC-C loads nothing")));
            }
            None => feed.wait(Duration::from_millis(1)),
        }
    }
    follower.sync().map_err(coeval::Error::from)?;
    feed.confirm(end);
    Ok(())
}

fn log_end(db: &Database) -> Lsn {
    db.store().log_position().map(|(end, _)| end).expect("a database in a directory has a log")
}

fn bytes_between(begin: Lsn, end: Lsn) -> f64 {
    end.get().saturating_sub(begin.get()) as f64
}

fn tell(name: &str, stretches: &[Stretch], report: &mut Report) {
    let rates = |stretch: &Stretch| (stretch.apply_bytes_per_s(), stretch.commit_bytes_per_s());
    tell_ratio(&format!("{name}apply_over_commit"), Estimate::of(stretches.iter().map(rates)), report);
    let middle = |figure: fn(&Stretch) -> f64| median(&mut stretches.iter().map(figure).collect::<Vec<_>>());
    report.figure(format!("{name}apply_bytes_per_s"), middle(Stretch::apply_bytes_per_s));
    report.figure(format!("{name}commit_bytes_per_s"), middle(Stretch::commit_bytes_per_s));
    report.figure(format!("{name}log_bytes"), middle(|stretch| stretch.bytes));
}
