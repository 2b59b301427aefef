// SPDX-License-Identifier: Apache-2.0
//! Cutting the log of a former primary, or of a replica that followed it, back to where it parts from the new one's
//! (`docs/replication.md`).
//!
//! # Steps
//! ```text
//! 1 look      the checkpoint is not beyond the place, and the place is a border of records; else nothing is done
//! 2 promise   no log of a lower timeline than the new one's is acknowledged from here on
//! 3 aside     the records behind the place, and the files of bulk loads that they name, are copied to `rewound/<name>`
//! 4 mark      the file `rewinding` says where to cut
//! 5 cut       the directory is a replica's | the manifest numbers files anew | the log ends at the place | what is kept of
//!             the log for others begins there at the latest
//! 6 unmark    the file `rewinding` goes
//! ```
//! Each step is durable before the next. Up to step 4 the directory is what it was, with all that it had; steps 1 to 3 done again
//! give the same files. From then on nobody opens it ([`StoreError::UnfinishedRewinding`]) but who goes on
//! ([`go_on_rewinding`]), from step 5: each part of that may be done again, and needs nothing but the mark. So whatever ends it, there
//! is never a directory that opens with a part of what it had.
//!
//! # Why the log is the beginning of the new primary's then
//! Let P be the place: the first at which one of the two logs leaves the last term that both have ([`Parting`](crate::Parting)).
//! A term is written by one opening, and each opening begins one, with its first record. So the records of a term are the same in
//! every log that has them at their places, and both logs have the same terms up to P: they are equal up to P. Behind the cut
//! the own log ends there.
//!
//! # Why the directory is what a crash may leave at that place
//! - The manifest contains the log up to a place that is not behind P. It is of the world at that place (`checkpoint.rs`), and so are
//!   the flush rounds that it names: purge takes nothing that is not in the rounds of the checkpoint before. What it may have of later
//!   log are numbers that are not to be given again: of tables and sequences, and where sequences go on. Those of sequences
//!   that it does not define go, as the new primary may give their numbers to others. The newest epoch of the rounds was committed
//!   by a record before the checkpoint, which the new primary has as well: it gives none of theirs again.
//! - No header that is left attests the log beyond P. The note of the log's end did, and goes (`log/cutting.rs`).
//! - A boundary of safe snapshots belongs to log that is there no more: the mark of the replica is written anew, empty. With it
//!   goes what the former primary had said is published. Where replicas are asked for, only superusers are let in until the new
//!   primary says so.
//! - The files of bulk loads behind P are named by nobody. The next open removes them; they lie aside.
//! - What an archive has been sent beyond P is there under the former terms. The new primary's log from P on is another history
//!   for it, and is kept from P on for it.
//!
//! # Why nothing acknowledged with replicas' say is cut off
//! The new primary has come after this one with enough promises, so it has all of that (`promises.rs`), and P lies behind it. Who does
//! this checks that: a higher timeline, and no lower one than was promised. Step 2 comes before anything is cut, as
//! with every machine that begins to follow another one.
//!
//! # Why a replica may give up log that it has confirmed
//! The former primary counts a replica for what that has confirmed, and a candidate takes its answer for the end of its log. Both
//! rest on a log that grows, and this one gets shorter. Let c be a commit that was acknowledged with replicas' say in timeline t. Then
//! *every primary of a timeline above t has c*, by induction over these timelines. Say all between t and T have it. Of those
//! that have promised T, one, R, has confirmed c, and before it promised any timeline above t. While it followed t it lost
//! nothing. If it was cut back since, then to the log of a timeline between t and T, as it has promised T later. That log has c, so P was
//! behind c, and R has c when it answers. The candidate's log is at least as long as R's, by term and place. If its last
//! term is of timeline t, it has c as ever (`promises.rs`). If it is of one between t and T, it has all that the primary of that one
//! began with, and c is in that. So the candidate has c.
//!
//! Therefore one cuts back only to a log of a timeline *above* its own, and promises that before. That is looked at here again: nobody
//! has the directory open while the new primary is asked, and a command may promote it meanwhile. A primary has begun its timeline once
//! it is open. A replica of it may be asked in its place, once its log has the new term. One that does not have it yet is asked again
//! later.
//!
//! # What readers of a replica were shown
//! A replica shows what its primary has published, and a safe snapshot is made of what is shown. Where all commits wait for replicas
//! (`on` and above), what is published was acknowledged with their say. So it lies before P, and so does each commit that a safe
//! snapshot has. *Nothing that a session was shown is taken back.* A safe snapshot stays one in the new history: who commits behind P
//! there has begun with all that is before P, so nobody of them comes before what the snapshot left out. A replica that is opened
//! anew shows all that its log has, and that may be more: but only to superusers, until [it has
//! confirmed](crate::Store::has_confirmed) that this is published.
//!
//! A checkpoint is another thing: it is of what is durable here, whether or not that is published. So it may have passed P, also where
//! all commits wait. Then a copy is needed, as for a former primary.
//!
//! Without such replicas, and for a commit at `local` or below that has no later one at `on` behind it, a replica shows what only
//! its primary has besides. Its sessions, at SERIALIZABLE too, may have read commits that lie beyond P. These are gone for whoever
//! comes back, as they are for a client of the former primary. Tokens of them are refused as soon as the new term is here: they name
//! a place of a term that ends before it, or a term that is gone. Until then they are of something that has not come.
//!
//! No session lasts over it. Whoever has the directory open has its lock, so a server that follows ends its sessions first (57P01),
//! as for a promotion. Who follows this replica loses the connection, comes back, and finds by the same terms that its own log
//! parts, as soon as this one has the new term: it is cut back by the same steps. Until then this one only has less, and it waits.

use super::copy_writer;
use super::former_primary::manifest_of;
use crate::disk::{FOLLOWER_FILE, LOG_DIR, REWOUND_DIR};
use crate::error::StoreError;
use crate::files::{FileError, FileSystem, FileWriter, replace_file};
use crate::kept_log::KeptLog;
use crate::log::{Lsn, copy_between, cut, read};
use crate::manifest::Manifest;
use crate::promises::{KeptPromise, PromisedTo};
use crate::record::{LogMark, decode_count, decode_mark, decode_places};
use crate::recovery::{ReplayError, open_error};
use crate::rewinding_mark::{RewindingMark, refuse_unfinished_rewinding};
use crate::segment::{SegmentRef, segment_path};
use crate::terms::{TermHistory, TermNumber, Timeline};
use coeval_txn::Version;
use std::path::{Path, PathBuf};

/// What was cut off a log, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// A directory: the records as a log of their own that begins at `place`, and the files of bulk loads that they name.
    pub aside: PathBuf,
    /// The log ends here now.
    pub place: Lsn,
    /// Here it ended.
    pub end: Lsn,
    /// How many transactions lie between the two.
    pub transactions: u64,
}

/// Cuts the log of a former primary, or of a replica of it, which nobody has open, back to a place, and makes the directory a
/// replica's: the one to be followed is in this timeline, and has the same log up to the place. What lies behind it is put aside.
/// Durable on return.
///
/// # Errors
/// [`StoreError::NotRewindable`] if a checkpoint has passed the place, or no record ends there; [`StoreError::PromisedAnother`] if the
/// directory's own log is in this timeline or a higher one, or was promoted to one; [`StoreError::UnfinishedRewinding`]; damage of
/// manifest or log; [`StoreError::File`]. The directory is as before then, but perhaps for the promise; or it is to be [gone on
/// with](go_on_rewinding).
///
/// # Panics
/// Never: what was looked at is what is cut.
///
/// Cost: reads the log behind the checkpoint twice, and writes what is cut off once.
pub fn rewind(
    files: &dyn FileSystem,
    dir: &Path,
    place: Lsn,
    timeline: Timeline,
) -> Result<Rewound, StoreError> {
    rewind_if(files, dir, (place, timeline), check_successor)
}

/// The same, if `check` lets that timeline pass beside that of the log, and what the directory has promised.
pub(super) fn rewind_if(
    files: &dyn FileSystem,
    dir: &Path,
    (place, timeline): (Lsn, Timeline),
    check: impl FnOnce(Timeline, Option<KeptPromise>, Timeline) -> Result<(), StoreError>,
) -> Result<Rewound, StoreError> {
    let _lock = files.lock(dir)?;
    refuse_unfinished_rewinding(files, dir)?;
    let manifest = manifest_of(files, dir)?;
    let refused =
        |what: String| StoreError::NotRewindable { directory: dir.display().to_string(), place, what };
    let checkpoint = Lsn::new(manifest.log);
    if checkpoint > place {
        return Err(refused(format!("its checkpoint contains the log up to {checkpoint}")));
    }
    let beyond = Beyond::look(files, dir, &manifest, place)?;
    if !beyond.is_border {
        return Err(refused("no record of its log ends there".to_owned()));
    }
    let own = beyond.terms.timeline();
    let kept = KeptPromise::read(files, dir)?.map(|kept| kept.beside(own));
    check(own, kept, timeline)?;
    promise(files, dir, (own, kept), timeline)?;
    let mark = RewindingMark {
        place,
        end: beyond.end,
        version: beyond.version,
        transactions: beyond.transactions,
        aside: beyond.put_aside(files, dir, place)?,
    };
    mark.write(files, dir)?;
    cut_back(files, dir, &mark)
}

/// Goes on with cutting a log back, if that did not end in this directory. Durable on return.
///
/// # Errors
/// [`StoreError::Corrupt`] if the mark cannot be read; those of manifest, log and files. It is to be gone on with again then.
///
/// # Panics
/// Never: the mark, which has a checksum, says what was looked at.
pub fn go_on_rewinding(files: &dyn FileSystem, dir: &Path) -> Result<Option<Rewound>, StoreError> {
    if RewindingMark::read(files, dir)?.is_none() {
        return Ok(None);
    }
    let _lock = files.lock(dir)?;
    // Whoever had the lock may have ended it meanwhile.
    let Some(mark) = RewindingMark::read(files, dir)? else { return Ok(None) };
    cut_back(files, dir, &mark).map(Some)
}

/// What a log has behind a place.
struct Beyond {
    /// Whether a record ends at the place, or the checkpoint stands there.
    is_border: bool,
    /// The version of the world at the place.
    version: Version,
    transactions: u64,
    loads: Vec<SegmentRef>,
    /// Those of the whole log.
    terms: TermHistory,
    end: Lsn,
}

impl Beyond {
    fn look(files: &dyn FileSystem, dir: &Path, manifest: &Manifest, place: Lsn) -> Result<Self, StoreError> {
        let checkpoint = Lsn::new(manifest.log);
        let mut beyond = Self {
            is_border: checkpoint == place,
            version: Version::new(manifest.version),
            transactions: 0,
            loads: Vec::new(),
            terms: TermHistory::of(&manifest.terms),
            end: checkpoint,
        };
        let mut note = |end: Lsn, payload: &[u8]| beyond.note(end, payload, place);
        read(files, &dir.join(LOG_DIR), checkpoint, &mut note).map_err(open_error)?;
        Ok(beyond)
    }

    fn note(&mut self, end: Lsn, payload: &[u8], place: Lsn) -> Result<(), ReplayError> {
        self.is_border |= end == place;
        self.end = end;
        match decode_mark(payload)? {
            LogMark::Batch(version) if end <= place => self.version = version,
            LogMark::Batch(_) => {
                self.transactions += u64::from(decode_count(payload)?);
                let named = decode_places(payload)?.map(|(_, segments)| segments);
                self.loads.extend(named.unwrap_or_default());
            }
            LogMark::Term(term) => self.terms.begin(term).map_err(ReplayError::Malformed)?,
            LogMark::Time(_) | LogMark::Other => {}
        }
        Ok(())
    }

    /// Copies it into a directory of its own, durably, whose name is returned. Of two that have one name both have the same records:
    /// the id of a term is no other one's.
    fn put_aside(&self, files: &dyn FileSystem, dir: &Path, place: Lsn) -> Result<String, StoreError> {
        let (number, id) = self.terms.last().map_or((0, 0), |term| (term.number, term.id));
        let (from, to) = (place.get(), self.end.get());
        let name = format!("term-{}-{id:016x}-from-{from}-to-{to}", TermNumber(number));
        let aside = dir.join(REWOUND_DIR).join(&name);
        files.create_dir_all(&aside)?;
        for load in &self.loads {
            let path = segment_path(dir, load.number);
            let file_name = path.file_name().expect("a segment file has a name");
            copy_file(files, &path, &aside.join(file_name))?;
        }
        copy_between(files, &dir.join(LOG_DIR), (place, self.end), &aside)?;
        files.sync_dir(&aside)?;
        Ok(name)
    }
}

/// Whether a machine in this timeline has come after the one that wrote the end of a log in the timeline `own`, and after its directory was
/// promoted, if it was.
///
/// # Errors
/// [`StoreError::PromisedAnother`].
fn check_successor(own: Timeline, kept: Option<KeptPromise>, timeline: Timeline) -> Result<(), StoreError> {
    // It may not have been opened since.
    let promoted = kept.filter(|kept| kept.to == PromisedTo::Itself).map(|kept| kept.promise.timeline);
    let reached = promoted.map_or(own, |promoted| promoted.max(own));
    if timeline > reached {
        return Ok(());
    }
    Err(StoreError::PromisedAnother { asked: timeline, promised: reached })
}

/// Promises the timeline of the new primary, if it is higher than that of the own log and no higher one was promised.
fn promise(
    files: &dyn FileSystem,
    dir: &Path,
    (own, kept): (Timeline, Option<KeptPromise>),
    timeline: Timeline,
) -> Result<(), StoreError> {
    let kept = kept.map_or(own, |kept| kept.promise.timeline.max(own));
    if timeline > kept {
        KeptPromise::of_begun(timeline).write(files, dir)?;
    }
    Ok(())
}

/// Steps 5 and 6.
fn cut_back(files: &dyn FileSystem, dir: &Path, mark: &RewindingMark) -> Result<Rewound, StoreError> {
    assert!(mark.place <= mark.end, "a log is cut back, not forward");
    replace_file(files, &dir.join(FOLLOWER_FILE), &[])?;
    let mut manifest = manifest_of(files, dir)?;
    manifest.next_segment = copy_writer::own_stretch();
    let defined = &manifest.sequences;
    manifest.resume_points.retain(|(id, _)| defined.iter().any(|sequence| sequence.id == *id));
    manifest.write(files, dir)?;
    assert!(manifest.log <= mark.place.get(), "no checkpoint has passed the place");
    cut(files, &dir.join(LOG_DIR), mark.place)?;
    keep_from(files, dir, mark)?;
    RewindingMark::remove(files, dir)?;
    let RewindingMark { place, end, transactions, .. } = *mark;
    Ok(Rewound { aside: mark.aside_in(dir), place, end, transactions })
}

/// What is kept of the log for others is kept from the place on at the latest: what comes behind it is another history.
fn keep_from(files: &dyn FileSystem, dir: &Path, mark: &RewindingMark) -> Result<(), StoreError> {
    let Some(mut log) = KeptLog::read(files, dir)? else { return Ok(()) };
    if let Some(kept) = &mut log.kept {
        (kept.log, kept.version) = (kept.log.min(mark.place), kept.version.min(mark.version));
    }
    for slot in &mut log.slots {
        (slot.log, slot.version) = (slot.log.min(mark.place), slot.version.min(mark.version));
    }
    log.places.retain(|place| place.log <= mark.place);
    log.loads.retain(|(_, version)| *version <= mark.version);
    Ok(log.write(files, dir)?)
}

/// Bytes of a file that are in memory at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Copies a file; durable but for its name.
fn copy_file(files: &dyn FileSystem, from: &Path, to: &Path) -> Result<(), FileError> {
    let file = files.open_to_read(from)?;
    let length = file.len()?;
    let mut writer = FileWriter::create(files, to)?;
    let mut piece = Vec::new();
    while writer.position() < length {
        let count = (length - writer.position()).min(PIECE_BYTES);
        piece.resize(usize::try_from(count).expect("at most a mebibyte"), 0);
        file.read_exact_at(writer.position(), &mut piece)?;
        writer.append(&piece)?;
    }
    writer.finish().map(drop)
}
