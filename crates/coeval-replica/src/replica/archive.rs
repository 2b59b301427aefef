// SPDX-License-Identifier: Apache-2.0
//! Taking the log from the archive, as far as it has it.

use super::primary::outcome;
use super::{ReplicaState, Taking};
use crate::error::ReplicaError;
use crate::rejoining::{Kinship, NewHistory};
use coeval_archive::{ArchiveError, ArchivedLog, ArchivedPart, ArchivedStretch};
use coeval_store::log::Lsn;
use coeval_store::{LogTime, StoreError, TermHistory};
use std::time::{Duration, Instant};

/// While there is a primary, it is asked at least so often whether it is there, or has the log by now.
const PRIMARY_INTERVAL: Duration = Duration::from_secs(30);

/// What was fetched before its turn.
struct Ahead {
    terms: TermHistory,
    position: Lsn,
    stretch: Option<ArchivedStretch>,
}

impl Ahead {
    /// The answer for one who has these terms up to there, if it is that.
    fn of(self, terms: &TermHistory, position: Lsn) -> Option<Option<ArchivedStretch>> {
        (self.position == position && self.terms == *terms).then_some(self.stretch)
    }
}

/// How long ago a clock said this time, at most, that differs by no more than `difference` from the one that says `now`. Nothing if it
/// differs by more, or no time is known.
fn age_at_most(time: LogTime, now: LogTime, difference: Duration) -> Option<Duration> {
    if time == LogTime::ZERO {
        return None;
    }
    let latest = Duration::from_micros(now.micros()).checked_add(difference)?;
    latest.checked_sub(Duration::from_micros(time.micros()))
}

impl Taking {
    /// Takes what the archive has, and says whether that was anything; `why` not from the primary, if there is one. None if
    /// there is no archive.
    pub(super) fn follow_archive(
        &mut self,
        why: Option<&ReplicaError>,
    ) -> Option<Result<bool, ReplicaError>> {
        let mut log = self.log.take()?;
        self.follower.begin_following_archive();
        if self.sources.primary.is_none() {
            // All that it has came from there.
            self.follower.note_all_published();
        }
        let outcome = self.take_from(&mut log, why).map_err(|error| self.of_archive(error));
        // Whatever has ended it: what was taken is durable when the next source is asked for what comes behind.
        let synced = self.follower.sync();
        self.note();
        self.note_age();
        self.log = Some(log);
        Some(outcome.and_then(|took| Ok(synced.map(|_| took)?)))
    }

    /// What it says that the log here is not the beginning of the archive's newest history, where there is nobody else who knows: that
    /// may be the history of a replica which was promoted.
    fn of_archive(&self, error: ReplicaError) -> ReplicaError {
        let is_parted =
            matches!(error, ReplicaError::Archive(ArchiveError::Store(StoreError::ForeignHistory(_))));
        let source = self.sources.archive.as_ref().filter(|_| is_parted && self.sources.primary.is_none());
        let Some(source) = source else { return error };
        let new = NewHistory::In(source.archive.clone());
        match new.kinship(&self.follower.as_former_primary()) {
            Ok(Kinship::Rewindable { place, .. }) => {
                self.parted_from.send_replace(Some(new));
                ReplicaError::Rewindable { parting: place }
            }
            Ok(Kinship::Parted(beyond @ ReplicaError::CheckpointBeyond { .. })) => beyond,
            // Nothing of the log is there yet, or the storage does not answer: it is asked again.
            Err(why) if !why.is_final() => why,
            Ok(_) | Err(_) => error,
        }
    }

    fn take_from(&mut self, log: &mut ArchivedLog, why: Option<&ReplicaError>) -> Result<bool, ReplicaError> {
        let (begun, mut took) = (Instant::now(), false);
        let mut ahead = None;
        while !self.is_stopping() && (self.sources.primary.is_none() || begun.elapsed() < PRIMARY_INTERVAL) {
            let (terms, position) = (self.follower.terms(), self.follower.position());
            // Of another place or history than is there now it says nothing; nor does an error, which may be of those.
            let fetched = ahead.take().and_then(|ahead: Ahead| ahead.of(&terms, position));
            let next = fetched.map_or_else(|| log.next_together(&terms, position), Ok)?;
            self.note_archive(log, why);
            let Some(stretch) = next else { break };
            ahead = self.take_and_look_ahead(&stretch, log, &terms)?;
            took = true;
        }
        Ok(took)
    }

    /// Takes a stretch, while what was taken before is made durable and what comes behind it is fetched, each by a thread of its own.
    fn take_and_look_ahead(
        &mut self,
        stretch: &ArchivedStretch,
        log: &mut ArchivedLog,
        terms: &TermHistory,
    ) -> Result<Option<Ahead>, ReplicaError> {
        let (position, taken) = (stretch.end(), self.follower.taken());
        std::thread::scope(|scope| {
            let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
            let fetching = thread("coeval-fetch").spawn_scoped(scope, || log.next_together(terms, position));
            // Without a thread it is made durable with the next one.
            let syncing = thread("coeval-sync").spawn_scoped(scope, || taken.sync()).ok();
            let took = self.take_stretch(stretch);
            let synced = syncing.map(outcome).transpose();
            took?;
            synced?;
            self.note();
            // Without a thread, or behind a panic there, it is fetched when it is its turn.
            let fetched = fetching.ok().and_then(|fetching| fetching.join().ok()).and_then(Result::ok);
            Ok(fetched.map(|stretch| Ahead { terms: terms.clone(), position, stretch }))
        })
    }

    /// Takes a stretch. It is durable when somebody has synced behind that.
    fn take_stretch(&mut self, stretch: &ArchivedStretch) -> Result<(), ReplicaError> {
        for part in stretch.parts() {
            if self.is_stopping() {
                break;
            }
            match part {
                ArchivedPart::File(file) => {
                    file.write_to(self.follower.receive_file(file.name())?)?;
                }
                ArchivedPart::Records(records) => {
                    self.follower.take(records)?;
                    // An archive has nothing else.
                    self.follower.note_all_published();
                }
            }
            self.note();
            self.note_age();
        }
        Ok(())
    }

    /// Notes how old what readers see is at most, if somebody vouches for the clocks. Whatever the primary had published at the last time
    /// that its log has lies before that.
    fn note_age(&self) {
        let difference = self.sources.archive.as_ref().and_then(|source| source.clock_difference);
        let Some(difference) = difference else { return };
        if self.follower.shown_position() < self.follower.position() {
            return;
        }
        let age = age_at_most(self.follower.time(), LogTime::now(), difference);
        if let Some(at) = age.and_then(|age| Instant::now().checked_sub(age)) {
            self.follower.note_current(at);
        }
    }

    /// Says so once, not at each look.
    fn note_archive(&self, log: &ArchivedLog, why: Option<&ReplicaError>) {
        let state = ReplicaState::FollowingArchive(why.map(ToString::to_string));
        let mut status = self.status.lock();
        if status.state != state {
            let (archive, position) = (log.place(), self.follower.position());
            match why {
                Some(why) => {
                    tracing::warn!(archive, %position, %why, "the replica takes the log from the archive");
                }
                None => tracing::info!(archive, %position, "the replica takes the log from the archive"),
            }
            status.state = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the difference is forgotten: the other clock may have said the time so much earlier.
    #[test]
    fn a_time_of_another_clock_may_be_older_by_the_difference() {
        let (time, second) = (LogTime::from_micros, Duration::from_secs(1));
        let now = time(100_000_000);
        assert_eq!(age_at_most(time(97_000_000), now, second), Some(4 * second));
        assert_eq!(age_at_most(time(100_500_000), now, second), Some(second / 2), "it is ahead of this one");
        assert_eq!(age_at_most(time(101_000_001), now, second), None, "by more than was said");
        assert_eq!(age_at_most(LogTime::ZERO, now, second), None);
    }
}
