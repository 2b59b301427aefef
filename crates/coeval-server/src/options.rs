// SPDX-License-Identifier: Apache-2.0
//! How a server is set up.

use crate::auth::Roles;
use crate::auth::rules::Offer;
use crate::doorway::DoorwayLimits;
use crate::tls::Certificate;
use std::path::PathBuf;
use std::time::Duration;

/// Connections of one address beyond the limit of sessions that may be about to open: all sessions can be opened at
/// the same time by one program, and be told that there are too many.
const OPENING_SPARE: usize = 128;

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
    /// [`Registry::ask_to_reload`](coeval_sql::Registry::ask_to_reload) says so.
    pub rules_file: Option<PathBuf>,
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
            // The longest row fits twice.
            unsent_bytes_max: 2 << 30,
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
    /// What clients that ask for it get.
    pub(crate) fn offer(&self) -> Offer {
        match &self.certificate {
            Some(certificate) if certificate.client_authorities.is_some() => Offer::TlsWithClientCertificates,
            Some(_) => Offer::Tls,
            None => Offer::Plain,
        }
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
