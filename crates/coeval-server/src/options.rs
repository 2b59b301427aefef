// SPDX-License-Identifier: Apache-2.0
//! How a server is set up.

use crate::auth::Roles;
use crate::auth::rules::Offer;
use crate::doorway::DoorwayLimits;
use crate::tls::Certificate;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Connections of one address beyond the limit of sessions that may be about to open: all sessions can be opened at
/// the same time by one program, and be told that there are too many.
const OPENING_SPARE: usize = 128;

/// Open files that are kept from connections: those of the database, and those that it needs for a moment.
const FILES_OF_DATABASE: usize = 256;

/// Connections that are kept from sessions, so that there is always one that can be pushed out for another.
const SOCKETS_OPENING: usize = 128;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Sessions at a time; one more is answered with 53300.
    pub connections_max: usize,
    /// How many of them are kept for superusers; at least one session is left to everybody.
    pub superuser_connections: usize,
    /// Connections at a time, sessions or not yet. Each is an open file, of which the database needs some, too: see
    /// [`Self::fitted_to`]. More than these wait to be accepted until others have gone or had to go.
    pub sockets_max: usize,
    /// Who may open a session.
    pub roles: Roles,
    /// The file with the rules of who may come from where and how, in the words of `pg_hba.conf`. It is read again when
    /// [`Registry::ask_to_reload`](coeval_sql::Registry::ask_to_reload) says so.
    pub rules_file: Option<PathBuf>,
    /// The file with the rules where `rules_file` names none. If it is not there, there are none, until it is there when they
    /// are read again.
    pub own_rules_file: Option<PathBuf>,
    /// The file with the secret that salts of unknown names are made of, so that they are the same after a restart. It
    /// is made if it is not there.
    pub mock_secret_file: Option<PathBuf>,
    /// What the server proves itself with; without one, nothing is encrypted.
    pub certificate: Option<Certificate>,
    /// Longest message of a client: a statement, its values, a piece of a COPY.
    pub message_bytes_max: usize,
    /// Bytes that may wait to be sent to all clients together, of rows that are longer than a connection may have
    /// waiting by itself (1 MiB); one more is answered with 53200.
    pub unsent_bytes_max: usize,
    /// Bytes that all clients together may have sent of messages that are not worked off, and of values of statements
    /// that wait to be executed, beyond what each connection may have (64 KiB); more are answered with 53200.
    pub received_bytes_max: usize,
    /// Passwords of one address that are looked at in a second, when many of them are wrong: behind a score of failures, what
    /// comes faster is refused with 53300.
    pub passwords_per_second: u32,
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
            sockets_max: Semaphore::MAX_PERMITS,
            roles: Roles::new(),
            rules_file: None,
            own_rules_file: None,
            mock_secret_file: None,
            certificate: None,
            message_bytes_max: 256 << 20,
            // The longest row fits twice.
            unsent_bytes_max: 2 << 30,
            // The longest message fits four times: its buffer may be twice as long as it is.
            received_bytes_max: 2 << 30,
            passwords_per_second: 10,
            opening_timeout: Duration::from_secs(10),
            stopping_timeout: Duration::from_secs(10),
            slow_statement: None,
            metrics_address: None,
            metrics_token: None,
            session_settings: Vec::new(),
        }
    }
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
    /// The same, with no more connections than a process has room for that may have so many open files: whatever clients
    /// do, the database can open its own. At least one session is left.
    #[must_use]
    pub fn fitted_to(mut self, open_files_max: u64) -> Self {
        let files = usize::try_from(open_files_max).unwrap_or(usize::MAX);
        let sockets = files - FILES_OF_DATABASE.min(files / 2);
        // A session has a second handle on its connection, see `presence.rs`.
        let sessions = (sockets - SOCKETS_OPENING.min(sockets / 4)) / 2;
        self.connections_max = self.connections_max.min(sessions.max(1));
        self.sockets_max = self.sockets_max.min(sockets.saturating_sub(self.connections_max).max(2));
        self
    }

    /// What clients that ask for it get.
    pub(crate) fn offer(&self) -> Offer {
        match &self.certificate {
            Some(certificate) if certificate.client_authorities.is_some() => Offer::TlsWithClientCertificates,
            Some(_) => Offer::Tls,
            None => Offer::Plain,
        }
    }

    /// What clients ask for as settings and the command line decides.
    pub(crate) fn told_as_settings(&self) -> [(String, String); 2] {
        let ssl = if self.certificate.is_some() { "on" } else { "off" };
        [("max_connections".to_owned(), self.connections_max.to_string()), ("ssl".to_owned(), ssl.to_owned())]
    }

    /// How many connections may be about to become sessions.
    pub(crate) fn doorway_limits(&self) -> DoorwayLimits {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_database_and_sessions_leave_sockets_to_newcomers() {
        let fitted = |files: u64| {
            let options =
                ServerOptions { connections_max: 1_000, ..ServerOptions::default() }.fitted_to(files);
            (options.sockets_max, options.connections_max)
        };
        assert_eq!(fitted(1 << 20), ((1 << 20) - 1_256, 1_000));
        assert_eq!(fitted(1_024), (448, 320));
        assert_eq!(fitted(100), (31, 19));
        assert_eq!(fitted(0), (2, 1));
    }
}
