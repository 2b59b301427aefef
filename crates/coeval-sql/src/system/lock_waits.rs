// SPDX-License-Identifier: Apache-2.0
//! `coeval_lock_waits`: which session waits for which other one, and for what.

use super::rows::{Rows, integer, text};
use crate::advisory::AdvisoryKey;
use crate::catalog::Source;
use crate::rights::Object;
use coeval_store::{ColumnType, Store, ValueRef};
use coeval_txn::{LockListing, LockState, LockStrength, OwnerId};

const TEXT: ColumnType = ColumnType::Text;
const INT: ColumnType = ColumnType::Int;

/// Somebody who waits, and one of those that it waits for.
#[derive(Debug, PartialEq, Eq)]
struct Wait<'a, K> {
    key: &'a K,
    waiter: (OwnerId, LockStrength),
    /// Who holds a lock that conflicts, or stands before it in the queue with a request that does.
    blocker: (OwnerId, LockStrength),
    state: LockState,
}

/// The waits among locks as they are listed: those of a key one behind the other, who waits in the order of the queue. Of those
/// who stand before somebody in the queue the nearest is told: it waits for the others itself, or is as good as they.
///
/// Cost: of each key, who waits times who holds.
fn waits<K: PartialEq>(locks: &[LockListing<K>]) -> Vec<Wait<'_, K>> {
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
            // Who holds a weaker lock of the key already is not held up by the queue.
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

fn columns() -> Rows {
    Rows::new(&[
        ("pid", INT),
        ("blocked_by", INT),
        ("kind", TEXT),
        ("table_name", TEXT),
        ("key", TEXT),
        ("wanted", TEXT),
        ("held", TEXT),
        ("granted", ColumnType::Boolean),
    ])
}

struct Shown<'a> {
    waiter: Option<i32>,
    blocker: Option<i32>,
    kind: &'a str,
    table: Option<&'a str>,
    key: Option<&'a str>,
    wanted: String,
    held: String,
    state: LockState,
}

fn push(rows: &mut Rows, shown: &Shown<'_>) {
    rows.push([
        integer(shown.waiter),
        integer(shown.blocker),
        text(shown.kind),
        shown.table.map_or(ValueRef::Null, text),
        shown.key.map_or(ValueRef::Null, text),
        text(&shown.wanted),
        text(&shown.held),
        ValueRef::Boolean(shown.state == LockState::Granted),
    ]);
}

/// One row for each session that waits and each that it waits for. Where the row is, is shown to who may read its table; a
/// session of the embedding program has no number.
pub(super) fn lock_waits(store: &Store, source: &Source<'_>) -> Rows {
    let mut rows = columns();
    let rights = source.rights();
    let world = rights.authority().seen();
    let may_read =
        |space| world.table(space).is_some_and(|table| rights.may_read(Object::Table(table.def())));
    let of_rows = store.row_locks();
    for wait in waits(&of_rows) {
        let place = world.place_of(wait.key.0, &wait.key.1);
        let is_shown = rights.is_superuser() || place.space.is_some_and(may_read);
        let session = |owner: OwnerId| owner.session().filter(|session| *session != 0);
        push(
            &mut rows,
            &Shown {
                waiter: session(wait.waiter.0),
                blocker: session(wait.blocker.0),
                kind: "row",
                table: place.table.as_deref().filter(|_| is_shown),
                key: place.key.as_deref().filter(|_| is_shown),
                wanted: wait.waiter.1.to_string(),
                held: wait.blocker.1.to_string(),
                state: wait.state,
            },
        );
    }
    let advisory = source.engine.advisory_locks().list();
    let sessions = source.engine.registry().all();
    let session =
        |owner| sessions.iter().find(|session| session.is_lock_owner(owner)).map(|session| session.pid());
    for wait in waits(&advisory) {
        let key = match wait.key {
            AdvisoryKey::Number(number) => number.to_string(),
            AdvisoryKey::Pair(one, two) => format!("{one}, {two}"),
        };
        let mode = |strength| if strength == LockStrength::Share { "SHARE" } else { "EXCLUSIVE" };
        push(
            &mut rows,
            &Shown {
                waiter: session(wait.waiter.0),
                blocker: session(wait.blocker.0),
                kind: "advisory",
                table: None,
                key: Some(&key),
                wanted: mode(wait.waiter.1).to_owned(),
                held: mode(wait.blocker.1).to_owned(),
                state: wait.state,
            },
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_txn::RowLocks;
    use std::sync::Arc;

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
