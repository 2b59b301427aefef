// SPDX-License-Identifier: Apache-2.0
//! The commits that span a server and the database, and who waits for them.
//!
//! ```text
//! claimed      prepare on the server, the decision among the changes here       the next one waits
//! committing   certified, applied and logged here; noted with its place there   whoever begins on the server waits
//! noted        the disk, replicas; then the server's marker                     nobody waits who does not need both halves
//! settled      the server shows it
//! ```
//!
//! Nothing is locked while the disk or replicas are waited for, and each wait looks whether its statement is to end. Nor does one that
//! is `claimed` or `committing` wait for other transactions: its checks, which may want row locks, are made before, and if it is refused
//! because something is reserved, it is given up first and waits then, for five seconds at most.
//!
//! **Why nobody sees half.** Let a transaction begin on the server with world W. A commit that spans and is in W had begun to commit
//! before W was taken, so once nothing is `committing` it is in the list, or had been and was passed by all states of the
//! server that transactions may begin at. So [`half`](Spans::half) finds it if the server's state that goes with W lacks it. Whoever finds
//! one waits until it is settled, and looks for the state that goes with W again, if no other server's has been taken yet.
//! **Why the list has the order of both.** From its prepare, which takes the place on the server, until it is noted, which tells
//! its version, one commit alone is `claimed`.
//! **Why decisions can be read.** Whoever opens the server again claims it, once all are settled: each is published or, if the log has
//! failed, said to be unknown. None is on its way then whose decision is not seen.

use crate::cancel::check;
use crate::error::SqlError;
use crate::hand_over::aside;
use coeval_txn::Version;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::time::Duration;

/// How often it is looked whether the statement that waits is to end. What it waits for wakes it.
pub(super) const END_LOOK: Duration = Duration::from_millis(20);

#[derive(Default)]
struct State {
    /// Each one's version here and its timestamp there, in their order, which is that of both.
    list: VecDeque<(Version, i64)>,
    is_claimed: bool,
    is_committing: bool,
    /// The timestamps of those that are noted and not settled.
    unsettled: Vec<i64>,
}

/// See the module.
///
/// # Locking
/// `state` is a leaf, held for moments.
#[derive(Default)]
pub(crate) struct Spans {
    state: Mutex<State>,
    changed: Condvar,
}

impl Spans {
    /// The right to span the server next. Given up when dropped.
    ///
    /// # Errors
    /// That of a cancelled statement.
    pub(crate) fn claim(&self) -> Result<Claim<'_>, SqlError> {
        self.claim_unless(|state| state.is_claimed)
    }

    /// The same, once there is none on its way.
    ///
    /// # Errors
    /// That of a cancelled statement.
    pub(crate) fn claim_settled(&self) -> Result<Claim<'_>, SqlError> {
        self.claim_unless(|state| state.is_claimed || !state.unsettled.is_empty())
    }

    fn claim_unless(&self, is_hindered: impl Fn(&State) -> bool) -> Result<Claim<'_>, SqlError> {
        self.wait_while(is_hindered, |state| state.is_claimed = true)?;
        Ok(Claim(self))
    }

    /// The one of which this world and this state of the server together hold half, if there is one: its timestamp.
    ///
    /// # Errors
    /// That of a statement that was cancelled while it waited for one that is committing.
    pub(crate) fn half(&self, version: Version, start: i64) -> Result<Option<i64>, SqlError> {
        self.wait_while(|state| state.is_committing, |state| half(&state.list, version, start))
    }

    /// Waits until the server shows this one.
    ///
    /// # Errors
    /// That of a cancelled statement.
    pub(crate) fn wait_settled(&self, timestamp: i64) -> Result<(), SqlError> {
        self.wait_while(|state| state.unsettled.contains(&timestamp), |_| ())
    }

    /// The server shows this one, or it is not known and the server has stopped.
    pub(crate) fn note_settled(&self, timestamp: i64) {
        self.state.lock().unsettled.retain(|unsettled| *unsettled != timestamp);
        self.changed.notify_all();
    }

    /// Does this as soon as nothing hinders it.
    fn wait_while<T>(
        &self,
        is_hindered: impl Fn(&State) -> bool,
        then: impl FnOnce(&mut State) -> T,
    ) -> Result<T, SqlError> {
        let mut state = self.state.lock();
        if is_hindered(&state) {
            drop(state);
            state = aside(|| self.waited(is_hindered))?;
        }
        Ok(then(&mut state))
    }

    fn waited(&self, is_hindered: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>, SqlError> {
        let mut state = self.state.lock();
        while is_hindered(&state) {
            self.changed.wait_for(&mut state, END_LOOK);
            MutexGuard::unlocked(&mut state, check)?;
        }
        Ok(state)
    }
}

/// The server's half is never seen first.
fn half(list: &VecDeque<(Version, i64)>, version: Version, start: i64) -> Option<i64> {
    let unseen = list.partition_point(|(_, timestamp)| *timestamp <= start);
    list.get(unseen).filter(|(spanned, _)| *spanned <= version).map(|(_, timestamp)| *timestamp)
}

/// The right to span a server. Given up when dropped.
pub(crate) struct Claim<'s>(&'s Spans);

impl Claim<'_> {
    /// From here on whoever begins on the server waits, until it is noted or given up.
    pub(crate) fn begin_to_commit(&self) {
        self.0.state.lock().is_committing = true;
    }

    /// Notes the one that has committed here, which is to be settled. Those that the server has passed are in every snapshot of it,
    /// and need not be kept.
    pub(crate) fn note(self, version: Version, timestamp: i64, passed: i64) {
        let mut state = self.0.state.lock();
        while state.list.front().is_some_and(|(_, first)| *first <= passed) {
            state.list.pop_front();
        }
        debug_assert!(state.list.back().is_none_or(|last| *last < (version, timestamp)), "one order of both");
        state.list.push_back((version, timestamp));
        state.unsettled.push(timestamp);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_claimed = false;
        state.is_committing = false;
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelHandle;

    #[test]
    fn a_world_and_a_state_hold_half_of_what_is_in_the_one_alone() {
        let list = VecDeque::from([(Version::new(4), 10), (Version::new(7), 12)]);
        let half = |version, start| half(&list, Version::new(version), start);
        assert_eq!((half(3, 9), half(4, 9), half(6, 10), half(7, 11)), (None, Some(10), None, Some(12)));
        assert_eq!((half(7, 12), half(9, 9)), (None, Some(10)));
    }

    #[test]
    fn whoever_waits_hears_that_it_is_to_end_and_goes_on_when_there_is_nothing_to_wait_for() {
        let spans = Spans::default();
        let handle = CancelHandle::new();
        let _running = handle.begin();
        let claim = spans.claim().unwrap();
        claim.begin_to_commit();
        handle.cancel();
        assert!(spans.claim().is_err() && spans.half(Version::new(1), 0).is_err());
        claim.note(Version::new(1), 5, 0);
        assert_eq!(spans.half(Version::new(1), 4).unwrap(), Some(5), "nobody waits for a disk");
        assert!(spans.claim().is_ok(), "nor for another one");
        assert!(spans.wait_settled(5).is_err() && spans.claim_settled().is_err());
        spans.note_settled(5);
        assert!(spans.wait_settled(5).is_ok() && spans.claim_settled().is_ok());
    }
}
