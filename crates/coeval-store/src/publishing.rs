// SPDX-License-Identifier: Apache-2.0
//! Worlds that are applied and not yet published, and those who wait for them.
//!
//! A world is published, in order, when its log record is durable, and as many replicas have it as its commits ask for
//! (`replicas.rs`); in a store that follows another one, when that says that it is published there. Who waits for one either
//! has a thread to wait with: then one of those who wait syncs for all. Or it asks and goes on (`publication.rs`, a future):
//! then the *syncer* syncs for it, a thread that is started when somebody asks for the first time, and sleeps while nobody does.
//!
//! ```text
//! push --> pending --sync by one who waits, or by the syncer--> published --> acknowledged --> those who wait, wakers
//!                    \--replicas, or the primary's word--/            \--replicas show it--/
//! ```
//! Published is acknowledged, but for commits that ask for replicas to show them.

mod followed;
mod stopping;

use crate::certification::{ActiveGuard, EndedGuard};
use crate::commit_context::CommitContext;
use crate::durations::DurationCounters;
use crate::error::StoreError;
use crate::log::{LogError, LogHandle, Lsn};
use crate::replicas::{Stage, SynchronousCommit};
use crate::trap::Step;
use crate::world::World;
use coeval_txn::{Interrupt, Version};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
pub(crate) use stopping::{contained, stop};

/// A commit that waived durability is durable so long after it was acknowledged, and the time of a sync, at the latest.
pub const WAIVED_LAG_MAX: Duration = Duration::from_millis(200);

/// How often one who waits for replicas looks whether it is to stop waiting.
const INTERRUPT_LOOK: Duration = Duration::from_millis(20);

/// When the record of a world is to be durable; none in a store without a log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// Before the world is seen, and with as many replicas as the level says.
    First(Option<Lsn>, SynchronousCommit),
    /// Behind that, at most [`WAIVED_LAG_MAX`] later.
    Soon(Option<Lsn>),
    /// Whenever somebody syncs.
    Never,
    /// The same, but its last bytes are still being written: before that it is not seen, nor what comes behind it
    /// ([`Publishing::note_whole`]). A process that ends has then lost nothing that anybody was told of.
    NeverButWhole,
    /// Whenever somebody syncs; the world is seen when the primary says so ([`Publishing::publish_through`]). Its log goes to
    /// here.
    Followed(Lsn),
}

impl Wanted {
    /// The end of the record, where that is known.
    fn end(self) -> Option<Lsn> {
        match self {
            Self::First(end, _) | Self::Soon(end) => end,
            Self::Followed(end) => Some(end),
            Self::Never | Self::NeverButWhole => None,
        }
    }
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Nothing that this machine has yet to do keeps the version from being published.
    Durable,
    /// It is seen.
    Published,
    /// The client may be told that its commit is done.
    Acknowledged,
}

/// What was acknowledged and is not durable yet.
#[derive(Clone, Copy, Debug)]
struct Undurable {
    /// No part of it is older.
    since: Instant,
    /// Where the last record of it ends.
    end: Lsn,
}

/// A world that waits for its log record.
struct Pending {
    world: Arc<World>,
    /// The log position behind its record, where that is known.
    end: Option<Lsn>,
    /// The same, if it must be durable before it is seen.
    needs: Option<Lsn>,
    /// What else it waits for before it is published, besides its own log.
    consent: Consent,
    /// The log position behind its record, if replicas are to show it before it is acknowledged.
    shown: Option<Lsn>,
    /// Of the serializable transactions that it holds the commits of: they end when it is published.
    registrations: Vec<Arc<ActiveGuard>>,
    /// Of those who wait for it without a thread; each knows its place.
    wakers: Vec<Waker>,
    since: Instant,
}

/// What a world waits for beside its log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consent {
    None,
    /// The last bytes of its record are written, in a store that waits for no sync.
    Bytes,
    /// Enough replicas have come to this place.
    Replicas(Stage, Lsn),
    /// The primary has published it. The log that readers see without it goes to here.
    Primary(Lsn),
}

/// What is published and not shown yet by as many replicas as its commits ask for.
struct Unshown {
    version: Version,
    end: Lsn,
    wakers: Vec<Waker>,
}

/// The thread that syncs for commits that are waited for without a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syncer {
    /// Nobody: not started, not to be had, or ended.
    None,
    Runs,
    /// It has been told to end when nobody asks for anything any more.
    Ends,
}

struct State {
    pending: VecDeque<Pending>,
    unshown: VecDeque<Unshown>,
    published: Version,
    /// The log position behind its record, where that is known.
    published_end: Option<Lsn>,
    /// Of a store that follows another one: what that has said to be published there, since it is followed.
    allowed: Version,
    /// Likewise: nothing beyond this version is shown, whatever is allowed, if somebody has asked for that.
    paused_at: Option<Version>,
    /// Likewise: up to where its log was taken.
    taken: Lsn,
    is_syncing: bool,
    stopped: Option<LogError>,
    syncer: Syncer,
    /// The newest version that somebody without a thread waits for.
    asked: Version,
    undurable: Option<Undurable>,
    /// Of commits that stopped on their way into the queue: see [`State::stop`].
    undecided: Vec<Arc<ActiveGuard>>,
}

/// What a publication sets free: to be dropped and woken without the lock. Whatever happens, nobody sleeps on.
#[must_use = "those who wait are to be woken"]
#[derive(Default)]
struct Released {
    registrations: Vec<Arc<ActiveGuard>>,
    ended: Vec<EndedGuard>,
    wakers: Vec<Waker>,
}

impl Released {
    fn settle(mut self) {
        self.ended.clear();
        self.registrations.clear();
    }

    fn take(&mut self, pending: &mut Pending) {
        self.registrations.append(&mut pending.registrations);
        self.wakers.append(&mut pending.wakers);
    }
}

impl Drop for Released {
    fn drop(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

/// See the module.
///
/// # Locking
/// `state` comes behind the leader's lock and before those of the safe snapshots; it is held for moments, never across a
/// sync.
pub(crate) struct Publishing {
    state: Mutex<State>,
    /// Something was published, or never will be, or nobody syncs any more.
    progress: Condvar,
    /// The syncer may have something to do.
    asked: Condvar,
    /// Everything up to here is acknowledged. Read without the lock; changed under it, after the registrations have ended.
    acknowledged: AtomicU64,
    log: Option<LogHandle>,
    /// From when a world was applied to when it was published.
    pub(crate) publications: DurationCounters,
}

impl Publishing {
    pub(crate) fn new(log: Option<LogHandle>, published: Version) -> Self {
        Self {
            state: Mutex::new(State {
                pending: VecDeque::new(),
                unshown: VecDeque::new(),
                published,
                published_end: log.as_ref().map(LogHandle::end_lsn),
                allowed: Version::ZERO,
                paused_at: None,
                taken: log.as_ref().map_or(Lsn::START, LogHandle::end_lsn),
                is_syncing: false,
                stopped: None,
                syncer: Syncer::None,
                asked: published,
                undurable: None,
                undecided: Vec::new(),
            }),
            progress: Condvar::new(),
            asked: Condvar::new(),
            acknowledged: AtomicU64::new(published.get()),
            log,
            publications: DurationCounters::default(),
        }
    }

    /// Whether who committed this version may be told so.
    pub(crate) fn is_acknowledged(&self, version: Version) -> bool {
        self.acknowledged.load(Ordering::Acquire) >= version.get()
    }

    /// Whether this machine has done all that keeps the version from being published.
    pub(crate) fn is_durable(&self, version: Version) -> bool {
        let state = self.state.lock();
        !state.is_syncing && state.has_come(version, Until::Durable, self.log.as_ref())
    }

    pub(crate) fn log(&self) -> Option<&LogHandle> {
        self.log.as_ref()
    }

    /// Fails once commits have stopped.
    pub(crate) fn check_running(&self) -> Result<(), StoreError> {
        match &self.state.lock().stopped {
            None => Ok(()),
            Some(reason) => Err(StoreError::Stopped(reason.clone())),
        }
    }

    /// Fails once a panic has stopped commits: what the leader knows may be half changed, and the log may have what no
    /// world has.
    pub(crate) fn check_whole(&self) -> Result<(), StoreError> {
        match &self.state.lock().stopped {
            Some(reason) if reason.is_panic() => Err(StoreError::Stopped(reason.clone())),
            Some(_) | None => Ok(()),
        }
    }

    /// For somebody whom a panic has left without a verdict: its record may be in the log.
    pub(crate) fn left_by_panic(&self) -> StoreError {
        let reason = self.state.lock().stopped.clone();
        let unsaid = || LogError::Panicked {
            during: "in the commit pipeline",
            text: "the process reported its text".to_owned(),
        };
        StoreError::OutcomeUnknown(reason.unwrap_or_else(|| stop(self, unsaid())))
    }

    /// Makes the world the newest applied one and queues it for publication, which ends the registrations.
    pub(crate) fn push(
        &self,
        context: &CommitContext,
        world: Arc<World>,
        wanted: Wanted,
        registrations: Vec<Arc<ActiveGuard>>,
    ) {
        // Locked first: whoever begins on the applied world and waits for it finds it in the queue.
        let mut state = self.state.lock();
        context.set_applied(Arc::clone(&world));
        let (mut consent, mut shown) = (Consent::None, None);
        let needs = match wanted {
            Wanted::First(needs, level) => {
                if let Some(end) = needs.filter(|_| context.replicas.are_required()) {
                    consent = match level {
                        SynchronousCommit::Off | SynchronousCommit::Local => Consent::None,
                        SynchronousCommit::RemoteWrite => Consent::Replicas(Stage::Written, end),
                        SynchronousCommit::On | SynchronousCommit::RemoteApply => {
                            Consent::Replicas(Stage::Flushed, end)
                        }
                    };
                    shown = (level == SynchronousCommit::RemoteApply).then_some(end);
                }
                needs
            }
            Wanted::Soon(end) if state.syncer == Syncer::Runs => {
                if end.is_some_and(|end| state.note_undurable(end)) {
                    self.asked.notify_one();
                }
                None
            }
            // Nobody would sync it.
            Wanted::Soon(end) => end,
            Wanted::Never => None,
            Wanted::NeverButWhole => {
                consent = Consent::Bytes;
                None
            }
            Wanted::Followed(end) => {
                consent = Consent::Primary(state.taken);
                state.taken = end;
                None
            }
        };
        state.pending.push_back(Pending {
            world,
            end: wanted.end(),
            needs,
            consent,
            shown,
            registrations,
            wakers: Vec::new(),
            since: Instant::now(),
        });
        let released = state.publish_ready(context, self);
        drop(state);
        released.settle();
        context.keep_up_safe();
    }

    /// Keeps what was certified and will not come into the queue registered for good: commits have stopped, or are about to.
    pub(crate) fn keep_undecided(&self, mut registrations: Vec<Arc<ActiveGuard>>) {
        self.state.lock().undecided.append(&mut registrations);
    }

    /// The log record of this version, which lacked bytes, is whole.
    pub(crate) fn note_whole(&self, context: &CommitContext, version: Version) {
        self.change(context, |state| {
            let pending = state.pending_of(version);
            assert!(pending.world.version() == version, "where commits are made, each version has its world");
            pending.consent = Consent::None;
        });
    }

    /// Waits until a version is as far as `until` says, syncing for everyone if nobody does.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] if the log failed before. [`StoreError::NotReplicated`] if `interrupt` is set while nothing but
    /// replicas is waited for.
    pub(crate) fn wait(
        &self,
        context: &CommitContext,
        version: Version,
        until: Until,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
    ) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        while !state.has_come(version, until, self.log.as_ref()) {
            if let Some(reason) = &state.stopped {
                return Err(StoreError::Stopped(reason.clone()));
            }
            if !state.is_syncing && state.has_work(context, self.log.as_ref()) {
                state = self.sync(context, state);
            } else if let Some(interrupt) = interrupt {
                let is_for_replicas = !state.is_syncing && !state.lacks_bytes();
                if is_for_replicas && interrupt.is_set() {
                    return Err(StoreError::NotReplicated);
                }
                self.progress.wait_for(&mut state, INTERRUPT_LOOK);
            } else {
                self.progress.wait(&mut state);
            }
        }
        Ok(())
    }

    /// Waits until something is published or durable that was not, or for so long; not at all if the log is durable beyond
    /// `position`, or more than `published` is published.
    pub(crate) fn wait_for_more(&self, position: Lsn, published: Version, patience: Duration) {
        let mut state = self.state.lock();
        let durable = self.log.as_ref().map_or(Lsn::START, LogHandle::durable_lsn);
        if durable <= position && state.published <= published {
            self.progress.wait_for(&mut state, patience);
        }
    }

    /// Publishes what only waited for replicas that have come so far by now, or are not asked for any more.
    pub(crate) fn go_on(&self, context: &CommitContext) {
        self.change(context, |_| {});
    }

    /// The log is durable further than it was: those hear of it who give it to others.
    pub(crate) fn note_durable(&self) {
        let _state = self.state.lock();
        self.progress.notify_all();
    }

    /// Changes what publications wait for, and makes those that need not wait any more. Nothing once commits have stopped.
    fn change(&self, context: &CommitContext, change: impl FnOnce(&mut State)) {
        let publish = || {
            let mut state = self.state.lock();
            if state.stopped.is_some() {
                return;
            }
            change(&mut state);
            let released = state.publish_ready(context, self);
            drop(state);
            self.progress.notify_all();
            released.settle();
            context.keep_up_safe();
        };
        // If it panicked, commits have stopped and those who wait been told.
        contained(self, "while it was looked what may be published", publish).ok();
    }

    /// Syncs the log for everything that is pending, and publishes it.
    fn sync<'s>(
        &'s self,
        context: &CommitContext,
        mut state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State> {
        assert!(!state.is_syncing, "one at a time syncs");
        let Some(log) = &self.log else { unreachable!("an unpublished version waits for the log") };
        let needed = state.unsynced(Some(log)).max(state.undurable.map(|undurable| undurable.end));
        // Somebody else may have synced it, and left it to be published.
        let target = needed.unwrap_or_else(|| log.durable_lsn());
        state.is_syncing = true;
        drop(state);
        // Whatever becomes of it, the turn ends: else all would wait for it for ever.
        let synced =
            contained(self, "while the log was synced", || self.sync_and_publish(context, log, target));
        let mut state = self.state.lock();
        state.is_syncing = false;
        self.progress.notify_all();
        if state.has_question(context, self.log.as_ref()) || state.undurable.is_some() {
            self.asked.notify_one();
        }
        // If it panicked, commits have stopped and those who wait been told.
        if let Ok(released) = synced {
            let settle = || {
                context.trap.pass(Step::Settle);
                released.settle();
                context.keep_up_safe();
            };
            // If that panics, commits have stopped too; what was published stays.
            MutexGuard::unlocked(&mut state, || contained(self, "behind a publication", settle).ok());
        }
        state
    }

    fn sync_and_publish(&self, context: &CommitContext, log: &LogHandle, target: Lsn) -> Released {
        context.trap.pass(Step::Sync);
        let begun = Instant::now();
        let outcome = log.sync(target);
        let mut state = self.state.lock();
        match outcome {
            Ok(durable) => {
                // What came while it was synced is no older than the sync.
                state.undurable = state
                    .undurable
                    .filter(|undurable| undurable.end > durable)
                    .map(|undurable| Undurable { since: undurable.since.max(begun), ..undurable });
                state.publish_ready(context, self)
            }
            Err(error) => state.stop(error),
        }
    }

    /// No commit from now on; readers go on. Returns why: the first reason stays.
    pub(crate) fn stop(&self, reason: LogError) -> LogError {
        let (released, reason) = {
            let mut state = self.state.lock();
            let released = state.stop(reason.clone());
            (released, state.stopped.clone().unwrap_or(reason))
        };
        self.progress.notify_all();
        released.settle();
        reason
    }

    /// Wants this version published without waiting for it.
    pub(crate) fn ask(&self, context: &CommitContext, version: Version) {
        let mut state = self.state.lock();
        state.asked = state.asked.max(version);
        if state.has_question(context, self.log.as_ref()) {
            self.asked.notify_one();
        }
    }

    /// Whether this version is published; if not, `waker` is woken when it is or never will be. `place` is where that is
    /// kept, from one look to the next. The cost does not depend on how many wait, but for a search among the worlds.
    pub(crate) fn poll(
        &self,
        context: &CommitContext,
        version: Version,
        waker: &Waker,
        place: &mut Option<usize>,
    ) -> Poll<Result<(), StoreError>> {
        if self.is_acknowledged(version) {
            return Poll::Ready(Ok(()));
        }
        let mut state = self.state.lock();
        if state.has_come(version, Until::Acknowledged, self.log.as_ref()) {
            return Poll::Ready(Ok(()));
        }
        if let Some(reason) = &state.stopped {
            return Poll::Ready(Err(StoreError::Stopped(reason.clone())));
        }
        if state.syncer == Syncer::None {
            drop(state);
            return Poll::Ready(context.aside(|| self.wait(context, version, Until::Acknowledged, None)));
        }
        assert!(state.asked >= version, "the syncer knows of everyone who waits");
        let wakers = state.wakers_of(version);
        match place.and_then(|place| wakers.get_mut(place)) {
            Some(known) => known.clone_from(waker),
            None => {
                *place = Some(wakers.len());
                wakers.push(waker.clone());
            }
        }
        Poll::Pending
    }

    /// From now on [`run_syncer`](Self::run_syncer) is there.
    pub(crate) fn begin_syncer(&self) {
        let mut state = self.state.lock();
        assert!(state.syncer == Syncer::None, "there is one syncer");
        state.syncer = Syncer::Runs;
    }

    /// There is none after all.
    pub(crate) fn lose_syncer(&self) {
        self.state.lock().syncer = Syncer::None;
    }

    /// Tells the syncer to end.
    pub(crate) fn end_syncer(&self) {
        self.state.lock().syncer = Syncer::Ends;
        self.asked.notify_one();
    }

    /// Whether there is somebody who syncs what nobody waits for.
    pub(crate) fn has_syncer(&self) -> bool {
        self.state.lock().syncer == Syncer::Runs
    }

    /// Syncs for those that wait without a thread, and what was acknowledged before it was durable, until [`end_syncer`](Self::end_syncer).
    pub(crate) fn run_syncer(&self, context: &CommitContext) {
        let mut state = self.state.lock();
        loop {
            let due = state.sync_due();
            if state.has_question(context, self.log.as_ref()) || due.is_some_and(|due| due <= Instant::now())
            {
                state = self.sync(context, state);
            } else if let Some(due) = due.filter(|_| state.syncer == Syncer::Runs) {
                self.asked.wait_until(&mut state, due);
            } else if state.syncer == Syncer::Ends {
                state.syncer = Syncer::None;
                return;
            } else {
                self.asked.wait(&mut state);
            }
        }
    }

    /// Puts an equal world into the place of the newest applied one. Only under the leader's lock.
    pub(crate) fn replace_newest(
        &self,
        context: &CommitContext,
        change: impl FnOnce(&World) -> World,
    ) -> Arc<World> {
        let mut state = self.state.lock();
        let world = Arc::new(change(&context.applied()));
        match state.pending.back_mut() {
            Some(pending) => pending.world = Arc::clone(&world),
            None => context.set_published(Arc::clone(&world)),
        }
        context.set_applied(Arc::clone(&world));
        world
    }

    /// Replaces contents by equal contents in every world that is or will be visible; returns the old worlds. Only
    /// under the leader's lock.
    #[must_use = "dropping the last reference to a world takes long"]
    pub(crate) fn replace_worlds(
        &self,
        context: &CommitContext,
        change: impl Fn(&World) -> World,
    ) -> Vec<Arc<World>> {
        let mut state = self.state.lock();
        let mut old = vec![context.published(), context.applied()];
        context.set_published(Arc::new(change(&context.published())));
        for pending in &mut state.pending {
            let new = Arc::new(change(&pending.world));
            old.push(std::mem::replace(&mut pending.world, new));
        }
        let newest = match state.pending.back() {
            Some(pending) => Arc::clone(&pending.world),
            None => context.published(),
        };
        context.set_applied(newest);
        old
    }
}

impl State {
    /// Whether the syncer has something to do.
    fn has_question(&self, context: &CommitContext, log: Option<&LogHandle>) -> bool {
        self.asked > self.published
            && !self.is_syncing
            && self.stopped.is_none()
            && self.has_work(context, log)
    }

    /// Whether there is something that a sync, or a look behind one of somebody else, does for what is pending: all else waits
    /// for others.
    fn has_work(&self, context: &CommitContext, log: Option<&LogHandle>) -> bool {
        let is_ready = |pending| self.is_ready(pending, context, log.map(LogHandle::durable_lsn));
        self.unsynced(log).is_some() || self.pending.front().is_some_and(is_ready)
    }

    /// Whether nothing keeps a world from being published but those before it.
    fn is_ready(&self, pending: &Pending, context: &CommitContext, durable: Option<Lsn>) -> bool {
        let allowed = self.paused_at.map_or(self.allowed, |paused_at| paused_at.min(self.allowed));
        pending.needs.is_none_or(|needs| durable.is_some_and(|durable| durable >= needs))
            && match pending.consent {
                Consent::None => true,
                Consent::Bytes => false,
                Consent::Replicas(stage, end) => context.replicas.have_reached(stage, end),
                Consent::Primary(_) => pending.world.version() <= allowed,
            }
    }

    /// Up to where the log has to be durable for what is pending, if it is not.
    fn unsynced(&self, log: Option<&LogHandle>) -> Option<Lsn> {
        let needed = self.pending.iter().rev().find_map(|pending| pending.needs)?;
        log.is_some_and(|log| log.durable_lsn() < needed).then_some(needed)
    }

    /// Whether a version that was applied has reached this stage.
    fn has_come(&self, version: Version, until: Until, log: Option<&LogHandle>) -> bool {
        let is_published = self.published >= version;
        match until {
            Until::Durable => is_published || (self.unsynced(log).is_none() && !self.lacks_bytes()),
            Until::Published => is_published,
            Until::Acknowledged => {
                is_published && self.unshown.iter().all(|unshown| unshown.version != version)
            }
        }
    }

    /// Whether the record of something that is pending is still being written.
    fn lacks_bytes(&self) -> bool {
        self.pending.iter().any(|pending| pending.consent == Consent::Bytes)
    }

    /// Notes that this was, or is going to be, acknowledged before it is durable. Whether it is the first.
    fn note_undurable(&mut self, end: Lsn) -> bool {
        let is_first = self.undurable.is_none();
        let since = self.undurable.map_or_else(Instant::now, |undurable| undurable.since);
        self.undurable = Some(Undurable { since, end });
        is_first
    }

    /// When what is acknowledged and not durable is to be synced, if there is any and nobody is at it.
    fn sync_due(&self) -> Option<Instant> {
        let undurable = self.undurable.filter(|_| !self.is_syncing && self.stopped.is_none())?;
        Some(undurable.since + WAIVED_LAG_MAX)
    }

    /// Publishes, in order, what needs no sync any more.
    fn publish_ready(&mut self, context: &CommitContext, publishing: &Publishing) -> Released {
        let durable = publishing.log().map(LogHandle::durable_lsn);
        let count =
            self.pending.iter().take_while(|pending| self.is_ready(pending, context, durable)).count();
        let mut released = Released::default();
        let is_shown = |end| context.replicas.have_reached(Stage::Applied, end);
        while let Some(shown) = self.unshown.pop_front_if(|unshown| is_shown(unshown.end)) {
            released.wakers.extend(shown.wakers);
        }
        self.note_acknowledged(publishing);
        let Some(newest) = count.checked_sub(1).map(|last| Arc::clone(&self.pending[last].world)) else {
            return released;
        };
        context.trap.pass(Step::Publish);
        let version = newest.version();
        context.set_published(newest);
        // Before anybody is told: a transaction that begins after an acknowledgement finds the acknowledged one no longer registered.
        let registrations = self.pending.range(..count).flat_map(|pending| &pending.registrations);
        released.ended.extend(registrations.filter_map(|guard| guard.end()));
        (self.published, self.published_end) = (version, self.pending[count - 1].end);
        // They leave the queue last: whoever is left in it is woken when commits stop.
        let (unshown, now) = (&mut self.unshown, Instant::now());
        self.pending.drain(..count).for_each(|mut pending| {
            publishing.publications.note(now - pending.since);
            if let Some(end) = pending.shown.filter(|end| !is_shown(*end)) {
                let wakers = std::mem::take(&mut pending.wakers);
                unshown.push_back(Unshown { version: pending.world.version(), end, wakers });
            }
            released.take(&mut pending);
        });
        self.note_acknowledged(publishing);
        released
    }

    /// Lets those who look without the lock know what is acknowledged.
    fn note_acknowledged(&self, publishing: &Publishing) {
        let before = self.unshown.front().map(|unshown| Version::new(unshown.version.get() - 1));
        let acknowledged = before.map_or(self.published, |before| before.min(self.published));
        publishing.acknowledged.store(acknowledged.get(), Ordering::Release);
    }

    /// Those who wait for a version that is applied and not acknowledged, without a thread.
    fn wakers_of(&mut self, version: Version) -> &mut Vec<Waker> {
        if self.published >= version {
            let unshown = self.unshown.iter_mut().find(|unshown| unshown.version == version);
            return &mut unshown.expect("what is published and not shown is in its queue").wakers;
        }
        &mut self.pending_of(version).wakers
    }

    /// The first world in the queue that has an applied version. A store that follows another one has worlds of some versions
    /// only: what it takes together is one.
    fn pending_of(&mut self, version: Version) -> &mut Pending {
        let place = self.pending.partition_point(|pending| pending.world.version() < version);
        self.pending.get_mut(place).expect("what is applied and not published is in the queue")
    }

    /// Nothing is published from now on. The first reason stays.
    ///
    /// Those who wait are told; the registrations of what is pending stay. Such a commit was not given up: its record may be
    /// on other disks, and it belongs to the safe snapshot of each boundary from its first out-edge on. If its registration
    /// ended, the boundary would come there, and safe snapshots, here and on replicas that have the record, would show what
    /// nobody has published and a failover or a crash may lose. So the boundary stays where the oldest of them began, until
    /// the store is opened again and knows what its log has.
    fn stop(&mut self, reason: LogError) -> Released {
        self.stopped.get_or_insert(reason);
        let mut released = Released::default();
        self.pending.iter_mut().for_each(|pending| released.wakers.append(&mut pending.wakers));
        self.unshown.iter_mut().for_each(|unshown| released.wakers.append(&mut unshown.wakers));
        released
    }
}

#[cfg(test)]
mod tests;
