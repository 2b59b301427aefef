// SPDX-License-Identifier: Apache-2.0
//! Following a primary over the wire, or its archive.
//!
//! # Owns
//! The client's side of a replication connection: where the primary is ([`PrimaryAddress`]), saying who one is, the base copy
//! ([`copy_database`]), and the thread that takes the log into a store and connects again when it has to ([`Replica`]). When
//! it takes the log from the archive instead ([`Sources`]); what lies there is read by `coeval-archive`. The same for a feed of
//! changes, which takes nothing that is not published ([`Feeding`]).
//!
//! # Never does
//! Anything to data: `coeval-store` makes the copy of files and applies records ([`coeval_store::Follower`]). No SQL.
//!
//! # Invariants
//! - What the primary is told to be durable here is.
//! - Whatever goes wrong with the connection, the store stays as it is and can be read; following goes on where it was.
//! - A primary or an archive of another database, or of another history, is never followed.
//! - A primary of a timeline below a promised one is told nothing (`coeval-store/src/promises.rs`).
//!
//! # Start reading at
//! [`Replica`], then `replica/primary.rs` and `link.rs`, `replica/archive.rs`; `promotion.rs` for a failover.

mod address;
mod copying;
mod error;
mod feeding;
mod link;
mod peer;
mod primary_watch;
mod promotion;
mod rejoining;
mod replica;
mod source;
mod tls;
mod wire;

pub use address::{PrimaryAddress, TlsMode};
pub use copying::copy_database;
pub use error::ReplicaError;
pub use feeding::{FeedEnd, Feeding};
pub use link::Link;
pub use peer::Peer;
pub use primary_watch::PrimaryWatch;
pub use promotion::{Loss, PromotionError, promises_for};
pub use rejoining::{Kinship, NewHistory, kinship};
pub use replica::{Replica, ReplicaState, ReplicaStatus, ReplicaWatch};
pub use source::{ArchiveSource, SourceAddress, Sources};
