// SPDX-License-Identifier: Apache-2.0
//! What a primary sends to one that follows it: durable records, the files that they name, and boundaries.

use super::CopiedFile;
use crate::error::StoreError;
use crate::log::{LogError, LogReader, LogRecord, Lsn};
use crate::record::decode_places;
use crate::retention::{Hold, SlotError};
use crate::segment::segment_path;
use crate::shared::Shared;
use coeval_txn::Version;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What comes next.
#[derive(Debug)]
pub enum Fed {
    /// A file that the next records name, by its name. To be there, whole and durable, before they are taken.
    File(String, CopiedFile),
    /// Records that follow on.
    Records(Vec<LogRecord>),
    /// All up to this version is published here, and may be shown as soon as it is there.
    Published(Version),
    /// Behind all records given so far, safe snapshots may go to this version.
    Boundary(Version),
}

/// The log of a primary from a place on. Holds on the primary what it is going to give.
pub struct LogFeed {
    shared: Arc<Shared>,
    reader: LogReader,
    hold: Hold,
    /// What was read and is not given yet.
    waiting: VecDeque<Fed>,
    /// Whether records are given before they are published; if not, those that were read wait here.
    is_ahead: bool,
    unpublished: VecDeque<LogRecord>,
    /// Up to where it was said that everything is published.
    published: Version,
    /// Whether records were given since that was last looked at: it is said before more of them.
    gave_records: bool,
    /// The last boundary that was given, and one that can be once all up to its place is.
    boundary: Version,
    found: Option<Found>,
    /// The versions of the batches given, by the ends of their records, that the follower does not have durably.
    unconfirmed: VecDeque<(Lsn, Version)>,
}

/// A boundary, and the end of the log when it was reached.
#[derive(Clone, Copy, Debug)]
struct Found {
    boundary: Version,
    end: Lsn,
    since: Instant,
}

/// What is in the log and not durable for so long is synced for the follower: records that nobody waits for, and all where
/// durability is waived.
const SYNC_AFTER: Duration = Duration::from_millis(5);

impl fmt::Debug for LogFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogFeed(at {})", self.reader.position())
    }
}

impl LogFeed {
    pub(super) fn new(shared: Arc<Shared>, position: Lsn, hold: Hold) -> Result<Self, StoreError> {
        let reader = shared.pipeline.log().ok_or(StoreError::NoDirectory)?.reader(position);
        Ok(Self {
            shared,
            reader,
            hold,
            waiting: VecDeque::new(),
            is_ahead: false,
            unpublished: VecDeque::new(),
            published: Version::ZERO,
            gave_records: false,
            boundary: Version::ZERO,
            found: None,
            unconfirmed: VecDeque::new(),
        })
    }

    /// For who follows by a slot: that keeps what the follower does not have when this ends, and from now on over a crash; as far as
    /// it is still there.
    ///
    /// # Errors
    /// [`StoreError::Slot`] if there is none of this name, somebody follows by it, or it was let go of. Nothing was changed.
    pub fn with_slot(mut self, name: &str) -> Result<Self, StoreError> {
        // Held since this began: what is there stays until the slot holds it.
        let from = self.reader.is_reached().then(|| self.reader.position());
        let end = self.shared.pipeline.log().map_or(Lsn::START, |log| log.end_lsn());
        self.hold = self.shared.retention.attach_slot(name, from, end)?;
        self.note_kept();
        Ok(self)
    }

    /// Gives what is durable before it is published, for one who shows nothing before it is told so ([`Fed::Published`]):
    /// commits may wait for it.
    #[must_use]
    pub fn ahead_of_publication(mut self) -> Self {
        self.is_ahead = true;
        self
    }

    /// For one who has the log up to `position`.
    pub(crate) fn from_position(shared: Arc<Shared>, position: Lsn) -> Result<Self, StoreError> {
        // Of which version the follower's next bulk load may be is known with its next batch; older ones are checked for
        // when they come.
        let hold = shared.retention.hold(position, Version::ZERO, Default::default());
        Self::new(shared, position, hold)
    }

    /// What comes next; nothing if the follower has all that is durable and final. Never waits for commits.
    ///
    /// # Errors
    /// [`StoreError::Log`] with [`LogError::Gone`](crate::log::LogError::Gone), or [`StoreError::File`], if the follower was
    /// away for too long; [`StoreError::Slot`] if its slot was let go of, so that what it lacks may go with any checkpoint; damage of
    /// the log.
    pub fn next_piece(&mut self) -> Result<Option<Fed>, StoreError> {
        if let Some(slot) = self.hold.lost_slot() {
            return Err(SlotError::Outgrown((*slot).to_owned()).into());
        }
        if let Some(fed) = self.waiting.pop_front() {
            return Ok(Some(fed));
        }
        if std::mem::take(&mut self.gave_records)
            && let Some(published) = self.newly_published()
        {
            return Ok(Some(Fed::Published(published)));
        }
        if self.unpublished.is_empty() {
            self.unpublished.extend(self.reader.next_records()?);
        }
        self.queue()?;
        if let Some(fed) = self.waiting.pop_front() {
            self.gave_records = true;
            return Ok(Some(fed));
        }
        match self.newly_published() {
            Some(published) => Ok(Some(Fed::Published(published))),
            None => Ok(self.next_boundary()?.map(Fed::Boundary)),
        }
    }

    /// Up to which version everything is published, if that is more than was said.
    fn newly_published(&mut self) -> Option<Version> {
        let published = self.shared.published_for_others();
        if published <= self.published {
            return None;
        }
        self.published = published;
        Some(published)
    }

    /// Waits until there may be something more to give, at most for so long.
    pub fn wait(&self, patience: Duration) {
        let publishing = &self.shared.pipeline.publishing;
        // As long as it may not be said what is published here, nothing of that is waited for.
        let published = if self.shared.has_confirmed() { self.published } else { Version::new(u64::MAX) };
        // Behind a record that is not published nothing is given, however much more is durable.
        let position = if self.unpublished.is_empty() { self.reader.position() } else { Lsn::new(u64::MAX) };
        publishing.wait_for_more(position, published, patience);
    }

    /// A newer boundary, if all that belongs to its safe snapshot was given.
    fn next_boundary(&mut self) -> Result<Option<Version>, StoreError> {
        let log = self.shared.pipeline.log().expect("it was there when this was made");
        let found = match self.found {
            Some(found) => found,
            None => {
                if self.shared.serializable.lag_max().is_some() && !self.shared.is_following() {
                    // Takes the boundary past those that hold it back for too long, whether or not anybody reads here.
                    drop(self.shared.serializable.current(self.shared.published_slot()));
                }
                // Looked at first: who belongs to the safe snapshot of this version is published, so its record was
                // appended before the end that is looked at behind it.
                let boundary = self.shared.followers_boundary();
                let found = Found { boundary, end: log.end_lsn(), since: Instant::now() };
                if boundary <= self.boundary && found.end <= log.durable_lsn() {
                    return Ok(None);
                }
                *self.found.insert(found)
            }
        };
        if self.position() < found.end {
            if found.since.elapsed() >= SYNC_AFTER {
                let failed = |error| StoreError::Stopped(self.shared.pipeline.publishing.stop(error));
                log.sync(found.end).map_err(failed)?;
                // Commits may have waited for that.
                self.shared.pipeline.publishing.go_on(&self.shared);
            }
            return Ok(None);
        }
        self.found = None;
        let is_new = found.boundary > self.boundary;
        self.boundary = self.boundary.max(found.boundary);
        Ok(is_new.then_some(found.boundary))
    }

    /// Divides records so that files come before those that name them. What may not be given yet stays; so does what is not
    /// published behind what is, so that who takes them can show these alone.
    fn queue(&mut self) -> Result<(), StoreError> {
        let mut group = Vec::new();
        let published = self.shared.published_for_others();
        let mut has_published = false;
        while let Some(record) = self.unpublished.pop_front() {
            let places = decode_places(&record.payload).map_err(|error| {
                StoreError::corrupt(Path::new("log"), record.start().get(), &error.to_string())
            })?;
            if let Some((version, segments)) = places {
                let is_mixed = has_published && version > published;
                if is_mixed || (version > published && !self.is_ahead) {
                    self.unpublished.push_front(record);
                    break;
                }
                has_published |= version <= published;
                self.unconfirmed.push_back((record.end, version));
                if !segments.is_empty() && !group.is_empty() {
                    self.waiting.push_back(Fed::Records(std::mem::take(&mut group)));
                }
                for segment in segments {
                    let path = segment_path(Path::new(""), segment.number);
                    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
                    let file =
                        CopiedFile::open(&self.shared, &name).map_err(|error| self.gone(error, &record))?;
                    self.waiting.push_back(Fed::File(name, file));
                }
            }
            group.push(record);
        }
        if !group.is_empty() {
            self.waiting.push_back(Fed::Records(group));
        }
        Ok(())
    }

    /// A file that is not there any more was needed by a record of before the last checkpoint.
    fn gone(&self, error: StoreError, record: &LogRecord) -> StoreError {
        match error {
            StoreError::File(error) if error.is_not_found() => {
                LogError::Gone { wanted: record.start(), first: record.end }.into()
            }
            other => other,
        }
    }

    /// The follower has everything up to here durably: it is not held any more, as far as it was given and is durable here.
    ///
    /// A follower may have more. What it asks for, and was not given yet, stays for it all the same. And what is not durable here goes
    /// with a crash: if it is a replica that is followed, log of another history may come in its place, which the follower has not.
    pub fn confirm(&mut self, position: Lsn) {
        let durable = self.shared.pipeline.log().map_or(Lsn::START, |log| log.durable_lsn());
        let position = position.min(self.position()).min(durable);
        let mut version = Version::ZERO;
        while let Some((_, confirmed)) = self.unconfirmed.front().filter(|(end, _)| *end <= position) {
            version = *confirmed;
            self.unconfirmed.pop_front();
        }
        self.hold.advance(position, version);
    }

    /// Has the log stay that is not [confirmed](Self::confirm), with the files that it names, when this is dropped and when the
    /// store is closed and opened again: until the next feed for which it is kept begins, or it is more than `bytes_max` bytes.
    /// What was kept for an earlier feed is let go of. Durable on return, or with the next checkpoint if the file cannot be
    /// written now.
    pub fn keep_over_closes(&mut self, bytes_max: u64) {
        self.hold.keep(bytes_max);
        self.note_kept();
    }

    /// Ends it; what was [kept](Self::keep_over_closes) goes with the next checkpoint.
    pub fn let_go(self) {
        self.hold.let_go();
        self.note_kept();
    }

    /// The file is written again by the next checkpoint if it cannot be now.
    fn note_kept(&self) {
        if let Err(error) = self.shared.note_kept_log(self.shared.published_slot().load().version()) {
            tracing::warn!(%error, "what is kept of the log is not noted");
        }
    }

    /// The place behind the last record that may be given.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.unpublished.front().map_or_else(|| self.reader.position(), LogRecord::start)
    }
}

impl Drop for LogFeed {
    fn drop(&mut self) {
        if self.hold.is_kept() {
            self.note_kept();
        }
    }
}
