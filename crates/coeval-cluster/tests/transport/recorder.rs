// SPDX-License-Identifier: Apache-2.0
//! A handler that keeps what comes, and does what requests ask for.

use bytes::Bytes;
use coeval_cluster::{AnswerParts, CallRefusal, Handler, Sender};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Keeps frames. Requests say what is to be done with them: `echo`, `refuse`, `hang`, `panic`, `length N`.
#[derive(Default)]
pub(crate) struct Recorder {
    frames: Mutex<Vec<(Sender, Bytes)>>,
    /// How long each frame takes it.
    pub(crate) frame_ms: AtomicU64,
    in_hand: AtomicUsize,
    /// The most frames that were in hand at once, of all senders.
    pub(crate) most_in_hand: AtomicUsize,
    /// Requests that are being answered.
    pub(crate) answering: AtomicUsize,
    /// Parts that were given.
    pub(crate) parts_given: AtomicUsize,
}

impl Recorder {
    pub(crate) fn frames(&self) -> Vec<Bytes> {
        self.frames.lock().unwrap().iter().map(|(_, frame)| frame.clone()).collect()
    }

    pub(crate) fn senders(&self) -> Vec<Sender> {
        self.frames.lock().unwrap().iter().map(|(sender, _)| *sender).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.frames.lock().unwrap().len()
    }

    /// Lets the frames go, and gives them.
    pub(crate) fn take(&self) -> Vec<Bytes> {
        std::mem::take(&mut *self.frames.lock().unwrap()).into_iter().map(|(_, frame)| frame).collect()
    }
}

/// Counts something as long as it goes on.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn number(request: &str, behind: &str) -> Option<usize> {
    request.strip_prefix(behind)?.parse().ok()
}

#[async_trait::async_trait]
impl Handler for Recorder {
    async fn frame(&self, from: Sender, frame: Bytes) {
        let _in_hand = Counted::begin(&self.in_hand);
        self.most_in_hand.fetch_max(self.in_hand.load(Ordering::SeqCst), Ordering::SeqCst);
        let pause = self.frame_ms.load(Ordering::SeqCst);
        if pause > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        self.frames.lock().unwrap().push((from, frame));
    }

    async fn call(&self, from: Sender, request: Bytes) -> Result<Bytes, CallRefusal> {
        let _answering = Counted::begin(&self.answering);
        match std::str::from_utf8(&request).unwrap_or("echo") {
            "who" => Ok(Bytes::from(from.node.to_string())),
            "refuse" => Err(CallRefusal("brick 7 is not here".to_owned())),
            "hang" => std::future::pending().await,
            "panic" => panic!("a handler that panics, as it was told to"),
            text => Ok(number(text, "length ").map_or(request.clone(), |length| vec![7; length].into())),
        }
    }

    async fn fetch(&self, _: Sender, request: Bytes, answer: AnswerParts) -> Result<(), CallRefusal> {
        let _answering = Counted::begin(&self.answering);
        let text = std::str::from_utf8(&request).unwrap();
        let (count, then) = text.split_once(' ').unwrap();
        for number in 0..count.parse::<u32>().unwrap() {
            answer.give(part(number)).await?;
            self.parts_given.fetch_add(1, Ordering::SeqCst);
        }
        match then {
            "refuse" => Err(CallRefusal("brick 7 is gone".to_owned())),
            "hang" => std::future::pending().await,
            "panic" => panic!("a handler that panics, as it was told to"),
            _ => Ok(()),
        }
    }
}

/// A part of 256 KiB that says which it is.
pub(crate) fn part(number: u32) -> Bytes {
    number.to_be_bytes().repeat(64 << 10).into()
}
