// SPDX-License-Identifier: Apache-2.0
//! What happened to a set of transactions, and whether snapshot isolation allows it.
//!
//! The checker knows neither versions nor the table of conflict rules: it judges by who could see whom, and
//! in its own words.

use std::fmt;
use std::hash::Hash;

use super::super::Conflict;
use crate::{Access, TransactionId};

/// What the tests use as keys.
pub(super) trait Key: Clone + Ord + Hash + fmt::Debug {}

impl<K: Clone + Ord + Hash + fmt::Debug> Key for K {}

/// The keys of the small histories.
pub(super) type SmallKey = u8;

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    /// It never asked to commit.
    Open,
    Committed {
        /// The place among all endings.
        moment: usize,
    },
    Refused {
        /// The place among all endings.
        moment: usize,
        conflict: Conflict<SmallKey>,
    },
}

/// One transaction of a history.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) accesses: Vec<(SmallKey, Access)>,
    /// The transactions whose commits were in its snapshot, one bit each.
    pub(super) sees: u64,
    pub(super) ending: Ending,
}

impl Member {
    fn is_committed(&self) -> bool {
        matches!(self.ending, Ending::Committed { .. })
    }

    fn sees(&self, other: usize) -> bool {
        self.sees & (1 << other) != 0
    }
}

/// What snapshot isolation does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// Two concurrent transactions wrote this key and both committed.
    LostUpdate(SmallKey),
    /// One relied on this key, the other inserted or deleted it, and both committed.
    BrokenReference(SmallKey),
    /// This transaction was refused for a reason that does not exist.
    RefusedWithoutReason(usize),
}

/// The first violation in a history, if there is any.
pub(super) fn violation(members: &[Member]) -> Option<Violation> {
    for (index, member) in members.iter().enumerate() {
        if let Ending::Refused { moment, conflict } = &member.ending
            && !is_founded(members, index, *moment, conflict)
        {
            return Some(Violation::RefusedWithoutReason(index));
        }
        if !member.is_committed() {
            continue;
        }
        for (other_index, other) in members.iter().enumerate().take(index) {
            let is_concurrent = !member.sees(other_index) && !other.sees(index);
            if other.is_committed()
                && is_concurrent
                && let Some(violation) = clash(&member.accesses, &other.accesses)
            {
                return Some(violation);
            }
        }
    }
    None
}

/// What two concurrent transactions must not both commit.
fn clash(one: &[(SmallKey, Access)], other: &[(SmallKey, Access)]) -> Option<Violation> {
    one.iter().find_map(|(key, access)| {
        let same_key = other.iter().filter(|(other_key, _)| other_key == key);
        same_key.into_iter().find_map(|(_, other_access)| clash_at(*key, *access, *other_access))
    })
}

fn clash_at(key: SmallKey, one: Access, other: Access) -> Option<Violation> {
    let writes = |access| access == Access::Update || access == Access::Identity;
    if writes(one) && writes(other) {
        return Some(Violation::LostUpdate(key));
    }
    let breaks = |read, write| read == Access::Reference && write == Access::Identity;
    (breaks(one, other) || breaks(other, one)).then_some(Violation::BrokenReference(key))
}

/// Whether the conflict that refused a transaction is one: with a commit that it does not see, that was
/// there before, and that did to the key what the conflict says.
fn is_founded(members: &[Member], refused: usize, moment: usize, conflict: &Conflict<SmallKey>) -> bool {
    let other_index = index_of(conflict.other_transaction);
    let (mine, other) = (&members[refused], &members[other_index]);
    let Ending::Committed { moment: other_moment } = other.ending else { return false };
    other_moment < moment
        && !mine.sees(other_index)
        && mine.accesses.contains(&(conflict.key, conflict.mine))
        && other.accesses.contains(&(conflict.key, conflict.other))
        && clash_at(conflict.key, conflict.mine, conflict.other).is_some()
}

/// Transactions are named by their index plus one: zero names none.
pub(super) fn id_of(index: usize) -> TransactionId {
    TransactionId::new(index as u64 + 1)
}

fn index_of(transaction: TransactionId) -> usize {
    usize::try_from(transaction.get() - 1).unwrap()
}
