// SPDX-License-Identifier: Apache-2.0
//! How a connection to another node comes about: TCP, TLS, the greeting, and HTTP/2 on it.

use super::call_channel::Line;
use super::connection::{Connection, Wire};
use super::error::{LinkError, in_one_line};
use super::fit::misfit_of_greetings;
use super::greeting::{Greeting, GreetingError, read_verdict, write_verdict};
use super::handler::Sender;
use super::options::Security;
use super::own_node::OwnNode;
use super::peer::Peer;
use super::tls::{Tls, link_error};
use crate::node_address::NodeAddress;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tonic::transport::Endpoint;
use tower_service::Service;

/// Bytes of one stream that may be under way and not taken. As much is kept for a sender whose frames are taken slowly.
pub(super) const STREAM_WINDOW: u32 = 1 << 20;

/// Bytes of all streams of a connection that may be under way and not taken. When as many streams as fit are not read, all
/// others of the connection wait: queries have dozens of streams that are read one after the other.
pub(super) const CONNECTION_WINDOW: u32 = 64 << 20;
const _: () =
    assert!(STREAM_WINDOW * 64 <= CONNECTION_WINDOW, "64 streams that are not read leave room for others");

/// Bytes of the pieces that messages are cut into: large ones cost less, small ones let streams take turns more often.
pub(super) const PIECE_BYTES: u32 = 256 << 10;

/// Connects to a node.
///
/// # Errors
/// Why there is no connection.
pub(super) async fn connect(own: &OwnNode, peer: &Peer) -> Result<Line, LinkError> {
    let connection = dial(own, peer).await?;
    let life = connection.life();
    let address = peer.address.to_string();
    let half_silence = own.options.timeouts.silence / 2;
    let ended = |error: tonic::transport::Error| LinkError::Ended {
        address: address.clone(),
        what: in_one_line(&error),
    };
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(&ended)?
        .http2_keep_alive_interval(half_silence)
        .keep_alive_timeout(half_silence)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(PIECE_BYTES);
    let channel = endpoint.connect_with_connector(OneConnection(Some(connection))).await.map_err(ended)?;
    Ok(Line { channel, life })
}

/// Gives the one connection that there is. The library would connect again by itself; here whoever uses a connection is to
/// know that it has ended.
struct OneConnection(Option<Connection>);

impl Service<http::Uri> for OneConnection {
    type Response = TokioIo<Connection>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        ready(self.0.take().map(Connection::into_io).ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

/// Opens a connection and greets.
async fn dial(own: &OwnNode, peer: &Peer) -> Result<Connection, LinkError> {
    let address = peer.address.to_string();
    let deadline = Instant::now() + own.options.timeouts.connect;
    let in_vain = |what| own.timed_out(&address, what);
    let reaching = reach(&own.options.security, &peer.address);
    let socket = timeout_at(deadline, reaching).await.map_err(|_| in_vain("a connection"))??;
    let wire = timeout_at(deadline, encrypt(own.tls.as_ref(), &peer.address, socket))
        .await
        .map_err(|_| in_vain("the end of the TLS handshake"))??;
    timeout_at(deadline, greet(own, peer, wire, &address)).await.map_err(|_| in_vain("a greeting"))?
}

/// Opens a connection to an address, if it may be opened.
///
/// # Errors
/// Why there is none.
pub(super) async fn reach(security: &Security, to: &NodeAddress) -> Result<TcpStream, LinkError> {
    let unreachable = |error| LinkError::Unreachable { address: to.to_string(), error: Arc::new(error) };
    let places = tokio::net::lookup_host((to.host(), to.port()));
    let mut last = LinkError::NotLoopback { address: to.to_string() };
    for place in places.await.map_err(unreachable)? {
        if !security.allows(place.ip()) {
            continue;
        }
        match TcpStream::connect(place).await.and_then(|socket| socket.set_nodelay(true).map(|()| socket)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = unreachable(error),
        }
    }
    Err(last)
}

/// Encrypts a connection, if this side has certificates; the other one has to prove that it is at that host.
///
/// # Errors
/// Why TLS does not come about.
pub(super) async fn encrypt(
    tls: Option<&Tls>,
    to: &NodeAddress,
    socket: TcpStream,
) -> Result<Wire, LinkError> {
    let Some(tls) = tls else { return Ok(Wire::Plain(socket)) };
    let address = to.to_string();
    let name = ServerName::try_from(to.host().to_owned())
        .map_err(|error| LinkError::Tls { address: address.clone(), what: error.to_string() })?;
    let stream = tls.connector.connect(name, socket).await.map_err(|error| link_error(&address, &error))?;
    Ok(Wire::Tls(Box::new(stream.into())))
}

async fn greet(own: &OwnNode, peer: &Peer, mut wire: Wire, address: &str) -> Result<Connection, LinkError> {
    let failed = |error| match error {
        GreetingError::Io(error) => link_error(address, &error),
        GreetingError::Stranger(what) => LinkError::Stranger { address: address.to_owned(), what },
    };
    let greeting = own.greeting(peer.node);
    greeting.write(&mut wire).await.map_err(|error| link_error(address, &error))?;
    let other = Greeting::read(&mut wire).await.map_err(failed)?;
    let verdict = read_verdict(&mut wire).await.map_err(failed)?;
    let admitted = match misfit_of_greetings(&greeting, &other) {
        Some(misfit) => Err(misfit),
        None => own.admit(&other, wire.certificate()),
    };
    let refusal = admitted.as_ref().err().map(ToString::to_string);
    let told = write_verdict(&mut wire, refusal.as_deref()).await;
    let misfit = |misfit| LinkError::Misfit { address: address.to_owned(), misfit };
    let (_, end) = admitted.map_err(misfit)?;
    if let Some(reason) = verdict {
        return Err(LinkError::Refused { address: address.to_owned(), reason });
    }
    told.map_err(|error| link_error(address, &error))?;
    let sender = Sender { node: other.node, incarnation: other.incarnation };
    Ok(Connection::new(wire, sender, end))
}
