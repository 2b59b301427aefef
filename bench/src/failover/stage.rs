// SPDX-License-Identifier: Apache-2.0
//! What all threads of a run share: who the primary is, where the replicas are, whether to go on, and what was done so far.

use super::{Done, Moment, ReplicaMoment};
use crate::board::{KindFigures, Outcome, Step};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::tpcc::{Kind, largest_history_id};
use crate::wire::Server;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;

/// Nobody notices later than this that the primary is gone.
const NOTICING_MAX: Duration = Duration::from_secs(20);

/// A primary, and what everybody who writes there has to know.
pub(super) struct Primary {
    /// Which one it is of the run: 1, 2.
    pub(super) term: u32,
    pub(super) server: Server,
    /// Terminals begin behind this one.
    pub(super) largest_history_id: i64,
}

/// The age of a safe snapshot at a moment since the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Age {
    pub(super) at: Duration,
    pub(super) age: Option<Duration>,
}

/// A replica's place, which one node takes behind the other.
#[derive(Default)]
struct Slot {
    server: Option<Arc<Server>>,
    queries: u64,
    ages: Vec<Age>,
}

/// What terminals did.
struct Tally {
    kinds: Vec<KindFigures>,
    recent: Histogram,
}

/// What the witness did.
#[derive(Clone, Debug, Default)]
pub(super) struct Testimony {
    /// Numbers that were acknowledged.
    pub(super) acknowledged: u64,
    /// Numbers of which nobody knows, as the primary was lost while they were written.
    pub(super) unknown: Vec<i64>,
    last: Option<Instant>,
    longest_pause: Duration,
}

/// See the module.
///
/// # Locking
/// Each lock is a leaf, held for moments. `working` counts those who are in a transaction that changes something; who finds a primary
/// counts itself under the lock of `primary`, so that none is missed once that is taken away.
pub(super) struct Stage {
    started: Instant,
    is_over: AtomicBool,
    primary: Mutex<Option<Arc<Primary>>>,
    terms: AtomicU32,
    /// The last term that was ended on purpose.
    lost: AtomicU32,
    working: AtomicUsize,
    slots: Vec<Mutex<Slot>>,
    tally: Mutex<Tally>,
    testimony: Mutex<Testimony>,
    checks: AtomicU64,
    violations: AtomicU64,
    refused: AtomicU64,
}

/// Somebody who may write while this is there.
pub(super) struct Writer<'s> {
    stage: &'s Stage,
    pub(super) at: Arc<Primary>,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.stage.working.fetch_sub(1, Ordering::Release);
    }
}

impl Stage {
    /// Without a primary, with these replicas.
    pub(super) fn new(replicas: Vec<Server>) -> Self {
        let slot = |server| Mutex::new(Slot { server: Some(Arc::new(server)), ..Slot::default() });
        let kinds = vec![KindFigures::default(); Kind::ALL.len()];
        Self {
            started: Instant::now(),
            is_over: AtomicBool::new(false),
            primary: Mutex::new(None),
            terms: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            working: AtomicUsize::new(0),
            slots: replicas.into_iter().map(slot).collect(),
            tally: Mutex::new(Tally { kinds, recent: Histogram::default() }),
            testimony: Mutex::default(),
            checks: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Whether everybody should stop.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Makes everybody stop after what they are doing.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Lets everybody write to this primary.
    ///
    /// # Errors
    /// If it does not answer.
    pub(super) fn begin(&self, server: Server) -> Result<(), BenchError> {
        let largest_history_id = largest_history_id(&mut server.connect()?)?;
        let term = self.terms.fetch_add(1, Ordering::Relaxed) + 1;
        *self.primary.lock() = Some(Arc::new(Primary { term, server, largest_history_id }));
        Ok(())
    }

    /// From now on whoever loses the primary waits for the next one.
    pub(super) fn lose_primary(&self) {
        self.lost.store(self.terms.load(Ordering::Relaxed), Ordering::SeqCst);
        *self.primary.lock() = None;
    }

    /// Whether the primary of this term is lost on purpose.
    pub(super) fn is_lost(&self, term: u32) -> bool {
        self.lost.load(Ordering::SeqCst) >= term
    }

    /// Waits until all who wrote to the lost primary know that it is gone: what they have been told is in the tally then.
    ///
    /// # Errors
    /// If somebody does not notice.
    pub(super) fn wait_until_nobody_writes(&self) -> Result<(), BenchError> {
        let begun = Instant::now();
        while self.working.load(Ordering::Acquire) > 0 {
            if begun.elapsed() > NOTICING_MAX {
                return Err(BenchError::Answer(
                    "a client does not notice that the primary is gone".to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The primary, to be written to, if there is one.
    pub(super) fn writer(&self) -> Option<Writer<'_>> {
        let primary = self.primary.lock();
        let at = Arc::clone(primary.as_ref()?);
        self.working.fetch_add(1, Ordering::Relaxed);
        Some(Writer { stage: self, at })
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The replica at this place, if it is there.
    pub(super) fn replica(&self, slot: usize) -> Option<Arc<Server>> {
        self.slots[slot].lock().server.clone()
    }

    /// Puts a replica there, or says that none is for the moment.
    pub(super) fn set_replica(&self, slot: usize, server: Option<Server>) {
        self.slots[slot].lock().server = server.map(Arc::new);
    }

    /// Notes a transaction that a terminal is through with.
    pub(super) fn note_step(&self, step: Step, latency: Duration) {
        let mut tally = self.tally.lock();
        let figures = &mut tally.kinds[step.kind];
        figures.conflicts += step.conflicts;
        match step.outcome {
            Outcome::Committed => {
                figures.committed += 1;
                figures.latency.record_duration(latency);
                tally.recent.record_duration(latency);
            }
            Outcome::RolledBack => figures.rolled_back += 1,
        }
    }

    /// Notes a query that was answered, and the conditions that were checked in the same snapshot.
    pub(super) fn note_query(&self, slot: usize, checks: usize, violations: u64) {
        self.slots[slot].lock().queries += 1;
        self.checks.fetch_add(checks as u64, Ordering::Relaxed);
        self.violations.fetch_add(violations, Ordering::Relaxed);
    }

    /// Notes a transaction of a reader that was refused, which must not be.
    pub(super) fn note_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_age(&self, slot: usize, age: Option<Duration>) {
        let at = self.started.elapsed();
        self.slots[slot].lock().ages.push(Age { at, age });
    }

    /// Notes a number of the witness that was acknowledged just now.
    pub(super) fn note_acknowledged(&self) {
        let mut testimony = self.testimony.lock();
        testimony.acknowledged += 1;
        let pause = testimony.last.map_or(Duration::ZERO, |last| last.elapsed());
        testimony.longest_pause = testimony.longest_pause.max(pause);
        testimony.last = Some(Instant::now());
    }

    /// Notes one of which nobody knows.
    pub(super) fn note_unknown(&self, number: i64) {
        self.testimony.lock().unknown.push(number);
    }

    pub(super) fn testimony(&self) -> Testimony {
        self.testimony.lock().clone()
    }

    /// The longest time between two acknowledgements of the witness.
    pub(super) fn longest_pause(&self) -> Duration {
        self.testimony.lock().longest_pause
    }

    /// Transactions that were acknowledged.
    pub(super) fn committed(&self) -> u64 {
        self.tally.lock().kinds.iter().map(|kind| kind.committed).sum()
    }

    /// Those of a kind.
    pub(super) fn committed_of(&self, kind: Kind) -> u64 {
        self.tally.lock().kinds[kind as usize].committed
    }

    pub(super) fn done(&self, kind: Kind) -> Done {
        let tally = self.tally.lock();
        let figures = &tally.kinds[kind as usize];
        Done {
            name: kind.name(),
            committed: figures.committed,
            conflicts: figures.conflicts,
            latency_p50_ms: figures.latency.percentile_ms(50.0),
            latency_p99_ms: figures.latency.percentile_ms(99.0),
        }
    }

    pub(super) fn queries(&self, slot: usize) -> u64 {
        self.slots[slot].lock().queries
    }

    pub(super) fn checks(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }

    pub(super) fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// All ages that were noted, by replicas.
    pub(super) fn take_ages(&self) -> Vec<Vec<Age>> {
        self.slots.iter().map(|slot| std::mem::take(&mut slot.lock().ages)).collect()
    }

    /// The moment with what is known here; latencies begin anew.
    pub(super) fn moment(&self, moment: Moment, names: &[String]) -> Moment {
        let recent = std::mem::take(&mut self.tally.lock().recent);
        let replicas = self.slots.iter().zip(names).map(|(slot, name)| {
            let slot = slot.lock();
            let age = slot.ages.last().and_then(|last| last.age);
            ReplicaMoment { name: name.clone(), queries: slot.queries, age }
        });
        Moment {
            latency_p50: Duration::from_nanos(recent.percentile(50.0)),
            latency_p99: Duration::from_nanos(recent.percentile(99.0)),
            replicas: replicas.collect(),
            checks: self.checks(),
            violations: self.violations(),
            ..moment
        }
    }
}

/// Whether a server has gone, or goes: everything but an answer to the statement.
pub(super) fn has_gone(error: &BenchError) -> bool {
    let BenchError::Server(error) = error else { return false };
    let ends = [&SqlState::ADMIN_SHUTDOWN, &SqlState::CRASH_SHUTDOWN, &SqlState::CANNOT_CONNECT_NOW];
    error.as_db_error().is_none_or(|said| ends.contains(&said.code()))
}
