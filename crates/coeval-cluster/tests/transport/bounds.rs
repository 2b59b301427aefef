// SPDX-License-Identifier: Apache-2.0
//! A node that takes frames slowly, or not at all, costs others neither memory nor time.

use crate::frames::frame;
use crate::nodes::{Node, ONE, THREE, TWO, options, place, wait_until};
use coeval_cluster::SendError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn a_node_that_does_not_take_frames_fills_its_own_queue_and_slows_no_other() {
    const SILENCE: Duration = Duration::from_secs(6);
    let places = [place(ONE), place(TWO), place(THREE)];
    let known: Vec<_> = places.iter().map(|place| (place.node, place.address.clone())).collect();
    let [one, two, three] = places.map(|place| {
        let mut options = options(&place);
        options.bounds.queued_bytes = 4 << 20;
        options.timeouts.silence = SILENCE;
        Node::start(options, place.listener, known.clone())
    });
    // It hangs in the first frame: its connection is alive all the same.
    two.recorder.frame_ms.store(3_600_000, Ordering::SeqCst);
    let (mut taken, mut refusal) = (0_usize, None);
    let until = Instant::now() + SILENCE + Duration::from_secs(1);
    let mut round = 0_u64;
    while Instant::now() < until || round < 200 {
        match one.peers().send(TWO, frame(round, 64 << 10)) {
            Ok(()) => taken += 64 << 10,
            Err(error) => refusal = Some(error),
        }
        one.peers().send(THREE, frame(round, 8)).unwrap();
        round += 1;
        // Behind those that are not taken it would never come.
        wait_until("the other node has it", || three.recorder.count() as u64 == round);
    }
    let Some(SendError::Full { node: TWO, bytes, frames }) = refusal else { panic!("{refusal:?}") };
    assert!(bytes <= 4 << 20 && frames == bytes >> 16, "{refusal:?}");
    // What is out of the queue is in windows of the connection and in buffers of the system.
    assert!(taken < 32 << 20, "{taken} bytes were taken for a node that takes none");
    let shown = one.shown(TWO);
    assert_eq!(shown.last_error.map(|(_, error)| error.to_string()), None);
    assert_eq!((shown.counters.connections, shown.queued_bytes), (1, bytes));
}

#[test]
fn a_slow_node_gets_all_that_was_taken_for_it() {
    let (one, two) = crate::nodes::pair_with(|options| options.bounds.queued_frames = 10);
    two.recorder.frame_ms.store(2, Ordering::SeqCst);
    let (mut number, mut refused) = (0, 0);
    // The queue is full at some time, however slowly it is filled.
    while number < 300 || (refused == 0 && number < 3_000) {
        match one.peers().send(TWO, frame(number, 60_000)) {
            Ok(()) => number += 1,
            Err(_) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    wait_until("all arrive", || two.recorder.count() as u64 == number);
    assert!((0..).zip(two.recorder.take()).all(|(number, arrived)| arrived == frame(number, 60_000)));
    assert!(refused > 0);
    assert_eq!(one.shown(TWO).counters.frames_refused, refused);
}
