// SPDX-License-Identifier: Apache-2.0
//! [`SpreadPlace`]: where backups of this server find the rows of tables that are spread over a cluster.
//!
//! Why a place: backups are offered, and the archive is begun, before it is known what the server is in its cluster, so that no log is
//! missed.

use coeval_archive::{ArchiveError, SpreadSnapshot, SpreadSource};
use std::sync::{Arc, OnceLock};

/// See the module. Clones are the same place.
#[derive(Clone, Default)]
pub(super) struct SpreadPlace(Arc<OnceLock<Arc<dyn SpreadSource>>>);

impl SpreadPlace {
    /// This is the node of the server. The first one counts.
    pub(super) fn set(&self, node: Arc<dyn SpreadSource>) {
        // A process is one node.
        let _ = self.0.set(node);
    }

    /// The node of the server, if it is one.
    pub(super) fn node(&self) -> Option<&Arc<dyn SpreadSource>> {
        self.0.get()
    }
}

impl SpreadSource for SpreadPlace {
    fn snapshot(&self) -> Result<Box<dyn SpreadSnapshot>, ArchiveError> {
        let about_to_be = || ArchiveError::Spread("this server is about to be a node".to_owned());
        self.node().ok_or_else(about_to_be)?.snapshot()
    }
}
