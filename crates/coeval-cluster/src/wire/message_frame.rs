// SPDX-License-Identifier: Apache-2.0
//! [`MessageFrame`]: messages to one node that go into one frame.
//!
//! Why: a load has an append for each of its bricks, and an answer to each. In a frame of its own, each would cost the queues, the
//! connection and the receiver's lock once; most of them are made at the same moment.

use super::frame::{ANOTHER, FrameKind, NO_MORE, ONE, SEVERAL};
use super::{VERSION, Wire};
use crate::brick_change::BrickChange;
use bytes::Bytes;
use coeval_txn::cluster::Message;

/// With so many bytes a frame takes no further message: large enough that what a frame costs does not matter, and so small that the
/// first rows of a load are on their way while others are made bytes.
const FRAME_BYTES: usize = 256 << 10;

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
}

impl MessageFrame {
    /// Puts a message behind the others. If these are enough, or too many bytes with it, they are given in a frame without it.
    pub(crate) fn push(&mut self, message: &Message<BrickChange>) -> Option<Self> {
        let mark = self.bytes.len();
        if self.counted.is_empty() {
            self.bytes.extend_from_slice(&HEAD);
        } else {
            self.bytes.push(ANOTHER);
        }
        let start = self.bytes.len();
        message.put(&mut self.bytes);
        let counted = (FrameKind::of_message(message), self.bytes.len() - start);
        let full = (mark > 0 && self.bytes.len() > FRAME_BYTES).then(|| {
            let mut next = Self::default();
            next.bytes.extend_from_slice(&HEAD);
            next.bytes.extend_from_slice(&self.bytes[start..]);
            self.bytes.truncate(mark);
            std::mem::replace(self, next)
        });
        self.counted.push(counted);
        full
    }

    /// The frame, and what is counted of it.
    ///
    /// # Panics
    /// If there is no message in it.
    pub(crate) fn finish(mut self) -> (Bytes, Vec<(FrameKind, usize)>) {
        assert!(!self.counted.is_empty(), "a frame has messages");
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
    use coeval_txn::cluster::{Body, BrickAddress, Member, ViewNumber};

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
        assert!(frame.push(&append(0, 3)).is_none());
        let (bytes, counted) = frame.finish();
        assert_eq!(bytes, encode(&Frame::Protocol(append(0, 3))));
        assert_eq!(counted, [(FrameKind::Append, bytes.len() - 2)]);
    }

    #[test]
    fn several_come_as_they_were_put_in_each_with_its_bytes() {
        let mut frame = MessageFrame::default();
        let sent: Vec<_> = (0..3).map(|number| append(number, 10 * number as usize)).collect();
        assert!(sent.iter().all(|message| frame.push(message).is_none()));
        let (bytes, counted) = frame.finish();
        let Ok(Frame::Several(framed)) = decode(bytes) else { panic!("it is a frame with several") };
        assert!(framed.iter().map(|framed| &framed.message).eq(&sent));
        assert_eq!(Frame::Several(framed).counted(0), counted);
    }

    /// To break it: put a large message behind others. No node takes a frame of more bytes than it bounds.
    #[test]
    fn what_would_be_too_much_goes_into_the_next_frame() {
        let mut frame = MessageFrame::default();
        assert!(frame.push(&append(0, 2 * FRAME_BYTES)).is_none(), "one that is alone may be larger");
        let first = frame.push(&append(1, 1)).expect("nothing goes behind it");
        let second = frame.push(&append(2, FRAME_BYTES)).expect("both together are too much");
        for (frame, number) in [(first, 0), (second, 1), (frame, 2)] {
            let (bytes, counted) = frame.finish();
            let Ok(Frame::Protocol(message)) = decode(bytes) else { panic!("it is a frame with one") };
            let Body::Append { number: found, .. } = message.body else { panic!("it is an append") };
            assert_eq!((found, counted.len()), (number, 1));
        }
    }
}
