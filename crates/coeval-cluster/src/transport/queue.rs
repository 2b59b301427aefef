// SPDX-License-Identifier: Apache-2.0
//! [`FrameQueue`]: the frames that wait for one node.
//!
//! Many put frames in, and never wait. One connection at a time takes them out, the newest one: what an older one would still
//! take is left for it. A frame that was taken is gone from here, whatever becomes of the connection, so none is sent twice.

use super::options::Bounds;
use super::status::Counters;
use bytes::Bytes;
use futures::Stream;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// The frames that wait for one node.
///
/// # Locking
/// `waiting` is held for the move of a frame in or out, and for nothing that waits or calls out.
pub(super) struct FrameQueue {
    waiting: Mutex<Waiting>,
    frames_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// Who is to be told of the next frame: the connection, or the task that would open one.
    waker: Option<Waker>,
    /// The number of the connection that takes frames.
    taker: u64,
}

/// How much waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) frames: usize,
    pub(super) bytes: usize,
}

impl FrameQueue {
    /// An empty one.
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self { waiting: Mutex::default(), frames_max: bounds.queued_frames, bytes_max: bounds.queued_bytes }
    }

    /// Puts a frame in.
    ///
    /// # Errors
    /// If it is full; the frame is not in it then.
    pub(super) fn put(&self, frame: Bytes) -> Result<(), Load> {
        let waker = {
            let mut waiting = self.waiting.lock();
            let bytes = waiting.bytes + frame.len();
            let is_full = waiting.frames.len() >= self.frames_max
                || (bytes > self.bytes_max && !waiting.frames.is_empty());
            if is_full {
                return Err(waiting.load());
            }
            waiting.bytes = bytes;
            waiting.frames.push_back(frame);
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// How much waits.
    pub(super) fn load(&self) -> Load {
        self.waiting.lock().load()
    }

    /// Waits for a frame, and leaves it.
    pub(super) async fn filled(&self) {
        poll_fn(|cx| {
            let mut waiting = self.waiting.lock();
            if waiting.frames.is_empty() {
                waiting.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Takes frames out from now on, in place of whoever did so before.
    pub(super) fn take_over(self: &Arc<Self>, counters: &Arc<Counters>) -> OutgoingFrames {
        let mut waiting = self.waiting.lock();
        waiting.taker += 1;
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
        OutgoingFrames {
            queue: Arc::clone(self),
            counters: Arc::clone(counters),
            number: waiting.taker,
            taken: Arc::default(),
        }
    }
}

impl Waiting {
    fn load(&self) -> Load {
        Load { frames: self.frames.len(), bytes: self.bytes }
    }
}

/// The frames that go out by one connection.
pub(super) struct OutgoingFrames {
    queue: Arc<FrameQueue>,
    counters: Arc<Counters>,
    number: u64,
    taken: Arc<AtomicU64>,
}

impl OutgoingFrames {
    /// How many have gone out by it, also when it has been given away.
    pub(super) fn taken(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }
}

impl Stream for OutgoingFrames {
    type Item = Bytes;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut waiting = self.queue.waiting.lock();
        if waiting.taker != self.number {
            return Poll::Ready(None);
        }
        let Some(frame) = waiting.frames.pop_front() else {
            waiting.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        waiting.bytes -= frame.len();
        drop(waiting);
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.counters.sent(frame.len());
        Poll::Ready(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt};

    fn queue(queued_frames: usize, queued_bytes: usize) -> Arc<FrameQueue> {
        Arc::new(FrameQueue::new(&Bounds { queued_frames, queued_bytes, ..Bounds::default() }))
    }

    fn frame(bytes: &'static str) -> Bytes {
        Bytes::from_static(bytes.as_bytes())
    }

    #[test]
    fn a_full_queue_takes_nothing_and_says_how_full_it_is() {
        let by_count = queue(2, 100);
        by_count.put(frame("a")).unwrap();
        by_count.put(frame("bc")).unwrap();
        assert_eq!(by_count.put(frame("d")), Err(Load { frames: 2, bytes: 3 }));
        let by_bytes = queue(100, 4);
        by_bytes.put(frame("abc")).unwrap();
        assert_eq!(by_bytes.put(frame("de")), Err(Load { frames: 1, bytes: 3 }));
        by_bytes.put(frame("d")).unwrap();
        // One that is alone is taken, however long: it could never be sent otherwise.
        let alone = queue(100, 4);
        alone.put(frame("abcdefgh")).unwrap();
        assert_eq!(alone.put(frame("")), Err(Load { frames: 1, bytes: 8 }));
    }

    #[test]
    fn frames_come_out_in_order_and_only_by_the_newest_connection() {
        let (queue, counters) = (queue(100, 100), Arc::new(Counters::default()));
        for bytes in ["a", "b", "c"] {
            queue.put(frame(bytes)).unwrap();
        }
        let mut old = queue.take_over(&counters);
        assert_eq!(old.next().now_or_never(), Some(Some(frame("a"))));
        let mut new = queue.take_over(&counters);
        assert_eq!(old.next().now_or_never(), Some(None));
        assert_eq!(new.next().now_or_never(), Some(Some(frame("b"))));
        assert_eq!(new.next().now_or_never(), Some(Some(frame("c"))));
        assert_eq!(new.next().now_or_never(), None);
        assert_eq!((old.taken().load(Ordering::Relaxed), new.taken().load(Ordering::Relaxed)), (1, 2));
        assert_eq!(queue.load(), Load { frames: 0, bytes: 0 });
    }
}
