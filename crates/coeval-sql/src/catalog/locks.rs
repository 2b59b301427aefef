// SPDX-License-Identifier: Apache-2.0
//! `pg_locks`: the advisory locks that sessions hold or wait for. Locks of rows are not in it, as in PostgreSQL, and
//! tables have none here.

use super::Source;
use super::rows::{Cell, Table};
use crate::advisory::AdvisoryKey;
use crate::oids;
use coeval_txn::{LockState, LockStrength};

/// `objsubid` of a lock on one number, and of one on a pair.
const NUMBER: i32 = 1;
const PAIR: i32 = 2;

/// Fills the relation; whether this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, source: &Source<'_>) -> bool {
    if name != "pg_locks" {
        return false;
    }
    let sessions = source.engine.registry().all();
    for lock in source.engine.advisory_locks().list() {
        let holder = sessions.iter().find(|session| session.is_lock_owner(lock.owner));
        let (class, object, kind) = halves(lock.key);
        let mode = if lock.strength == LockStrength::Share { "ShareLock" } else { "ExclusiveLock" };
        table.push([
            ("locktype", "advisory".into()),
            ("database", oids::DATABASE.into()),
            ("classid", class.into()),
            ("objid", object.into()),
            ("objsubid", kind.into()),
            ("pid", holder.map_or(Cell::Null, |session| session.pid().into())),
            ("mode", mode.into()),
            ("granted", (lock.state == LockState::Granted).into()),
            ("fastpath", false.into()),
        ]);
    }
    true
}

/// The halves of what is locked, and whether that is one number or two.
fn halves(key: AdvisoryKey) -> (i32, i32, i32) {
    match key {
        AdvisoryKey::Number(number) => ((number >> 32) as i32, number as i32, NUMBER),
        AdvisoryKey::Pair(one, two) => (one, two, PAIR),
    }
}
