// SPDX-License-Identifier: Apache-2.0
//! The locks of one key: who holds it and who waits for it.

use super::strength::LockStrength;
use super::table::OwnerId;
use super::turn::{Turn, Woken};
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A lock that is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) owner: OwnerId,
    pub(super) strength: LockStrength,
}

/// Who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) owner: OwnerId,
    pub(super) strength: LockStrength,
    pub(super) turn: Arc<Turn>,
}

/// Whether a walk has met an owner before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Before,
    Now,
}

/// The locks of one key.
#[derive(Debug, Default)]
pub(super) struct Entry {
    holders: SmallVec<[Held; 1]>,
    queue: VecDeque<Waiter>,
}

impl Entry {
    pub(super) fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    pub(super) fn holders(&self) -> &[Held] {
        &self.holders
    }

    pub(super) fn queue(&self) -> impl ExactSizeIterator<Item = &Waiter> {
        self.queue.iter()
    }

    /// What this owner holds.
    #[inline]
    pub(super) fn held_by(&self, owner: OwnerId) -> Option<LockStrength> {
        self.holders.iter().find(|held| held.owner == owner).map(|held| held.strength)
    }

    /// Whether a request may be granted now, without a place in the queue.
    #[inline]
    pub(super) fn admits(&self, owner: OwnerId, strength: LockStrength) -> bool {
        if self.conflicts_with_holders(owner, strength) {
            return false;
        }
        let in_its_way = |waiter: &Waiter| waiter.strength.conflicts_with(strength);
        self.held_by(owner).is_some() || !self.queue.iter().any(in_its_way)
    }

    #[inline]
    fn conflicts_with_holders(&self, owner: OwnerId, strength: LockStrength) -> bool {
        self.holders.iter().any(|held| held.owner != owner && held.strength.conflicts_with(strength))
    }

    /// Makes the owner a holder of this strength, whatever it held before.
    #[inline]
    pub(super) fn grant(&mut self, owner: OwnerId, strength: LockStrength) {
        assert!(!self.conflicts_with_holders(owner, strength), "two holders of a row never conflict");
        match self.holders.iter_mut().find(|held| held.owner == owner) {
            Some(held) => {
                assert!(held.strength < strength, "a lock is granted to become stronger");
                held.strength = strength;
            }
            None => self.holders.push(Held { owner, strength }),
        }
    }

    /// Gives a holder its earlier strength back, or takes its lock away.
    #[inline]
    pub(super) fn restore(&mut self, owner: OwnerId, before: Option<LockStrength>) {
        let position = self.holders.iter().position(|held| held.owner == owner);
        let position = position.expect("what is released is held");
        match before {
            Some(strength) => {
                assert!(strength < self.holders[position].strength, "a release weakens");
                self.holders[position].strength = strength;
            }
            None => drop(self.holders.swap_remove(position)),
        }
    }

    /// Puts a request into the queue: at its end, or, if the owner holds the key already, before those who
    /// do not.
    pub(super) fn enqueue(&mut self, waiter: Waiter) {
        assert!(self.queue.iter().all(|other| other.owner != waiter.owner), "an owner waits once");
        let place = if self.held_by(waiter.owner).is_some() {
            self.queue.iter().take_while(|other| self.held_by(other.owner).is_some()).count()
        } else {
            self.queue.len()
        };
        self.queue.insert(place, waiter);
    }

    /// Takes a request out of the queue; returns whether it was there.
    pub(super) fn withdraw(&mut self, owner: OwnerId) -> bool {
        let position = self.queue.iter().position(|waiter| waiter.owner == owner);
        position.and_then(|position| self.queue.remove(position)).is_some()
    }

    /// Whether nothing at all can be granted.
    fn is_closed(&self) -> bool {
        self.holders.first().is_some_and(|held| held.strength == LockStrength::Update)
    }

    /// Grants what can be granted, in the order of the queue; tells `granted` of each.
    pub(super) fn settle(&mut self, woken: &mut Woken, mut granted: impl FnMut(OwnerId)) {
        let mut strongest_ahead: Option<LockStrength> = None;
        let mut position = 0;
        while position < self.queue.len() && !self.is_closed() {
            let Waiter { owner, strength, .. } = self.queue[position];
            let waits_behind = self.held_by(owner).is_none()
                && strongest_ahead.is_some_and(|ahead| ahead.conflicts_with(strength));
            if waits_behind || self.conflicts_with_holders(owner, strength) {
                strongest_ahead = strongest_ahead.max(Some(strength));
                position += 1;
                continue;
            }
            let waiter = self.queue.remove(position).expect("the position is in the queue");
            self.grant(owner, strength);
            granted(owner);
            woken.push(waiter.turn);
        }
    }

    /// The strength that a waiting owner wants.
    pub(super) fn wanted_by(&self, owner: OwnerId) -> LockStrength {
        self.queue[self.position_of(owner)].strength
    }

    fn position_of(&self, owner: OwnerId) -> usize {
        let position = self.queue.iter().position(|waiter| waiter.owner == owner);
        position.expect("who waits is in the queue of the key it waits for")
    }

    /// The holders that a waiting owner waits for.
    pub(super) fn holders_before(&self, owner: OwnerId) -> impl Iterator<Item = OwnerId> {
        let strength = self.wanted_by(owner);
        let others = self.holders.iter().filter(move |held| held.owner != owner);
        others.filter(move |held| held.strength.conflicts_with(strength)).map(|held| held.owner)
    }

    /// Those that a waiting owner waits for because they stand before it in the queue, the nearest first.
    /// `visit` says whether it has met one before; whom that one waits for is then left out.
    pub(super) fn visit_ahead(&self, owner: OwnerId, mut visit: impl FnMut(OwnerId) -> Seen) {
        if self.held_by(owner).is_some() {
            return;
        }
        let position = self.position_of(owner);
        let strength = self.queue[position].strength;
        for ahead in self.queue.range(..position).rev() {
            if !ahead.strength.conflicts_with(strength) {
                continue;
            }
            let seen = visit(ahead.owner);
            // It conflicts with everything that this one conflicts with, and waits for what is ahead of it.
            if seen == Seen::Before && ahead.strength >= strength && self.held_by(ahead.owner).is_none() {
                break;
            }
        }
    }

    /// Puts the queue into the order of these ranks.
    pub(super) fn reorder(&mut self, ranks: &HashMap<OwnerId, usize>) {
        self.queue.make_contiguous().sort_by_key(|waiter| ranks.get(&waiter.owner));
    }
}
