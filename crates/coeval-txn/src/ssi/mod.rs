// SPDX-License-Identifier: Apache-2.0
//! Serializable snapshot isolation, and the read safe snapshots that are built from its bookkeeping.
//!
//! The theory, the rules, the proof and the costs stand in `README.md` beside this file; then read `rules.rs`
//! and [`Ssi`].
//!
//! ```text
//! while it runs   ReadSet            what a transaction read
//!                 Boundary           who is active; registered before the snapshot is loaded
//! at commit       Ssi                out-edges, source rule, pivot rule; first_out
//! afterwards      Boundary::advance  when a batch is published or a transaction ends
//!                 SafeSnapshots      what the safe world of the new boundary holds
//! on a replica    FollowedSnapshots  the same from the log, and from the worlds it has
//! to read         SessionFloor, Deferral
//! ```

mod boundary;
mod certify;
mod commit_log;
mod conflict;
mod followed;
mod limits;
mod out_edges;
mod range_set;
mod read_marks;
mod read_set;
mod rules;
mod safe_snapshots;
mod space_writes;
mod spaces;

pub use boundary::{Boundary, BoundaryGuard, BoundaryHolder, EndedRegistration, HeldBack, Moved};
pub use certify::{Certified, Ssi, SsiSize};
pub use conflict::{Counterpart, Place, SsiConflict, SsiRule};
pub use followed::FollowedSnapshots;
pub use limits::SsiLimits;
pub use read_set::{ReadLimits, ReadSet};
pub use safe_snapshots::{Deferral, Member, SafeSnapshot, SafeSnapshots, SessionFloor};
pub use space_writes::Written;

#[cfg(test)]
mod tests;
