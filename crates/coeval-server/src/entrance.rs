// SPDX-License-Identifier: Apache-2.0
//! Connections that come from this process, on behalf of clients of another protocol.

use crate::auth::rules::Encryption;
use crate::connection;
use crate::metrics;
use crate::shared::Shared;
use crate::stream::Stream;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio_rustls::TlsAcceptor;

/// Which figures somebody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures<'a> {
    /// All.
    All,
    /// Those of this role's sessions.
    OwnSessions(&'a str),
}

/// A way into the server for what serves the same database by another protocol in this process: whoever speaks for a client
/// opens a connection as that client's, and everything that holds for connections holds for it: the rules of who may come from
/// where, passwords and how often they may be wrong, limits, rights, `pg_stat_activity`.
#[derive(Clone)]
pub struct Entrance {
    shared: Arc<Shared>,
}

impl Entrance {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Opens a connection for a client at this address, whose own connection to this process is encrypted like this. What is
    /// given back speaks PostgreSQL's protocol, from the startup packet on. Waits while there are as many connections as there
    /// may be.
    ///
    /// # Errors
    /// If the system has no more sockets.
    pub async fn connect(&self, address: SocketAddr, encryption: Encryption) -> io::Result<UnixStream> {
        let socket = self.shared.socket().await;
        let (ours, theirs) = UnixStream::pair()?;
        self.shared.metrics.connection();
        let place = self.shared.doorway.enter(address);
        let stream = Stream::Inside(ours, encryption);
        tokio::spawn(connection::open(Arc::clone(&self.shared), stream, address, place, socket));
        Ok(theirs)
    }

    /// What encrypts connections to the server, if anything does.
    #[must_use]
    pub fn tls(&self) -> Option<TlsAcceptor> {
        self.shared.tls.as_ref().map(|tls| tls.acceptor.clone())
    }

    /// Whether somebody from another machine has to prove anything, or the rules say otherwise.
    #[must_use]
    pub fn protects(&self) -> bool {
        self.shared.admission.protects()
    }

    /// The figures of the database and its server, in Prometheus' text format: all of them, or those of a role's own sessions.
    #[must_use]
    pub fn figures(&self, seen: &Figures<'_>) -> String {
        match seen {
            Figures::All => self.shared.metrics.text(&self.shared.database),
            Figures::OwnSessions(role) => metrics::text_of_sessions(&self.shared.database, role),
        }
    }

    /// Whether a role sees what all sessions do, as of now: a superuser, and who has the rights of `pg_monitor`. Nothing if
    /// there is no such role, but a user by other means.
    #[must_use]
    pub fn is_monitor(&self, role: &str) -> Option<bool> {
        self.shared.database.engine().is_monitor(role)
    }
}
