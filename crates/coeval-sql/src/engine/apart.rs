// SPDX-License-Identifier: Apache-2.0
//! Work that cannot be cancelled, on another thread than the statement that waits for it.
//!
//! The parser and DataFusion's planning rules take seconds for a statement of megabytes, and do not look for cancel requests
//! meanwhile. So such work gets a thread of its own: the statement that waits for it notices a request at once, and ends. The
//! work goes on without it until it reaches a place of ours that [looks](crate::cancel::check), or its end; until then it keeps
//! its part of the memory budget. There are only a few such threads, so that abandoned work never takes the machine from the
//! others: a statement that finds them all busy waits, and notices a request there, too.

use super::QueryThreads;
use crate::cancel::{CancelReason, Lifeline, running};
use crate::error::SqlError;
use crate::memory::syntax_memory;
use datafusion::common::DataFusionError;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use tokio::sync::{Semaphore, mpsc};

/// Texts from this length on are parsed and planned apart. A shorter one is done before anybody would notice.
pub(crate) const LONG_TEXT_BYTES: usize = 32 << 10;

/// Threads for it at the same time.
const THREADS_MAX: usize = 4;

/// Permits, one for each thread that may do such work.
#[derive(Debug)]
pub(crate) struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(THREADS_MAX)))
    }
}

/// How work asks the statement that waits for it: the work cannot use what that statement has only borrowed.
#[derive(Debug)]
pub(crate) struct Asking<Q>(mpsc::UnboundedSender<Q>);

impl<Q> Asking<Q> {
    /// The answer to a question, which is made with where the answer goes.
    ///
    /// # Errors
    /// `57014` if nobody waits any more.
    pub(crate) fn ask<A>(&self, question: impl FnOnce(Sender<A>) -> Q) -> Result<A, SqlError> {
        let (answer, answered) = channel();
        let gone = || CancelReason::Request.error();
        self.0.send(question(answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())
    }
}

impl QueryThreads<'_> {
    /// The result of the work, or the error of the statement that runs on this thread if that is cancelled before.
    ///
    /// # Errors
    /// The work's own; that of a cancelled statement.
    pub(crate) fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        self.apart_asking(|_: Asking<Infallible>| work(), |never| match never {})
    }

    /// The same for work that asks: its questions are answered on this thread, each by `answer`.
    ///
    /// # Errors
    /// As [`apart`](Self::apart).
    pub(crate) fn apart_asking<T: Send + 'static, Q: Send + 'static>(
        &self,
        work: impl FnOnce(Asking<Q>) -> Result<T, SqlError> + Send + 'static,
        mut answer: impl FnMut(Q),
    ) -> Result<T, SqlError> {
        let (asking, mut asked) = mpsc::unbounded_channel();
        let (places, statement, lifeline) = (Arc::clone(&self.places.0), running(), Lifeline::of_running());
        // Whoever goes cuts it.
        let _held = lifeline.held();
        let place = self.block_on(async move {
            places.acquire_owned().await.map_err(|error| DataFusionError::External(error.into()))
        })?;
        let syntax = syntax_memory();
        let mut working = self.runtime.spawn_blocking(move || {
            let (_place, _syntax) = (place, syntax);
            let _running = statement.map(|statement| statement.resume());
            lifeline.during(|| work(Asking(asking)))
        });
        loop {
            let heard = self.block_on(async {
                tokio::select! {
                    biased;
                    Some(question) = asked.recv() => Ok(Heard::Question(question)),
                    outcome = &mut working => Ok(Heard::Outcome(outcome)),
                }
            });
            match heard? {
                Heard::Question(question) => answer(question),
                Heard::Outcome(Ok(outcome)) => return outcome,
                Heard::Outcome(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(error) => return Err(SqlError::internal(format!("work was not done: {error}"))),
                },
            }
        }
    }
}

enum Heard<Q, T> {
    Question(Q),
    Outcome(T),
}

#[cfg(test)]
mod tests;
