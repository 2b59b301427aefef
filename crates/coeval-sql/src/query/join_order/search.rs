// SPDX-License-Identifier: Apache-2.0
//! The search for the cheapest tree of joins: all trees without cross products for few relations (dynamic
//! programming over subsets), the greedy choice of the smallest next result for many.
//!
//! Cost is what hash joins do: each builds a table of its smaller side, looks up every row of its larger side,
//! and hands its result on. Rows of a result are the product of its relations' rows and of the selectivities of
//! all predicates among them, so they do not depend on the order.

use std::collections::HashMap;

/// A set of relations, a bit each.
pub(in crate::query) type Set = u64;

/// Beyond so many relations the search is greedy: 3^10 splits take some milliseconds.
const EXHAUSTIVE_MAX: usize = 10;

/// What a row of the smaller side costs to put into a table, in units of a look-up.
const BUILD_COST: f64 = 2.0;

/// Estimates that differ by less are the same: they are products in another order.
const ALIKE: f64 = 1.0 + 1e-9;

/// What the search knows of a cluster.
#[derive(Clone, Debug, Default)]
pub(in crate::query) struct Sizes {
    /// Rows of each relation, at least one.
    pub(super) rows: Vec<f64>,
    /// Columns that are equated with each other.
    pub(super) classes: Vec<Class>,
    /// Keys of several columns.
    pub(super) keys: Vec<CompositeKey>,
    /// Other predicates over two relations and more.
    pub(super) predicates: Vec<Predicate>,
}

/// A predicate over several relations that equates no plain columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predicate {
    /// The relations that it is over.
    pub(super) over: Set,
    /// The share of combinations that pass.
    pub(super) share: f64,
    /// Whether a hash join can use it.
    pub(super) is_equation: bool,
}

/// Columns that are all equal: the relation and the distinct values of each.
#[derive(Clone, Debug)]
pub(super) struct Class(pub(super) Vec<(usize, f64)>);

/// A key of a relation whose columns are all equated with others.
#[derive(Clone, Debug)]
pub(super) struct CompositeKey {
    pub(super) relation: usize,
    /// The classes of its columns.
    pub(super) classes: Vec<usize>,
    /// How many combinations of its columns' values there are for each that is a row.
    pub(super) excess: f64,
}

impl Class {
    /// Share of combinations of these relations that pass: each member but the one with the fewest values finds
    /// its value among its own.
    fn share(&self, set: Set) -> f64 {
        let distinct = self.members(set).map(|(_, distinct)| distinct);
        let (product, least) = distinct.fold((1.0, f64::INFINITY), |(product, least), distinct| {
            (product * distinct, least.min(distinct))
        });
        if least.is_finite() { least / product } else { 1.0 }
    }

    /// The distinct values of this relation's column, if it has one here.
    pub(super) fn distinct(&self, relation: usize) -> f64 {
        self.members(1 << relation).next().map_or(1.0, |(_, distinct)| distinct)
    }

    fn members(&self, set: Set) -> impl Iterator<Item = (usize, f64)> {
        self.0.iter().copied().filter(move |(relation, _)| set >> relation & 1 == 1)
    }

    fn has(&self, relation: usize) -> bool {
        self.0.iter().any(|(member, _)| *member == relation)
    }
}

impl CompositeKey {
    /// Whether one other of these relations is equated with the whole key: then its rows find rows, not
    /// combinations of values that were independent of each other.
    fn is_met(&self, classes: &[Class], set: Set) -> bool {
        set >> self.relation & 1 == 1
            && (0..Set::BITS as usize)
                .filter(|&other| other != self.relation && set >> other & 1 == 1)
                .any(|other| self.classes.iter().all(|&class| classes[class].has(other)))
    }
}

/// How relations are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// A relation by its number.
    Relation(usize),
    /// The smaller side, to be built, and the larger one.
    Join(Box<Tree>, Box<Tree>),
}

impl Tree {
    /// The relations in it.
    pub(super) fn set(&self) -> Set {
        match self {
            Self::Relation(number) => 1 << number,
            Self::Join(left, right) => left.set() | right.set(),
        }
    }

    /// What is left of it with these relations alone, if anything is.
    pub(super) fn within(&self, set: Set) -> Option<Self> {
        match self {
            Self::Relation(number) => (set >> number & 1 == 1).then(|| self.clone()),
            Self::Join(left, right) => match (left.within(set), right.within(set)) {
                (Some(left), Some(right)) => Some(Self::Join(Box::new(left), Box::new(right))),
                (left, right) => left.or(right),
            },
        }
    }
}

/// The best way found to join some relations.
#[derive(Clone, Debug)]
struct Candidate {
    tree: Tree,
    rows: f64,
    cost: f64,
}

impl Sizes {
    /// Rows of the join of all relations.
    pub(in crate::query) fn rows(&self) -> f64 {
        self.rows_of((0..self.rows.len()).map(|relation| 1 << relation).sum())
    }

    /// Rows of the join of these relations.
    pub(in crate::query) fn rows_of(&self, set: Set) -> f64 {
        let product: f64 = self
            .rows
            .iter()
            .enumerate()
            .filter(|(index, _)| set >> index & 1 == 1)
            .map(|(_, rows)| rows)
            .product();
        let passing: f64 =
            self.predicates.iter().filter(|one| one.over & !set == 0).map(|one| one.share).product();
        let equated: f64 = self.classes.iter().map(|class| class.share(set)).product();
        let met = self.keys.iter().filter(|key| key.is_met(&self.classes, set));
        let correction: f64 = met.map(|key| key.excess).product();
        (product * passing * equated * correction).max(1.0)
    }

    /// Whether some equation links the two. Other predicates do not: joining by them tries all combinations.
    fn are_linked(&self, a: Set, b: Set) -> bool {
        let meets = |class: &Class| class.members(a).next().is_some() && class.members(b).next().is_some();
        let links = |one: &Predicate| {
            one.is_equation && one.over & a != 0 && one.over & b != 0 && one.over & !(a | b) == 0
        };
        self.classes.iter().any(meets) || self.predicates.iter().any(links)
    }

    fn relation(&self, number: usize) -> Candidate {
        Candidate { tree: Tree::Relation(number), rows: self.rows[number], cost: 0.0 }
    }

    fn join(&self, a: &Candidate, b: &Candidate) -> Candidate {
        Candidate::joined(a, b, self.rows_of(a.tree.set() | b.tree.set()))
    }

    /// What a tree costs; `None` if it joins what nothing links, or builds a larger side.
    fn candidate(&self, tree: &Tree) -> Option<Candidate> {
        match tree {
            Tree::Relation(number) => Some(self.relation(*number)),
            Tree::Join(left, right) => {
                let (left, right) = (self.candidate(left)?, self.candidate(right)?);
                let is_linked = self.are_linked(left.tree.set(), right.tree.set());
                (is_linked && left.rows <= right.rows * ALIKE).then(|| self.join(&left, &right))
            }
        }
    }
}

impl Candidate {
    /// The join of two, which gives so many rows.
    fn joined(a: &Self, b: &Self, rows: f64) -> Self {
        let (build, probe) = if b.rows < a.rows { (b, a) } else { (a, b) };
        let tree = Tree::Join(Box::new(build.tree.clone()), Box::new(probe.tree.clone()));
        Self { tree, rows, cost: Self::cost_of(a, b, rows) }
    }

    /// What that costs.
    fn cost_of(a: &Self, b: &Self, rows: f64) -> f64 {
        let (build_rows, probe_rows) = if b.rows < a.rows { (b.rows, a.rows) } else { (a.rows, b.rows) };
        a.cost + b.cost + build_rows * BUILD_COST + probe_rows + rows
    }
}

/// The cheapest tree that joins all relations: the one they are joined by now if no other is cheaper, so that they stay as they are.
///
/// # Panics
/// If there is no relation, or there are more than 64.
pub(super) fn cheapest(sizes: &Sizes, now: Tree) -> Tree {
    let best = best(sizes);
    match sizes.candidate(&now) {
        Some(known) if known.cost <= best.cost * ALIKE => now,
        _ => best.tree,
    }
}

/// The best way to join all relations that the search finds.
fn best(sizes: &Sizes) -> Candidate {
    let count = sizes.rows.len();
    assert!((1..=64).contains(&count), "a cluster has between 1 and 64 relations");
    let parts = if count <= EXHAUSTIVE_MAX { best_connected(sizes) } else { relations(sizes) };
    greedy(sizes, parts)
}

fn relations(sizes: &Sizes) -> Vec<Candidate> {
    (0..sizes.rows.len()).map(|number| sizes.relation(number)).collect()
}

/// The best tree without cross products of each group of relations that predicates connect.
fn best_connected(sizes: &Sizes) -> Vec<Candidate> {
    let all: Set = (1 << sizes.rows.len()) - 1;
    let mut best: Vec<Option<Candidate>> = vec![None; all as usize + 1];
    for candidate in relations(sizes) {
        let set = candidate.tree.set() as usize;
        best[set] = Some(candidate);
    }
    for set in 1..=all {
        // Every split into two is looked at once: the part with the lowest relation goes first.
        let lowest = set & set.wrapping_neg();
        let rest = set & !lowest;
        let mut others = rest;
        // Of a set they are the same, whatever it is joined from.
        let mut rows_of_set = None;
        while others != 0 {
            let (a, b) = (set & !others, others);
            if let (Some(left), Some(right)) = (&best[a as usize], &best[b as usize])
                && sizes.are_linked(a, b)
            {
                let rows = *rows_of_set.get_or_insert_with(|| sizes.rows_of(set));
                let cost = Candidate::cost_of(left, right, rows);
                if best[set as usize].as_ref().is_none_or(|known| cost < known.cost) {
                    let joined = Candidate::joined(left, right, rows);
                    best[set as usize] = Some(joined);
                }
            }
            others = (others - 1) & rest;
        }
    }
    // The largest connected sets cover everything, without overlap.
    let mut left = all;
    let mut parts = Vec::new();
    while left != 0 {
        let lowest = left & left.wrapping_neg();
        let group = (1..=left).rev().filter(|set| set & !left == 0 && set & lowest != 0);
        let largest = group.filter(|&set| best[set as usize].is_some()).max_by_key(|set| set.count_ones());
        let set = largest.expect("a relation is connected with itself");
        parts.extend(best[set as usize].take());
        left &= !set;
    }
    parts
}

/// Joins parts until one is left: always the two whose result is smallest, linked ones first.
fn greedy(sizes: &Sizes, mut parts: Vec<Candidate>) -> Candidate {
    // All pairs but those of the part that is new were looked at before.
    let mut known_rows: HashMap<Set, f64> = HashMap::new();
    while parts.len() > 1 {
        let sets: Vec<Set> = parts.iter().map(|part| part.tree.set()).collect();
        let mut chosen: Option<(bool, f64, usize, usize)> = None;
        for a in 0..sets.len() {
            for b in a + 1..sets.len() {
                let (left, right) = (sets[a], sets[b]);
                let is_cross = !sizes.are_linked(left, right);
                let both = left | right;
                let rows = *known_rows.entry(both).or_insert_with(|| sizes.rows_of(both));
                let found = (is_cross, rows, a, b);
                if chosen.is_none_or(|(cross, rows, ..)| (found.0, found.1) < (cross, rows)) {
                    chosen = Some(found);
                }
            }
        }
        let (_, _, a, b) = chosen.expect("two parts make a pair");
        let right = parts.swap_remove(b);
        parts[a] = sizes.join(&parts[a], &right);
    }
    parts.pop().expect("there is at least one relation")
}

#[cfg(test)]
mod tests;
