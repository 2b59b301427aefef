// SPDX-License-Identifier: Apache-2.0
//! [`MessageFrame`]: messages to one node that go into one frame.
//!
//! Why: a load has an append for each of its bricks, and an answer to each. In a frame of its own, each would cost the queues, the
//! connection and the receiver's lock once; most of them are made at the same moment.

use super::frame::{ANOTHER, FrameKind, NO_MORE, ONE, SEVERAL};
use super::{VERSION, Wire};
use crate::brick_change::BrickChange;
use bytes::Bytes;
use coeval_txn::cluster::{Body, EpochKind, Message};

/// With so many bytes a frame takes no further message: large enough that what a frame costs does not matter, and so small that the
/// first rows of a load are on their way while others are made bytes.
const FRAME_BYTES: usize = 256 << 10;

/// So many bytes of rows are worth the room of a whole frame.
const LARGE_BYTES: usize = 32 << 10;
/// Bytes of a message around the rows in it, and more than those.
const ENVELOPE_BYTES: usize = 256;

/// How a frame with several messages begins: version, kind, and that a message follows.
const HEAD: [u8; 3] = [VERSION, SEVERAL, ANOTHER];
/// The same for a frame with one message.
const HEAD_OF_ONE: [u8; 2] = [VERSION, ONE];

/// Messages to one node, as the bytes of a frame. One that is alone has the form that it has always had.
#[derive(Debug, Default)]
pub(crate) struct MessageFrame {
    /// The frame without its end.
    bytes: Vec<u8>,
    /// What is counted of each message, in their order.
    counted: Vec<(FrameKind, usize)>,
    is_awaited: bool,
}

/// Whether a message may wait for the next one to the same node, which a frame of its own would cost as much as. Nobody waits for a
/// `Heard`. The answer to a load's begin is waited for by its commit, and its first rows come before that.
fn may_wait(message: &Message<BrickChange>) -> bool {
    matches!(message.body, Body::Heard(_) | Body::Begin(_, EpochKind::Load))
}

impl MessageFrame {
    /// Puts a message behind the others. If these would be enough with it, or more than the bytes that a frame may have, they are given
    /// in a frame without it.
    pub(crate) fn push(&mut self, message: &Message<BrickChange>, bytes_max: usize) -> Option<Self> {
        let limit = FRAME_BYTES.min(bytes_max);
        let rows = match &message.body {
            Body::Append { rows, .. } => rows.size(),
            _ => 0,
        };
        // Rows that do not fit are not put here first, to be moved to the next frame.
        let is_full = !self.counted.is_empty() && self.bytes.len() + rows > limit;
        let full = is_full.then(|| std::mem::take(self));
        self.make_room(rows, limit);
        let moved = self.put(message, limit);
        full.or(moved)
    }

    /// Makes room for so many bytes of rows: if they are many, for as many more as the frame may have. Else what is in it would be copied
    /// each time that it has doubled.
    fn make_room(&mut self, rows: usize, limit: usize) {
        let room = self.bytes.capacity() - self.bytes.len();
        if rows >= LARGE_BYTES && room < rows + ENVELOPE_BYTES {
            self.bytes.reserve_exact(rows.max(limit) + ENVELOPE_BYTES);
        }
    }

    /// Puts a message behind the others, or if they are too many with it, into the next frame; gives this one then.
    fn put(&mut self, message: &Message<BrickChange>, limit: usize) -> Option<Self> {
        let mark = self.bytes.len();
        if self.counted.is_empty() {
            self.bytes.extend_from_slice(&HEAD);
        } else {
            self.bytes.push(ANOTHER);
        }
        let start = self.bytes.len();
        message.put(&mut self.bytes);
        let counted = (FrameKind::of_message(message), self.bytes.len() - start);
        // With what stands behind the last one.
        let bytes = self.bytes.len() + 1;
        let full = (mark > 0 && bytes > limit).then(|| {
            let mut next = Self::default();
            next.bytes.extend_from_slice(&HEAD);
            next.bytes.extend_from_slice(&self.bytes[start..]);
            self.bytes.truncate(mark);
            std::mem::replace(self, next)
        });
        self.counted.push(counted);
        self.is_awaited |= !may_wait(message);
        full
    }

    /// Whether it is to be sent now: somebody may wait for one of the messages.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// The frame, and what is counted of it.
    ///
    /// # Panics
    /// If there is no message in it.
    pub(crate) fn finish(mut self) -> (Bytes, Vec<(FrameKind, usize)>) {
        assert!(!self.counted.is_empty(), "a frame has messages");
        // Queues are bounded by what frames have, not by what they have room for.
        if self.bytes.capacity() / 4 > self.bytes.len() {
            self.bytes.shrink_to_fit();
        }
        if self.counted.len() == 1 {
            let skipped = HEAD.len() - HEAD_OF_ONE.len();
            self.bytes[skipped..HEAD.len()].copy_from_slice(&HEAD_OF_ONE);
            return (Bytes::from(self.bytes).slice(skipped..), self.counted);
        }
        self.bytes.push(NO_MORE);
        (self.bytes.into(), self.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Incarnation, NodeId};
    use crate::wire::{Frame, decode, encode};
    use coeval_txn::Epoch;
    use coeval_txn::cluster::{BrickAddress, Member, ViewNumber};

    const MAX: usize = 16 << 20;

    fn append(number: u32, bytes: usize) -> Message<BrickChange> {
        let member = |node| Member { node: NodeId::new(node), incarnation: Incarnation::new(5) };
        let (epoch, brick) = (Epoch::new(9), BrickAddress { table: 1, brick: 2 });
        let rows = BrickChange::Rows(vec![7; bytes].into());
        let body = Body::Append { epoch, number, brick, rows };
        Message { from: member(1), to: member(2), view: ViewNumber::new(1), clock: epoch, body }
    }

    #[test]
    fn one_message_has_the_form_of_one_that_comes_by_itself() {
        let mut frame = MessageFrame::default();
        assert!(frame.push(&append(0, 3), MAX).is_none());
        let (bytes, counted) = frame.finish();
        assert_eq!(bytes, encode(&Frame::Protocol(append(0, 3))));
        assert_eq!(counted, [(FrameKind::Append, bytes.len() - 2)]);
    }

    #[test]
    fn a_frame_is_awaited_from_the_first_message_that_is() {
        let epoch = Epoch::new(9);
        let mut frame = MessageFrame::default();
        for body in [Body::Heard(epoch), Body::Begin(epoch, EpochKind::Load)] {
            assert!(frame.push(&Message { body, ..append(0, 1) }, MAX).is_none());
            assert!(!frame.is_awaited());
        }
        assert!(frame.push(&append(0, FRAME_BYTES), MAX).is_some_and(|full| !full.is_awaited()));
        assert!(frame.is_awaited());
        let mut frame = MessageFrame::default();
        let body = Body::Begin(epoch, EpochKind::Delete);
        assert!(frame.push(&Message { body, ..append(0, 1) }, MAX).is_none());
        assert!(frame.is_awaited(), "a delete goes on with the answer");
    }

    #[test]
    fn several_come_as_they_were_put_in_each_with_its_bytes() {
        let mut frame = MessageFrame::default();
        let sent: Vec<_> = (0..3).map(|number| append(number, 10 * number as usize)).collect();
        assert!(sent.iter().all(|message| frame.push(message, MAX).is_none()));
        let (bytes, counted) = frame.finish();
        let Ok(Frame::Several(framed)) = decode(bytes) else { panic!("it is a frame with several") };
        assert!(framed.iter().map(|framed| &framed.message).eq(&sent));
        assert_eq!(Frame::Several(framed).counted(0), counted);
    }

    /// To break it: leave out `make_room`, or that a frame gives room back.
    #[test]
    fn a_frame_with_rows_has_room_for_more_and_does_not_keep_it() {
        let mut frame = MessageFrame::default();
        assert!(frame.push(&append(0, LARGE_BYTES), MAX).is_none());
        let room = frame.bytes.capacity();
        assert!(room >= FRAME_BYTES);
        for number in 1..7 {
            assert!(frame.push(&append(number, LARGE_BYTES), MAX).is_none());
        }
        assert_eq!(frame.bytes.capacity(), room, "nothing that was in it was copied");
        let mut alone = MessageFrame::default();
        assert!(alone.push(&append(0, LARGE_BYTES), MAX).is_none());
        let (bytes, _) = alone.finish();
        let kept = bytes.try_into_mut().map(|bytes| bytes.capacity());
        assert!(kept.is_ok_and(|kept| kept < 4 * LARGE_BYTES));
    }

    /// To break it: put a large message behind others. No node takes a frame of more bytes than it bounds.
    #[test]
    fn what_would_be_too_much_goes_into_the_next_frame() {
        for (bytes_max, most) in [(MAX, FRAME_BYTES), (1_000, 1_000)] {
            let mut frame = MessageFrame::default();
            let alone = frame.push(&append(0, 2 * most), bytes_max);
            assert!(alone.is_none(), "one that is alone may be larger");
            let first = frame.push(&append(1, 1), bytes_max).expect("nothing goes behind it");
            assert!(frame.push(&append(2, 1), bytes_max).is_none());
            let second = frame.push(&append(3, most), bytes_max).expect("all together are too much");
            for (frame, numbers) in [(first, 0..1), (second, 1..3), (frame, 3..4)] {
                let (bytes, counted) = frame.finish();
                let messages = match decode(bytes.clone()) {
                    Ok(Frame::Protocol(message)) => vec![message],
                    Ok(Frame::Several(framed)) => framed.into_iter().map(|framed| framed.message).collect(),
                    other => panic!("{other:?} is no frame with messages"),
                };
                let number = |message: &Message<BrickChange>| match message.body {
                    Body::Append { number, .. } => number,
                    _ => panic!("it is an append"),
                };
                assert_eq!(counted.len(), messages.len());
                assert!(messages.iter().map(number).eq(numbers));
                assert!(messages.len() == 1 || bytes.len() <= most);
            }
        }
    }
}
