// SPDX-License-Identifier: Apache-2.0
//! Cancelling a running statement from another thread.
//!
//! A statement says on its own thread that it runs; whatever waits for a query there ([`unless_cancelled`]) also
//! waits for a request, and loops over rows ask for one ([`check`]). A statement of the point path, which is short,
//! and a commit are not interrupted.

use crate::error::{SqlError, SqlState};
use coeval_txn::Interrupt;
use datafusion::error::DataFusionError;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use tokio::sync::Notify;

/// Why a statement is to end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// Somebody asked for it.
    Request,
    /// It ran for longer than `statement_timeout`.
    StatementTimeout,
    /// Its connection is to end.
    Termination,
}

impl CancelReason {
    /// What the statement answers.
    #[must_use]
    pub fn error(self) -> SqlError {
        match self {
            Self::Request => {
                SqlError::new(SqlState::QueryCanceled, "canceling statement due to user request")
            }
            Self::StatementTimeout => {
                SqlError::new(SqlState::QueryCanceled, "canceling statement due to statement timeout")
            }
            Self::Termination => {
                SqlError::new(SqlState::AdminShutdown, "terminating connection due to administrator command")
            }
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Request => 1,
            Self::StatementTimeout => 2,
            Self::Termination => 3,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        [Self::Request, Self::StatementTimeout, Self::Termination]
            .into_iter()
            .find(|reason| reason.code() == code)
    }
}

/// Cancels the statement that a session runs. Clones are handles on the same session.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    request: Arc<Request>,
}

/// # Locking
/// `lock_wait` is a leaf, held for a move.
#[derive(Debug, Default)]
struct Request {
    /// The code of the reason; 0: nobody asked.
    reason: AtomicU8,
    changed: Notify,
    /// Wakes the statement if it waits for a row lock.
    lock_wait: Mutex<Option<Waker>>,
}

impl Interrupt for Request {
    fn is_set(&self) -> bool {
        self.reason.load(Ordering::Acquire) != 0
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
}

impl CancelHandle {
    pub(crate) fn new() -> Self {
        Self { request: Arc::default() }
    }

    /// The statement that runs ends with `57014` as soon as its query comes by a place to stop; it has no effect
    /// then. A session that runs nothing does not notice.
    pub fn cancel(&self) {
        self.cancel_for(CancelReason::Request);
    }

    /// As [`cancel`](Self::cancel), for this reason. A termination is not outdone by another reason.
    pub fn cancel_for(&self, reason: CancelReason) {
        let code = reason.code();
        // The codes grow with what outdoes what.
        self.request.reason.fetch_max(code, Ordering::AcqRel);
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

    /// Why the statement that runs is to end, if it is.
    #[must_use]
    pub fn requested(&self) -> Option<CancelReason> {
        CancelReason::of_code(self.request.reason.load(Ordering::Acquire))
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

    /// A statement of the session begins, on whatever thread. Requests from before do not concern it, except that
    /// the connection is to end.
    pub fn reset(&self) {
        let seen = self.request.reason.load(Ordering::Acquire);
        if seen != 0 && seen != CancelReason::Termination.code() {
            // If it fails, a request came meanwhile: it is for the statement that begins.
            let _ = self.request.reason.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// A statement of the session begins on this thread. Requests from before do not concern it.
    #[must_use]
    pub(crate) fn begin(&self) -> RunningStatement {
        self.reset();
        RunningStatement { before: RUNNING.replace(Some(self.clone())) }
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

/// For loops over rows: whether the statement that runs on this thread is to end. Costs some nanoseconds.
///
/// # Errors
/// That of the cancelled statement.
#[inline]
pub(crate) fn check() -> Result<(), SqlError> {
    let reason = RUNNING.with_borrow(|running| running.as_ref().and_then(CancelHandle::requested));
    reason.map_or(Ok(()), |reason| Err(reason.error()))
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
