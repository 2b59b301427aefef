// SPDX-License-Identifier: Apache-2.0
//! [`LogWriter`]: the thread that writes and syncs, so that nobody else waits for a disk.

use super::{Batch, LogError, LogFile};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Something to be done with a log between two batches; it may go on with another file.
pub(crate) type Turn = Box<dyn FnOnce(&mut LogFile) -> Result<(), LogError> + Send>;

enum Job {
    Write(Vec<Batch>, u64),
    Turn(Turn),
}

/// The thread that writes a log. When this is dropped, it finishes what it was given and ends.
#[derive(Debug)]
pub(crate) struct LogWriter {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl LogWriter {
    /// Starts it. `done` is called after batches, once all of a job are synced, with the number that they came with; and once
    /// something has gone wrong: then nothing is written any more.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(crate) fn start(
        mut file: LogFile,
        done: impl Fn(Result<u64, LogError>) + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, taken) = channel::<Job>();
        let thread = Builder::new().name("cluster-log".to_owned()).spawn(move || {
            for job in taken {
                let outcome = match job {
                    Job::Write(batches, number) => {
                        let written = batches.into_iter().try_for_each(|batch| file.write(batch));
                        written.map(|()| done(Ok(number)))
                    }
                    Job::Turn(turn) => turn(&mut file),
                };
                if let Err(error) = outcome {
                    done(Err(error));
                    return;
                }
            }
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Has batches written and synced, one behind the other.
    pub(crate) fn write(&self, batches: Vec<Batch>, number: u64) {
        self.give(Job::Write(batches, number));
    }

    /// Has something done once all that was given before is written.
    pub(crate) fn turn(&self, turn: Turn) {
        self.give(Job::Turn(turn));
    }

    fn give(&self, job: Job) {
        // Once something has failed, nobody takes more; `done` has told so.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
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
