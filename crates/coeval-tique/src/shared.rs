// SPDX-License-Identifier: Apache-2.0
//! What the handles and sessions of a database share.

use crate::catalog::Catalog;
use crate::commit::Pipeline;
use crate::engine::Engine;
use crate::options::Options;
use parking_lot::{Mutex, RwLock};
use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What all sessions share.
///
/// # Locking
/// `definitions` is held by one CREATE or DROP TABLE at a time, around its calls of the engine; `catalog` for the copy of
/// a pointer, inside it or alone; `checkpoint` by the one checkpoint that runs; `checkpointer` for moments, inside of nothing.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) options: Options,
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    pub(crate) pipeline: Pipeline,
    pub(crate) checkpoint: Mutex<()>,
    /// The last checkpoint in the background.
    pub(crate) checkpointer: Mutex<Option<JoinHandle<()>>>,
    pub(crate) definitions: Mutex<()>,
}

impl Shared {
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    pub(crate) fn cached(&self) -> usize {
        let cached: i64 = self.catalog().tables().map(|table| table.cached()).sum();
        usize::try_from(cached).unwrap_or(0)
    }
}

/// What the handles of a database hold. The last one that is dropped waits for a checkpoint that runs in the background, so that
/// the engine is free then.
pub(crate) struct InUse {
    shared: Arc<Shared>,
}

impl InUse {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }
}

impl Deref for InUse {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let checkpointer = self.shared.checkpointer.lock().take();
        // One that died of a panic has shown it.
        drop(checkpointer.map(JoinHandle::join));
    }
}
