// SPDX-License-Identifier: Apache-2.0
//! The bank of the P-Trees paper's Figure 1: a transfer makes a new version, readers of the old one never notice.
//!
//! ```text
//! cargo run --release -p coeval-ptree --example bank
//! ```

use coeval_ptree::{Memory, PTree};

/// Moves an amount between two accounts: a version with both changes, or none if the balance does not suffice.
fn transfer(
    accounts: &PTree<&'static str, i64>,
    from: &'static str,
    to: &'static str,
    amount: i64,
) -> Option<PTree<&'static str, i64>> {
    if accounts.get(from)? < &amount || !accounts.contains_key(to) {
        return None;
    }
    let mut next = accounts.clone();
    next.modify(from, |balance| *balance -= amount);
    next.modify(to, |balance| *balance += amount);
    Some(next)
}

fn total(accounts: &PTree<&'static str, i64>) -> i64 {
    accounts.map_reduce(|_, balance| *balance, |a, b| a + b, 0)
}

fn main() {
    let names = ["Alice", "Bob", "Carol", "Dave", "Erin", "Frank", "Trudy", "Wendy"];
    let first: PTree<&str, i64> = names.into_iter().map(|name| (name, 10)).collect();
    let second = transfer(&first, "Carol", "Wendy", 2).expect("Carol has ten");
    for (version, accounts) in [("v1", &first), ("v2", &second)] {
        let balance = |name| accounts.get(name).expect("an account");
        println!(
            "{version}: Carol {}, Wendy {}, all {}",
            balance("Carol"),
            balance("Wendy"),
            total(accounts)
        );
    }
    assert_eq!((first.get("Carol"), second.get("Carol")), (Some(&10), Some(&8)));
    assert_eq!(total(&first), total(&second));
    assert!(transfer(&second, "Carol", "Wendy", 9).is_none());

    // In a large bank the two versions share nearly everything.
    let ids = (0..1_000_000u32).map(|id| (id, 10i64)).collect();
    let first: PTree<u32, i64> = PTree::from_sorted(ids);
    let mut second = first.clone();
    second.multi_insert(vec![(7, -2), (999_999, 2)], |_, balance, change| balance + change);
    let mut memory = Memory::default();
    memory.add(&first);
    let alone = memory.bytes;
    memory.add(&second);
    println!(
        "a million accounts take {alone} bytes, a version after one transfer {} more",
        memory.bytes - alone
    );
}
