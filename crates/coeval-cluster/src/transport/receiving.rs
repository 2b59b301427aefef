// SPDX-License-Identifier: Apache-2.0
//! The task that hands over the frames of a connection, and what the sender hears of it.

use super::frame_stream::FrameStream;
use super::handler::{Handler, Sender};
use super::peer::Peer;
use bytes::Bytes;
use futures::Stream;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::Status;

/// How often a sender hears at most what has arrived. It counts by that what may be lost, and waits for nothing.
const CONFIRMATION_PAUSE: Duration = Duration::from_millis(50);

/// Hands over the frames of a connection, in a task of its own, until the connection ends or a newer one of the same node takes
/// over. Gives what the sender is told.
pub(super) fn hand_over(
    handler: Arc<dyn Handler>,
    peer: Arc<Peer>,
    from: Sender,
    mut frames: FrameStream,
) -> impl Stream<Item = Result<Bytes, Status>> {
    let (arrived, confirmed) = watch::channel(0_u64);
    let superseded = peer.take_over_receiving();
    let end = peer.end.clone();
    let handing = async move {
        // Whoever has it stops behind the frame that it is at.
        let _turn = peer.turn.lock().await;
        while let Some(Ok(Some(frame))) = superseded.run_until_cancelled(frames.next()).await {
            if superseded.is_cancelled() {
                break;
            }
            peer.counters.received(frame.len());
            handler.frame(from, frame).await;
            arrived.send_modify(|count| *count += 1);
        }
    };
    tokio::spawn(async move { end.run_until_cancelled(handing).await });
    confirmations(confirmed)
}

/// How many frames have arrived, now and then.
fn confirmations(arrived: watch::Receiver<u64>) -> impl Stream<Item = Result<Bytes, Status>> {
    futures::stream::unfold((arrived, Duration::ZERO), async |(mut arrived, pause)| {
        sleep(pause).await;
        arrived.changed().await.ok()?;
        let count = *arrived.borrow_and_update();
        Some((Ok(Bytes::copy_from_slice(&count.to_be_bytes())), (arrived, CONFIRMATION_PAUSE)))
    })
}
