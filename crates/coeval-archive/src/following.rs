// SPDX-License-Identifier: Apache-2.0
//! Following an archive: what a replica begins with, and the log behind it, stretch by stretch as it appears.
//!
//! ```text
//! copy_newest      the newest backup --> the directory of a replica
//! ArchivedLog      own terms, position --> the stretch with the record that begins there: files, records, files ...
//! ```
//! Nothing is applied here: who follows does that, and comes back with the place up to which it got.
//!
//! # Which history
//! The newest one, as with a restore. The log of who follows has to be the beginning of it, which its terms say. One that has
//! records of a history in which nobody goes on any more is told so, and does not wait for ever at its end. If the newest one is that of
//! a replica which was promoted, it may be cut back to where the two part.
//!
//! # Looking for what is new
//! Names are listed from the last known one on. Now and then, and before anything is said to be missing, everything is listed:
//! a stretch may have been put out of the order of names, by a second backup beside an archiver.

use crate::archive::Archive;
use crate::contents::{Contents, Stretch};
use crate::entry::BackupEntry;
use crate::error::ArchiveError;
use crate::history::History;
use crate::log_chunk::LogChunk;
use crate::pieces::ArchivedFile;
use crate::restore::Target;
use coeval_store::files::{DiskFiles, FileSystem};
use coeval_store::log::{LogRecord, Lsn};
use coeval_store::{CopyWriter, FileWriter, FormerPrimary, TermHistory, Timeline, WayBack};
use coeval_txn::Version;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Everything is listed at one of so many looks.
const LOOKS_PER_LISTING: u32 = 64;

/// Records of about so many bytes are handed over together. Whoever takes them makes a world of each part, which costs as much for
/// a few megabytes of scattered changes as for many. A replica has two of these in memory, as over the wire.
const PART_BYTES: usize = 64 << 20;

/// Makes the directory of a replica, which is empty, not there, or has a copy that did not end, of the newest backup in the
/// newest history. Complete and durable on return, with the place where its log begins. `progress` hears how many bytes have
/// come.
///
/// # Errors
/// [`ArchiveError::NoArchive`], [`ArchiveError::Ambiguous`], [`ArchiveError::OutOfRange`] if there is no backup: nothing was
/// changed. [`ArchiveError::Damaged`], [`ArchiveError::Missing`]; those of the storage and of the directory, which then has an
/// unfinished copy.
pub fn copy_newest(
    archive: &Archive,
    dir: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Lsn, ArchiveError> {
    copy_backup(archive, dir, BackupChoice::Newest, progress)
}

/// Which backup of the newest history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupChoice {
    /// The newest one.
    Newest,
    /// The oldest one.
    Oldest,
    /// The newest one that has nothing of later versions than this.
    UpTo(Version),
}

/// As [`copy_newest`], of the backup that is chosen.
///
/// # Errors
/// As there; [`ArchiveError::OutOfRange`] also if all backups are of later versions.
pub fn copy_backup(
    archive: &Archive,
    dir: &Path,
    choice: BackupChoice,
    progress: &mut dyn FnMut(u64),
) -> Result<Lsn, ArchiveError> {
    copy_backup_to(archive, Arc::new(DiskFiles), dir, choice, progress)
}

/// As [`copy_newest`], into a directory of any file system.
#[cfg(test)]
pub(crate) fn copy_newest_to(
    archive: &Archive,
    files: Arc<dyn FileSystem>,
    dir: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Lsn, ArchiveError> {
    copy_backup_to(archive, files, dir, BackupChoice::Newest, progress)
}

/// As [`copy_backup`], into a directory of any file system.
fn copy_backup_to(
    archive: &Archive,
    files: Arc<dyn FileSystem>,
    dir: &Path,
    choice: BackupChoice,
    progress: &mut dyn FnMut(u64),
) -> Result<Lsn, ArchiveError> {
    let contents = Contents::read(archive)?;
    let entry = chosen(archive, &contents, choice)?;
    let copy = CopyWriter::begin(files, dir)?;
    let mut bytes = 0;
    let manifest = entry.fetch_into(archive, &copy, &mut |written| {
        bytes += written;
        progress(bytes);
    })?;
    copy.finish(&manifest)?;
    Ok(entry.position())
}

fn chosen(archive: &Archive, contents: &Contents, choice: BackupChoice) -> Result<BackupEntry, ArchiveError> {
    let history = contents.history(None)?;
    let mut backups = contents.backups_of(history);
    let name = match choice {
        BackupChoice::Newest => backups.next_back(),
        BackupChoice::Oldest => backups.next(),
        BackupChoice::UpTo(version) => {
            let mut oldest = None;
            for name in backups.rev() {
                let entry = BackupEntry::fetch(archive, name)?;
                if entry.version() <= version {
                    return Ok(entry);
                }
                oldest = Some(entry.version());
            }
            if let Some(oldest) = oldest {
                let range = format!("the oldest backup has {}", Target::Version(oldest));
                return Err(ArchiveError::OutOfRange { target: Target::Version(version).to_string(), range });
            }
            None
        }
    };
    BackupEntry::fetch(archive, name.ok_or_else(|| no_backup_of(history))?)
}

fn no_backup_of(history: &History) -> ArchiveError {
    let range = format!("there is none of the history that ends with {}", history.last());
    ArchiveError::OutOfRange { target: "a backup".to_owned(), range }
}

/// The log that an archive has, for one who follows it.
pub struct ArchivedLog {
    archive: Archive,
    /// What is known of the archive.
    contents: Option<Contents>,
    looks: u32,
}

impl fmt::Debug for ArchivedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArchivedLog({})", self.archive.place())
    }
}

impl ArchivedLog {
    /// Nothing is asked of the archive yet. Once `stop` is set, nothing is waited for; a request that fails is not made again
    /// by itself.
    #[must_use]
    pub fn new(archive: &Archive, stop: Arc<AtomicBool>) -> Self {
        Self { archive: archive.until(stop).once(), contents: None, looks: 0 }
    }

    /// Where the archive is, as it was given.
    #[must_use]
    pub fn place(&self) -> &str {
        self.archive.place()
    }

    /// The stretch with the record that begins at `position`, for one whose log has the terms `own` up to there. Nothing if the
    /// archive has no more yet.
    ///
    /// # Errors
    /// [`ArchiveError::AnotherDatabase`]; [`ForeignHistory`](coeval_store::StoreError::ForeignHistory) (in
    /// [`ArchiveError::Store`]) if that log is not the beginning of the archive's newest history; [`ArchiveError::Gap`];
    /// [`ArchiveError::Ambiguous`]; [`ArchiveError::NoArchive`], [`ArchiveError::Damaged`], [`ArchiveError::Missing`]; those of
    /// the storage. All may be other at the next call.
    ///
    /// Cost: a request for a stretch that is known to be there; some listings if none is.
    pub fn next(
        &mut self,
        own: &TermHistory,
        position: Lsn,
    ) -> Result<Option<ArchivedStretch>, ArchiveError> {
        for look in [Look::Known, Look::New, Look::All] {
            self.look(own, look)?;
            match self.find(own, position) {
                Ok(Some(stretch)) => return self.fetch(stretch, position).map(Some),
                Ok(None) if look != Look::Known => break,
                // Only what everything says is said.
                Err(error) if look == Look::All => {
                    self.contents = None;
                    return Err(error);
                }
                Ok(None) | Err(_) => {}
            }
        }
        Ok(None)
    }

    /// As [`next`](Self::next), with those stretches behind it that are known to be there, up to as many bytes of records as are [handed
    /// over together](ArchivedStretch::parts): for one who is far behind.
    ///
    /// # Errors
    /// As there. What comes with a stretch behind the first one is told when that is the first.
    ///
    /// Cost: a request for each stretch.
    pub fn next_together(
        &mut self,
        own: &TermHistory,
        position: Lsn,
    ) -> Result<Option<ArchivedStretch>, ArchiveError> {
        let Some(mut stretch) = self.next(own, position)? else { return Ok(None) };
        let last = own.last().map(|term| term.id);
        // Behind a record that begins a term, `own` does not say any more whose beginning the log is.
        while last == Some(stretch.term) {
            let Ok(Some(next)) = self.find(own, stretch.end) else { break };
            let bytes = usize::try_from(next.end.get() - stretch.end.get()).unwrap_or(PART_BYTES);
            if last != Some(next.chunk.term) || stretch.bytes() + bytes > PART_BYTES {
                break;
            }
            let Ok(next) = self.fetch(next, stretch.end) else { break };
            stretch.append(next);
        }
        Ok(Some(stretch))
    }

    /// The terms of the newest history, for one whose log has the terms `own`.
    ///
    /// # Errors
    /// [`ArchiveError::AnotherDatabase`]; [`ArchiveError::Ambiguous`]; [`ArchiveError::NoArchive`]; those of the storage.
    ///
    /// Cost: everything is listed.
    pub fn newest_terms(&mut self, own: &TermHistory) -> Result<TermHistory, ArchiveError> {
        let (_, history) = self.newest(own)?;
        Ok(TermHistory::of(history.terms()))
    }

    /// Fails if there is nothing that a [copy](copy_newest) of the newest history can begin with.
    ///
    /// # Errors
    /// As [`newest_terms`](Self::newest_terms); [`ArchiveError::OutOfRange`] if there is no backup.
    ///
    /// Cost: everything is listed.
    pub fn check_backup(&mut self, own: &TermHistory) -> Result<(), ArchiveError> {
        let (contents, history) = self.newest(own)?;
        if contents.backups_of(history).next().is_some() { Ok(()) } else { Err(no_backup_of(history)) }
    }

    /// How one can go on with the newest history whose log is [not the beginning](Self::next) of it, and the timeline of that. If it is
    /// once it is cut back, the log behind the place is there. If it is as it is, no log is missing behind it.
    ///
    /// # Errors
    /// [`ArchiveError::AnotherDatabase`]; [`ArchiveError::Gap`], or [`ArchiveError::OutOfRange`], if the log behind the place is not there
    /// any more, or not yet; [`ArchiveError::Ambiguous`]; those of the storage.
    ///
    /// # Panics
    /// Never: what is looked at is there.
    ///
    /// Cost: everything is listed.
    pub fn way_back(&mut self, own: &FormerPrimary) -> Result<(WayBack, Timeline), ArchiveError> {
        let (contents, history) = self.newest(&own.terms)?;
        let terms = TermHistory::of(history.terms());
        let way_back = own.way_back(&terms);
        let place = match way_back {
            WayBack::AsItIs => own.end,
            WayBack::CutBack(parting) => parting.at,
            WayBack::CheckpointBeyond(_) | WayBack::Unrelated => return Ok((way_back, terms.timeline())),
        };
        if contents.stretch_at(history, place).is_some() {
            return Ok((way_back, terms.timeline()));
        }
        match contents.gap_at(history, place) {
            Some(gap) => Err(ArchiveError::Gap(gap)),
            None if way_back == WayBack::AsItIs => Ok((way_back, terms.timeline())),
            None => Err(ArchiveError::OutOfRange {
                target: format!("the log behind {place}"),
                range: "nothing of the newest history is there yet".to_owned(),
            }),
        }
    }

    /// Looks at everything.
    fn newest(&mut self, own: &TermHistory) -> Result<(&Contents, &History), ArchiveError> {
        self.look(own, Look::All)?;
        let contents = self.contents.as_ref().expect("everything was just looked at");
        let (database, found) = (own.database_id(), contents.database);
        if database != found {
            let place = self.archive.place().to_owned();
            return Err(ArchiveError::AnotherDatabase { place, database, found });
        }
        Ok((contents, contents.history(None)?))
    }

    fn fetch(&mut self, stretch: Stretch, position: Lsn) -> Result<ArchivedStretch, ArchiveError> {
        let fetched = LogChunk::fetch(&self.archive, stretch.chunk);
        let LogChunk { head, mut records } = fetched.inspect_err(|_| {
            // It may have been collected since it was listed.
            self.contents = None;
        })?;
        // What is before was in an earlier stretch, what is behind belongs to another history.
        let range = position..stretch.end;
        records.retain(|record| range.contains(&record.start()));
        let files = head.files.into_iter().map(|(at, file)| (Lsn::new(at), file));
        let files = files.filter(|(at, _)| range.contains(at)).collect();
        let (archive, term) = (self.archive.clone(), head.term);
        Ok(ArchivedStretch { archive, term, records, files, position, end: stretch.end })
    }

    /// In what is known.
    fn find(&self, own: &TermHistory, position: Lsn) -> Result<Option<Stretch>, ArchiveError> {
        let Some(contents) = &self.contents else { return Ok(None) };
        let Some(history) = contents.history_behind(&self.archive, own, position)? else { return Ok(None) };
        match (contents.stretch_at(history, position), contents.gap_at(history, position)) {
            (None, Some(gap)) => Err(ArchiveError::Gap(gap)),
            (stretch, _) => Ok(stretch),
        }
    }

    fn look(&mut self, own: &TermHistory, look: Look) -> Result<(), ArchiveError> {
        if look == Look::Known {
            return Ok(());
        }
        self.looks = (self.looks + 1) % LOOKS_PER_LISTING;
        match &mut self.contents {
            Some(contents) if look == Look::New && self.looks > 0 => {
                contents.read_new(&self.archive, own.last().map_or(0, |term| term.id))
            }
            contents => {
                *contents = Some(Contents::read(&self.archive)?);
                Ok(())
            }
        }
    }
}

/// Where it is looked for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// In what is known.
    Known,
    /// Behind what is known.
    New,
    /// Everywhere.
    All,
}

/// A stretch of log from some record on, or several that follow on.
pub struct ArchivedStretch {
    archive: Archive,
    /// The id of the term that wrote it.
    term: u64,
    records: Vec<LogRecord>,
    /// The files that records name, with where the record begins.
    files: Vec<(Lsn, ArchivedFile)>,
    position: Lsn,
    end: Lsn,
}

impl fmt::Debug for ArchivedStretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArchivedStretch({} to {})", self.position, self.end)
    }
}

/// What comes next of a stretch.
#[derive(Debug)]
pub enum ArchivedPart<'s> {
    /// A file that the next records name: to be there, whole and durable, before they are taken.
    File(ArchivedFilePart<'s>),
    /// Records that follow on.
    Records(&'s [LogRecord]),
}

/// A file of a stretch.
pub struct ArchivedFilePart<'s> {
    archive: &'s Archive,
    file: &'s ArchivedFile,
}

impl fmt::Debug for ArchivedFilePart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArchivedFilePart({})", self.name())
    }
}

impl ArchivedFilePart<'_> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Fetches and writes it, and completes it. Returns its bytes.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::Missing`]; those of the storage and of who writes.
    pub fn write_to(&self, to: FileWriter) -> Result<u64, ArchiveError> {
        self.file.write_to(self.archive, to)
    }
}

impl ArchivedStretch {
    /// Where it ends: the next one begins there.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Bytes of its records.
    fn bytes(&self) -> usize {
        self.records.iter().map(|record| record.payload.len()).sum()
    }

    /// Adds the one that begins where this one ends.
    fn append(&mut self, next: Self) {
        self.records.extend(next.records);
        self.files.extend(next.files);
        self.end = next.end;
    }

    /// All of it, in order.
    #[must_use]
    pub fn parts(&self) -> Vec<ArchivedPart<'_>> {
        let mut parts = Vec::new();
        let mut files = self.files.iter().peekable();
        let (mut begin, mut bytes) = (0, 0);
        for (at, record) in self.records.iter().enumerate() {
            let start = record.start();
            let has_files = files.peek().is_some_and(|(named, _)| *named <= start);
            if (has_files || bytes >= PART_BYTES) && begin < at {
                parts.push(ArchivedPart::Records(&self.records[begin..at]));
                (begin, bytes) = (at, 0);
            }
            while let Some((_, file)) = files.next_if(|(named, _)| *named <= start) {
                parts.push(ArchivedPart::File(ArchivedFilePart { archive: &self.archive, file }));
            }
            bytes += record.payload.len();
        }
        if begin < self.records.len() {
            parts.push(ArchivedPart::Records(&self.records[begin..]));
        }
        parts
    }
}
