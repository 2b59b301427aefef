// SPDX-License-Identifier: Apache-2.0
//! The multiversion serialization graph of what committed, and what it says about a set of transactions.
//!
//! Built from who could see whom, who read and wrote what, and the order in which the versions of each item
//! were made; from nothing that certification computed.

/// A set of transactions, one bit each.
pub(super) type Set = u128;

/// A set of items, one bit each.
pub(super) type Items = u16;

/// Items read of one snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// The transactions whose writes were in it.
    pub(super) sees: Set,
    pub(super) items: Items,
}

/// A committed transaction.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) reads: Vec<Read>,
    pub(super) writes: Items,
    /// Its place among those that made versions.
    pub(super) moment: usize,
}

/// Who must come before whom.
pub(super) struct Graph {
    /// For each member, those that must come after it.
    after: Vec<Set>,
}

pub(super) fn bits(set: Set) -> impl Iterator<Item = usize> {
    let mut rest = set;
    std::iter::from_fn(move || {
        let index = rest.trailing_zeros() as usize;
        (rest != 0).then(|| {
            rest &= rest - 1;
            index
        })
    })
}

impl Graph {
    /// The graph of these members; `committed` are the ones that count.
    pub(super) fn of(members: &[Member], committed: Set, item_count: u32) -> Self {
        assert!(members.len() <= Set::BITS as usize && item_count <= Items::BITS);
        let mut graph = Self { after: vec![0; members.len()] };
        let mut versions: Vec<usize> = Vec::with_capacity(members.len());
        for item in (0..item_count).map(|item| 1 << item) {
            versions.clear();
            versions.extend(bits(committed).filter(|index| members[*index].writes & item != 0));
            versions.sort_by_key(|index| members[*index].moment);
            for pair in versions.windows(2) {
                graph.after[pair[0]] |= 1 << pair[1];
            }
            for reader in bits(committed) {
                for read in members[reader].reads.iter().filter(|read| read.items & item != 0) {
                    graph.add_read(reader, *read, &versions);
                }
            }
        }
        graph
    }

    /// A read of an item with these versions: it comes after whoever made the version that was read, and
    /// before whoever made the next one.
    fn add_read(&mut self, reader: usize, read: Read, versions: &[usize]) {
        let is_seen = |index: &usize| *index != reader && read.sees & (1 << *index) != 0;
        let seen_count = versions.iter().rposition(is_seen).map_or(0, |position| position + 1);
        if let Some(last) = seen_count.checked_sub(1) {
            self.after[versions[last]] |= 1 << reader;
        }
        if let Some(next) = versions[seen_count..].iter().find(|index| **index != reader) {
            self.after[reader] |= 1 << *next;
        }
    }

    /// Whether the members can be put into an order: they could have run one after another.
    pub(super) fn is_acyclic(&self) -> bool {
        let mut rest: Set = if self.after.len() == 128 { !0 } else { (1 << self.after.len()) - 1 };
        while rest != 0 {
            // Whoever has nobody left behind it can be the last.
            let last: Set = bits(rest)
                .filter(|index| self.after[*index] & rest == 0)
                .fold(0, |set, index| set | 1 << index);
            if last == 0 {
                return false;
            }
            rest &= !last;
        }
        true
    }

    /// Whether anybody outside of the set must come before somebody within it.
    pub(super) fn points_into(&self, set: Set) -> bool {
        (0..self.after.len()).any(|index| set & (1 << index) == 0 && self.after[index] & set != 0)
    }
}

#[test]
fn write_skew_and_the_read_only_anomaly_are_cycles() {
    let member = |sees, items, writes, moment| Member { reads: vec![Read { sees, items }], writes, moment };
    let skew = [member(0, 0b11, 0b01, 0), member(0, 0b11, 0b10, 1)];
    assert!(!Graph::of(&skew, 0b11, 2).is_acyclic());
    let one_way = [member(0, 0b01, 0b01, 0), member(0, 0b11, 0b10, 1)];
    assert!(Graph::of(&one_way, 0b11, 2).is_acyclic());
    // Fekete, O'Neil, O'Neil 2004: 0 withdraws from x having read y, 1 deposits to y, 2 reads both in between.
    let report = [member(0, 0b11, 0b01, 1), member(0, 0b10, 0b10, 0), member(0b010, 0b11, 0, 9)];
    assert!(Graph::of(&report[..2], 0b011, 2).is_acyclic());
    let graph = Graph::of(&report, 0b111, 2);
    assert!(!graph.is_acyclic());
    assert!(graph.points_into(0b010) && !graph.points_into(0b111));
}
