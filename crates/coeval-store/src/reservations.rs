// SPDX-License-Identifier: Apache-2.0
//! Priority: what a transaction that has lost accessed is reserved for its next attempt (TiQuE 2.3.4).
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
//!
//! # Whom it may hold up
//! What was read is reserved where whoever claims the priority says so ([`ReservedReads`]): a role that may only read a table does not keep others
//! from writing it. Its attempt may lose again against them, as without priority.

use crate::catalog::TableDef;
use crate::conflicts::ConflictError;
use crate::conflicts::{ConflictCause, ConflictPlace, ConflictReason};
use crate::error::StoreError;
use crate::footprint::{Footmark, GlobalKey};
use crate::ids::{CATALOG_SPACE, SpaceId};
use crate::reads::ReadSet;
use crate::row_lock_error::RowLockError;
use crate::submission::Submission;
use crate::world::World;
use coeval_txn::ssi::Written;
use coeval_txn::{Access, Interrupt, TransactionId};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a reservation lasts at most. A client that takes longer to come back has gone.
const LASTS: Duration = Duration::from_secs(5);

/// Keys that are reserved one by one; of a transaction that accessed more, what else is in the same tables and indexes is reserved, too.
const KEYS_MAX: usize = 1 << 18;

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

/// Of which tables it is reserved what a transaction has read. What it has changed or locked always is.
#[derive(Clone, Default)]
pub(crate) enum ReservedReads {
    /// All.
    #[default]
    OfAll,
    /// Those of which this is so.
    Of(Arc<dyn Fn(&TableDef) -> bool + Send + Sync>),
}

impl fmt::Debug for ReservedReads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OfAll => "OfAll",
            Self::Of(_) => "Of",
        })
    }
}

/// What a transaction accessed, as it is looked up: made without the leader's lock.
pub(crate) struct Accessed {
    keys: HashMap<GlobalKey, Vec<Access>>,
    /// Of a transaction with many keys: the spaces that they are in, in the place of the keys. Definitions are kept one by one
    /// always, as everybody who writes refers to one.
    spaces: HashMap<SpaceId, Vec<Access>>,
    reads: ReadSet,
}

impl Accessed {
    /// What a transaction accessed in its world. Takes memory for [`KEYS_MAX`] keys, the definitions it refers to, and its reads at
    /// most.
    pub(crate) fn new(
        footprint: &[Footmark],
        mut reads: ReadSet,
        world: &World,
        reserved: &ReservedReads,
    ) -> Self {
        if let ReservedReads::Of(is_reserved) = reserved {
            let mut spaces = HashSet::new();
            for def in world.tables().map(|table| table.def()).filter(|def| is_reserved(def)) {
                spaces.insert(def.id);
                spaces.extend(def.indexes.iter().map(|index| index.id));
            }
            reads.retain_spaces(|space| spaces.contains(&space));
        }
        let (mut keys, mut spaces) = (HashMap::new(), HashMap::new());
        for mark in footprint {
            let (space, key) = &mark.key;
            let accesses: &mut Vec<Access> = if footprint.len() > KEYS_MAX && *space != CATALOG_SPACE {
                spaces.entry(*space).or_default()
            } else {
                keys.entry((*space, key.clone())).or_default()
            };
            if !accesses.contains(&mark.certify) {
                accesses.push(mark.certify);
            }
        }
        Self { keys, spaces, reads }
    }

    fn conflicts_with(&self, key: &GlobalKey, theirs: Access) -> bool {
        let conflicts = |mine: &Vec<Access>| mine.iter().any(|mine| mine.conflicts_with(theirs));
        self.keys.get(key).is_some_and(conflicts)
            || !self.spaces.is_empty() && self.spaces.get(&key.0).is_some_and(conflicts)
    }
}

struct Reservation {
    number: u64,
    transaction: TransactionId,
    expires: Instant,
    accessed: Accessed,
}

impl Reservation {
    /// A key of the submission that it keeps for itself.
    fn conflict<'s>(&'s self, submission: &'s Submission) -> Option<GlobalKey> {
        let accessed = &self.accessed;
        let kept = submission.footprint.iter().find(|mark| accessed.conflicts_with(&mark.key, mark.admit));
        if let Some(mark) = kept {
            return Some(mark.key.clone());
        }
        if accessed.reads.is_empty() {
            return None;
        }
        submission.written.keys().find_map(|(space, written)| match written {
            Written::Key(key) if accessed.reads.covers(space, key) => Some((space, key.clone())),
            Written::Key(_) | Written::WholeSpace => None,
        })
    }
}

/// Reservations that are none any more.
pub(crate) struct Ended(Vec<Reservation>);

fn take_expired(held: &mut Vec<Reservation>) -> Ended {
    let now = Instant::now();
    Ended(held.extract_if(.., |other| other.expires <= now).collect())
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
    /// leader's lock, and drops what this gives without it: that has ended.
    #[must_use = "it is dropped without the leader's lock"]
    pub(crate) fn reserve(&self, number: u64, transaction: TransactionId, accessed: Accessed) -> Ended {
        let expires = Instant::now() + LASTS;
        let made = Reservation { number, transaction, expires, accessed };
        let mut held = self.held.lock();
        let mut ended = take_expired(&mut held);
        match held.iter_mut().find(|other| other.number == number) {
            Some(before) => ended.0.push(std::mem::replace(before, made)),
            None => held.push(made),
        }
        self.count.store(held.len(), Ordering::Release);
        ended
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
        let mut held = self.held.lock();
        let ended = take_expired(&mut held);
        if !ended.0.is_empty() {
            self.count.store(held.len(), Ordering::Release);
            // They may be large, and the leader's lock is held.
            rayon::spawn(move || drop(ended));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use coeval_txn::Version;

    fn accessed(keys: usize) -> Accessed {
        let mark = |number: usize| Footmark {
            key: (SpaceId::new(1 + number as u32 % 2), Key::from_slice(&number.to_be_bytes())),
            certify: Access::Update,
            admit: Access::Update,
            begin: Version::ZERO,
        };
        let footprint: Vec<Footmark> = (0..keys).map(mark).collect();
        Accessed::new(&footprint, ReadSet::default(), &World::empty(), &ReservedReads::OfAll)
    }

    /// The memory of what was reserved was not bounded.
    #[test]
    fn of_many_keys_the_spaces_are_reserved() {
        let (few, many) = (accessed(10), accessed(KEYS_MAX + 1));
        let key = |space, number: usize| (SpaceId::new(space), Key::from_slice(&number.to_be_bytes()));
        assert!(
            few.conflicts_with(&key(1, 2), Access::Update)
                && !few.conflicts_with(&key(1, 20), Access::Update)
        );
        assert_eq!((many.keys.len(), many.spaces.len()), (0, 2));
        assert!(many.conflicts_with(&key(2, KEYS_MAX * 2), Access::Update));
        assert!(!many.conflicts_with(&key(3, 2), Access::Update));
    }

    #[test]
    fn what_has_expired_goes_with_the_next_that_is_reserved() {
        let reservations = Reservations::default();
        drop(reservations.reserve(1, TransactionId::new(1), accessed(3)));
        reservations.held.lock()[0].expires = Instant::now();
        let ended = reservations.reserve(2, TransactionId::new(2), accessed(3));
        assert_eq!((ended.0.len(), reservations.held.lock().len()), (1, 1));
    }
}
