// SPDX-License-Identifier: Apache-2.0
//! [`LogWriter`]: the thread that writes and syncs, so that nobody else waits for a disk, and one that makes room for it.
//!
//! ```text
//!   the log's thread     batch  batch | Turn::begin | batch  batch  batch  | Turn::finish | batch
//!      to the log          x      x                     x      x      x
//!      to the next log                      x           x      x      x            x          x
//!   another thread                          | Turn::work .............. |
//! ```
//! What takes long of a turn is no reason for batches to wait: somebody waits for each of them.

use super::{Batch, LogError, LogFile};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// How a log goes on in another file. Until it has turned the log counts, and has all batches; the next one has them too, behind what it
/// began with.
pub(crate) trait Turn: Send + 'static {
    /// Makes the next log, with what it begins with. It need not be synced.
    ///
    /// # Errors
    /// If the file system refuses.
    fn begin(&mut self) -> Result<LogFile, LogError>;

    /// Does what has to be done before the next log may count, while batches are written.
    ///
    /// # Errors
    /// If the file system refuses.
    fn work(&mut self) -> Result<(), LogError>;

    /// Has the next log count from here on.
    ///
    /// # Errors
    /// If the file system refuses. Nobody knows which of the two counts then, and both have all batches.
    fn finish(self: Box<Self>, next: LogFile) -> Result<LogFile, LogError>;
}

enum Job {
    Write(Vec<Batch>, u64),
    /// With a way back here.
    Turn(Box<dyn Turn>, Sender<Job>),
    /// The work of a turn is done, or has failed.
    Worked(Box<dyn Turn>, Result<(), LogError>),
}

/// The thread that writes a log. When this is dropped, it finishes what it was given, a turn too, and ends.
#[derive(Debug)]
pub(crate) struct LogWriter {
    jobs: Option<Sender<Job>>,
    /// The log's, and then that which ends when the log's has.
    threads: Vec<JoinHandle<()>>,
}

/// What the log's thread has.
struct Logs {
    file: LogFile,
    /// The log that is to go on, during a turn.
    next: Option<LogFile>,
    /// The thread that works for turns.
    workers: Sender<(Box<dyn Turn>, Sender<Job>)>,
}

impl LogWriter {
    /// Starts it. `done` is called after batches, once all of a job are synced, with the number that they came with; and once
    /// something has gone wrong: then nothing is written any more.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(crate) fn start(
        file: LogFile,
        done: impl Fn(Result<u64, LogError>) + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, taken) = channel::<Job>();
        let (workers, to_do) = channel::<(Box<dyn Turn>, Sender<Job>)>();
        let worker = Builder::new().name("cluster-round".to_owned()).spawn(move || {
            for (mut turn, back) in to_do {
                let worked = turn.work();
                // Once something has failed, nobody takes more.
                let _ = back.send(Job::Worked(turn, worked));
            }
        })?;
        let mut logs = Logs { file, next: None, workers };
        let thread = Builder::new().name("cluster-log".to_owned()).spawn(move || {
            for job in taken {
                match logs.work(job) {
                    Ok(None) => {}
                    Ok(Some(number)) => done(Ok(number)),
                    Err(error) => {
                        done(Err(error));
                        return;
                    }
                }
            }
        })?;
        Ok(Self { jobs: Some(jobs), threads: vec![thread, worker] })
    }

    /// Has batches written and synced, one behind the other.
    pub(crate) fn write(&self, batches: Vec<Batch>, number: u64) {
        self.give(|_| Job::Write(batches, number));
    }

    /// Has the log go on in another file, which begins behind all that was given before. The turn before is over.
    pub(crate) fn turn(&self, turn: Box<dyn Turn>) {
        self.give(|jobs| Job::Turn(turn, jobs.clone()));
    }

    fn give(&self, job: impl FnOnce(&Sender<Job>) -> Job) {
        if let Some(jobs) = &self.jobs {
            // Once something has failed, nobody takes more; `done` has told so.
            let _ = jobs.send(job(jobs));
        }
    }
}

impl Logs {
    /// Does a job; the number of batches that are synced.
    fn work(&mut self, job: Job) -> Result<Option<u64>, LogError> {
        match job {
            Job::Write(batches, number) => {
                batches.into_iter().try_for_each(|batch| self.write(batch))?;
                return Ok(Some(number));
            }
            Job::Turn(mut turn, back) => {
                assert!(self.next.is_none(), "one turn begins behind the end of the one before");
                self.next = Some(turn.begin()?);
                // If that thread has ended, by a panic, this log goes on and gets no shorter.
                let _ = self.workers.send((turn, back));
            }
            Job::Worked(turn, worked) => {
                worked?;
                let next = self.next.take().expect("a turn has begun whose work is done");
                self.file = turn.finish(next)?;
            }
        }
        Ok(None)
    }

    fn write(&mut self, mut batch: Batch) -> Result<(), LogError> {
        if let Some(next) = &mut self.next {
            next.write_unsynced(&mut batch)?;
        }
        self.file.write(batch)
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
