// SPDX-License-Identifier: Apache-2.0
//! The program's allocator, which keeps what is freed for who comes next.

use coeval::CountingAllocator;
use mimalloc::MiMalloc;

/// Trees of small nodes that many threads make and drop want an allocator made for that. It counts, so that queries are ended whose
/// memory nobody has asked for.
#[global_allocator]
static ALLOCATOR: CountingAllocator<MiMalloc> = CountingAllocator(MiMalloc);

/// Gives the system back what is free, in all threads' large blocks and in this thread's small ones.
#[expect(unsafe_code, reason = "a call of the allocator's own interface")]
pub(crate) fn give_back() {
    // SAFETY: it may be called at any time by any thread; it changes nothing that is in use.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
