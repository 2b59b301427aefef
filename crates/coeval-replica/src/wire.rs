// SPDX-License-Identifier: Apache-2.0
//! A connection that gives the log, over which its other side hears of this one also while that is busy.
//!
//! What was taken may take long to be worked off: an index that is made again, a sink of a feed that does not read. Meanwhile nothing
//! is said that is new, and the other side takes who says nothing for gone (`wal_sender_timeout`). So what was said last is said
//! again, by a thread of its own. That tells nobody anything that was not told before: a promise that was given meanwhile
//! (`coeval-store/src/promises.rs`) is kept.

use crate::error::ReplicaError;
use crate::link::{Answer, Link, Message};
use coeval_store::log::Lsn;
use parking_lot::{Condvar, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// What was said is said again behind so much silence.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// See the module.
///
/// # Locking
/// `state` is a leaf lock. It is held while something is sent, and while a message is waited for, which is for no longer than the
/// connection's patience.
pub(crate) struct Wire {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    link: Link,
    /// What was said last, and when.
    told: Option<([Lsn; 3], Instant)>,
    has_ended: bool,
}

/// Has the thread end, whatever ends what it was there for.
struct Ending<'a>(&'a Wire);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.ended.notify_all();
    }
}

impl Wire {
    pub(crate) fn new(link: Link) -> Self {
        Self { state: Mutex::new(State { link, told: None, has_ended: false }), ended: Condvar::new() }
    }

    /// Does this, once; meanwhile the other side hears of this one. If there is no thread to be had, it may take this one for gone.
    pub(crate) fn while_heard<T>(&self, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let speaking = Builder::new().name("coeval-status".to_owned());
            if let Err(error) = speaking.spawn_scoped(scope, || self.speak()) {
                tracing::warn!(%error, "no thread that speaks while this side is busy");
            }
            let _ending = Ending(self);
            work()
        })
    }

    /// Says again what was said last, whenever nothing is said for a while.
    fn speak(&self) {
        let mut state = self.state.lock();
        while !state.has_ended {
            self.ended.wait_for(&mut state, SILENCE / 4);
            let is_due = |(_, at): &([Lsn; 3], Instant)| at.elapsed() >= SILENCE;
            let Some((places, _)) = state.told.filter(is_due).filter(|_| !state.has_ended) else { continue };
            // Whoever reads finds that the connection has ended.
            if state.link.send_status(places, Answer::Unneeded).is_err() {
                return;
            }
            state.told = Some((places, Instant::now()));
        }
    }

    /// See [`Link::next`].
    ///
    /// # Errors
    /// As that has them.
    pub(crate) fn next(&self) -> Result<Option<Message>, ReplicaError> {
        self.state.lock().link.next()
    }

    /// See [`Link::has_message`].
    pub(crate) fn has_message(&self) -> bool {
        self.state.lock().link.has_message()
    }

    /// See [`Link::send_status`].
    ///
    /// # Errors
    /// As that has them.
    pub(crate) fn send_status(&self, places: [Lsn; 3], answer: Answer) -> Result<(), ReplicaError> {
        let mut state = self.state.lock();
        state.link.send_status(places, answer)?;
        state.told = Some((places, Instant::now()));
        Ok(())
    }

    /// See [`Link::say_goodbye`].
    pub(crate) fn say_goodbye(&self) {
        self.state.lock().link.say_goodbye();
    }
}
