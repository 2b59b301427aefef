// SPDX-License-Identifier: Apache-2.0
//! When to fork: the grains below which work stays on the calling thread.
//!
//! A fork costs about a microsecond when another thread takes it (and the first one from outside rayon's pool
//! some more), a handful of nanoseconds when none does. The grains make the work of one task a good deal larger
//! than that. Unit tests compile with tiny grains, so that small trees already exercise the parallel paths.

/// Entries per task when a pass visits all entries: some 10 microseconds of work.
pub(crate) const SCAN_GRAIN: usize = if cfg!(test) { 8 } else { 4096 };

/// Entries per task when building leaves from a sorted run.
pub(crate) const BUILD_GRAIN: usize = if cfg!(test) { 16 } else { 8192 };

/// Keys per task when a batch is applied; each key costs up to a microsecond. Batches below it spawn nothing.
pub(crate) const BATCH_GRAIN: usize = if cfg!(test) { 2 } else { 256 };

// `is_strictly_sorted` halves runs with one shared element and must make progress.
const _: () = assert!(BUILD_GRAIN >= 2 && SCAN_GRAIN >= 1 && BATCH_GRAIN >= 1);

/// Runs both, on two threads if `work` exceeds `grain` and a thread is free.
#[inline]
pub(crate) fn both<L, R, A, Z>(work: usize, grain: usize, left: L, right: R) -> (A, Z)
where
    L: FnOnce() -> A + Send,
    R: FnOnce() -> Z + Send,
    A: Send,
    Z: Send,
{
    if work > grain { rayon::join(left, right) } else { (left(), right()) }
}
