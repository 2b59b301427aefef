// SPDX-License-Identifier: Apache-2.0
//! Connections that are cut, stalled, or do not come about.

use crate::frames::frame;
use crate::nodes::{Node, ONE, Place, TWO, options, place, wait_for, wait_until};
use crate::proxy::{Control, lead};
use coeval_cluster::{CallError, ConnectionState, LinkError, NodeAddress, TransportOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Two nodes; whoever goes to the second goes through the proxy, which is at the address that it is known by.
fn behind_a_proxy() -> (Node, Node, Arc<Control>) {
    behind_a_proxy_with(|_| {})
}

fn behind_a_proxy_with(change: impl Fn(&mut TransportOptions)) -> (Node, Node, Arc<Control>) {
    let (one, two) = (place(ONE), place(TWO));
    let inner = std::net::TcpListener::bind("127.0.0.22:0").unwrap();
    let control = lead(two.listener.try_clone().unwrap(), inner.local_addr().unwrap());
    let known: [_; 2] = [(ONE, one.address.clone()), (TWO, two.address.clone())];
    let changed = |place: &Place| {
        let mut options = options(place);
        change(&mut options);
        options
    };
    let first = Node::start(changed(&one), one.listener, known.clone());
    let second = Node::start(changed(&two), inner, known);
    (first, second, control)
}

/// The numbers of the frames that have arrived, each of which is whole.
fn numbers(node: &Node) -> Vec<u64> {
    let number = |bytes: bytes::Bytes| {
        let number = u64::from_be_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes == frame(number, bytes.len()), "frame {number} is torn");
        number
    };
    node.recorder.frames().into_iter().map(number).collect()
}

#[test]
fn frames_behind_a_cut_arrive_and_none_arrives_twice_or_out_of_order() {
    let (one, two, control) = behind_a_proxy();
    let mut number = 0;
    for round in 0..20 {
        let (begin, enough) = (Instant::now(), two.recorder.count() + 30);
        let is_through = || two.recorder.count() >= enough && one.shown(TWO).counters.connections > round;
        while begin.elapsed() < Duration::from_millis(60) || !is_through() {
            assert!(begin.elapsed() < Duration::from_secs(20), "nothing arrives behind cut {round}");
            let length = 8 + (number as usize * 7_919) % 40_000;
            if one.peers().send(TWO, frame(number, length)).is_ok() {
                number += 1;
            }
        }
        control.cut();
    }
    let last = number;
    wait_until("a frame arrives behind the last cut", || {
        one.peers().send(TWO, frame(last, 8)).unwrap();
        numbers(&two).last() == Some(&last)
    });
    let arrived = numbers(&two);
    let before: Vec<_> = arrived.iter().copied().filter(|number| *number < last).collect();
    assert!(before.is_sorted_by(|a, b| a < b), "an order that nobody sent, or one twice");
    let counters = one.shown(TWO).counters;
    assert!(counters.reconnections >= 15, "{counters:?}");
    let lost = last - before.len() as u64;
    assert!(lost > 0 && lost <= counters.frames_dropped, "{lost} are lost, and {counters:?}");
}

#[test]
fn a_node_that_is_not_there_is_tried_again_with_pauses_and_reached_when_it_is() {
    let (one, two, control) = behind_a_proxy();
    control.close();
    one.peers().send(TWO, "x").unwrap();
    wait_until("it is tried", || one.shown(TWO).counters.failed_connections >= 3);
    assert!(
        matches!(one.reason(TWO), LinkError::Stranger { .. } | LinkError::Ended { .. }),
        "{}",
        one.reason(TWO)
    );
    let (before, begin) = (control.made(), Instant::now());
    std::thread::sleep(Duration::from_millis(1_000));
    wait_until("it is tried again", || control.made() >= before + 3);
    let attempts = control.made() - before;
    let least = begin.elapsed() / attempts as u32;
    assert!(least >= Duration::from_millis(100), "{least:?} between two, with pauses up to 200 ms");
    control.open();
    wait_until("the frame arrives", || two.recorder.count() == 1);
    wait_until("it is connected", || one.shown(TWO).connection == ConnectionState::Connected);
    // It was never connected before.
    assert_eq!((one.shown(TWO).counters.connections, one.shown(TWO).counters.reconnections), (1, 0));
}

#[test]
fn a_connection_that_falls_silent_is_noticed_and_made_anew() {
    let (one, two, control) =
        behind_a_proxy_with(|options| options.timeouts.silence = Duration::from_millis(600));
    one.peers().send(TWO, "before").unwrap();
    wait_until("it is connected", || two.recorder.count() == 1);
    control.stall();
    let error = one.reason(TWO);
    assert!(matches!(error, LinkError::Silent { .. }), "{error}");
    // As long as it is stalled, no greeting comes back, and that is what is said.
    one.peers().send(TWO, "after").unwrap();
    let in_vain = wait_for("a greeting is waited for in vain", || {
        one.shown(TWO)
            .last_error
            .map(|(_, error)| error)
            .filter(|error| matches!(error, LinkError::TimedOut { .. }))
    });
    assert!(in_vain.to_string().contains("a greeting was waited for, for 2000 ms"), "{in_vain}");
    control.cut();
    control.go_on();
    wait_until("the frame arrives", || two.recorder.frames().last().is_some_and(|frame| frame == "after"));
}

#[test]
fn a_slow_way_is_no_silence() {
    const SILENCE: Duration = Duration::from_secs(6);
    let (one, two, control) = behind_a_proxy_with(|options| options.timeouts.silence = SILENCE);
    control.set_delay_ms(300);
    let (mut number, until) = (0, Instant::now() + SILENCE + Duration::from_secs(1));
    while Instant::now() < until {
        one.peers().send(TWO, frame(number, 8)).unwrap();
        number += 1;
        std::thread::sleep(Duration::from_millis(250));
    }
    wait_until("all arrive", || two.recorder.count() as u64 == number);
    let counters = one.shown(TWO).counters;
    assert_eq!((counters.connections, counters.frames_dropped), (1, 0));
}

#[test]
fn a_listener_that_never_answers_is_named_and_keeps_the_queue_bounded() {
    let (one, silent) = (place(ONE), place(TWO));
    let address: NodeAddress = silent.address.clone();
    let mut few = options(&one);
    few.bounds.queued_frames = 100;
    let node = Node::start(few, one.listener, [(TWO, address)]);
    let refused = (0..1_000).filter(|_| node.peers().send(TWO, "x").is_err()).count();
    assert_eq!(refused, 900);
    let error = node.reason(TWO).to_string();
    assert!(error.contains("a greeting was waited for"), "{error}");
    assert_eq!((node.shown(TWO).queued_frames, node.shown(TWO).counters.frames_refused), (100, 900));
    let Place { listener, .. } = silent;
    drop(listener);
    wait_until("nobody is there", || matches!(node.reason(TWO), LinkError::Unreachable { .. }));
}

#[test]
fn a_new_connection_hands_over_nothing_before_the_old_one_has_stopped() {
    let (one, two, control) = behind_a_proxy();
    two.recorder.frame_ms.store(100, Ordering::SeqCst);
    for number in 0..10 {
        one.peers().send(TWO, frame(number, 8)).unwrap();
    }
    wait_until("some have arrived", || two.recorder.count() >= 2);
    control.cut();
    wait_until("the sender knows of the cut", || one.shown(TWO).last_error.is_some());
    for number in 10..13 {
        one.peers().send(TWO, frame(number, 8)).unwrap();
    }
    wait_until("the last one arrives", || numbers(&two).last() == Some(&12));
    assert!(numbers(&two).is_sorted_by(|a, b| a < b), "{:?}", numbers(&two));
    assert_eq!(two.recorder.most_in_hand.load(Ordering::SeqCst), 1);
}

#[test]
fn many_calls_that_are_given_up_at_once_do_not_end_the_connection() {
    let (one, two, control) = behind_a_proxy_with(|options| {
        options.timeouts.call = Duration::from_millis(300);
        options.timeouts.silence = Duration::from_secs(20);
    });
    // Some take longer than they may where a thread gets no core; they do not end the connection either.
    let answers = || one.call(TWO, b"who").is_ok_and(|answer| answer == "n1");
    wait_until("it answers", answers);
    control.stall();
    one.runtime.block_on(async {
        let calls = (0..200).map(|_| one.peers().call(TWO, "hang"));
        for answer in futures::future::join_all(calls).await {
            assert!(matches!(answer, Err(CallError::TimedOut { .. })), "{answer:?}");
        }
    });
    // All of them, and that nobody waits for them, arrive at once.
    control.go_on();
    for _ in 0..20 {
        wait_until("it answers as ever", answers);
    }
    assert_eq!(two.shown(ONE).counters.connections_received, 1);
    wait_until("the requests are given up", || two.recorder.answering.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_connection_that_the_sender_has_given_up_does_not_hold_up_the_next_one() {
    // The receiver does not notice for a minute that nothing comes by the first one.
    let (one, two, control) = behind_a_proxy_with(|options| {
        let seconds = if options.node == TWO { 60 } else { 4 };
        options.timeouts.silence = Duration::from_secs(seconds);
    });
    one.peers().send(TWO, "by the first").unwrap();
    wait_until("it is connected", || two.recorder.count() == 1);
    control.forget_connections();
    assert!(matches!(one.reason(TWO), LinkError::Silent { .. }));
    one.peers().send(TWO, "by the second").unwrap();
    wait_until("the frame arrives", || two.recorder.count() == 2);
}
