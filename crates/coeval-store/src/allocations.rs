// SPDX-License-Identifier: Apache-2.0
//! What each thread has allocated and not freed, as the program's allocator counts it.
//!
//! A budget counts what is asked for. What a library takes without asking is seen by the allocator alone, and by the system
//! when it is too late. So an allocator that counts ([`CountingAllocator`]) keeps one number for each thread, and code that
//! works for a query looks at how much it has grown meanwhile. In a program with another allocator the number stays 0.
//!
//! A thread may free what another one allocated. So the number of a single thread means nothing; only the differences of all
//! threads that work for one query, added up, do.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    // Without a destructor, so that an allocator may use it at any time of a thread's life.
    static HERE: Cell<isize> = const { Cell::new(0) };
}

/// An allocator that counts what each thread has allocated and not freed. To be a program's global allocator, so that
/// queries which take memory that nobody counted are ended (`53200`) before the system ends the process. Costs an addition
/// for each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator<A>(pub A);

/// Bytes that this thread has allocated and not freed; negative if it has freed what others allocated. Always 0 in a
/// program whose allocator does not count.
#[must_use]
#[inline]
pub fn allocated_here() -> isize {
    HERE.get()
}

/// Does not count what the work allocates: it is memory that all share, not the query's for which this thread works.
pub(crate) fn for_everybody<T>(work: impl FnOnce() -> T) -> T {
    let before = HERE.get();
    let outcome = work();
    HERE.set(before);
    outcome
}

// A layout has at most `isize::MAX` bytes.
#[inline]
fn count(allocated: usize, freed: usize) {
    HERE.set(HERE.get().wrapping_add_unsigned(allocated).wrapping_sub_unsigned(freed));
}

#[expect(unsafe_code, reason = "an allocator is unsafe to write; each call goes to the inner one as it is")]
// SAFETY: the inner allocator keeps the contract, and counting neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let made = unsafe { self.0.alloc(layout) };
        count(if made.is_null() { 0 } else { layout.size() }, 0);
        made
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let made = unsafe { self.0.alloc_zeroed(layout) };
        count(if made.is_null() { 0 } else { layout.size() }, 0);
        made
    }

    unsafe fn dealloc(&self, given: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { self.0.dealloc(given, layout) }
        count(0, layout.size());
    }

    unsafe fn realloc(&self, given: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        let made = unsafe { self.0.realloc(given, layout, size) };
        if !made.is_null() {
            count(size, layout.size());
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    #[expect(unsafe_code, reason = "calls of an allocator")]
    fn what_is_allocated_and_not_freed_is_counted_by_its_size() {
        let allocator = CountingAllocator(System);
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let before = allocated_here();
        // SAFETY: each pointer is freed once, with the layout that it was allocated with last.
        unsafe {
            let (one, other) = (allocator.alloc(layout(1000)), allocator.alloc_zeroed(layout(500)));
            assert_eq!(allocated_here() - before, 1500);
            let one = allocator.realloc(one, layout(1000), 4000);
            assert_eq!(allocated_here() - before, 4500);
            allocator.dealloc(one, layout(4000));
            assert_eq!(allocated_here() - before, 500);
            for_everybody(|| allocator.dealloc(other, layout(500)));
            assert_eq!(allocated_here() - before, 500);
        }
        HERE.set(before);
    }
}
