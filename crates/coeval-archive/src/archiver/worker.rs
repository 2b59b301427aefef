// SPDX-License-Identifier: Apache-2.0
//! The archiver's thread.

use super::held_log::HeldLog;
use super::{ArchiverOptions, Shared};
use crate::archive::Archive;
use crate::backup::{Base, KnownFiles};
use crate::collect::{collect_in, remove_own_marks};
use crate::contents::Contents;
use crate::entry::BackupEntry;
use crate::error::ArchiveError;
use crate::gap::Gap;
use crate::history::History;
use crate::log_sender::{LogSender, Sent};
use crate::names::BackupName;
use crate::patience::Patience;
use crate::spread_rows::{SpreadRows, SpreadSource, spread_tables};
use crate::spread_sender::{self, SentSpread};
use coeval_store::log::{LogError, Lsn};
use coeval_store::{LogFeed, LogTime, Store, StoreError, TermHistory};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What waits when the archiver is stopped is given so long for each request.
const LAST_ATTEMPT: Duration = Duration::from_secs(5);

/// See [`LAST_ATTEMPT`].
const LAST_ATTEMPTS: u32 = 3;

/// And all of it so long: what a storage was too slow for may be gigabytes. The rest stays for the next start.
const LAST_TIME_MAX: Duration = Duration::from_secs(30);

/// A backup asks so often before it gives up, and goes on later with what was sent.
const BACKUP_ATTEMPTS: u32 = 4;

/// See the module.
pub(super) struct Worker {
    store: Store,
    archive: Archive,
    options: ArchiverOptions,
    /// Who has the rows of spread tables, if this process has to do with a cluster.
    source: Option<Arc<dyn SpreadSource>>,
    /// The last backup is without them: when they were asked for last.
    owes_rows: Option<Instant>,
    shared: Arc<Shared>,
    /// As long as nothing is sent.
    held: Option<HeldLog>,
    /// When a replica last saw what the archive has.
    looked: Option<Instant>,
    sender: Option<LogSender>,
    /// What the sender had sent when its figures were last added to the status.
    told: Sent,
    known: KnownFiles,
    /// Where the last backup stands, and when it was made.
    last_backup: Option<(Lsn, LogTime)>,
    /// Where the archived log ends whose continuation was let go of.
    let_go: Option<Lsn>,
    /// Whether a collection is due.
    owes_collection: bool,
    /// Whether a collection of this database may have begun and not ended, in whatever process.
    may_have_left_mark: bool,
    failures: u32,
}

/// What an archive has of a database.
struct Archived {
    newest: BackupName,
    /// The log that follows on behind that backup ends here.
    end: Lsn,
}

impl Worker {
    /// From here on the log stays until it is archived.
    pub(super) fn new(
        (store, source): (Store, Option<Arc<dyn SpreadSource>>),
        archive: Archive,
        options: ArchiverOptions,
        shared: Arc<Shared>,
    ) -> Self {
        let archive = archive.until(Arc::clone(&shared.stop));
        // Who cannot hold the log cannot read it either, and is told so.
        let held = HeldLog::begin(&store, options.keep_max).ok();
        Self {
            store,
            archive,
            options,
            source,
            owes_rows: None,
            shared,
            held,
            looked: None,
            sender: None,
            told: Sent::default(),
            known: KnownFiles::new(),
            last_backup: None,
            let_go: None,
            owes_collection: false,
            may_have_left_mark: true,
            failures: 0,
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.is_stopping() {
            let outcome = self.turn();
            self.tell();
            let pause = match outcome {
                Ok(()) => {
                    self.failures = 0;
                    self.shared.tell(|status| (status.failures, status.last_error) = (0, None));
                    self.options.poll
                }
                Err(ArchiveError::Stopping) => break,
                Err(error) => self.note_failure(&error),
            };
            self.let_go_of_too_much();
            self.shared.rest(pause);
        }
        self.send_the_last();
        self.tell();
    }

    /// Notes why something failed; returns for how long to wait.
    fn note_failure(&mut self, error: &ArchiveError) -> Duration {
        self.failures = self.failures.saturating_add(1);
        if is_gone(error) {
            self.let_go("a checkpoint has removed log that was to be archived");
        }
        let pause = self.archive.patience().pause_after(self.failures).max(self.options.poll);
        tracing::warn!(place = self.archive.place(), %error, failures = self.failures, ?pause, "archiving failed");
        let text = error.to_string();
        self.shared.tell(|status| {
            (status.failures, status.last_error) = (self.failures, Some(text));
            (status.failures_in_all, status.last_failed) = (status.failures_in_all + 1, Some(LogTime::now()));
        });
        pause
    }

    /// Sends what there is, and makes a backup if one is due.
    fn turn(&mut self) -> Result<(), ArchiveError> {
        if self.store.is_following() {
            return self.stand_by();
        }
        if self.may_have_left_mark {
            remove_own_marks(&self.archive, &self.store.terms())?;
            self.may_have_left_mark = false;
        }
        if self.sender.is_none() {
            self.begin()?;
        }
        self.send_log()?;
        if self.is_backup_due() {
            self.back_up()?;
        }
        if self.owes_collection {
            if let Some(keep) = self.options.keep {
                self.may_have_left_mark = true;
                let term = self.store.terms().last().map(|term| term.id);
                let report = collect_in(&self.patient(), keep, term)?;
                self.may_have_left_mark = false;
                tracing::info!(place = self.archive.place(), ?report, "the archive was collected");
            }
            self.owes_collection = false;
        }
        Ok(())
    }

    /// On a replica: sends nothing, and lets go of log that the archive has.
    fn stand_by(&mut self) -> Result<(), ArchiveError> {
        if self.looked.is_some_and(|looked| looked.elapsed() < self.options.archive_timeout) {
            return Ok(());
        }
        if self.held.is_none() {
            self.held = Some(HeldLog::begin(&self.store, self.options.keep_max)?);
        }
        // What the archive has is looked for by these terms, and says nothing of what comes meanwhile in another one.
        let (terms, here) = self.store.terms_to_end().ok_or(StoreError::NoDirectory)?;
        if let (Some(Archived { end, .. }), Some(held)) = (self.archived(&terms)?, &mut self.held) {
            held.advance(end, here)?;
            self.shared.tell(|status| status.archived = Some(end));
        }
        self.looked = Some(Instant::now());
        Ok(())
    }

    fn send_log(&mut self) -> Result<(), ArchiveError> {
        let Some(sender) = &mut self.sender else { return Ok(()) };
        loop {
            sender.send()?;
            if self.shared.is_stopping() {
                return Err(ArchiveError::Stopping);
            }
            sender.read()?;
            let timeout = self.options.archive_timeout;
            if sender.growing_since().is_some_and(|since| since.elapsed() >= timeout) {
                sender.close();
            }
            if !sender.has_full() {
                return Ok(());
            }
            let sent = sender.sent().end;
            self.shared.tell(|status| status.archived = Some(sent));
        }
    }

    /// Goes on where the archive ends, or begins with a backup.
    fn begin(&mut self) -> Result<(), ArchiveError> {
        if self.let_go.is_none()
            && let Some(feed) = self.continued()?
        {
            self.send_from(feed);
            return Ok(());
        }
        self.back_up()
    }

    /// The log from where the archive ends, if the archive has a backup of this history and the database that log.
    fn continued(&mut self) -> Result<Option<LogFeed>, ArchiveError> {
        let terms = self.store.terms();
        let Some(Archived { newest, end }) = self.archived(&terms)? else { return Ok(None) };
        self.archive.claim(terms.database_id())?;
        let entry = BackupEntry::fetch(&self.archive, newest)?;
        let made = LogTime::from_micros(entry.made);
        // The term that wrote the record that ends there.
        let before = terms.terms().iter().rfind(|term| term.start < end).or(terms.terms().first());
        match self.store.log_feed(before.map(|term| term.id), end) {
            Ok(feed) => {
                self.last_backup = Some((newest.position, made));
                let owes_rows = self.source.is_some() && !entry.left_out.is_empty();
                self.owes_rows = owes_rows.then(Instant::now);
                Ok(Some(feed))
            }
            Err(StoreError::ForeignHistory(error)) => {
                tracing::warn!(place = self.archive.place(), %error, "the archive has another history: a backup begins anew");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What the archive has of this database, in the history of these terms; nothing without a backup.
    fn archived(&self, terms: &TermHistory) -> Result<Option<Archived>, ArchiveError> {
        let contents = match Contents::read(&self.archive) {
            Ok(contents) => contents,
            Err(ArchiveError::NoArchive { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (database, found) = (terms.database_id(), contents.database);
        if database != found {
            let place = self.archive.place().to_owned();
            return Err(ArchiveError::AnotherDatabase { place, database, found });
        }
        let Some(history) = History::new(terms.terms().to_vec()) else { return Ok(None) };
        let Some(newest) = contents.backups_of(&history).next_back() else { return Ok(None) };
        let stretches = contents.stretches(&history, newest.position);
        let end = stretches.last().map_or(newest.position, |last| last.end);
        Ok(Some(Archived { newest, end }))
    }

    fn is_backup_due(&self) -> bool {
        self.owes_rows.is_some_and(|since| since.elapsed() >= self.options.rows_pause) || self.is_due()
    }

    /// Whether one is due though it has no more rows of spread tables than the last one.
    fn is_due(&self) -> bool {
        let Some((position, made)) = self.last_backup else { return true };
        let end = self.sender.as_ref().map_or(position, |sender| sender.sent().end);
        let log_bytes = end.get().saturating_sub(position.get());
        let has_rows = || self.source.is_some() && !spread_tables(&self.store).is_empty();
        // Without anything new, a backup would be the same. What is loaded into spread tables is not in the log.
        let is_old =
            is_old(made, LogTime::now(), self.options.backup_interval) && (log_bytes > 0 || has_rows());
        is_old || (log_bytes > 0 && log_bytes >= self.options.backup_log_bytes)
    }

    /// Sends the rows of spread tables. If their node does not give them, the backup is made without: the log is to go on from it. That is
    /// said, and the backup says so.
    fn send_spread(&mut self, archive: &Archive, begun: Lsn) -> Result<SentSpread, ArchiveError> {
        let store = self.store.clone();
        if let Some(source) = self.source.clone() {
            let sent = spread_sender::send(&store, archive, SpreadRows::Of(&*source), &mut || {
                self.send_log()?;
                self.check_held(begun)
            });
            match sent {
                Err(error @ ArchiveError::Spread(_)) => {
                    tracing::error!(place = archive.place(), %error, "the rows of spread tables are not to be had for a backup");
                }
                sent => return sent,
            }
        }
        let sent = spread_sender::send(&store, archive, SpreadRows::LeftOut, &mut || Ok(()))?;
        if self.source.is_none() && !sent.left_out.is_empty() {
            let tables = sent.left_out.join(", ");
            tracing::warn!(
                place = archive.place(),
                tables,
                "the backup is without the rows of these tables, which are spread over a cluster: this server is no node of it"
            );
        }
        Ok(sent)
    }

    /// Makes a backup; the log behind it is sent by who sends the log. None as long as it is not known, behind a crash, what may be
    /// shown: then nothing of the log is sent either.
    fn back_up(&mut self) -> Result<(), ArchiveError> {
        if !self.store.has_confirmed() {
            return Ok(());
        }
        let begun = self.store.log_position().map_or(Lsn::START, |(_, durable)| durable);
        let patient = self.patient();
        let spread = self.send_spread(&patient, begun)?;
        let owes_rows = self.source.is_some() && !spread.left_out.is_empty();
        if owes_rows && self.owes_rows.is_some() && self.sender.is_some() && !self.is_due() {
            // It would be as the last one is. Many of these would take the places of older ones, which have rows, among those that are kept.
            self.owes_rows = Some(Instant::now());
            return Ok(());
        }
        let mut known = std::mem::take(&mut self.known);
        let store = self.store.clone();
        let outcome = Base::send(&store, &patient, &mut known, &mut |_| {
            self.send_log()?;
            self.check_held(begun)
        });
        self.known = known;
        let (copy, entry) = outcome?.with_spread(spread).into_parts();
        if let Some(sender) = &mut self.sender {
            // So that nobody who follows the archive takes the log before the backup for a gap.
            sender.set_archive(patient.clone());
            let bytes_max = self.options.keep_max;
            let sent = sender.send_to(copy.position(), &mut |from| check_kept(&store, from, bytes_max));
            sender.set_archive(self.archive.once());
            sent?;
        }
        // What was sent so far of the log may reach behind it already.
        let sent = self.sender.as_ref().map_or(Lsn::START, |sender| sender.sent().end);
        let report = entry.finish(&patient, sent.max(copy.position()), 0)?;
        let made = LogTime::now();
        self.last_backup = Some((report.position, made));
        self.owes_collection = self.options.keep.is_some();
        self.owes_rows = owes_rows.then(Instant::now);
        self.shared.tell(|status| {
            status.last_backup = Some((report.position, made));
            status.bytes_sent += report.bytes_sent;
        });
        tracing::info!(place = self.archive.place(), ?report, "a backup was made");
        if self.sender.is_none() {
            self.send_from(copy.into_feed()?);
            self.end_gap(report.position, report.term);
        }
        Ok(())
    }

    /// What was let go of ends with a backup.
    fn end_gap(&mut self, to: Lsn, term: u64) {
        let Some(from) = self.let_go.take() else { return };
        let gap = Gap { from, to, term };
        if from < to {
            tracing::error!(place = self.archive.place(), %gap, "no moment of this can be restored");
        }
        self.shared.tell(|status| {
            status.has_let_go = false;
            status.gaps.extend((from < to).then_some(gap));
        });
    }

    /// The log is sent from here on; what was not sent is kept by the database, open or closed.
    fn send_from(&mut self, mut feed: LogFeed) {
        feed.keep_over_closes(self.options.keep_max);
        let sender = LogSender::new(self.archive.once(), &self.store, feed, self.options.chunk_bytes);
        self.told = sender.sent();
        self.sender = Some(sender);
        // The sender holds the rest.
        if let Some(held) = self.held.take() {
            held.let_go();
        }
    }

    /// A backup without a sender of the log holds the log itself.
    fn check_held(&self, begun: Lsn) -> Result<(), ArchiveError> {
        if self.sender.is_some() { Ok(()) } else { check_kept(&self.store, begun, self.options.keep_max) }
    }

    fn let_go_of_too_much(&mut self) {
        let durable = self.store.log_position().map_or(Lsn::START, |(_, durable)| durable);
        let is_too_much = |from: Lsn| durable.get().saturating_sub(from.get()) > self.options.keep_max;
        if let Some(held) = self.held.take_if(|held| is_too_much(held.from())) {
            tracing::warn!(
                place = self.archive.place(),
                from = %held.from(),
                "more log is held than may be kept for the archive, which is not known to have it: it is let go of"
            );
            held.let_go();
        }
        if self.sender.as_ref().is_some_and(|sender| is_too_much(sender.sent().end)) {
            self.let_go("more log waits for the archive than may be kept");
        }
    }

    /// Lets go of the log that was not sent.
    fn let_go(&mut self, why: &str) {
        self.tell();
        if let Some(sender) = self.sender.take() {
            let from = sender.sent().end;
            tracing::error!(place = self.archive.place(), %from, why, "log is let go of; a backup begins anew");
            self.let_go.get_or_insert(from);
            self.shared.tell(|status| status.has_let_go = true);
            sender.let_go();
        }
    }

    fn send_the_last(&mut self) {
        let Some(sender) = &mut self.sender else { return };
        let patience =
            Patience { attempt_max: LAST_ATTEMPT, attempts: LAST_ATTEMPTS, ..self.archive.patience() };
        sender.set_archive(self.archive.with_patience(patience).until_moment(Instant::now() + LAST_TIME_MAX));
        let (_, durable) = self.store.log_position().unwrap_or_default();
        // A commit that waits for a replica which does not come would be waited for without an end. It stays for the next start.
        if let Err(error) = sender.send_published(durable) {
            tracing::warn!(place = self.archive.place(), %error, "the end of the log was not archived");
            self.shared.tell(|status| status.last_error = Some(error.to_string()));
        }
    }

    /// Adds what was sent to the status.
    fn tell(&mut self) {
        let Some(sent) = self.sender.as_ref().map(LogSender::sent) else { return };
        let (chunks, bytes) = (sent.chunks - self.told.chunks, sent.bytes - self.told.bytes);
        self.told = sent;
        let last_backup = self.last_backup;
        self.shared.tell(|status| {
            status.archived = Some(sent.end);
            status.archived_time = status.archived_time.max(sent.time);
            status.last_backup = last_backup;
            status.chunks_sent += chunks;
            status.bytes_sent += bytes;
        });
    }

    /// The archive as backups ask it.
    fn patient(&self) -> Archive {
        let patience = self.archive.patience();
        self.archive.with_patience(Patience { attempts: patience.attempts.min(BACKUP_ATTEMPTS), ..patience })
    }
}

/// Whether a backup was made so long ago. Of one that was made later than it is now nobody knows when that was: a clock was wrong, which the next
/// backup ends, and waiting until then might take years.
fn is_old(made: LogTime, now: LogTime, interval: Duration) -> bool {
    now.micros().checked_sub(made.micros()).is_none_or(|micros| Duration::from_micros(micros) >= interval)
}

/// Fails if more log is durable behind a place than may be kept.
fn check_kept(store: &Store, from: Lsn, bytes_max: u64) -> Result<(), ArchiveError> {
    let durable = store.log_position().map_or(Lsn::START, |(_, durable)| durable);
    let bytes = durable.get().saturating_sub(from.get());
    if bytes > bytes_max { Err(ArchiveError::HeldTooMuch { bytes, bytes_max }) } else { Ok(()) }
}

/// Whether the database has not got the log any more, or a file that it names.
fn is_gone(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Store(StoreError::Log(LogError::Gone { .. })) => true,
        ArchiveError::Store(StoreError::File(error)) => error.is_not_found(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a time to come counts as now: behind a clock that had been ahead for a while no backup was due for as long.
    #[test]
    fn a_backup_of_a_time_to_come_is_as_good_as_old() {
        let (hour, time) = (Duration::from_secs(3_600), LogTime::from_micros);
        let now = time(10_000_000_000);
        assert!(!is_old(now, now, hour));
        assert!(!is_old(time(6_400_000_001), now, hour));
        assert!(is_old(time(6_400_000_000), now, hour));
        assert!(is_old(time(10_000_000_001), now, hour));
    }
}
