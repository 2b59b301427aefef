// SPDX-License-Identifier: Apache-2.0
//! How connections of other nodes come about: the other side of `dialing.rs`.
//!
//! Each connection is greeted in a task of its own, so that one that says nothing holds up no other.

use super::connection::{Connection, Wire};
use super::error::LinkError;
use super::fit::misfit_of_greetings;
use super::greeting::{Greeting, GreetingError, MAGIC, read_verdict, write_verdict};
use super::handler::Sender;
use super::own_node::OwnNode;
use super::status::{RefusedConnection, add};
use super::strangers::{opens_tls, what_speaks};
use super::tls::link_error;
use crate::node::NodeId;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout_at};

/// Connections that are being greeted at once. Others wait with the system: whoever opens connections and says nothing takes
/// this much memory and no more.
const GREETED_MAX: usize = 256;

/// How long to wait when the system gives no connection, as when there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that is not taken.
struct Refusal {
    /// Who it said to be.
    node: Option<NodeId>,
    error: LinkError,
    /// To say goodbye on.
    wire: Option<Wire>,
}

/// Takes connections until the transport ends, and gives those of other nodes.
pub(super) async fn accept_all(
    own: Arc<OwnNode>,
    listener: TcpListener,
    taken: mpsc::Sender<io::Result<Connection>>,
) {
    let places = Arc::new(Semaphore::new(GREETED_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, from)) => {
                let (own, taken) = (Arc::clone(&own), taken.clone());
                tokio::spawn(async move {
                    let end = own.end.clone();
                    end.run_until_cancelled(take(&own, (socket, from), &taken, place)).await;
                });
            }
            Err(error) => {
                tracing::warn!("the listener for other nodes gives no connection: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn take(
    own: &OwnNode,
    (socket, from): (TcpStream, SocketAddr),
    taken: &mpsc::Sender<io::Result<Connection>>,
    place: OwnedSemaphorePermit,
) {
    match greeted(own, socket, from).await {
        Ok(connection) => {
            // Whoever takes them is gone only at the end.
            let _ = taken.send(Ok(connection)).await;
        }
        Err(Refusal { node, error, wire }) => {
            own.has_refused(RefusedConnection { at: SystemTime::now(), from, node, error });
            if let Some(wire) = wire {
                wire.say_goodbye().await;
            }
        }
    }
    drop(place);
}

async fn greeted(own: &OwnNode, socket: TcpStream, from: SocketAddr) -> Result<Connection, Refusal> {
    let address = from.to_string();
    let silent = |what| Refusal { node: None, error: own.timed_out(&address, what), wire: None };
    let deadline = Instant::now() + own.options.timeouts.connect;
    if !own.allows(from.ip()) {
        return Err(Refusal { node: None, error: LinkError::NotLoopback { address }, wire: None });
    }
    let wire = timeout_at(deadline, encrypted(own, socket, &address))
        .await
        .map_err(|_| silent("the end of the TLS handshake"))??;
    timeout_at(deadline, greet(own, wire, &address)).await.map_err(|_| silent("a greeting"))?
}

/// The connection, encrypted if this node has certificates. Whoever speaks otherwise is told so in a greeting without TLS:
/// another node reads it, or takes it for what it is, no TLS.
async fn encrypted(own: &OwnNode, socket: TcpStream, address: &str) -> Result<Wire, Refusal> {
    let _ = socket.set_nodelay(true);
    let refuse = |error, wire| Refusal { node: None, error, wire: Some(wire) };
    let mut first = [0; MAGIC.len()];
    let length = match socket.peek(&mut first).await {
        Ok(length) => length,
        Err(error) => return Err(refuse(link_error(address, &error), Wire::Plain(socket))),
    };
    let first = &first[..length];
    let node = own.options.node;
    match &own.tls {
        Some(tls) if opens_tls(first) => {
            let accepting = tls.acceptor.accept(socket).into_fallible().await;
            let accepted =
                accepting.map_err(|(error, socket)| refuse(link_error(address, &error), Wire::Plain(socket)));
            Ok(Wire::Tls(Box::new(accepted?.into())))
        }
        None if !opens_tls(first) => Ok(Wire::Plain(socket)),
        Some(_) if MAGIC.starts_with(first) && length > 0 => {
            let what = "it speaks without TLS, and this node has certificates".to_owned();
            let wire =
                tell_plainly(own, socket, &format!("{node} has certificates, and takes TLS only")).await;
            Err(refuse(LinkError::Stranger { address: address.to_owned(), what }, wire))
        }
        Some(_) => {
            let what = what_speaks(first).to_owned();
            Err(refuse(LinkError::Stranger { address: address.to_owned(), what }, Wire::Plain(socket)))
        }
        None => {
            let what = what_speaks(first).to_owned();
            let wire =
                tell_plainly(own, socket, &format!("{node} has no certificates, and takes no TLS")).await;
            Err(refuse(LinkError::Stranger { address: address.to_owned(), what }, wire))
        }
    }
}

async fn tell_plainly(own: &OwnNode, socket: TcpStream, refusal: &str) -> Wire {
    let mut wire = Wire::Plain(socket);
    // Whom it is meant for is not known: it is refused whoever it is. If it does not read that, so be it.
    if own.greeting(own.options.node).write(&mut wire).await.is_ok() {
        let _ = write_verdict(&mut wire, Some(refusal)).await;
    }
    wire
}

async fn greet(own: &OwnNode, mut wire: Wire, address: &str) -> Result<Connection, Refusal> {
    let failed = |error| match error {
        GreetingError::Io(error) => link_error(address, &error),
        GreetingError::Stranger(what) => LinkError::Stranger { address: address.to_owned(), what },
    };
    let other = match Greeting::read(&mut wire).await {
        Ok(other) => other,
        Err(error) => return Err(Refusal { node: None, error: failed(error), wire: Some(wire) }),
    };
    let node = Some(other.node);
    let own_greeting = own.greeting(other.node);
    let admitted = match misfit_of_greetings(&other, &own_greeting) {
        Some(misfit) => Err(misfit),
        None => own.admit(&other, wire.certificate()),
    };
    let refusal = admitted.as_ref().err().map(ToString::to_string);
    let heard = exchange(&mut wire, &own_greeting, refusal.as_deref()).await;
    let (peer, end) = match (admitted, heard) {
        (Err(misfit), _) => {
            let error = LinkError::Misfit { address: address.to_owned(), misfit };
            return Err(Refusal { node, error, wire: Some(wire) });
        }
        (_, Err(error)) => return Err(Refusal { node, error: failed(error), wire: Some(wire) }),
        (_, Ok(Some(reason))) => {
            let error = LinkError::Refused { address: address.to_owned(), reason };
            return Err(Refusal { node, error, wire: Some(wire) });
        }
        (Ok(admitted), Ok(None)) => admitted,
    };
    add(&peer.counters.connections_received, 1);
    let sender = Sender { node: other.node, incarnation: other.incarnation };
    Ok(Connection::new(wire, sender, end))
}

/// Says who this node is and whether it takes the other one, and hears whether that one takes it.
async fn exchange(
    wire: &mut Wire,
    own: &Greeting,
    refusal: Option<&str>,
) -> Result<Option<String>, GreetingError> {
    own.write(wire).await?;
    write_verdict(wire, refusal).await?;
    read_verdict(wire).await
}
