// SPDX-License-Identifier: Apache-2.0
//! [`LogWriter`]: the thread that writes and syncs, so that nobody else waits for a disk.

use super::{Batch, LogError, LogFile};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// The thread that writes a log. When this is dropped, it finishes what it was given and ends.
#[derive(Debug)]
pub(crate) struct LogWriter {
    jobs: Option<Sender<Vec<Batch>>>,
    thread: Option<JoinHandle<()>>,
}

impl LogWriter {
    /// Starts it. `done` is called after each job, once all its batches are synced or one could not be; then nothing is
    /// written any more.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(crate) fn start(
        mut file: LogFile,
        done: impl Fn(Result<(), LogError>) + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, taken) = channel::<Vec<Batch>>();
        let thread = Builder::new().name("cluster-log".to_owned()).spawn(move || {
            for batches in taken {
                let written = batches.into_iter().try_for_each(|batch| file.write(batch));
                let has_failed = written.is_err();
                done(written);
                if has_failed {
                    return;
                }
            }
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Has batches written and synced, one behind the other.
    pub(crate) fn write(&self, batches: Vec<Batch>) {
        // Once a write has failed, nobody takes more; `done` has told so.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(batches));
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
