// SPDX-License-Identifier: Apache-2.0
//! What the process has of the machine's memory, whoever counted it.
//!
//! The budget counts what is asked for. The system ends a process for what it *has*: batches on their way, the results of
//! functions, what DataFusion holds while it plans, what the allocator keeps for later. So whoever asks for much is refused,
//! too, if the process would come near its limit with it, though the budget has room.
//!
//! What was asked for a moment ago is written in the next one, and is not seen in what the process has: it is added. An
//! allocator keeps what was freed, for the next who wants it; whoever has set up the engine may know how it gives that back
//! ([`QueryMemory::give_back`](super::QueryMemory::give_back)), which is done before anybody is refused.

use coeval_store::{machine_memory, process_memory};
use parking_lot::Mutex;
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

/// The process is looked at once in so long for small requests.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// And for each that is not.
const LARGE_REQUEST_BYTES: usize = 1 << 20;

/// The allocator is asked behind large queries once in so long: giving memory back and taking it again has its price.
const BETWEEN_GIVING_BACK: Duration = Duration::from_secs(1);

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
    resident: fn() -> Option<usize>,
    /// There is one allocator: the first who knows it has said how.
    give_back: OnceLock<fn()>,
    /// # Locking
    /// Held while the process is looked at and while the allocator gives memory back; no other lock is held then.
    seen: Mutex<Seen>,
}

/// What was seen, and when.
#[derive(Debug)]
struct Seen {
    at: Instant,
    resident: usize,
    /// When the allocator was asked behind a query.
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
    fn new(ceiling: usize, resident: fn() -> Option<usize>) -> Self {
        let seen = Seen { at: Instant::now(), resident: resident().unwrap_or(0), gave_back: None };
        Self { ceiling, resident, give_back: OnceLock::new(), seen: Mutex::new(seen) }
    }

    /// How the allocator gives back what it keeps; the first who says it counts.
    pub(super) fn gives_back_by(&self, give_back: fn()) {
        self.give_back.get_or_init(|| give_back);
    }

    /// Whether there is room for so many bytes more.
    pub(super) fn room_for(&self, bytes: usize) -> Result<(), NoRoom> {
        let mut seen = self.seen.lock();
        let now = Instant::now();
        if bytes >= LARGE_REQUEST_BYTES || now - seen.at >= BETWEEN_LOOKS {
            self.look(&mut seen, now);
        }
        let has_room = |seen: &Seen| seen.resident.saturating_add(bytes) <= self.ceiling;
        if !has_room(&seen) {
            self.make_room(&mut seen);
        }
        if has_room(&seen) { Ok(()) } else { Err(NoRoom { resident: seen.resident, ceiling: self.ceiling }) }
    }

    /// A query has ended that had much: what it had is given back if the process has much of the machine.
    pub(super) fn is_left(&self) {
        let mut seen = self.seen.lock();
        let now = Instant::now();
        if seen.gave_back.is_some_and(|at| now - at < BETWEEN_GIVING_BACK) {
            return;
        }
        self.look(&mut seen, now);
        if seen.resident > self.ceiling / 2 {
            seen.gave_back = Some(now);
            self.make_room(&mut seen);
        }
    }

    fn look(&self, seen: &mut Seen, now: Instant) {
        seen.at = now;
        seen.resident = (self.resident)().unwrap_or(0);
    }

    fn make_room(&self, seen: &mut Seen) {
        if let Some(give_back) = self.give_back.get() {
            give_back();
            self.look(seen, Instant::now());
        }
    }
}

/// What a budget gave a moment ago.
#[derive(Debug)]
pub(super) struct Recent {
    /// What it had given in all at two earlier moments.
    given: [usize; 2],
    at: Instant,
}

impl Default for Recent {
    fn default() -> Self {
        Self { given: [0; 2], at: Instant::now() }
    }
}

impl Recent {
    /// How much of what is given may not have been written yet.
    pub(super) fn unwritten(&mut self, given: usize) -> usize {
        let passed = self.at.elapsed();
        if passed >= WRITTEN_WITHIN {
            let earlier = if passed >= 2 * WRITTEN_WITHIN { given } else { self.given[1] };
            *self = Self { given: [earlier, given], at: Instant::now() };
        }
        given.saturating_sub(self.given[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const MIB: usize = 1 << 20;

    #[test]
    fn what_the_process_has_leaves_the_rest() {
        let process = ProcessMemory::new(100 * MIB, || Some(60 * MIB));
        assert_eq!(process.room_for(40 * MIB), Ok(()));
        assert_eq!(process.room_for(41 * MIB), Err(NoRoom { resident: 60 * MIB, ceiling: 100 * MIB }));
    }

    #[test]
    fn what_was_given_a_moment_ago_may_not_have_been_written() {
        let mut recent = Recent::default();
        assert_eq!(recent.unwritten(30), 30);
        recent.at -= 2 * WRITTEN_WITHIN;
        assert_eq!(recent.unwritten(30), 0, "it was given long ago");
        assert_eq!(recent.unwritten(60), 30);
        recent.at -= WRITTEN_WITHIN;
        assert_eq!(recent.unwritten(60), 30, "it may have been given just before");
        recent.at -= WRITTEN_WITHIN;
        assert_eq!(recent.unwritten(60), 0);
        assert_eq!(recent.unwritten(10), 0, "what was given back is not asked for");
    }

    #[test]
    fn what_the_allocator_keeps_is_given_back_before_anybody_is_refused() {
        static HAS: AtomicUsize = AtomicUsize::new(99 * MIB);
        let process = ProcessMemory::new(100 * MIB, || Some(HAS.load(Ordering::Relaxed)));
        assert!(process.room_for(80 * MIB).is_err(), "nobody has said how");
        process.gives_back_by(|| HAS.store(20 * MIB, Ordering::Relaxed));
        assert_eq!(process.room_for(80 * MIB), Ok(()));
        assert!(process.room_for(81 * MIB).is_err());
        HAS.store(51 * MIB, Ordering::Relaxed);
        process.is_left();
        assert_eq!(HAS.load(Ordering::Relaxed), 20 * MIB);
    }

    #[test]
    fn where_the_system_does_not_say_what_a_process_has_it_has_nothing() {
        let process = ProcessMemory::new(100 * MIB, || None);
        assert_eq!(process.room_for(99 * MIB), Ok(()));
    }
}
