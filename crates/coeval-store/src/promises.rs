// SPDX-License-Identifier: Apache-2.0
//! Promises: to acknowledge no log of a timeline below the one that somebody is about to begin.
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
//! the answer covers the commit. The candidate goes on only if its own log is at least as long as every answer, by last
//! timeline, term and place; logs of one last term are the beginnings of one another. So the candidate has the commit.
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
//! # Two candidates for one number
//! Where half of the listed machines or more have to have what is acknowledged, half or fewer have to promise, and two candidates may
//! each find enough for timelines of one number: of `ANY 2 (a, b, c)` each by itself. More promises would keep the last machine that
//! is left from going on, though it has all that was acknowledged. So the timelines differ instead: each is its candidate's, a random number
//! that no other attempt has, and the higher candidate's is the higher one (`terms.rs`). Where all lists of a candidate need a majority,
//! its timeline is nobody's, and lower than any candidate's of that number. One machine begins that: two candidates that go by one
//! list both have the promise of some machine, which gives a number once; and if they go by none together, one has a list that was written
//! down alone once enough of the other's machines had it, as above. The proof above takes of timelines only that
//! they are ordered, that one machine begins each, and that who has promised or followed one acknowledges no log of a lower one. It
//! takes of those that promise only that they meet those that acknowledge; those that promise one timeline and those that promise
//! another need not meet. (Ballots of Paxos are unique for the same reason, and quorums of its two phases need not be majorities then.)
//! So of two primaries of one number, the lower one gets nothing acknowledged that the higher one lacks: R has promised or followed the
//! higher one, or has told its candidate of the commit. When the two hear of each other, the lower one's commits stop, and it is cut
//! back as any former primary is.
//!
//! Why not all timelines are a candidate's: who has promised one that is not begun refuses a lower one of its number, until somebody is
//! promoted to a higher number. Of timelines that are nobody's it follows whichever is begun.
//!
//! # A candidate of an older program
//! Programs before this rule compare numbers alone. The candidate that they send is any number, odd by chance, and not the id of the term that
//! they begin: taken for a timeline of its own, it would keep who has promised it from following the one that is begun. So a candidate
//! that knows the rule says so with its request, and to one that does not a number is promised, by the rule of its time
//! ([`Promise::of_number`]): whoever of that number is begun is followed.
//!
//! Where a majority has to promise that is as safe as it was: a machine gives a number once, to a candidate of whatever program, so one
//! machine begins it. Where few have to, it never was. R promises number T to c, whose program is older, and follows the lower one of two that are begun
//! with that number: what R acknowledges of it the higher one lacks, and two with even ids are even in one timeline. So there a replica promises such a
//! candidate nothing ([`Store::promise_number`]), and a candidate of few counts no promise of a machine whose program is older
//! (`coeval-replica/src/promotion.rs`). Nobody is kept from being promoted for good: what is refused is said, with the machine that
//! is to be brought up to date.
//!
//! Whoever is asked by two gives the number to the first alone, so that the second does not end what the first has begun. Only a machine
//! whose log is in a timeline of that number already hears of a higher one of it.
//!
//! # Two primaries
//! A primary of a lower timeline may run on: it gets no acknowledgement any more of a replica that has promised
//! a higher one, and once it has heard of the promise its commits stop. Until then it acknowledges commits that ask for no replica:
//! those were never promised to be on any disk but its own.
//!
//! # The file
//! | bytes | field |
//! |---|---|
//! | 0..4 | number of the timeline |
//! | 4..5 | 1 if the directory itself begins it, else 2; 0 likewise, of a number alone: written by an older program, or promised to one |
//! | 5..13 | the candidate; 0 if it is not known |
//! | 13..17 | CRC32C of these |
//!
//! With a 0 the timeline is nobody's: whichever of this number was begun may be followed, as that program would have.
//! Numbers are little-endian. A damaged file ends the open: forgetting a promise may lose what was acknowledged.
//!
//! It also tells whose directory it is. A primary's has promised another only a timeline beyond its own (and takes no commits), or
//! itself the one that it was promoted to; so one that has promised another a timeline that its log has reached is a replica's. If
//! it has lost the file `follower`, it is refused to whoever would begin a term of that timeline.
//!
//! [`promises_needed`]: crate::SynchronousReplicas::promises_needed
//! [`CopyWriter::note_timeline`]: crate::CopyWriter::note_timeline
//! [`Store::promise_number`]: crate::Store::promise_number

use crate::error::StoreError;
use crate::files::{FileSystem, replace_file};
use crate::log::Lsn;
use crate::terms::{Timeline, random_id};
use crc32c::crc32c;
use parking_lot::{Mutex, RwLock};
use std::path::Path;

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
    /// For a new attempt to begin the timeline of this number that is nobody's.
    #[must_use]
    pub fn asked_for(timeline: Timeline) -> Self {
        Self::of(timeline, (random_id() & !1).max(2))
    }

    /// For the attempt of this candidate to begin a timeline of this number: its own, if the candidate is odd, else the one that is
    /// nobody's.
    #[must_use]
    pub fn of(timeline: Timeline, candidate: u64) -> Self {
        Self { timeline: timeline.of_candidate(candidate), candidate }
    }

    /// For the attempt of a candidate whose program compares numbers alone: the timeline of this number that is nobody's, whatever the
    /// candidate is. Whichever of that number is begun may be followed.
    #[must_use]
    pub fn of_number(timeline: Timeline, candidate: u64) -> Self {
        Self { timeline: Timeline::new(timeline.get()), candidate }
    }

    /// Whether it is of a number alone, though its candidate is one that would have a timeline of its own.
    fn is_of_number_alone(self) -> bool {
        self != Self::of(self.timeline, self.candidate)
    }

    /// The same of one that fewer than a majority have to give: for a timeline of its own.
    pub(crate) fn of_few(self) -> Self {
        Self::of(self.timeline, self.candidate | 1)
    }

    /// For who tells others that this timeline has begun.
    #[must_use]
    pub fn of_begun(timeline: Timeline) -> Self {
        Self { timeline, candidate: timeline.candidate() }
    }
}

/// How far the log of a machine goes, for those who compare: by timeline, then by term, then by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogStanding {
    /// The timeline that it is in.
    pub timeline: Timeline,
    /// The number of its last term; 0 before the first.
    pub term: u64,
    /// Up to where it is durable.
    pub durable: Lsn,
}

impl LogStanding {
    /// Of a log whose last term has this number, in a timeline that this candidate has begun; 0 if that is not known.
    #[must_use]
    pub const fn new(term: u64, candidate: u64, durable: Lsn) -> Self {
        Self { timeline: Timeline::of_term(term).of_candidate(candidate), term, durable }
    }
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
        Self { promise: Promise::of_begun(timeline), to: PromisedTo::Another }
    }

    /// The same beside a log in the timeline `own`. One of its number that the directory has promised itself is what it has begun since: an
    /// older program gave the first term another id than the candidate's.
    pub(crate) fn beside(self, own: Timeline) -> Self {
        if self.to == PromisedTo::Itself && self.promise.timeline.get() == own.get() {
            return Self { promise: Promise::of_begun(own), ..self };
        }
        self
    }

    /// Puts it in the place of the one before; durable on return.
    ///
    /// # Errors
    /// [`StoreError::File`]; the directory has the old one or this one.
    pub(crate) fn write(&self, files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&self.promise.timeline.get().to_le_bytes());
        bytes.push(match self.to {
            PromisedTo::Itself => 1,
            PromisedTo::Another if self.promise.is_of_number_alone() => 0,
            PromisedTo::Another => 2,
        });
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
        let candidate = u64::from_le_bytes(candidate.try_into().map_err(|_| damaged())?);
        let timeline = Timeline::new(u32::from_le_bytes(*timeline));
        let promise = match itself {
            [0] => Promise::of_number(timeline, candidate),
            _ => Promise::of(timeline, candidate),
        };
        let to = if *itself == [1] { PromisedTo::Itself } else { PromisedTo::Another };
        Ok(Some(Self { promise, to }))
    }
}

/// What a store has promised.
///
/// # Locking
/// `kept` is held while a promise is made durable; nobody waits for it but who promises. It comes before the locks of a stop.
/// `timeline` is a leaf lock, held for moments.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    kept: Mutex<Option<KeptPromise>>,
    /// The timeline of the last promise, to be read without the lock; 0 if there is none. Set after the file is written, and before the
    /// end of the log is read that is sent to the candidate.
    timeline: RwLock<Timeline>,
}

impl Promises {
    /// Of a directory that has kept this one, whose log is in the timeline `own`.
    pub(crate) fn new(kept: Option<KeptPromise>, own: Timeline) -> Self {
        let kept = kept.map(|kept| kept.beside(own));
        let timeline = kept.map_or(Timeline::new(0), |kept| kept.promise.timeline);
        Self { kept: Mutex::new(kept), timeline: RwLock::new(timeline) }
    }

    /// Promises a timeline that is beyond that of the log, `own`, and all that were promised, by its number, and not out of all reach; by
    /// its candidate alone if the log is in one of that number. Durable on return.
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
        let asked = promise.timeline;
        let is_for_it = asked.get() > promised.get() || (asked > promised && asked.get() == own.get());
        if !is_for_it || !asked.may_follow(own) {
            return Err(StoreError::PromisedAnother { asked, promised });
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
        *self.timeline.write() = new.promise.timeline;
        Ok(())
    }

    /// The one that the directory itself was promoted with.
    pub(crate) fn own(&self) -> Option<Promise> {
        self.kept.lock().filter(|kept| kept.to == PromisedTo::Itself).map(|kept| kept.promise)
    }

    /// The highest timeline that was promised; 0 if none was.
    pub(crate) fn timeline(&self) -> Timeline {
        *self.timeline.read()
    }
}

#[cfg(test)]
mod tests;
