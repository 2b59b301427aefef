// SPDX-License-Identifier: Apache-2.0
//! [`Publication`]: waiting for a version without a thread that waits (`publishing.rs`).

use crate::error::StoreError;
use crate::shared::Shared;
use coeval_txn::Version;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Ready when a version is published: what was made of it may be given out then.
///
/// The version is published whether or not this is polled or kept. Belongs to no runtime.
#[must_use = "what it stands for is not durable yet"]
pub struct Publication {
    shared: Arc<Shared>,
    version: Version,
    /// Where its waker is.
    place: Option<usize>,
}

impl Publication {
    pub(crate) fn new(shared: Arc<Shared>, version: Version) -> Self {
        shared.pipeline.publishing.ask(&shared, version);
        Self { shared, version, place: None }
    }

    /// Whether it may wait for replicas, which may take as long as they like.
    #[must_use]
    pub fn may_await_replicas(&self) -> bool {
        self.shared.replicas.are_required()
    }

    /// Whether nothing but replicas is waited for: it is durable here.
    #[must_use]
    pub fn awaits_replicas(&self) -> bool {
        self.may_await_replicas() && self.shared.pipeline.publishing.is_durable(self.version)
    }
}

impl Future for Publication {
    /// # Errors
    /// [`StoreError::OutcomeUnknown`] if the log failed: the version will not be published before the next open.
    type Output = Result<(), StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, version, place } = self.get_mut();
        let published = shared.pipeline.publishing.poll(shared, *version, context.waker(), place);
        published.map_err(StoreError::under_commit)
    }
}

impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Publication").field(&self.version).finish()
    }
}
