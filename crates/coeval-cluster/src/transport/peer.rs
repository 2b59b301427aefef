// SPDX-License-Identifier: Apache-2.0
//! [`Peer`]: another node, as this one knows it.

use super::call_channel::CallChannel;
use super::error::LinkError;
use super::fit::Misfit;
use super::options::Bounds;
use super::queue::FrameQueue;
use super::status::{ConnectionState, Counters, PeerStatus, add};
use crate::node::{Incarnation, NodeId};
use crate::node_address::NodeAddress;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

/// Another node, as this one knows it.
///
/// # Locking
/// `link` guards what is shown of the connection for frames, and the newest incarnation; `receiving` guards who receives its
/// frames. Neither is held while the other is taken, or across anything that waits. `turn` is held across a handler's future, by
/// the one task that hands over frames of this node; whoever wants it has cancelled that task before.
pub(super) struct Peer {
    pub(super) node: NodeId,
    pub(super) address: NodeAddress,
    pub(super) queue: Arc<FrameQueue>,
    pub(super) counters: Arc<Counters>,
    /// Requests to it go by this.
    pub(super) calls: CallChannel,
    /// Done when the node is no longer known at this address, or the transport ends: then all its connections end.
    pub(super) end: CancellationToken,
    link: Mutex<Link>,
    receiving: Mutex<CancellationToken>,
    pub(super) turn: tokio::sync::Mutex<()>,
}

struct Link {
    state: ConnectionState,
    last_error: Option<(SystemTime, LinkError)>,
    incarnation: Option<Incarnation>,
    /// Cancelled when a newer incarnation is met: connections with the process before lead nowhere.
    of_incarnation: CancellationToken,
}

impl Peer {
    /// A node that nothing has been heard of, but for the newest incarnation if it was known elsewhere before.
    pub(super) fn new(
        (node, address): (NodeId, NodeAddress),
        incarnation: Option<Incarnation>,
        bounds: &Bounds,
        end: CancellationToken,
    ) -> Self {
        Self {
            node,
            address,
            queue: Arc::new(FrameQueue::new(bounds)),
            counters: Arc::default(),
            calls: CallChannel::default(),
            receiving: Mutex::new(end.child_token()),
            link: Mutex::new(Link {
                state: ConnectionState::Unused,
                last_error: None,
                incarnation,
                of_incarnation: end.child_token(),
            }),
            end,
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// A process of this node is at the other end of a connection, which ends when what is given does. If it is a newer one
    /// than was met before, connections with that one end.
    ///
    /// # Errors
    /// If a newer one has been met.
    pub(super) fn meet(&self, found: Incarnation) -> Result<CancellationToken, Misfit> {
        let mut link = self.link.lock();
        if let Some(newest) = link.incarnation.filter(|newest| *newest > found) {
            return Err(Misfit::OldIncarnation { other: self.node, newest, found });
        }
        if link.incarnation != Some(found) {
            link.incarnation = Some(found);
            link.of_incarnation.cancel();
            link.of_incarnation = self.end.child_token();
        }
        Ok(link.of_incarnation.child_token())
    }

    /// The newest incarnation that was met.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        self.link.lock().incarnation
    }

    /// From now on a new connection hands over this node's frames; who did so before stops behind the frame that it is at.
    pub(super) fn take_over_receiving(&self) -> CancellationToken {
        let mut receiving = self.receiving.lock();
        receiving.cancel();
        *receiving = self.end.child_token();
        receiving.clone()
    }

    /// A connection for frames is wanted.
    pub(super) fn is_connecting(&self) {
        self.link.lock().state = ConnectionState::Connecting;
    }

    /// The connection for frames is there.
    pub(super) fn is_connected(&self) {
        let mut link = self.link.lock();
        link.state = ConnectionState::Connected;
        if self.counters.connections.fetch_add(1, Ordering::Relaxed) > 0 {
            add(&self.counters.reconnections, 1);
        }
        let (node, address) = (self.node, &self.address);
        tracing::info!("{node} at {address} is connected");
    }

    /// The connection for frames did not come about, or has ended. What is the same as before is not logged again.
    pub(super) fn has_failed(&self, error: LinkError) {
        let mut link = self.link.lock();
        let is_news = link.state == ConnectionState::Connected
            || link.last_error.as_ref().is_none_or(|(_, last)| last.to_string() != error.to_string());
        if is_news {
            tracing::warn!("{} at {}: {error}", self.node, self.address);
        }
        if link.state != ConnectionState::Connected {
            add(&self.counters.failed_connections, 1);
        }
        link.state = ConnectionState::Pausing;
        link.last_error = Some((SystemTime::now(), error));
    }

    /// The pause is over; a connection is opened when there is something to send.
    pub(super) fn has_paused(&self) {
        self.link.lock().state = ConnectionState::Unused;
    }

    /// What is shown of it.
    pub(super) fn status(&self) -> PeerStatus {
        let load = self.queue.load();
        let link = self.link.lock();
        PeerStatus {
            node: self.node,
            address: self.address.clone(),
            connection: link.state,
            incarnation: link.incarnation,
            last_error: link.last_error.clone(),
            queued_frames: load.frames,
            queued_bytes: load.bytes,
            counters: self.counters.values(),
        }
    }
}
