// SPDX-License-Identifier: Apache-2.0
//! Requests to other nodes, and their answers.
//!
//! They go by a connection of their own, so that an answer of many megabytes holds up no frame. It is opened when it is first
//! needed, and anew when it has ended.

use super::call_channel::CallLine;
use super::codec::BytesCodec;
use super::dialing::connect;
use super::error::{self, CallError, LinkError};
use super::methods::{CALL, FETCH, REFUSAL};
use super::own_node::OwnNode;
use super::peer::Peer;
use super::status::add;
use bytes::Bytes;
use http::uri::PathAndQuery;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

/// The connection for requests to a node, opened if need be. It is waited for no longer than the node is known.
///
/// # Errors
/// Why there is none.
pub(super) async fn channel(own: &OwnNode, peer: &Peer) -> Result<Channel, LinkError> {
    let asked = Instant::now();
    let mut line = peer.calls.line.lock().await;
    match &*line {
        CallLine::Open(open) if open.life.goes_on() => return Ok(open.channel.clone()),
        CallLine::Failed(at, error) if *at > asked => return Err(error.clone()),
        _ => {}
    }
    match connect(own, peer).await {
        Ok(open) => {
            let channel = open.channel.clone();
            *line = CallLine::Open(open);
            Ok(channel)
        }
        Err(error) => {
            *line = CallLine::Failed(Instant::now(), error.clone());
            Err(error)
        }
    }
}

/// A request to a node.
struct Calling<'a> {
    own: &'a OwnNode,
    peer: &'a Arc<Peer>,
}

/// Asks a node, and waits for the whole answer.
pub(super) async fn call(own: &OwnNode, peer: &Arc<Peer>, request: Bytes) -> Result<Bytes, CallError> {
    let calling = Calling { own, peer };
    let answer = calling.within_time(async {
        let mut client = calling.client(&request).await?;
        let request = Request::new(request);
        let answer = client.unary(request, PathAndQuery::from_static(CALL), BytesCodec).await;
        answer.map_err(|status| of_status(peer, &status))
    });
    let answer = answer.await.map(tonic::Response::into_inner);
    count_answer(peer, answer.as_ref());
    answer
}

/// Asks a node for an answer in parts.
pub(super) async fn fetch(own: &OwnNode, peer: &Arc<Peer>, request: Bytes) -> Result<Answer, CallError> {
    let calling = Calling { own, peer };
    let answer = calling.within_time(async {
        let mut client = calling.client(&request).await?;
        let request = Request::new(request);
        let answer = client.server_streaming(request, PathAndQuery::from_static(FETCH), BytesCodec).await;
        answer.map_err(|status| of_status(peer, &status))
    });
    let answer = answer.await.inspect_err(|_| add(&peer.counters.calls_failed, 1))?;
    Ok(Answer {
        parts: Some(answer.into_inner()),
        peer: Arc::clone(peer),
        patience: own.options.timeouts.call,
    })
}

impl Calling<'_> {
    async fn client(&self, request: &Bytes) -> Result<Grpc<Channel>, CallError> {
        let limit = self.own.options.bounds.call_bytes;
        if request.len() > limit {
            return Err(CallError::TooLong { bytes: request.len(), limit });
        }
        let channel = channel(self.own, self.peer).await.map_err(CallError::NotConnected)?;
        let mut client = Grpc::new(channel).max_encoding_message_size(limit).max_decoding_message_size(limit);
        client.ready().await.map_err(|error| cut(self.peer, error::in_one_line(&error)))?;
        add(&self.peer.counters.calls_sent, 1);
        add(&self.peer.counters.call_bytes_sent, request.len());
        Ok(client)
    }

    /// What is waited for, no longer than may be, nor than the node is known.
    async fn within_time<T>(
        &self,
        answer: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let patience = self.own.options.timeouts.call;
        let answer = self.peer.end.run_until_cancelled(timeout(patience, answer));
        match answer.await {
            // What the end of this node's own transport does to the connection is no error of the other node.
            Some(Err(_) | Ok(Err(_))) | None if self.own.end.is_cancelled() => Err(CallError::Closed),
            Some(answered) => answered.unwrap_or_else(|_| Err(timed_out(self.peer, patience))),
            None => Err(CallError::Unknown(self.peer.node)),
        }
    }
}

/// An answer in parts. If it is dropped, the other node stops giving them.
pub struct Answer {
    /// Nothing behind the end, or behind an error.
    parts: Option<Streaming<Bytes>>,
    peer: Arc<Peer>,
    patience: Duration,
}

impl Answer {
    /// The next part; nothing at the end of the answer. What is not asked for is not sent, but for a few megabytes.
    ///
    /// # Errors
    /// If the answer does not go on; what was given before is not the whole. Nothing comes behind that.
    pub async fn next(&mut self) -> Option<Result<Bytes, CallError>> {
        let mut parts = self.parts.take()?;
        let waited = self.peer.end.run_until_cancelled(timeout(self.patience, parts.message())).await;
        let part = match waited {
            Some(Ok(Ok(part))) => Ok(part?),
            Some(Ok(Err(status))) => Err(of_status(&self.peer, &status)),
            Some(Err(_)) => Err(timed_out(&self.peer, self.patience)),
            None => Err(cut(&self.peer, "this node has ended the connection".to_owned())),
        };
        count_answer(&self.peer, part.as_ref());
        if part.is_ok() {
            self.parts = Some(parts);
        }
        Some(part)
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Answer(of {})", self.peer.node)
    }
}

fn count_answer(peer: &Peer, answer: Result<&Bytes, &CallError>) {
    match answer {
        Ok(answer) => add(&peer.counters.answer_bytes_received, answer.len()),
        Err(_) => add(&peer.counters.calls_failed, 1),
    }
}

fn of_status(peer: &Peer, status: &Status) -> CallError {
    if status.code() == REFUSAL {
        return CallError::Refused { node: peer.node, reason: status.message().to_owned() };
    }
    cut(peer, error::of_status(status))
}

fn cut(peer: &Peer, what: String) -> CallError {
    CallError::Cut { node: peer.node, address: peer.address.clone(), what }
}

fn timed_out(peer: &Peer, after: Duration) -> CallError {
    CallError::TimedOut { node: peer.node, address: peer.address.clone(), after }
}
