// SPDX-License-Identifier: Apache-2.0
//! Which session waits for which other one, by the locks of rows and the advisory locks as they are listed.

use crate::advisory::AdvisoryLocks;
use crate::registry::{Registered, Registry};
use coeval_store::Store;
use coeval_txn::{LockListing, LockState, LockStrength, OwnerId};
use std::collections::HashMap;
use std::sync::Arc;

/// Somebody who waits, and one of those that it waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wait<'a, K> {
    pub(crate) key: &'a K,
    pub(crate) waiter: (OwnerId, LockStrength),
    /// The holder of a conflicting lock, or the owner of a conflicting request that is earlier in the queue.
    pub(crate) blocker: (OwnerId, LockStrength),
    pub(crate) state: LockState,
}

/// The waits among locks as they are listed: those of a key one behind the other, who waits in the order of the queue. Of those
/// who stand before somebody in the queue the nearest is told: it waits for the others itself, or is as good as they.
///
/// Cost: of each key, who waits times who holds.
pub(crate) fn waits<K: PartialEq>(locks: &[LockListing<K>]) -> Vec<Wait<'_, K>> {
    let mut waits = Vec::new();
    for of_key in locks.chunk_by(|one, next| one.key == next.key) {
        let (held, queue): (Vec<_>, Vec<_>) =
            of_key.iter().partition(|lock| lock.state == LockState::Granted);
        for (place, &waiting) in queue.iter().enumerate() {
            let (key, waiter) = (&waiting.key, (waiting.owner, waiting.strength));
            let stands_in_the_way = |other: &&&LockListing<K>| {
                other.owner != waiting.owner && other.strength.conflicts_with(waiting.strength)
            };
            let holders = held.iter().filter(stands_in_the_way);
            // An owner that already holds a weaker lock of the key does not have to wait for the queue.
            let holds_some = held.iter().any(|other| other.owner == waiting.owner);
            let ahead = queue[..place].iter().rev().filter(|_| !holds_some).find(stands_in_the_way);
            waits.extend(holders.chain(ahead).map(|other| Wait {
                key,
                waiter,
                blocker: (other.owner, other.strength),
                state: other.state,
            }));
        }
    }
    waits
}

/// The session that holds locks of rows as this owner; one of the embedding program has no number.
pub(crate) fn session_of_rows(owner: OwnerId) -> Option<i32> {
    owner.session().filter(|session| *session != 0)
}

/// The one among these sessions that holds advisory locks as this owner.
pub(crate) fn session_of_advisory(sessions: &[Arc<Registered>], owner: OwnerId) -> Option<i32> {
    sessions.iter().find(|session| session.is_lock_owner(owner)).map(|session| session.pid())
}

/// Which session waits for which other ones, at one moment.
#[derive(Debug, Default)]
pub(crate) struct WaitGraph {
    /// Of each session that waits, those that it waits for, each once; 0 for those of the embedding program.
    blockers: HashMap<i32, Vec<i32>>,
}

impl WaitGraph {
    /// As it is now.
    ///
    /// Cost: a walk through all locks; it holds up those who take locks meanwhile.
    pub(crate) fn now(store: &Store, advisory_locks: &AdvisoryLocks, registry: &Registry) -> Self {
        let of_rows = store.row_locks();
        let rows =
            waits(&of_rows).into_iter().map(|wait| [wait.waiter.0, wait.blocker.0].map(session_of_rows));
        let (advisory, sessions) = (advisory_locks.list(), registry.all());
        let advisory = waits(&advisory)
            .into_iter()
            .map(|wait| [wait.waiter.0, wait.blocker.0].map(|owner| session_of_advisory(&sessions, owner)));
        Self::of(rows.chain(advisory))
    }

    /// Of who waits, and for whom; one of the embedding program has no number.
    pub(crate) fn of(waits: impl IntoIterator<Item = [Option<i32>; 2]>) -> Self {
        let mut graph = Self::default();
        for [waiter, blocker] in waits {
            let Some(waiter) = waiter else { continue };
            let (blockers, blocker) = (graph.blockers.entry(waiter).or_default(), blocker.unwrap_or(0));
            if !blockers.contains(&blocker) {
                blockers.push(blocker);
            }
        }
        graph
    }

    /// The sessions that a session waits for; none if it waits for no lock, or is not there.
    pub(crate) fn blockers(&self, pid: i32) -> &[i32] {
        self.blockers.get(&pid).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_txn::RowLocks;

    fn listed(key: u8, owner: OwnerId, strength: LockStrength, state: LockState) -> LockListing<u8> {
        LockListing { key, owner, strength, state }
    }

    /// Who waits for whom, by numbers of sessions.
    fn edges(locks: &[LockListing<u8>]) -> Vec<(i32, i32, bool)> {
        let session = |owner: OwnerId| owner.session().unwrap();
        let edge = |wait: Wait<'_, u8>| {
            (session(wait.waiter.0), session(wait.blocker.0), wait.state == LockState::Granted)
        };
        waits(locks).into_iter().map(edge).collect()
    }

    #[test]
    fn who_waits_waits_for_holders_and_for_those_ahead_that_conflict() {
        use LockState::{Granted, Waiting};
        use LockStrength::{Share, Update};
        let table: Arc<RowLocks<u8>> = Arc::default();
        let [one, two, three, four] = [1, 2, 3, 4].map(|session| table.owner_of(Some(session)).id());
        let chain = [
            listed(7, one, Share, Granted),
            listed(7, two, Share, Granted),
            listed(7, three, Update, Waiting),
            listed(7, four, Share, Waiting),
            listed(8, four, Update, Granted),
        ];
        assert_eq!(edges(&chain), [(3, 1, true), (3, 2, true), (4, 3, false)]);
        // Who holds a weaker one waits for the other holder alone, and never for itself.
        let stronger = [
            listed(7, one, Share, Granted),
            listed(7, two, Share, Granted),
            listed(7, three, Update, Waiting),
            listed(7, one, Update, Waiting),
        ];
        assert_eq!(edges(&stronger), [(3, 1, true), (3, 2, true), (1, 2, true)]);
    }
}
