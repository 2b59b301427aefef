// SPDX-License-Identifier: Apache-2.0
//! The listener: who comes gets a task, who asks for the end gets it in an orderly way.

use crate::auth::Roles;
use crate::connection;
use crate::metrics::{self, Metrics};
use crate::tls::{self, Certificate};
use coeval::Database;
use coeval_sql::{ActivityState, Engine, Registry};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Connections beyond the limit of sessions that may be about to open or to be told that there are too many.
pub(crate) const OPENING_MAX: usize = 128;

/// How long to wait when no further connection can be accepted, for want of file descriptors mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// After which silence a client's machine is asked whether it is there, and how often it is asked again.
const KEEPALIVE_TIME: Duration = Duration::from_secs(120);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How often a server that stops looks for sessions that have become idle.
const STOPPING_LOOK: Duration = Duration::from_millis(20);

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Sessions at a time; one more is answered with 53300.
    pub connections_max: usize,
    /// Who may open a session.
    pub roles: Roles,
    /// What the server proves itself with; without one, nothing is encrypted.
    pub certificate: Option<Certificate>,
    /// Longest message of a client: a statement, its values, a piece of a COPY.
    pub message_bytes_max: usize,
    /// How long a connection may take to become a session.
    pub opening_timeout: Duration,
    /// How long transactions may go on when the server stops.
    pub stopping_timeout: Duration,
    /// Statements that take longer are logged.
    pub slow_statement: Option<Duration>,
    /// Where Prometheus asks for figures by HTTP.
    pub metrics_address: Option<String>,
    /// Settings that sessions begin with, unless their clients ask for others: names and values.
    pub session_settings: Vec<(String, String)>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            connections_max: 1_000,
            roles: Roles::new(),
            certificate: None,
            message_bytes_max: 256 << 20,
            opening_timeout: Duration::from_secs(60),
            stopping_timeout: Duration::from_secs(10),
            slow_statement: None,
            metrics_address: None,
            session_settings: Vec::new(),
        }
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// What the system answers.
        error: io::Error,
    },
    /// Others than this machine could connect, and nobody would have to prove anything.
    #[error("{0} can be reached from other machines: give a role a password, or listen on 127.0.0.1")]
    Unprotected(SocketAddr),
    /// Certificate or key cannot be used.
    #[error("{0}")]
    Certificate(String),
}

/// What all connections of a server share.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Metrics,
    pub(crate) options: ServerOptions,
    pub(crate) tls: Option<TlsAcceptor>,
    stopping: AtomicBool,
    connections: AtomicUsize,
    random: ring::rand::SystemRandom,
}

impl Shared {
    /// The sessions.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        self.engine.registry()
    }

    /// Whether no further session is opened.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// What proves that somebody may cancel a session's statements.
    pub(crate) fn new_secret(&self) -> i32 {
        let mut bytes = [0; 4];
        ring::rand::SecureRandom::fill(&self.random, &mut bytes).expect("the system gives random numbers");
        i32::from_be_bytes(bytes)
    }
}

/// Counts a connection while it lives.
struct Counted(Arc<Shared>);

impl Counted {
    /// Nothing if there are too many.
    fn new(shared: &Arc<Shared>) -> Option<Self> {
        let limit = shared.options.connections_max.saturating_add(OPENING_MAX);
        let counted = Self(Arc::clone(shared));
        let before = shared.connections.fetch_add(1, Ordering::Relaxed);
        (before < limit).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

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
    /// If the address cannot be listened on, could be reached by whom nobody knows, or the certificate cannot be
    /// used.
    pub async fn bind(
        database: &Database,
        address: &str,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let (listener, local) = listening(address).await?;
        if options.roles.is_empty() && !local.ip().to_canonical().is_loopback() {
            return Err(ServerError::Unprotected(local));
        }
        let metrics = match &options.metrics_address {
            Some(address) => Some(listening(address).await?),
            None => None,
        };
        let tls = options.certificate.as_ref().map(tls::acceptor).transpose()?;
        let shared = Shared {
            database: database.clone(),
            engine: Arc::clone(database.engine()),
            metrics: Metrics::default(),
            options,
            tls,
            stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            random: ring::rand::SystemRandom::new(),
        };
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

    /// Serves until `stop` is ready; then lets transactions end for as long as the options say, ends all sessions
    /// and returns. Needs a [runtime](crate::runtime) of several threads, with more than sessions that wait.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, metrics, shared, .. } = self;
        let asked = metrics.map(|(listener, _)| tokio::spawn(metrics::serve(listener, Arc::clone(&shared))));
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    shared.metrics.connection();
                    let Some(counted) = Counted::new(&shared) else {
                        tracing::warn!(%address, "too many connections at once: one is not answered");
                        continue;
                    };
                    if let Err(error) = set_up(&stream) {
                        tracing::debug!(%address, %error, "a connection went before it was served");
                        continue;
                    }
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        connection::open(shared, stream, address).await;
                        drop(counted);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        shared.stop().await;
        if let Some(asked) = asked {
            asked.abort();
        }
    }
}

impl Shared {
    /// Ends all sessions: those that are idle at once, the others when their transaction has ended or their time is
    /// over.
    async fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        tracing::info!(sessions = self.registry().count(), "stopping");
        let deadline = Instant::now() + self.options.stopping_timeout;
        loop {
            let sessions = self.registry().all();
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
        tracing::warn!(sessions = self.registry().count(), "sessions were ended inside their transactions");
        // They roll back and say goodbye.
        let last = Instant::now() + Duration::from_secs(2);
        while self.registry().count() > 0 && Instant::now() < last {
            tokio::time::sleep(STOPPING_LOOK).await;
        }
    }
}
