// SPDX-License-Identifier: Apache-2.0
//! The listener: who comes gets a task, who asks for the end gets it in an orderly way.

use crate::connection;
use crate::entrance::Entrance;
use crate::error::ServerError;
use crate::metrics;
use crate::options::ServerOptions;
use crate::shared::Shared;
use crate::stream::Stream;
use coeval::Database;
use coeval_sql::ActivityState;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;

/// How long to wait when no further connection can be accepted, for want of file descriptors mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// After which silence a client's machine is asked whether it is there, and how often it is asked again.
const KEEPALIVE_TIME: Duration = Duration::from_secs(120);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How often a server that stops looks for sessions that have become idle.
const STOPPING_LOOK: Duration = Duration::from_millis(20);

/// An answer is one write, and the client waits for it: nothing is held back. A client whose machine has gone
/// without a word is noticed in time.
fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let alive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&alive)
}

async fn listening(address: &str) -> Result<(TcpListener, SocketAddr), ServerError> {
    let failed = |error| ServerError::Listen { address: address.to_owned(), error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    Ok((listener, local))
}

/// A server of one database, which is listening.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    metrics: Option<(TcpListener, SocketAddr)>,
    shared: Arc<Shared>,
}

impl Server {
    /// Begins to listen. Clients can connect from here on, and are served once it [runs](Self::run).
    ///
    /// # Errors
    /// If the address cannot be listened on, could be reached by whom nobody knows, or a file cannot be used that the
    /// options name.
    pub async fn bind(
        database: &Database,
        address: &str,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let (listener, local) = listening(address).await?;
        let shared = Shared::new(database, options)?;
        if !shared.admission.protects() && !local.ip().to_canonical().is_loopback() {
            return Err(ServerError::Unprotected(local));
        }
        let metrics = match &shared.options.metrics_address {
            Some(address) => Some(listening(address).await?),
            None => None,
        };
        if let Some((_, address)) = &metrics
            && shared.options.metrics_token.is_none()
            && !address.ip().to_canonical().is_loopback()
        {
            return Err(ServerError::UnprotectedMetrics(*address));
        }
        Ok(Self { listener, address: local, metrics, shared: Arc::new(shared) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it answers requests for figures.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(_, address)| *address)
    }

    /// A way in for what serves the same database by other protocols in this process.
    #[must_use]
    pub fn entrance(&self) -> Entrance {
        Entrance::new(Arc::clone(&self.shared))
    }

    /// Serves until `stop` is ready; then lets transactions end for as long as the options say, ends all sessions
    /// and returns. Needs a [runtime](crate::runtime) of several threads, with more than sessions that wait.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, metrics, shared, .. } = self;
        let asked = metrics.map(|(listener, _)| {
            let (shown, token) = (Arc::clone(&shared), shared.options.metrics_token.clone());
            tokio::spawn(metrics::serve(listener, token, move || shown.metrics.text(&shown.database)))
        });
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                () = shared.registry().reload_asked() => {
                    shared.admission.reload();
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    let socket = tokio::select! {
                        biased;
                        () = &mut stop => break,
                        socket = shared.socket() => socket,
                    };
                    welcome(&shared, stream, address, socket);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // If the system has no room, those that only hold a connection make some.
                    shared.doorway.make_room();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        end_sessions(&shared).await;
        if let Some(asked) = asked {
            asked.abort();
        }
    }
}

/// Gives a new connection a task.
fn welcome(shared: &Arc<Shared>, stream: TcpStream, address: SocketAddr, socket: OwnedSemaphorePermit) {
    shared.metrics.connection();
    if let Err(error) = set_up(&stream) {
        tracing::debug!(%address, %error, "a connection went before it was served");
        return;
    }
    let place = shared.doorway.enter(address);
    tokio::spawn(connection::open(Arc::clone(shared), Stream::Plain(stream), address, place, socket));
}

/// Ends all sessions: those that are idle at once, the others when their transaction has ended or their time is
/// over.
async fn end_sessions(shared: &Shared) {
    shared.begin_to_stop();
    tracing::info!(sessions = shared.registry().count(), "stopping");
    let deadline = Instant::now() + shared.options.stopping_timeout;
    loop {
        let sessions = shared.registry().all();
        if sessions.is_empty() {
            return;
        }
        let is_over = Instant::now() >= deadline;
        for session in &sessions {
            if is_over || session.state() == ActivityState::Idle {
                session.terminate();
            }
        }
        if is_over {
            break;
        }
        tokio::time::sleep(STOPPING_LOOK).await;
    }
    tracing::warn!(sessions = shared.registry().count(), "sessions were ended inside their transactions");
    // They roll back and say goodbye.
    let last = Instant::now() + Duration::from_secs(2);
    while shared.registry().count() > 0 && Instant::now() < last {
        tokio::time::sleep(STOPPING_LOOK).await;
    }
}
