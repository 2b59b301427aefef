// SPDX-License-Identifier: Apache-2.0
//! [`Console`]: the listener.

use crate::error::ConsoleError;
use crate::logins::Logins;
use crate::peer::Peer;
use crate::results::Room;
use crate::routes::{self, Served};
use axum::{Extension, Router};
use coeval_server::{Doorway, DoorwayLimits, Encryption, Entrance, Place};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

/// Connections of browsers at a time; one more waits until another has gone.
const CONNECTIONS_MAX: usize = 512;

/// Connections on which nobody has shown that they are logged in. A browser has up to six.
const STRANGERS: DoorwayLimits = DoorwayLimits { all: 256, each_peer: 64 };

/// After which silence a browser's machine is asked whether it is there.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);

/// How long a browser may take to agree on encryption.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a connection may say nothing, or take to say what it wants.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// How often it is looked whether logins are over.
const SWEEP_PAUSE: Duration = Duration::from_secs(30);

/// How long nobody is accepted after the system could not.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How a console is set up.
#[derive(Clone, Debug)]
pub struct ConsoleOptions {
    /// Bytes of a result that are kept for the page; what comes behind them is counted only.
    pub result_bytes_max: u64,
    /// Bytes of all results together; those of one login have at most a half.
    pub results_bytes_max: u64,
    /// How long a connection lasts on which nobody has shown that they are logged in.
    pub stranger_time_max: Duration,
    /// Where results are kept, in files without names; the system's directory for such if there is none.
    pub directory: Option<PathBuf>,
}

impl Default for ConsoleOptions {
    fn default() -> Self {
        Self {
            result_bytes_max: 1 << 30,
            results_bytes_max: 4 << 30,
            stranger_time_max: Duration::from_secs(60),
            directory: None,
        }
    }
}

/// The console of a server in this process, which is listening.
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    entrance: Entrance,
    options: ConsoleOptions,
}

impl Console {
    /// Begins to listen. Browsers are answered once it [runs](Self::run); over TLS if the server has a certificate.
    ///
    /// # Errors
    /// If the address cannot be listened on; if other machines could reach it, and nothing would be encrypted or nobody would
    /// have to prove anything.
    pub async fn bind(
        entrance: Entrance,
        address: &str,
        options: ConsoleOptions,
    ) -> Result<Self, ConsoleError> {
        let failed = |error| ConsoleError::Listen { address: address.to_owned(), error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if !address.ip().to_canonical().is_loopback() {
            if entrance.tls().is_none() {
                return Err(ConsoleError::Unencrypted(address));
            }
            if !entrance.protects() {
                return Err(ConsoleError::Unprotected(address));
            }
        }
        Ok(Self { listener, address, entrance, options })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a browser is to be told.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.entrance.tls().is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.address)
    }

    /// Answers browsers until the task is ended. Needs the server's [runtime](coeval_server::runtime).
    pub async fn run(self) {
        let ConsoleOptions { result_bytes_max, results_bytes_max, stranger_time_max, directory } =
            self.options;
        let room = Room::new(directory, result_bytes_max, results_bytes_max);
        // A browser sends cookies to all ports of a machine: each console has its own. One whose name begins so is sent to
        // the host that has set it, over TLS, and nobody else can have set it.
        let host = if self.entrance.tls().is_some() { "__Host-" } else { "" };
        let served = Arc::new(Served {
            logins: Logins::new(self.entrance.clone(), room),
            entrance: self.entrance.clone(),
            cookie: format!("{host}coeval_console_{}", self.address.port()),
        });
        let router = routes::router(Arc::clone(&served));
        let accepting = Accepting { entrance: &self.entrance, router: &router, stranger_time_max };
        tokio::select! {
            () = accepting.accept(&self.listener) => {}
            () = sweep(&served) => {}
        }
    }
}

/// Ends logins and tabs when they are over.
async fn sweep(served: &Served) {
    let mut pause = tokio::time::interval(SWEEP_PAUSE);
    loop {
        pause.tick().await;
        // Files of results are closed.
        tokio::task::block_in_place(|| served.logins.sweep());
    }
}

/// What connections are accepted into.
struct Accepting<'c> {
    entrance: &'c Entrance,
    router: &'c Router,
    stranger_time_max: Duration,
}

impl Accepting<'_> {
    async fn accept(&self, listener: &TcpListener) {
        let sockets = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let doorway = Doorway::new(STRANGERS);
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "the console cannot accept a connection");
                    doorway.make_room();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let place = doorway.enter(address);
            if sockets.available_permits() == 0 {
                doorway.make_room();
            }
            let Ok(socket) = Arc::clone(&sockets).acquire_owned().await else { return };
            let newcomer = Newcomer {
                entrance: self.entrance.clone(),
                router: self.router.clone(),
                stranger_time_max: self.stranger_time_max,
            };
            tokio::spawn(async move {
                newcomer.welcome(stream, address, place).await;
                drop(socket);
            });
        }
    }
}

/// A connection that has come.
struct Newcomer {
    entrance: Entrance,
    router: Router,
    stranger_time_max: Duration,
}

impl Newcomer {
    /// Serves a connection of a browser until it ends; while nobody has shown on it that they are logged in, it may have to go.
    async fn welcome(self, stream: TcpStream, address: SocketAddr, place: Place) {
        let is_known = Arc::new(Notify::new());
        let stranger_time_max = self.stranger_time_max;
        let served = self.serve(stream, address, Arc::clone(&is_known));
        tokio::pin!(served);
        tokio::select! {
            () = &mut served => return,
            () = is_known.notified() => {}
            () = place.pushed_out() => return,
            () = tokio::time::sleep(stranger_time_max) => {
                return tracing::debug!(%address, "a connection ended on which nobody was logged in");
            }
        }
        drop(place);
        served.await;
    }

    async fn serve(self, stream: TcpStream, address: SocketAddr, is_known: Arc<Notify>) {
        // An answer is sent as it comes, as events are.
        let alive = TcpKeepalive::new().with_time(KEEPALIVE_TIME);
        if stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&alive)).is_err() {
            return;
        }
        let peer = |encryption| Peer { address, encryption, is_known };
        let Some(tls) = self.entrance.tls() else {
            return answer(stream, peer(Encryption::None), self.router).await;
        };
        match tokio::time::timeout(HANDSHAKE_TIME_MAX, tls.accept(stream)).await {
            Ok(Ok(stream)) => answer(stream, peer(Encryption::Tls), self.router).await,
            Ok(Err(error)) => tracing::debug!(%address, %error, "a browser did not agree on encryption"),
            Err(_) => tracing::debug!(%address, "a browser took too long to agree on encryption"),
        }
    }
}

/// Answers the requests of a connection.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer, router: Router) {
    let address = peer.address;
    let service = TowerToHyperService::new(router.layer(Extension(peer)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%address, %error, "a browser's connection ended");
    }
}
