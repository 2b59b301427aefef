// SPDX-License-Identifier: Apache-2.0
//! Priority for long transactions (2.3.4): who was refused keeps its write set as a reservation while it runs again.
//!
//! Others that want to commit a conflicting write are refused meanwhile, so the second run is refused by nobody, if it
//! writes the same rows. An older reservation is not held back by a younger one, so two of them do not refuse each other
//! for ever.

use crate::counters::Txid;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How long a reservation is kept for a client that may never come back.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// The write set of a refused transaction, kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    /// Whose write set it is.
    pub(crate) txid: Txid,
    /// The transaction that runs in its place, once it has begun.
    holder: Option<Txid>,
    until: Instant,
}

/// All reservations, oldest first.
///
/// # Locking
/// One lock, held for moments.
#[derive(Default)]
pub(crate) struct Reservations {
    list: Mutex<Vec<Reservation>>,
}

impl Reservations {
    /// Those that count now.
    pub(crate) fn current(&self) -> Vec<Reservation> {
        let mut list = self.list.lock();
        let now = Instant::now();
        list.retain(|one| one.until > now);
        list.clone()
    }

    /// Keeps the write set of `txid`.
    pub(crate) fn reserve(&self, txid: Txid) {
        self.list.lock().push(Reservation { txid, holder: None, until: Instant::now() + KEPT_FOR });
    }

    /// `holder` runs in place of the refused `txid`.
    pub(crate) fn hold(&self, txid: Txid, holder: Txid) {
        let mut list = self.list.lock();
        if let Some(one) = list.iter_mut().find(|one| one.txid == txid) {
            one.holder = Some(holder);
            one.until = Instant::now() + KEPT_FOR;
        }
    }

    /// Gives the reservation up.
    pub(crate) fn release(&self, txid: Txid) {
        self.list.lock().retain(|one| one.txid != txid);
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
        all.reserve(Txid(1));
        all.reserve(Txid(2));
        all.hold(Txid(1), Txid(11));
        all.hold(Txid(2), Txid(12));
        let held_back = |txid| [1, 2].map(|reserved| all.holds_back(Txid(reserved), Txid(txid)));
        assert_eq!(
            (held_back(5), held_back(11), held_back(12)),
            ([true, true], [false, false], [true, false])
        );
        all.release(Txid(1));
        assert_eq!((held_back(5), held_back(12), all.current().len()), ([false, true], [false, false], 1));
    }
}
