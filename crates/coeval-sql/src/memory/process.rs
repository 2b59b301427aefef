// SPDX-License-Identifier: Apache-2.0
//! How much of the machine's memory the process uses, counted by the budget or not.
//!
//! The budget counts what is asked for. But the system kills a process for what it *uses*: also batches between operators, results
//! of functions, what DataFusion holds while it plans, what the allocator keeps for later. So a large request is refused, too, if
//! the process would come near its limit by it, though the budget has room.
//!
//! Memory that was granted a moment ago is not written to yet, so the process does not seem to use it: it is added to what is
//! measured. An allocator keeps what was freed for later requests. The program that set up the engine may know how to make it give
//! that back ([`QueryMemory::give_back`](super::QueryMemory::give_back)); this is done before a request is refused.

use coeval_store::{machine_memory, process_memory};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

/// The process is looked at once in so long for small requests.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// And for each that is not.
const LARGE_REQUEST_BYTES: usize = 1 << 20;

/// The allocator is asked behind large queries once in so long: giving memory back and taking it again has its price.
const BETWEEN_GIVING_BACK: Duration = Duration::from_secs(1);

/// And once in so long before somebody is refused: many may be, one after the other.
const BETWEEN_REFUSALS: Duration = Duration::from_millis(100);

/// What was asked for within this time, or up to twice as long ago, may not have been written yet.
const WRITTEN_WITHIN: Duration = Duration::from_millis(250);

/// The rest is for what nobody asks for.
fn ceiling_of(machine: usize) -> usize {
    machine / 6 * 5
}

/// This process on this machine.
pub(super) static THIS: LazyLock<ProcessMemory> =
    LazyLock::new(|| ProcessMemory::new(ceiling_of(machine_memory()), process_memory));

/// What a process has, and how far it may go.
#[derive(Debug)]
pub(super) struct ProcessMemory {
    ceiling: usize,
    /// Bytes that the process has; none if nobody knows.
    measure: fn() -> Option<usize>,
    /// There is one allocator: the first who knows it has said how.
    give_back: OnceLock<fn()>,
    /// What was measured last.
    resident: AtomicUsize,
    /// What values are about to take that no budget counts.
    promised: AtomicUsize,
    /// # Locking
    /// Held while the process is looked at and while the allocator gives memory back; no other lock is held then.
    times: Mutex<Times>,
}

/// When what was done last.
#[derive(Debug)]
struct Times {
    looked: Instant,
    gave_back: Option<Instant>,
}

/// A request that the process has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom {
    /// What the process has.
    pub(super) resident: usize,
    /// What it may have.
    pub(super) ceiling: usize,
}

impl ProcessMemory {
    fn new(ceiling: usize, measure: fn() -> Option<usize>) -> Self {
        let resident = AtomicUsize::new(measure().unwrap_or(0));
        let times = Mutex::new(Times { looked: Instant::now(), gave_back: None });
        Self { ceiling, measure, give_back: OnceLock::new(), resident, promised: AtomicUsize::new(0), times }
    }

    /// How the allocator gives back what it keeps; the first who says it counts.
    pub(super) fn gives_back_by(&self, give_back: fn()) {
        self.give_back.get_or_init(|| give_back);
    }

    /// What it had when it was looked at last.
    pub(super) fn resident(&self) -> usize {
        self.resident.load(Ordering::Relaxed)
    }

    /// What it has, measured some milliseconds ago at most.
    pub(super) fn measured(&self) -> usize {
        let mut times = self.times.lock();
        let now = Instant::now();
        if now - times.looked >= BETWEEN_LOOKS {
            self.look(&mut times, now);
        }
        self.resident()
    }

    /// Whether there is room for so many bytes more, beside what was given and is `unwritten`.
    pub(super) fn room_for(&self, bytes: usize, unwritten: usize) -> Result<(), NoRoom> {
        let mut times = self.times.lock();
        let now = Instant::now();
        if bytes >= LARGE_REQUEST_BYTES || now - times.looked >= BETWEEN_LOOKS {
            self.look(&mut times, now);
        }
        let wanted = bytes.saturating_add(unwritten).saturating_add(self.promised.load(Ordering::Relaxed));
        let has_room = || self.resident().saturating_add(wanted) <= self.ceiling;
        if !has_room() && times.gave_back.is_none_or(|at| now - at >= BETWEEN_REFUSALS) {
            self.make_room(&mut times, now);
        }
        if has_room() { Ok(()) } else { Err(NoRoom { resident: self.resident(), ceiling: self.ceiling }) }
    }

    /// The same for a value that no budget counts: there is less room for others as long as what this gives lives.
    pub(super) fn promise(&'static self, bytes: usize) -> Result<Promise, NoRoom> {
        self.room_for(bytes, 0)?;
        self.promised.fetch_add(bytes, Ordering::Relaxed);
        Ok(Promise { process: self, bytes })
    }

    /// A query has ended that had much: what it had is given back if the process has much of the machine.
    pub(super) fn is_left(&self) {
        let mut times = self.times.lock();
        let now = Instant::now();
        if times.gave_back.is_some_and(|at| now - at < BETWEEN_GIVING_BACK) {
            return;
        }
        self.look(&mut times, now);
        if self.resident() > self.ceiling / 4 * 3 {
            self.make_room(&mut times, now);
        }
    }

    fn look(&self, times: &mut Times, now: Instant) {
        times.looked = now;
        self.resident.store((self.measure)().unwrap_or(0), Ordering::Relaxed);
    }

    fn make_room(&self, times: &mut Times, now: Instant) {
        if let Some(give_back) = self.give_back.get() {
            give_back();
            times.gave_back = Some(now);
            self.look(times, now);
        }
    }
}

/// Bytes that a value is about to take.
#[derive(Debug)]
pub(crate) struct Promise {
    process: &'static ProcessMemory,
    bytes: usize,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.process.promised.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a budget gave a moment ago.
#[derive(Debug)]
pub(super) struct Recent {
    /// Two earlier moments, the earlier one first.
    samples: [Sample; 2],
    at: Instant,
}

/// What a budget had given, and what the process had then.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    given: usize,
    resident: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self { samples: [Sample::default(); 2], at: Instant::now() }
    }
}

impl Recent {
    /// How much of what is given may not have been written yet: what the process has got meanwhile was.
    pub(super) fn unwritten(&mut self, given: usize, resident: usize) -> usize {
        let passed = self.at.elapsed();
        if passed >= WRITTEN_WITHIN {
            let now = Sample { given, resident };
            let earlier = if passed >= 2 * WRITTEN_WITHIN { now } else { self.samples[1] };
            *self = Self { samples: [earlier, now], at: Instant::now() };
        }
        let Sample { given: earlier, resident: before } = self.samples[0];
        given.saturating_sub(earlier).saturating_sub(resident.saturating_sub(before))
    }

    /// So much is left of what was given: what is given from now on is new.
    pub(super) fn was_given_back(&mut self, left: usize) {
        for sample in &mut self.samples {
            sample.given = sample.given.min(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_the_process_has_leaves_the_rest() {
        let process = ProcessMemory::new(100 * MIB, || Some(60 * MIB));
        assert_eq!(process.room_for(40 * MIB, 0), Ok(()));
        assert_eq!(process.room_for(40 * MIB, 1), Err(NoRoom { resident: 60 * MIB, ceiling: 100 * MIB }));
        assert_eq!(process.room_for(41 * MIB, 0), Err(NoRoom { resident: 60 * MIB, ceiling: 100 * MIB }));
    }

    #[test]
    fn what_was_promised_is_nobody_elses_until_it_is_made() {
        static PROCESS: LazyLock<ProcessMemory> =
            LazyLock::new(|| ProcessMemory::new(100 * MIB, || Some(60 * MIB)));
        let promise = PROCESS.promise(30 * MIB).unwrap();
        assert!(PROCESS.promise(11 * MIB).is_err());
        drop(promise);
        assert!(PROCESS.promise(11 * MIB).is_ok());
    }

    #[test]
    fn what_was_given_a_moment_ago_may_not_have_been_written() {
        let mut recent = Recent::default();
        assert_eq!(recent.unwritten(30, 0), 30);
        assert_eq!(recent.unwritten(30, 20), 10, "the process has got 20 meanwhile");
        recent.at -= 2 * WRITTEN_WITHIN;
        assert_eq!(recent.unwritten(30, 20), 0, "it was given long ago");
        assert_eq!(recent.unwritten(60, 20), 30);
        recent.at -= WRITTEN_WITHIN;
        assert_eq!(recent.unwritten(60, 20), 30, "it may have been given just before");
        recent.at -= WRITTEN_WITHIN;
        assert_eq!(recent.unwritten(60, 20), 0);
        recent.was_given_back(10);
        assert_eq!(recent.unwritten(60, 20), 50, "what is given after more was given back is new");
    }

    #[test]
    fn what_the_allocator_keeps_is_given_back_before_anybody_is_refused() {
        static HAS: AtomicUsize = AtomicUsize::new(99 * MIB);
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let process = ProcessMemory::new(100 * MIB, || Some(HAS.load(Ordering::Relaxed)));
        assert!(process.room_for(80 * MIB, 0).is_err(), "nobody has said how");
        process.gives_back_by(|| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            HAS.store(20 * MIB, Ordering::Relaxed);
        });
        assert_eq!(process.room_for(80 * MIB, 0), Ok(()));
        HAS.store(77 * MIB, Ordering::Relaxed);
        assert!(process.room_for(80 * MIB, 0).is_err(), "it was asked a moment ago");
        process.is_left();
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        process.times.lock().gave_back.as_mut().map(|at| *at -= BETWEEN_GIVING_BACK).unwrap();
        process.is_left();
        assert_eq!((ASKED.load(Ordering::Relaxed), process.resident()), (2, 20 * MIB));
    }

    #[test]
    fn where_the_system_does_not_say_what_a_process_has_it_has_nothing() {
        let process = ProcessMemory::new(100 * MIB, || None);
        assert_eq!(process.room_for(99 * MIB, 0), Ok(()));
    }
}
