// SPDX-License-Identifier: Apache-2.0
//! [`StoreFiles`]: the files of a node's store, and the order in which a round changes them.
//!
//! ```text
//!   epochs-<n>.log    the log; of several the last one counts, which begins with what it goes on from
//!   bricks-<n>.rows   the rows that round n has flushed
//!   unfinished        the next log on its way: of no meaning
//! ```
//! A round begins the next log as `unfinished`, which from then on gets all that the log gets, and writes its rows to a new file; when that
//! is synced, and the next log is too, it renames that. With the name the next log counts, and all before does not: older logs go, and rows of rounds that the next log does not name. Whatever else a
//! crash leaves behind goes when the store is opened.

use super::round::Round;
use crate::log::{Durability, LogError, LogFile};
use crate::wire::{FlushedBrick, LogHead, decode};
use bytes::Bytes;
use coeval_txn::Epoch;
use std::fs::{metadata, read_dir, remove_file};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const UNFINISHED: &str = "unfinished";

/// Once the rows of so many rounds count, the next one flushes all rows again, if as much was flushed since that was done last: so a row is
/// written about twice, however many there are beside it.
const ROUNDS_MIN: usize = 16;

/// With so many it does so in any case: a start opens a file for each.
const ROUNDS_MAX: usize = 512;

/// The files of a store. It is the log's thread that changes them, and that which writes the rows of a round. Clones are of the same store.
#[derive(Clone)]
pub(super) struct StoreFiles {
    directory: PathBuf,
    durability: Durability,
    /// The number of the log.
    log: u64,
    /// The rounds that count.
    rounds: Vec<u64>,
    flushed: Arc<FlushedBytes>,
    /// Tests have a crash after so many steps.
    #[cfg(test)]
    pub(super) steps_left: Option<usize>,
    #[cfg(test)]
    pub(super) order: FileOrder,
}

/// What the rounds that count have flushed. It changes with each round, when its rows are written.
#[derive(Default)]
struct FlushedBytes {
    /// The first of them: all rows that there were.
    all: AtomicU64,
    /// Those since.
    since: AtomicU64,
}

impl FlushedBytes {
    /// Notes the rows of a round, behind so many that count.
    fn note(&self, before: usize, bytes: u64) {
        if before == 0 {
            self.all.store(bytes, Ordering::Relaxed);
            self.since.store(0, Ordering::Relaxed);
        } else {
            self.since.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Whether as much was flushed since as all rows were.
    fn has_doubled(&self) -> bool {
        self.since.load(Ordering::Relaxed) >= self.all.load(Ordering::Relaxed)
    }
}

/// When files go that do not count any more.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileOrder {
    /// When others count in their place.
    NewBeforeOld,
    /// Before: a test sees what that leads to.
    OldFirst,
}

/// What an opened store has in its files.
pub(super) struct OpenedFiles {
    pub(super) files: StoreFiles,
    pub(super) log: LogFile,
    /// The records of the log, without its head.
    pub(super) records: Vec<Bytes>,
    /// Up to where rounds have flushed.
    pub(super) through: Epoch,
    /// What they have, in their order.
    pub(super) flushed: Vec<FlushedBrick>,
}

impl StoreFiles {
    /// Opens the files in a directory, or makes a log without records.
    ///
    /// # Errors
    /// If they cannot be used.
    pub(super) fn open(directory: &Path, durability: Durability) -> Result<OpenedFiles, LogError> {
        let in_directory = |error| LogError::File { path: directory.to_owned(), error };
        let logs = numbers(directory, "epochs-", ".log").map_err(in_directory)?;
        let number = logs.last().copied().unwrap_or(1);
        // Before a log is made in its place: of that one the rows would count no more, and go.
        if logs.is_empty() && !numbers(directory, "bricks-", ".rows").map_err(in_directory)?.is_empty() {
            let what = "there are flushed rows, and the log that names them is missing";
            return Err(LogError::Foreign { path: directory.to_owned(), what });
        }
        let mut files = Self {
            directory: directory.to_owned(),
            durability,
            log: number,
            rounds: Vec::new(),
            flushed: Arc::default(),
            #[cfg(test)]
            steps_left: None,
            #[cfg(test)]
            order: FileOrder::NewBeforeOld,
        };
        let path = files.log_path(number);
        // Who has this one open has all of them: nobody else changes the directory.
        let (log, records) = LogFile::open(&path, durability)?;
        let (mut records, mut through) = (records.into_iter(), Epoch::ZERO);
        let foreign = |what| LogError::Foreign { path: path.clone(), what };
        if number > 1 {
            let head = records.next().ok_or_else(|| foreign("it has no head"))?;
            let head: LogHead = decode(head).map_err(|_| foreign("it begins with something else"))?;
            if (records.len() as u64) < head.records {
                return Err(foreign("not all is there that it begins with"));
            }
            (files.rounds, through) = (head.rounds, head.through);
        }
        files.remove_rest()?;
        let mut flushed = Vec::new();
        for (before, round) in files.rounds.iter().enumerate() {
            let path = files.rows_path(*round);
            files.flushed.note(before, bytes_of(&path)?);
            for record in LogFile::read_finished(&path)? {
                let what = "a record has something else in it";
                let brick = decode(record).map_err(|_| LogError::Foreign { path: path.clone(), what })?;
                flushed.push(brick);
            }
        }
        Ok(OpenedFiles { files, log, records: records.collect(), through, flushed })
    }

    fn log_path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("epochs-{number}.log"))
    }

    fn rows_path(&self, round: u64) -> PathBuf {
        self.directory.join(format!("bricks-{round}.rows"))
    }

    /// Whether the next round flushes all rows, so that those of earlier ones count no more.
    pub(super) fn is_next_anew(&self) -> bool {
        let count = self.rounds.len();
        count >= ROUNDS_MAX || (count >= ROUNDS_MIN && self.flushed.has_doubled())
    }

    /// Notes that much of what was flushed is of no use any more: it does not wait for as much to come.
    pub(super) fn note_gone(&self) {
        self.flushed.all.store(0, Ordering::Relaxed);
    }

    /// Notes that a round is under way: its files are the ones from then on. Gives those of before, with which it [begins](Self::begin).
    pub(super) fn next(&mut self) -> Self {
        let before = self.clone();
        self.log += 1;
        if self.is_next_anew() {
            self.rounds.clear();
        }
        self.rounds.push(self.log);
        before
    }

    /// Begins a round: makes the next log, with what it begins with. It is of no meaning yet; what is written to it behind that is synced
    /// when it is to count.
    ///
    /// # Errors
    /// If the file system refuses. What counted before counts still.
    pub(super) fn begin(&mut self, round: &Round) -> Result<LogFile, LogError> {
        self.next();
        self.step()?;
        // What it begins with is synced bit by bit.
        let mut next = self.create(&self.directory.join(UNFINISHED), self.durability)?;
        self.step()?;
        round.write_log(&self.rounds, &mut next)?;
        next.set_durability(Durability::Off);
        self.step()?;
        Ok(next)
    }

    /// Writes the rows of a round, and syncs them.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(super) fn write_rows(&mut self, round: &Round) -> Result<(), LogError> {
        let path = self.rows_path(self.log);
        let mut file = self.create(&path, self.durability)?;
        self.step()?;
        round.write_rows(&mut file)?;
        self.flushed.note(self.rounds.len() - 1, bytes_of(&path)?);
        self.step()
    }

    /// Syncs the next log, which has all batches by now that were written since [`begin`](Self::begin), and has it count.
    ///
    /// # Errors
    /// If the file system refuses. What counted before counts still, or the next log does.
    pub(super) fn finish(mut self, mut next: LogFile) -> Result<LogFile, LogError> {
        #[cfg(test)]
        if self.order == FileOrder::OldFirst {
            self.remove_rest()?;
        }
        next.sync()?;
        next.set_durability(self.durability);
        self.step()?;
        let log = next.renamed(&self.log_path(self.log))?;
        self.step()?;
        self.remove_rest()?;
        Ok(log)
    }

    /// A new file; what is left of an earlier attempt goes.
    fn create(&self, path: &Path, durability: Durability) -> Result<LogFile, LogError> {
        match remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LogError::File { path: path.to_owned(), error });
            }
            _ => {}
        }
        LogFile::open(path, durability).map(|(file, _)| file)
    }

    /// Removes what counts no more.
    fn remove_rest(&mut self) -> Result<(), LogError> {
        let in_directory = |error| LogError::File { path: self.directory.clone(), error };
        let logs = numbers(&self.directory, "epochs-", ".log").map_err(in_directory)?;
        let rounds = numbers(&self.directory, "bricks-", ".rows").map_err(in_directory)?;
        let logs = logs.into_iter().filter(|log| *log < self.log).map(|log| self.log_path(log));
        let rounds = rounds.into_iter().filter(|round| !self.rounds.contains(round));
        let rest: Vec<PathBuf> = logs.chain(rounds.map(|round| self.rows_path(round))).collect();
        for path in rest {
            self.step()?;
            remove_file(&path).map_err(|error| LogError::File { path, error })?;
        }
        Ok(())
    }

    /// Where a test may have the process end.
    #[cfg_attr(not(test), allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests crash here"))]
    fn step(&mut self) -> Result<(), LogError> {
        #[cfg(test)]
        match &mut self.steps_left {
            Some(0) => {
                let error = io::Error::other("the process has ended");
                return Err(LogError::File { path: self.directory.clone(), error });
            }
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }
}

/// How long a file is.
fn bytes_of(path: &Path) -> Result<u64, LogError> {
    let found = metadata(path).map_err(|error| LogError::File { path: path.to_owned(), error })?;
    Ok(found.len())
}

/// The numbers in names of files, ascending.
fn numbers(directory: &Path, before: &str, after: &str) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(before)?.strip_suffix(after));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}
