// SPDX-License-Identifier: Apache-2.0
//! Following another store's log: a replica (Shioi et al., 5.1 and 6.2).
//!
//! A follower begins with a copy of the primary's directory ([`BaseCopy`], [`CopyWriter`]). Then it takes the records of the
//! primary's log, in order and each durable there, into a log of its own, at the same places, and applies them by the code of
//! recovery. So its world of version `v` has the contents that the primary's has, and a restart goes on where it was.
//!
//! ```text
//! primary    log --LogFeed--> records, files that they name, boundaries --any wire--> Follower::take
//! follower   take: apply to a private world | append to the own log | queue the world
//!            note_published: show it        note_boundary: move the safe snapshot
//! ```
//!
//! # What is shown
//! Only what is durable on the primary is sent. A world is shown when the primary says that it is published there, which is
//! when as many replicas have it as its commits ask for (`replicas.rs`): nothing that a follower shows can be lost by the
//! primary's crash, nor by a failover to one of those replicas. One that is opened again shows all that its log has: that is
//! durable here and on the primary; whether that is published as well [is known](crate::Store::has_confirmed) when the primary
//! has said so. REPEATABLE READ and READ COMMITTED read the newest world that is shown. SERIALIZABLE reads
//! safe snapshots alone, which
//! [`FollowedSnapshots`](coeval_txn::ssi::FollowedSnapshots) makes of what the log says; nobody is certified. Until the first
//! one can be made (the boundary of the primary has to reach the version that the copy began with) there is none. The boundary
//! stands in the log and the word that something is published does not, so a boundary may come first: a safe snapshot waits
//! until what it is made from is shown.
//!
//! # Chains
//! A follower is followed as a primary is: it gives what is durable in its own log, and passes on what it was told is
//! published, and the boundary. So no link of a chain shows what the one before does not.
//!
//! # What a follower never does
//! It writes no record of its own, gives no number of a sequence, and deletes nothing by itself: its log stays the beginning
//! of the primary's. (Behind a failover it may have more than the new primary. Then it is made the beginning of that one's, while
//! nobody has it open, as that of a former primary is: `following/rewinding.rs`.) Its checkpoints are its own: their files have
//! numbers that the primary does not give (see [`CopyWriter`]).
//!
//! # Epochs
//! A followed world has exactly the epochs whose commits are in the log: one that is pending on the primary is left out, as its
//! rows may come. That one was rolled back the log does not say by itself; it says up to where all have ended, and to where the
//! primary has purged (the record `ended`), and that all have when a term begins. So a follower purges its bricks as far as the
//! primary has, its own checkpoints hold them, and its own readers see them alike. It must not go further: a delete may be open
//! on the primary whose snapshot is older than all of the follower's worlds.
//!
//! # Locking
//! The leader's lock is held while a group of records is appended and put in place, so that a checkpoint finds a world and the
//! end of the log that belong together. Behind it comes the lock of the followed snapshots, then those of publishing.

mod base_copy;
mod change;
mod change_feed;
mod change_token;
mod changes;
mod copy_writer;
mod feed;
mod former_primary;
mod frame;
mod last_word;
mod opening;
mod own_changes;
mod own_log;
mod primary_writer;
mod replica_session;
mod replication;
mod rewinding;
mod standing;
mod taken_log;
mod word;

pub use base_copy::{BaseCopy, CopiedFile};
pub use change::{ChangeSink, ChangedRow, FedChange, FedTransaction};
pub use change_feed::{ChangeFeed, ChangeFeedError, ChangeFeedOptions, ChangeStart};
pub use change_token::{ChangeToken, MalformedToken};
pub use copy_writer::{CopyWriter, FileWriter};
pub use feed::{Fed, LogFeed};
pub use former_primary::{FormerPrimary, WayBack, superseded};
pub use frame::{Frame, MalformedFrame};
pub use last_word::LastWord;
pub use primary_writer::PrimaryWriter;
pub use replica_session::ReplicaSession;
pub use rewinding::{Rewound, go_on_rewinding, rewind};
pub(crate) use standing::FollowerStanding;
pub use taken_log::TakenLog;
pub use word::Word;

use crate::clock::LogTime;
use crate::disk::{FOLLOWER_FILE, UNFINISHED_COPY_FILE};
use crate::error::StoreError;
use crate::files::{FileSystem, OpenMode};
use crate::freshness::Questions;
use crate::log::{ChecksumPolicy, LogRecord, Lsn};
use crate::manifest::{Manifest, manifest_path};
use crate::promises::{KeptPromise, Promise, PromisedTo};
use crate::publishing::{Wanted, contained};
use crate::recovery::{FollowedLog, ObserveReplay, ReplayError, Replayer};
use crate::rewinding_mark::refuse_unfinished_rewinding;
use crate::segment::parse_segment_name;
use crate::serializable::{SafeWorld, with_members};
use crate::shared::Shared;
use crate::terms::{TermHistory, Timeline};
use crate::trap::Step;
use crate::world::World;
use coeval_txn::Version;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Takes the log of a primary into a store that follows it. There is one for each such store; dropping it leaves the store
/// as it is, to be read.
pub struct Follower {
    shared: Arc<Shared>,
    position: Lsn,
    /// Of whoever gives the log; 0 if nobody does.
    source: Timeline,
    /// Records were applied in part: what bricks have of them would be there twice.
    has_failed: bool,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Follower(at {})", self.position)
    }
}

/// How far a follower is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// In its log.
    pub written: Lsn,
    /// Durable there.
    pub flushed: Lsn,
    /// Seen by its readers.
    pub shown: Lsn,
}

/// Why records were not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// They do not begin where the last ones ended.
    #[error("a record from {start} does not follow on from {position}")]
    OutOfPlace {
        /// Where the record begins.
        start: Lsn,
        /// Where the follower is.
        position: Lsn,
    },
    /// Not what a primary writes: another history, or a bug. The follower has stopped.
    #[error("the log record that ends at {end} cannot be applied: {what}")]
    Malformed {
        /// Where it ends.
        end: Lsn,
        /// Why.
        what: String,
    },
    /// The files or the log of the follower failed. It has stopped.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Who gives the log is in a timeline below one that was promised to another machine. Nothing was taken.
    #[error("it is in timeline {source_timeline}, and timeline {promised} was promised to another machine")]
    Superseded {
        /// Where it is.
        source_timeline: Timeline,
        /// What was promised.
        promised: Timeline,
    },
    /// Who hears of each transaction does not go on. It has stopped.
    #[error("{0}")]
    Observer(std::io::Error),
    /// It has stopped before.
    #[error("the replica has stopped taking the log: it has to be opened again")]
    Stopped,
}

impl Follower {
    /// One whose store has what its log has up to `position`.
    pub(crate) fn new(shared: Arc<Shared>, position: Lsn) -> Self {
        Self { shared, position, source: Timeline::new(0), has_failed: false }
    }

    /// The end of its log: it takes the record that begins here.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// The terms of its log.
    #[must_use]
    pub fn terms(&self) -> TermHistory {
        self.shared.terms()
    }

    /// What it has of the log of whom it followed so far: as [`FormerPrimary::look`] finds it once it is closed.
    #[must_use]
    pub fn as_former_primary(&self) -> FormerPrimary {
        let checkpoint = self.shared.checkpoints.last_log();
        FormerPrimary { terms: self.terms(), end: self.position, checkpoint, promised: self.promised() }
    }

    /// From here on the log is taken from one who is in this timeline. What others have said to be published, and is not shown, waits
    /// for its word.
    ///
    /// # Errors
    /// [`FollowError::Superseded`] if a higher one was promised to another, or followed before; [`FollowError::Store`] if it cannot
    /// be written down that this one is.
    pub fn begin_following(&mut self, source: Timeline) -> Result<(), FollowError> {
        self.source = source;
        self.check_source()?;
        self.shared.pipeline.publishing.forget_word();
        Ok(self.shared.note_followed(source)?)
    }

    /// From here on the log is taken from an archive, which has nothing that nobody has published, whoever wrote it.
    pub fn begin_following_archive(&mut self) {
        self.source = Timeline::new(u32::MAX);
        self.shared.pipeline.publishing.forget_word();
    }

    /// The highest timeline that was promised to another machine; 0 if none was.
    #[must_use]
    pub fn promised(&self) -> Timeline {
        self.shared.promises.timeline()
    }

    fn check_source(&self) -> Result<(), FollowError> {
        let promised = self.shared.promises.timeline().max(self.shared.terms().timeline());
        let source_timeline = self.source;
        if source_timeline.get() > 0 && promised > source_timeline {
            return Err(FollowError::Superseded { source_timeline, promised });
        }
        Ok(())
    }

    /// How far it is, as who gives the log may be told.
    ///
    /// # Errors
    /// [`FollowError::Superseded`] if a higher timeline than that one's was promised: it must not be told anything.
    pub fn acknowledgement(&self) -> Result<Acknowledgement, FollowError> {
        let (written, flushed, shown) = (self.position, self.durable(), self.shown_position());
        // Looked at last: see the proof in `promises.rs`.
        self.check_source()?;
        Ok(Acknowledgement { written, flushed, shown })
    }

    /// Begins a file that a record to come names: it is finished before the record is taken. Dropped unfinished, it is removed by
    /// the next checkpoint or open.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if that is no name of a segment file; [`StoreError::File`].
    ///
    /// # Panics
    /// Never: a follower has a directory.
    pub fn receive_file(&self, name: &str) -> Result<FileWriter, StoreError> {
        let disk = self.shared.disk.as_ref().expect("a follower has a directory");
        if let Some(number) = parse_segment_name(name) {
            // Before the file is made, so that nobody takes it for a leftover.
            disk.note_on_its_way(number);
        }
        FileWriter::begin(Arc::clone(disk.files()), disk.dir(), name)
    }

    /// Applies records that follow on from [`position`](Self::position). They are in the own log, and not synced; they are seen
    /// when the primary [says so](Self::note_published).
    ///
    /// # Errors
    /// [`FollowError`]. [`FollowError::OutOfPlace`] leaves everything as it was; otherwise what was applied is seen by nobody,
    /// and the store takes no further record before it is opened again. It can be read.
    ///
    /// # Panics
    /// If its own log gives a record another place than the primary's did: a bug.
    ///
    /// Cost: for each change that of a commit without certification, less for many together.
    pub fn take(&mut self, records: &[LogRecord]) -> Result<(), FollowError> {
        self.take_observed(records, None)
    }

    /// The same, and the observer hears of each transaction.
    fn take_observed(
        &mut self,
        records: &[LogRecord],
        observer: Option<&mut dyn ObserveReplay>,
    ) -> Result<(), FollowError> {
        let mut position = self.position;
        for record in records {
            if record.start() != position {
                return Err(FollowError::OutOfPlace { start: record.start(), position });
            }
            position = record.end;
        }
        if records.is_empty() {
            return Ok(());
        }
        self.check_source()?;
        if std::mem::replace(&mut self.has_failed, true) {
            return Err(FollowError::Stopped);
        }
        // Who gives the log may have a thread for that alone: were it to end with a panic, nobody would hear of it.
        let publishing = &self.shared.pipeline.publishing;
        contained(publishing, "while the log was followed", || self.apply_together(records, observer))??;
        self.position = position;
        self.has_failed = false;
        Ok(())
    }

    /// Applies records as one group, or one by one if the world of each is wanted.
    fn apply_together(
        &self,
        records: &[LogRecord],
        observer: Option<&mut dyn ObserveReplay>,
    ) -> Result<(), FollowError> {
        if observer.is_none() && self.shared.pipeline.publishing.is_paused() {
            // Whoever has paused it may ask for the world of any version.
            return records.iter().try_for_each(|record| self.apply(std::slice::from_ref(record), None));
        }
        self.apply(records, observer)
    }

    fn apply(
        &self,
        records: &[LogRecord],
        observer: Option<&mut dyn ObserveReplay>,
    ) -> Result<(), FollowError> {
        let shared = &*self.shared;
        shared.pipeline.publishing.check_running()?;
        let disk = shared.disk.as_ref().expect("a follower has a directory");
        let world = (*shared.applied()).clone();
        let replayer = Replayer::following(disk, world, shared.terms(), shared.next_numbers());
        let mut replayer = replayer.at(shared.clock.last());
        if let Some(observer) = observer {
            replayer = replayer.observed(observer);
        }
        for record in records {
            replayer.record(&record.payload).map_err(|error| match error {
                ReplayError::Malformed(what) => FollowError::Malformed { end: record.end, what },
                ReplayError::Store(error) => FollowError::Store(error),
                ReplayError::Observer(error) => FollowError::Observer(error),
            })?;
        }
        let followed = replayer.finish_following();
        shared.trap.pass(Step::Follow);
        Ok(self.put_in_place(records, followed)?)
    }

    fn put_in_place(&self, records: &[LogRecord], followed: FollowedLog) -> Result<(), StoreError> {
        let shared = &*self.shared;
        let FollowedLog {
            world,
            rolled_back,
            batches,
            resume_points,
            next_space,
            next_sequence,
            terms,
            time,
        } = followed;
        let mut leader = shared.pipeline.lock_leader(shared);
        let log = leader.log.as_mut().expect("a follower has a log");
        // One that goes through its own log again has them.
        let own_end = log.end_lsn();
        let new = || records.iter().filter(|record| record.end > own_end);
        let end = log.append_all(new().map(|record| &*record.payload))?;
        assert!(
            new().next_back().is_none_or(|last| last.end == end),
            "records have their places in both logs"
        );
        shared.trap.pass(Step::FollowInstall);
        shared.sequences.follow(resume_points);
        shared.raise_next_numbers(next_space, next_sequence);
        shared.set_terms(terms);
        shared.clock.raise(time);
        let (version, world) = (world.version(), Arc::new(world));
        let is_new = version > shared.applied().version();
        let end = records.last().map_or(self.position, |record| record.end);
        shared.applied_end.note(end);
        shared.checkpoints.note_rolled_back(&rolled_back);
        if is_new {
            let wanted = Wanted::Followed(end);
            shared.pipeline.publishing.push(shared, Arc::clone(&world), wanted, Vec::new());
            self.note_told(shared.pipeline.publishing.word());
            let changes =
                records.iter().map(|record| record.payload.len() as u64).sum::<u64>() / CHANGE_BYTES;
            shared.keeper.note_commit(changes, Some(end));
        } else {
            shared.pipeline.publishing.note_taken(end);
            if !rolled_back.is_empty() {
                // The same contents, with fewer epochs left out: purge may pass those.
                let old = shared.applied();
                shared.pipeline.publishing.replace_newest(shared, |_| World::clone(&world));
                shared.bury(vec![old]);
            }
        }
        let mut snapshots = shared.serializable.lock_followed();
        if shared.tells_of_safe() {
            for batch in batches {
                batch.members.into_iter().for_each(|member| snapshots.note_commit(member));
                snapshots.note_boundary(batch.boundary);
            }
            if is_new {
                snapshots.note_world(version, world);
            }
        }
        drop(leader);
        drop(snapshots);
        shared.follow_safe();
        shared.showing.note();
        Ok(())
    }

    /// Shows what was taken, and what is going to be until another one [is followed](Self::begin_following), up to this version: the
    /// primary has published it.
    pub fn note_published(&self, version: Version) {
        self.note_told(version);
        self.shared.pipeline.publishing.publish_through(&self.shared, version);
        // Its boundary may have come before.
        self.note_for_safe(|_| ());
        self.shared.showing.note();
    }

    /// Notes what was said to be published of what the log has. What it has not got yet may never come: it is not noted before.
    fn note_told(&self, version: Version) {
        let told = version.min(self.shared.applied().version());
        self.shared.told_published.fetch_max(told.get(), Ordering::AcqRel);
    }

    /// Shows all that was taken: it comes from an archive, which has nothing else than what was published.
    pub fn note_all_published(&self) {
        self.note_published(self.shared.applied().version());
    }

    /// Up to where its readers see the log.
    #[must_use]
    pub fn shown_position(&self) -> Lsn {
        self.shared.pipeline.publishing.shown_position()
    }

    /// Notes that readers see here what the primary had published at this moment of this machine's clock.
    pub fn note_current(&self, at: Instant) {
        self.shared.freshness.note_current(at);
    }

    /// Notes that readers see here all of what whoever gives the log said at this moment, however old that was as a word of the primary.
    pub fn note_level(&self, at: Instant) {
        self.shared.freshness.note_level(at);
    }

    /// What readers want to hear of the primary, until it is dropped: for whoever is connected to that.
    #[must_use]
    pub fn questions(&self) -> Questions {
        Questions::of(&self.shared.freshness)
    }

    /// Notes how far safe snapshots may go: the primary says so behind all records up to [`position`](Self::position).
    pub fn note_boundary(&self, boundary: Version) {
        self.note_for_safe(|shared| shared.serializable.lock_followed().note_boundary(boundary));
        self.shared.showing.note();
    }

    /// Notes something of what safe snapshots are made of, and shows a newer one if there is one now.
    fn note_for_safe(&self, note: impl FnOnce(&Shared)) {
        let shared = &*self.shared;
        // Behind a panic nobody knows what safe snapshots would be made of.
        if !shared.tells_of_safe() || shared.pipeline.publishing.check_whole().is_err() {
            return;
        }
        let noted = || {
            note(shared);
            shared.follow_safe();
        };
        // If it panics, the replica has stopped: the next records are told so.
        contained(&shared.pipeline.publishing, "while a safe snapshot was made", noted).ok();
    }

    /// Makes all that was taken durable, and returns up to where that is.
    ///
    /// # Errors
    /// [`StoreError::Stopped`].
    pub fn sync(&self) -> Result<Lsn, StoreError> {
        self.taken().sync()
    }

    /// What was taken so far, to be made durable by another thread while more is taken.
    #[must_use]
    pub fn taken(&self) -> TakenLog {
        TakenLog { shared: Arc::clone(&self.shared), end: self.position }
    }

    /// Goes on with the boundary that was known when it was closed, if the log has all that it had then.
    pub(crate) fn go_on_from_standing(&self) -> Result<(), StoreError> {
        let disk = self.shared.disk.as_ref().expect("a follower has a directory");
        let standing = FollowerStanding::read(&**disk.files(), disk.dir())?;
        if let Some(standing) = &standing {
            self.note_told(standing.published);
        }
        if let Some(standing) = standing.filter(|standing| self.position >= standing.position) {
            self.note_boundary(standing.boundary);
        }
        Ok(())
    }

    /// Notes durably how far safe snapshots may go, so that the next start has one at once.
    fn note_standing(&self) -> Result<(), StoreError> {
        let position = self.sync()?;
        let boundary = self.shared.serializable.lock_followed().boundary();
        let disk = self.shared.disk.as_ref().expect("a follower has a directory");
        let published = Version::new(self.shared.told_published.load(Ordering::Acquire));
        FollowerStanding { boundary, position, published }.write(&**disk.files(), disk.dir())
    }

    /// The last time that its log has.
    #[must_use]
    pub fn time(&self) -> LogTime {
        self.shared.clock.last()
    }

    /// Up to where its log is durable.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        self.shared.pipeline.log().map_or(Lsn::START, |log| log.durable_lsn())
    }
}

/// Makes the replica in a directory that nobody has open a database of its own. Durable on return; its next opening begins the
/// promised timeline, so that the former primary, and whoever follows that, cannot take one history for the other.
///
/// It has what the replica has taken. Whether that is all that was acknowledged is up to who asked for promises
/// (`promises.rs`).
///
/// # Errors
/// [`StoreError::FollowsNobody`] if it is no replica, [`StoreError::UnfinishedCopy`], [`StoreError::UnfinishedRewinding`],
/// [`StoreError::PromisedAnother`], [`StoreError::File`]. It is a replica as before then.
pub fn promote(files: &dyn FileSystem, dir: &Path, promise: Promise) -> Result<(), StoreError> {
    let directory = dir.display().to_string();
    if files.exists(&dir.join(UNFINISHED_COPY_FILE))? {
        return Err(StoreError::UnfinishedCopy { directory });
    }
    refuse_unfinished_rewinding(files, dir)?;
    if !is_replica(files, dir)? {
        return Err(StoreError::FollowsNobody { directory });
    }
    let _lock = files.lock(dir)?;
    if let Some(KeptPromise { promise: kept, .. }) = KeptPromise::read(files, dir)?
        && kept != promise
        && kept.timeline.get() >= promise.timeline.get()
    {
        return Err(StoreError::PromisedAnother { asked: promise.timeline, promised: kept.timeline });
    }
    // First: a primary that does not know would begin a term of the former one's timeline.
    KeptPromise { promise, to: PromisedTo::Itself }.write(files, dir)?;
    files.remove(&dir.join(FOLLOWER_FILE))?;
    Ok(files.sync_dir(dir)?)
}

/// Whether a directory is a replica's.
///
/// # Errors
/// [`StoreError::File`].
pub fn is_replica(files: &dyn FileSystem, dir: &Path) -> Result<bool, StoreError> {
    Ok(files.exists(&dir.join(FOLLOWER_FILE))?)
}

/// Makes the database in a directory that nobody has open a replica: the way back of a former primary. Durable on return. It
/// can follow one whose log begins as its own does, and numbers its files in a stretch of its own from here on. One whose log goes on
/// differently is [cut back](rewind).
///
/// # Errors
/// [`StoreError::UnfinishedCopy`], [`StoreError::UnfinishedRewinding`]; those of the manifest and the files. It is as before then, or
/// a replica.
pub fn demote(files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
    let directory = dir.display().to_string();
    if files.exists(&dir.join(UNFINISHED_COPY_FILE))? {
        return Err(StoreError::UnfinishedCopy { directory });
    }
    refuse_unfinished_rewinding(files, dir)?;
    let _lock = files.lock(dir)?;
    if is_replica(files, dir)? {
        return Ok(());
    }
    let path = manifest_path(dir);
    let mut manifest = Manifest::decode(&files.read(&path)?, &path, ChecksumPolicy::Verified)?;
    manifest.next_segment = copy_writer::own_stretch();
    manifest.write(files, dir)?;
    files.open(&dir.join(FOLLOWER_FILE), OpenMode::Create)?.sync_all()?;
    Ok(files.sync_dir(dir)?)
}

/// A change of a row takes about so many bytes in the log: for the keeper, which looks whether a checkpoint is due.
const CHANGE_BYTES: u64 = 100;

impl Shared {
    /// How far safe snapshots may go of those that follow this store, once they have all that it has.
    fn followers_boundary(&self) -> Version {
        if !self.tells_of_safe() {
            Version::ZERO
        } else if self.is_following() {
            // All that belongs to it came before it.
            self.serializable.lock_followed().boundary()
        } else {
            self.boundary_for_others()
        }
    }

    /// Puts a newer safe snapshot in place, if what was followed allows one. None is newer than what is shown: who reads it
    /// would have to wait for the primary's word before he gives it out.
    pub(crate) fn follow_safe(&self) {
        if self.pipeline.publishing.is_paused() {
            return;
        }
        let shown = self.published().version();
        let mut newest = None;
        {
            let mut snapshots = self.serializable.lock_followed();
            self.trap.pass(Step::FollowSafe);
            while let Some(made) = snapshots.advance(shown) {
                newest = Some(made);
            }
        }
        let Some((holds, world)) = newest else { return };
        let commits = world.commits();
        let safe = SafeWorld::new(with_members(world, &holds), holds);
        if let Some(old) = self.serializable.put_followed(safe, commits) {
            self.bury(vec![old]);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if !self.has_failed
            && let Err(error) = self.note_standing()
        {
            tracing::debug!(%error, "the next start has no safe snapshot before it hears of its primary");
        }
    }
}

#[cfg(test)]
mod tests;
