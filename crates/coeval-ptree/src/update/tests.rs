// SPDX-License-Identifier: Apache-2.0
//! Single-key updates whose summary panics in the middle.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{PTree, Summary};

/// Counts entries, and panics at a count of 99 or 101 and at the value 13.
#[derive(Clone, Debug, PartialEq)]
struct Fussy(usize);

impl Summary<u32, u64> for Fussy {
    fn empty() -> Self {
        Fussy(0)
    }

    fn of(_: &u32, value: &u64) -> Self {
        assert!(*value != 13, "on purpose");
        Fussy(1)
    }

    fn combine(&self, later: &Self) -> Self {
        let count = self.0 + later.0;
        assert!(count != 99 && count != 101, "on purpose");
        Fussy(count)
    }

    fn agrees_with(&self, other: &Self) -> bool {
        self == other
    }
}

type Tree = PTree<u32, u64, Fussy, 4>;

/// Before, the sizes along the path were changed or not according to where the panic came, and an entry that was
/// removed from its leaf still counted.
#[track_caller]
fn assert_survives(change: impl Fn(&mut Tree)) {
    for is_shared in [false, true] {
        let entries = || (0..100).map(|key| (2 * key, 1));
        let mut tree: Tree = PTree::from_sorted(entries().collect());
        let held = is_shared.then(|| tree.clone());
        assert!(catch_unwind(AssertUnwindSafe(|| change(&mut tree))).is_err());
        tree.check_invariants().unwrap();
        assert_eq!(tree.len(), tree.iter().count());
        assert!(tree.is_empty(), "the documented state");
        tree.insert(1, 1);
        assert_eq!(tree.into_iter().collect::<Vec<_>>(), [(1, 1)]);
        if let Some(held) = held {
            held.check_invariants().unwrap();
            assert!(held.into_iter().eq(entries()));
        }
    }
}

#[test]
fn a_panicking_summary_leaves_an_empty_tree_and_held_versions_intact() {
    assert_survives(|tree| assert!(tree.insert(51, 1).is_none()));
    assert_survives(|tree| assert!(tree.insert(50, 13).is_none()));
    assert_survives(|tree| assert!(tree.insert(51, 13).is_none()));
    assert_survives(|tree| assert!(tree.remove(&50).is_none()));
    assert_survives(|tree| assert!(tree.pop_first().is_none()));
    assert_survives(|tree| assert!(tree.pop_last().is_none()));
    assert_survives(|tree| assert!(tree.modify(&50, |value| *value = 13).is_none()));
    assert_survives(|tree| tree.upsert(50, |value| *value = 13));
    assert_survives(|tree| tree.upsert(51, |value| *value = 1));
    assert_survives(|tree| tree.extend([(51, 13)]));
}

#[test]
fn a_panicking_change_of_a_value_keeps_the_tree_where_no_summaries_are_kept() {
    let mut tree: PTree<u32, u64, (), 4> = (0..100).map(|key| (key, 1)).collect();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        tree.modify(&50, |value| {
            *value = 2;
            panic!("on purpose");
        })
    }));
    assert!(outcome.is_err());
    tree.check_invariants().unwrap();
    assert_eq!((tree.len(), tree.get(&50)), (100, Some(&2)));
}
