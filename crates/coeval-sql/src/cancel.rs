// SPDX-License-Identifier: Apache-2.0
//! Cancelling a running statement from another thread.
//!
//! A statement says on its own thread that it runs; whatever waits for a query there ([`unless_cancelled`]) also
//! waits for a request, and loops over rows ask for one ([`check`]). A commit is not interrupted, and neither is a statement of the
//! point path that visits few rows.

use crate::error::{SqlError, SqlState};
use crate::hand_over::hand_over_if_wanted;
use crate::memory::{Holding, has_much_to_note, note_for_nobody};
use crate::progress::{Counting, QueryProgress, Shown};
use crate::turns::{Account, Pieces};
use coeval_txn::{Interrupt, OwnerId};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryPool;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;
use tokio::sync::Notify;

/// Why a statement is to end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// Somebody asked for it.
    Request,
    /// It ran for longer than `statement_timeout`.
    StatementTimeout,
    /// Somebody asked that the session stop what it does, this statement and those behind it.
    Stop,
    /// Its client is not there any more: nobody waits for it, nor for those behind it.
    ClientGone,
    /// Its connection is to end.
    Termination,
}

impl CancelReason {
    /// What the statement answers.
    #[must_use]
    pub fn error(self) -> SqlError {
        match self {
            Self::Request | Self::Stop => {
                SqlError::new(SqlState::QueryCanceled, "canceling statement due to user request")
            }
            Self::StatementTimeout => {
                SqlError::new(SqlState::QueryCanceled, "canceling statement due to statement timeout")
            }
            Self::ClientGone => SqlError::new(SqlState::ConnectionFailure, "connection to client lost")
                .with_hint(
                    "A client that closes its half of a connection and waits for long answers has to set \
                 client_connection_check_interval to 0 first.",
                ),
            Self::Termination => {
                SqlError::new(SqlState::AdminShutdown, "terminating connection due to administrator command")
            }
        }
    }

    const fn code(self) -> u64 {
        match self {
            Self::Request => 1,
            Self::StatementTimeout => 2,
            Self::Stop => 3,
            Self::ClientGone => 4,
            Self::Termination => 5,
        }
    }

    /// Whether the statements behind the one that runs are meant too.
    const fn lasts(self) -> bool {
        matches!(self, Self::Stop | Self::ClientGone | Self::Termination)
    }

    /// The reason that a request's word holds.
    fn of_word(word: u64) -> Option<Self> {
        [Self::Request, Self::StatementTimeout, Self::Stop, Self::ClientGone, Self::Termination]
            .into_iter()
            .find(|reason| reason.code() == word & REASON_MASK)
    }
}

/// One statement among those that a session has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementNumber(u64);

/// The bits of a request's word that hold the reason; the number of the statement is above them.
const REASON_MASK: u64 = 0b111;
const NUMBER_SHIFT: u32 = 3;

/// Cancels the statement that a session runs. Clones are handles on the same session.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    request: Arc<Request>,
}

/// # Locking
/// `lock_wait` is a leaf, held for a move.
#[derive(Debug, Default)]
struct Request {
    /// The number of the statement that runs, and the code of why it is to end; 0: nobody asked. Both in one word,
    /// so that what is meant for one statement never ends the next.
    word: AtomicU64,
    changed: Notify,
    /// Wakes the statement if it waits for a row lock.
    lock_wait: Mutex<Option<Waker>>,
    /// Whether its commit waits for replicas.
    awaits_replicas: AtomicBool,
    /// The session's identity among the holders of advisory locks.
    lock_owner: OnceLock<OwnerId>,
    /// How far its query is.
    progress: Shown,
    /// What the tasks of its queries are about.
    pieces: Arc<Pieces>,
}

/// The commit of a session waits for replicas until this is dropped: that is shown by `pg_stat_activity`.
#[derive(Debug)]
pub struct ReplicaWait {
    request: Arc<Request>,
}

impl Drop for ReplicaWait {
    fn drop(&mut self) {
        self.request.awaits_replicas.store(false, Ordering::Release);
    }
}

/// The progress of a session's query is shown until this is dropped.
pub(crate) struct ShownProgress {
    request: Arc<Request>,
    number: u64,
}

impl Drop for ShownProgress {
    fn drop(&mut self) {
        self.request.progress.end(self.number);
    }
}

impl Interrupt for Request {
    fn is_set(&self) -> bool {
        self.word.load(Ordering::Acquire) & REASON_MASK != 0
    }

    fn notify(&self, waker: Waker) {
        *self.lock_wait.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    fn wait_ended(&self) {
        self.lock_wait.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

thread_local! {
    /// The session whose statement runs on this thread.
    static RUNNING: RefCell<Option<CancelHandle>> = const { RefCell::new(None) };
    /// That of the query that this thread works for.
    static WORKING: RefCell<Option<Lifeline>> = const { RefCell::new(None) };
}

impl CancelHandle {
    pub(crate) fn new() -> Self {
        Self { request: Arc::default() }
    }

    /// Notes who the session is among those that hold advisory locks.
    pub(crate) fn note_lock_owner(&self, owner: OwnerId) {
        // A session is one owner for as long as it lasts, so a second note would be the same.
        let _ = self.request.lock_owner.set(owner);
    }

    /// Whether the session is the one that holds advisory locks as this owner.
    pub(crate) fn is_lock_owner(&self, owner: OwnerId) -> bool {
        self.request.lock_owner.get() == Some(&owner)
    }

    /// The statement that runs ends with `57014` as soon as its query comes by a place to stop; it has no effect
    /// then. A session that runs nothing does not notice.
    pub fn cancel(&self) {
        self.cancel_for(CancelReason::Request);
    }

    /// As [`cancel`](Self::cancel), for this reason. A termination is not outdone by another reason.
    pub fn cancel_for(&self, reason: CancelReason) {
        self.request(reason, |_| true);
    }

    /// The running statement ends as by [`cancel`](Self::cancel), and so do those that begin before [`go_on`](Self::go_on). For callers
    /// that cannot know which of several statements is running at the moment.
    pub fn stop(&self) {
        self.cancel_for(CancelReason::Stop);
    }

    /// Statements that begin from now on do not heed an earlier [`stop`](Self::stop).
    pub fn go_on(&self) {
        let cleared = |word: u64| {
            (CancelReason::of_word(word) == Some(CancelReason::Stop)).then_some(word & !REASON_MASK)
        };
        // Nothing to be cleared is as good.
        let _ = self.request.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, cleared);
    }

    /// As [`cancel_for`](Self::cancel_for), if this statement still runs: else it has no effect.
    pub fn cancel_statement(&self, statement: StatementNumber, reason: CancelReason) {
        self.request(reason, |running| running == statement);
    }

    fn request(&self, reason: CancelReason, concerns: impl Fn(StatementNumber) -> bool) {
        let code = reason.code();
        let asked = self.request.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            // The codes grow with what outdoes what.
            let is_news = word & REASON_MASK < code && concerns(StatementNumber(word >> NUMBER_SHIFT));
            is_news.then_some(word & !REASON_MASK | code)
        });
        if asked.is_err() {
            return;
        }
        self.request.changed.notify_waiters();
        // Behind the reason: either this finds the waker, or who brings one finds the reason.
        let waiting = self.request.lock_wait.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// An error that says that the statement was cancelled, with the reason; any other as it is.
    pub(crate) fn named(&self, error: SqlError) -> SqlError {
        match self.requested() {
            Some(reason) if error.state == SqlState::QueryCanceled => reason.error(),
            _ => error,
        }
    }

    /// What ends a wait for a row lock when the statement is to end.
    pub(crate) fn interrupt(&self) -> Arc<dyn Interrupt + Send + Sync> {
        Arc::clone(&self.request) as Arc<dyn Interrupt + Send + Sync>
    }

    /// Whether the statement that runs waits for a row lock.
    pub(crate) fn waits_for_lock(&self) -> bool {
        self.request.lock_wait.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Says that the session's commit waits for replicas, until what this gives is dropped.
    #[must_use]
    pub fn note_replica_wait(&self) -> ReplicaWait {
        self.request.awaits_replicas.store(true, Ordering::Release);
        ReplicaWait { request: Arc::clone(&self.request) }
    }

    /// How far the session's statement is with the rows that it reads or writes, or the last one whose rows are still read; `None`
    /// while there is none of which that is known. Costs some
    /// microseconds, and nothing of the query.
    #[must_use]
    pub fn progress(&self) -> Option<QueryProgress> {
        self.request.progress.now()
    }

    /// Shows the progress of a query, until what this gives is dropped.
    #[must_use]
    pub(crate) fn show_progress(&self, counting: Option<Counting>) -> ShownProgress {
        ShownProgress { request: Arc::clone(&self.request), number: self.request.progress.begin(counting) }
    }

    /// Whether the session's queries wait until other statements have had their part of the threads.
    pub(crate) fn waits_for_turn(&self) -> bool {
        self.request.pieces.wait_for_others()
    }

    /// Whether the session's commit waits for replicas.
    pub(crate) fn awaits_replicas(&self) -> bool {
        self.request.awaits_replicas.load(Ordering::Acquire)
    }

    /// Why the statement that runs is to end, if it is.
    #[must_use]
    pub fn requested(&self) -> Option<CancelReason> {
        CancelReason::of_word(self.request.word.load(Ordering::Acquire))
    }

    /// Ready once the statement that runs is to end.
    pub async fn cancelled(&self) -> CancelReason {
        loop {
            let changed = self.request.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(reason) = self.requested() {
                return reason;
            }
            changed.await;
        }
    }

    /// Ready once the session is to end.
    pub async fn terminated(&self) {
        loop {
            let changed = self.request.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.requested() == Some(CancelReason::Termination) {
                return;
            }
            changed.await;
        }
    }

    /// A statement of the session begins, on whatever thread. Requests from before do not concern it, except
    /// those to stop and that the connection is to end.
    pub fn begin_statement(&self) -> StatementNumber {
        let next = |word: u64| {
            let lasting = CancelReason::of_word(word).filter(|reason| reason.lasts());
            let kept = lasting.map_or(0, CancelReason::code);
            ((word >> NUMBER_SHIFT) + 1) << NUMBER_SHIFT | kept
        };
        let changed =
            self.request.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| Some(next(word)));
        // It does not fail: there always is a next one.
        let (Ok(before) | Err(before)) = changed;
        StatementNumber((before >> NUMBER_SHIFT) + 1)
    }

    /// The statement that runs, or ran last.
    pub(crate) fn statement(&self) -> StatementNumber {
        StatementNumber(self.request.word.load(Ordering::Acquire) >> NUMBER_SHIFT)
    }

    /// A statement of the session begins on this thread. Requests from before do not concern it.
    #[must_use]
    pub(crate) fn begin(&self) -> RunningStatement {
        self.begin_statement();
        self.resume()
    }

    /// A statement that has begun runs on this thread.
    #[must_use]
    pub(crate) fn resume(&self) -> RunningStatement {
        RunningStatement { before: RUNNING.replace(Some(self.clone())) }
    }
}

/// What the threads of a query check to find out whether they have to end: its statement was told to end, nobody waits for their
/// work any more, or it holds too much memory.
///
/// A request to end is forgotten when the session's next statement begins, which may be before all threads have looked. So the
/// session [holds](Self::held) the lifeline of a query while it waits for it, and cuts it by dropping what it holds.
///
/// # Locking
/// `is_cut` is a flag that is set once and guards nothing.
#[derive(Clone, Debug)]
pub(crate) struct Lifeline {
    request: Option<CancelHandle>,
    work: Arc<Work>,
}

#[derive(Debug, Default)]
struct Work {
    is_cut: AtomicBool,
    holding: Holding,
    account: Arc<Account>,
}

impl Lifeline {
    /// That of work for the statement that runs on this thread.
    pub(crate) fn of_running() -> Self {
        Self { request: running(), work: Arc::default() }
    }

    /// That of its query, which asks here for memory.
    pub(crate) fn of_query(memory: Arc<dyn MemoryPool>) -> Self {
        let request = running();
        let account = request.as_ref().map(|session| Account::shown_in(Arc::clone(&session.request.pieces)));
        let work = Work {
            is_cut: AtomicBool::new(false),
            holding: Holding::of(Some(memory)),
            account: Arc::new(account.unwrap_or_default()),
        };
        Self { request, work: Arc::new(work) }
    }

    /// That of the query that this thread works for.
    pub(crate) fn here() -> Option<Self> {
        WORKING.with_borrow(Clone::clone)
    }

    /// The query's time on the threads for queries.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.work.account
    }

    /// What the query holds of the process's memory.
    pub(crate) fn holding(&self) -> &Holding {
        &self.work.holding
    }

    /// Whether the work is to end.
    ///
    /// # Errors
    /// The statement's error then.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        hand_over_if_wanted();
        if let Some(reason) = self.request.as_ref().and_then(CancelHandle::requested) {
            return Err(reason.error());
        }
        if self.work.is_cut.load(Ordering::Relaxed) {
            return Err(CancelReason::Request.error());
        }
        if self.work.holding.has_grown() {
            self.work.holding.check()?;
        }
        note_memory()
    }

    /// Works on this thread: what it calls finds the lifeline, see [`check`].
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = WORKING.replace(Some(self.clone()));
        let is_within = before.as_ref() == Some(self);
        let _back = WorkedBefore(before);
        if is_within { work() } else { self.work.holding.during(work) }
    }

    /// The work ends when this is dropped, unless it has ended before.
    #[must_use]
    pub(crate) fn held(&self) -> HeldLifeline {
        HeldLifeline(Arc::clone(&self.work))
    }
}

impl PartialEq for Lifeline {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.work, &other.work)
    }
}

impl Eq for Lifeline {}

/// What this thread worked for before.
struct WorkedBefore(Option<Lifeline>);

impl Drop for WorkedBefore {
    fn drop(&mut self) {
        WORKING.set(self.0.take());
    }
}

/// Held by the session while it waits for a query. Dropping it ends the query's work.
#[derive(Debug)]
pub(crate) struct HeldLifeline(Arc<Work>);

impl Drop for HeldLifeline {
    fn drop(&mut self) {
        self.0.is_cut.store(true, Ordering::Relaxed);
    }
}

/// While this lives, its session's statement runs on this thread.
pub(crate) struct RunningStatement {
    before: Option<CancelHandle>,
}

impl Drop for RunningStatement {
    fn drop(&mut self) {
        RUNNING.set(self.before.take());
    }
}

/// What cancels the statement that runs on this thread.
pub(crate) fn running() -> Option<CancelHandle> {
    RUNNING.with_borrow(Clone::clone)
}

/// Notes for the query that this thread works for what it has allocated, if that is much.
///
/// # Errors
/// `53200` if the query holds too much.
#[inline]
fn note_memory() -> Result<(), SqlError> {
    if has_much_to_note() { note_much_memory() } else { Ok(()) }
}

#[cold]
fn note_much_memory() -> Result<(), SqlError> {
    WORKING.with_borrow(|working| match working {
        Some(working) => working.work.holding.note_here(),
        None => {
            note_for_nobody();
            Ok(())
        }
    })
}

/// For loops over rows: whether the statement that runs on this thread, or the query that it works for, is to end. Costs
/// some nanoseconds.
///
/// # Errors
/// That of the cancelled statement.
#[inline]
pub(crate) fn check() -> Result<(), SqlError> {
    hand_over_if_wanted();
    let reason = RUNNING.with_borrow(|running| running.as_ref().and_then(CancelHandle::requested));
    reason.map_or(Ok(()), |reason| Err(reason.error()))?;
    WORKING.with_borrow(|working| working.as_ref().map_or(Ok(()), Lifeline::check))
}

/// What the future gives, or the error of a statement that was cancelled meanwhile: the future is dropped then.
///
/// # Errors
/// The future's own; [`SqlState::QueryCanceled`].
pub(crate) async fn unless_cancelled<T>(
    future: impl Future<Output = Result<T, DataFusionError>>,
) -> Result<T, DataFusionError> {
    let Some(running) = RUNNING.with_borrow(Clone::clone) else { return future.await };
    tokio::select! {
        biased;
        reason = running.cancelled() => Err(reason.error().into()),
        outcome = future => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_one_statement_does_not_end_the_next() {
        let handle = CancelHandle::new();
        let first = handle.begin_statement();
        let second = handle.begin_statement();
        handle.cancel_statement(first, CancelReason::StatementTimeout);
        assert_eq!(handle.requested(), None);
        handle.cancel_statement(second, CancelReason::StatementTimeout);
        assert_eq!(handle.requested(), Some(CancelReason::StatementTimeout));
        handle.begin_statement();
        assert_eq!(handle.requested(), None);
    }

    #[test]
    fn work_ends_when_nobody_waits_for_it_also_while_the_next_statement_runs() {
        let handle = CancelHandle::new();
        let running = handle.begin();
        let lifeline = Lifeline::of_running();
        let held = lifeline.held();
        assert_eq!(lifeline.check(), Ok(()));
        handle.cancel();
        assert_eq!(lifeline.check().map_err(|error| error.state), Err(SqlState::QueryCanceled));
        drop(running);
        let _next = handle.begin();
        assert_eq!(lifeline.check(), Ok(()), "the request is forgotten");
        drop(held);
        assert_eq!(lifeline.check().map_err(|error| error.state), Err(SqlState::QueryCanceled));
    }

    #[test]
    fn a_termination_outdoes_other_reasons_and_outlives_the_statement() {
        let handle = CancelHandle::new();
        let running = handle.begin_statement();
        handle.cancel();
        handle.cancel_for(CancelReason::Termination);
        handle.cancel_statement(running, CancelReason::StatementTimeout);
        assert_eq!(handle.requested(), Some(CancelReason::Termination));
        handle.begin_statement();
        assert_eq!(handle.requested(), Some(CancelReason::Termination));
    }

    #[test]
    fn who_stops_a_session_stops_the_statements_to_come_until_it_goes_on() {
        let handle = CancelHandle::new();
        handle.stop();
        let running = handle.begin_statement();
        assert_eq!(handle.requested(), Some(CancelReason::Stop));
        handle.cancel_statement(running, CancelReason::StatementTimeout);
        assert_eq!(handle.requested(), Some(CancelReason::Stop));
        handle.begin_statement();
        assert_eq!(handle.requested(), Some(CancelReason::Stop));
        handle.go_on();
        assert_eq!(handle.requested(), None);
        handle.cancel_for(CancelReason::Termination);
        handle.go_on();
        assert_eq!(handle.requested(), Some(CancelReason::Termination));
    }

    #[test]
    fn a_client_that_has_gone_ends_the_statements_to_come_too_and_a_termination_outdoes_that() {
        let handle = CancelHandle::new();
        handle.begin_statement();
        handle.cancel_for(CancelReason::ClientGone);
        handle.go_on();
        handle.begin_statement();
        assert_eq!(handle.requested(), Some(CancelReason::ClientGone));
        handle.cancel_for(CancelReason::Termination);
        assert_eq!(handle.requested(), Some(CancelReason::Termination));
    }

    #[test]
    fn a_statement_that_goes_on_hears_what_was_asked_before() {
        let handle = CancelHandle::new();
        handle.begin_statement();
        handle.cancel();
        let running = handle.resume();
        assert_eq!(check(), Err(CancelReason::Request.error()));
        drop(running);
        assert_eq!(check(), Ok(()));
    }
}
