// SPDX-License-Identifier: Apache-2.0
//! What `coeval_changes()` reads of the server's archive: a private copy of the backup before the token, the archived log, and
//! from where that ends the database's own, which is kept for the archive until it is sent.

use coeval::{
    ChangeFeed, ChangeFeedError, ChangeFeedOptions, ChangeSink, ChangeSource, ChangeStart, ChangeToken,
    DiskFiles, Fed, LogMark, LogRecord, Store, StoreError, Version,
};
use coeval_archive::{Archive, ArchivedLog, ArchivedPart, BackupChoice, copy_backup};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of columns that were read and stay in memory.
const DATA_MEMORY: u64 = 64 << 20;

/// How long to wait for what is published and not given yet.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// See the module.
pub(super) struct ArchivedChanges {
    pub(super) archive: Archive,
}

fn failed(error: impl std::fmt::Display) -> ChangeFeedError {
    ChangeFeedError::Output(io::Error::other(error.to_string()))
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
        self.copy(&copy, BackupChoice::UpTo(from.world_before()), sink)?;
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
    /// Copies a backup, unless the sink does not wait for it any more: it may have the size of the database.
    fn copy(
        &self,
        dir: &Path,
        choice: BackupChoice,
        sink: &mut dyn ChangeSink,
    ) -> Result<(), ChangeFeedError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut ended = None;
        let copied = copy_backup(&self.archive.until(Arc::clone(&stop)), dir, choice, &mut |_| {
            if let Err(error) = sink.waiting() {
                stop.store(true, Ordering::Relaxed);
                ended.get_or_insert(error);
            }
        });
        match (ended, copied) {
            (Some(error), _) => Err(ChangeFeedError::Output(error)),
            (None, copied) => copied.map(drop).map_err(failed),
        }
    }

    fn take_archived(
        &self,
        feed: &mut ChangeFeed,
        newest: Version,
        sink: &mut dyn ChangeSink,
    ) -> Result<(), ChangeFeedError> {
        let mut log = ArchivedLog::new(&self.archive, Arc::new(AtomicBool::new(false)));
        while !has_ended(feed, newest) {
            let next = log.next(&feed.terms(), feed.position()).map_err(failed)?;
            let Some(stretch) = next else { break };
            for part in stretch.parts() {
                match part {
                    ArchivedPart::File(file) => {
                        file.write_to(feed.receive_file(file.name())?).map_err(failed)?;
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
                sink.waiting().map_err(ChangeFeedError::Output)?;
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
    use coeval::{Database, FedChange, FedTransaction, TableDef};
    use coeval_archive::{SpreadRows, backup_with};

    /// Waits for nothing.
    struct Impatient;

    impl ChangeSink for Impatient {
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

        fn waiting(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::Interrupted.into())
        }
    }

    /// A statement that was cancelled went on until a copy of the whole database was there. Fails without the look at the sink.
    #[test]
    fn the_copy_of_a_backup_ends_with_who_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("data")).unwrap();
        let mut session = database.session();
        session.execute("CREATE TABLE t (id int PRIMARY KEY)").unwrap();
        session.execute("INSERT INTO t SELECT g FROM generate_series(1, 10000) AS s (g)").unwrap();
        let archive = Archive::create(dir.path().join("archive").to_str().unwrap()).unwrap();
        backup_with(database.store(), &archive, SpreadRows::Elsewhere, &mut |_| {}).unwrap();
        let changes = ArchivedChanges { archive };
        let copied = changes.copy(&dir.path().join("copy"), BackupChoice::Newest, &mut Impatient);
        let kind = match copied {
            Err(ChangeFeedError::Output(error)) => error.kind(),
            other => panic!("{other:?}"),
        };
        assert_eq!(kind, io::ErrorKind::Interrupted);
    }
}
