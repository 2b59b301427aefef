// SPDX-License-Identifier: Apache-2.0
//! What a query holds, whoever counted it.
//!
//! Operators ask for what they keep, but not for all that they hold for a moment, and a moment can be long: a join that finds a row of
//! its text of 3 MB in each of thousands of batches copies it each time, until it has a batch of rows together, which are gigabytes
//! that nobody asked for. So the program's allocator counts for each thread (`coeval_store`'s `allocations.rs`), and where a query's
//! threads look whether it is to end, they note by how much that has grown. A query that holds [`UNCOUNTED_MAX`] more than it has
//! asked for is refused, as one that asks would be: if it has more than a query may have, or the process has no room.
//!
//! The number is close and not exact: what others free of a query's memory is seen where its batches leave it
//! ([`let_go`](Holding::let_go)), and what it frees of others makes it no smaller than nothing. Chunks that it reads from files are
//! for everybody, and not counted.

use super::out_of_memory;
use super::process::THIS;
use crate::error::SqlError;
use coeval_store::allocated_here;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

/// What a query may hold beyond what it has asked for: batches on their way, in each of some operators and threads.
const UNCOUNTED_MAX: usize = 64 << 20;

/// A thread notes what it has allocated or freed in steps of this size.
const STEP_BYTES: usize = 1 << 20;

thread_local! {
    /// What this thread had allocated when it noted that last.
    static NOTED: Cell<isize> = const { Cell::new(0) };
}

/// What the threads that work for a query have allocated and not freed.
#[derive(Default)]
pub(crate) struct Holding {
    bytes: AtomicIsize,
    /// Where the query asks for memory.
    memory: Option<Arc<dyn MemoryPool>>,
}

impl Holding {
    /// That of a query which asks here.
    pub(crate) fn of(memory: Arc<dyn MemoryPool>) -> Self {
        Self { bytes: AtomicIsize::new(0), memory: Some(memory) }
    }

    /// So many bytes have left the query: others free them.
    pub(crate) fn let_go(&self, bytes: usize) {
        self.note(0isize.saturating_sub_unsigned(bytes));
    }

    /// What the query holds.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    fn note(&self, more: isize) {
        if self.bytes.fetch_add(more, Ordering::Relaxed).wrapping_add(more) < 0 {
            self.bytes.fetch_max(0, Ordering::Relaxed);
        }
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

    fn check(&self) -> Result<(), SqlError> {
        let held = self.bytes();
        let asked_for = self.memory.as_ref().map_or(0, |memory| memory.reserved());
        if held.saturating_sub(asked_for) <= UNCOUNTED_MAX {
            return Ok(());
        }
        let most = match self.memory.as_ref().map(|memory| memory.memory_limit()) {
            Some(MemoryLimit::Finite(most)) => most,
            _ => usize::MAX,
        };
        if held > most {
            let has = format!("it holds {held} bytes, and a query may have {most}");
            return Err(out_of_memory(&has));
        }
        THIS.room_for(0, 0).map_err(|none| out_of_memory(&format!("it holds {held} bytes, and {none}")))
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
