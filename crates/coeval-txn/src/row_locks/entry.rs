// SPDX-License-Identifier: Apache-2.0
//! The locks of one key: who holds it and who waits for it.

use super::owner_id::OwnerId;
use super::strength::LockStrength;
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
    /// Whether it held the key, weaker, when it asked.
    pub(super) is_upgrade: bool,
}

/// How many wait, by what they want.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    by_strength: [usize; LockStrength::ALL.len()],
    upgrades: usize,
}

impl Wanted {
    fn add(&mut self, waiter: &Waiter) {
        self.by_strength[waiter.strength as usize] += 1;
        self.upgrades += usize::from(waiter.is_upgrade);
    }

    fn remove(&mut self, waiter: &Waiter) {
        self.by_strength[waiter.strength as usize] -= 1;
        self.upgrades -= usize::from(waiter.is_upgrade);
    }

    /// Whether somebody wants something that passes `test`.
    fn any(&self, test: impl Fn(LockStrength) -> bool) -> bool {
        LockStrength::ALL.iter().any(|&strength| self.by_strength[strength as usize] > 0 && test(strength))
    }
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
    /// What those in the queue want.
    wanted: Wanted,
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
        self.queue.is_empty()
            || self.held_by(owner).is_some()
            || !self.wanted.any(|wanted| wanted.conflicts_with(strength))
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
    /// do not. The owner does not wait yet.
    pub(super) fn enqueue(&mut self, owner: OwnerId, strength: LockStrength, turn: Arc<Turn>) {
        let is_upgrade = self.held_by(owner).is_some();
        let waiter = Waiter { owner, strength, turn, is_upgrade };
        self.wanted.add(&waiter);
        if is_upgrade {
            let place = self.queue.iter().take_while(|other| other.is_upgrade).count();
            self.queue.insert(place, waiter);
        } else {
            self.queue.push_back(waiter);
        }
    }

    /// Takes a request out of the queue; returns whether it was there.
    pub(super) fn withdraw(&mut self, owner: OwnerId) -> bool {
        let position = self.queue.iter().position(|waiter| waiter.owner == owner);
        let withdrawn = position.and_then(|position| self.queue.remove(position));
        withdrawn.inspect(|waiter| self.wanted.remove(waiter)).is_some()
    }

    /// Grants what can be granted, in the order of the queue; tells `granted` of each.
    ///
    /// Cost: a step for each that is granted, and for those before the last of them that are not; nothing is looked at
    /// behind the place from which on everybody is held up by the holders or by who was passed over.
    pub(super) fn settle(&mut self, woken: &mut Woken, mut granted: impl FnMut(OwnerId)) {
        let mut strongest_held = self.holders.iter().map(|held| held.strength).max();
        let mut strongest_ahead: Option<LockStrength> = None;
        let mut behind = self.wanted;
        let mut position = 0;
        loop {
            // What conflicts with a strength conflicts with the stronger ones, too.
            let strongest = strongest_held.max(strongest_ahead);
            let may_pass =
                |wanted: LockStrength| !strongest.is_some_and(|other| other.conflicts_with(wanted));
            if behind.upgrades == 0 && !behind.any(may_pass) {
                break;
            }
            let waiter = &self.queue[position];
            behind.remove(waiter);
            let (owner, strength) = (waiter.owner, waiter.strength);
            let waits_behind = self.held_by(owner).is_none()
                && strongest_ahead.is_some_and(|ahead| ahead.conflicts_with(strength));
            if waits_behind || self.conflicts_with_holders(owner, strength) {
                strongest_ahead = strongest_ahead.max(Some(strength));
                position += 1;
                continue;
            }
            let waiter = self.queue.remove(position).expect("the position is in the queue");
            self.wanted.remove(&waiter);
            self.grant(owner, strength);
            strongest_held = strongest_held.max(Some(strength));
            granted(owner);
            woken.push(waiter.turn);
        }
    }

    /// What stands at this place of the queue.
    pub(super) fn wanted_at(&self, position: usize) -> LockStrength {
        self.queue[position].strength
    }

    /// The holders that the waiting owner at this place of the queue waits for.
    pub(super) fn holders_before(&self, position: usize) -> impl Iterator<Item = OwnerId> {
        let Waiter { owner, strength, .. } = self.queue[position];
        let others = self.holders.iter().filter(move |held| held.owner != owner);
        others.filter(move |held| held.strength.conflicts_with(strength)).map(|held| held.owner)
    }

    /// Those that the waiting owner at this place waits for because they stand before it in the queue, the nearest
    /// first. `visit` says whether it has met one before; whom that one waits for is then left out.
    pub(super) fn visit_ahead(&self, position: usize, mut visit: impl FnMut(OwnerId) -> Seen) {
        let Waiter { owner, strength, .. } = self.queue[position];
        if self.held_by(owner).is_some() {
            return;
        }
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
