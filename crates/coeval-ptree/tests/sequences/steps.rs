// SPDX-License-Identifier: Apache-2.0
//! What bytes stand for: operations on four versions of a tree, each compared with its model after every step.

use std::collections::BTreeMap;
use std::ops::Bound;

use coeval_ptree::{Fate, Grain, Max, PTree, Sum, pairing, pairing_outer, secondary};

type Tree<const B: usize> = PTree<u16, u32, (Sum<u32>, Max<u32>), B>;
type Model = BTreeMap<u16, u32>;

/// Takes decisions off a stream of bytes; zeros when it has run out.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn key(&mut self) -> u16 {
        u16::from_le_bytes([self.next(), self.next()]) % 3_000
    }

    fn value(&mut self) -> u32 {
        u32::from(self.key())
    }

    /// A batch of up to some thousand keys, most of them small; dense or scattered.
    fn batch(&mut self) -> Model {
        let count = 1usize << (self.next() % 12);
        let (start, step) = (self.key(), u16::from(self.next() % 9) + 1);
        let value = self.value();
        let keys = (0..count as u16).map(|at| start.wrapping_add(at.wrapping_mul(step)) % 3_000);
        keys.map(|key| (key, value.wrapping_mul(u32::from(key) | 1) % 10_000)).collect()
    }
}

fn combine(_: &u16, old: &u32, new: u32) -> u32 {
    (old + 3 * new) % 10_000
}

#[track_caller]
fn assert_same<const B: usize>(tree: &Tree<B>, model: &Model) {
    tree.check_invariants().expect("every operation keeps the invariants");
    assert!(tree.iter().eq(model.iter()), "contents differ");
    assert_eq!(tree.summary(), (Sum(model.values().sum()), Max(model.values().max().copied())));
}

/// One operation on a tree and its model.
fn step<const B: usize>(
    tree: &mut Tree<B>,
    model: &mut Model,
    other: (&Tree<B>, &Model),
    bytes: &mut Bytes<'_>,
) {
    match bytes.next() % 20 {
        0 => {
            let (key, value) = (bytes.key(), bytes.value());
            assert_eq!(tree.insert(key, value), model.insert(key, value));
        }
        1 => {
            let key = bytes.key();
            assert_eq!(tree.remove(&key), model.remove(&key));
        }
        2 => {
            let batch = bytes.batch();
            tree.multi_insert(batch.clone().into_iter().collect(), combine);
            put_all(model, &batch);
        }
        3 => {
            let gone = bytes.batch();
            tree.multi_delete(&gone.keys().copied().collect::<Vec<_>>());
            model.retain(|key, _| !gone.contains_key(key));
        }
        4 => {
            let batch = bytes.batch();
            tree.multi_modify(batch.clone().into_iter().collect(), Grain::entries(3), |_, value, change| {
                *value = (*value + change) % 10_000;
                if value.is_multiple_of(3) { Fate::Remove } else { Fate::Keep }
            });
            for (key, change) in batch {
                let value = model.entry(key).or_default();
                *value = (*value + change) % 10_000;
                if value.is_multiple_of(3) {
                    model.remove(&key);
                }
            }
        }
        5..=7 => set_operation(tree, model, other, bytes),
        8 | 9 => cut(tree, model, bytes),
        12..=18 => further_step(tree, model, other, bytes),
        10 => {
            let limit = bytes.value();
            *tree = tree.aug_filter(|(_, max)| max.0 >= Some(limit));
            model.retain(|_, value| *value >= limit);
        }
        11 => {
            let limit = bytes.value();
            *tree = tree.filter(|key, value| u32::from(*key) + value >= limit);
            model.retain(|key, value| u32::from(*key) + *value >= limit);
        }
        _ => {
            let key = bytes.key();
            assert_eq!(tree.modify(&key, |value| *value /= 2), model.get_mut(&key).map(|value| *value /= 2));
        }
    }
}

/// As [`step`], with the rarer operations.
fn further_step<const B: usize>(
    tree: &mut Tree<B>,
    model: &mut Model,
    other: (&Tree<B>, &Model),
    bytes: &mut Bytes<'_>,
) {
    match bytes.next() % 9 {
        0 => assert_eq!(tree.pop_first(), model.pop_first()),
        1 => assert_eq!(tree.pop_last(), model.pop_last()),
        2 => {
            let (key, value) = (bytes.key(), bytes.value());
            tree.upsert(key, |old| *old = (*old + value) % 10_000);
            let old = model.entry(key).or_default();
            *old = (*old + value) % 10_000;
        }
        3 => {
            let batch = bytes.batch();
            let alter = |old: Option<&u32>, new: u32| match old {
                Some(old) if (old + new).is_multiple_of(2) => None,
                _ => (!new.is_multiple_of(5)).then_some(new),
            };
            tree.alter_many(batch.clone().into_iter().collect(), alter);
            for (key, new) in batch {
                match alter(model.get(&key), new) {
                    Some(value) => drop(model.insert(key, value)),
                    None => drop(model.remove(&key)),
                }
            }
        }
        4 => {
            let batch = bytes.batch();
            tree.multi_update(
                batch.iter().map(|(key, new)| (*key, (new % 2 == 0).then_some(*new))).collect(),
            );
            for (key, new) in batch {
                if new % 2 == 0 {
                    model.insert(key, new);
                } else {
                    model.remove(&key);
                }
            }
        }
        5 => {
            let mut unsorted: Vec<(u16, u32)> = bytes.batch().into_iter().chain(bytes.batch()).collect();
            unsorted.reverse();
            tree.multi_insert_unsorted(unsorted.clone(), |_, _, later| later);
            model.extend(unsorted);
        }
        6 => {
            let keys: Vec<u16> = bytes.batch().into_keys().rev().chain([bytes.key()]).collect();
            assert!(tree.multi_find(&keys).into_iter().eq(keys.iter().map(|key| model.get(key))));
        }
        7 => {
            let paired: PTree<u16, (u32, u32), (), B> = pairing(tree, other.0);
            paired.check_invariants().expect("a pairing keeps the invariants");
            let common = model.iter().filter_map(|(key, mine)| Some((*key, (*mine, *other.1.get(key)?))));
            assert!(paired.into_iter().eq(common));
            let paired: PTree<u16, (u32, u32), (), B> = pairing_outer(tree, other.0);
            paired.check_invariants().expect("a pairing keeps the invariants");
            let theirs = |key| other.1.get(key).copied().unwrap_or(0);
            assert!(paired.into_iter().eq(model.iter().map(|(key, mine)| (*key, (*mine, theirs(key))))));
        }
        _ => {
            let groups: PTree<u32, Tree<B>> = secondary(tree, |_, value| value % 7);
            assert!(groups.values().all(|group| group.check_invariants().is_ok() && !group.is_empty()));
            let all =
                groups.values().fold(Tree::<B>::default(), |all, group| all.union(group.clone(), combine));
            assert_same(&all, model);
            groups.drop_by(Grain::entries(1));
        }
    }
}

/// A union, difference or intersection with another version.
fn set_operation<const B: usize>(
    tree: &mut Tree<B>,
    model: &mut Model,
    other: (&Tree<B>, &Model),
    bytes: &mut Bytes<'_>,
) {
    match bytes.next() % 3 {
        0 => {
            *tree = tree.clone().union(other.0.clone(), combine);
            put_all(model, other.1);
        }
        1 => {
            *tree = tree.clone().difference(other.0);
            model.retain(|key, _| !other.1.contains_key(key));
        }
        _ => {
            *tree = std::mem::take(tree).intersection(other.0.clone(), |_, mine, _| *mine);
            model.retain(|key, _| other.1.contains_key(key));
        }
    }
}

/// Takes a range or a key out and joins the rest.
fn cut<const B: usize>(tree: &mut Tree<B>, model: &mut Model, bytes: &mut Bytes<'_>) {
    if bytes.next().is_multiple_of(2) {
        let (one, two) = (bytes.key(), bytes.key());
        let bounds = (Bound::Included(one.min(two)), Bound::Excluded(one.max(two)));
        let low = tree.range((Bound::Unbounded, Bound::Excluded(one.min(two))));
        let high = tree.range((Bound::Included(one.max(two)), Bound::Unbounded));
        assert_eq!(tree.aggregate(bounds).0, Sum(model.range(bounds).map(|(_, value)| value).sum()));
        *tree = PTree::concat(low, high);
        model.retain(|key, _| *key < one.min(two) || *key >= one.max(two));
    } else {
        let key = bytes.key();
        let (low, hit, high) = tree.clone().split(&key);
        assert_eq!(hit, model.get(&key).map(|value| (key, *value)));
        assert_eq!(low.len() + high.len() + usize::from(hit.is_some()), model.len());
        *tree = PTree::concat(low, high);
        model.remove(&key);
    }
}

fn put_all(model: &mut Model, batch: &Model) {
    for (key, new) in batch {
        let value = model.get(key).map_or(*new, |old| combine(key, old, *new));
        model.insert(*key, value);
    }
}

/// Runs the sequence that some bytes stand for, on trees of one of three block sizes.
///
/// # Panics
/// If a tree and its model differ, or if a tree breaks an invariant.
pub(crate) fn run(data: &[u8]) {
    match data.split_first() {
        None => {}
        Some((first, rest)) if first % 3 == 0 => run_sequence::<4>(rest),
        Some((first, rest)) if first % 3 == 1 => run_sequence::<16>(rest),
        Some((_, rest)) => run_sequence::<62>(rest),
    }
}

/// Four versions, each of which may be copied over another one at any time.
fn run_sequence<const B: usize>(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut versions: [(Tree<B>, Model); 4] = Default::default();
    while !bytes.0.is_empty() {
        let (at, beside) = (usize::from(bytes.next() % 4), usize::from(bytes.next() % 4));
        let other = versions[beside].clone();
        if bytes.next().is_multiple_of(8) {
            versions[at] = other;
            continue;
        }
        let (tree, model) = &mut versions[at];
        step(tree, model, (&other.0, &other.1), &mut bytes);
        versions.iter().for_each(|(tree, model)| assert_same(tree, model));
    }
}
