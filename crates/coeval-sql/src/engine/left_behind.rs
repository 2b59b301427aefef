// SPDX-License-Identifier: Apache-2.0
//! How much work goes on that nobody waits for any more.

use crate::error::{SqlError, SqlState};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// While so many pieces of a role's go on, its new work waits before it begins: so sessions that cancel statements and begin new ones
/// again and again take no more of the machine than this, and nobody else waits for them.
const LEFT_BEHIND_MAX: usize = 8;

/// The same for all roles together, so that many roles take no more than this: each piece has a thread.
const LEFT_BEHIND_IN_ALL_MAX: usize = 64;

/// How long new work waits until less goes on, before it is refused. What an engine can cancel ends within a second; what it cannot
/// cancel may take any time.
pub(super) const LEFT_BEHIND_PATIENCE: Duration = Duration::from_secs(10);

/// The time between two looks of a thread that waits.
pub(super) const LEFT_BEHIND_WAIT: Duration = Duration::from_millis(10);

/// How many pieces of each role go on.
type Counts = Mutex<HashMap<Arc<str>, usize>>;

/// Work that was left behind and has not ended.
///
/// # Locking
/// A leaf, held for a move; within a ticket's state.
#[derive(Debug, Default)]
pub(super) struct LeftBehind(Arc<Counts>);

/// One piece of work, shared by the thread that does it and the one that waits for it.
///
/// # Locking
/// `state` is a leaf, held for a move.
#[derive(Debug)]
pub(super) struct Ticket {
    left: Arc<Counts>,
    role: Arc<str>,
    state: Mutex<State>,
}

/// Work is waited for, may be left, and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    WaitedFor,
    Left,
    Ended,
}

impl LeftBehind {
    /// Whether so much goes on that new work of this role has to wait.
    pub(super) fn is_full(&self, role: &str) -> bool {
        let counts = self.0.lock();
        let of_role = counts.get(role).copied().unwrap_or_default();
        of_role >= LEFT_BEHIND_MAX || counts.values().sum::<usize>() >= LEFT_BEHIND_IN_ALL_MAX
    }

    #[cfg(test)]
    fn count(&self, role: &str) -> usize {
        self.0.lock().get(role).copied().unwrap_or_default()
    }

    /// Whether anybody's goes on.
    pub(super) fn goes_on(&self) -> bool {
        !self.0.lock().is_empty()
    }

    /// One for work of this role.
    pub(super) fn ticket(&self, role: &Arc<str>) -> Arc<Ticket> {
        let (left, role) = (Arc::clone(&self.0), Arc::clone(role));
        Arc::new(Ticket { left, role, state: Mutex::new(State::WaitedFor) })
    }
}

/// The error of work that has waited for [`LEFT_BEHIND_PATIENCE`].
pub(super) fn too_much_goes_on() -> SqlError {
    let message = "too many statements that were canceled still run on engines";
    SqlError::new(SqlState::ConfigurationLimitExceeded, message).with_hint(format!(
        "A role may have {LEFT_BEHIND_MAX} of them, and all roles {LEFT_BEHIND_IN_ALL_MAX}; they end when their engines have done them."
    ))
}

impl Ticket {
    /// Nobody waits for the work any more.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        if *state == State::WaitedFor {
            *state = State::Left;
            *self.left.lock().entry(Arc::clone(&self.role)).or_default() += 1;
        }
    }

    /// The work ends when what this gives is dropped, by a panic too.
    pub(super) fn work(&self) -> Working<'_> {
        Working(self)
    }
}

/// See [`Ticket::work`].
pub(super) struct Working<'t>(&'t Ticket);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.0.state.lock(), State::Ended);
        if before == State::Left {
            let mut left = self.0.left.lock();
            if let Some(count) = left.get_mut(&self.0.role) {
                *count -= 1;
                if *count == 0 {
                    left.remove(&self.0.role);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_from_when_it_is_left_until_it_ends() {
        let left_behind = LeftBehind::default();
        let (one, another): (Arc<str>, Arc<str>) = ("one".into(), "another".into());
        let (left, waited_for) = (left_behind.ticket(&one), left_behind.ticket(&one));
        let (left_works, other_works) = (left.work(), waited_for.work());
        left.leave();
        assert_eq!(
            (left_behind.count(&one), left_behind.count(&another)),
            (1, 0),
            "others do not wait for it"
        );
        drop(left_works);
        drop(other_works);
        assert!(left_behind.count(&one) == 0 && !left_behind.goes_on());
        // It had ended when it was left.
        waited_for.leave();
        assert_eq!(left_behind.count(&one), 0);
    }

    #[test]
    fn a_role_waits_for_what_it_has_left_behind_itself_and_everybody_for_what_all_have() {
        let left_behind = LeftBehind::default();
        let role = |number: usize| -> Arc<str> { format!("role {number}").into() };
        let leave = |number: usize| {
            let ticket = left_behind.ticket(&role(number));
            ticket.leave();
            ticket
        };
        let mut tickets: Vec<_> = (0..LEFT_BEHIND_MAX).map(|_| leave(0)).collect();
        assert!(left_behind.is_full("role 0") && !left_behind.is_full("role 1"));
        tickets.extend((LEFT_BEHIND_MAX..LEFT_BEHIND_IN_ALL_MAX).map(leave));
        assert!(left_behind.is_full("role 1"), "each thread costs everybody");
        tickets.iter().for_each(|ticket| drop(ticket.work()));
        assert!(!left_behind.is_full("role 0") && !left_behind.goes_on());
    }
}
