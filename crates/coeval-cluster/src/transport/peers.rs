// SPDX-License-Identifier: Apache-2.0
//! [`Peers`]: the handle by which things are sent to other nodes.

use super::calling::{self, Answer};
use super::error::{CallError, ConfigurationError, LinkError, SendError};
use super::own_node::OwnNode;
use super::peer::Peer;
use super::status::{TransportStatus, add};
use crate::node::NodeId;
use crate::node_address::NodeAddress;
use bytes::Bytes;
use std::sync::Arc;
use tonic::transport::Channel;

/// The other nodes, and the way to them. Clones are the same; when the [`super::Transport`] is dropped, they send nothing more.
#[derive(Clone)]
pub struct Peers {
    pub(super) own: Arc<OwnNode>,
}

impl Peers {
    /// Takes this as the list of nodes, which may have this one in it. New nodes are let in and can be sent to; those that are
    /// gone or are elsewhere now have their connections ended, and what waited for them is dropped.
    ///
    /// # Errors
    /// If a node is in it twice. The list stays as it was.
    pub fn set_nodes(
        &self,
        nodes: impl IntoIterator<Item = (NodeId, NodeAddress)>,
    ) -> Result<(), ConfigurationError> {
        self.own.set_nodes(nodes)
    }

    /// Has a frame sent to a node. It arrives whole, behind those that were sent before, or it is lost with the connection; that
    /// nobody is told. This never waits.
    ///
    /// # Errors
    /// [`SendError::Full`] if too much waits for that node already; other errors if it can never be sent. The frame is dropped.
    pub fn send(&self, node: NodeId, frame: impl Into<Bytes>) -> Result<(), SendError> {
        if self.own.end.is_cancelled() {
            return Err(SendError::Closed);
        }
        let (frame, limit) = (frame.into(), self.own.options.bounds.frame_bytes);
        if frame.len() > limit {
            return Err(SendError::TooLong { bytes: frame.len(), limit });
        }
        let peer = self.own.peer(node).ok_or(SendError::Unknown(node))?;
        peer.queue.put(frame).map_err(|load| {
            add(&peer.counters.frames_refused, 1);
            SendError::Full { node, frames: load.frames, bytes: load.bytes }
        })
    }

    /// What a node's handler answers.
    ///
    /// # Errors
    /// If there is no answer; [`CallError`] says whether the request may have been done all the same.
    pub async fn call(&self, node: NodeId, request: impl Into<Bytes>) -> Result<Bytes, CallError> {
        calling::call(&self.own, &self.known(node)?, request.into()).await
    }

    /// What a node's handler answers, in parts, as fast as they are taken.
    ///
    /// # Errors
    /// As those of [`Peers::call`]; what goes wrong later is in place of a part.
    pub async fn fetch(&self, node: NodeId, request: impl Into<Bytes>) -> Result<Answer, CallError> {
        calling::fetch(&self.own, &self.known(node)?, request.into()).await
    }

    /// The connection that requests to a node go by, for clients of other services on the same port. It does not come back by
    /// itself: whoever gets an error of the connection asks for another one.
    ///
    /// # Errors
    /// If there is none.
    pub async fn channel(&self, node: NodeId) -> Result<Channel, CallError> {
        let peer = self.known(node)?;
        let channel = peer.end.run_until_cancelled(calling::channel(&self.own, &peer)).await;
        channel.unwrap_or_else(|| Err(gone(&peer))).map_err(CallError::NotConnected)
    }

    /// What can be seen of the connections.
    #[must_use]
    pub fn status(&self) -> TransportStatus {
        self.own.status()
    }

    fn known(&self, node: NodeId) -> Result<Arc<Peer>, CallError> {
        if self.own.end.is_cancelled() {
            return Err(CallError::Closed);
        }
        self.own.peer(node).ok_or(CallError::Unknown(node))
    }
}

fn gone(peer: &Peer) -> LinkError {
    let what = "this node has ended it".to_owned();
    LinkError::Ended { address: peer.address.to_string(), what }
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peers(of {})", self.own.options.node)
    }
}
