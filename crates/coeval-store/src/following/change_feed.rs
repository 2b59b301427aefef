// SPDX-License-Identifier: Apache-2.0
//! A feed of changes: what committed transactions did, in commit order, from any token on that can be reached.
//!
//! Rows before a change are not in the log, so a feed is a private follower. It has a copy of the database in a directory of its
//! own, and applies the log transaction by transaction.
//!
//! ```text
//! take   records, all of them published --> own log, durable --> applied one by one --> what they did --> sink
//! open   base --own log, silently--> the place of the token --own log--> sink
//! ```
//!
//! # Nothing lost, nothing twice
//! A token stands between two transactions, and is given with the one before. Its record is durable in the own log before that,
//! so whoever goes on from it finds the record behind it there or at the source. What lies up to the token is applied and not
//! given. Of a batch of which the token has a part, the rest is given.
//!
//! # How far back
//! The *base*, a checkpoint, does not pass what somebody may go on from. It moves to the token that a feed is begun with, as
//! nobody asks for an older one then; and when the log behind it grows, to a place that lies `kept_bytes / 2` before the end. So
//! each token of the last `kept_bytes / 2` of log is one to go on from, if it is not older than the one that the feed was begun
//! with last; with 0 there is none. The log is about `kept_bytes` long.
//!
//! # Histories
//! A token names its term. When the first transaction behind it is going to be given, the log has come past that term, or is
//! another history than the token's: that is an error, and nothing was given.

use super::change_token::FeedPlace;
use super::changes::{ChangeReader, RecordPlace};
use super::{ChangeSink, ChangeToken, FileWriter, FollowError, Follower};
use crate::clock::LogTime;
use crate::error::StoreError;
use crate::files::FileSystem;
use crate::log::{LogOptions, LogRecord, Lsn};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::record::LogMark;
use crate::recovery::Role;
use crate::store::Store;
use crate::terms::{ForeignHistory, Term, TermHistory};
use coeval_txn::Version;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a feed begins to give changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeStart {
    /// Behind what its copy began with.
    Oldest,
    /// Behind this token.
    Behind(ChangeToken),
    /// Where [`ChangeFeed::begin_here`] is called.
    Later,
}

/// How a feed keeps its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeFeedOptions {
    /// So much log is kept to go on from tokens in it; with 0 none.
    pub kept_bytes: u64,
    /// Bytes of columns that were read from files and stay in memory; see [`StoreOptions::data_memory`].
    pub data_memory: Option<u64>,
}

/// Why a feed does not go on. It has to be opened again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeFeedError {
    /// What the copy begins with has more than the token. Nothing was changed.
    #[error("token {token} is older than what this feed can reach: its copy begins with version {oldest}")]
    TooOld {
        /// The token.
        token: ChangeToken,
        /// The version of the copy.
        oldest: Version,
    },
    /// The token stands for something that is no part of the history here. Nothing was given.
    #[error("token {token} is of a history that was left: {history}")]
    Foreign {
        /// The token.
        token: ChangeToken,
        /// How they part.
        history: ForeignHistory,
    },
    /// The records cannot be applied.
    #[error(transparent)]
    Follow(FollowError),
    /// The copy cannot be opened, or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sink does not go on.
    #[error("the feed cannot be written: {0}")]
    Output(io::Error),
}

impl From<FollowError> for ChangeFeedError {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Observer(error) => Self::Output(error),
            FollowError::Store(error) => Self::Store(error),
            other => Self::Follow(other),
        }
    }
}

/// Whether a token is known to be of a history; it may be later than what is known of that.
pub(super) fn check(terms: &TermHistory, token: ChangeToken) -> Result<bool, ChangeFeedError> {
    let id = (token.term != 0).then_some(token.term);
    let is_known = id.is_none_or(|id| terms.terms().iter().any(|term| term.id == id));
    if !is_known && terms.last().map_or(0, |term| term.number) < token.number {
        return Ok(false);
    }
    terms.check_follower(id, token.end).map_err(|history| ChangeFeedError::Foreign { token, history })?;
    Ok(true)
}

/// Fails unless the token is of the history that has this record behind these terms, the first that is going to be given.
pub(super) fn check_finally(
    terms: &TermHistory,
    token: ChangeToken,
    record: &LogRecord,
    version: Version,
) -> Result<(), ChangeFeedError> {
    let foreign = |history| Err(ChangeFeedError::Foreign { token, history });
    if !check(terms, token)? {
        // What the token has was written in its term, which would have begun before this record.
        return foreign(ForeignHistory::UnknownTerm { term: token.term });
    }
    let is_part = token.place().version() == version;
    if is_part && (token.end != record.end || token.term != terms.last().map_or(0, |term| term.id)) {
        return foreign(ForeignHistory::Parted { parting: record.end, position: token.end });
    }
    Ok(())
}

/// With a longer log than this behind it, the base moves when a feed without tokens to go on from has room for it.
const UNKEPT_BYTES: u64 = 64 << 20;

/// The base moves to the token that the feed is begun with if that saves the next start so much log, at most.
const WORTH_BYTES: u64 = 4 << 20;

/// A feed over a directory that [`CopyWriter`](super::CopyWriter) has made. One at a time has it.
pub struct ChangeFeed {
    files: Arc<dyn FileSystem>,
    dir: PathBuf,
    options: ChangeFeedOptions,
    tuning: (LogOptions, Sizes),
    /// None only while the base moves, and behind a failure of that.
    opened: Option<Opened>,
    /// What lies behind it is given; nothing yet if there is none.
    place: Option<FeedPlace>,
    /// What it was begun with.
    begun_with: Option<ChangeToken>,
    /// Whether that was found to belong to the history.
    is_checked: bool,
    /// Where it ends.
    until: Option<ChangeToken>,
    /// Where the base stands in the log.
    base: Lsn,
    /// The version where the base goes next, and the end of its record or more.
    next_base: Option<(Version, Lsn)>,
}

struct Opened {
    follower: Follower,
    store: Store,
}

impl fmt::Debug for ChangeFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChangeFeed({}, behind {:?})", self.dir.display(), self.place)
    }
}

impl ChangeFeed {
    /// Opens the copy in a directory, as it was at the place where the feed begins. Nothing is given yet: what its own log has
    /// behind that comes with [`catch_up`](Self::catch_up), and is to come before anything that is [taken](Self::take).
    ///
    /// Costs what opening a database does that has as much log between base and token.
    ///
    /// # Errors
    /// [`ChangeFeedError::TooOld`], [`ChangeFeedError::Foreign`]: nothing was changed. Those of
    /// [`Store::open_follower`](crate::Store::open_follower).
    pub fn open(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        start: ChangeStart,
        options: ChangeFeedOptions,
    ) -> Result<Self, ChangeFeedError> {
        Self::open_tuned(files, dir, start, options, (LogOptions::default(), Sizes::default()))
    }

    /// As [`open`](Self::open), with sizes for tests.
    pub(super) fn open_tuned(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        start: ChangeStart,
        options: ChangeFeedOptions,
        tuning: (LogOptions, Sizes),
    ) -> Result<Self, ChangeFeedError> {
        let mut feed = Self {
            files,
            dir: dir.to_path_buf(),
            options,
            tuning,
            opened: None,
            place: None,
            begun_with: None,
            is_checked: false,
            until: None,
            base: Lsn::START,
            next_base: None,
        };
        match start {
            ChangeStart::Later => feed.open_as(Role::Follower)?,
            ChangeStart::Oldest => {
                feed.open_as(Role::FollowerUpTo(Version::ZERO))?;
                feed.begin_here();
            }
            ChangeStart::Behind(token) => feed.open_behind(token)?,
        }
        Ok(feed)
    }

    fn open_behind(&mut self, token: ChangeToken) -> Result<(), ChangeFeedError> {
        let wanted = token.place().world_before();
        self.open_as(Role::FollowerUpTo(wanted))?;
        let found = self.version();
        if found > wanted {
            return Err(ChangeFeedError::TooOld { token, oldest: found });
        }
        (self.place, self.begun_with) = (Some(token.place()), Some(token));
        let is_known = self.check(token)?;
        // Whoever goes on from here does not ask for what is older.
        let saved = self.applied().get().saturating_sub(self.base.get());
        let worth = WORTH_BYTES.min(self.options.kept_bytes / 4);
        if is_known && found == wanted && saved > worth {
            self.move_base()?;
        }
        Ok(())
    }

    fn open_as(&mut self, role: Role) -> Result<(), StoreError> {
        let options = StoreOptions {
            checkpoint: CheckpointPolicy::Manual,
            data_memory: self.options.data_memory,
            ..StoreOptions::default()
        };
        let files = Arc::clone(&self.files);
        let (store, follower) = Store::open_follower_as(files, &self.dir, options, self.tuning, role)?;
        follower.go_through_own_log();
        self.base = store.shared.checkpoints.last_log();
        self.opened = Some(Opened { follower, store });
        Ok(())
    }

    /// Has it end behind this token.
    #[must_use]
    pub fn until(mut self, token: ChangeToken) -> Self {
        self.until = Some(token);
        self
    }

    /// Whether it has given everything that it is to give.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.until.zip(self.place).is_some_and(|(until, place)| until.place() <= place)
    }

    /// Has it give everything behind here, if it gives nothing yet.
    pub fn begin_here(&mut self) {
        self.place = self.place.or(Some(FeedPlace::behind(self.version())));
    }

    /// Whether it gives changes.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.place.is_some()
    }

    /// The end of its log: it takes the record that begins here.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.follower().own_end()
    }

    /// The terms of its log, once it has caught up.
    #[must_use]
    pub fn terms(&self) -> TermHistory {
        self.follower().terms()
    }

    /// The version up to which it has gone through the log.
    ///
    /// # Panics
    /// If it has failed.
    #[must_use]
    pub fn version(&self) -> Version {
        self.follower().world().version()
    }

    /// Stands behind everything that it has gone through: to be given to [`ChangeStart::Behind`].
    #[must_use]
    pub fn reached(&self) -> ChangeToken {
        let version = self.version();
        match self.begun_with {
            Some(token) if token.place() > FeedPlace::behind(version) => token,
            _ => {
                let Term { number, id, .. } = self.term();
                ChangeToken { number, term: id, end: self.applied(), version, transactions: None }
            }
        }
    }

    /// Begins a file that a record to come names; see [`Follower::receive_file`].
    ///
    /// # Errors
    /// As there.
    pub fn receive_file(&self, name: &str) -> Result<FileWriter, ChangeFeedError> {
        Ok(self.follower().receive_file(name)?)
    }

    /// Goes through what its own log has already.
    ///
    /// # Errors
    /// [`ChangeFeedError`]: it goes no further. What the sink has got of a transaction that has not ended counts for nothing.
    pub fn catch_up(&mut self, sink: &mut dyn ChangeSink) -> Result<(), ChangeFeedError> {
        while !self.is_done() {
            let records = self.follower().own_log()?.next_records().map_err(StoreError::from)?;
            if records.is_empty() {
                break;
            }
            self.go_through(&records, sink)?;
        }
        Ok(())
    }

    /// Takes records that follow on from [`position`](Self::position) and are published: durably, before anything of them is
    /// given. Goes no further than to the [end](Self::until).
    ///
    /// # Errors
    /// As [`catch_up`](Self::catch_up). [`FollowError::OutOfPlace`] leaves everything as it was.
    ///
    /// Cost: a sync of the log; for each change that of a commit, and a look at the row before.
    pub fn take(&mut self, records: &[LogRecord], sink: &mut dyn ChangeSink) -> Result<(), ChangeFeedError> {
        self.follower().log_ahead(records)?;
        self.go_through(records, sink)
    }

    /// Tells the sink that there is nothing more at the moment.
    ///
    /// # Errors
    /// [`ChangeFeedError::Output`]; [`ChangeFeedError::Foreign`] if that is known by now of the token that it was begun with.
    pub fn idle(&mut self, sink: &mut dyn ChangeSink) -> Result<(), ChangeFeedError> {
        if let Some(token) = self.begun_with.filter(|_| !self.is_checked) {
            self.check(token)?;
        }
        if self.has_begun() {
            sink.idle(&self.reached()).map_err(ChangeFeedError::Output)?;
        }
        Ok(())
    }

    fn go_through(
        &mut self,
        records: &[LogRecord],
        sink: &mut dyn ChangeSink,
    ) -> Result<(), ChangeFeedError> {
        let mut silent = 0;
        for (index, record) in records.iter().enumerate() {
            if self.is_done() {
                break;
            }
            let LogMark::Batch(version) = LogMark::of(record)? else { continue };
            if self.place.is_none_or(|place| FeedPlace::behind(version) <= place) {
                continue;
            }
            self.opened().follower.take_logged(&records[silent..index], None)?;
            self.give(record, version, sink)?;
            silent = index + 1;
            self.keep_log_short()?;
        }
        if !self.is_done() {
            self.opened().follower.take_logged(&records[silent..], None)?;
            self.keep_log_short()?;
        }
        Ok(())
    }

    /// Gives what a batch did, as far as it lies behind the place.
    fn give(
        &mut self,
        record: &LogRecord,
        version: Version,
        sink: &mut dyn ChangeSink,
    ) -> Result<(), ChangeFeedError> {
        if let Some(token) = self.begun_with.filter(|_| !self.is_checked) {
            check_finally(&self.terms(), token, record, version)?;
            self.is_checked = true;
        }
        let time = self.follower().time();
        let time = (time > LogTime::ZERO).then_some(time);
        let place = RecordPlace { term: self.term(), end: record.end, time };
        let from = self.place.expect("it gives changes");
        let between = (from, self.until.map(|until| until.place()));
        let mut reader = ChangeReader::new(place, between, sink);
        self.opened().follower.take_logged(std::slice::from_ref(record), Some(&mut reader))?;
        self.place = Some(FeedPlace::behind(version));
        if let Some(until) = self.until.filter(|_| self.is_done()) {
            self.check(until)?;
        }
        Ok(())
    }

    /// Whether a token is known to be of this history; it may be later than what is known of that.
    fn check(&self, token: ChangeToken) -> Result<bool, ChangeFeedError> {
        check(&self.terms(), token)
    }

    /// Moves the base, if the log behind it is too long.
    fn keep_log_short(&mut self) -> Result<(), ChangeFeedError> {
        let (kept, applied) = (self.options.kept_bytes, self.applied());
        let length = applied.get().saturating_sub(self.base.get());
        let Some(place) = self.place.filter(|_| kept > 0) else {
            // Nobody goes on from anything before.
            let is_long = length > UNKEPT_BYTES || (kept > 0 && length > kept);
            return if is_long { self.move_base() } else { Ok(()) };
        };
        let version = self.version();
        if FeedPlace::behind(version) < place {
            // It is on its way to the token.
            return Ok(());
        }
        if length > kept / 2 {
            self.next_base.get_or_insert((version, applied));
        }
        match self.next_base {
            Some((next, end)) if applied.get() - end.get() >= kept / 2 => {
                self.follow_with_base(next, applied)
            }
            _ => Ok(()),
        }
    }

    /// Moves the base to here.
    fn move_base(&mut self) -> Result<(), ChangeFeedError> {
        let store = &self.opened().store;
        store.checkpoint()?;
        self.base = store.shared.checkpoints.last_log();
        self.next_base = None;
        Ok(())
    }

    /// Moves the base to an earlier place, and comes back.
    fn follow_with_base(&mut self, to: Version, back_to: Lsn) -> Result<(), ChangeFeedError> {
        self.opened = None;
        self.open_as(Role::FollowerUpTo(to))?;
        self.move_base()?;
        while self.applied() < back_to {
            let mut records = self.follower().own_log()?.next_records().map_err(StoreError::from)?;
            records.retain(|record| record.end <= back_to);
            assert!(!records.is_empty(), "it has been here before");
            self.opened().follower.take_logged(&records, None)?;
        }
        Ok(())
    }

    fn opened(&mut self) -> &mut Opened {
        self.opened.as_mut().expect("it goes no further behind an error")
    }

    fn follower(&self) -> &Follower {
        &self.opened.as_ref().expect("it goes no further behind an error").follower
    }

    /// Up to where it has gone through its log.
    fn applied(&self) -> Lsn {
        self.follower().position()
    }

    /// The last term up to there.
    fn term(&self) -> Term {
        self.terms().last().unwrap_or(Term { number: 0, id: 0, start: Lsn::START })
    }
}
