// SPDX-License-Identifier: Apache-2.0
//! Work that looks at no request, beside the thread that waits for it.
//!
//! The parser, and the rules that make a plan, go through a statement of megabytes for seconds; they are not ours, and look at
//! nothing meanwhile. So such work has a thread of its own: whoever waits for it hears of a request at once, and goes. The
//! work goes on behind him until it comes to a place of ours that [looks](crate::cancel::check), or to its end; what it holds
//! of the budget it holds until then. There are so few such threads that what has been left behind never takes the machine
//! from the others: who finds them all at work waits, and hears of a request there too.

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

/// The places of those who work.
#[derive(Debug)]
pub(crate) struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(THREADS_MAX)))
    }
}

/// How work asks whoever waits for it: what he has borrowed it cannot take along.
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
    /// What the work gives, or the error of the statement that runs on this thread if it is to end before.
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
