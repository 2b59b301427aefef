// SPDX-License-Identifier: Apache-2.0
//! [`backup()`]: a checkpoint of an open database and the log behind it.
//!
//! # Order
//! A checkpoint is made and held. Its files are read, to know their pieces; the pieces are announced; those that are not there
//! are sent; then the log; the entry that names all comes last. So a backup that ends half-way leaves pieces that the next one
//! finds, and nothing that a restore would take for a backup.
//!
//! # Only what is published
//! A checkpoint has commits that wait for replicas, as it stands for the log here. A backup has none: whoever follows the archive would
//! show what the database does not, and may lose. So a checkpoint is made once what was committed before is published, and waited for until
//! what has come meanwhile is; while a replica is away that commits wait for, the last checkpoint is taken, and the published log behind it.

use crate::announcement::Announcement;
use crate::archive::{Archive, Check};
use crate::contents::put_term;
use crate::entry::BackupEntry;
use crate::error::ArchiveError;
use crate::found_files::FoundFile;
use crate::log_sender::LogSender;
use crate::names::SEGMENTS;
use crate::pieces::{ArchivedFile, PIECE_BYTES, Piece};
use crate::spread_rows::{ArchivedSpread, SpreadRows};
use crate::spread_sender::{self, SentSpread};
use coeval_store::log::Lsn;
use coeval_store::{BaseCopy, LogTime, Store, StoreError, Term};
use coeval_txn::Version;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Bytes of all files of the checkpoint, as far as they were read.
    pub bytes_found: u64,
    /// Of these, bytes that the archive has by now.
    pub bytes_there: u64,
    /// Of these, bytes that were sent: the others were there.
    pub bytes_sent: u64,
}

/// What a backup did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// The checkpoint has the log up to here.
    pub position: Lsn,
    /// The archive has the log up to here: with this backup alone, it can be restored to any moment from the position on.
    pub log_end: Lsn,
    /// The last time that the log has before the position.
    pub time: LogTime,
    /// The id of the term.
    pub term: u64,
    /// Files of the checkpoint, and their bytes.
    pub files: usize,
    /// See `files`.
    pub bytes: u64,
    /// Bytes that were not there and were sent, with those of the log.
    pub bytes_sent: u64,
    /// Whether this very checkpoint was backed up before.
    pub was_there: bool,
    /// Tables that are spread over a cluster whose rows it has, and how many rows these are.
    pub spread_tables: usize,
    /// See `spread_tables`.
    pub spread_rows: u64,
}

/// Records of this size together are an object.
pub(crate) const CHUNK_BYTES: usize = 8 << 20;

/// Commits that are on their way are given so long to be published before a backup goes by the last checkpoint. They mostly are at once.
const SETTLING: Duration = Duration::from_secs(1);

/// How often it is looked whether they are.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Files that are open at once. Their pieces are worked on several at a time, whichever file they are of.
const FILES_AT_ONCE: usize = 64;

/// The pieces of files that were looked at before. Files of one name never change while a database is open.
pub(crate) type KnownFiles = HashMap<String, FoundFile>;

/// Makes a backup of a database that is open, while it is used: commits go on. What the archive has is not sent again. On
/// return the backup can be restored, whatever becomes of the database. It has what was published when the call began, of a replica
/// what had come there by then, and nothing that is not published; a commit that waits for a replica does not hold it up, unless the last
/// checkpoint has it.
///
/// # Errors
/// [`ArchiveError`]; what was sent stays for the next attempt. [`ArchiveError::SpreadElsewhere`] if the database has tables that are spread
/// over a cluster: [`backup_with`] is for those. [`ArchiveError::HeldTooMuch`] once more log has come meanwhile than is
/// kept for a slot ([`Store::set_slot_bytes_max`]); [`ArchiveError::Unconfirmed`] of a replica (of a primary that is served, that is the caller's business: [`Store::has_confirmed`]); [`ArchiveError::Unpublished`]. [`ArchiveError::Stopping`] soon after the archive is not to be
/// waited for [any more](Archive::until): a checkpoint, or the pieces that are under way, are brought to their end before.
///
/// Cost: a checkpoint; reading all of its files; sending what is new. What the backup needs is kept on the disk until it ends.
pub fn backup(
    store: &Store,
    archive: &Archive,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<BackupReport, ArchiveError> {
    backup_with(store, archive, SpreadRows::Elsewhere, progress)
}

/// As [`backup()`], with the rows of tables that are spread over a cluster, or expressly without them. All of these rows are as one
/// snapshot of the cluster has them, which is taken when the call begins.
///
/// # Errors
/// As there; [`ArchiveError::Spread`] if these rows are not to be had. There is no backup without them, unless they are to be
/// [left out](SpreadRows::LeftOut).
///
/// Cost: as there, and reading all of these rows; those of equal parts are not sent again. While they are read the cluster keeps what the snapshot
/// sees.
pub fn backup_with(
    store: &Store,
    archive: &Archive,
    rows: SpreadRows<'_>,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<BackupReport, ArchiveError> {
    if store.is_following() && !store.has_confirmed() {
        return Err(ArchiveError::Unconfirmed);
    }
    let spread = spread_sender::send(store, archive, rows, &mut || {
        progress(BackupProgress::default());
        archive.check_running()
    })?;
    // No log is held before.
    let archive = &archive.checked_by(bound_of_log(store)?);
    let mut tell = |done| {
        progress(done);
        archive.check_running()
    };
    let base = Base::send(store, archive, &mut KnownFiles::new(), &mut tell)?.with_spread(spread);
    let (_, durable) = store.log_position().ok_or(StoreError::NoDirectory)?;
    let (copy, mut entry) = base.into_parts();
    entry.entry.is_alone = Some(true);
    let feed = copy.into_feed()?;
    let mut sender = LogSender::new(archive.clone(), store, feed, CHUNK_BYTES);
    sender.send_published(durable)?;
    let sent = sender.sent();
    entry.finish(archive, sent.end, sent.bytes)
}

/// Fails once more log has come from now on than may be held for somebody who takes it slowly: as much as for a slot. Nothing of it goes
/// before the backup has ended.
fn bound_of_log(store: &Store) -> Result<Check, ArchiveError> {
    let (_, begun) = store.log_position().ok_or(StoreError::NoDirectory)?;
    let store = store.clone();
    Ok(Arc::new(move || {
        let durable = store.log_position().map_or(begun, |(_, durable)| durable);
        let bytes = durable.get().saturating_sub(begun.get());
        match store.slot_bytes_max() {
            Some(bytes_max) if bytes > bytes_max => Err(ArchiveError::HeldTooMuch { bytes, bytes_max }),
            Some(_) | None => Ok(()),
        }
    }))
}

/// Holds a checkpoint that has nothing which is not published: a new one, or the last one if commits wait for somebody who is away.
/// `look` is called while something is waited for.
///
/// # Errors
/// [`ArchiveError::Unpublished`] if what the checkpoint has is not published within so long; those of the store, and of `look`.
fn published_copy(
    store: &Store,
    patience: Duration,
    look: &mut dyn FnMut() -> Result<(), ArchiveError>,
) -> Result<BaseCopy, ArchiveError> {
    if is_published_within(store, store.applied_version(), SETTLING.min(patience), look)? {
        store.checkpoint()?;
    }
    let copy = store.base_copy()?;
    if is_published_within(store, copy.version(), patience, look)? {
        return Ok(copy);
    }
    Err(ArchiveError::Unpublished)
}

/// Whether all up to a version is published within so long.
fn is_published_within(
    store: &Store,
    version: Version,
    patience: Duration,
    look: &mut dyn FnMut() -> Result<(), ArchiveError>,
) -> Result<bool, ArchiveError> {
    let begun = Instant::now();
    while store.world().version() < version {
        if begun.elapsed() >= patience {
            return Ok(false);
        }
        look()?;
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(true)
}

/// Reads the files of a checkpoint that are not known, so that the pieces of these and no others are.
fn find_files(
    copy: &BaseCopy,
    known: &mut KnownFiles,
    done: &mut BackupProgress,
    progress: &mut dyn FnMut(BackupProgress) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    known.retain(|name, _| copy.files().contains(name));
    done.bytes_found = known.values().map(|found| found.file.bytes()).sum();
    let unknown: Vec<_> = copy.files().iter().filter(|name| !known.contains_key(*name)).collect();
    for names in unknown.chunks(FILES_AT_ONCE) {
        let files = names.iter().map(|name| copy.open(name)).collect::<Result<Vec<_>, _>>()?;
        let files: Vec<_> = names.iter().map(|name| name.as_str()).zip(&files).collect();
        let found = FoundFile::find(&files, &mut |bytes| {
            done.bytes_found += bytes;
            progress(*done)
        })?;
        known.extend(found.into_iter().map(|found| (found.file.name.clone(), found)));
    }
    Ok(())
}

/// Sends what the archive lacks of the files of a checkpoint, which are all known.
fn send_files(
    archive: &Archive,
    copy: &BaseCopy,
    known: &KnownFiles,
    there: &mut BTreeSet<(String, u64)>,
    done: &mut BackupProgress,
    progress: &mut dyn FnMut(BackupProgress) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let files = copy.files().iter().map(|name| &known[name]);
    let (all_there, lacking): (Vec<_>, Vec<_>) = files.partition(|found| found.is_in(there));
    done.bytes_there = all_there.iter().map(|found| found.file.bytes()).sum();
    progress(*done)?;
    for found in lacking.chunks(FILES_AT_ONCE) {
        let open = |found: &&FoundFile| copy.open(&found.file.name);
        let files = found.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let files: Vec<_> = found.iter().copied().zip(&files).collect();
        FoundFile::send(archive, &files, there, &mut |bytes_there, bytes_sent| {
            done.bytes_there += bytes_there;
            done.bytes_sent += bytes_sent;
            progress(*done)
        })?;
    }
    Ok(())
}

/// A checkpoint whose pieces are all in the archive.
pub(crate) struct Base {
    copy: BaseCopy,
    entry: UnfinishedEntry,
}

/// A backup but for the object that says so.
pub(crate) struct UnfinishedEntry {
    entry: BackupEntry,
    announced: Announcement,
    /// Of the rows of spread tables.
    spread_announced: Vec<Announcement>,
    bytes_sent: u64,
}

impl Base {
    /// Sends the pieces of a new checkpoint.
    pub(crate) fn send(
        store: &Store,
        archive: &Archive,
        known: &mut KnownFiles,
        progress: &mut dyn FnMut(BackupProgress) -> Result<(), ArchiveError>,
    ) -> Result<Self, ArchiveError> {
        let patience = archive.patience().attempt_max;
        let copy = published_copy(store, patience, &mut || progress(BackupProgress::default()))?;
        let terms = store.terms();
        // Of a replica, a term may have come behind the checkpoint. One whose record a crash may lose has nothing in the last checkpoint
        // either: in the archive it would be a history in which nobody goes on.
        let (_, durable) = store.log_position().ok_or(StoreError::NoDirectory)?;
        let is_there = |term: &Term| term.start <= copy.position() && term.start < durable;
        let place = terms.terms().iter().rposition(is_there).unwrap_or(0);
        let term = terms.terms()[place];
        archive.claim(terms.database_id())?;
        put_term(archive, &terms.terms()[..=place])?;
        let mut done = BackupProgress::default();
        find_files(&copy, known, &mut done, progress)?;
        let entry = BackupEntry {
            database: terms.database_id(),
            term: term.id,
            position: copy.position().get(),
            version: copy.version().get(),
            time: copy.time().micros(),
            made: LogTime::now().micros(),
            log_end: copy.position().get(),
            manifest: copy.manifest().chunks(PIECE_BYTES).map(Piece::of).collect(),
            files: copy.files().iter().map(|name| known[name].file.clone()).collect(),
            is_alone: Some(false),
            spread: None,
            left_out: Vec::new(),
        };
        let announced = Announcement::make(archive, entry.pieces(), Some(entry.name()))?;
        let mut there: BTreeSet<_> = archive.list(SEGMENTS)?.into_iter().collect();
        for (piece, bytes) in entry.manifest.iter().zip(copy.manifest().chunks(PIECE_BYTES)) {
            if there.insert(piece.listed()) {
                archive.put_new(&piece.name(), bytes.to_vec().into())?;
                done.bytes_sent += piece.bytes;
            }
        }
        send_files(archive, &copy, known, &mut there, &mut done, progress)?;
        let (spread_announced, bytes_sent) = (Vec::new(), done.bytes_sent);
        let entry = UnfinishedEntry { entry, announced, spread_announced, bytes_sent };
        Ok(Self { copy, entry })
    }

    /// The same with the rows of spread tables, which were sent before.
    pub(crate) fn with_spread(mut self, sent: SentSpread) -> Self {
        let SentSpread { spread, left_out, announced, bytes_sent } = sent;
        (self.entry.entry.spread, self.entry.entry.left_out) = (spread, left_out);
        self.entry.spread_announced = announced;
        self.entry.bytes_sent += bytes_sent;
        self
    }

    pub(crate) fn into_parts(self) -> (BaseCopy, UnfinishedEntry) {
        (self.copy, self.entry)
    }
}

impl UnfinishedEntry {
    /// Writes the object that makes it a backup. The archive has the log up to `log_end`.
    pub(crate) fn finish(
        mut self,
        archive: &Archive,
        log_end: Lsn,
        log_bytes: u64,
    ) -> Result<BackupReport, ArchiveError> {
        self.announced.check()?;
        self.spread_announced.iter().try_for_each(Announcement::check)?;
        self.entry.log_end = log_end.get();
        let entry = &self.entry;
        let was_there = match archive.put_new(&entry.name().name(), entry.seal()) {
            Ok(_) => false,
            // The same place of the same history: that one is as good, if it can be read.
            Err(ArchiveError::Differs { .. }) => {
                BackupEntry::fetch(archive, entry.name())?;
                true
            }
            Err(error) => return Err(error),
        };
        let report = BackupReport {
            position: entry.position(),
            log_end,
            time: entry.time(),
            term: entry.term,
            files: entry.files.len(),
            bytes: entry.files.iter().map(ArchivedFile::bytes).sum(),
            bytes_sent: self.bytes_sent + log_bytes,
            was_there,
            spread_tables: entry.spread.as_ref().map_or(0, |spread| spread.tables.len()),
            spread_rows: entry.spread.as_ref().map_or(0, ArchivedSpread::rows),
        };
        // What is left of it counts for a day, and harms nobody.
        for announced in self.spread_announced.into_iter().chain([self.announced]) {
            let _ = announced.withdraw(archive);
        }
        Ok(report)
    }
}
