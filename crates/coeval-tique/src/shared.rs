// SPDX-License-Identifier: Apache-2.0
//! What the handles and sessions of a database share.

use crate::catalog::Catalog;
use crate::commit::Pipeline;
use crate::engine::Engine;
use crate::error::{Result, canceled};
use crate::interrupt::{LOOK, is_interrupted};
use crate::options::Options;
use parking_lot::{Mutex, MutexGuard, RwLock};
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

/// Waits for a lock that is held around calls of the engine, which may take long: the ones of definitions and of checkpoints.
///
/// # Errors
/// 57014: the wait was [interrupted](is_interrupted).
pub(crate) fn locked<T>(lock: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    loop {
        if let Some(guard) = lock.try_lock_for(LOOK) {
            return Ok(guard);
        }
        if is_interrupted() {
            return Err(canceled());
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SqlState;
    use crate::interrupt::{Interrupt, interruptible};

    #[test]
    fn who_waits_for_a_definition_or_a_checkpoint_hears_that_it_is_to_end() {
        let lock = Mutex::new(());
        let interrupt: Interrupt = Arc::new(|| true);
        let wait = || interruptible(Some(Arc::clone(&interrupt)), || locked(&lock).map(drop));
        assert_eq!(wait().map_err(|error| error.state), Ok(()), "nobody has it");
        let held = lock.lock();
        assert_eq!(wait().map_err(|error| error.state), Err(SqlState::QueryCanceled));
        drop(held);
    }
}
