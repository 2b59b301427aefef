// SPDX-License-Identifier: Apache-2.0
//! A session of MonetDB's and the thread that it lives on.
//!
//! The library judges how deep a query is by the stack of the thread that opened the session, so that a session used by
//! another thread refuses queries at random. Whoever uses a session sends what is to be done to its thread, and waits.

use super::interface::{Functions, Handle};
use crate::engine::EngineError;
use std::ffi::CString;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Queries are deep, and the library looks for two megabytes at least.
const STACK_BYTES: usize = 16 << 20;

type Job = Box<dyn FnOnce(&mut Handle) + Send>;

/// A session on a thread of its own. Dropped, it has ended the session.
pub(super) struct Worker {
    /// Nothing once the session is to end.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

fn gone() -> EngineError {
    EngineError::gone("a session of MonetDB's has died")
}

impl Worker {
    /// A worker without a session: what stays in place of one that was moved out.
    pub(super) fn ended() -> Self {
        Self { jobs: None, thread: None }
    }

    /// Opens a session.
    ///
    /// # Errors
    /// What the library says; there is no session then.
    pub(super) fn start(
        functions: &'static Functions,
        directory: Option<CString>,
    ) -> Result<Self, EngineError> {
        let (jobs, queue): (Sender<Job>, Receiver<Job>) = channel();
        let (say, opened) = sync_channel(1);
        let live = move || match Handle::open(functions, directory.as_deref()) {
            Ok(mut handle) => {
                // Who started this waits for it.
                drop(say.send(Ok(())));
                for job in queue {
                    job(&mut handle);
                }
            }
            Err(error) => drop(say.send(Err(error))),
        };
        let thread = Builder::new().name("tique-monetdb".to_owned()).stack_size(STACK_BYTES).spawn(live);
        let thread = thread.map_err(|error| EngineError::refused(format!("there is no thread: {error}")))?;
        let worker = Self { jobs: Some(jobs), thread: Some(thread) };
        opened.recv().unwrap_or_else(|_| Err(gone()))?;
        Ok(worker)
    }

    /// Does something with the session, on its thread.
    ///
    /// # Errors
    /// What the job says; or the session has died, and it is not known what the job did.
    pub(super) fn run<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Handle) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (say, outcome) = sync_channel(1);
        let job: Job = Box::new(move |handle| drop(say.send(job(handle))));
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        outcome.recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It died of a panic that was shown when it happened.
            drop(thread.join());
        }
    }
}
