// SPDX-License-Identifier: Apache-2.0
//! [`LogWriter`]: the thread that writes and syncs, so that nobody else waits for a disk, and one that makes room for it.
//!
//! ```text
//!   the log's thread     batch  batch | batch   batch | batch  batch  batch | Turn::finish | batch
//!      to the log          x      x       x       x       x      x      x
//!      to the next log                  (kept for it)  x  x      x      x                      x
//!   another thread                    | Turn::begin   | Turn::work          |
//! ```
//! What takes long of a turn is no reason for batches to wait: somebody waits for each of them.

use super::{Batch, LogError, LogFile};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle, panicking};

/// How a log goes on in another file. Until it has turned the log counts, and has all batches; the next one has them too, behind what it
/// began with.
pub(crate) trait Turn: Send + 'static {
    /// Makes the next log, with what it begins with, and syncs that, while batches are written.
    ///
    /// # Errors
    /// If the file system refuses.
    fn begin(&mut self) -> Result<LogFile, LogError>;

    /// Does what else has to be done before the next log may count, while batches are written.
    ///
    /// # Errors
    /// If the file system refuses.
    fn work(&mut self) -> Result<(), LogError>;

    /// Has the next log count from here on; what was written to it since it began is not synced yet. Batches wait for this.
    ///
    /// # Errors
    /// If the file system refuses. Nobody knows which of the two counts then, and both have all batches.
    fn finish(self: Box<Self>, next: LogFile) -> Result<LogFile, LogError>;
}

/// A turn on its way, and how the log's thread is told of it.
struct OnItsWay {
    turn: Box<dyn Turn>,
    back: Sender<Job>,
}

/// What the log's thread is to do.
enum Job {
    Write(Vec<Batch>, u64),
    Turn(OnItsWay),
    /// The next log is there, or is not.
    Begun(OnItsWay, Result<LogFile, LogError>),
    /// The work of a turn is done, or has failed.
    Worked(Box<dyn Turn>, Result<(), LogError>),
    /// The other thread has ended within a turn.
    Stopped,
}

/// What the other thread is to do.
enum Task {
    Begin(OnItsWay),
    Work(OnItsWay),
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
    turning: Turning,
    worker: Sender<Task>,
}

/// How far a turn is.
enum Turning {
    /// There is none.
    No,
    /// The next log is being made. These batches are to be in it.
    Begins(Vec<Batch>),
    /// The next log is there, and gets all batches.
    Works(LogFile),
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
        let (worker, tasks) = channel::<Task>();
        let work = move || tasks.into_iter().for_each(Task::run);
        let other = Builder::new().name("cluster-round".to_owned()).spawn(work)?;
        let mut logs = Logs { file, turning: Turning::No, worker };
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
        Ok(Self { jobs: Some(jobs), threads: vec![thread, other] })
    }

    /// Has batches written and synced, one behind the other.
    pub(crate) fn write(&self, batches: Vec<Batch>, number: u64) {
        self.give(|_| Job::Write(batches, number));
    }

    /// Has the log go on in another file, which begins behind all that was given before. The turn before is over.
    pub(crate) fn turn(&self, turn: Box<dyn Turn>) {
        self.give(|jobs| Job::Turn(OnItsWay { turn, back: jobs.clone() }));
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
            Job::Turn(turn) => {
                let before = std::mem::replace(&mut self.turning, Turning::Begins(Vec::new()));
                assert!(matches!(before, Turning::No), "a turn begins behind the end of the one before");
                self.ask(Task::Begin(turn));
            }
            Job::Begun(turn, begun) => {
                let mut next = begun?;
                if let Turning::Begins(batches) = &mut self.turning {
                    batches.iter_mut().try_for_each(|batch| next.write_unsynced(batch))?;
                }
                self.turning = Turning::Works(next);
                self.ask(Task::Work(turn));
            }
            Job::Worked(turn, worked) => {
                worked?;
                if let Turning::Works(next) = std::mem::replace(&mut self.turning, Turning::No) {
                    self.file = turn.finish(next)?;
                }
            }
            Job::Stopped => {
                let error = io::Error::other("the thread that writes rows has ended");
                return Err(LogError::File { path: self.file.path().to_owned(), error });
            }
        }
        Ok(None)
    }

    fn ask(&self, task: Task) {
        // If that thread has ended, it has said so.
        let _ = self.worker.send(task);
    }

    fn write(&mut self, mut batch: Batch) -> Result<(), LogError> {
        if let Turning::Works(next) = &mut self.turning {
            next.write_unsynced(&mut batch)?;
        }
        self.file.write_kept(&mut batch)?;
        if let Turning::Begins(batches) = &mut self.turning {
            batches.push(batch);
        }
        Ok(())
    }
}

impl Task {
    /// Does it, and says so. Once something has failed, nobody listens.
    fn run(self) {
        match self {
            Self::Begin(OnItsWay { mut turn, back }) => {
                let _said = SaidIfStopped(back.clone());
                let begun = turn.begin();
                let job = Job::Begun(OnItsWay { turn, back: back.clone() }, begun);
                let _ = back.send(job);
            }
            Self::Work(OnItsWay { mut turn, back }) => {
                let _said = SaidIfStopped(back.clone());
                let worked = turn.work();
                let _ = back.send(Job::Worked(turn, worked));
            }
        }
    }
}

/// Has the log's thread told if this one ends by a panic: it would keep batches for a log that nobody makes.
struct SaidIfStopped(Sender<Job>);

impl Drop for SaidIfStopped {
    fn drop(&mut self) {
        if panicking() {
            let _ = self.0.send(Job::Stopped);
        }
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
