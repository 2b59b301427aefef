// SPDX-License-Identifier: Apache-2.0
//! Who waits for whom, and what to do about a circle.
//!
//! An owner waits for the *holders* whose locks conflict with its request, and for the waiters *ahead* of it in
//! the queue whose requests do. A circle of waits for holders ends only if one of its owners gives up: the one
//! that closed it is the victim. A circle that is closed by the order of queues ends if that order changes:
//!
//! ```text
//! key a: held by T1 (KEY SHARE), queue T2 (UPDATE), T3 (KEY SHARE)     T2 -> T1, T3 -> T2 (ahead)
//! key b: held by T3, queue T1                                          T1 -> T3
//! ```
//!
//! T3 could share `a` with T1; only that T2 came first holds it up, and T1 and T2 with it. Waits for holders
//! have no circle here, so owners can be ranked such that each waits only for holders of a lower rank; with the
//! queues in that order nobody waits for a higher rank in any way.
//!
//! # When to look, and how far
//! Each circle has two owners or more that hold what others of it wait for, directly or behind others in a queue; and
//! the request that closed it is of one of these (the README beside the crate has the proof). So a request looks once,
//! and first at holders alone ([`WaitGraph::may_close_circle`]): from the key that it waits for to those keys that its
//! holders wait for, and so on; only if that comes back to a key that the owner holds itself there may be a circle, and
//! the waits are looked at one by one. How many wait in the queues on the way does not matter: a thousand who wait for
//! a row whose holder runs cost a thousand looks at one holder.
//!
//! Cost: the first look takes a step for each holder of the keys that are reached. The second one lays all queues out
//! once and visits each waiting owner at most once. Both are under all locks of the table.

use super::entry::{Entry, Seen};
use super::owner_id::OwnerId;
use super::strength::LockStrength;
use super::table::{Shard, Slot, Wait};
use parking_lot::MutexGuard;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// A wait that is part of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockWait<K> {
    /// Who waits.
    pub waiter: OwnerId,
    /// For which key.
    pub key: K,
    /// What it wants there.
    pub strength: LockStrength,
    /// Who holds a lock that conflicts.
    pub holder: OwnerId,
}

/// Owners that wait for each other: each wait's holder is the waiter of the next, the last one's that of the
/// first. The first waiter is the victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock<K> {
    /// The waits, at least two.
    pub waits: Vec<DeadlockWait<K>>,
}

impl<K> Deadlock<K> {
    /// Who waits for whom, a line for each, with keys as `describe` puts them.
    pub fn describe(&self, describe: impl Fn(&K) -> String) -> String {
        let line = |wait: &DeadlockWait<K>| {
            let DeadlockWait { waiter, key, strength, holder } = wait;
            let key = describe(key);
            format!("Transaction {waiter} waits for {strength} of {key}; blocked by transaction {holder}.")
        };
        self.waits.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl<K> fmt::Display for Deadlock<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for wait in &self.waits {
            write!(formatter, "{} -> ", wait.waiter)?;
        }
        let first = self.waits.first().map_or_else(String::new, |wait| wait.waiter.to_string());
        formatter.write_str(&first)
    }
}

/// Which waits a walk follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follow {
    Holders,
    HoldersAndQueues,
}

/// There is a circle of waits.
struct IsCircle;

/// What to do about the order of queues.
pub(super) enum BetterOrder {
    /// It closes no circle.
    NotNeeded,
    /// By these ranks it closes none.
    Ranks(HashMap<OwnerId, usize>),
    /// There is a deadlock, whose victim has not looked yet.
    Later,
}

/// The waits of a table at one moment.
pub(super) struct WaitGraph<'g, K> {
    shards: &'g [MutexGuard<'g, Shard<K>>],
    waits: &'g HashMap<OwnerId, Wait<K>>,
    /// Where in the queue of its key each owner stands.
    positions: HashMap<OwnerId, usize>,
}

impl<'g, K: Clone + Eq> WaitGraph<'g, K> {
    /// With the places in queues not looked at.
    fn of_holders(shards: &'g [MutexGuard<'g, Shard<K>>], waits: &'g HashMap<OwnerId, Wait<K>>) -> Self {
        Self { shards, waits, positions: HashMap::new() }
    }

    pub(super) fn new(shards: &'g [MutexGuard<'g, Shard<K>>], waits: &'g HashMap<OwnerId, Wait<K>>) -> Self {
        let mut graph = Self::of_holders(shards, waits);
        for wait in waits.values() {
            let queue = || graph.entry(wait).queue();
            if queue().next().is_some_and(|first| !graph.positions.contains_key(&first.owner)) {
                let places: Vec<_> =
                    queue().enumerate().map(|(place, waiter)| (waiter.owner, place)).collect();
                graph.positions.extend(places);
            }
        }
        graph
    }

    /// Whether there can be a circle of waits that this owner's request has closed. False is certain.
    pub(super) fn may_close_circle(
        shards: &'g [MutexGuard<'g, Shard<K>>],
        waits: &'g HashMap<OwnerId, Wait<K>>,
        owner: OwnerId,
    ) -> bool {
        let graph = Self::of_holders(shards, waits);
        let first = graph.entry(&waits[&owner]);
        let others = first.holders().iter().map(|held| held.owner).filter(|holder| *holder != owner);
        let mut way: Vec<&Wait<K>> = others.filter_map(|holder| waits.get(&holder)).collect();
        let mut seen: HashSet<*const Entry> = HashSet::new();
        while let Some(wait) = way.pop() {
            let entry = graph.entry(wait);
            if !seen.insert(std::ptr::from_ref(entry)) {
                continue;
            }
            for held in entry.holders() {
                if held.owner == owner {
                    return true;
                }
                way.extend(waits.get(&held.owner));
            }
        }
        false
    }

    /// The circle of waits for holders that this owner is in.
    pub(super) fn deadlock_of(&self, owner: OwnerId) -> Option<Deadlock<K>> {
        self.circle_of(owner).map(|circle| self.deadlock(&circle))
    }

    /// By which ranks the queues are to be sorted, if their order closes a circle of waits. Later while there is a
    /// deadlock: whoever takes the request back that closes it looks again.
    pub(super) fn better_order(&self) -> BetterOrder {
        match self.ranks(Follow::HoldersAndQueues) {
            Ok(_) => BetterOrder::NotNeeded,
            Err(IsCircle) => self.ranks(Follow::Holders).map_or(BetterOrder::Later, BetterOrder::Ranks),
        }
    }

    fn entry(&self, wait: &Wait<K>) -> &'g Entry {
        let is_key = |slot: &Slot<K>| slot.hash == wait.hash && slot.key == wait.key;
        let slot = self.shards[wait.hash.shard()].find(wait.hash.number(), is_key);
        &slot.expect("a key that is waited for has an entry").entry
    }

    /// A shortest way from this owner back to it by waits for holders: the owners on it, this one first.
    fn circle_of(&self, start: OwnerId) -> Option<Vec<OwnerId>> {
        let mut reached_from: HashMap<OwnerId, OwnerId> = HashMap::new();
        let mut level = vec![start];
        while !level.is_empty() && !reached_from.contains_key(&start) {
            let mut next = Vec::new();
            for owner in level {
                for holder in self.blockers(owner, Follow::Holders, |_| Seen::Now) {
                    reached_from.entry(holder).or_insert_with(|| {
                        next.push(holder);
                        owner
                    });
                }
            }
            level = next;
        }
        let mut circle = Vec::new();
        let mut owner = *reached_from.get(&start)?;
        while owner != start {
            circle.push(owner);
            owner = reached_from[&owner];
        }
        circle.push(start);
        circle.reverse();
        Some(circle)
    }

    /// Those that an owner waits for and that wait themselves.
    fn blockers(&self, owner: OwnerId, follow: Follow, seen: impl Fn(OwnerId) -> Seen) -> Vec<OwnerId> {
        let entry = self.entry(&self.waits[&owner]);
        let position = self.positions[&owner];
        let holders = entry.holders_before(position);
        let mut blockers: Vec<_> = holders.filter(|holder| self.waits.contains_key(holder)).collect();
        if follow == Follow::HoldersAndQueues {
            entry.visit_ahead(position, |ahead| {
                blockers.push(ahead);
                seen(ahead)
            });
        }
        blockers
    }

    fn deadlock(&self, circle: &[OwnerId]) -> Deadlock<K> {
        assert!(circle.len() > 1, "nobody waits for itself");
        let holders = circle.iter().cycle().skip(1);
        let waits = circle.iter().zip(holders).map(|(&waiter, &holder)| {
            let wait = &self.waits[&waiter];
            let strength = self.entry(wait).wanted_at(self.positions[&waiter]);
            DeadlockWait { waiter, key: wait.key.clone(), strength, holder }
        });
        Deadlock { waits: waits.collect() }
    }

    /// A number for each waiting owner, greater than those of the waiting owners that it waits for. Those that
    /// began earlier come earlier where that leaves a choice.
    fn ranks(&self, follow: Follow) -> Result<HashMap<OwnerId, usize>, IsCircle> {
        let mut starts: Vec<OwnerId> = self.waits.keys().copied().collect();
        starts.sort_by_key(|owner| self.waits[owner].arrival);
        // An owner is on the way while its rank is not known yet.
        let mut ranks: HashMap<OwnerId, Option<usize>> = HashMap::new();
        let mut ranked = 0;
        for start in starts {
            let mut way = Vec::new();
            let mut enter = Some(start).filter(|start| !ranks.contains_key(start));
            while enter.is_some() || !way.is_empty() {
                if let Some(owner) = enter.take() {
                    ranks.insert(owner, None);
                    let seen = |other| if ranks.contains_key(&other) { Seen::Before } else { Seen::Now };
                    way.push((owner, self.blockers(owner, follow, seen)));
                }
                let (owner, blockers) = way.last_mut().expect("the way has just been looked at");
                match blockers.pop().map(|blocker| (blocker, ranks.get(&blocker))) {
                    Some((_, Some(Some(_)))) => {}
                    Some((_, Some(None))) => return Err(IsCircle),
                    Some((blocker, None)) => enter = Some(blocker),
                    None => {
                        ranks.insert(*owner, Some(ranked));
                        ranked += 1;
                        way.pop();
                    }
                }
            }
        }
        assert_eq!(ranked, self.waits.len(), "each waiting owner has a rank");
        Ok(ranks.into_iter().filter_map(|(owner, rank)| Some((owner, rank?))).collect())
    }
}
