// SPDX-License-Identifier: Apache-2.0
//! Promises: to acknowledge no log of a timeline below the one that somebody is about to begin (DESIGN 8.1, Promotion).
//!
//! ```text
//! candidate    asks replicas for promises of timeline T | opens its log for writing in T
//! replica      promise is durable | answers with the end of its log | acknowledges nothing of a timeline below T
//! old primary  promises as well, once it is reached: its commits stop
//! ```
//!
//! # Why nothing acknowledged is lost
//! Commits of level `on` and above are acknowledged once n of the listed machines have them durably, and the primary itself.
//! Only a listed machine is promoted. Of M that are listed, so many have promised T before the candidate begins it
//! ([`promises_needed`]) that whoever has an acknowledged commit includes one of them, R. Take a commit of a lower timeline that was acknowledged, and the status of R that was counted for
//! it. R reads the end of its durable log, then looks whether it has promised, and only then sends that status; and it answers
//! the candidate with the end of its durable log read after the promise. So the status was looked at before the promise, and
//! the answer covers the commit. The candidate goes on only if its own log is at least as long as every answer, by last term and
//! place; logs of one last term are the beginnings of one another. So the candidate has the commit.
//!
//! # What a predecessor wrote
//! Whoever is opened has records of earlier terms. That so many replicas have them says nothing yet: another machine whose last
//! term is a later one, and whose log is shorter, counts as the longer one, may be promoted, and does not have them (the
//! figure 8 of Raft's paper). So they count, and are shown, only once as many replicas have the record that begins the own term as
//! well, which lies behind them: then whoever has a longer log has got it from here, or from somebody who had. It is written when a
//! store with such a list is opened. Commits of the own term lie behind it anyway.
//!
//! The list itself is in the log (`CatalogChange::PutSynchronousReplicas`), and while one list follows another, commits wait for
//! both (`replicas.rs`). So a candidate whose list is out of date still asks enough: whoever acknowledged behind a change has
//! the change in its log, and is longer. Its list is not older than the log that it compares: it looks at it behind its own promise.
//! One that has the change asks enough by both lists, too: others may go by the old one
//! alone, and commits that only enough of the old one have may lie behind the change nowhere. Once enough by both lists have the change,
//! so that nobody is promoted without it, the new list is written down alone; who has that asks by it alone. (As in Raft's joint
//! consensus.) A list that follows none is nobody's to ask: who has no list yet is promoted without anybody's promise.
//!
//! A promise must not be forgotten: R acknowledges nothing of a lower timeline than it has once promised, or followed. So a copy
//! of a primary, which may take the place of what R had, says from its first moment on in which timeline that primary is
//! ([`CopyWriter::note_timeline`]), and so does who begins to follow one: the term that says it comes with the log, later.
//!
//! # Two primaries
//! One timeline is promised to one candidate only. A primary of a lower one may run on: it gets no replica's acknowledgement
//! any more, and once it has heard of the promise its commits stop. Until then it acknowledges commits that ask for no replica:
//! those were never promised to be on any disk but its own.
//!
//! # The file
//! | bytes | field |
//! |---|---|
//! | 0..4 | timeline |
//! | 4..5 | 1 if the directory itself begins it, else 0 |
//! | 5..13 | the candidate |
//! | 13..17 | CRC32C of these |
//!
//! Numbers are little-endian. A damaged file ends the open: forgetting a promise may lose what was acknowledged.
//!
//! It also tells whose directory it is. A primary's has promised another only a timeline beyond its own (and takes no commits), or
//! itself the one that it was promoted to; so one that has promised another a timeline that its log has reached is a replica's. If
//! it has lost the file `follower`, it is refused to whoever would begin a term of that timeline.
//!
//! [`promises_needed`]: crate::SynchronousReplicas::promises_needed
//! [`CopyWriter::note_timeline`]: crate::CopyWriter::note_timeline

use crate::error::StoreError;
use crate::files::{FileSystem, replace_file};
use crate::log::Lsn;
use crate::terms::{Timeline, random_id};
use crc32c::crc32c;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Its name in the directory.
pub(crate) const FILE_NAME: &str = "promise";

const BYTES: usize = 17;

/// A timeline that somebody is about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Which.
    pub timeline: Timeline,
    /// Who; a random number for each attempt.
    pub candidate: u64,
}

impl Promise {
    /// For a new attempt to begin this timeline.
    #[must_use]
    pub fn asked_for(timeline: Timeline) -> Self {
        Self { timeline, candidate: random_id() }
    }
}

/// How far the log of a machine goes, for those who compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogStanding {
    /// The number of its last term; 0 before the first.
    pub term: u64,
    /// Up to where it is durable.
    pub durable: Lsn,
}

/// Whom a promise was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromisedTo {
    Another,
    /// The directory is to begin the timeline when it is opened next.
    Itself,
}

/// A promise as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptPromise {
    pub(crate) promise: Promise,
    pub(crate) to: PromisedTo,
}

impl KeptPromise {
    /// Of a timeline that somebody has begun: no candidate is promised it any more.
    pub(crate) fn of_begun(timeline: Timeline) -> Self {
        Self { promise: Promise { timeline, candidate: 0 }, to: PromisedTo::Another }
    }

    /// Puts it in the place of the one before; durable on return.
    ///
    /// # Errors
    /// [`StoreError::File`]; the directory has the old one or this one.
    pub(crate) fn write(&self, files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&self.promise.timeline.get().to_le_bytes());
        bytes.push(u8::from(self.to == PromisedTo::Itself));
        bytes.extend_from_slice(&self.promise.candidate.to_le_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        Ok(replace_file(files, &dir.join(FILE_NAME), &bytes)?)
    }

    /// The one that the directory has.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::File`].
    pub(crate) fn read(files: &dyn FileSystem, dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(FILE_NAME);
        if !files.exists(&path)? {
            return Ok(None);
        }
        let bytes = files.read(&path)?;
        let damaged = || StoreError::corrupt(&path, 0, "this is no promise");
        let (body, checksum) = bytes.split_at_checked(BYTES - 4).ok_or_else(damaged)?;
        if checksum != crc32c(body).to_le_bytes() {
            return Err(damaged());
        }
        let (timeline, rest) = body.split_first_chunk::<4>().ok_or_else(damaged)?;
        let (itself, candidate) = rest.split_first_chunk::<1>().ok_or_else(damaged)?;
        let candidate = candidate.try_into().map_err(|_| damaged())?;
        Ok(Some(Self {
            promise: Promise {
                timeline: Timeline::new(u32::from_le_bytes(*timeline)),
                candidate: u64::from_le_bytes(candidate),
            },
            to: if *itself == [1] { PromisedTo::Itself } else { PromisedTo::Another },
        }))
    }
}

/// What a store has promised.
///
/// # Locking
/// `kept` is held while a promise is made durable; nobody waits for it but who promises. It comes before the locks of a stop.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    kept: Mutex<Option<KeptPromise>>,
    /// The timeline of the last promise, to be read without the lock; 0 if there is none. Set after the file is written, and before the
    /// end of the log is read that is sent to the candidate.
    timeline: AtomicU32,
}

impl Promises {
    pub(crate) fn new(kept: Option<KeptPromise>) -> Self {
        let timeline = kept.map_or(0, |kept| kept.promise.timeline.get());
        Self { kept: Mutex::new(kept), timeline: AtomicU32::new(timeline) }
    }

    /// Promises a timeline that nobody else was promised, nor a higher one, and that is beyond that of the log, `own`, and not out
    /// of all reach. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::PromisedAnother`], [`StoreError::File`].
    pub(crate) fn keep(
        &self,
        (files, dir): (&dyn FileSystem, &Path),
        own: Timeline,
        promise: Promise,
    ) -> Result<(), StoreError> {
        let mut kept = self.kept.lock();
        if kept.is_some_and(|kept| kept.promise == promise && promise.candidate > 0) {
            return Ok(());
        }
        let promised = kept.map_or(own, |kept| kept.promise.timeline.max(own));
        if promise.timeline <= promised || !promise.timeline.may_follow(own) {
            return Err(StoreError::PromisedAnother { asked: promise.timeline, promised });
        }
        self.replace(&mut kept, KeptPromise { promise, to: PromisedTo::Another }, (files, dir))
    }

    /// Notes that another machine has begun this timeline and that its log is followed: from now on no log of a lower timeline is.
    /// Durable on return.
    ///
    /// # Errors
    /// [`StoreError::PromisedAnother`] if it is out of all reach of that of the log, `own`; [`StoreError::File`].
    pub(crate) fn note_begun(
        &self,
        (files, dir): (&dyn FileSystem, &Path),
        own: Timeline,
        timeline: Timeline,
    ) -> Result<(), StoreError> {
        let mut kept = self.kept.lock();
        if kept.is_some_and(|kept| kept.promise.timeline >= timeline) {
            return Ok(());
        }
        if !timeline.may_follow(own) {
            let promised = kept.map_or(own, |kept| kept.promise.timeline.max(own));
            return Err(StoreError::PromisedAnother { asked: timeline, promised });
        }
        self.replace(&mut kept, KeptPromise::of_begun(timeline), (files, dir))
    }

    /// Puts another one in the place of what is kept, whose lock is held. Durable on return; what was kept stays if it fails.
    fn replace(
        &self,
        kept: &mut Option<KeptPromise>,
        new: KeptPromise,
        (files, dir): (&dyn FileSystem, &Path),
    ) -> Result<(), StoreError> {
        new.write(files, dir)?;
        *kept = Some(new);
        self.timeline.store(new.promise.timeline.get(), Ordering::SeqCst);
        Ok(())
    }

    /// The one that the directory itself was promoted with.
    pub(crate) fn own(&self) -> Option<Promise> {
        self.kept.lock().filter(|kept| kept.to == PromisedTo::Itself).map(|kept| kept.promise)
    }

    /// The highest timeline that was promised; 0 if none was.
    pub(crate) fn timeline(&self) -> Timeline {
        Timeline::new(self.timeline.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests;
