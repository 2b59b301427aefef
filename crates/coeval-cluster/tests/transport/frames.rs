// SPDX-License-Identifier: Apache-2.0
//! Frames arrive in order, whole and once.

use crate::nodes::{ONE, TWO, pair, wait_until};
use bytes::Bytes;
use coeval_cluster::{ConnectionState, Incarnation, SendError, Sender};
use std::time::Duration;

/// A frame of a length that says its number in every eight bytes, as far as they go.
pub(crate) fn frame(number: u64, length: usize) -> Bytes {
    let mut bytes = number.to_be_bytes().repeat(length.div_ceil(8));
    bytes.truncate(length);
    bytes.into()
}

/// Lengths from nothing to 4 MiB, most of them short.
fn length(number: u64) -> usize {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    match number % 50 {
        0 => 4 << 20,
        1 => 0,
        2 => 1,
        3..8 => (mixed % (256 << 10)) as usize,
        _ => (mixed % 300) as usize,
    }
}

#[test]
fn frames_of_all_lengths_arrive_in_order_and_whole() {
    const FRAMES: u64 = 3_000;
    let (one, two) = pair();
    for number in 0..FRAMES {
        // The queue holds less than all of it: whoever sends comes again.
        while let Err(error) = one.peers().send(TWO, frame(number, length(number))) {
            assert!(matches!(error, SendError::Full { .. }), "{error}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    wait_until("all frames arrive", || two.recorder.count() as u64 == FRAMES);
    for (number, arrived) in (0..).zip(two.recorder.frames()) {
        assert!(arrived == frame(number, length(number)), "frame {number} of {} bytes", arrived.len());
    }
    let sender = Sender { node: ONE, incarnation: Incarnation::new(1) };
    assert!(two.recorder.senders().iter().all(|found| *found == sender));
}

#[test]
fn both_directions_are_counted() {
    let (one, two) = pair();
    assert_eq!(one.shown(TWO).connection, ConnectionState::Unused);
    one.peers().send(TWO, "abc").unwrap();
    one.peers().send(TWO, "").unwrap();
    two.peers().send(ONE, "de").unwrap();
    wait_until("frames arrive", || one.recorder.count() == 1 && two.recorder.count() == 2);
    // A frame may be there before the sender hears that it is taken.
    wait_until("it is connected", || one.shown(TWO).connection == ConnectionState::Connected);
    let shown = one.shown(TWO);
    let counters = shown.counters;
    assert_eq!((counters.frames_sent, counters.frame_bytes_sent), (2, 3));
    assert_eq!((counters.frames_received, counters.frame_bytes_received), (1, 2));
    assert_eq!((counters.connections, counters.connections_received, counters.reconnections), (1, 1, 0));
    assert_eq!(
        (shown.connection, shown.queued_frames, shown.queued_bytes),
        (ConnectionState::Connected, 0, 0)
    );
    assert_eq!(shown.incarnation, Some(Incarnation::new(1)));
    assert!(counters.named().any(|named| named == ("frames_sent", 2)));
}

#[test]
fn what_cannot_be_sent_is_said() {
    let (one, _two) = pair();
    assert_eq!(one.peers().send(crate::nodes::THREE, "x"), Err(SendError::Unknown(crate::nodes::THREE)));
    // Nobody sends to itself by a socket.
    assert_eq!(one.peers().send(ONE, "x"), Err(SendError::Unknown(ONE)));
    let long = vec![0; (16 << 20) + 1];
    assert!(matches!(one.peers().send(TWO, long), Err(SendError::TooLong { .. })));
}
