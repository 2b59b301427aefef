// SPDX-License-Identifier: Apache-2.0
//! What the threads of a workload have done so far, and whether they go on: shared between them and whoever
//! conducts the run.

use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::options::Options;
use crate::progress::{Progress, Sample};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How often the conductor looks at the board.
const TICK: Duration = Duration::from_millis(250);

/// The share of the measured time that is spent warming up before.
const WARM_UP_SHARE: f64 = 0.1;

/// How a transaction ended, once it was through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Committed and acknowledged.
    Committed,
    /// Rolled back because the workload asks for it.
    RolledBack,
}

/// One transaction, run until it committed or was meant to roll back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Which of the workload's kinds of transaction it was.
    pub(crate) kind: usize,
    pub(crate) outcome: Outcome,
    /// Attempts that lost certification before.
    pub(crate) conflicts: u64,
}

/// What one thread of a workload does, transaction by transaction.
pub(crate) trait Worker: Send {
    /// Runs the next transaction, again after each conflict.
    fn step(&mut self) -> Result<Step, BenchError>;
}

/// What was done of one kind of transaction during the measured time.
#[derive(Clone, Default)]
pub(crate) struct KindFigures {
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) conflicts: u64,
    /// From the first attempt to the acknowledged commit, nanoseconds.
    pub(crate) latency: Histogram,
}

impl KindFigures {
    fn merge(&mut self, other: &Self) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
        self.latency.merge(&other.latency);
    }
}

/// What was done of all kinds.
#[derive(Clone)]
pub(crate) struct Figures {
    pub(crate) kinds: Vec<KindFigures>,
    /// Latencies since the conductor last looked.
    recent: Histogram,
}

impl Figures {
    fn new(kinds: usize) -> Self {
        Self { kinds: vec![KindFigures::default(); kinds], recent: Histogram::default() }
    }

    fn merge(&mut self, other: &Self) {
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(kind, other)| kind.merge(other));
    }

    fn record(&mut self, step: Step, latency: Duration) {
        let figures = &mut self.kinds[step.kind];
        figures.conflicts += step.conflicts;
        match step.outcome {
            Outcome::Committed => {
                figures.committed += 1;
                figures.latency.record_duration(latency);
                self.recent.record_duration(latency);
            }
            Outcome::RolledBack => figures.rolled_back += 1,
        }
    }

    /// All kinds together.
    pub(crate) fn total(&self) -> KindFigures {
        let mut total = KindFigures::default();
        self.kinds.iter().for_each(|kind| total.merge(kind));
        total
    }

    fn sum(&self, count: impl Fn(&KindFigures) -> u64) -> u64 {
        self.kinds.iter().map(count).sum()
    }
}

/// How long the options ask to measure.
fn measured_time(options: &Options) -> Duration {
    Duration::from_secs_f64(options.seconds)
}

/// A thread that works until the board says stop.
pub(crate) type WorkerThread<'scope> = ScopedJoinHandle<'scope, Result<(), BenchError>>;

/// Waits for threads to end; the first error counts.
pub(crate) fn join(threads: Vec<WorkerThread<'_>>) -> Result<(), BenchError> {
    let ends: Vec<Result<(), BenchError>> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect();
    ends.into_iter().collect()
}

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const STOPPED: u8 = 2;

/// Shared by workers, query streams and the conductor.
///
/// # Locking
/// Each worker's figures have their own lock, taken by that worker for a moment after each transaction and by the
/// conductor a few times a second. No thread holds two of them.
pub(crate) struct Board {
    phase: AtomicU8,
    kinds: usize,
    workers: Vec<Mutex<Figures>>,
}

impl Board {
    /// A board for so many threads that run so many kinds of transaction.
    pub(crate) fn new(workers: usize, kinds: usize) -> Self {
        let workers = (0..workers).map(|_| Mutex::new(Figures::new(kinds))).collect();
        Self { phase: AtomicU8::new(WARMING_UP), kinds, workers }
    }

    /// Whether everybody should stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == STOPPED
    }

    /// Whether what ends now counts.
    pub(crate) fn is_measuring(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == MEASURING
    }

    /// Makes everybody stop after what they are doing.
    pub(crate) fn stop(&self) {
        self.phase.store(STOPPED, Ordering::Relaxed);
    }

    /// Starts a thread for each worker. They work until the board says stop; what is acknowledged while the board
    /// measures counts.
    ///
    /// # Panics
    /// If the board was made for fewer workers.
    pub(crate) fn start<'scope, 'env, 'w>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        workers: Vec<Box<dyn Worker + 'w>>,
    ) -> Vec<WorkerThread<'scope>>
    where
        'w: 'scope,
    {
        assert!(workers.len() <= self.workers.len(), "every worker has its figures");
        let places = self.workers.iter();
        places.zip(workers).map(|(figures, worker)| scope.spawn(move || self.work(figures, worker))).collect()
    }

    fn work(&self, figures: &Mutex<Figures>, mut worker: Box<dyn Worker + '_>) -> Result<(), BenchError> {
        while !self.is_stopped() {
            let started = Instant::now();
            let step = worker.step().inspect_err(|_| self.stop())?;
            if self.is_measuring() {
                figures.lock().record(step, started.elapsed());
            }
        }
        Ok(())
    }

    /// Notes what somebody did who is no thread of the board's, if it counts now, among the figures at this place.
    ///
    /// # Panics
    /// If the board was made for fewer workers.
    pub(crate) fn record(&self, place: usize, step: Step, latency: Duration) {
        if self.is_measuring() {
            self.workers[place].lock().record(step, latency);
        }
    }

    /// Runs these workers alone: warms up, measures, stops them. Returns how long was measured.
    pub(crate) fn run(
        &self,
        workers: Vec<Box<dyn Worker + '_>>,
        options: &Options,
        progress: &dyn Progress,
    ) -> Result<Duration, BenchError> {
        std::thread::scope(|scope| {
            let threads = self.start(scope, workers);
            let measured = self.conduct(options, progress, &|_| {});
            join(threads).map(|()| measured)
        })
    }

    /// Lets everybody warm up, then measures, then stops everybody. Returns how long was measured: less than asked if
    /// `progress` cancels. `enrich` adds what others than the workers did to a sample.
    pub(crate) fn conduct(
        &self,
        options: &Options,
        progress: &dyn Progress,
        enrich: &dyn Fn(&mut Sample),
    ) -> Duration {
        let measured = measured_time(options);
        let warm_up = measured.mul_f64(WARM_UP_SHARE);
        self.wait(warm_up, progress);
        if self.is_stopped() {
            return Duration::ZERO;
        }
        self.phase.store(MEASURING, Ordering::Relaxed);
        let started = Instant::now();
        let mut before = (Duration::ZERO, 0);
        while started.elapsed() < measured && !self.is_stopped() && !progress.is_cancelled() {
            std::thread::sleep(TICK.min(measured.saturating_sub(started.elapsed())));
            let mut sample = self.sample(started.elapsed(), before);
            sample.total = measured;
            before = (sample.elapsed, sample.committed);
            enrich(&mut sample);
            progress.sample(&sample);
        }
        let elapsed = started.elapsed();
        self.stop();
        elapsed
    }

    fn wait(&self, time: Duration, progress: &dyn Progress) {
        let started = Instant::now();
        while started.elapsed() < time && !self.is_stopped() && !progress.is_cancelled() {
            std::thread::sleep(TICK.min(time.saturating_sub(started.elapsed())));
        }
    }

    /// What happened since `before`: a time since the start and what was committed by then.
    fn sample(&self, elapsed: Duration, before: (Duration, u64)) -> Sample {
        let mut recent = Histogram::default();
        let (mut committed, mut conflicts) = (0, 0);
        for worker in &self.workers {
            let mut figures = worker.lock();
            committed += figures.sum(|kind| kind.committed);
            conflicts += figures.sum(|kind| kind.conflicts);
            recent.merge(&figures.recent);
            figures.recent.clear();
        }
        let seconds = (elapsed - before.0).as_secs_f64().max(1e-6);
        Sample {
            elapsed,
            transactions_per_s: (committed - before.1) as f64 / seconds,
            latency_p50: Duration::from_nanos(recent.percentile(50.0)),
            latency_p99: Duration::from_nanos(recent.percentile(99.0)),
            committed,
            conflicts,
            ..Sample::default()
        }
    }

    /// What all workers did while the board measured.
    pub(crate) fn figures(&self) -> Figures {
        let mut all = Figures::new(self.kinds);
        for worker in &self.workers {
            all.merge(&worker.lock());
        }
        all
    }
}

#[cfg(test)]
mod tests;
