// SPDX-License-Identifier: Apache-2.0
//! Cancelling a running statement from another thread.
//!
//! A statement says on its own thread that it runs; whatever waits for a query there ([`unless_cancelled`]) also
//! waits for a request. What runs without waiting, such as a statement of the point path, is not interrupted: it
//! is short, or on its way to commit.

use crate::error::{SqlError, SqlState};
use datafusion::error::DataFusionError;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::sync::watch;

/// Cancels the statement that a session runs. Clones are handles on the same session.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    requested: Arc<watch::Sender<bool>>,
}

thread_local! {
    /// The session whose statement runs on this thread.
    static RUNNING: RefCell<Option<CancelHandle>> = const { RefCell::new(None) };
}

impl CancelHandle {
    pub(crate) fn new() -> Self {
        Self { requested: Arc::new(watch::Sender::new(false)) }
    }

    /// The statement that runs ends with `57014` as soon as its query comes by a place to stop; it has no effect
    /// then. A session that runs nothing does not notice.
    pub fn cancel(&self) {
        self.requested.send_replace(true);
    }

    /// A statement of the session begins on this thread. Requests from before do not concern it.
    #[must_use]
    pub(crate) fn begin(&self) -> RunningStatement {
        self.requested.send_replace(false);
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

/// What the future gives, or the error of a statement that was cancelled meanwhile: the future is dropped then.
///
/// # Errors
/// The future's own; [`SqlState::QueryCanceled`].
pub(crate) async fn unless_cancelled<T>(
    future: impl Future<Output = Result<T, DataFusionError>>,
) -> Result<T, DataFusionError> {
    let Some(running) = RUNNING.with_borrow(Clone::clone) else { return future.await };
    let mut requests = running.requested.subscribe();
    tokio::select! {
        biased;
        Ok(_) = requests.wait_for(|requested| *requested) => {
            let message = "canceling statement due to user request";
            Err(SqlError::new(SqlState::QueryCanceled, message).into())
        }
        outcome = future => outcome,
    }
}
