// SPDX-License-Identifier: Apache-2.0
//! What a query holds, whoever counted it.
//!
//! Operators ask for what they keep, but not for all that they hold for a moment, and a moment can be long: a join that finds a row of
//! its text of 3 MB in each of thousands of batches copies it each time, until it has a batch of rows together, which are gigabytes
//! that nobody asked for. So the program's allocator counts for each thread (`coeval_store`'s `allocations.rs`), and where a query's
//! threads look whether it is to end, they note by how much that has grown. What a query holds beyond all that it has asked for is added to
//! what the others hold so (`beside.rs`); beyond what is free of that it has to find room there, and is refused as others are: if it has
//! more than it may, or the process has no room.
//!
//! The number is not exact: memory goes from one to the other without a word. So it is held against what the process has
//! more than when it had least during the query, and the query holds no more than that, whatever was counted. Batches that leave for
//! the client are [let go of](Holding::let_go), and chunks that are read from files and stay are for everybody.

use super::QueryPool;
use super::beside::FREE;
use super::process::THIS;
use crate::error::{SqlError, out_of_memory};
use coeval_store::allocated_here;
use datafusion::execution::memory_pool::MemoryPool;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

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
    /// What of it is beyond what it has asked for, as it was noted with the other queries' last.
    beside: AtomicIsize,
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
        let [bytes, checked, beside] = [0; 3].map(AtomicIsize::new);
        Self { bytes, checked, beside, least: AtomicUsize::new(THIS.resident()), memory }
    }

    /// So many bytes have left the query: others free them.
    pub(crate) fn let_go(&self, bytes: usize) {
        self.note(0isize.saturating_sub_unsigned(bytes));
    }

    fn note(&self, more: isize) {
        if self.bytes.fetch_add(more, Ordering::Relaxed).wrapping_add(more) < 0 {
            self.bytes.fetch_max(0, Ordering::Relaxed);
        }
        // What was let go of is for the others. Nothing is noted of most queries.
        let noted = self.beside.load(Ordering::Relaxed);
        if more < 0 && noted > 0 && noted.wrapping_sub(self.beside_now()) >= STEP_BYTES as isize {
            self.note_beside();
        }
    }

    /// The part of the budget of a query; none of work that is no query's.
    fn pool(&self) -> Option<&QueryPool> {
        self.memory.as_deref().and_then(|memory| memory.downcast_ref())
    }

    /// What it holds beyond what it has asked for.
    fn beside_now(&self) -> isize {
        let asked_for = self.memory.as_ref().map_or(0, |memory| memory.reserved());
        self.bytes.load(Ordering::Relaxed).saturating_sub_unsigned(asked_for).max(0)
    }

    /// Notes that with what all queries hold so, if it is or was not next to nothing.
    fn note_beside(&self) {
        let Some(pool) = self.pool() else { return };
        let beside = self.beside_now();
        if beside >= STEP_BYTES as isize || self.beside.load(Ordering::Relaxed) > 0 {
            pool.note_beside(beside.wrapping_sub(self.beside.swap(beside, Ordering::Relaxed)));
        }
    }

    /// Whether nobody has to be asked for what it holds.
    fn is_free(&self) -> bool {
        let now = self.beside_now();
        if now < STEP_BYTES as isize {
            return true;
        }
        match self.pool() {
            Some(pool) => pool.is_beside_free(now.wrapping_sub(self.beside.load(Ordering::Relaxed))),
            None => now.unsigned_abs() <= *FREE,
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
        if !self.is_free() {
            // Nobody is refused by the count alone.
            let resident = THIS.measured();
            let least = self.least.fetch_min(resident, Ordering::Relaxed).min(resident);
            let has_more = isize::try_from(resident - least).unwrap_or(isize::MAX);
            self.bytes.fetch_min(has_more, Ordering::Relaxed);
        }
        self.note_beside();
        if self.is_free() {
            return Ok(());
        }
        match self.pool() {
            Some(pool) => pool.room_beside().map_err(|refused| {
                let beside = self.beside_now();
                out_of_memory(&format!("{beside} bytes for what it holds beside: {refused}"))
            }),
            None => THIS.room_for(0, 0).map_err(|none| {
                let held = self.bytes.load(Ordering::Relaxed);
                out_of_memory(&format!("it holds {held} bytes, and {none}"))
            }),
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

impl Drop for Holding {
    /// What is still there is somebody else's.
    fn drop(&mut self) {
        let noted = *self.beside.get_mut();
        if let Some(pool) = self.pool() {
            pool.note_beside(noted.wrapping_neg());
        }
    }
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryBudget;
    use super::*;
    use datafusion::execution::memory_pool::MemoryConsumer;

    const MIB: isize = 1 << 20;

    /// Fails if the drop, `let_go` or a look notes nothing.
    #[test]
    fn what_a_query_holds_beside_is_noted_until_it_is_asked_for_or_let_go_of() {
        let budget = MemoryBudget::new(64 << 20);
        let memory: Arc<dyn MemoryPool> = Arc::new(QueryPool::new(&budget));
        let of_all = || budget.beside.load(Ordering::Relaxed);
        let holding = Holding::of(Some(Arc::clone(&memory)));
        holding.note(MIB / 2);
        holding.check().unwrap();
        assert_eq!(of_all(), 0, "a small query touches nothing that is shared");
        holding.note(10 * MIB);
        holding.check().unwrap();
        assert_eq!(of_all(), 10 * MIB + MIB / 2);
        let asked_for = MemoryConsumer::new("sort").register(&memory);
        asked_for.grow(4 << 20);
        holding.check().unwrap();
        assert_eq!(of_all(), 6 * MIB + MIB / 2);
        holding.let_go(4 << 20);
        assert_eq!(of_all(), 2 * MIB + MIB / 2);
        drop(holding);
        assert_eq!(of_all(), 0);
    }
}
