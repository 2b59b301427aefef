// SPDX-License-Identifier: Apache-2.0

use super::*;

fn sizes(rows: &[f64], predicates: &[(&[usize], f64)]) -> Sizes {
    let set = |relations: &[usize]| relations.iter().map(|relation| 1 << relation).sum();
    Sizes {
        rows: rows.to_vec(),
        predicates: predicates.iter().map(|(over, share)| equation(set(over), *share)).collect(),
        ..Sizes::default()
    }
}

fn equation(over: Set, share: f64) -> Predicate {
    Predicate { over, share, is_equation: true }
}

fn relation(number: usize) -> Box<Tree> {
    Box::new(Tree::Relation(number))
}

#[test]
fn a_selective_dimension_is_joined_before_an_unselective_one() {
    // Facts with two dimensions; one is filtered down to ten rows of a million.
    let star = sizes(&[1e6, 1e6, 10.0], &[(&[0, 1], 1e-6), (&[0, 2], 1e-6)]);
    let tree = best(&star).tree;
    let facts = Tree::Join(relation(2), relation(0));
    assert_eq!(tree, Tree::Join(Box::new(facts), relation(1)));
}

#[test]
fn no_cross_product_is_made_where_predicates_lead_round_it() {
    // A chain named in an order in which its ends come first.
    let chain = sizes(&[10.0, 10.0, 1e5, 1e5], &[(&[0, 2], 1e-5), (&[2, 3], 1e-5), (&[3, 1], 1e-5)]);
    fn check(sizes: &Sizes, tree: &Tree) {
        if let Tree::Join(left, right) = tree {
            assert!(sizes.are_linked(left.set(), right.set()));
            check(sizes, left);
            check(sizes, right);
        }
    }
    check(&chain, &best(&chain).tree);
}

#[test]
fn unconnected_groups_meet_last_and_smallest_first() {
    let groups = sizes(&[5.0, 1e6, 3.0, 1e6], &[(&[0, 1], 1e-6), (&[2, 3], 1e-6)]);
    let Tree::Join(left, right) = best(&groups).tree else { panic!("four relations are joined") };
    let mut sets = [left.set(), right.set()];
    sets.sort_unstable();
    assert_eq!(sets, [0b0011, 0b1100]);
}

#[test]
fn no_tree_is_cheaper_than_the_one_that_is_found() {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    /// The cost of every tree over a set, cross products left out where the set is connected without.
    fn least(sizes: &Sizes, set: Set) -> Option<Candidate> {
        if set.is_power_of_two() {
            return Some(sizes.relation(set.trailing_zeros() as usize));
        }
        let splits =
            (1..set).filter(|part| part & !set == 0).filter(|part| sizes.are_linked(*part, set & !part));
        let trees =
            splits.filter_map(|part| Some(sizes.join(&least(sizes, part)?, &least(sizes, set & !part)?)));
        trees.min_by(|a, b| a.cost.total_cmp(&b.cost))
    }
    let mut dice = StdRng::seed_from_u64(7);
    for _ in 0..200 {
        let count = dice.random_range(2..=5);
        let rows = (0..count).map(|_| 10f64.powf(dice.random_range(0.0..6.0))).collect();
        // A random tree of links makes every cluster connected; some more close cycles.
        let mut predicates = Vec::new();
        for relation in 1..count {
            let other = dice.random_range(0..relation);
            let share = 10f64.powf(dice.random_range(-6.0..0.0));
            predicates.push(equation(1 << relation | 1 << other, share));
        }
        let sizes = Sizes { rows, predicates, ..Sizes::default() };
        let found = best(&sizes).tree;
        let best = least(&sizes, (1 << count) - 1).expect("the cluster is connected");
        let cost = |tree: &Tree| {
            fn of(sizes: &Sizes, tree: &Tree) -> Candidate {
                match tree {
                    Tree::Relation(number) => sizes.relation(*number),
                    Tree::Join(left, right) => sizes.join(&of(sizes, left), &of(sizes, right)),
                }
            }
            of(&sizes, tree).cost
        };
        assert!(cost(&found) <= best.cost * (1.0 + 1e-12), "{sizes:?}");
    }
}

#[test]
fn a_class_counts_each_further_member_once() {
    let class = vec![Class(vec![(0, 10.0), (1, 100.0), (2, 1_000.0)])];
    let sizes = Sizes { rows: vec![10.0, 100.0, 1_000.0], classes: class, ..Sizes::default() };
    assert_eq!(sizes.rows_of(0b011), 10.0);
    assert_eq!(sizes.rows_of(0b111), 10.0);
}

#[test]
fn a_row_that_names_a_whole_key_finds_its_row() {
    // Orders of parts at suppliers name offers; 8,000 of the 200,000 pairs of 2,000 and 100 are offers.
    let parts = Class(vec![(0, 2_000.0), (1, 2_000.0)]);
    let suppliers = Class(vec![(0, 100.0), (1, 100.0)]);
    let key = CompositeKey { relation: 1, classes: vec![0, 1], excess: 25.0 };
    let sizes = Sizes {
        rows: vec![60_000.0, 8_000.0],
        classes: vec![parts, suppliers],
        keys: vec![key],
        predicates: Vec::new(),
    };
    assert!((sizes.rows_of(0b11) - 60_000.0).abs() < 1.0);
}

#[test]
fn many_relations_are_joined_too() {
    let rows = vec![100.0; 30];
    let link = |index: usize| equation(1 << index | 1 << (index - 1), 0.01);
    let predicates = (1..30).map(link).collect();
    assert_eq!(best(&Sizes { rows, predicates, ..Sizes::default() }).tree.set(), (1 << 30) - 1);
}

#[test]
fn relations_stay_as_they_are_joined_unless_another_tree_is_cheaper() {
    // Two dimensions that are alike: either may come first.
    let star = sizes(&[1e6, 100.0, 100.0], &[(&[0, 1], 1e-2), (&[0, 2], 1e-2)]);
    for (first, second) in [(1, 2), (2, 1)] {
        let now = Tree::Join(relation(second), Box::new(Tree::Join(relation(first), relation(0))));
        assert_eq!(cheapest(&star, now.clone()), now);
    }
    // The larger side would be built.
    let turned = Tree::Join(Box::new(Tree::Join(relation(0), relation(1))), relation(2));
    assert_ne!(cheapest(&star, turned.clone()), turned);
    // A cross product that costs little is still none that a predicate asked for.
    let few = sizes(&[1.0, 1.0, 1.0], &[(&[0, 1], 1.0), (&[0, 2], 1.0)]);
    let crossed = Tree::Join(Box::new(Tree::Join(relation(1), relation(2))), relation(0));
    assert_ne!(cheapest(&few, crossed.clone()), crossed);
}
