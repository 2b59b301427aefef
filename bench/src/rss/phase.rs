// SPDX-License-Identifier: Apache-2.0
//! One measured phase: terminals, and whoever runs beside them.

use super::analyst::{Analyst, StreamFigures};
use super::watcher::Seen;
use crate::board::{Board, Step, Worker, join};
use crate::burner::burn;
use crate::error::BenchError;
use crate::machine::{CpuWatch, thread_cpu};
use crate::options::Options;
use crate::progress::Progress;
use crate::system::System;
use crate::tpcc::{Kind, terminal_workers};
use coeval::Database;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Who runs beside the terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nobody,
    /// Streams whose transactions read the current world and are certified.
    Ssi,
    /// Streams whose transactions wait until they need not be.
    Deferrable,
    /// Streams on safe snapshots.
    Safe,
    /// Threads that only burn processor time.
    Burner,
}

impl Beside {
    /// Whether queries are answered.
    pub(super) fn has_streams(self) -> bool {
        matches!(self, Self::Ssi | Self::Deferrable | Self::Safe)
    }
}

/// Threads of a burner: as many as answer queries, each of which two processors share.
const BURNERS: usize = 2;

/// What a phase found.
pub(super) struct Phase {
    pub(super) transactions_per_s: f64,
    pub(super) abort_percent: f64,
    pub(super) streams: StreamFigures,
    pub(super) seen: Seen,
    /// Processors that everybody but the terminals used.
    pub(super) stream_cores: f64,
    /// Time that making safe worlds took, of the process's processor time.
    pub(super) making_percent: f64,
    /// Safe worlds made.
    pub(super) made: u64,
    /// Those who asked for a safe snapshot and got none.
    pub(super) fallbacks: u64,
    /// Transactions refused by the rules of serializability.
    pub(super) dangerous: u64,
    /// Those with a declared read-only transaction in the dangerous structure.
    pub(super) with_reader: u64,
}

/// Measures one phase. `share` is what a burner burns, in processors.
pub(super) fn measure(
    db: &Database,
    options: &Options,
    beside: Beside,
    share: f64,
    progress: &dyn Progress,
) -> Result<Phase, BenchError> {
    let board = Board::new(options.threads, Kind::ALL.len());
    let terminals_nanos = AtomicU64::new(0);
    let workers = terminal_workers(System::Embedded(db), options)?.into_iter();
    let workers =
        workers.map(|inner| Box::new(Metered { inner, nanos: &terminals_nanos }) as Box<dyn Worker + '_>);
    let workers: Vec<_> = workers.collect();
    let streams = Mutex::new(StreamFigures::default());
    let count = if beside.has_streams() { options.streams } else { 0 };
    let analysts = (0..count).map(|_| Analyst::new(db, beside)).collect::<Result<Vec<_>, BenchError>>()?;
    let (safe_before, conflicts_before) = (db.store().safe_snapshot_counts(), db.store().conflict_counts());
    let (cpu, started) = (CpuWatch::start(), Instant::now());
    let (measured, seen) = std::thread::scope(|scope| {
        let mut threads = board.start(scope, workers);
        for (stream, analyst) in analysts.into_iter().enumerate() {
            let (board, streams) = (&board, &streams);
            threads.push(scope.spawn(move || analyst.run(stream, board, streams)));
        }
        let burners = if beside == Beside::Burner { BURNERS } else { 0 };
        for _ in 0..burners {
            let board = &board;
            threads.push(scope.spawn(move || {
                burn(share / BURNERS as f64, board);
                Ok(())
            }));
        }
        let watcher = scope.spawn(|| Seen::watch(db, &board));
        let measured = board.conduct(options, progress, &|_| {});
        let seen = watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        join(threads).map(|()| (measured, seen))
    })?;
    let (wall, own_cores) = (started.elapsed(), cpu.usage().own);
    let terminals = Duration::from_nanos(terminals_nanos.into_inner());
    let (safe, conflicts) = (db.store().safe_snapshot_counts(), db.store().conflict_counts());
    let figures = board.figures().total();
    let through = figures.committed + figures.rolled_back + figures.conflicts;
    let seconds = measured.as_secs_f64().max(1e-9);
    let mut streams = streams.into_inner();
    streams.answered_per_h = streams.answered as f64 / seconds * 3_600.0;
    let making = safe.making.saturating_sub(safe_before.making);
    let fallbacks = |counts: coeval::SafeSnapshotCounts| counts.behind_floor + counts.while_certifying;
    Ok(Phase {
        transactions_per_s: figures.committed as f64 / seconds,
        abort_percent: 100.0 * figures.conflicts as f64 / through.max(1) as f64,
        streams,
        seen,
        stream_cores: (own_cores - terminals.as_secs_f64() / wall.as_secs_f64().max(1e-9)).max(0.0),
        making_percent: 100.0 * making.as_secs_f64() / (own_cores * wall.as_secs_f64()).max(1e-9),
        made: safe.made - safe_before.made,
        fallbacks: fallbacks(safe) - fallbacks(safe_before),
        dangerous: conflicts.dangerous - conflicts_before.dangerous,
        with_reader: conflicts.with_declared_reader - conflicts_before.with_declared_reader,
    })
}

/// A worker that adds up its thread's processor time when it ends.
struct Metered<'a, W: ?Sized> {
    nanos: &'a AtomicU64,
    inner: Box<W>,
}

impl<W: Worker + ?Sized> Worker for Metered<'_, W> {
    fn step(&mut self) -> Result<Step, BenchError> {
        self.inner.step()
    }
}

impl<W: ?Sized> Drop for Metered<'_, W> {
    fn drop(&mut self) {
        // It is dropped by the thread that it has had to itself.
        let nanos = u64::try_from(thread_cpu().as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}
