// SPDX-License-Identifier: Apache-2.0
//! The syncer: a thread that syncs the log for those that wait without a thread (`publishing.rs`).

use crate::publishing::contained;
use crate::shared::Shared;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Owns the thread, once it is there; dropping it waits until what was asked for is published.
///
/// # Locking
/// `thread` is held while the thread is started, and never together with another lock.
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Syncer {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), thread: Mutex::default() }
    }

    /// Starts it, unless that has been done. Without a thread to be had, whoever asks syncs.
    pub(crate) fn start(&self) {
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.shared.pipeline.publishing.begin_syncer();
        let started = std::thread::Builder::new().name("coeval-syncer".to_owned()).spawn(move || {
            let publishing = &shared.pipeline.publishing;
            if contained(publishing, "in the syncer", || publishing.run_syncer(&shared)).is_err() {
                publishing.lose_syncer();
            }
        });
        match started {
            Ok(started) => *thread = Some(started),
            Err(error) => {
                self.shared.pipeline.publishing.lose_syncer();
                tracing::warn!(%error, "no thread that syncs the log");
            }
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.get_mut().take() {
            self.shared.pipeline.publishing.end_syncer();
            // The thread's own panic has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Syncer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Syncer")
    }
}
