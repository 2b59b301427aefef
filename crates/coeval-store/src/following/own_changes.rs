// SPDX-License-Identifier: Apache-2.0
//! What transactions of an open store changed, from its own files: the newest checkpoint, and the log behind it.
//!
//! A second world is made of the manifest, without a copy of any file, and goes through the log as a follower does. It is in
//! memory, and gone in the end: nothing is written. The store's files stay where they are meanwhile, as they do for a copy.

use super::change_feed::{check, check_finally};
use super::change_token::FeedPlace;
use super::changes::{ChangeReader, RecordPlace};
use super::{ChangeFeedError, ChangeSink, ChangeToken, Fed, FollowError, LogFeed};
use crate::clock::LogTime;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::{LogRecord, Lsn};
use crate::manifest::{Manifest, manifest_path};
use crate::record::LogMark;
use crate::recovery::{Mending, ObserveReplay, ReplayError, Replayer, restore};
use crate::store::Store;
use crate::terms::{Term, TermHistory};
use crate::world::World;
use coeval_txn::Version;
use std::time::Duration;

/// How long to wait for what is published and not given yet.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl Store {
    /// Gives what transactions changed that are behind `from`, up to the snapshot of version `newest`, which is published, and to
    /// `until` if that is given.
    ///
    /// # Errors
    /// [`ChangeFeedError::TooOld`] if the newest checkpoint has more than `from`; [`ChangeFeedError::Foreign`]: nothing was given
    /// then. [`ChangeFeedError::Output`] of the sink. [`StoreError::NoDirectory`], [`StoreError::ServedReadOnly`]; damage.
    ///
    /// What [may not be said to be published](Self::has_confirmed) is waited for as long as the sink [wants](ChangeSink::look): a
    /// database that was opened anew gives nothing before as many replicas have what it has as its commits wait for.
    ///
    /// Cost: what opening a database does that has as much log behind its checkpoint: with brick tables, reading them, and the
    /// memory for them once more.
    pub fn changes(
        &self,
        from: ChangeToken,
        until: Option<ChangeToken>,
        newest: Version,
        sink: &mut dyn ChangeSink,
    ) -> Result<(), ChangeFeedError> {
        let disk = self.shared.disk.as_ref().ok_or(StoreError::NoDirectory)?;
        let copy = self.base_copy()?;
        let manifest = Manifest::decode(copy.manifest(), &manifest_path(disk.dir()), disk.checksums())?;
        if copy.version() > from.world_before() {
            return Err(ChangeFeedError::TooOld { token: from, oldest: copy.version() });
        }
        let terms = self.terms();
        for token in [Some(from), until].into_iter().flatten() {
            check(&terms, token)?;
        }
        let end = FeedPlace::behind(newest);
        let end = until.map_or(end, |until| until.place().min(end));
        let world = restore(disk, &manifest, Mending::None)?;
        let replayed = Replayer::new(disk, world, &manifest).finish_to_follow();
        let mut own = OwnReplay {
            disk,
            world: replayed.world,
            terms: replayed.terms,
            numbers: (replayed.next_space, replayed.next_sequence),
            time: replayed.time,
            from,
            is_checked: false,
            end,
        };
        own.go_through(copy.into_feed()?, sink)
    }
}

/// A world that goes through the log.
struct OwnReplay<'d> {
    disk: &'d Disk,
    world: World,
    terms: TermHistory,
    numbers: (u32, u32),
    time: LogTime,
    from: ChangeToken,
    is_checked: bool,
    end: FeedPlace,
}

impl OwnReplay<'_> {
    fn go_through(&mut self, mut feed: LogFeed, sink: &mut dyn ChangeSink) -> Result<(), ChangeFeedError> {
        while !self.has_ended() {
            match feed.next_piece()? {
                Some(Fed::Records(records)) => {
                    for record in records {
                        if self.has_ended() {
                            break;
                        }
                        self.record(&record, sink)?;
                    }
                }
                // Files are where they are; what is published is all that the feed gives.
                Some(Fed::File(..) | Fed::Published(_) | Fed::Boundary(_)) => {}
                None => {
                    sink.look().map_err(ChangeFeedError::Output)?;
                    feed.wait(LOOK_INTERVAL);
                }
            }
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        FeedPlace::behind(self.world.version()) >= self.end || self.end <= self.from.place()
    }

    fn record(&mut self, record: &LogRecord, sink: &mut dyn ChangeSink) -> Result<(), ChangeFeedError> {
        let version = match LogMark::of(record)? {
            LogMark::Batch(version) if FeedPlace::behind(version) > self.from.place() => version,
            _ => return self.replay(record, None),
        };
        if !self.is_checked {
            check_finally(&self.terms, self.from, record, version)?;
            self.is_checked = true;
        }
        let term = self.terms.last().unwrap_or(Term { number: 0, id: 0, start: Lsn::START });
        let time = (self.time > LogTime::ZERO).then_some(self.time);
        let place = RecordPlace { term, end: record.end, time };
        let mut reader = ChangeReader::new(place, (self.from.place(), Some(self.end)), sink);
        self.replay(record, Some(&mut reader))
    }

    fn replay(
        &mut self,
        record: &LogRecord,
        observer: Option<&mut dyn ObserveReplay>,
    ) -> Result<(), ChangeFeedError> {
        let (world, terms) = (self.world.clone(), self.terms.clone());
        let mut replayer = Replayer::following(self.disk, world, terms, self.numbers).at(self.time);
        if let Some(observer) = observer {
            replayer = replayer.observed(observer);
        }
        replayer.record(&record.payload).map_err(|error| match error {
            ReplayError::Malformed(what) => {
                ChangeFeedError::Follow(FollowError::Malformed { end: record.end, what })
            }
            ReplayError::Store(error) => ChangeFeedError::Store(error),
            ReplayError::Observer(error) => ChangeFeedError::Output(error),
        })?;
        let followed = replayer.finish_following();
        self.numbers = (followed.next_space, followed.next_sequence);
        (self.world, self.terms) = (followed.world, followed.terms);
        self.time = self.time.max(followed.time);
        Ok(())
    }
}
