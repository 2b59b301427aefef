// SPDX-License-Identifier: Apache-2.0
//! Priority: what a transaction that has lost accessed is reserved for its next attempt (DESIGN 5.4; TiQuE 2.3.4).
//!
//! ```text
//! priority transaction   commit --loses--> reserve its keys --> begin again on the newest applied world --> commit
//! others                 commit --meets a reserved key--> refused; wait until the reservation ends; run again
//! ```
//!
//! # Why the second attempt commits
//! Reserving takes the leader's lock: a transaction that was admitted before is in the newest applied world, on which the next
//! attempt begins, and one that comes later is checked against the reservation. So until the attempt commits, neither the
//! reserved keys change nor what it has read: it has no write conflict and no out-edge, if it accesses the same keys. If two
//! transactions with priority want the same keys, the one that reserved first goes first: a reservation never holds up an earlier one.

use crate::conflicts::ConflictError;
use crate::conflicts::{ConflictCause, ConflictPlace, ConflictReason};
use crate::error::StoreError;
use crate::footprint::{Footmark, GlobalKey};
use crate::reads::ReadSet;
use crate::row_lock_error::RowLockError;
use crate::submission::Submission;
use crate::world::World;
use coeval_txn::ssi::Written;
use coeval_txn::{Access, Interrupt, TransactionId};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a reservation lasts at most. A client that takes longer to come back has gone.
const LASTS: Duration = Duration::from_secs(5);

/// How often one who waits for a reservation looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Somebody whose transactions have priority: what one of them accessed that lost is reserved for the next, for some
/// seconds at most. Dropping it gives up what is reserved.
pub struct Priority {
    reservations: Arc<Reservations>,
    number: u64,
}

impl Priority {
    pub(crate) fn new(reservations: Arc<Reservations>) -> Self {
        let number = reservations.next.fetch_add(1, Ordering::Relaxed);
        Self { reservations, number }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        self.reservations.release(self.number);
    }
}

impl fmt::Debug for Priority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Priority").field(&self.number).finish()
    }
}

/// What a transaction accessed.
pub(crate) struct Accessed {
    keys: Vec<(GlobalKey, Access)>,
    reads: ReadSet,
}

impl Accessed {
    pub(crate) fn new(footprint: &[Footmark], reads: ReadSet) -> Self {
        Self { keys: footprint.iter().map(|mark| (mark.key.clone(), mark.certify)).collect(), reads }
    }
}

struct Reservation {
    number: u64,
    transaction: TransactionId,
    expires: Instant,
    keys: HashMap<GlobalKey, Vec<Access>>,
    reads: ReadSet,
}

impl Reservation {
    /// A key of the submission that it keeps for itself.
    fn conflict<'s>(&'s self, submission: &'s Submission) -> Option<GlobalKey> {
        let is_kept = |key: &GlobalKey, theirs: Access| {
            self.keys.get(key).is_some_and(|mine| mine.iter().any(|mine| mine.conflicts_with(theirs)))
        };
        let kept = submission.footprint.iter().find(|mark| is_kept(&mark.key, mark.admit));
        if let Some(mark) = kept {
            return Some(mark.key.clone());
        }
        if self.reads.is_empty() {
            return None;
        }
        submission.written.keys().find_map(|(space, written)| match written {
            Written::Key(key) if self.reads.covers(space, key) => Some((space, key.clone())),
            Written::Key(_) | Written::WholeSpace => None,
        })
    }
}

/// The reservations of a store, in the order in which they were made.
///
/// # Locking
/// `held` is a leaf lock behind the leader's, held for a look at each reservation; there is none but while somebody with
/// priority is about to try again.
#[derive(Default)]
pub(crate) struct Reservations {
    held: Mutex<Vec<Reservation>>,
    /// One has ended.
    ended: Condvar,
    /// How many there are. Changes to more under the leader's lock alone, so that the leader may look here first.
    count: AtomicUsize,
    /// How many wait for one to end.
    waiting: AtomicUsize,
    next: AtomicU64,
}

impl Reservations {
    /// Reserves what a transaction accessed, in the place of what `number` had reserved before. The caller holds the
    /// leader's lock.
    pub(crate) fn reserve(&self, number: u64, transaction: TransactionId, accessed: Accessed) {
        let mut keys: HashMap<GlobalKey, Vec<Access>> = HashMap::new();
        for (key, access) in accessed.keys {
            keys.entry(key).or_default().push(access);
        }
        let expires = Instant::now() + LASTS;
        let made = Reservation { number, transaction, expires, keys, reads: accessed.reads };
        let mut held = self.held.lock();
        held.retain(|other| other.expires > Instant::now());
        match held.iter_mut().find(|other| other.number == number) {
            Some(before) => *before = made,
            None => held.push(made),
        }
        self.count.store(held.len(), Ordering::Release);
    }

    /// Gives up what `number` has reserved.
    pub(crate) fn release(&self, number: u64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut held = self.held.lock();
        held.retain(|other| other.number != number);
        self.count.store(held.len(), Ordering::Release);
        self.ended.notify_all();
    }

    /// Whether a submission leaves alone what others have reserved before it. The caller holds the leader's lock.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] with [`ConflictReason::Reserved`].
    pub(crate) fn check(&self, newest: &World, submission: &Submission) -> Result<(), StoreError> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let held = self.held.lock();
        let now = Instant::now();
        let before = held.iter().take_while(|other| Some(other.number) != submission.priority);
        for other in before.filter(|other| other.expires > now) {
            if let Some((space, key)) = other.conflict(submission) {
                let place = match newest.table(space) {
                    Some(_) => newest.place_of(space, &key),
                    None => ConflictPlace::default(),
                };
                return Err(StoreError::Conflict(ConflictError {
                    what: "a transaction with priority",
                    space,
                    detail: format!(
                        "{}: reserved for the next attempt of transaction {}, which has lost once and has priority.",
                        newest.describe_key(space, &key),
                        other.transaction
                    ),
                    version: newest.version(),
                    cause: ConflictCause::new(ConflictReason::Reserved, place).won_by(other.transaction),
                }));
            }
        }
        Ok(())
    }

    /// Waits until nothing is reserved for this transaction's next attempt any more, for some seconds at most.
    ///
    /// # Errors
    /// [`RowLockError::Timeout`] if that takes longer than `timeout`; [`RowLockError::Interrupted`] once `interrupt` is set.
    pub(crate) fn wait_for(
        &self,
        transaction: TransactionId,
        timeout: Option<Duration>,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
    ) -> Result<(), RowLockError> {
        let is_interrupted = || interrupt.is_some_and(|interrupt| interrupt.is_set());
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut held = self.held.lock();
        let lasts = |held: &[Reservation]| {
            held.iter().any(|other| other.transaction == transaction && other.expires > Instant::now())
        };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut outcome = Ok(());
        while lasts(&held) && outcome.is_ok() {
            let look = until.map_or(LOOK, |until| LOOK.min(until.saturating_duration_since(Instant::now())));
            self.ended.wait_for(&mut held, look);
            if is_interrupted() {
                outcome = Err(RowLockError::Interrupted);
            } else if until.is_some_and(|until| until <= Instant::now()) && lasts(&held) {
                outcome = Err(RowLockError::Timeout);
            }
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    /// How many wait in [`wait_for`](Self::wait_for).
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}
