// SPDX-License-Identifier: Apache-2.0
//! [`Transport`]: the listener and all connections of a node, for as long as it is there.

use super::dialing::{CONNECTION_WINDOW, PIECE_BYTES, STREAM_WINDOW};
use super::error::ConfigurationError;
use super::handler::Handler;
use super::listening::accept_all;
use super::options::{Security, TransportOptions};
use super::own_node::OwnNode;
use super::peers::Peers;
use super::service::TransportService;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::service::Routes;
use tonic::transport::Server;

/// Connections that are greeted and not yet served; the server takes them at once.
const GREETED_QUEUE: usize = 16;

/// The listener and all connections of a node. When it is dropped, they end, and so do all its tasks; nothing that waits is
/// sent then.
///
/// It runs on a runtime that it is given, and owns none. Queries between nodes are served on the same connections, so a runtime
/// of its own would be one more set of threads for the same cores; and one that is owned could not be dropped from within
/// another. Whoever wants the network apart from the work gives it a runtime apart.
#[derive(Debug)]
pub struct Transport {
    peers: Peers,
}

impl Transport {
    /// Starts to listen. There is nobody to talk to before [`Peers::set_nodes`].
    ///
    /// `routes` are other services for the same port, none by default. They are reached only by nodes of the cluster, which
    /// each request names: it has a [`super::Sender`] among its extensions. The handler is made with the handle by which it may
    /// send.
    ///
    /// # Errors
    /// If the listener or the certificates cannot be used, or are not enough for where the node listens.
    pub fn start(
        options: TransportOptions,
        listener: TcpListener,
        routes: Routes,
        runtime: &Handle,
        make_handler: impl FnOnce(Peers) -> Arc<dyn Handler>,
    ) -> Result<Self, ConfigurationError> {
        let address = listener.local_addr().map_err(ConfigurationError::Listener)?;
        let own = OwnNode::new(options, runtime.clone())?;
        if !own.allows(address.ip()) {
            return Err(ConfigurationError::NotLoopback(address));
        }
        if matches!(own.options.security, Security::Insecure) && !address.ip().is_loopback() {
            tracing::warn!(
                "connections between nodes are not protected: anybody who reaches {address} can read all"
            );
        }
        listener.set_nonblocking(true).map_err(ConfigurationError::Listener)?;
        let own = Arc::new(own);
        let peers = Peers { own: Arc::clone(&own) };
        let handler = make_handler(peers.clone());
        let service = TransportService::new(Arc::clone(&own), Arc::clone(&handler));
        let _entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(ConfigurationError::Listener)?;
        let (taken, mut connections) = mpsc::channel(GREETED_QUEUE);
        let accepting = accept_all(Arc::clone(&own), handler, listener, taken);
        let end = own.end.clone();
        runtime.spawn(async move { end.run_until_cancelled(accepting).await });
        let half_silence = own.options.timeouts.silence / 2;
        let connections = futures::stream::poll_fn(move |cx| connections.poll_recv(cx));
        let serving = Server::builder()
            .http2_keepalive_interval(Some(half_silence))
            .http2_keepalive_timeout(Some(half_silence))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(PIECE_BYTES)
            .max_concurrent_streams(own.options.bounds.calls)
            // Whoever gives up its calls at once, since they took too long, is no attacker: the connection stays.
            .http2_max_pending_accept_reset_streams(usize::try_from(own.options.bounds.calls).ok())
            .serve_with_incoming(routes.add_service(service).prepare(), connections);
        let end = own.end.clone();
        runtime.spawn(async move {
            if let Some(Err(error)) = end.run_until_cancelled(serving).await {
                tracing::error!("other nodes are not served any more: {error}");
            }
        });
        Ok(Self { peers })
    }

    /// The handle by which things are sent.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        &self.peers
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.peers.own.end.cancel();
    }
}
