// SPDX-License-Identifier: Apache-2.0
//! [`Console`]: the listener.

use crate::error::ConsoleError;
use crate::logins::Logins;
use crate::results::Room;
use crate::routes::{self, Served};
use axum::{Extension, Router};
use coeval_server::{Encryption, Entrance};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections of browsers at a time; one more waits until another has gone. A browser has up to six, and those that say nothing
/// go after [`HEAD_TIME_MAX`].
const CONNECTIONS_MAX: usize = 256;

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
    /// Bytes of all results together.
    pub results_bytes_max: u64,
}

impl Default for ConsoleOptions {
    fn default() -> Self {
        Self { result_bytes_max: 1 << 30, results_bytes_max: 4 << 30 }
    }
}

/// The console of a server in this process, which is listening.
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    entrance: Entrance,
    options: ConsoleOptions,
}

/// Who a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) encryption: Encryption,
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
        let room = Room::new(self.options.result_bytes_max, self.options.results_bytes_max);
        let served = Arc::new(Served {
            logins: Logins::new(self.entrance.clone(), room),
            entrance: self.entrance.clone(),
            // A browser sends cookies to all ports of a machine: each console has its own.
            cookie: format!("coeval_console_{}", self.address.port()),
        });
        let router = routes::router(Arc::clone(&served));
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut sweep = tokio::time::interval(SWEEP_PAUSE);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = sweep.tick() => {
                    served.logins.sweep();
                    continue;
                }
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "the console cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let (entrance, router) = (self.entrance.clone(), router.clone());
            tokio::spawn(async move {
                welcome(stream, address, &entrance, router).await;
                drop(place);
            });
        }
    }
}

/// Serves a connection of a browser until it ends.
async fn welcome(stream: TcpStream, address: SocketAddr, entrance: &Entrance, router: Router) {
    // An answer is sent as it comes, as events are.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Some(tls) = entrance.tls() else {
        return serve(stream, Peer { address, encryption: Encryption::None }, router).await;
    };
    match tokio::time::timeout(HANDSHAKE_TIME_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, Peer { address, encryption: Encryption::Tls }, router).await,
        Ok(Err(error)) => tracing::debug!(%address, %error, "a browser did not agree on encryption"),
        Err(_) => tracing::debug!(%address, "a browser took too long to agree on encryption"),
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer, router: Router) {
    let service = TowerToHyperService::new(router.layer(Extension(peer)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(address = %peer.address, %error, "a browser's connection ended");
    }
}
