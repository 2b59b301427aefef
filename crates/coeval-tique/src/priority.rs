// SPDX-License-Identifier: Apache-2.0
//! Priority for long transactions (2.3.4): who was refused keeps its write set as a reservation while it runs again.
//!
//! Others that want to commit a conflicting write are refused meanwhile. **The second run is refused by nobody**, if what it
//! accesses is in the reservation, no older reservation conflicts with it, and its client never lets five seconds pass between
//! two statements. Let R be the reservation and T the second run; U is somebody whose accesses conflict with R's:
//!
//! 1. *R is there until T has ended.* A session's reservation does not age while the session works on a statement, a
//!    COMMIT among them. It is there before the refused transaction ends, and its write set stays as long: who trims write sets
//!    asks first what is stable, then what is reserved.
//! 2. *U took its timestamp before R was there.* T's start timestamp is taken behind that: T waits for all timestamps taken
//!    by then. U and T are not concurrent.
//! 3. *U took its timestamp when R was there.* U looks at the reservations after it took its timestamp (in this process, under
//!    the certifier's lock), finds R, and is refused.
//! 4. *A refused transaction refuses no other.* In this process that is known at once. In the engine a transaction counts until it
//!    is in `tique_aborted`, so T is certified when all transactions with a lower timestamp have ended.
//!
//! An older reservation is not held back by a younger one, and one that takes the place of another keeps its age, so of many
//! the oldest is through after its second run.

use crate::counters::Txid;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How long a reservation is kept for a client that may never come back.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// The write set of a refused transaction, kept.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    /// Whose write set it is.
    txid: Txid,
    /// The transaction that runs in its place, once it has begun.
    holder: Option<Txid>,
    /// Since when its session waits for its client; nothing while it works.
    idle_since: Option<Instant>,
}

/// All reservations, oldest first.
///
/// # Locking
/// One lock, held for moments; inside the certifier's.
#[derive(Default)]
pub(crate) struct Reservations {
    list: Mutex<Vec<Reservation>>,
}

impl Reservations {
    /// Whose write sets are reserved now.
    pub(crate) fn current(&self) -> Vec<Txid> {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Vec<Txid> {
        let mut list = self.list.lock();
        let is_kept = |since: Instant| now.saturating_duration_since(since) < KEPT_FOR;
        list.retain(|one| one.idle_since.is_none_or(is_kept));
        list.iter().map(|one| one.txid).collect()
    }

    /// Keeps the write set of `txid`, in place of that of `before` if there is one. Its session is at work.
    pub(crate) fn reserve(&self, txid: Txid, before: Option<Txid>) {
        let mut list = self.list.lock();
        let reservation = Reservation { txid, holder: None, idle_since: None };
        match list.iter_mut().find(|one| Some(one.txid) == before) {
            Some(one) => *one = reservation,
            None => list.push(reservation),
        }
    }

    /// `holder` runs in place of the refused `txid`.
    pub(crate) fn hold(&self, txid: Txid, holder: Txid) {
        self.change(txid, |one| one.holder = Some(holder));
    }

    /// The session of a reservation works on a statement.
    pub(crate) fn work(&self, txid: Txid) {
        self.change(txid, |one| one.idle_since = None);
    }

    /// It waits for its client.
    pub(crate) fn rest(&self, txid: Txid) {
        self.change(txid, |one| one.idle_since = Some(Instant::now()));
    }

    fn change(&self, txid: Txid, change: impl FnOnce(&mut Reservation)) {
        if let Some(one) = self.list.lock().iter_mut().find(|one| one.txid == txid) {
            change(one);
        }
    }

    /// Gives the reservation up.
    pub(crate) fn release(&self, txid: Txid) {
        self.list.lock().retain(|one| one.txid != txid);
    }

    /// Whether a transaction runs in place of a refused one.
    pub(crate) fn is_held_by(&self, txid: Txid) -> bool {
        self.list.lock().iter().any(|one| one.holder == Some(txid))
    }

    /// Whether the reservation of `reserved` refuses the commit of `txid`.
    pub(crate) fn holds_back(&self, reserved: Txid, txid: Txid) -> bool {
        let list = self.list.lock();
        let theirs = list.iter().position(|one| one.txid == reserved);
        let mine = list.iter().position(|one| one.holder == Some(txid));
        match (theirs, mine) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(theirs), Some(mine)) => theirs < mine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_holds_back_all_but_its_holder_and_older_ones() {
        let all = Reservations::default();
        all.reserve(Txid(1), None);
        all.reserve(Txid(2), None);
        all.hold(Txid(1), Txid(11));
        all.hold(Txid(2), Txid(12));
        let held_back =
            |reserved: [i64; 2], txid| reserved.map(|reserved| all.holds_back(Txid(reserved), Txid(txid)));
        let of_both = |txid| held_back([1, 2], txid);
        assert_eq!((of_both(5), of_both(11), of_both(12)), ([true, true], [false, false], [true, false]));
        // What takes the place of the first is older than the second still.
        all.reserve(Txid(11), Some(Txid(1)));
        all.hold(Txid(11), Txid(13));
        assert_eq!((held_back([11, 2], 13), held_back([11, 2], 12)), ([false, false], [true, false]));
        all.release(Txid(11));
        assert_eq!((of_both(5), of_both(12), all.current()), ([false, true], [false, false], vec![Txid(2)]));
    }

    #[test]
    fn a_reservation_ages_while_its_client_is_waited_for() {
        let all = Reservations::default();
        all.reserve(Txid(1), None);
        let later = |seconds| all.at(Instant::now() + Duration::from_secs(seconds));
        assert_eq!(later(3_600), [Txid(1)], "its session is at work");
        all.rest(Txid(1));
        assert_eq!(later(4), [Txid(1)]);
        all.work(Txid(1));
        assert_eq!(later(3_600), [Txid(1)]);
        all.rest(Txid(1));
        assert!(later(6).is_empty());
    }
}
