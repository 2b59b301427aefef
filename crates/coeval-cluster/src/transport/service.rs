// SPDX-License-Identifier: Apache-2.0
//! What a node serves: frames, calls, and answers in parts, as a service of gRPC beside others.
//!
//! | method | request | answer |
//! |---|---|---|
//! | `Frames` | a stream of frames | a stream of how many have arrived, eight bytes each, big-endian |
//! | `Call` | bytes | bytes |
//! | `Fetch` | bytes | a stream of bytes |
//!
//! A handler's refusal has the code `ABORTED`, which the libraries give to nothing.

use super::codec::BytesCodec;
use super::frame_stream::FrameStream;
use super::handler::{AnswerItem, AnswerParts, CallRefusal, Handler, Sender};
use super::methods::{CALL, FETCH, FRAMES, REFUSAL};
use super::own_node::OwnNode;
use super::peer::Peer;
use super::receiving::hand_over;
use super::status::add;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use http_body_util::BodyDataStream;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tower_service::Service;

/// A refusal is sent as a header, of which all together have 16 KiB, each byte up to three times as long.
const REFUSAL_BYTES_MAX: usize = 4 << 10;

/// What a node serves.
#[derive(Clone)]
pub(super) struct TransportService {
    own: Arc<OwnNode>,
    handler: Arc<dyn Handler>,
}

impl TransportService {
    /// With this handler for what comes in.
    pub(super) fn new(own: Arc<OwnNode>, handler: Arc<dyn Handler>) -> Self {
        Self { own, handler }
    }

    fn codec(&self, bytes_max: usize) -> Grpc<BytesCodec> {
        Grpc::new(BytesCodec).max_decoding_message_size(bytes_max).max_encoding_message_size(bytes_max)
    }

    /// Who is at the other end of the connection that a request has come by.
    fn sender<T>(&self, request: &Request<T>) -> Result<(Sender, Arc<Peer>), Status> {
        let sender = request.extensions().get::<Sender>().copied();
        let sender = sender.ok_or_else(|| Status::internal("the connection was not greeted"))?;
        let peer = self.own.peer(sender.node);
        // Its connections end when it is taken from the list; a request may be on its way still.
        let gone = || Status::unavailable(format!("{} is no longer known here", sender.node));
        Ok((sender, peer.ok_or_else(gone)?))
    }
}

impl NamedService for TransportService {
    const NAME: &'static str = "coeval.cluster.Transport";
}

impl Service<http::Request<Body>> for TransportService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        let bounds = self.own.options.bounds;
        let response = async move {
            match request.uri().path() {
                FRAMES => {
                    let mut codec = service.codec(bounds.frame_bytes);
                    let (head, body) = request.into_parts();
                    let frames = FrameStream::new(BodyDataStream::new(body), bounds.frame_bytes);
                    let method = FramesMethod { service, frames: Some(frames) };
                    // The library reads none of them.
                    codec.streaming(method, http::Request::from_parts(head, Body::empty())).await
                }
                CALL => service.codec(bounds.call_bytes).unary(CallMethod(service), request).await,
                FETCH => {
                    service.codec(bounds.call_bytes).server_streaming(FetchMethod(service), request).await
                }
                path => Status::unimplemented(format!("there is no {path}")).into_http(),
            }
        };
        response.map(Ok).boxed()
    }
}

struct FramesMethod {
    service: TransportService,
    /// What the request brings, until it is taken.
    frames: Option<FrameStream>,
}

impl StreamingService<Bytes> for FramesMethod {
    type Response = Bytes;
    type ResponseStream = BoxStream<'static, Result<Bytes, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let (service, frames) = (self.service.clone(), self.frames.take());
        async move {
            let (sender, peer) = service.sender(&request)?;
            let frames = frames.ok_or_else(|| Status::internal("the frames of a request are taken once"))?;
            Ok(Response::new(hand_over(service.handler, peer, sender, frames).boxed()))
        }
        .boxed()
    }
}

struct CallMethod(TransportService);

impl UnaryService<Bytes> for CallMethod {
    type Response = Bytes;
    type Future = BoxFuture<'static, Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let service = self.0.clone();
        async move {
            let (sender, peer) = service.sender(&request)?;
            let request = request.into_inner();
            count_request(&peer, &request);
            let answer = service.handler.call(sender, request).await.map_err(refused)?;
            add(&peer.counters.answer_bytes_sent, answer.len());
            Ok(Response::new(answer))
        }
        .boxed()
    }
}

struct FetchMethod(TransportService);

impl ServerStreamingService<Bytes> for FetchMethod {
    type Response = Bytes;
    type ResponseStream = BoxStream<'static, Result<Bytes, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let service = self.0.clone();
        async move {
            let (sender, peer) = service.sender(&request)?;
            let request = request.into_inner();
            count_request(&peer, &request);
            Ok(Response::new(answer_in_parts(service.handler, sender, request, peer)))
        }
        .boxed()
    }
}

/// Lets a handler give an answer in parts, in a task that ends when nobody takes them.
fn answer_in_parts(
    handler: Arc<dyn Handler>,
    from: Sender,
    request: Bytes,
    peer: Arc<Peer>,
) -> BoxStream<'static, Result<Bytes, Status>> {
    // One part is ready when the one before is taken; more would only be memory.
    let (parts, mut given) = mpsc::channel(1);
    let end = peer.end.clone();
    let giving = async move {
        let answer = AnswerParts { parts: parts.clone() };
        let fetched = tokio::select! {
            fetched = handler.fetch(from, request, answer) => fetched,
            () = parts.closed() => return,
        };
        let last = fetched.map_or_else(AnswerItem::Refusal, |()| AnswerItem::End);
        // Nobody minds if nobody takes it any more.
        let _ = parts.send(last).await;
    };
    tokio::spawn(async move { end.run_until_cancelled(giving).await });
    let items =
        futures::stream::poll_fn(move |cx| given.poll_recv(cx).map(|item| Some(part_of(item, &peer))));
    // What is behind the end, or behind an error, is not asked for.
    items
        .scan(false, |is_over, item| {
            let item = (!*is_over).then_some(item).flatten();
            *is_over = !matches!(item, Some(Ok(_)));
            std::future::ready(item)
        })
        .boxed()
}

/// What the other node is given; nothing at the end of the answer. An answer that ends without that is not whole.
fn part_of(item: Option<AnswerItem>, peer: &Peer) -> Option<Result<Bytes, Status>> {
    match item {
        Some(AnswerItem::Part(part)) => {
            add(&peer.counters.answer_bytes_sent, part.len());
            Some(Ok(part))
        }
        Some(AnswerItem::End) => None,
        Some(AnswerItem::Refusal(refusal)) => Some(Err(refused(refusal))),
        None => Some(Err(Status::internal("the answer was given up"))),
    }
}

fn count_request(peer: &Peer, request: &Bytes) {
    add(&peer.counters.calls_received, 1);
    add(&peer.counters.call_bytes_received, request.len());
}

fn refused(CallRefusal(mut reason): CallRefusal) -> Status {
    reason.truncate(reason.floor_char_boundary(REFUSAL_BYTES_MAX));
    Status::new(REFUSAL, reason)
}
