// SPDX-License-Identifier: Apache-2.0
//! A fixed-size buffer that one writer fills from front to back, while anybody reads what it has published.
//!
//! Why: a column that is being appended to shall be scanned in place, as an Arrow array, with no lock and no
//! copy. Arrow's buffers are immutable; this is the one place where memory is written that an Arrow buffer of
//! the same allocation may be reading elsewhere. It is the only module of the crate with `unsafe`.
//!
//! ```text
//!   0            published            capacity
//!   | read by anybody |  the writer's own   |
//! ```
//!
//! # Why it is sound
//!
//! 1. *One writer.* [`fixed_buffer`] makes one [`FixedBufferWriter`] for an allocation; it cannot be cloned,
//!    and appending takes it by `&mut`.
//! 2. *The writer never touches what is published.* It writes at `published..`, and only then moves
//!    `published` up. `published` never moves down.
//! 3. *Readers never touch what is not.* [`FixedBuffer::slice`] asserts that the slice ends at or before
//!    `published`. So no byte is ever read and written at the same time, and a byte does not change once an
//!    Arrow buffer can see it.
//! 4. *What is published has been written.* The writer stores `published` with `Release` after the bytes, a
//!    reader loads it with `Acquire` before it makes the slice. (Whoever learns of a length in another way, such
//!    as a brick's row count, passes through the assertion of 3, and with it through this load.)
//! 5. *The memory lives long enough.* Every slice holds the allocation by a reference count. The allocation is
//!    never resized, and was zeroed, so every byte is initialized.
//! 6. *Nobody else mutates it.* Arrow takes a buffer of a foreign allocation back for mutation never, even if it
//!    holds the only reference.
//! 7. *No aliasing.* All access goes through one raw pointer from the allocator; a Rust reference covers only
//!    published bytes (Arrow's slices) and they do not change.
//!
//! The orderings are checked by `loom` on this code, with the bytes shadowed by cells that report races.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::buffer::Buffer;

/// Arrow's own alignment for buffers: a cache line, more than any value type needs.
const ALIGNMENT: usize = 64;

/// The length that has been published, and, under a model checker, the accesses to the bytes.
pub(crate) trait Published {
    /// Nothing published of a buffer with this capacity.
    fn nothing(capacity: usize) -> Self;
    fn load(&self, ordering: Ordering) -> usize;
    fn store(&self, length: usize, ordering: Ordering);
    /// Called for the bytes that are about to be written.
    fn on_write(&self, bytes: Range<usize>);
    /// Called for the bytes that a slice is about to cover.
    fn on_read(&self, bytes: Range<usize>);
}

impl Published for AtomicUsize {
    #[inline]
    fn nothing(_capacity: usize) -> Self {
        Self::new(0)
    }

    #[inline]
    fn load(&self, ordering: Ordering) -> usize {
        Self::load(self, ordering)
    }

    #[inline]
    fn store(&self, length: usize, ordering: Ordering) {
        Self::store(self, length, ordering);
    }

    #[inline]
    fn on_write(&self, _bytes: Range<usize>) {}

    #[inline]
    fn on_read(&self, _bytes: Range<usize>) {}
}

/// An allocation of a fixed size, freed with its last holder.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the pointer is the sole owner of its allocation, and freeing may happen on any thread. Which thread may
// access which bytes when is the contract of the module, above.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`; `&Memory` gives no access to the bytes but through this module.
unsafe impl Sync for Memory {}

impl Memory {
    fn zeroed(capacity: usize) -> Self {
        // A layout of size zero must not be allocated.
        let layout =
            Layout::from_size_align(capacity.max(1), ALIGNMENT).expect("a buffer's size is below 2^63");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, layout }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by `zeroed` with this layout, and this is the last holder.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

struct Shared<P> {
    memory: Arc<Memory>,
    capacity: usize,
    published: P,
}

/// The reading side of a buffer. A clone reads the same buffer.
pub(crate) struct FixedBuffer<P = AtomicUsize> {
    shared: Arc<Shared<P>>,
}

/// The writing side of a buffer; there is one.
pub(crate) struct FixedBufferWriter<P = AtomicUsize> {
    shared: Arc<Shared<P>>,
}

/// A buffer of `capacity` bytes, of which none is published.
pub(crate) fn fixed_buffer<P: Published>(capacity: usize) -> (FixedBufferWriter<P>, FixedBuffer<P>) {
    let memory = Arc::new(Memory::zeroed(capacity));
    let shared = Arc::new(Shared { memory, capacity, published: P::nothing(capacity) });
    (FixedBufferWriter { shared: Arc::clone(&shared) }, FixedBuffer { shared })
}

impl<P: Published> FixedBufferWriter<P> {
    /// Appends `bytes` and publishes them.
    ///
    /// # Panics
    ///
    /// If they do not fit.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        // Only this writer stores it.
        let start = self.shared.published.load(Ordering::Relaxed);
        assert!(bytes.len() <= self.shared.capacity - start, "the appended bytes fit into the buffer");
        let end = start + bytes.len();
        self.shared.published.on_write(start..end);
        // SAFETY: `start..end` is inside of the allocation by the assertion, is not published, and this is the
        // only writer, so nobody else accesses it. `bytes` is a shared slice, hence not of unpublished memory.
        unsafe {
            let target = self.shared.memory.start.as_ptr().add(start);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        self.shared.published.store(end, Ordering::Release);
    }
}

impl<P: Published> FixedBuffer<P> {
    /// The published `bytes` as an Arrow buffer, in place.
    ///
    /// # Panics
    ///
    /// If they are not all published.
    #[inline]
    pub(crate) fn slice(&self, bytes: Range<usize>) -> Buffer {
        let published = self.shared.published.load(Ordering::Acquire);
        assert!(bytes.start <= bytes.end, "a range goes forward");
        assert!(bytes.end <= published, "only what is published is read");
        self.shared.published.on_read(bytes.clone());
        let memory = Arc::clone(&self.shared.memory);
        // SAFETY: the range is inside of the allocation (`published <= capacity`), initialized, and will not be
        // written again (points 2 to 4 above); `memory` keeps it alive. The pointer is not null.
        unsafe {
            let start = memory.start.add(bytes.start);
            Buffer::from_custom_allocation(start, bytes.len(), memory)
        }
    }

    /// The bytes that the buffer can hold.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.shared.capacity
    }
}

impl<P> Clone for FixedBuffer<P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

#[cfg(test)]
mod tests;
