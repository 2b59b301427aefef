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
    let (primary, before) = Default::default();
    replicas.require(Some(SynchronousReplicas { count, choice, names, primary, before }));
    replicas
}

#[test]
fn nobody_is_waited_for_unless_somebody_is_asked_for() {
    let replicas = Replicas::default();
    assert!(has(&replicas, 100) && !replicas.are_required());
    let asked = SynchronousReplicas {
        count: 1,
        choice: ReplicaChoice::Any,
        names: vec!["*".to_owned()],
        primary: String::new(),
        before: Vec::new(),
    };
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

/// A connection that has broken is there until somebody notices, and the machine has come back with another one. To break it: count
/// connections.
#[test]
fn a_machine_that_is_there_twice_counts_once() {
    for choice in [ReplicaChoice::Any, ReplicaChoice::First] {
        let replicas = requiring(2, choice, &["a", "b", "c"]);
        let broken = replicas.add("a");
        flushed(&replicas, broken, 100);
        let again = replicas.add("A");
        flushed(&replicas, again, 90);
        assert!(!has(&replicas, 1), "{choice:?}: there is one machine");
        let b = replicas.add("b");
        flushed(&replicas, b, 95);
        assert!(has(&replicas, 95) && !has(&replicas, 96), "{choice:?}: what it had durably it still has");
        replicas.remove(broken);
        flushed(&replicas, b, 120);
        assert!(!has(&replicas, 96), "{choice:?}");
        flushed(&replicas, again, 110);
        assert!(has(&replicas, 110) && !has(&replicas, 111), "{choice:?}");
    }
    // Two machines may have one name where nobody is named.
    let replicas = requiring(2, ReplicaChoice::Any, &["*"]);
    let [one, other] = ["a", "a"].map(|name| replicas.add(name));
    flushed(&replicas, one, 100);
    assert!(!has(&replicas, 1));
    flushed(&replicas, other, 70);
    assert!(has(&replicas, 70) && !has(&replicas, 71));
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

#[test]
fn a_list_serves_whichever_of_its_machines_is_the_primary() {
    let replicas = requiring(1, ReplicaChoice::Any, &["north", "south", "west"]);
    let (own, west) = (replicas.add("South"), replicas.add("west"));
    replicas.set_own_name("south");
    flushed(&replicas, own, 100);
    assert!(!has(&replicas, 1), "a machine does not wait for itself");
    flushed(&replicas, west, 50);
    assert!(has(&replicas, 50) && !has(&replicas, 51));
    // The last one that is left goes on by itself.
    let alone = requiring(2, ReplicaChoice::First, &["south"]);
    assert!(alone.are_required());
    alone.set_own_name("south");
    assert!(!alone.are_required() && has(&alone, 1_000));
}

#[test]
fn so_many_have_to_promise_that_all_that_was_acknowledged_is_with_one() {
    let needed = |count, names: &[&str], primary: &str| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let primary = primary.to_owned();
        let before = Vec::new();
        SynchronousReplicas { count, choice: ReplicaChoice::Any, names, primary, before }.promises_needed()
    };
    assert_eq!(needed(1, &["a"], ""), Some(1));
    assert_eq!(needed(1, &["a", "b"], "p"), Some(2));
    assert_eq!(needed(2, &["a", "b", "c"], "p"), Some(2));
    assert_eq!(needed(1, &["p", "a", "b"], "P"), Some(2));
    assert_eq!(needed(2, &["p", "a", "b"], "p"), Some(1));
    assert_eq!(needed(2, &["p", "a", "b", "c", "d"], "p"), Some(3));
    assert_eq!(needed(5, &["a", "A", "b"], "p"), Some(1));
    let few = |count, names: &[&str], primary: &str| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let (choice, primary, before) = (ReplicaChoice::Any, primary.to_owned(), Vec::new());
        SynchronousReplicas { count, choice, names, primary, before }.is_promised_by_few()
    };
    assert!(few(1, &["p", "a"], "p") && few(2, &["p", "a", "b"], "p") && few(2, &["p", "a", "b", "c"], "p"));
    assert!(!few(1, &["a", "b"], "p") && !few(1, &["p", "a", "b"], "p") && !few(1, &["a"], "p"));
    assert!(!few(1, &["a", "*"], "p"), "nobody is promoted by that");
    assert_eq!(needed(1, &["a", "*"], "p"), None);
}

#[test]
fn while_one_list_follows_another_both_are_waited_for() {
    let replicas = requiring(1, ReplicaChoice::Any, &["a"]);
    let [a, b] = ["a", "b"].map(|name| replicas.add(name));
    flushed(&replicas, a, 100);
    assert!(has(&replicas, 100));
    let names = vec!["b".to_owned()];
    let (primary, before) = Default::default();
    let next = SynchronousReplicas { count: 1, choice: ReplicaChoice::Any, names, primary, before };
    replicas.require_both(next);
    replicas.end_before(Lsn::new(150));
    flushed(&replicas, b, 400);
    assert!(has(&replicas, 100) && !has(&replicas, 101), "a has not got the change");
    flushed(&replicas, a, 150);
    assert!(has(&replicas, 400) && !has(&replicas, 401), "from there on only b is asked");
    replicas.require(None);
    assert!(has(&replicas, 1_000));
}

#[test]
fn a_change_that_was_not_made_leaves_all_that_were_waited_for() {
    let list = |name: &str| SynchronousReplicas {
        count: 1,
        choice: ReplicaChoice::Any,
        names: vec![name.to_owned()],
        primary: String::new(),
        before: Vec::new(),
    };
    let replicas = requiring(1, ReplicaChoice::Any, &["a"]);
    let [a, b, c] = ["a", "b", "c"].map(|name| replicas.add(name));
    replicas.require_both(list("b"));
    replicas.end_before(Lsn::new(150));
    replicas.require_both(list("c"));
    replicas.take_back();
    flushed(&replicas, c, 500);
    flushed(&replicas, b, 500);
    assert!(!has(&replicas, 1), "a has not got the first change");
    flushed(&replicas, a, 150);
    assert!(has(&replicas, 500));
    assert_eq!(replicas.required(), Some(list("b")));
    // The first list of all.
    let replicas = Replicas::default();
    replicas.require_both(list("a"));
    replicas.take_back();
    assert!(!replicas.are_required());
}

/// Fails if the lists before are forgotten when a store is opened: a machine that goes by one of them could be promoted without
/// what was acknowledged since.
#[test]
fn one_that_is_opened_while_one_list_follows_another_waits_for_both() {
    let list = |name: &str, before| {
        let (names, primary) = (vec![name.to_owned()], String::new());
        SynchronousReplicas { count: 1, choice: ReplicaChoice::Any, names, primary, before }
    };
    let joint = list("b", vec![list("a", Vec::new())]);
    let replicas = Replicas::new(Some(joint.clone()), Lsn::new(100));
    let [a, b] = ["a", "b"].map(|name| replicas.add(name));
    flushed(&replicas, b, 200);
    assert!(!has(&replicas, 1) && !replicas.have_recovered());
    assert_eq!(replicas.lists_beside(&joint), vec![list("a", Vec::new())]);
    flushed(&replicas, a, 100);
    assert!(has(&replicas, 200) && replicas.have_recovered());
    assert_eq!(replicas.lists_beside(&joint), vec![]);
}

/// Fails if the new list alone says whether anybody is waited for.
#[test]
fn a_list_of_nobody_else_waits_for_the_one_before() {
    let replicas = requiring(1, ReplicaChoice::Any, &["own", "a"]);
    replicas.set_own_name("own");
    let (names, primary, before) = (vec!["own".to_owned()], String::new(), Vec::new());
    replicas.require_both(SynchronousReplicas {
        count: 1,
        choice: ReplicaChoice::Any,
        names,
        primary,
        before,
    });
    replicas.end_before(Lsn::new(50));
    assert!(replicas.are_required() && !has(&replicas, 1));
    let a = replicas.add("a");
    flushed(&replicas, a, 49);
    assert!(has(&replicas, 49) && !has(&replicas, 50));
    flushed(&replicas, a, 50);
    assert!(!replicas.are_required() && has(&replicas, 1_000));
}

/// Fails if it asks for as many as a listed one: whoever goes by that list counts its primary among those that have what was
/// acknowledged, and asks one machine less for its promise.
#[test]
fn a_primary_that_the_list_before_does_not_name_asks_one_more_of_it() {
    let list = |names: &[&str], primary: &str, before| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let (count, choice, primary) = (1, ReplicaChoice::Any, primary.to_owned());
        SynchronousReplicas { count, choice, names, primary, before }
    };
    let before = list(&["a", "b", "c"], "a", Vec::new());
    assert_eq!(before.promises_needed(), Some(2));
    for (own, reached) in [("b", 100), ("z", 60)] {
        let required = list(&[own, "a"], own, vec![before.clone()]);
        let replicas = Replicas::new(Some(required), Lsn::new(1_000));
        replicas.set_own_name(own);
        let [a, c] = ["a", "c"].map(|name| replicas.add(name));
        flushed(&replicas, a, 100);
        flushed(&replicas, c, 60);
        assert!(has(&replicas, reached) && !has(&replicas, reached + 1), "{own}");
    }
}

/// Fails if lists of the same machines are one whoever has written them down. A primary that is none of them and is opened again would
/// ask for one machine less than those count on who go by the older list.
#[test]
fn a_list_that_counts_its_primary_stays_beside_one_that_does_not() {
    let list = |names: &[&str], primary: &str| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let (count, choice, primary) = (1, ReplicaChoice::Any, primary.to_owned());
        SynchronousReplicas { count, choice, names, primary, before: Vec::new() }
    };
    let (listed, other) = (list(&["a", "b", "c"], "a"), list(&["z", "a"], "z"));
    let joint = SynchronousReplicas { before: vec![listed.clone()], ..other.clone() };
    // It has been promoted by the newer list, and goes back to the older one.
    let replicas = Replicas::new(Some(joint), Lsn::new(100));
    replicas.set_own_name("z");
    let back = list(&["a", "b", "c"], "z");
    assert_eq!((listed.promises_needed(), back.promises_needed()), (Some(2), Some(3)));
    assert_eq!(replicas.lists_beside(&list(&["a", "b", "c"], "b")), vec![other.clone()]);
    let before = replicas.lists_beside(&back);
    assert_eq!(before, vec![listed, other]);

    let replicas = Replicas::new(Some(SynchronousReplicas { before, ..back }), Lsn::new(200));
    replicas.set_own_name("z");
    let [a, b] = ["a", "b"].map(|name| replicas.add(name));
    flushed(&replicas, a, 300);
    assert!(!has(&replicas, 1), "whoever asks two of the three may find the two others");
    flushed(&replicas, b, 150);
    assert!(has(&replicas, 150) && !has(&replicas, 151));
}

/// Fails if the newest list alone says what a replica is to commits.
#[test]
fn whoever_the_list_before_asks_for_is_shown_as_waited_for() {
    let replicas = requiring(1, ReplicaChoice::First, &["a", "b"]);
    let [a, b, c] = ["a", "b", "c"].map(|name| replicas.add(name));
    let names = ["b", "c"].map(str::to_owned).to_vec();
    let (primary, before) = Default::default();
    let next = SynchronousReplicas { count: 1, choice: ReplicaChoice::Any, names, primary, before };
    replicas.require_both(next);
    replicas.end_before(Lsn::new(50));
    let roles = || [a, b, c].map(|number| replicas.standing(number).unwrap().role);
    assert_eq!(roles(), [ReplicaRole::Synchronous(1), ReplicaRole::Quorum, ReplicaRole::Quorum]);
    flushed(&replicas, b, 50);
    flushed(&replicas, a, 50);
    assert_eq!(roles(), [ReplicaRole::Asynchronous, ReplicaRole::Quorum, ReplicaRole::Quorum]);
}
