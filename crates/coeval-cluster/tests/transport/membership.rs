// SPDX-License-Identifier: Apache-2.0
//! Nodes that come, go and move.

use crate::nodes::{Node, ONE, THREE, TWO, options, pair, place, wait_until};
use coeval_cluster::{CallError, ConfigurationError, SendError};

#[test]
fn a_node_that_is_taken_from_the_list_is_cut_off_in_both_directions() {
    let (one, two) = pair();
    let (first, second) = (two.shown(ONE).address, one.shown(TWO).address);
    one.peers().send(TWO, "x").unwrap();
    two.peers().send(ONE, "x").unwrap();
    wait_until("both are connected", || one.recorder.count() == 1 && two.recorder.count() == 1);
    one.peers().set_nodes([(ONE, first.clone())]).unwrap();
    assert_eq!(one.peers().send(TWO, "x"), Err(SendError::Unknown(TWO)));
    assert!(matches!(one.call(TWO, b"who"), Err(CallError::Unknown(TWO))));
    wait_until("the other one is cut off", || two.shown(ONE).last_error.is_some());
    // It comes back.
    one.peers().set_nodes([(ONE, first), (TWO, second)]).unwrap();
    one.peers().send(TWO, "y").unwrap();
    wait_until("it is reached", || two.recorder.count() == 2);
    wait_until("it reaches", || {
        let _ = two.peers().send(ONE, "y");
        one.recorder.count() > 1
    });
}

#[test]
fn a_node_that_moves_is_reached_where_it_is() {
    let (one, two) = pair();
    one.peers().send(TWO, "x").unwrap();
    wait_until("it is reached", || two.recorder.count() == 1);
    let first = two.shown(ONE).address;
    let moved = place(TWO);
    let known = [(ONE, first), (TWO, moved.address.clone())];
    let there = Node::start(options(&moved), moved.listener, known.clone());
    one.peers().set_nodes(known).unwrap();
    one.peers().send(TWO, "y").unwrap();
    wait_until("it is reached there", || there.recorder.count() == 1);
    assert_eq!(two.recorder.count(), 1);
}

#[test]
fn a_list_with_a_node_twice_changes_nothing() {
    let (one, two) = pair();
    let address = one.shown(TWO).address;
    let twice = [(THREE, address.clone()), (THREE, address)];
    assert!(matches!(one.peers().set_nodes(twice), Err(ConfigurationError::Twice(THREE))));
    one.peers().send(TWO, "x").unwrap();
    wait_until("nodes talk as ever", || two.recorder.count() == 1);
}
