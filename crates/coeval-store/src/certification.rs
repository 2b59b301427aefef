// SPDX-License-Identifier: Apache-2.0
//! [`Certification`]: what a serializable transaction brings to its commit, and the registration that it keeps until then
//! (`serializable.rs`).

use crate::reads::ReadSet;
use crate::world::World;
use coeval_txn::Version;
use coeval_txn::ssi::{BoundaryGuard, EndedRegistration};
use std::sync::Arc;

/// Keeps a read-write serializable transaction registered; with the world of its snapshot.
pub(crate) type ActiveGuard = BoundaryGuard<Arc<World>>;

/// What such a registration leaves behind.
pub(crate) type EndedGuard = EndedRegistration<Arc<World>>;

/// What a transaction brings to certification.
#[derive(Debug)]
pub(crate) struct Certification {
    pub(crate) begin: Version,
    pub(crate) reads: ReadSet,
    /// None for a reader that was declared one.
    pub(crate) guard: Option<Arc<ActiveGuard>>,
}
