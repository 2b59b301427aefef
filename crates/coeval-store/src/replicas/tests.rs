// SPDX-License-Identifier: Apache-2.0
//! Which replicas count, and what they have reached together.

use super::*;

fn flushed(replicas: &Replicas, number: u64, place: u64) {
    replicas.note(number, |progress| progress.flushed = Lsn::new(place));
}

fn has(replicas: &Replicas, place: u64) -> bool {
    replicas.have_reached(Stage::Flushed, Lsn::new(place))
}

fn requiring(count: usize, choice: ReplicaChoice, names: &[&str]) -> Replicas {
    let replicas = Replicas::default();
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    replicas.require(Some(SynchronousReplicas { count, choice, names }));
    replicas
}

#[test]
fn nobody_is_waited_for_unless_somebody_is_asked_for() {
    let replicas = Replicas::default();
    assert!(has(&replicas, 100) && !replicas.are_required());
    let asked = SynchronousReplicas { count: 1, choice: ReplicaChoice::Any, names: vec!["*".to_owned()] };
    replicas.require(Some(asked.clone()));
    assert!(!has(&replicas, 100) && replicas.are_required());
    assert_eq!(replicas.required(), Some(asked));
    replicas.require(None);
    assert!(has(&replicas, 100));
}

#[test]
fn any_two_of_three_are_enough_and_others_do_not_count() {
    let replicas = requiring(2, ReplicaChoice::Any, &["a", "b", "c"]);
    let [a, b, other, c] = ["a", "B", "other", "c"].map(|name| replicas.add(name));
    flushed(&replicas, a, 100);
    flushed(&replicas, other, 100);
    assert!(!has(&replicas, 1), "one of them has it, and one whom nobody asks");
    flushed(&replicas, c, 70);
    assert!(has(&replicas, 70) && !has(&replicas, 71));
    flushed(&replicas, b, 90);
    assert!(has(&replicas, 90) && !has(&replicas, 91), "names do not care for case");
    assert!(!replicas.have_reached(Stage::Written, Lsn::new(1)), "each stage counts for itself");
    let role = |number| replicas.standing(number).unwrap().role;
    assert_eq!((role(a), role(other)), (ReplicaRole::Quorum, ReplicaRole::Asynchronous));
    // What they had durably is there, connected or not.
    replicas.remove(a);
    replicas.remove(b);
    assert!(has(&replicas, 90) && !has(&replicas, 91));
}

#[test]
fn the_first_of_the_list_that_are_there_are_waited_for() {
    let replicas = requiring(1, ReplicaChoice::First, &["a", "b"]);
    let b = replicas.add("b");
    flushed(&replicas, b, 50);
    assert!(has(&replicas, 50), "the first one is not there");
    let a = replicas.add("a");
    let role = |number| replicas.standing(number).unwrap().role;
    assert_eq!((role(a), role(b)), (ReplicaRole::Synchronous(1), ReplicaRole::Potential(2)));
    flushed(&replicas, b, 80);
    assert!(!has(&replicas, 51), "it is now, and has not said anything");
    flushed(&replicas, a, 60);
    assert!(has(&replicas, 60) && !has(&replicas, 61));
    replicas.remove(a);
    flushed(&replicas, b, 81);
    assert!(has(&replicas, 81));
}

#[test]
fn two_of_the_first_both_have_to_have_it() {
    let replicas = requiring(2, ReplicaChoice::First, &["a", "*"]);
    let a = replicas.add("a");
    flushed(&replicas, a, 100);
    assert!(!has(&replicas, 1), "there is one alone");
    let (x, y) = (replicas.add("x"), replicas.add("y"));
    flushed(&replicas, y, 100);
    assert!(!has(&replicas, 1), "of those that any name stands for the earlier one comes first");
    flushed(&replicas, x, 30);
    assert!(has(&replicas, 30) && !has(&replicas, 31));
}
