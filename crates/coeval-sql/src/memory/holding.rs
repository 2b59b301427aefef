// SPDX-License-Identifier: Apache-2.0
//! What a query holds, whoever counted it.
//!
//! Operators ask for what they keep, but not for all that they hold for a moment, and a moment can be long: a join that finds a row of
//! its text of 3 MB in each of thousands of batches copies it each time, until it has a batch of rows together, which are gigabytes
//! that nobody asked for. So the program's allocator counts for each thread (`coeval_store`'s `allocations.rs`), and where a query's
//! threads look whether it is to end, they note by how much that has grown. For what it holds beyond [`UNCOUNTED_MAX`] and all that it
//! has asked for, a query asks there, and is refused as others are: if it has more than it may, or the process has no room.
//!
//! The number is not exact: memory goes from one to the other without a word. So it is held against what the process has
//! more than when it had least during the query, and the query holds no more than that, whatever was counted. Batches that leave for
//! the client are [let go of](Holding::let_go), and chunks that are read from files and stay are for everybody.

use super::process::THIS;
use crate::error::{SqlError, out_of_memory};
use coeval_store::allocated_here;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

/// What a query may hold beyond what it has asked for: batches on their way, in each of some operators and threads.
static UNCOUNTED_MAX: LazyLock<usize> = LazyLock::new(|| {
    let threads = available_parallelism().map_or(1, |threads| threads.get());
    (threads * (8 << 20)).max(64 << 20)
});

/// A thread notes what it has allocated or freed in steps of this size.
const STEP_BYTES: usize = 1 << 20;

thread_local! {
    /// What this thread had allocated when it noted that last.
    static NOTED: Cell<isize> = const { Cell::new(0) };
}

/// What the threads that work for a query have allocated and not freed.
pub(crate) struct Holding {
    bytes: AtomicIsize,
    /// What it held when it was looked at last.
    checked: AtomicIsize,
    /// The least that the process had since the query began.
    least: AtomicUsize,
    /// Where the query asks for memory.
    memory: Option<Arc<dyn MemoryPool>>,
}

impl Default for Holding {
    fn default() -> Self {
        Self::of(None)
    }
}

impl Holding {
    /// That of work which asks here.
    pub(crate) fn of(memory: Option<Arc<dyn MemoryPool>>) -> Self {
        let (bytes, checked) = (AtomicIsize::new(0), AtomicIsize::new(0));
        Self { bytes, checked, least: AtomicUsize::new(THIS.resident()), memory }
    }

    /// So many bytes have left the query: others free them.
    pub(crate) fn let_go(&self, bytes: usize) {
        self.note(0isize.saturating_sub_unsigned(bytes));
    }

    fn note(&self, more: isize) {
        if self.bytes.fetch_add(more, Ordering::Relaxed).wrapping_add(more) < 0 {
            self.bytes.fetch_max(0, Ordering::Relaxed);
        }
    }

    /// Whether it has come to hold much since it was looked at.
    #[inline]
    pub(crate) fn has_grown(&self) -> bool {
        let grown = self.bytes.load(Ordering::Relaxed).wrapping_sub(self.checked.load(Ordering::Relaxed));
        grown >= STEP_BYTES as isize
    }

    /// Notes what this thread has allocated since it did so last.
    ///
    /// # Errors
    /// `53200` if the query holds too much.
    pub(crate) fn note_here(&self) -> Result<(), SqlError> {
        let here = allocated_here();
        self.note(here.wrapping_sub(NOTED.replace(here)));
        self.check()
    }

    /// Whether the query may hold what it holds.
    ///
    /// # Errors
    /// `53200` if not.
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.checked.store(bytes, Ordering::Relaxed);
        let asked_for = self.memory.as_ref().map_or(0, |memory| memory.reserved());
        let free = asked_for.saturating_add(*UNCOUNTED_MAX);
        if usize::try_from(bytes).unwrap_or(0) <= free {
            return Ok(());
        }
        // Nobody is refused by the count alone.
        let resident = THIS.measured();
        let least = self.least.fetch_min(resident, Ordering::Relaxed).min(resident);
        let has_more = isize::try_from(resident - least).unwrap_or(isize::MAX);
        let held = self.bytes.fetch_min(has_more, Ordering::Relaxed).min(has_more);
        let uncounted = usize::try_from(held).unwrap_or(0).saturating_sub(free);
        if uncounted == 0 {
            return Ok(());
        }
        match &self.memory {
            // It has the memory already: what is asked for is given back at once.
            Some(memory) => {
                let asking = MemoryConsumer::new("what it holds beside").register(memory);
                Ok(asking.try_grow(uncounted)?)
            }
            None => THIS
                .room_for(0, 0)
                .map_err(|none| out_of_memory(&format!("it holds {held} bytes, and {none}"))),
        }
    }

    /// Works for the query on this thread.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = allocated_here();
        let _back = NotedBefore { holding: self, began, noted: NOTED.replace(began) };
        work()
    }
}

/// Whether this thread has much to [note](Holding::note_here).
#[inline]
pub(crate) fn has_much_to_note() -> bool {
    allocated_here().wrapping_sub(NOTED.get()).unsigned_abs() >= STEP_BYTES
}

/// This thread works for nobody: it has nothing to note.
pub(crate) fn note_for_nobody() {
    NOTED.set(allocated_here());
}

/// What was noted for others on this thread, before it worked for a query.
struct NotedBefore<'a> {
    holding: &'a Holding,
    began: isize,
    noted: isize,
}

impl Drop for NotedBefore<'_> {
    fn drop(&mut self) {
        let here = allocated_here();
        self.holding.note(here.wrapping_sub(NOTED.get()));
        // The others have nothing of what was done meanwhile.
        NOTED.set(self.noted.wrapping_add(here.wrapping_sub(self.began)));
    }
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
