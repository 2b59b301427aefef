// SPDX-License-Identifier: Apache-2.0
//! The bytes that came from a client and are not read yet, cut into frames: `kind:u8 length:i32 body`.
//!
//! A frame is handed out only when all of it has come. The buffer grows with what has come, not with what a length
//! promises, and is small again when everything in it has been read.

use super::frontend::{Frontend, violation};
use crate::stream::Stream;
use coeval::SqlError;
use std::io;

/// Bytes that a buffer has room for at least.
const ROOM_MIN: usize = 8 << 10;

/// Kind and length.
const HEADER_BYTES: usize = 5;

/// Longest message of a kind that has no reason to be long: as in PostgreSQL.
const SHORT_MESSAGE_BYTES_MAX: usize = 10_000;

/// How long messages may be that carry statements, values or data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageLimit(pub(crate) usize);

impl MessageLimit {
    fn of_kind(self, kind: u8) -> usize {
        match kind {
            b'Q' | b'P' | b'B' | b'd' | b'F' => self.0,
            _ => SHORT_MESSAGE_BYTES_MAX,
        }
    }
}

/// One message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// What it is.
    pub(crate) kind: u8,
    /// What it holds.
    pub(crate) body: &'a [u8],
    /// The kind of the message behind it, if all of that has come too.
    pub(crate) next: Option<u8>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Input {
    buffer: Vec<u8>,
    /// Where what is not read yet begins.
    start: usize,
    limit: MessageLimit,
}

impl Input {
    /// No bytes yet.
    pub(crate) fn new(limit: MessageLimit) -> Self {
        Self { buffer: Vec::new(), start: 0, limit }
    }

    /// These bytes have come.
    pub(crate) fn of(bytes: &[u8], limit: MessageLimit) -> Self {
        Self { buffer: bytes.to_vec(), start: 0, limit }
    }

    /// Messages may be this long from here on.
    pub(crate) fn set_limit(&mut self, limit: MessageLimit) {
        self.limit = limit;
    }

    /// What has come and is not read yet.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// The memory that it has.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Passes over bytes that have been read.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn advance(&mut self, length: usize) {
        assert!(length <= self.pending().len(), "only what is there is read");
        self.start += length;
    }

    /// Makes room for more bytes; what was needed for what has been read is given up.
    pub(crate) fn make_room(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
            if self.buffer.capacity() > ROOM_MIN {
                self.buffer = Vec::new();
            }
        } else if self.start > 0 && self.buffer.capacity() - self.buffer.len() < ROOM_MIN {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        if self.buffer.capacity() - self.buffer.len() < ROOM_MIN {
            self.buffer.reserve(ROOM_MIN);
        }
    }

    /// Waits for more bytes; how many have come, 0 at the end.
    ///
    /// # Errors
    /// What the connection answers.
    pub(crate) async fn fill(&mut self, stream: &mut Stream) -> io::Result<usize> {
        self.make_room();
        stream.read(&mut self.buffer).await
    }

    /// The next message, if all of it has come.
    ///
    /// # Errors
    /// `08P01` for a kind that there is not or a length that cannot be: where the next message begins is unknown
    /// then.
    pub(crate) fn frame(&mut self) -> Result<Option<Frame<'_>>, SqlError> {
        let Some((kind, length)) = header(self.pending()) else { return Ok(None) };
        if !Frontend::is_known(kind) {
            return Err(violation(format!("invalid frontend message type {kind}")));
        }
        match usize::try_from(length) {
            Ok(length) if length >= 4 && length <= self.limit.of_kind(kind) => {}
            Ok(_) | Err(_) => return Err(violation("invalid message length")),
        }
        let whole = length as usize + 1;
        if self.pending().len() < whole {
            return Ok(None);
        }
        let begin = self.start;
        self.start += whole;
        let next = match header(self.pending()) {
            Some((kind, length)) if usize::try_from(length).is_ok_and(|l| l < self.pending().len()) => {
                Some(kind)
            }
            _ => None,
        };
        Ok(Some(Frame { kind, body: &self.buffer[begin + HEADER_BYTES..begin + whole], next }))
    }
}

fn header(bytes: &[u8]) -> Option<(u8, i32)> {
    let (&[kind, a, b, c, d], _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    Some((kind, i32::from_be_bytes([a, b, c, d])))
}

const _: () = assert!(SHORT_MESSAGE_BYTES_MAX > ROOM_MIN, "a buffer grows before a short message is refused");

#[cfg(test)]
mod tests {
    use super::*;

    fn input(bytes: &[u8]) -> Input {
        Input::of(bytes, MessageLimit(100_000))
    }

    #[test]
    fn a_frame_knows_what_comes_behind_it() {
        let mut input = input(b"H\0\0\0\x04Q\0\0\0\x06x\0S\0\0\0\x04Q\0\0");
        let mut frame = || input.frame().unwrap().map(|frame| (frame.kind, frame.body.to_vec(), frame.next));
        assert_eq!(frame(), Some((b'H', vec![], Some(b'Q'))));
        assert_eq!(frame(), Some((b'Q', b"x\0".to_vec(), Some(b'S'))));
        assert_eq!(frame(), Some((b'S', vec![], None)));
        assert_eq!(frame(), None);
    }

    #[test]
    fn kinds_and_lengths_that_cannot_be_are_refused() {
        for bytes in [
            &b"z\0\0\0\x04"[..],
            b"\0\0\0\0\x04",
            b"Q\0\0\0\x03",
            b"Q\xff\xff\xff\xff",
            b"Q\x7f\xff\xff\xff",
            b"S\0\0\xff\xff",
        ] {
            assert!(input(bytes).frame().is_err(), "{bytes:?}");
        }
        assert!(input(b"Q\0\0\xff\xff").frame().unwrap().is_none(), "a long statement is waited for");
    }
}
