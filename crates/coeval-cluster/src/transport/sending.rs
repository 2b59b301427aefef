// SPDX-License-Identifier: Apache-2.0
//! The task that sends the frames that wait for a node.
//!
//! ```text
//!   unused -- a frame waits --> connecting -- greeted --> connected
//!     ^                             |                         |
//!     +------ after the pause -- pausing <---- cut -----------+
//! ```
//! A pause is twice as long as the one before, up to a bound, until the other side has said that it has frames: a node that
//! takes a connection and drops it at once is not tried over and over.

use super::codec::BytesCodec;
use super::dialing::connect;
use super::error::{LinkError, in_one_line, of_status};
use super::methods::FRAMES;
use super::options::Timeouts;
use super::own_node::OwnNode;
use super::peer::Peer;
use super::status::add;
use bytes::Bytes;
use http::uri::PathAndQuery;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::client::Grpc;
use tonic::{Request, Streaming};

/// Sends the frames that wait for a node, until the node or the transport ends.
pub(super) async fn keep_sending(own: Arc<OwnNode>, peer: Arc<Peer>) {
    let end = peer.end.clone();
    end.run_until_cancelled(send_all(&own, &peer)).await;
    peer.calls.close().await;
}

async fn send_all(own: &OwnNode, peer: &Peer) {
    let mut pause = Pause::new(&own.options.timeouts);
    loop {
        peer.queue.filled().await;
        peer.is_connecting();
        let mut confirmed = 0;
        let error = match send_until_cut(own, peer, &mut confirmed).await {
            Ok(never) => match never {},
            Err(error) => error,
        };
        peer.has_failed(error);
        if confirmed > 0 {
            pause = Pause::new(&own.options.timeouts);
        }
        sleep(pause.next()).await;
        peer.has_paused();
    }
}

/// A pause that grows.
struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    fn new(timeouts: &Timeouts) -> Self {
        Self { next: timeouts.pause_min.min(timeouts.pause_max), longest: timeouts.pause_max }
    }

    fn next(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).min(self.longest);
        now
    }
}

/// Sends by one connection until it is cut; says how many frames the other side has then said to have.
async fn send_until_cut(
    own: &OwnNode,
    peer: &Peer,
    confirmed: &mut u64,
) -> Result<std::convert::Infallible, LinkError> {
    let line = connect(own, peer).await?;
    let address = peer.address.to_string();
    let ended = |what| line.life.end(&address, own.options.timeouts.silence, what);
    let mut client = Grpc::new(line.channel).max_encoding_message_size(own.options.bounds.frame_bytes);
    client.ready().await.map_err(|error| ended(in_one_line(&error)))?;
    let frames = peer.queue.take_over(&peer.counters);
    let counted = CountDropped { peer, taken: frames.taken(), confirmed };
    let opening = client.streaming(Request::new(frames), PathAndQuery::from_static(FRAMES), BytesCodec);
    let opened = timeout(own.options.timeouts.connect, opening).await;
    let opened = opened.map_err(|_| own.timed_out(&address, "a stream for frames"))?;
    let mut confirmations = opened.map_err(|status| ended(of_status(&status)))?.into_inner();
    peer.is_connected();
    loop {
        *counted.confirmed = confirmation(&mut confirmations).await.map_err(ended)?;
    }
}

/// How many frames of the connection the other side has.
async fn confirmation(from: &mut Streaming<Bytes>) -> Result<u64, String> {
    match from.message().await {
        Ok(Some(count)) => {
            let count =
                count.as_ref().try_into().map_err(|_| "a confirmation has another length".to_owned())?;
            Ok(u64::from_be_bytes(count))
        }
        Ok(None) => Err("the other side takes no more frames by it".to_owned()),
        Err(status) => Err(of_status(&status)),
    }
}

/// Counts, when a connection ends in whatever way, the frames of which nobody knows whether they have arrived.
struct CountDropped<'a> {
    peer: &'a Peer,
    taken: Arc<AtomicU64>,
    confirmed: &'a mut u64,
}

impl Drop for CountDropped<'_> {
    fn drop(&mut self) {
        let dropped = self.taken.load(Ordering::Relaxed).saturating_sub(*self.confirmed);
        add(&self.peer.counters.frames_dropped, usize::try_from(dropped).unwrap_or(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound() {
        let timeouts = Timeouts {
            pause_min: Duration::from_millis(20),
            pause_max: Duration::from_millis(100),
            ..Timeouts::default()
        };
        let mut pause = Pause::new(&timeouts);
        let pauses: Vec<_> = (0..5).map(|_| pause.next().as_millis()).collect();
        assert_eq!(pauses, [20, 40, 80, 100, 100]);
    }
}
