// SPDX-License-Identifier: Apache-2.0
use super::{Batch, Durability, LogError, LogFile, LogWriter, Turn};
use bytes::Bytes;
use std::fs::{Permissions, copy, metadata, read, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

fn batch(records: &[&[u8]]) -> Batch {
    let mut batch = Batch::new();
    records.iter().for_each(|record| batch.push(record));
    batch
}

fn records_in(path: &Path) -> Result<Vec<Bytes>, LogError> {
    LogFile::open(path, Durability::Synced).map(|(_, records)| records)
}

/// A log of two batches, and how long it is after the first.
fn two_batches(path: &Path) -> usize {
    let (mut log, records) = LogFile::open(path, Durability::Synced).unwrap();
    assert!(records.is_empty());
    log.write(batch(&[b"one", b""])).unwrap();
    let first = read(path).unwrap().len();
    log.write(batch(&[b"three"])).unwrap();
    first
}

#[test]
fn what_was_written_is_there_and_more_goes_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    two_batches(&path);
    let (mut log, records) = LogFile::open(&path, Durability::Synced).unwrap();
    assert_eq!(records, [&b"one"[..], b"", b"three"]);
    log.write(batch(&[b"four"])).unwrap();
    drop(log);
    assert_eq!(records_in(&path).unwrap().len(), 4);
}

#[test]
fn a_torn_end_is_cut_wherever_it_is_torn() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let first = two_batches(&path);
    let whole = read(&path).unwrap();
    for length in 0..whole.len() {
        write(&path, &whole[..length]).unwrap();
        let expected = if length >= first { 2 } else { 0 };
        assert_eq!(records_in(&path).unwrap().len(), expected, "{length} of {} bytes", whole.len());
        // What follows is written behind what is left, and read again.
        let (mut log, _) = LogFile::open(&path, Durability::Synced).unwrap();
        log.write(batch(&[b"after"])).unwrap();
        drop(log);
        assert_eq!(records_in(&path).unwrap().len(), expected + 1);
    }
    // The last batch may also have its length and not its bytes.
    let mut hollow = whole.clone();
    hollow[first..].fill(0);
    write(&path, hollow).unwrap();
    assert_eq!(records_in(&path).unwrap().len(), 2);
}

#[test]
fn damage_before_the_end_is_no_torn_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let first = two_batches(&path);
    let whole = read(&path).unwrap();
    for at in 12..first {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        write(&path, damaged).unwrap();
        assert!(matches!(records_in(&path), Err(LogError::Damaged { at: 12, .. })), "byte {at}");
    }
    for at in 0..12 {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        write(&path, damaged).unwrap();
        assert!(matches!(records_in(&path), Err(LogError::Foreign { .. })), "byte {at}");
    }
}

#[test]
fn a_log_is_open_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let (_log, _) = LogFile::open(&path, Durability::Off).unwrap();
    assert!(matches!(records_in(&path), Err(LogError::InUse(_))));
}

#[test]
fn the_writer_says_when_what_it_was_given_is_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let (log, _) = LogFile::open(&path, Durability::Synced).unwrap();
    let (told, synced) = channel();
    let writer = LogWriter::start(log, move |written| told.send(written.ok()).unwrap()).unwrap();
    writer.write(vec![batch(&[b"one"]), batch(&[b"two"])], 2);
    assert_eq!(synced.recv(), Ok(Some(2)));
    writer.write(vec![batch(&[b"three"])], 3);
    drop(writer);
    assert_eq!(records_in(&path).unwrap(), [&b"one"[..], b"two", b"three"]);
}

/// A turn whose work takes until somebody says so.
struct SlowTurn {
    path: PathBuf,
    may_end: Receiver<()>,
}

impl Turn for SlowTurn {
    fn begin(&mut self) -> Result<LogFile, LogError> {
        let (mut next, _) = LogFile::open(&self.path.with_extension("unfinished"), Durability::Off)?;
        next.write(batch(&[b"begins"]))?;
        Ok(next)
    }

    fn work(&mut self) -> Result<(), LogError> {
        // An end without a word is one too.
        let _ = self.may_end.recv();
        Ok(())
    }

    fn finish(self: Box<Self>, next: LogFile) -> Result<LogFile, LogError> {
        next.sync()?;
        next.renamed(&self.path)
    }
}

/// To break it: have the log's thread do the work. Or write batches to one of the logs alone: a process that ends before the turn, or
/// behind it, has lost some then.
#[test]
fn batches_do_not_wait_for_a_turn_and_are_in_both_logs() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (log, _) = LogFile::open(&at("log"), Durability::Synced).unwrap();
    let (told, synced) = channel();
    let writer = LogWriter::start(log, move |written| told.send(written.ok()).unwrap()).unwrap();
    writer.write(vec![batch(&[b"one"])], 1);
    assert_eq!(synced.recv(), Ok(Some(1)));
    let (end, may_end) = channel();
    writer.turn(Box::new(SlowTurn { path: at("next"), may_end }));
    writer.write(vec![batch(&[b"two"]), batch(&[b"three"])], 3);
    assert_eq!(synced.recv(), Ok(Some(3)), "while the turn works");
    assert!(!at("next").exists());
    copy(at("log"), at("log as it is")).unwrap();
    assert_eq!(records_in(&at("log as it is")).unwrap(), [&b"one"[..], b"two", b"three"]);
    end.send(()).unwrap();
    writer.write(vec![batch(&[b"four"])], 4);
    drop(writer);
    assert_eq!(synced.recv(), Ok(Some(4)));
    assert_eq!(records_in(&at("next")).unwrap(), [&b"begins"[..], b"two", b"three", b"four"]);
}

/// A turn that is no more than its panic.
struct BrokenTurn;

impl Turn for BrokenTurn {
    fn begin(&mut self) -> Result<LogFile, LogError> {
        panic!("as the test wants it");
    }

    fn work(&mut self) -> Result<(), LogError> {
        Ok(())
    }

    fn finish(self: Box<Self>, next: LogFile) -> Result<LogFile, LogError> {
        Ok(next)
    }
}

#[test]
fn a_turn_that_panics_ends_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = LogFile::open(&directory.path().join("log"), Durability::Off).unwrap();
    let (told, synced) = channel();
    let writer = LogWriter::start(log, move |written| told.send(written.ok()).unwrap()).unwrap();
    writer.turn(Box::new(BrokenTurn));
    assert_eq!(synced.recv(), Ok(None), "nobody waits for what is not written any more");
    drop(writer);
}

/// A turn that the file system refuses.
struct RefusedTurn {
    /// Where its log is; nowhere if that is what is refused.
    next: Option<PathBuf>,
}

impl RefusedTurn {
    fn refusal() -> LogError {
        LogError::File { path: PathBuf::from("next"), error: std::io::Error::other("as the test wants it") }
    }
}

impl Turn for RefusedTurn {
    fn begin(&mut self) -> Result<LogFile, LogError> {
        let next = self.next.as_ref().ok_or_else(Self::refusal)?;
        LogFile::open(next, Durability::Off).map(|(file, _)| file)
    }

    fn work(&mut self) -> Result<(), LogError> {
        Err(Self::refusal())
    }

    fn finish(self: Box<Self>, next: LogFile) -> Result<LogFile, LogError> {
        Ok(next)
    }
}

/// To break it: go on without the next log. The round would count as under way for ever, and the log grow without end.
#[test]
fn a_turn_that_is_refused_ends_the_log_which_has_all_that_was_said_to_be_there() {
    let directory = tempfile::tempdir().unwrap();
    for (name, next) in [("one", None), ("two", Some(directory.path().join("next")))] {
        let path = directory.path().join(name);
        let (log, _) = LogFile::open(&path, Durability::Off).unwrap();
        let (told, synced) = channel();
        let writer = LogWriter::start(log, move |written| told.send(written.ok()).unwrap()).unwrap();
        writer.write(vec![batch(&[b"before"])], 1);
        assert_eq!(synced.recv(), Ok(Some(1)));
        writer.turn(Box::new(RefusedTurn { next }));
        assert_eq!(synced.recv(), Ok(None));
        writer.write(vec![batch(&[b"behind"])], 2);
        drop(writer);
        assert!(synced.recv().is_err(), "nothing is said to be there any more");
        assert_eq!(records_in(&path).unwrap(), [&b"before"[..]]);
    }
}

/// Fails if the file is made without a mode: where others may look into the directory, they read the rows in it.
#[test]
fn nobody_else_can_read_a_log_whoever_may_look_into_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("log");
    drop(LogFile::open(&path, Durability::Off).unwrap());
    assert_eq!(metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
}
