// SPDX-License-Identifier: Apache-2.0
//! What the tests share: values that are counted while they live, random maps, and comparison with `BTreeMap`.

use std::cmp;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{PTree, Summary};

/// The map that every tree is compared with.
pub(crate) type Model = BTreeMap<u32, u64>;

/// A generator whose seed is printed by a failing test.
pub(crate) fn random(seed: u64) -> StdRng {
    println!("seed {seed}");
    StdRng::seed_from_u64(seed)
}

/// A random map of about `count` keys below `limit`.
pub(crate) fn random_model(random: &mut StdRng, count: usize, limit: u32) -> Model {
    (0..count).map(|_| (random.random_range(0..limit), random.random_range(0..1_000_000))).collect()
}

/// The tree of a model.
pub(crate) fn tree_of<S: Summary<u32, u64>, const B: usize>(model: &Model) -> PTree<u32, u64, S, B> {
    PTree::from_sorted(model.iter().map(|(key, value)| (*key, *value)).collect())
}

/// Checks invariants and contents.
#[track_caller]
pub(crate) fn assert_same<S: Summary<u32, u64>, const B: usize>(tree: &PTree<u32, u64, S, B>, model: &Model) {
    tree.check_invariants().unwrap();
    assert!(tree.summary().agrees_with(&summary_of(model)), "wrong summary of {model:?}");
    assert_eq!(tree.len(), model.len());
    assert!(tree.iter().eq(model.iter()), "contents differ: {tree:?} and {model:?}");
}

/// The summary that a tree of these entries has to have.
pub(crate) fn summary_of<'m, S: Summary<u32, u64>>(
    entries: impl IntoIterator<Item = (&'m u32, &'m u64)>,
) -> S {
    entries.into_iter().fold(S::empty(), |sum, (key, value)| sum.combine(&S::of(key, value)))
}

/// A summary that tells any two runs of entries apart, in particular those in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    hash: u64,
    power: u64,
}

impl Summary<u32, u64> for Fingerprint {
    fn empty() -> Self {
        Fingerprint { hash: 0, power: 1 }
    }

    fn of(key: &u32, value: &u64) -> Self {
        Fingerprint { hash: (u64::from(*key) << 32) ^ value, power: 0x9E37_79B9_7F4A_7C15 }
    }

    fn combine(&self, later: &Self) -> Self {
        Fingerprint {
            hash: self.hash.wrapping_mul(later.power).wrapping_add(later.hash),
            power: self.power.wrapping_mul(later.power),
        }
    }

    fn agrees_with(&self, other: &Self) -> bool {
        self == other
    }
}

/// Counts the living [`Counted`] values and how many of all were clones.
#[derive(Clone, Default)]
pub(crate) struct Census(Arc<Counts>);

#[derive(Default)]
struct Counts {
    living: AtomicIsize,
    clones: AtomicIsize,
}

impl Census {
    /// A new counted value.
    pub(crate) fn value(&self, content: u64) -> Counted {
        self.0.living.fetch_add(1, Ordering::Relaxed);
        Counted { content, census: self.clone() }
    }

    /// The number of living values.
    pub(crate) fn living(&self) -> isize {
        self.0.living.load(Ordering::Relaxed)
    }

    /// The number of clones made so far.
    pub(crate) fn clones(&self) -> isize {
        self.0.clones.load(Ordering::Relaxed)
    }
}

/// A value that is counted while it lives, clones included.
pub(crate) struct Counted {
    pub(crate) content: u64,
    census: Census,
}

impl Counted {
    /// Where it is counted.
    pub(crate) fn census(&self) -> Census {
        self.census.clone()
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.census.0.clones.fetch_add(1, Ordering::Relaxed);
        self.census.value(self.content)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.census.0.living.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A key that counts how often it and its kin are compared.
#[derive(Clone, Debug)]
pub(crate) struct Tallied {
    pub(crate) key: u32,
    tally: Arc<AtomicUsize>,
}

/// Makes keys that count into one tally.
#[derive(Default)]
pub(crate) struct Tally(Arc<AtomicUsize>);

impl Tally {
    /// A key of this tally.
    pub(crate) fn key(&self, key: u32) -> Tallied {
        Tallied { key, tally: Arc::clone(&self.0) }
    }

    /// How many comparisons `work` makes.
    pub(crate) fn count<R>(&self, work: impl FnOnce() -> R) -> (usize, R) {
        let before = self.0.load(Ordering::Relaxed);
        let result = work();
        (self.0.load(Ordering::Relaxed) - before, result)
    }
}

impl Ord for Tallied {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.tally.fetch_add(1, Ordering::Relaxed);
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for Tallied {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Tallied {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Tallied {}

/// Where two pieces of work wait for each other: both get through only if they run at the same time.
#[derive(Default)]
pub(crate) struct Meeting {
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    /// Waits for the other one; whether it came. Who waits in vain gives up after a long time, so that a test fails
    /// instead of hanging.
    pub(crate) fn wait(&self) -> bool {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        self.changed.notify_all();
        let patience = Duration::from_secs(20);
        !self.changed.wait_timeout_while(arrived, patience, |arrived| *arrived < 2).unwrap().1.timed_out()
    }
}

/// Runs `work` with two threads, whatever the machine has.
pub(crate) fn on_two_threads<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap().install(work)
}
