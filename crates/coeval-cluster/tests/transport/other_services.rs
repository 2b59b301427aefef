// SPDX-License-Identifier: Apache-2.0
//! Other services on the port of a node: they are behind the same greeting, and know who asks.

use crate::nodes::{ONE, TWO, options, place};
use crate::recorder::Recorder;
use bytes::Bytes;
use coeval_cluster::{Sender, Transport};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower_service::Service;

/// Says who asks.
#[derive(Clone)]
struct WhoAsks;

impl NamedService for WhoAsks {
    const NAME: &'static str = "test.WhoAsks";
}

impl Service<http::Request<Body>> for WhoAsks {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let sender = request.extensions().get::<Sender>().unwrap();
        let response = http::Response::builder().header("asks", sender.node.to_string());
        std::future::ready(Ok(response.body(Body::empty()).unwrap())).boxed()
    }
}

#[test]
fn another_service_is_reached_by_the_channel_of_a_node_and_knows_who_asks() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let places = [place(ONE), place(TWO)];
    let known: Vec<_> = places.iter().map(|place| (place.node, place.address.clone())).collect();
    let [one, two] = places.map(|place| {
        let routes = Routes::new(WhoAsks);
        let transport = Transport::start(options(&place), place.listener, routes, runtime.handle(), |_| {
            Arc::new(Recorder::default())
        })
        .unwrap();
        transport.peers().set_nodes(known.clone()).unwrap();
        transport
    });
    runtime.block_on(async {
        let mut channel = one.peers().channel(TWO).await.unwrap();
        std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
        let request = http::Request::post("/test.WhoAsks/Ask").body(Body::empty()).unwrap();
        assert_eq!(channel.call(request).await.unwrap().headers()["asks"], "n1");
        // The transport's own service is beside it, by the same connection.
        assert_eq!(one.peers().call(TWO, Bytes::from_static(b"who")).await.unwrap(), "n1");
    });
    assert_eq!(two.peers().status().peers[0].counters.connections_received, 1);
}
