// SPDX-License-Identifier: Apache-2.0
//! [`restore()`]: a directory with the database as it was at a moment.
//!
//! The newest backup at or before the moment gives the files, the archived log of one history gives what came after it, up to
//! the moment. Everything is checked against its checksums on the way. What is made is a database of its own: who opens it
//! begins a term, so what it writes is never taken for what the former database wrote at the same places. The term is of a timeline
//! behind all that the archive has, with room for promotions that it has not heard of, so that its history is the newest one there once it is
//! archived, also if the former database is opened again, and goes on, or one of its replicas was promoted.
//!
//! Rows of tables that are spread over a cluster are in backups alone, not in the log. They are those of the newest backup that has such, and
//! that took them at the moment or before; they are put beside the database (`restored_rows.rs`).

use crate::archive::Archive;
use crate::contents::{Contents, Stretch};
use crate::entry::BackupEntry;
use crate::error::ArchiveError;
use crate::gap::Gap;
use crate::history::History;
use crate::log_chunk::LogChunk;
use crate::names::BackupName;
use crate::restored_rows;
use crate::spread_rows::ArchivedSpread;
use coeval_store::files::{DiskFiles, FileSystem};
use coeval_store::log::{LogRecord, Lsn};
use coeval_store::{CopyWriter, LogMark, LogTime, PrimaryWriter, SynchronousReplicas, Term, Timeline};
use coeval_txn::{Epoch, Version};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The moment that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The last one that the archive has.
    Latest,
    /// All records that end here or before.
    Lsn(Lsn),
    /// All that was committed at this time or before, to about 10 milliseconds.
    Time(LogTime),
    /// All commits up to this version: that of a session's token, or one that `txid_current_snapshot` gave.
    Version(Version),
    /// What a token's snapshot of this version has, which was given when the log ended here. A safe snapshot may have commits of later
    /// versions as well: all up to the last of these comes back then.
    Snapshot {
        /// The token's version: all of it is in the snapshot.
        version: Version,
        /// Where the token says that the log of the snapshot ends.
        end: Lsn,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("the end"),
            Self::Lsn(lsn) => lsn.fmt(f),
            Self::Time(time) => time.fmt(f),
            Self::Version(version) => write!(f, "version {version}"),
            Self::Snapshot { version, end } => {
                write!(f, "the snapshot of version {version} with its log up to {end}")
            }
        }
    }
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// Where the backup stands that it began with.
    pub backup: Lsn,
    /// The log was taken up to here.
    pub end: Lsn,
    /// The id of the term that this is in.
    pub term: u64,
    /// The last term of the history that was restored from; its id names the history.
    pub history: Term,
    /// What is restored goes on in this timeline: a higher one than all that the archive has.
    pub timeline: Timeline,
    /// The last time that the log has up to there.
    pub time: LogTime,
    /// The version of the database.
    pub version: Version,
    /// Bytes of files, and of log records.
    pub bytes: u64,
    /// The replicas that its commits are going to wait for: those of the database that was archived, which follow another one.
    pub synchronous_replicas: Option<SynchronousReplicas>,
    /// What is missing behind `end`, if it is the last that can be reached and there is more of the history.
    pub gap: Option<Gap>,
    /// The rows of tables that are spread over a cluster, if some backup has such.
    pub spread: Option<RestoredSpread>,
    /// The spread tables whose rows the backup has left out that it began with: of those of `spread`, all are older than that.
    pub left_out: Vec<String>,
}

/// Rows of spread tables that were restored: they lie beside the database until a cluster is made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredSpread {
    /// Where the backup stands that has them.
    pub backup: Lsn,
    /// They are as the cluster had them up to this epoch,
    pub epoch: Epoch,
    /// at this time, and when the database had this version.
    pub taken: LogTime,
    /// See `taken`.
    pub version: Version,
    /// The tables, each with the number of its rows.
    pub tables: Vec<(String, u64)>,
}

impl RestoredSpread {
    fn of(backup: Lsn, spread: &ArchivedSpread) -> Self {
        let tables = spread.tables.iter().map(|table| (table.name.clone(), table.rows()));
        Self {
            backup,
            epoch: Epoch::new(spread.epoch),
            taken: spread.taken(),
            version: spread.version(),
            tables: tables.collect(),
        }
    }

    /// How many rows there are of all tables.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|(_, rows)| rows).sum()
    }
}

/// Makes a database in a directory that is empty or not there, as it was at `target` in the history that ends with the term
/// `history`; in the newest one if that is not given. Complete and durable on return. A restore that did not end leaves a
/// directory that nobody opens, and that the next restore into it begins anew.
///
/// # Errors
/// [`ArchiveError::OutOfRange`], [`ArchiveError::Ambiguous`], [`ArchiveError::NotEmpty`]: nothing was changed.
/// [`ArchiveError::Damaged`], [`ArchiveError::Missing`]: what cannot be relied on is not restored. Those of the storage and of
/// the directory.
///
/// # Panics
/// Never: what is restored follows on from what was restored before.
pub fn restore(
    archive: &Archive,
    dir: &Path,
    target: Target,
    history: Option<u64>,
) -> Result<RestoreReport, ArchiveError> {
    check_empty(dir)?;
    restore_to(archive, Arc::new(DiskFiles), dir, target, history)
}

/// As [`restore()`], into a directory of any file system.
pub(crate) fn restore_to(
    archive: &Archive,
    files: Arc<dyn FileSystem>,
    dir: &Path,
    target: Target,
    history: Option<u64>,
) -> Result<RestoreReport, ArchiveError> {
    let contents = Contents::read(archive)?;
    let history = contents.history(history)?;
    let plan = Plan::make(archive, &contents, history, target)?;
    let target = plan.without_snapshot(archive, target)?;
    let copy = CopyWriter::begin(Arc::clone(&files), dir)?;
    restored_rows::clear(&*files, dir)?;
    let mut bytes = 0;
    let manifest = plan.entry.fetch_into(archive, &copy, &mut |written| bytes += written)?;
    let mut restored = Restored {
        writer: copy.into_primary(&manifest)?,
        time: plan.entry.time(),
        version: plan.entry.version(),
        bytes,
    };
    if restored.writer.position() != plan.entry.position() {
        let object = plan.entry.name().name();
        return Err(ArchiveError::Damaged { object, what: "the manifest is of another place".to_owned() });
    }
    let mut is_cut = false;
    for stretch in &plan.stretches {
        is_cut = !restored.take(archive, stretch, target)?;
        if is_cut {
            break;
        }
    }
    let Restored { writer, time, version, mut bytes } = restored;
    let end = writer.position();
    // Before the database counts as complete.
    let spread = match spread_at(archive, &contents, (history, &plan.entry), (target, version))? {
        Some((backup, spread)) => {
            bytes += restored_rows::bring(archive, &*files, dir, &spread)?;
            Some(RestoredSpread::of(backup, &spread))
        }
        None => None,
    };
    let (timeline, synchronous_replicas) =
        (contents.timeline_of_restore(), writer.synchronous_replicas().cloned());
    writer.finish(timeline)?;
    let gap = if is_cut { None } else { contents.gap_at(history, end) };
    let (term, _) = history.term_at(end).expect("a history has its backups");
    let (backup, term, history) = (plan.entry.position(), term.id, history.last());
    Ok(RestoreReport {
        backup,
        end,
        term,
        history,
        timeline,
        time,
        version,
        bytes,
        synchronous_replicas,
        gap,
        spread,
        left_out: plan.entry.left_out,
    })
}

/// The rows of spread tables that belong to a moment, and where the backup stands that has them: the newest ones of the history that were
/// taken then or before. The moment has this version, and is at this time if the target says so: an idle database has many times at one
/// version. None if there were no spread tables when the backup was made that the restore has begun with.
///
/// Cost: fetching the entries of backups that have such rows, from the newest rows on, until some are old enough.
fn spread_at(
    archive: &Archive,
    contents: &Contents,
    (history, begun_with): (&History, &BackupEntry),
    (target, version): (Target, Version),
) -> Result<Option<(Lsn, ArchivedSpread)>, ArchiveError> {
    let had_none = begun_with.spread.is_none() && begun_with.left_out.is_empty();
    let may_have = |name: &BackupName| name.spread.is_some() && !(had_none && *name < begun_with.name());
    let mut names: Vec<BackupName> = contents.backups_of(history).filter(may_have).collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.spread));
    for name in names {
        let Some(spread) = BackupEntry::fetch(archive, name)?.spread else { continue };
        let is_late = match target {
            Target::Time(time) => spread.taken() > time,
            Target::Latest | Target::Lsn(_) | Target::Version(_) | Target::Snapshot { .. } => false,
        };
        if !is_late && spread.version() <= version {
            return Ok(Some((name.position, spread)));
        }
    }
    Ok(None)
}

/// What is going to be fetched.
struct Plan {
    entry: BackupEntry,
    stretches: Vec<Stretch>,
}

impl Plan {
    /// The newest backup from which the target can be reached.
    ///
    /// # Errors
    /// [`ArchiveError::OutOfRange`] if the archive does not reach there.
    fn make(
        archive: &Archive,
        contents: &Contents,
        history: &History,
        target: Target,
    ) -> Result<Self, ArchiveError> {
        let mut backups: Vec<BackupName> = contents.backups_of(history).collect();
        if let Target::Lsn(lsn) = target {
            backups.retain(|backup| backup.position <= lsn);
        }
        let mut oldest = None;
        for name in backups.into_iter().rev() {
            let entry = BackupEntry::fetch(archive, name)?;
            let is_late = match target {
                Target::Latest | Target::Lsn(_) => false,
                Target::Time(time) => entry.time() > time,
                Target::Version(version) | Target::Snapshot { version, .. } => entry.version() > version,
            };
            if is_late {
                oldest = Some(entry);
                continue;
            }
            let stretches = contents.stretches(history, entry.position());
            let plan = Self { entry, stretches };
            plan.check_reaches(archive, contents, history, target)?;
            return Ok(plan);
        }
        let first = contents.backups_of(history).next();
        let range = match (oldest, first) {
            (Some(entry), _) => format!(
                "the oldest backup has {}, {} and {}",
                entry.position(),
                entry.time(),
                Target::Version(entry.version())
            ),
            (None, Some(first)) => format!("the oldest backup has {}", first.position),
            (None, None) => format!("there is no backup of the history that ends with {}", history.last()),
        };
        Err(ArchiveError::OutOfRange { target: target.to_string(), range })
    }

    fn end(&self) -> Lsn {
        self.stretches.last().map_or(self.entry.position(), |last| last.end)
    }

    /// Whether the log behind the backup has the target.
    fn check_reaches(
        &self,
        archive: &Archive,
        contents: &Contents,
        history: &History,
        target: Target,
    ) -> Result<(), ArchiveError> {
        let end = self.end();
        let (reaches, last) = match target {
            Target::Latest => return Ok(()),
            Target::Lsn(lsn) => (lsn <= end, Target::Lsn(end)),
            Target::Time(time) => {
                let last = self.last_time(archive)?;
                (time <= last, Target::Time(last))
            }
            Target::Version(version) => {
                let last = self.last_version(archive)?;
                (version <= last, Target::Version(last))
            }
            Target::Snapshot { end: wanted, .. } if wanted > end => (false, Target::Lsn(end)),
            // So its version is there as well.
            Target::Snapshot { .. } => return Ok(()),
        };
        if reaches {
            return Ok(());
        }
        let range = match contents.gap_at(history, end) {
            Some(gap) => format!("it lies behind {last}, where {gap}"),
            None => format!("it ends with {last}"),
        };
        Err(ArchiveError::OutOfRange { target: target.to_string(), range })
    }

    /// The target of a snapshot as a version, or as the end of the last commit that belongs to it behind that version: those have an
    /// antidependency to what the version has, and nobody knows them better than their records. Other targets are as they were.
    ///
    /// Cost: fetching the stretches from the end of the snapshot back to its version, mostly one.
    fn without_snapshot(&self, archive: &Archive, target: Target) -> Result<Target, ArchiveError> {
        let Target::Snapshot { version, end } = target else { return Ok(target) };
        for stretch in self.stretches.iter().rev().filter(|stretch| stretch.chunk.start < end) {
            let chunk = LogChunk::fetch(archive, stretch.chunk)?;
            let end = end.min(stretch.end);
            for record in chunk.records.iter().rev().filter(|record| record.end <= end) {
                match LogMark::of(record)? {
                    LogMark::Batch(batch) if batch <= version => return Ok(Target::Version(version)),
                    LogMark::Batch(_) if LogMark::has_antidependency(record, version)? => {
                        return Ok(Target::Lsn(record.end));
                    }
                    LogMark::Batch(_) | LogMark::Term(_) | LogMark::Time(_) | LogMark::Other => {}
                }
            }
        }
        Ok(Target::Version(version))
    }

    /// The last time in the log, as far as the history takes it.
    fn last_time(&self, archive: &Archive) -> Result<LogTime, ArchiveError> {
        let time = |mark| if let LogMark::Time(time) = mark { Some(time) } else { None };
        Ok(self.last_mark(archive, time)?.unwrap_or_default().max(self.entry.time()))
    }

    fn last_version(&self, archive: &Archive) -> Result<Version, ArchiveError> {
        let version = |mark| if let LogMark::Batch(version) = mark { Some(version) } else { None };
        Ok(self.last_mark(archive, version)?.unwrap_or(self.entry.version()))
    }

    /// The last of some marks. Costs fetching stretches from the end on until there is one: mostly the last one alone.
    fn last_mark<T>(
        &self,
        archive: &Archive,
        wanted: impl Fn(LogMark) -> Option<T>,
    ) -> Result<Option<T>, ArchiveError> {
        for stretch in self.stretches.iter().rev() {
            let chunk = LogChunk::fetch(archive, stretch.chunk)?;
            for record in chunk.records.iter().rev().filter(|record| record.end <= stretch.end) {
                if let Some(found) = wanted(LogMark::of(record)?) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }
}

/// What was restored so far.
struct Restored {
    writer: PrimaryWriter,
    time: LogTime,
    version: Version,
    bytes: u64,
}

impl Restored {
    /// Appends a stretch; false if the target lies in it.
    fn take(&mut self, archive: &Archive, stretch: &Stretch, target: Target) -> Result<bool, ArchiveError> {
        let chunk = LogChunk::fetch(archive, stretch.chunk)?;
        for (record, named) in chunk.records_in(self.writer.position()..stretch.end) {
            if self.is_behind(record, target)? {
                return Ok(false);
            }
            for file in named {
                self.bytes += file.write_to(archive, self.writer.file(&file.name)?)?;
            }
            self.writer.append(std::slice::from_ref(record))?;
            self.bytes += record.payload.len() as u64;
        }
        Ok(true)
    }

    /// Whether a record lies behind the target; notes what it says if not.
    fn is_behind(&mut self, record: &LogRecord, target: Target) -> Result<bool, ArchiveError> {
        let mark = LogMark::of(record)?;
        let is_behind = match (target, mark) {
            (Target::Lsn(lsn), _) => record.end > lsn,
            (Target::Time(wanted), LogMark::Time(time)) => time > wanted,
            (Target::Version(wanted) | Target::Snapshot { version: wanted, .. }, _) => self.version >= wanted,
            _ => false,
        };
        if !is_behind {
            match mark {
                LogMark::Time(time) => self.time = self.time.max(time),
                LogMark::Batch(version) => self.version = version,
                LogMark::Term(_) | LogMark::Other => {}
            }
        }
        Ok(is_behind)
    }
}

/// Refuses a directory with anything in it but a restore that did not end.
fn check_empty(dir: &Path) -> Result<(), ArchiveError> {
    /// What `CopyWriter` leaves while it is not complete.
    const UNFINISHED: &str = "unfinished-copy";
    let Ok(entries) = std::fs::read_dir(dir) else {
        // It is not there, or making it fails with a better message.
        return Ok(());
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: Vec<String> = names.filter(|name| name != "LOCK").collect();
    if names.iter().any(|name| name == UNFINISHED) {
        return Ok(());
    }
    match names.into_iter().next() {
        None => Ok(()),
        Some(file) => Err(ArchiveError::NotEmpty { directory: dir.display().to_string(), file }),
    }
}
