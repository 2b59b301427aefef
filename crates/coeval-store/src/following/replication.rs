// SPDX-License-Identifier: Apache-2.0
//! The log as others see it: who follows it, who keeps it for them, for whom commits wait, and what one who follows shows.

use super::{BaseCopy, LogFeed, ReplicaSession};
use crate::clock::LogTime;
use crate::error::StoreError;
use crate::log::Lsn;
use crate::promises::{LogStanding, Promise};
use crate::replicas::SynchronousReplicas;
use crate::retention::Slot;
use crate::store::Store;
use crate::terms::{ForeignHistory, Term, TermHistory, Timeline};
use coeval_txn::Version;
use std::sync::Arc;
use std::time::Duration;

impl Store {
    /// Who wrote the log, and which database it is of.
    #[must_use]
    pub fn terms(&self) -> TermHistory {
        self.shared.terms()
    }

    /// The end of the log, and up to where it is durable; nothing without files.
    #[must_use]
    pub fn log_position(&self) -> Option<(Lsn, Lsn)> {
        self.shared.pipeline.log().map(|log| (log.end_lsn(), log.durable_lsn()))
    }

    /// The terms of the log with its end, durable or not, when it had these and no others; nothing without files. Waits for a record that
    /// is being written.
    #[must_use]
    pub fn terms_to_end(&self) -> Option<(TermHistory, Lsn)> {
        let log = self.shared.pipeline.log()?;
        // Records of a term, and that there is one, come together under this lock.
        let _leader = self.shared.pipeline.lock_leader(&self.shared);
        Some((self.shared.terms(), log.end_lsn()))
    }

    /// The last time that the log has; [`LogTime::ZERO`] if it has none.
    #[must_use]
    pub fn log_time(&self) -> LogTime {
        self.shared.clock.last()
    }

    /// Holds the newest checkpoint to be copied while the database is used. [`checkpoint`](Self::checkpoint) before makes
    /// the log short that has to be applied to the copy.
    ///
    /// # Errors
    /// [`StoreError::NoDirectory`]; [`StoreError::ServedReadOnly`]; those of the log and of the files.
    pub fn base_copy(&self) -> Result<BaseCopy, StoreError> {
        self.shared.check_files_writable("a copy of it")?;
        BaseCopy::begin(&self.shared)
    }

    /// The log from `position` on, for a follower that has the log up to there, in the term with the id `term` (`None`: before the
    /// first term).
    ///
    /// # Errors
    /// [`StoreError::ForeignHistory`] if that is another history; [`StoreError::FollowerIsAhead`] if this one follows, too, and has
    /// not come so far: whether the histories are one is not known then; [`StoreError::NoDirectory`], [`StoreError::ServedReadOnly`].
    /// Whether the log reaches back so far is found with the first record.
    pub fn log_feed(&self, term: Option<u64>, position: Lsn) -> Result<LogFeed, StoreError> {
        self.shared.check_files_writable("a replica of it")?;
        let (end, _) = self.log_position().ok_or(StoreError::NoDirectory)?;
        let checked = self.shared.terms().check_follower(term, position);
        let is_unknown = position > end || matches!(checked, Err(ForeignHistory::UnknownTerm { .. }));
        if is_unknown && self.is_following() {
            return Err(StoreError::FollowerIsAhead { end, position });
        }
        checked?;
        if position > end {
            return Err(ForeignHistory::Parted { parting: end, position }.into());
        }
        LogFeed::from_position(Arc::clone(&self.shared), position)
    }

    /// All log that is certainly there with the files that it names: from where it is [kept](LogFeed::keep_over_closes), if it is,
    /// otherwise from the last checkpoint on. For a caller that does not know yet from where it needs the log, so that nothing goes
    /// meanwhile.
    ///
    /// # Errors
    /// [`StoreError::NoDirectory`], [`StoreError::ServedReadOnly`].
    pub fn whole_log_feed(&self) -> Result<LogFeed, StoreError> {
        self.shared.check_files_writable("an archive of it")?;
        let kept = self.shared.retention.kept().map(|kept| kept.log);
        let position = kept.unwrap_or_else(|| self.shared.checkpoints.last_log());
        LogFeed::from_position(Arc::clone(&self.shared), position)
    }

    /// Makes a slot of this name: from here on the log is kept for the replica that is going to [follow by
    /// it](LogFeed::with_slot), also while it is not there, and over a close. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::Slot`], [`StoreError::NoDirectory`], [`StoreError::ServedReadOnly`]: there is none then. [`StoreError::File`]: it is
    /// there until the store is closed.
    pub fn create_slot(&self, name: &str) -> Result<Lsn, StoreError> {
        self.shared.check_files_writable("a replication slot")?;
        let (_, durable) = self.log_position().ok_or(StoreError::NoDirectory)?;
        let version = self.world().version();
        self.shared.retention.create_slot(name, durable, version)?;
        self.shared.note_kept_log(version)?;
        Ok(durable)
    }

    /// Removes a slot that nobody follows by. What it kept goes with the next checkpoint.
    ///
    /// # Errors
    /// [`StoreError::Slot`]: it is as before. [`StoreError::File`]: it is gone, and perhaps there again behind the next open.
    pub fn drop_slot(&self, name: &str) -> Result<(), StoreError> {
        self.shared.retention.drop_slot(name)?;
        self.shared.note_kept_log(self.world().version())
    }

    /// All slots, by name.
    #[must_use]
    pub fn slots(&self) -> Vec<Slot> {
        self.shared.retention.slots()
    }

    /// A slot that keeps more log than this loses it, with the next checkpoint, whether or not somebody follows by it; `None`: none
    /// does.
    pub fn set_slot_bytes_max(&self, bytes_max: Option<u64>) {
        self.shared.retention.set_slot_bytes_max(bytes_max.unwrap_or(u64::MAX));
    }

    /// See [`set_slot_bytes_max`](Self::set_slot_bytes_max).
    #[must_use]
    pub fn slot_bytes_max(&self) -> Option<u64> {
        Some(self.shared.retention.slot_bytes_max()).filter(|bytes_max| *bytes_max < u64::MAX)
    }

    /// Whoever serves followers of this store gives one up that has said nothing for longer than this, as one that hangs or whose
    /// network has gone says nothing: it holds log, and commits may wait for it. `None`: nobody is given up. A minute, unless this
    /// is called.
    pub fn set_follower_silence_max(&self, silence_max: Option<Duration>) {
        self.shared.retention.set_silence_max(silence_max);
    }

    /// See [`set_follower_silence_max`](Self::set_follower_silence_max).
    #[must_use]
    pub fn follower_silence_max(&self) -> Option<Duration> {
        self.shared.retention.silence_max()
    }

    /// At least this many bytes of log stay behind each checkpoint from now on, with the files of bulk loads that this log names,
    /// whether replicas are connected or not: for replicas that begin to follow this store and lack some of its log. Bytes of those files
    /// count as bytes of log, so a replica that lacks no more than this of both together finds all of it. The log also stays over a close,
    /// if the next open asks for as much. 0: only log that somebody needs stays. After a change to less, the rest goes with the next
    /// checkpoint; after a change to more, log that is gone does not come back.
    pub fn set_log_keep_bytes(&self, bytes: u64) {
        self.shared.retention.set_keep_bytes(bytes);
    }

    /// See [`set_log_keep_bytes`](Self::set_log_keep_bytes). [`StoreOptions::log_keep_bytes`](crate::StoreOptions::log_keep_bytes) until that is called.
    #[must_use]
    pub fn log_keep_bytes(&self) -> u64 {
        self.shared.retention.keep_bytes()
    }

    /// Has commits wait for replicas from now on, as their [level](Self::set_synchronous_commit) says; `None`: for nobody.
    /// Those that are waiting go on if the new ones have what they wait for. It is durable on return, for whoever follows as
    /// well, and for the next opening. Until those of before and the new ones have got that, commits wait for both.
    ///
    /// # Errors
    /// As a commit has them. What was asked for before still is.
    pub fn require_replicas(&self, required: Option<SynchronousReplicas>) -> Result<(), StoreError> {
        self.shared.check_writable("a change of the synchronous replicas")?;
        self.shared.require_replicas(required)
    }

    /// What this machine is called where replicas are listed; it does not wait for itself.
    ///
    /// # Errors
    /// Of a primary that asks for replicas and was called otherwise before: as [`require_replicas`](Self::require_replicas), since
    /// that is written down.
    pub fn set_own_name(&self, own: &str) -> Result<(), StoreError> {
        self.shared.replicas.set_own_name(own);
        self.shared.pipeline.publishing.go_on(&self.shared);
        let recorded = self.recorded_replicas().filter(|recorded| recorded.primary != own);
        if recorded.is_none()
            || self.is_following()
            || self.superseded_by().is_some()
            || self.options().is_read_only()
        {
            return Ok(());
        }
        self.require_replicas(recorded)
    }

    /// The other machines that this one asks for promises, and tells of a promotion, by their names: as whoever serves the store has said
    /// ([`set_peer_names`](Self::set_peer_names)). Nothing is asked of them here.
    #[must_use]
    pub fn peer_names(&self) -> Vec<String> {
        self.shared.replicas.peer_names()
    }

    /// See [`peer_names`](Self::peer_names).
    pub fn set_peer_names(&self, names: Vec<String>) {
        self.shared.replicas.set_peer_names(names);
    }

    /// What this machine is called where replicas are listed; empty if it has no name.
    #[must_use]
    pub fn own_name(&self) -> String {
        self.shared.replicas.own_name()
    }

    /// Whether all that it was opened with may be shown. After a crash that may be more than as many replicas have as commits
    /// ask for, or than the primary of this one has published: a failover could lose it. It stays so once it is.
    ///
    /// A store shows it all the same. Who serves one lets nobody in before.
    #[must_use]
    pub fn has_confirmed(&self) -> bool {
        self.shared.has_confirmed()
    }

    /// Promises a timeline to one who is to be promoted into it, and says how long the log is behind that: no log of a lower
    /// timeline is acknowledged any more. Durable on return. Of a primary, commits stop, and readers go on. The same promise may
    /// be asked for again.
    ///
    /// # Errors
    /// [`StoreError::PromisedAnother`], [`StoreError::NoDirectory`], [`StoreError::ServedReadOnly`], [`StoreError::File`]: nothing
    /// is promised, or after the last perhaps. [`StoreError::Log`]: it is promised, and the log does not say how long it is.
    pub fn promise(&self, promise: Promise) -> Result<LogStanding, StoreError> {
        self.shared.promise(promise)
    }

    /// The timeline that the log is in, or that was promised if that is higher.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.shared.promises.timeline().max(self.shared.terms().timeline())
    }

    /// The promise with which this database was promoted last, if it was.
    #[must_use]
    pub fn own_promise(&self) -> Option<Promise> {
        self.shared.promises.own()
    }

    /// How long the log is.
    #[must_use]
    pub fn log_standing(&self) -> LogStanding {
        self.shared.log_standing()
    }

    /// The timeline that another machine was promised, if that is beyond the one that this store writes: it takes no commits.
    #[must_use]
    pub fn superseded_by(&self) -> Option<Timeline> {
        self.shared.superseded_by()
    }

    /// The replicas that commits wait for, according to the log; on a replica, those that commits of its primary wait for.
    #[must_use]
    pub fn recorded_replicas(&self) -> Option<SynchronousReplicas> {
        self.shared.applied().catalog().synchronous_replicas().cloned()
    }

    /// Which replicas commits wait for.
    #[must_use]
    pub fn required_replicas(&self) -> Option<SynchronousReplicas> {
        self.shared.required_replicas()
    }

    /// Somebody of this name begins to follow the log.
    #[must_use = "it is listed until this is dropped"]
    pub fn replica_session(&self, name: &str) -> ReplicaSession {
        ReplicaSession::begin(Arc::clone(&self.shared), name)
    }

    /// Up to where its readers see the log: of a primary all that is durable, of a follower what is published on the primary.
    /// `None` in memory.
    #[must_use]
    pub fn shown_position(&self) -> Option<Lsn> {
        let log = self.shared.pipeline.log()?;
        let is_following = self.shared.is_following();
        Some(if is_following { self.shared.pipeline.publishing.shown_position() } else { log.durable_lsn() })
    }

    /// Up to where the log has all that a snapshot of this version shows: whoever has the log up to there has the snapshot's commits. Of a
    /// primary not much more than that: nothing that is not published, which a failover may lose though it loses nothing of the
    /// snapshot. With the term whose log that is. `None` in memory.
    #[must_use]
    pub fn end_of_snapshot(&self, version: Version) -> Option<(Lsn, Term)> {
        let end = if self.is_following() {
            self.shown_position()?
        } else {
            let log = self.shared.pipeline.log()?;
            // Looked at first: who reads what is not published yet finds its record before the end.
            let published = self.shared.pipeline.publishing.published_end(version);
            published.unwrap_or_else(|| log.end_lsn())
        };
        Some((end, self.terms().of_record(end)?))
    }

    /// Has a follower show nothing beyond a version, or what it shows now; it takes the log all the same. A version that comes
    /// later is shown as soon as it is there.
    ///
    /// # Errors
    /// [`StoreError::FollowsNobody`].
    pub fn pause_showing(&self, at: Option<Version>) -> Result<(), StoreError> {
        self.check_following()?;
        self.shared.pipeline.publishing.pause_at(&self.shared, at);
        // It may show more than it did.
        self.shared.showing.note();
        Ok(())
    }

    /// Has a follower show everything again.
    ///
    /// # Errors
    /// [`StoreError::FollowsNobody`].
    pub fn resume_showing(&self) -> Result<(), StoreError> {
        self.check_following()?;
        self.shared.pipeline.publishing.resume(&self.shared);
        self.shared.follow_safe();
        self.shared.showing.note();
        Ok(())
    }

    /// Whether it was [paused](Self::pause_showing).
    #[must_use]
    pub fn is_showing_paused(&self) -> bool {
        self.shared.pipeline.publishing.is_paused()
    }

    fn check_following(&self) -> Result<(), StoreError> {
        if self.is_following() {
            return Ok(());
        }
        let disk = self.shared.disk.as_ref();
        let directory = disk.map_or_else(|| "memory".to_owned(), |disk| disk.dir().display().to_string());
        Err(StoreError::FollowsNobody { directory })
    }
}
