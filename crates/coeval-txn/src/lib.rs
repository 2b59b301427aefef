// SPDX-License-Identifier: Apache-2.0
//! Versions, snapshots and certification: the rules of concurrency control over opaque keys.
//!
//! # Owns
//!
//! The numbers that order commits ([`Version`], [`CommitOrder`], [`TransactionId`]), the registry of the
//! snapshots that transactions hold ([`ActiveSnapshots`]), the decision whether a transaction may commit
//! under snapshot isolation ([`Certifier`], with the cases in [`CONFLICT_RULES`]), and the locks that make one
//! wait for another ([`RowLocks`]). In [`ssi`], whether a serializable one may commit, and what a read safe
//! snapshot holds. For brick tables, the numbers that label rows and the sets that see
//! them ([`Epoch`], [`EpochSet`], [`EpochClock`]; on many nodes [`cluster`]).
//!
//! # Never does
//!
//! I/O, tables, SQL. It starts no thread; waiting for a row lock blocks one only if the caller asks for that. A key is opaque: `Clone + Ord + Hash`, and whoever makes it decides what it
//! stands for (a primary key, an index entry, a table's definition). Worlds are not here either; this crate
//! says which version may be seen and forgotten, the store holds what is in it.
//!
//! # Invariants
//!
//! - Commits are admitted in strictly growing [`CommitOrder`]; a snapshot holds whole batches, so that a
//!   snapshot at version `v` sees all of `v` and nothing of `v.next()`.
//! - A transaction is refused if, and only if, a commit after its snapshot conflicts with it by
//!   [`CONFLICT_RULES`].
//! - What a transaction may still be certified against is never forgotten: certification stops with a panic
//!   rather than answer for a snapshot older than the pruned versions.
//! - Holders of row locks never conflict, and nobody waits for ever unless somebody else runs for ever.
//!
//! # Start reading at
//!
//! `README.md` beside this crate for the theory and the proof sketch, then [`Access`] for the rules as a
//! table, then [`Certifier`]; [`RowLocks`] for the locks. For serializability `src/ssi/README.md`, then
//! [`ssi::Ssi`].

mod access;
mod certifier;
mod epochs;
mod isolation;
mod recent_keys;
mod row_locks;
mod snapshots;
pub mod ssi;
mod version;

pub use access::{Access, CONFLICT_RULES, ConflictRule, Outcome};
pub use certifier::{Certifier, Conflict, LargeFootprint, Precision};
pub use epochs::{BegunEpoch, Epoch, EpochClock, EpochSet, EpochStatus, HeldEpochs, Stride, cluster};
pub use isolation::Isolation;
pub use row_locks::{
    Acquired, Deadlock, DeadlockSearches, DeadlockWait, Interrupt, LockError, LockListing, LockOwner,
    LockState, LockStrength, LockWait, OwnerId, Patience, Requested, RowLocks, Withdrawn,
};
pub use snapshots::{ActiveSnapshots, SnapshotGuard};
pub use version::{CommitOrder, TransactionId, Version};
