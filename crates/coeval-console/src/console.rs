// SPDX-License-Identifier: Apache-2.0
//! [`Console`]: the listener.

use crate::error::ConsoleError;
use crate::logins::Logins;
use crate::peer::Peer;
use crate::results::Room;
use crate::routes::{self, Served};
use axum::{Extension, Router};
use coeval_server::{Encryption, Entrance};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections of browsers at a time; one more waits until another has gone.
const CONNECTIONS_MAX: usize = 512;

/// Connections of one address, of which a browser has up to six; one more is closed at once.
const CONNECTIONS_OF_ADDRESS_MAX: usize = 128;

/// How long a connection lasts on which nobody has shown that they are logged in.
const STRANGER_TIME_MAX: Duration = Duration::from_secs(60);

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
    /// Where results are kept, in files without names; the system's directory for such if there is none.
    pub directory: Option<PathBuf>,
}

impl Default for ConsoleOptions {
    fn default() -> Self {
        Self { result_bytes_max: 1 << 30, results_bytes_max: 4 << 30, directory: None }
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
        let ConsoleOptions { result_bytes_max, results_bytes_max, directory } = self.options;
        let room = Room::new(directory, result_bytes_max, results_bytes_max);
        // A browser sends cookies to all ports of a machine: each console has its own. One whose name begins so is sent to
        // the host that has set it, over TLS, and nobody else can have set it.
        let host = if self.entrance.tls().is_some() { "__Host-" } else { "" };
        let served = Arc::new(Served {
            logins: Logins::new(self.entrance.clone(), room, results_bytes_max),
            entrance: self.entrance.clone(),
            cookie: format!("{host}coeval_console_{}", self.address.port()),
        });
        let router = routes::router(Arc::clone(&served));
        tokio::select! {
            () = accept(&self.listener, &self.entrance, &router) => {}
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

/// Connections by address.
type Counts = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// A connection's place among those of its address.
struct Place {
    counts: Counts,
    ip: IpAddr,
}

impl Place {
    /// Nothing if the address has as many as it may have.
    fn take(counts: &Counts, ip: IpAddr) -> Option<Self> {
        let mut all = counts.lock();
        let count = all.entry(ip).or_default();
        if *count >= CONNECTIONS_OF_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        Some(Self { counts: Arc::clone(counts), ip })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.counts.lock();
        if let Some(count) = all.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.ip);
            }
        }
    }
}

async fn accept(listener: &TcpListener, entrance: &Entrance, router: &Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let counts = Counts::default();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the console cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(own) = Place::take(&counts, address.ip().to_canonical()) else { continue };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (entrance, router) = (entrance.clone(), router.clone());
        tokio::spawn(async move {
            welcome(stream, address, &entrance, router).await;
            drop((own, place));
        });
    }
}

/// Serves a connection of a browser until it ends.
async fn welcome(stream: TcpStream, address: SocketAddr, entrance: &Entrance, router: Router) {
    // An answer is sent as it comes, as events are.
    let alive = TcpKeepalive::new().with_time(KEEPALIVE_TIME);
    if stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&alive)).is_err() {
        return;
    }
    let peer = |encryption| Peer { address, encryption, is_known: Arc::default() };
    let Some(tls) = entrance.tls() else {
        return serve(stream, peer(Encryption::None), router).await;
    };
    match tokio::time::timeout(HANDSHAKE_TIME_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, peer(Encryption::Tls), router).await,
        Ok(Err(error)) => tracing::debug!(%address, %error, "a browser did not agree on encryption"),
        Err(_) => tracing::debug!(%address, "a browser took too long to agree on encryption"),
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer, router: Router) {
    let service = TowerToHyperService::new(router.layer(Extension(peer.clone())));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let address = peer.address;
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%address, %error, "a browser's connection ended");
                }
                return;
            }
            () = tokio::time::sleep(STRANGER_TIME_MAX) => {
                if !peer.is_known.swap(false, Ordering::Relaxed) {
                    tracing::debug!(%address, "a connection ended on which nobody was logged in");
                    return;
                }
            }
        }
    }
}
