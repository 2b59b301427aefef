// SPDX-License-Identifier: Apache-2.0
//! Advisory locks: locks on numbers, which mean what the applications agree on.
//!
//! They are row locks of a table of their own, in which each session is one owner: a queue for each key, and deadlocks
//! among them are found. A wait for a row is not seen there; `lock_timeout` ends a circle that has both.

use crate::cancel::{self, CancelHandle};
use crate::error::{SqlError, SqlState};
use crate::hand_over::aside;
use crate::quota::{Quota, QuotaShare};
use crate::settings::Settings;
use coeval_txn::{Interrupt, LockError, LockOwner, LockStrength, Patience, RowLocks};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

/// What is locked: one number, or a pair of them, which is another key than any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AdvisoryKey {
    Number(i64),
    Pair(i32, i32),
}

impl fmt::Display for AdvisoryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "advisory lock [{number}]"),
            Self::Pair(one, two) => write!(f, "advisory lock [{one},{two}]"),
        }
    }
}

/// How a key is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sharing {
    Exclusive,
    Shared,
}

impl Sharing {
    fn strength(self) -> LockStrength {
        match self {
            Self::Exclusive => LockStrength::Update,
            Self::Shared => LockStrength::Share,
        }
    }
}

/// How long a lock lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// Until as many unlocks, or the end of the session; a rollback does not end it.
    Session,
    /// Until the end of the transaction.
    Transaction,
}

/// How often a session has locked something.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    session: u32,
    transaction: bool,
}

impl Count {
    /// Whether nothing is held any more.
    fn is_over(&self) -> bool {
        self.session == 0 && !self.transaction
    }
}

/// All advisory locks of a database.
pub(crate) type AdvisoryLocks = Arc<RowLocks<AdvisoryKey>>;

/// Those of one session. Dropping it ends them.
///
/// # Locking
/// `held` is taken by the statement that runs, of which a session has one at a time, and kept while it waits for a lock.
pub(crate) struct SessionLocks {
    interrupt: Arc<dyn Interrupt + Send + Sync>,
    held: Mutex<Held>,
}

struct Held {
    owner: LockOwner<AdvisoryKey>,
    counts: HashMap<(AdvisoryKey, Sharing), Count>,
    /// How many they are.
    share: QuotaShare,
}

impl SessionLocks {
    /// A session's among `all` those of its database; `quota` says how many it may have.
    pub(crate) fn new(all: &AdvisoryLocks, quota: &Arc<Quota>, cancel: &CancelHandle) -> Self {
        let share = QuotaShare::of(quota);
        let owner = all.owner();
        cancel.note_lock_owner(owner.id());
        let held = Held { owner, counts: HashMap::new(), share };
        Self { interrupt: cancel.interrupt(), held: Mutex::new(held) }
    }

    /// Locks a key if nobody stands in the way; whether it did.
    ///
    /// # Errors
    /// 54000 or 53200 if there are too many locks.
    pub(crate) fn try_lock(
        &self,
        key: AdvisoryKey,
        sharing: Sharing,
        lasting: Lasting,
    ) -> Result<bool, SqlError> {
        let mut held = self.held.lock();
        // Rows of a statement that has failed may still be computed, on other threads: they lock nothing any more. Asked under
        // the lock, so that none comes behind what the session does next.
        cancel::check()?;
        held.make_room(key, sharing)?;
        let is_granted = held.owner.lock(&key, sharing.strength(), Patience::None).is_ok();
        if is_granted {
            held.note(key, sharing, lasting);
        } else {
            held.forget_over(key, sharing);
        }
        Ok(is_granted)
    }

    /// Locks a key, and waits for it as `lock_timeout` and `deadlock_timeout` say.
    ///
    /// # Errors
    /// 55P03 after `lock_timeout`, 40P01 for a deadlock, 57014 if the statement was cancelled, 54000 or 53200 if there
    /// are too many locks. The key is not locked then.
    pub(crate) fn lock(
        &self,
        settings: &Settings,
        key: AdvisoryKey,
        sharing: Sharing,
        lasting: Lasting,
    ) -> Result<(), SqlError> {
        if self.try_lock(key, sharing, lasting)? {
            return Ok(());
        }
        let patience = Patience::Wait {
            at_most: settings.lock_timeout(),
            deadlock_after: settings.deadlock_timeout(),
            interrupt: Some(&*self.interrupt),
        };
        let mut held = self.held.lock();
        cancel::check()?;
        held.make_room(key, sharing)?;
        let outcome = aside(|| held.owner.lock(&key, sharing.strength(), patience)).map(|_| ());
        match outcome {
            Ok(()) => held.note(key, sharing, lasting),
            Err(_) => held.forget_over(key, sharing),
        }
        outcome.map_err(|error| refused(&error))
    }

    /// Takes one lock of the session back; whether there was one.
    pub(crate) fn unlock(&self, key: AdvisoryKey, sharing: Sharing) -> bool {
        let mut held = self.held.lock();
        match held.counts.get_mut(&(key, sharing)) {
            Some(count) if count.session > 0 => count.session -= 1,
            Some(_) | None => return false,
        }
        held.settle(key);
        true
    }

    /// Takes all locks of the session back.
    pub(crate) fn unlock_all(&self) {
        self.end(|count| count.session = 0);
    }

    /// Ends the locks of the transaction. The next one begins with it too: rows of a statement outside a block may be
    /// computed, and lock, after their transaction has ended.
    pub(crate) fn end_transaction(&self) {
        self.end(|count| count.transaction = false);
    }

    fn end(&self, change: impl Fn(&mut Count)) {
        let mut held = self.held.lock();
        if held.counts.is_empty() {
            return;
        }
        held.counts.values_mut().for_each(change);
        if held.counts.values().all(Count::is_over) {
            // All together, which takes a step for each.
            let count = held.counts.len();
            held.counts.clear();
            held.share.give_back(count);
            held.owner.release_after(0);
            return;
        }
        let keys: Vec<_> = held.counts.keys().map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| held.settle(key));
    }
}

impl Held {
    /// Has a count for a lock that is about to be asked for; [`forget_over`](Self::forget_over) takes it away if it is
    /// not granted.
    fn make_room(&mut self, key: AdvisoryKey, sharing: Sharing) -> Result<(), SqlError> {
        if let Entry::Vacant(count) = self.counts.entry((key, sharing)) {
            self.share.take(1)?;
            count.insert(Count::default());
        }
        Ok(())
    }

    fn note(&mut self, key: AdvisoryKey, sharing: Sharing, lasting: Lasting) {
        let count = self.counts.entry((key, sharing)).or_default();
        match lasting {
            Lasting::Session => count.session += 1,
            Lasting::Transaction => count.transaction = true,
        }
    }

    /// Takes the count away of a lock that was not granted, or is not held any more.
    fn forget_over(&mut self, key: AdvisoryKey, sharing: Sharing) {
        if self.counts.get(&(key, sharing)).is_some_and(Count::is_over) {
            self.counts.remove(&(key, sharing));
            self.share.give_back(1);
        }
    }

    /// Lets the lock on a key be what the counts say.
    fn settle(&mut self, key: AdvisoryKey) {
        let before = self.strongest(key);
        self.forget_over(key, Sharing::Exclusive);
        self.forget_over(key, Sharing::Shared);
        let now = self.strongest(key);
        if now != before {
            self.owner.weaken(&key, now.map(Sharing::strength));
        }
    }

    fn strongest(&self, key: AdvisoryKey) -> Option<Sharing> {
        let strengths = [Sharing::Exclusive, Sharing::Shared];
        strengths.into_iter().find(|sharing| self.counts.contains_key(&(key, *sharing)))
    }
}

fn refused(error: &LockError<AdvisoryKey>) -> SqlError {
    match error {
        LockError::NotAvailable | LockError::Timeout => {
            SqlError::new(SqlState::LockNotAvailable, "canceling statement due to lock timeout")
        }
        LockError::Interrupted => {
            SqlError::new(SqlState::QueryCanceled, "canceling statement due to user request")
        }
        LockError::Deadlock(deadlock) => SqlError::new(SqlState::DeadlockDetected, "deadlock detected")
            .with_detail(deadlock.describe(ToString::to_string)),
    }
}

impl fmt::Debug for SessionLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionLocks")
    }
}

#[cfg(test)]
mod tests;
