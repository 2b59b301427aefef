// SPDX-License-Identifier: Apache-2.0
//! The comparisons that serializability and safe snapshots rest on, as data.
//!
//! `T` is the transaction being certified, `U` one it has an edge to, `V` one that has an edge to it:
//!
//! ```text
//! V --rw--> T --rw--> U         T is the pivot           V --rw--> U --rw--> W    T = V is the source
//! ```
//!
//! A snapshot holds whole batches, so a commit is compared with a `begin` by its version alone; two commits
//! are compared by version and position. Each comparison below stands here once, and a test replaces each by
//! a wrong one and sees a history that is not serializable (`tests/faults.rs`).

use crate::{CommitOrder, Version};

/// The comparisons; [`Rules::ALL_RIGHT`] are the right ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether a snapshot lacks a commit: what makes an antidependency of a read that the commit overwrote.
    pub(crate) is_unseen: fn(commit: CommitOrder, begin: Version) -> bool,
    /// Whether the first of two commits is the earlier: which of the out-edges is the first.
    pub(crate) is_earlier: fn(one: CommitOrder, other: CommitOrder) -> bool,
    /// Pivot, with a `V` that wrote: `U` is `V` itself or committed before it.
    pub(crate) is_pivot: fn(first_out: CommitOrder, reader: CommitOrder) -> bool,
    /// Pivot, with a `V` that wrote nothing and stands where its snapshot does.
    pub(crate) is_pivot_of_reader: fn(first_out: CommitOrder, begin: Version) -> bool,
    /// Source, if `T` writes: `U` had an out-edge, whichever, when it committed.
    pub(crate) is_source: fn(other_first_out: CommitOrder) -> bool,
    /// Source, if `T` wrote nothing.
    pub(crate) is_reading_source: fn(other_first_out: CommitOrder, begin: Version) -> bool,
    /// Whether `T`, which the boundary has passed, would have to be in safe snapshots that are being read.
    pub(crate) is_too_late: fn(first_out: CommitOrder, boundary: Version) -> bool,
    /// Whether a transaction beyond the boundary belongs to the safe snapshot.
    pub(crate) is_member: fn(first_out: CommitOrder, boundary: Version) -> bool,
}

impl Rules {
    /// Those of which `README.md` beside this file has the proof.
    pub(crate) const ALL_RIGHT: Self = Self {
        is_unseen: |commit, begin| commit.version > begin,
        is_earlier: |one, other| one < other,
        is_pivot: |first_out, reader| first_out <= reader,
        is_pivot_of_reader: |first_out, begin| first_out.version <= begin,
        is_source: |_| true,
        is_reading_source: |other_first_out, begin| other_first_out.version <= begin,
        is_too_late: |first_out, boundary| first_out.version <= boundary,
        is_member: |first_out, boundary| first_out.version <= boundary,
    };
}
