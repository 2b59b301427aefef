// SPDX-License-Identifier: Apache-2.0
//! When to fork: the grains below which work stays on the calling thread.
//!
//! A fork costs about a microsecond when another thread takes it (and the first one from outside rayon's pool
//! some more), a handful of nanoseconds when none does. The grains make the work of one task a good deal larger
//! than that. Unit tests compile with tiny grains, so that small trees already exercise the parallel paths.

/// How many entries one task works on before another thread may take part.
///
/// ```
/// use coeval_ptree::Grain;
/// assert_eq!(Grain::for_work(1_000), Grain::entries(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain(usize);

/// The work of one task, in nanoseconds: ten times what a fork costs.
const TASK_NANOSECONDS: usize = 10_000;

impl Grain {
    /// For some nanoseconds per entry, as a scan takes.
    pub const SCAN: Self = Grain(if cfg!(test) { 8 } else { 2048 });

    /// For up to a microsecond per entry, as an update takes.
    pub const UPDATE: Self = Grain(BATCH_GRAIN);

    /// Tasks of `count` entries, at least one.
    #[must_use]
    pub const fn entries(count: usize) -> Self {
        Grain(if count == 0 { 1 } else { count })
    }

    /// Tasks of some ten microseconds, for entries that take `nanoseconds` each.
    #[must_use]
    pub const fn for_work(nanoseconds: usize) -> Self {
        let divisor = if nanoseconds == 0 { 1 } else { nanoseconds };
        Grain::entries(TASK_NANOSECONDS / divisor)
    }

    /// Entries per task.
    #[inline]
    pub(crate) const fn count(self) -> usize {
        self.0
    }
}

/// Entries per task when building leaves from a sorted run.
pub(crate) const BUILD_GRAIN: usize = if cfg!(test) { 16 } else { 8192 };

/// Keys per task when a batch is applied; each key costs up to a microsecond. Batches below it spawn nothing.
pub(crate) const BATCH_GRAIN: usize = if cfg!(test) { 2 } else { 256 };

// `is_strictly_sorted` halves runs with one shared element and must make progress.
const _: () = assert!(BUILD_GRAIN >= 2 && Grain::SCAN.count() >= 1 && BATCH_GRAIN >= 1);

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
