// SPDX-License-Identifier: Apache-2.0
//! Row locks: who may go on with a row, and who waits for whom.
//!
//! Why: certification decides who commits, and refuses the second of two writers of a row. A lock makes the
//! second one wait until the first has ended, so that it can look at the row again and go on. It replaces
//! nothing: whoever holds a lock is certified like anybody else.
//!
//! ```text
//! LockOwner (one per transaction)           RowLocks (one per store), divided by the key's hash
//!   grants: [key a, key c]  ------------->    key a: holders [T1 UPDATE]    queue [T2 UPDATE, T3 SHARE]
//!   waiting: nothing                          key c: holders [T1 SHARE, T4 SHARE]
//! ```
//!
//! # Rules
//! - *Conflicts.* [`LockStrength`] gives the matrix. Locks of one owner never conflict with each other.
//! - *Order.* A request is granted at once if it conflicts with no other holder and with nobody who waits
//!   already; otherwise it goes to the end of the queue. So nobody is overtaken by a request that it conflicts
//!   with. An owner that holds a weaker lock of the key and wants a stronger one looks at holders only:
//!   whoever waits for it would wait for ever otherwise.
//! - *End.* Locks end together, from the last to the first ([`LockOwner::release_after`]); what was made
//!   stronger since becomes again what it was.
//! - *Deadlock.* When a wait begins (or some time later, as the caller likes) the graph of who waits for whom
//!   is searched, once, for a way back to the one who begins. A circle of waits for holders makes it the victim. If
//!   only the order of queues closes the circle, the queues are put into an order that does not.
//!
//! The README beside this crate proves that this finds every deadlock, and nothing else.
//!
//! # Cost
//! An uncontended lock is one short critical section over a hash table's slot when it is taken and one when it
//! ends, together far below a microsecond. Waiting costs an allocation and an entry in the list of waits; the
//! search for deadlocks holds all shards for the time of a walk over holders, and over waits only if these leave a
//! circle possible. How many wait for a row already matters to neither who queues nor who ends a lock; a request that
//! is taken back is looked for in its queue. A transaction without locks pays nothing.

mod deadlock;
mod entry;
mod owner;
mod owner_id;
mod strength;
mod table;
mod turn;

pub use deadlock::{Deadlock, DeadlockWait};
pub use owner::{Acquired, Interrupt, LockError, LockOwner, LockWait, Patience, Requested, Withdrawn};
pub use owner_id::OwnerId;
pub use strength::LockStrength;
pub use table::{DeadlockSearches, LockListing, LockState, RowLocks};
pub(crate) use turn::waker_of_this_thread;

#[cfg(test)]
mod tests;
