// SPDX-License-Identifier: Apache-2.0
//! [`Handler`]: what a node does with what comes in.

use crate::node::{Incarnation, NodeId};
use crate::node_address::NodeAddress;
use bytes::Bytes;
use tokio::sync::mpsc;

/// Who has sent something: known from the greeting of the connection, and with TLS proven by a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The node.
    pub node: NodeId,
    /// Which start of it.
    pub incarnation: Incarnation,
}

/// What a node does with what comes in. Futures are dropped where they wait when the transport is.
#[async_trait::async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Takes a frame. The next frame of the same node comes when this is done; those of other nodes do not wait. As long as it
    /// takes, the sender's queue grows, up to its bound.
    async fn frame(&self, from: Sender, frame: Bytes);

    /// Answers a request. Requests are answered side by side. The future is dropped when nobody waits for the answer any more.
    ///
    /// # Errors
    /// What the other node is told in place of an answer.
    async fn call(&self, from: Sender, request: Bytes) -> Result<Bytes, CallRefusal>;

    /// Answers a request in parts. They are taken as fast as the other node takes them, and are the answer if this returns
    /// without an error. The future is dropped when nobody waits for the answer any more.
    ///
    /// # Errors
    /// What the other node is told, behind the parts that were given until then.
    async fn fetch(&self, from: Sender, request: Bytes, answer: AnswerParts) -> Result<(), CallRefusal>;

    /// Answers somebody who is no node yet, or does not know whom it reaches, and says to be at `from`, for which it has a
    /// certificate if certificates are asked for. Nobody is answered by default.
    ///
    /// # Errors
    /// What it is told in place of an answer.
    async fn asked(&self, from: NodeAddress, request: Bytes) -> Result<Bytes, CallRefusal> {
        drop((from, request));
        Err(CallRefusal("this node takes no others".to_owned()))
    }
}

/// Why a request is not answered, in words for the other node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CallRefusal(pub String);

impl From<ReceiverGone> for CallRefusal {
    fn from(gone: ReceiverGone) -> Self {
        Self(gone.to_string())
    }
}

/// Nobody takes the answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody takes the answer any more")]
pub struct ReceiverGone;

/// What is given into an answer.
pub(super) enum AnswerItem {
    Part(Bytes),
    /// The answer is whole.
    End,
    Refusal(CallRefusal),
}

/// Where the parts of an answer are put.
#[derive(Debug)]
pub struct AnswerParts {
    pub(super) parts: mpsc::Sender<AnswerItem>,
}

impl AnswerParts {
    /// Gives the next part. Waits as long as the other node does not take those before it.
    ///
    /// # Errors
    /// If nobody takes the answer any more.
    pub async fn give(&self, part: Bytes) -> Result<(), ReceiverGone> {
        self.parts.send(AnswerItem::Part(part)).await.map_err(|_| ReceiverGone)
    }
}
