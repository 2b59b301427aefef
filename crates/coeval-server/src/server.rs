// SPDX-License-Identifier: Apache-2.0
//! The listener: who comes gets a task, who asks for the end gets it in an orderly way.

use crate::auth::{Admission, Roles};
use crate::connection;
use crate::doorway::{Doorway, DoorwayLimits};
use crate::metrics::{self, Metrics};
use crate::secret_file::SecretFileError;
use crate::tls::{self, Certificate, Tls};
use coeval::Database;
use coeval_sql::{ActivityState, Engine, Quota, Registry};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections of one address beyond the limit of sessions that may be about to open: all sessions can be opened at
/// the same time by one program, and be told that there are too many.
const OPENING_SPARE: usize = 128;

/// Sessions that roll back at the same time because their clients have gone. Each takes a thread for as long.
pub(crate) const ENDINGS_MAX: usize = 16;

/// Bytes that may wait to be sent to all clients together, of rows that are longer than a connection may have waiting
/// by itself. The longest row fits twice.
const UNSENT_MAX: usize = 2 << 30;
const UNSENT_HINT: &str = "Other clients do not read what was sent to them; wait until they do or are gone.";

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
    /// How many of them are kept for superusers; at least one session is left to everybody.
    pub superuser_connections: usize,
    /// Who may open a session.
    pub roles: Roles,
    /// The file with the rules of who may come from where and how, in the words of `pg_hba.conf`. It is read again when
    /// [`Registry::ask_to_reload`] says so.
    pub rules_file: Option<PathBuf>,
    /// The file with the secret that salts of unknown names are made of, so that they are the same after a restart. It
    /// is made if it is not there.
    pub mock_secret_file: Option<PathBuf>,
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
    /// What it has to know for that. Without one, figures are given on the loopback only.
    pub metrics_token: Option<String>,
    /// Settings that sessions begin with, unless their clients ask for others: names and values.
    pub session_settings: Vec<(String, String)>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            connections_max: 1_000,
            superuser_connections: 3,
            roles: Roles::new(),
            rules_file: None,
            mock_secret_file: None,
            certificate: None,
            message_bytes_max: 256 << 20,
            opening_timeout: Duration::from_secs(10),
            stopping_timeout: Duration::from_secs(10),
            slow_statement: None,
            metrics_address: None,
            metrics_token: None,
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
    /// Others than this machine could ask for figures, and need not know anything.
    #[error("figures at {0} can be read from other machines: give them a token, or take 127.0.0.1")]
    UnprotectedMetrics(SocketAddr),
    /// Certificate or key cannot be used.
    #[error("{0}")]
    Certificate(String),
    /// A file with a secret cannot be used.
    #[error(transparent)]
    SecretFile(#[from] SecretFileError),
    /// The file with the rules cannot be used.
    #[error("{0}")]
    Rules(String),
    /// The secret for the salts of unknown names cannot be used.
    #[error("{0}")]
    MockSecret(String),
}

/// Who wants a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Somebody for whom no session is kept.
    Ordinary,
    /// Somebody who has to come in when all others are taken.
    Superuser,
}

impl ServerOptions {
    /// How many connections may be about to become sessions.
    fn doorway_limits(&self) -> DoorwayLimits {
        let each_peer = self.connections_max.saturating_add(OPENING_SPARE);
        DoorwayLimits { all: each_peer.saturating_add(self.connections_max), each_peer }
    }

    /// How many sessions there may be for somebody to open another one.
    pub(crate) fn sessions_max(&self, claim: Claim) -> usize {
        let reserved = match claim {
            Claim::Ordinary => self.superuser_connections,
            Claim::Superuser => 0,
        };
        self.connections_max.saturating_sub(reserved).max(1)
    }
}

/// What all connections of a server share.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Metrics,
    pub(crate) options: ServerOptions,
    pub(crate) tls: Option<Tls>,
    pub(crate) admission: Admission,
    pub(crate) doorway: Arc<Doorway>,
    pub(crate) portals: Arc<Quota>,
    /// Bytes that wait to be sent to clients that do not read them, where they are many for one client.
    pub(crate) unsent: Arc<Quota>,
    /// Turns to roll back.
    pub(crate) endings: Semaphore,
    stopping: AtomicBool,
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
        let admission = Admission::new(&options)?;
        if !admission.protects() && !local.ip().to_canonical().is_loopback() {
            return Err(ServerError::Unprotected(local));
        }
        let metrics = match &options.metrics_address {
            Some(address) => Some(listening(address).await?),
            None => None,
        };
        if let Some((_, address)) = &metrics
            && options.metrics_token.is_none()
            && !address.ip().to_canonical().is_loopback()
        {
            return Err(ServerError::UnprotectedMetrics(*address));
        }
        let tls = options.certificate.as_ref().map(tls::of_certificate).transpose()?;
        let shared = Shared {
            database: database.clone(),
            engine: Arc::clone(database.engine()),
            metrics: Metrics::default(),
            doorway: Doorway::new(options.doorway_limits()),
            portals: Quota::new("portals", "Close those that are not needed any more.", 1_000, 100_000),
            unsent: Quota::new("bytes waiting to be sent", UNSENT_HINT, UNSENT_MAX, UNSENT_MAX),
            endings: Semaphore::new(ENDINGS_MAX),
            options,
            tls,
            admission,
            stopping: AtomicBool::new(false),
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
                () = shared.registry().reload_asked() => {
                    shared.admission.reload(&shared.options);
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => shared.welcome(stream, address),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // If the system has no room, those that only hold a connection make some.
                    shared.doorway.make_room();
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
    /// Gives a new connection a task.
    fn welcome(self: &Arc<Self>, stream: TcpStream, address: SocketAddr) {
        self.metrics.connection();
        if let Err(error) = set_up(&stream) {
            tracing::debug!(%address, %error, "a connection went before it was served");
            return;
        }
        let place = self.doorway.enter(address);
        tokio::spawn(connection::open(Arc::clone(self), stream, address, place));
    }

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
