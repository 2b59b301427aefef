// SPDX-License-Identifier: Apache-2.0
//! Statements that run for longer than `statement_timeout` are ended.
//!
//! One thread of the process waits for the earliest deadline. It is a thread of its own and no task of a runtime: statements may
//! keep all threads of those busy, which is when a deadline matters. It is started by the first statement that has one.
//!
//! # Locking
//! `DEADLINES` is a leaf: it is held to change the list, and not while a statement is told to end.

use crate::cancel::{CancelHandle, CancelReason, StatementNumber};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

static DEADLINES: Mutex<Deadlines> = Mutex::new(Deadlines::new());
/// There is an earlier deadline than the one that the thread sleeps for.
static EARLIER: Condvar = Condvar::new();

/// What is due when; the numbers keep those of one moment apart.
struct Deadlines {
    due: BTreeMap<(Instant, u64), (CancelHandle, StatementNumber)>,
    next: u64,
    has_thread: bool,
    /// Until when the thread sleeps, if it is not until it is told. It may be for a deadline that has been dropped: a statement that
    /// ends in time wakes nobody, and neither does the next one, whose deadline is later.
    sleeps_until: Option<Instant>,
}

impl Deadlines {
    const fn new() -> Self {
        Self { due: BTreeMap::new(), next: 0, has_thread: false, sleeps_until: None }
    }
}

/// While this lives, its statement ends at the deadline; what is done by then has no deadline any more.
#[derive(Debug)]
pub struct Deadline((Instant, u64));

impl Drop for Deadline {
    fn drop(&mut self) {
        DEADLINES.lock().due.remove(&self.0);
    }
}

impl CancelHandle {
    /// The statement that runs now ends with `57014` after this time, unless the deadline is dropped before. Later statements
    /// of the session are not concerned. Without memory for a thread nothing is ended.
    #[must_use]
    pub fn end_after(&self, limit: Duration) -> Deadline {
        let mut deadlines = DEADLINES.lock();
        let key = (Instant::now() + limit, deadlines.next);
        deadlines.next += 1;
        deadlines.due.insert(key, (self.clone(), self.statement()));
        if !deadlines.has_thread {
            let thread = std::thread::Builder::new().name("coeval-deadlines".to_owned());
            deadlines.has_thread = thread.spawn(wait_for_deadlines).is_ok();
        } else if deadlines.sleeps_until.is_none_or(|until| key.0 < until) {
            EARLIER.notify_one();
        }
        Deadline(key)
    }
}

/// What the thread does, for as long as the process lives.
fn wait_for_deadlines() {
    let mut deadlines = DEADLINES.lock();
    loop {
        match deadlines.due.first_entry() {
            None => {
                deadlines.sleeps_until = None;
                EARLIER.wait(&mut deadlines);
            }
            Some(first) if first.key().0 <= Instant::now() => {
                let (session, statement) = first.remove();
                MutexGuard::unlocked(&mut deadlines, || {
                    session.cancel_statement(statement, CancelReason::StatementTimeout);
                });
            }
            Some(first) => {
                let until = first.key().0;
                deadlines.sleeps_until = Some(until);
                EARLIER.wait_until(&mut deadlines, until);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why the statement is ended; nothing if that takes longer than anybody waits.
    fn ended(handle: &CancelHandle) -> Option<CancelReason> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let patience = Duration::from_secs(10);
        runtime.block_on(async { tokio::time::timeout(patience, handle.cancelled()).await.ok() })
    }

    #[test]
    fn a_statement_ends_at_its_deadline_and_an_earlier_one_before_it() {
        let (late, early) = (CancelHandle::new(), CancelHandle::new());
        late.begin_statement();
        let _late = late.end_after(Duration::from_secs(3_600));
        // The second time, the thread sleeps until the deadline of an hour.
        for _ in 0..2 {
            early.begin_statement();
            let _early = early.end_after(Duration::from_millis(5));
            assert_eq!(ended(&early), Some(CancelReason::StatementTimeout));
        }
        assert_eq!(late.requested(), None);
    }

    #[test]
    fn a_dropped_deadline_and_one_of_an_earlier_statement_end_nothing() {
        let (dropped, next, last) = (CancelHandle::new(), CancelHandle::new(), CancelHandle::new());
        drop(dropped.end_after(Duration::from_millis(1)));
        let _earlier = next.end_after(Duration::from_millis(1));
        next.begin_statement();
        // Deadlines pass in their order.
        let _last = last.end_after(Duration::from_millis(2));
        assert_eq!(ended(&last), Some(CancelReason::StatementTimeout));
        assert_eq!((dropped.requested(), next.requested()), (None, None));
    }
}
