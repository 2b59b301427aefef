// SPDX-License-Identifier: Apache-2.0
//! What `coeval_changes()` reads of the server's archive: a private copy of the backup before the token, the archived log, and
//! from where that ends the database's own, which is kept for the archive until it is sent.

use coeval::{
    ChangeFeed, ChangeFeedError, ChangeFeedOptions, ChangeSink, ChangeSource, ChangeStart, ChangeToken,
    DiskFiles, Fed, LogMark, LogRecord, Store, StoreError, Version,
};
use coeval_archive::{Archive, ArchivedLog, ArchivedPart, BackupChoice, copy_backup};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes of columns that were read and stay in memory.
const DATA_MEMORY: u64 = 64 << 20;

/// How long to wait for what is published and not given yet, or for the archive, before looking whether to go on.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// See the module.
pub(super) struct ArchivedChanges {
    pub(super) archive: Archive,
}

fn failed(error: impl std::fmt::Display) -> ChangeFeedError {
    ChangeFeedError::Output(io::Error::other(error.to_string()))
}

/// Does something that waits for the archive, on a thread of its own; meanwhile the sink says whether it goes on. If it does not, `stop` is
/// set, and the work is waited for until it has ended.
///
/// # Errors
/// The sink's; [`ChangeFeedError::Output`] if there is no thread.
fn while_wanted<T: Send>(
    sink: &mut dyn ChangeSink,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> Result<T, ChangeFeedError> {
    thread::scope(|scope| {
        let working = thread::Builder::new().name("coeval-changes".to_owned());
        let working = working.spawn_scoped(scope, work).map_err(failed)?;
        let mut wanted = Ok(());
        while !working.is_finished() {
            if wanted.is_ok() {
                wanted = sink.look();
                stop.store(wanted.is_err(), Ordering::Relaxed);
            }
            thread::sleep(LOOK_INTERVAL);
        }
        let done = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        wanted.map(|()| done).map_err(ChangeFeedError::Output)
    })
}

impl ChangeSource for ArchivedChanges {
    fn changes(
        &self,
        store: &Store,
        from: ChangeToken,
        until: Option<ChangeToken>,
        newest: Version,
        sink: &mut dyn ChangeSink,
    ) -> Result<(), ChangeFeedError> {
        let dir = tempfile::Builder::new().prefix("coeval-changes-").tempdir().map_err(failed)?;
        let copy = dir.path().join("copy");
        let choice = BackupChoice::UpTo(from.world_before());
        let stop = Arc::new(AtomicBool::new(false));
        let archive = self.archive.until(Arc::clone(&stop));
        while_wanted(sink, &stop, || copy_backup(&archive, &copy, choice, &mut |_| {}))?.map_err(failed)?;
        let options = ChangeFeedOptions { kept_bytes: 0, data_memory: Some(DATA_MEMORY) };
        let mut feed = ChangeFeed::open(Arc::new(DiskFiles), &copy, ChangeStart::Behind(from), options)?;
        if let Some(until) = until {
            feed = feed.until(until);
        }
        self.take_archived(&mut feed, newest, sink)?;
        from_log(store, &mut feed, newest, sink)
    }
}

impl ArchivedChanges {
    fn take_archived(
        &self,
        feed: &mut ChangeFeed,
        newest: Version,
        sink: &mut dyn ChangeSink,
    ) -> Result<(), ChangeFeedError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut log = ArchivedLog::new(&self.archive, Arc::clone(&stop));
        while !has_ended(feed, newest) {
            let (terms, position) = (feed.terms(), feed.position());
            let next = while_wanted(sink, &stop, || log.next(&terms, position))?.map_err(failed)?;
            let Some(stretch) = next else { break };
            for part in stretch.parts() {
                match part {
                    ArchivedPart::File(file) => {
                        let to = feed.receive_file(file.name())?;
                        while_wanted(sink, &stop, || file.write_to(to))?.map_err(failed)?;
                    }
                    ArchivedPart::Records(records) => feed.take(up_to(records, newest)?, sink)?,
                }
                if has_ended(feed, newest) {
                    return Ok(());
                }
            }
            feed.idle(sink)?;
        }
        Ok(())
    }
}

/// Takes what the archive does not have yet.
fn from_log(
    store: &Store,
    feed: &mut ChangeFeed,
    newest: Version,
    sink: &mut dyn ChangeSink,
) -> Result<(), ChangeFeedError> {
    if has_ended(feed, newest) {
        return Ok(());
    }
    let mut log = store.log_feed(feed.terms().last().map(|term| term.id), feed.position())?;
    while !has_ended(feed, newest) {
        match log.next_piece()? {
            Some(Fed::File(name, mut file)) => {
                let mut received = feed.receive_file(&name)?;
                loop {
                    let bytes = file.read(1 << 20)?;
                    if bytes.is_empty() {
                        break;
                    }
                    received.write(&bytes)?;
                }
                received.finish()?;
            }
            Some(Fed::Records(records)) => feed.take(up_to(&records, newest)?, sink)?,
            Some(Fed::Published(_) | Fed::Boundary(_)) => {}
            None => {
                sink.look().map_err(ChangeFeedError::Output)?;
                log.wait(LOOK_INTERVAL);
            }
        }
    }
    Ok(())
}

fn has_ended(feed: &ChangeFeed, newest: Version) -> bool {
    feed.is_done() || feed.version() >= newest
}

/// The records before those of later versions.
fn up_to(records: &[LogRecord], newest: Version) -> Result<&[LogRecord], StoreError> {
    for (index, record) in records.iter().enumerate() {
        if let LogMark::Batch(version) = LogMark::of(record)?
            && version > newest
        {
            return Ok(&records[..index]);
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval::{FedChange, FedTransaction, TableDef};

    /// Wants what is to come for so many looks.
    struct Wants(u32);

    impl ChangeSink for Wants {
        fn wants(&self, _: &TableDef) -> bool {
            true
        }

        fn change(&mut self, _: &FedTransaction, _: &FedChange<'_>) -> io::Result<()> {
            Ok(())
        }

        fn end(&mut self, _: &FedTransaction) -> io::Result<()> {
            Ok(())
        }

        fn idle(&mut self, _: &ChangeToken) -> io::Result<()> {
            Ok(())
        }

        fn look(&mut self) -> io::Result<()> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::Interrupted)?;
            Ok(())
        }
    }

    /// Fails, without an end, if the sink is not asked or `stop` not set: a statement that asked an archive which did not answer could not be
    /// cancelled for minutes.
    #[test]
    fn an_archive_is_waited_for_as_long_as_somebody_wants_what_it_has() {
        let stop = AtomicBool::new(false);
        assert_eq!(while_wanted(&mut Wants(u32::MAX), &stop, || 7).unwrap(), 7);
        assert!(!stop.load(Ordering::Relaxed));
        let given_up = while_wanted(&mut Wants(3), &stop, || {
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(LOOK_INTERVAL / 10);
            }
        });
        match given_up {
            Err(ChangeFeedError::Output(why)) => assert_eq!(why.kind(), io::ErrorKind::Interrupted),
            other => panic!("{other:?}"),
        }
    }
}
