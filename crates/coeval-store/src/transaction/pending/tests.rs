// SPDX-License-Identifier: Apache-2.0
//! The list of checks that wait.

use super::PendingChecks;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::transaction::foreign_key::PendingCheck;

fn check(number: u32) -> PendingCheck {
    let key = Key::from_slice(&number.to_be_bytes());
    PendingCheck::Parent { child: SpaceId::new(number), foreign_key: "f".to_owned(), key }
}

fn drained(mut checks: PendingChecks) -> Vec<u32> {
    std::iter::from_fn(|| checks.pop()).map(|check| check.constraint().0.get()).collect()
}

#[test]
fn a_copy_stays_as_it_is_whatever_is_added_or_taken_since() {
    let mut checks = PendingChecks::default();
    checks.push(check(1));
    checks.push(check(2));
    let savepoint = checks.clone();
    checks.push(check(3));
    assert_eq!(drained(checks.clone()), [3, 2, 1]);
    assert_eq!(drained(savepoint.clone()), [2, 1]);
    checks.pop();
    checks.pop();
    checks.push(check(4));
    assert_eq!(drained(checks), [4, 1]);
    assert_eq!(drained(savepoint), [2, 1]);
}

#[test]
fn a_million_checks_are_dropped_on_a_small_stack() {
    let on_thread = || {
        let mut checks = PendingChecks::default();
        let mut copies = Vec::new();
        for number in 0..1_000_000 {
            checks.push(check(number));
            if number % 100_000 == 0 {
                copies.push(checks.clone());
            }
        }
        drop(checks);
        drop(copies);
    };
    std::thread::Builder::new().stack_size(128 << 10).spawn(on_thread).unwrap().join().unwrap();
}
