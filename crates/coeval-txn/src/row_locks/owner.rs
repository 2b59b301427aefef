// SPDX-License-Identifier: Apache-2.0
//! One transaction's locks, and its wait.

use super::deadlock::Deadlock;
use super::owner_id::OwnerId;
use super::strength::LockStrength;
use super::table::{Answer, IfBusy, KeyHash, RowLocks};
use super::turn::{Turn, Woken, waker_of_this_thread};
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The locks of one transaction, in the order in which it got them. Dropping it ends them all.
///
/// ```
/// use coeval_txn::{Acquired, LockError, LockStrength, Patience, RowLocks};
/// use std::sync::Arc;
///
/// let locks = Arc::new(RowLocks::<&str>::new());
/// let (mut one, mut other) = (locks.owner(), locks.owner());
/// assert_eq!(one.lock(&"row 1", LockStrength::NoKeyUpdate, Patience::None), Ok(Acquired::AtOnce));
/// assert_eq!(other.lock(&"row 1", LockStrength::KeyShare, Patience::None), Ok(Acquired::AtOnce));
/// let refused = other.lock(&"row 1", LockStrength::Share, Patience::None);
/// assert_eq!(refused, Err(LockError::NotAvailable));
/// one.release_after(0);
/// assert_eq!(other.lock(&"row 1", LockStrength::Share, Patience::None), Ok(Acquired::AtOnce));
/// ```
pub struct LockOwner<K: Clone + Eq + Hash> {
    pub(super) locks: Arc<RowLocks<K>>,
    id: OwnerId,
    grants: Vec<Grant<K>>,
    waiting: Option<Grant<K>>,
    pub(super) turn: Option<Arc<Turn>>,
}

/// A lock that was granted, with what its owner held of that key before.
struct Grant<K> {
    hash: KeyHash,
    key: K,
    before: Option<LockStrength>,
}

/// How a lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The owner held as much before.
    Already,
    /// Nobody stood in the way.
    AtOnce,
    /// After others had ended.
    AfterWait,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requested {
    /// It is granted.
    Granted(Acquired),
    /// It has a place in the queue: see [`LockOwner::wait`].
    Queued,
}

/// What became of a request that was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// It will not be granted.
    TakenBack,
    /// It had been granted already; the owner has the lock.
    Granted,
}

/// What may end a wait from outside, such as a user's cancel.
pub trait Interrupt {
    /// Whether the wait is to end.
    fn is_set(&self) -> bool;

    /// Wakes this when it becomes so; if it is so already, at once or not at all.
    fn notify(&self, waker: Waker);

    /// The wait that was told of is over.
    fn wait_ended(&self) {}
}

/// How long to wait for a lock.
#[derive(Clone, Copy)]
pub enum Patience<'i> {
    /// Not at all.
    None,
    /// Until it is granted.
    Wait {
        /// But no longer than this.
        at_most: Option<Duration>,
        /// Deadlocks are looked for after this time.
        deadlock_after: Duration,
        /// And not when this is set.
        interrupt: Option<&'i (dyn Interrupt + Send + Sync)>,
    },
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("None"),
            Self::Wait { at_most, deadlock_after, .. } => formatter
                .debug_struct("Wait")
                .field("at_most", at_most)
                .field("deadlock_after", deadlock_after)
                .finish_non_exhaustive(),
        }
    }
}

/// Why a lock was not got. Whatever the owner held before it still holds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LockError<K> {
    /// Somebody has or wants a lock that conflicts, and waiting was not wanted.
    #[error("could not obtain the lock")]
    NotAvailable,
    /// It took too long.
    #[error("the wait for the lock timed out")]
    Timeout,
    /// The owner waited for itself by way of others.
    #[error("deadlock detected: {0}")]
    Deadlock(Deadlock<K>),
    /// The wait was interrupted.
    #[error("the wait for the lock was interrupted")]
    Interrupted,
}

impl<K: Clone + Eq + Hash> LockOwner<K> {
    pub(super) fn new(locks: Arc<RowLocks<K>>, id: OwnerId) -> Self {
        Self { locks, id, grants: Vec::new(), waiting: None, turn: None }
    }

    /// The number that others see.
    #[must_use]
    pub fn id(&self) -> OwnerId {
        self.id
    }

    /// How many locks have been granted to it: the point that [`release_after`](Self::release_after) goes back
    /// to. A lock that became stronger counts again.
    #[must_use]
    pub fn granted_count(&self) -> usize {
        self.grants.len()
    }

    /// Gets a lock, blocking the thread while it waits. It lasts until [`release_after`](Self::release_after)
    /// or the end of the owner.
    ///
    /// # Errors
    /// See [`LockError`]; the request is taken back then.
    ///
    /// # Panics
    /// If the owner waits already.
    #[inline]
    pub fn lock(
        &mut self,
        key: &K,
        strength: LockStrength,
        patience: Patience<'_>,
    ) -> Result<Acquired, LockError<K>> {
        let if_busy = match patience {
            Patience::None => IfBusy::Refuse,
            Patience::Wait { .. } => IfBusy::Queue,
        };
        match self.ask(key, strength, if_busy) {
            Some(Requested::Granted(acquired)) => Ok(acquired),
            None => Err(LockError::NotAvailable),
            Some(Requested::Queued) => self.block(patience).map(|()| Acquired::AfterWait),
        }
    }

    /// Asks for a lock without blocking the thread. If it is queued, [`wait`](Self::wait) for it, and look for
    /// deadlocks ([`check_deadlock`](Self::check_deadlock)) at once or after a while.
    ///
    /// # Panics
    /// If the owner waits already.
    pub fn request(&mut self, key: &K, strength: LockStrength) -> Requested {
        self.ask(key, strength, IfBusy::Queue).expect("a request that may be queued is not refused")
    }

    #[inline]
    fn ask(&mut self, key: &K, strength: LockStrength, if_busy: IfBusy) -> Option<Requested> {
        assert!(self.waiting.is_none(), "an owner waits for one lock at a time");
        let hash = self.locks.hash(key);
        match self.locks.request(self.id, (hash, key), strength, if_busy) {
            Answer::Held => Some(Requested::Granted(Acquired::Already)),
            Answer::Granted(before) => {
                self.grants.push(Grant { hash, key: key.clone(), before });
                Some(Requested::Granted(Acquired::AtOnce))
            }
            Answer::Busy => None,
            Answer::Queued(turn, before) => {
                self.waiting = Some(Grant { hash, key: key.clone(), before });
                self.turn = Some(turn);
                Some(Requested::Queued)
            }
        }
    }

    /// Whether it has a place in a queue, or has not noticed yet that its turn has come.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Ready when the request that [`request`](Self::request) queued is granted; dropped before, it takes the
    /// request back.
    pub fn wait(&mut self) -> LockWait<'_, K> {
        LockWait { owner: self }
    }

    /// Whether the queued request is granted; if not, `waker` is woken when it is. Ready if nothing is queued.
    pub fn poll_wait(&mut self, waker: &Waker) -> Poll<()> {
        let Some(turn) = &self.turn else { return Poll::Ready(()) };
        if !turn.poll(waker) {
            return Poll::Pending;
        }
        self.take_grant();
        Poll::Ready(())
    }

    /// The turn has come: the lock is one of those it holds.
    fn take_grant(&mut self) {
        self.turn = None;
        self.grants.push(self.waiting.take().expect("whose turn comes has waited"));
    }

    /// Takes the queued request back, if there is one.
    pub fn withdraw(&mut self) -> Withdrawn {
        let Some(Grant { hash, key, .. }) = &self.waiting else { return Withdrawn::TakenBack };
        if self.locks.withdraw(self.id, (*hash, key)) {
            self.waiting = None;
            self.turn = None;
            return Withdrawn::TakenBack;
        }
        self.take_grant();
        Withdrawn::Granted
    }

    /// Looks for a deadlock that the queued request is part of. Each deadlock is found by the check of the
    /// owner whose request was queued last, or by a later check of any of its owners; the others go on then. So one
    /// check for each wait is enough, at once or after a while.
    ///
    /// Cost: a step for each holder of the keys that its wait leads to; a walk over all waits only if these lead back to
    /// it. Nobody takes or ends a lock meanwhile.
    ///
    /// # Errors
    /// [`LockError::Deadlock`]: this owner is the victim, and its request is taken back.
    pub fn check_deadlock(&mut self) -> Result<(), LockError<K>> {
        // Who holds nothing closes no circle: it came to the end of a queue.
        if self.waiting.is_none() || self.grants.is_empty() {
            return Ok(());
        }
        match self.locks.break_deadlock(self.id) {
            None => Ok(()),
            Some(deadlock) => {
                self.waiting = None;
                self.turn = None;
                Err(LockError::Deadlock(deadlock))
            }
        }
    }

    fn block(&mut self, patience: Patience<'_>) -> Result<(), LockError<K>> {
        let Patience::Wait { at_most, deadlock_after, interrupt } = patience else {
            unreachable!("who has no patience is not queued");
        };
        let waker = waker_of_this_thread();
        if let Some(interrupt) = interrupt {
            interrupt.notify(waker.clone());
        }
        let outcome = self.block_until(&waker, at_most, deadlock_after, interrupt);
        if let Some(interrupt) = interrupt {
            interrupt.wait_ended();
        }
        outcome
    }

    fn block_until(
        &mut self,
        waker: &Waker,
        at_most: Option<Duration>,
        deadlock_after: Duration,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
    ) -> Result<(), LockError<K>> {
        let begun = Instant::now();
        // A circle is closed by the request of one of its owners, whose look is still to come: one look is enough.
        let mut check_after = Some(deadlock_after);
        loop {
            if self.poll_wait(waker).is_ready() {
                return Ok(());
            }
            if interrupt.is_some_and(|interrupt| interrupt.is_set()) {
                return self.give_up(LockError::Interrupted);
            }
            let waited = begun.elapsed();
            if at_most.is_some_and(|at_most| waited >= at_most) {
                return self.give_up(LockError::Timeout);
            }
            if check_after.is_some_and(|check_after| waited >= check_after) {
                check_after = None;
                self.check_deadlock()?;
                continue;
            }
            match check_after.into_iter().chain(at_most).min() {
                Some(until) => std::thread::park_timeout(until.saturating_sub(waited)),
                None => std::thread::park(),
            }
        }
    }

    fn give_up(&mut self, error: LockError<K>) -> Result<(), LockError<K>> {
        match self.withdraw() {
            Withdrawn::TakenBack => Err(error),
            Withdrawn::Granted => Ok(()),
        }
    }

    /// Ends the locks that were granted after the first `count`, from the last to the first: a lock that became
    /// stronger since is again what it was. A queued request is taken back.
    ///
    /// # Panics
    /// If fewer were granted.
    pub fn release_after(&mut self, count: usize) {
        self.withdraw();
        assert!(count <= self.grants.len(), "a point to go back to lies behind");
        let mut woken = Woken::default();
        for grant in self.grants.drain(count..).rev() {
            self.locks.release(self.id, (grant.hash, &grant.key), grant.before, &mut woken);
        }
    }
}

impl<K: Clone + Eq + Hash> LockOwner<K> {
    /// Goes back to `strength` on a key, whenever it was locked; `None` ends the lock. Nothing if the owner holds
    /// none. For locks that do not end in the order in which they were taken;
    /// [`granted_count`](Self::granted_count) may be smaller afterwards.
    ///
    /// # Panics
    /// If what it holds is no stronger than that.
    pub fn weaken(&mut self, key: &K, strength: Option<LockStrength>) {
        let hash = self.locks.hash(key);
        let is_same = |grant: &Grant<K>| grant.hash == hash && grant.key == *key;
        if !self.grants.iter().any(is_same) {
            return;
        }
        self.grants.retain(|grant| !is_same(grant));
        if strength.is_some() {
            self.grants.push(Grant { hash, key: key.clone(), before: None });
        }
        let mut woken = Woken::default();
        self.locks.release(self.id, (hash, key), strength, &mut woken);
    }
}

impl<K: Clone + Eq + Hash> Drop for LockOwner<K> {
    fn drop(&mut self) {
        self.release_after(0);
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for LockOwner<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LockOwner")
            .field("id", &self.id)
            .field("granted", &self.grants.len())
            .field("is_waiting", &self.is_waiting())
            .finish()
    }
}

/// A queued request as a future: ready when it is granted. Dropping it before takes the request back; if it was
/// granted in that moment, the owner has the lock.
#[derive(Debug)]
#[must_use = "dropping it takes the request back"]
pub struct LockWait<'o, K: Clone + Eq + Hash> {
    owner: &'o mut LockOwner<K>,
}

impl<K: Clone + Eq + Hash> Future for LockWait<'_, K> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.owner.poll_wait(context.waker())
    }
}

impl<K: Clone + Eq + Hash> Drop for LockWait<'_, K> {
    fn drop(&mut self) {
        self.owner.withdraw();
    }
}
