// SPDX-License-Identifier: Apache-2.0
//! [`FrameStream`]: the frames of a connection, as they come.
//!
//! ```text
//!   gRPC, for each frame:   0 (not compressed) | length (u32, big-endian) | bytes
//! ```
//! Why not by the library's own reader: it puts each message together in memory of its own, and copies it once more when it has come as a
//! whole. Frames with rows are long, and mostly come as a whole: here such a frame is a part of what was read from the connection.

use bytes::{Buf, Bytes, BytesMut};
use futures::stream::{BoxStream, Stream, StreamExt};
use tonic::Status;

/// What stands before each frame.
const HEAD_BYTES: usize = 5;

/// The frames of a connection, as they come.
pub(super) struct FrameStream {
    pieces: BoxStream<'static, Result<Bytes, Status>>,
    /// What has come and was not given yet.
    read: Bytes,
    bytes_max: usize,
}

impl FrameStream {
    /// The frames, each of so many bytes at most, that these pieces are put together, cut wherever.
    pub(super) fn new(
        pieces: impl Stream<Item = Result<Bytes, Status>> + Send + 'static,
        bytes_max: usize,
    ) -> Self {
        Self { pieces: pieces.boxed(), read: Bytes::new(), bytes_max }
    }

    /// The next frame; nothing at the end. Nothing is to be asked for behind an error, or when this was given up.
    ///
    /// # Errors
    /// If the connection has broken, or what comes by it is no frame.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if !self.fill(HEAD_BYTES).await? {
            return if self.read.is_empty() { Ok(None) } else { Err(cut()) };
        }
        let mut head = self.read.split_to(HEAD_BYTES);
        if head.get_u8() != 0 {
            return Err(Status::internal("a frame is compressed, which none is to be"));
        }
        let (length, bytes_max) = (head.get_u32() as usize, self.bytes_max);
        if length > bytes_max {
            let why = format!("a frame has {length} bytes, and may have {bytes_max}");
            return Err(Status::out_of_range(why));
        }
        if self.fill(length).await? { Ok(Some(self.read.split_to(length))) } else { Err(cut()) }
    }

    /// Reads on until so many bytes are there; whether they are.
    async fn fill(&mut self, bytes: usize) -> Result<bool, Status> {
        while self.read.len() < bytes {
            let Some(piece) = self.piece().await? else { return Ok(false) };
            if self.read.is_empty() {
                self.read = piece;
                continue;
            }
            let mut gathered = BytesMut::with_capacity(bytes.max(self.read.len() + piece.len()));
            gathered.extend_from_slice(&self.read);
            gathered.extend_from_slice(&piece);
            while gathered.len() < bytes {
                let Some(piece) = self.piece().await? else { return Ok(false) };
                gathered.extend_from_slice(&piece);
            }
            self.read = gathered.freeze();
        }
        Ok(true)
    }

    /// What comes next, and is not empty; nothing at the end.
    async fn piece(&mut self) -> Result<Option<Bytes>, Status> {
        while let Some(piece) = self.pieces.next().await {
            let piece = piece?;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

fn cut() -> Status {
    Status::internal("a connection has ended within a frame")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::stream;
    use tonic::Code;

    const MAX: usize = 100;

    fn sent(frames: &[&[u8]]) -> Vec<u8> {
        let mut sent = Vec::new();
        for frame in frames {
            sent.push(0);
            sent.extend_from_slice(&u32::try_from(frame.len()).unwrap().to_be_bytes());
            sent.extend_from_slice(frame);
        }
        sent
    }

    /// What comes of these bytes in pieces of so many.
    fn received(bytes: &[u8], piece: usize) -> (Vec<Bytes>, Option<Status>) {
        let pieces: Vec<_> = bytes.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let (mut frames, mut received) = (FrameStream::new(stream::iter(pieces), MAX), Vec::new());
        loop {
            match frames.next().now_or_never().unwrap() {
                Ok(Some(frame)) => received.push(frame),
                Ok(None) => return (received, None),
                Err(error) => return (received, Some(error)),
            }
        }
    }

    #[test]
    fn frames_come_as_they_were_sent_however_they_are_cut() {
        let frames: [&[u8]; 5] = [b"one", b"", b"two", &[7; MAX], b"!"];
        let bytes = sent(&frames);
        for piece in 1..=bytes.len() {
            let (received, error) = received(&bytes, piece);
            assert!(error.is_none() && received.iter().eq(&frames), "in pieces of {piece}: {received:?}");
        }
        assert!(received(&[], 1).0.is_empty());
    }

    /// To break it: gather what has come as a whole.
    #[test]
    fn a_frame_that_has_come_as_a_whole_is_not_copied() {
        let piece = Bytes::from(sent(&[b"first", b"second"]));
        let within = piece.as_ptr_range();
        let mut frames = FrameStream::new(stream::iter([Ok(piece)]), MAX);
        for expected in [&b"first"[..], b"second"] {
            let frame = frames.next().now_or_never().unwrap().unwrap().unwrap();
            assert!(frame == expected && within.contains(&frame.as_ptr()));
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        let whole = sent(&[b"one", b"two"]);
        for length in (1..8).chain(9..16) {
            let (frames, error) = received(&whole[..length], 4);
            assert_eq!((frames.len(), error.unwrap().code()), (length / 8, Code::Internal), "{length} bytes");
        }
        assert_eq!(received(&sent(&[&[7; MAX + 1]]), 50).1.unwrap().code(), Code::OutOfRange);
        assert_eq!(received(&[1, 0, 0, 0, 0], 5).1.unwrap().code(), Code::Internal);
    }
}
