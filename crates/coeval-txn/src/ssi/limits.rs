// SPDX-License-Identifier: Apache-2.0
//! How much serializability remembers and looks at before it answers more coarsely.

/// Bounds on the memory and on the time under the commit lock.
///
/// Past a bound nothing fails: what is too old, too much or too many to look at counts as overwritten by the
/// first commit that it could be, and as read by the last. That can cost a needless abort, and only of a
/// transaction that is itself that old or that large (`README.md`, *What is conservative*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsiLimits {
    /// Commits that are remembered one by one.
    pub commits_max: usize,
    /// Written keys that are remembered one by one.
    pub keys_max: usize,
    /// What these have on the heap.
    pub key_heap_bytes_max: usize,
    /// Keys and ranges that committed readers are remembered by; up to twice as many are.
    pub marks_max: usize,
    /// What these have on the heap; up to twice as much.
    pub mark_heap_bytes_max: usize,
    /// With fewer than these, read marks are not worth forgetting.
    pub generation_min: usize,
    /// Writes that one certification looks at, and ranges of committed readers.
    pub examined_max: usize,
}

impl Default for SsiLimits {
    /// Some 400 MB with keys of 32 bytes, and 300 MB more for what longer ones have on the heap; used up only beside a
    /// transaction that has been open for a minute of heavy load. About a millisecond under the commit lock.
    fn default() -> Self {
        Self {
            commits_max: 1 << 20,
            keys_max: 1 << 22,
            key_heap_bytes_max: 1 << 28,
            marks_max: 1 << 18,
            mark_heap_bytes_max: 1 << 24,
            generation_min: 512,
            examined_max: 1 << 16,
        }
    }
}
