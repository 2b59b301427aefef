// SPDX-License-Identifier: Apache-2.0
//! How connections of other nodes come about: the other side of `dialing.rs`.
//!
//! Each connection is greeted in a task of its own, so that one that says nothing holds up no other.

use super::asking::{ASK_MAGIC, Ask, Opening, answer};
use super::connection::{Connection, Wire};
use super::error::LinkError;
use super::fit::misfit_of_greetings;
use super::greeting::{Greeting, GreetingError, MAGIC, read_verdict, write_verdict};
use super::handler::{CallRefusal, Handler, Sender};
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
use tokio::time::{Instant, sleep, timeout, timeout_at};

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
    handler: Arc<dyn Handler>,
    listener: TcpListener,
    taken: mpsc::Sender<io::Result<Connection>>,
) {
    let places = Arc::new(Semaphore::new(GREETED_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, from)) => {
                let (own, handler, taken) = (Arc::clone(&own), Arc::clone(&handler), taken.clone());
                tokio::spawn(async move {
                    let end = own.end.clone();
                    end.run_until_cancelled(take(&own, handler.as_ref(), (socket, from), &taken, place))
                        .await;
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
    handler: &dyn Handler,
    (socket, from): (TcpStream, SocketAddr),
    taken: &mpsc::Sender<io::Result<Connection>>,
    place: OwnedSemaphorePermit,
) {
    match greeted(own, handler, socket, from).await {
        // Whoever has asked has its answer.
        Ok(None) => {}
        Ok(Some(connection)) => {
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

/// The connection of another node; none of somebody who has asked something and was answered.
async fn greeted(
    own: &OwnNode,
    handler: &dyn Handler,
    socket: TcpStream,
    from: SocketAddr,
) -> Result<Option<Connection>, Refusal> {
    let address = from.to_string();
    let silent = |what| Refusal { node: None, error: own.timed_out(&address, what), wire: None };
    let deadline = Instant::now() + own.options.timeouts.connect;
    if !own.allows(from.ip()) {
        return Err(Refusal { node: None, error: LinkError::NotLoopback { address }, wire: None });
    }
    let mut wire = timeout_at(deadline, encrypted(own, socket, &address))
        .await
        .map_err(|_| silent("the end of the TLS handshake"))??;
    let opening = timeout_at(deadline, Opening::read(&mut wire)).await.map_err(|_| silent("a greeting"))?;
    match opening {
        Ok(Opening::Greeting(other)) => {
            let greeting = timeout_at(deadline, greet(own, wire, other, &address)).await;
            greeting.map_err(|_| silent("a greeting"))?.map(Some)
        }
        Ok(Opening::Ask(asked)) => answer_ask(own, handler, (wire, asked), &address).await.map(|()| None),
        Err(error) => Err(Refusal { node: None, error: greeting_error(&address, error), wire: Some(wire) }),
    }
}

fn greeting_error(address: &str, error: GreetingError) -> LinkError {
    match error {
        GreetingError::Io(error) => link_error(address, &error),
        GreetingError::Stranger(what) => LinkError::Stranger { address: address.to_owned(), what },
    }
}

/// Answers somebody who is no node yet, no longer than a call may take.
async fn answer_ask(
    own: &OwnNode,
    handler: &dyn Handler,
    (mut wire, asked): (Wire, Ask),
    address: &str,
) -> Result<(), Refusal> {
    let patience = own.options.timeouts.call;
    let answered = match asked.misfit(own, wire.certificate()) {
        Some(misfit) => Err(misfit),
        None => match timeout(patience, handler.asked(asked.address, asked.request)).await {
            Ok(answered) => answered.map_err(|CallRefusal(why)| why),
            Err(_) => Err(format!("there was no answer for {} ms", patience.as_millis())),
        },
    };
    let told = answer(&mut wire, answered.as_deref().map_err(String::as_str)).await;
    let error = match (answered, told) {
        (Err(what), _) => LinkError::NotTaken { address: address.to_owned(), what },
        (Ok(_), Err(error)) => link_error(address, &error),
        (Ok(_), Ok(())) => {
            wire.say_goodbye().await;
            return Ok(());
        }
    };
    Err(Refusal { node: None, error, wire: Some(wire) })
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
        Some(_) if speaks_as_node(first) => {
            let what = "it speaks without TLS, and this node has certificates".to_owned();
            let told = format!("{node} has certificates, and takes TLS only");
            let wire = if MAGIC.starts_with(first) {
                tell_plainly(own, socket, &told).await
            } else {
                refuse_plainly(socket, &told).await
            };
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

/// Whether somebody who begins so is a node, or asks to be one.
fn speaks_as_node(first: &[u8]) -> bool {
    !first.is_empty() && [MAGIC, ASK_MAGIC].iter().any(|magic| magic.starts_with(first))
}

/// Somebody who asks reads a verdict, and no greeting before it.
async fn refuse_plainly(socket: TcpStream, refusal: &str) -> Wire {
    let mut wire = Wire::Plain(socket);
    let _ = write_verdict(&mut wire, Some(refusal)).await;
    wire
}

async fn tell_plainly(own: &OwnNode, socket: TcpStream, refusal: &str) -> Wire {
    let mut wire = Wire::Plain(socket);
    // Whom it is meant for is not known: it is refused whoever it is. If it does not read that, so be it.
    if own.greeting(own.options.node).write(&mut wire).await.is_ok() {
        let _ = write_verdict(&mut wire, Some(refusal)).await;
    }
    wire
}

async fn greet(own: &OwnNode, mut wire: Wire, other: Greeting, address: &str) -> Result<Connection, Refusal> {
    let failed = |error| greeting_error(address, error);
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
