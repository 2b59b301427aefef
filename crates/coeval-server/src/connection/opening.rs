// SPDX-License-Identifier: Apache-2.0
//! From a new connection to a session: TLS, the startup packet, who the client is, what it is told.

use super::extended::Statements;
use super::portal::Portals;
use super::{Connection, End, LAST_WORD, OUTPUT_ROOM_IDLE, Phase, Turn};
use crate::auth::rules::{Caller, Encryption, Purpose};
use crate::auth::scram::{Exchange, Mechanisms, ScramFault};
use crate::auth::{Demand, GUESSED_SECRET};
use crate::doorway::{Peer, Place};
use crate::options::Claim;
use crate::presence::Presence;
use crate::protocol::backend::{Authentication, Output, Severity};
use crate::protocol::frontend::{Frontend, violation};
use crate::protocol::input::{Input, MessageLimit};
use crate::protocol::startup::{Opening, Startup};
use crate::sessions::Entry;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::tls::Tls;
use coeval::{RoleAttribute, RoleDef, SqlError, SqlState};
use coeval_sql::{
    Acknowledgement, Client, QuotaShare, Session, Standing, Verifier, begin_with_kept_settings, utf8,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

/// The settings that clients are told when they change: their names as PostgreSQL spells them, and ours.
pub(super) const TOLD_SETTINGS: [(&str, &str); 13] = [
    ("server_version", "server_version"),
    ("server_encoding", "server_encoding"),
    ("client_encoding", "client_encoding"),
    ("application_name", "application_name"),
    ("default_transaction_read_only", "default_transaction_read_only"),
    ("in_hot_standby", "in_hot_standby"),
    ("is_superuser", "is_superuser"),
    ("session_authorization", "session_authorization"),
    ("DateStyle", "datestyle"),
    ("IntervalStyle", "intervalstyle"),
    ("TimeZone", "timezone"),
    ("integer_datetimes", "integer_datetimes"),
    ("standard_conforming_strings", "standard_conforming_strings"),
];

/// Longest messages of a client that has not said who it is.
const OPENING_MESSAGE_BYTES_MAX: usize = 10_000;

/// Serves a new connection until it ends.
pub(crate) async fn open(
    shared: Arc<Shared>,
    stream: Stream,
    address: SocketAddr,
    place: Place,
    socket: OwnedSemaphorePermit,
) {
    let within = shared.options.opening_timeout;
    let mut input = Input::new(MessageLimit(OPENING_MESSAGE_BYTES_MAX));
    let opening = tokio::time::timeout(within, opened(&shared, stream, address, place.peer(), &mut input));
    let opened = tokio::select! {
        biased;
        () = place.pushed_out() => {
            shared.metrics.refused();
            tracing::info!(%address, "a connection that was not opened had to make room for another");
            return;
        }
        opened = opening => opened,
    };
    drop(place);
    let mut connection = match opened {
        Ok(Some(connection)) => connection,
        Ok(None) => return,
        Err(_) => {
            shared.metrics.refused();
            tracing::info!(%address, "a connection was not opened in time");
            return;
        }
    };
    connection.socket = Some(socket);
    input.set_limit(MessageLimit(shared.options.message_bytes_max));
    let pid = connection.entry.pid();
    tracing::debug!(pid, %address, "session opened");
    let cancel = connection.session.cancel_handle();
    let end = tokio::select! {
        biased;
        end = connection.serve(&mut input) => end,
        () = cancel.terminated() => {
            let message = "terminating connection due to administrator command";
            End::Fatal(SqlError::new(SqlState::AdminShutdown, message))
        }
    };
    connection.end(end).await;
}

impl Connection {
    /// Says the last word, if there is one to say.
    async fn end(mut self, end: End) {
        let pid = self.entry.pid();
        match end {
            End::Finished => tracing::debug!(pid, "session ended"),
            End::Gone(error) => tracing::debug!(pid, %error, "the client has gone"),
            End::Fatal(error) => {
                tracing::info!(pid, state = error.state.code(), message = %error.message, "session ended");
                farewell(&mut self.stream, &mut self.output, &error).await;
            }
        }
        let shared = Arc::clone(&self.shared);
        shared.endings.end(pid, Box::new(self));
    }
}

/// Tells a client why its connection ends, if it listens.
async fn farewell(stream: &mut Stream, output: &mut Output, error: &SqlError) {
    output.report(Severity::Fatal, error);
    let told = async {
        output.send_to(stream).await?;
        stream.close().await;
        Ok::<_, io::Error>(())
    };
    // A client that does not listen is left.
    let _ = tokio::time::timeout(LAST_WORD, told).await;
}

/// A connection with a session; nothing if it came to none, which the client has been told then.
async fn opened(
    shared: &Arc<Shared>,
    mut stream: Stream,
    address: SocketAddr,
    peer: Peer,
    input: &mut Input,
) -> Option<Connection> {
    let within = shared.options.opening_timeout;
    // A tenth is left to say that it has taken too long.
    let open_by = Instant::now() + (within - within / 10);
    let mut output = Output::default();
    let startup = match startup(shared, &mut stream, peer, input, &mut output).await {
        Ok(startup) => startup?,
        Err(End::Fatal(error)) => {
            shared.metrics.refused();
            tracing::info!(%address, message = %error.message, "connection refused");
            farewell(&mut stream, &mut output, &error).await;
            return None;
        }
        Err(End::Gone(error)) => {
            shared.metrics.refused();
            tracing::info!(%address, %error, "a connection ended before it was opened");
            return None;
        }
        Err(End::Finished) => return None,
    };
    let caller = Newcomer { shared, startup: &startup, address, peer, open_by };
    match caller.session(stream, input, output).await {
        Ok(connection) => Some(connection),
        Err(refused) => {
            let (mut stream, mut output, end) = *refused;
            if let End::Fatal(error) = end {
                shared.metrics.refused();
                tracing::info!(%address, message = %error.message, "connection refused");
                farewell(&mut stream, &mut output, &error).await;
            }
            None
        }
    }
}

/// Reads packets up to the one that wants a session; `None` if it wants none.
async fn startup(
    shared: &Arc<Shared>,
    stream: &mut Stream,
    peer: Peer,
    input: &mut Input,
    output: &mut Output,
) -> Result<Option<Startup>, End> {
    loop {
        let Some((opening, length)) = Opening::read(input.pending()).map_err(End::Fatal)? else {
            match input.fill(stream).await {
                Ok(0) => return Err(End::Finished),
                Ok(_) => continue,
                Err(error) => return Err(End::Gone(error)),
            }
        };
        input.advance(length);
        match opening {
            Opening::Startup(startup) => return Ok(Some(startup)),
            Opening::Cancel { pid, secret } => {
                cancel(shared, peer, pid, secret).await;
                return Ok(None);
            }
            Opening::Gss => output.tls_answer(b'N'),
            Opening::Ssl => match (&shared.tls, &*stream) {
                (Some(tls), Stream::Plain(_)) => {
                    // What came unencrypted behind the request would be taken for encrypted.
                    if !input.pending().is_empty() {
                        return Err(End::Fatal(violation("received unencrypted data after SSL request")));
                    }
                    output.tls_answer(b'S');
                    send(stream, output).await?;
                    let Stream::Plain(plain) = std::mem::replace(stream, Stream::Closed) else {
                        unreachable!("it is plain")
                    };
                    *stream = encrypted(tls, plain).await.map_err(End::Gone)?;
                }
                _ => output.tls_answer(b'N'),
            },
        }
        send(stream, output).await?;
    }
}

/// Agrees on encryption with a client that has asked for it.
///
/// # Errors
/// If it does not come about, for one because nobody vouches for the client's certificate. The client has been told.
async fn encrypted(tls: &Tls, plain: TcpStream) -> io::Result<Stream> {
    let (error, mut plain) = match tls.acceptor.accept(plain).into_fallible().await {
        Ok(encrypted) => return Ok(Stream::Tls(Box::new(encrypted))),
        Err(failed) => failed,
    };
    // A connection that is closed over bytes that were not read is reset, and its client may not see why. So what a
    // client sends that has gone on already is read, until it closes its side.
    let leave = async {
        plain.shutdown().await?;
        let mut unread = [0; 1024];
        while plain.read(&mut unread).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    let _ = tokio::time::timeout(LAST_WORD, leave).await;
    Err(error)
}

/// Ends the statement of a session for whoever knows its secret. Whoever guesses learns nothing, and guesses ever more
/// slowly.
async fn cancel(shared: &Shared, peer: Peer, pid: i32, secret: i32) {
    let throttle = &shared.admission.throttle;
    let Some(attempt) = throttle.begin(peer, GUESSED_SECRET, Instant::now()) else {
        tracing::info!(pid, "too many cancel requests with wrong secrets: one was not looked at");
        return;
    };
    tokio::time::sleep(attempt.wait).await;
    match shared.registry().find(pid) {
        Some(session) if session.client().secret == secret => {
            throttle.note_success(peer, GUESSED_SECRET, Instant::now());
            session.cancel();
        }
        Some(_) => {
            throttle.note_failure(peer, GUESSED_SECRET, Instant::now());
            tracing::info!(pid, "a cancel request with a wrong secret");
        }
        // It has gone meanwhile, for all we know.
        None => tracing::info!(pid, "a cancel request for no session"),
    }
}

async fn send(stream: &mut Stream, output: &mut Output) -> Result<(), End> {
    if !output.bytes().is_empty() {
        output.send_to(stream).await.map_err(End::Gone)?;
        output.clear(OUTPUT_ROOM_IDLE);
    }
    Ok(())
}

type Refused = Box<(Stream, Output, End)>;

/// A client that has said what it wants.
struct Newcomer<'a> {
    shared: &'a Arc<Shared>,
    startup: &'a Startup,
    address: SocketAddr,
    peer: Peer,
    /// Until when it may wait for what it asks for.
    open_by: Instant,
}

fn invalid(message: impl Into<String>) -> End {
    End::Fatal(SqlError::new(SqlState::InvalidAuthorizationSpecification, message))
}

impl Newcomer<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        let given = self.startup.parameters.iter().rev().find(|(given, _)| given == name);
        given.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// What the client wants the connection for.
    fn purpose(&self) -> Purpose {
        match self.parameter("replication").map(str::to_lowercase).as_deref() {
            Some("true" | "on" | "yes" | "1" | "database") => Purpose::Replication,
            Some(_) | None => Purpose::Session,
        }
    }

    /// Makes sure of who the client is, and opens its session.
    async fn session(
        &self,
        mut stream: Stream,
        input: &mut Input,
        mut output: Output,
    ) -> Result<Connection, Refused> {
        match self.admitted(&mut stream, input, &mut output).await {
            Ok((session, entry)) => {
                let mut connection = Connection {
                    shared: Arc::clone(self.shared),
                    entry,
                    presence: Presence::behind(&stream, session.cancel_handle()),
                    stream,
                    socket: None,
                    output,
                    session,
                    statements: Statements::default(),
                    portals: Portals::new(&self.shared.portals),
                    unsent: QuotaShare::of(&self.shared.unsent),
                    received: QuotaShare::of(&self.shared.received),
                    phase: Phase::Ready,
                    purpose: self.purpose(),
                    behind_copy: None,
                    turn: Turn::Server,
                    began: None,
                    settings_told: u64::MAX,
                };
                connection.welcome();
                Ok(connection)
            }
            Err(end) => Err(Box::new((stream, output, end))),
        }
    }

    async fn admitted(
        &self,
        stream: &mut Stream,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<(Session, Entry), End> {
        let (shared, startup) = (self.shared, self.startup);
        let Some(user) = self.parameter("user") else {
            return Err(invalid("no PostgreSQL user name specified in startup packet"));
        };
        let database = self.parameter("database").unwrap_or(user);
        let unknown = startup.parameters.iter().map(|(name, _)| name.as_str());
        let unknown: Vec<&str> = unknown.filter(|name| name.starts_with("_pq_.")).collect();
        if startup.minor > 0 || !unknown.is_empty() {
            output.negotiate_version(&unknown);
        }
        if shared.is_stopping() {
            let message = "the database system is shutting down";
            return Err(End::Fatal(SqlError::new(SqlState::CannotConnectNow, message)));
        }
        let standing = self.authenticated(user, database, stream, input, output).await?;
        let may_follow = standing == Standing::Administrator
            || shared
                .engine
                .role(user)
                .is_some_and(|role| role.is(RoleAttribute::Superuser) || role.is(RoleAttribute::Replication));
        if self.purpose() == Purpose::Replication && !may_follow {
            let message = "must be superuser or replication role to start a replication connection";
            return Err(End::Fatal(SqlError::new(SqlState::InsufficientPrivilege, message)));
        }
        let mut session = shared.engine.session();
        session.set_acknowledgement(Acknowledgement::LeftToCaller);
        session.name_database(database);
        let client = Client {
            user: user.to_owned(),
            standing,
            database: database.to_owned(),
            address: Some(self.address),
            secret: shared.new_secret(),
        };
        let claim = match standing {
            Standing::Administrator => Claim::Superuser,
            Standing::Role => match shared.engine.role(user) {
                Some(role) if role.is(RoleAttribute::Superuser) => Claim::Superuser,
                Some(_) | None => Claim::Ordinary,
            },
        };
        let is_reader = claim == Claim::Ordinary && self.purpose() == Purpose::Session;
        if is_reader && !shared.engine.store().has_confirmed() {
            let message = "the database system is starting up: what it had is not known to be on as many machines as asked for";
            return Err(End::Fatal(SqlError::new(SqlState::CannotConnectNow, message).with_hint(
                "Start the replicas of synchronous_standby_names, or the primary. Superusers may connect.",
            )));
        }
        let sessions_max = shared.options.sessions_max(claim);
        let guard = shared.registry().add(client, session.cancel_handle(), sessions_max);
        let Some(guard) = guard else {
            let message = if sessions_max < shared.options.connections_max {
                "remaining connection slots are reserved for superuser connections"
            } else {
                "sorry, too many clients already"
            };
            return Err(End::Fatal(SqlError::new(SqlState::TooManyConnections, message)));
        };
        session.identify(user, standing, guard.pid());
        self.configure(&mut session)?;
        Ok((session, Entry::new(guard)))
    }

    /// Gives a session the settings that it begins with. What they do depends on who asks, so it knows its user.
    fn configure(&self, session: &mut Session) -> Result<(), End> {
        let options = &self.shared.options;
        let given = options.session_settings.iter().cloned();
        for (name, value) in options.told_as_settings().into_iter().chain(given) {
            session.configure_until(&name, &value, self.open_by).map_err(End::Fatal)?;
        }
        if self.purpose() == Purpose::Session {
            begin_with_kept_settings(session, self.open_by);
        }
        for (name, value) in settings_of(self.startup) {
            session.configure_until(&name, &value, self.open_by).map_err(End::Fatal)?;
        }
        Ok(())
    }

    /// Makes sure that a client is who it says; what its rights come from then.
    async fn authenticated(
        &self,
        user: &str,
        database: &str,
        stream: &mut Stream,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<Standing, End> {
        let shared = self.shared;
        let certificate = stream.client_certificate();
        let caller = Caller {
            purpose: self.purpose(),
            user,
            database,
            address: self.address.ip(),
            encryption: stream.encryption(),
            certificate: certificate.as_ref(),
        };
        let number = |role: Option<Arc<RoleDef>>| role.map(|role| role.number);
        let before = number(shared.engine.role(user));
        let standing = match shared.admission.demand(&caller, &shared.engine) {
            Demand::Nothing(standing) => standing,
            Demand::Refused(message) => return Err(invalid(message)),
            Demand::Password(verifier, standing) => {
                self.prove(user, verifier, stream, input, output).await?;
                standing
            }
        };
        let role = shared.engine.role(user);
        let may_log_in = role.as_ref().is_some_and(|role| role.is(RoleAttribute::Login));
        if standing == Standing::Role && !may_log_in {
            return Err(invalid(format!("role \"{user}\" is not permitted to log in")));
        }
        // What was proven is of the role that there was: it takes as long as the client likes.
        if standing == Standing::Role && number(role) != before {
            return Err(invalid(format!("role \"{user}\" does not exist")));
        }
        Ok(standing)
    }

    /// Lets the client prove that it knows the password of this user.
    async fn prove(
        &self,
        user: &str,
        verifier: Verifier,
        stream: &mut Stream,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<(), End> {
        let proof = Proof::asked_for(self.shared, verifier, stream, input, output).await?;
        let throttle = &self.shared.admission.throttle;
        let Some(attempt) = throttle.begin(self.peer, user, Instant::now()) else {
            let message = "too many wrong passwords come from this address: this one was not looked at";
            let error = SqlError::new(SqlState::TooManyConnections, message);
            return Err(End::Fatal(error.with_hint("Try again in some seconds.")));
        };
        // Where none has failed, each is looked at before the next one is, and nobody waits for a timer.
        if attempt.wait > Duration::ZERO {
            tokio::time::sleep(attempt.wait).await;
        }
        match proof.checked() {
            Ok(last) => {
                throttle.note_success(self.peer, user, Instant::now());
                output.authentication(Authentication::SaslFinal(&last));
                Ok(())
            }
            Err(ScramFault::WrongProof) => {
                throttle.note_failure(self.peer, user, Instant::now());
                let message = format!("password authentication failed for user \"{user}\"");
                Err(End::Fatal(SqlError::new(SqlState::InvalidPassword, message)))
            }
            Err(fault) => Err(End::Fatal(refused_proof(fault))),
        }
    }
}

/// The settings that a startup packet asks for, in order: parameters by their names, and `-c name=value` and
/// `--name=value` in `options`.
fn settings_of(startup: &Startup) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for (name, value) in &startup.parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => settings.extend(options_of(value)),
            name if name.starts_with("_pq_.") => {}
            name => settings.push((name.to_owned(), value.clone())),
        }
    }
    settings
}

fn options_of(options: &str) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut words = words_of(options).into_iter();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--") {
            Some(long) => Some(long.to_owned()),
            None if word == "-c" => words.next(),
            None => word.strip_prefix("-c").map(str::to_owned),
        };
        if let Some((name, value)) = assignment.as_deref().and_then(|text| text.split_once('=')) {
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    settings
}

/// Words between blanks; a backslash makes the character behind it a part of its word.
fn words_of(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let word = words.last_mut().expect("there is always a word");
        match character {
            '\\' => word.extend(characters.next()),
            blank if blank.is_whitespace() => words.push(String::new()),
            other => word.push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a client is told whose messages prove nothing, whatever the password is.
fn refused_proof(fault: ScramFault) -> SqlError {
    let message = match fault {
        ScramFault::WrongProof => "password authentication failed",
        ScramFault::Malformed => "malformed SCRAM message",
        ScramFault::ChannelBinding => "unsupported SCRAM channel-binding type",
        ScramFault::Downgraded => {
            let message = "SCRAM channel binding negotiation error";
            return SqlError::new(SqlState::InvalidAuthorizationSpecification, message).with_detail(
                "The client supports SCRAM channel binding but thinks the server does not. However, this server \
                 does support channel binding.",
            );
        }
        ScramFault::OtherChannel => {
            let message = "SCRAM channel binding check failed";
            return SqlError::new(SqlState::InvalidAuthorizationSpecification, message);
        }
    };
    violation(message)
}

/// What a client says to prove its password.
struct Proof {
    exchange: Exchange,
    last: String,
}

impl Proof {
    /// Asks a client for it.
    async fn asked_for(
        shared: &Shared,
        verifier: Verifier,
        stream: &mut Stream,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<Self, End> {
        let end_point = shared.tls.as_ref().and_then(|tls| tls.end_point.clone());
        let mechanisms = Mechanisms::new(end_point.filter(|_| stream.encryption() == Encryption::Tls));
        output.authentication(Authentication::Sasl(mechanisms.names()));
        send(stream, output).await?;
        let first = password_message(stream, input).await?;
        let malformed = || End::Fatal(violation("malformed SASL initial response"));
        let end = first.iter().position(|&byte| byte == 0).ok_or_else(malformed)?;
        let (mechanism, rest) = first.split_at(end);
        let Some(channel) = mechanisms.chosen(mechanism) else {
            let message = "client selected an invalid SASL authentication mechanism";
            return Err(End::Fatal(violation(message)));
        };
        // A zero byte, the length of the message, the message.
        let message = rest.get(5..).ok_or_else(malformed)?;
        let message = utf8(message).map_err(End::Fatal)?;
        let exchange =
            Exchange::begin(verifier, &channel, message).map_err(|fault| End::Fatal(refused_proof(fault)))?;
        output.authentication(Authentication::SaslContinue(exchange.server_first()));
        send(stream, output).await?;
        let last = password_message(stream, input).await?;
        Ok(Self { exchange, last: utf8(&last).map_err(End::Fatal)?.to_owned() })
    }

    /// What the client is to be sent if it knows the password.
    fn checked(&self) -> Result<String, ScramFault> {
        self.exchange.finish(&self.last)
    }
}

async fn password_message(stream: &mut Stream, input: &mut Input) -> Result<Vec<u8>, End> {
    loop {
        if let Some(frame) = input.frame().map_err(End::Fatal)? {
            return match Frontend::read(frame.kind, frame.body).map_err(End::Fatal)? {
                Frontend::Password(bytes) => Ok(bytes.to_vec()),
                Frontend::Terminate => Err(End::Finished),
                _ => Err(End::Fatal(violation("expected a SASL response"))),
            };
        }
        match input.fill(stream).await {
            Ok(0) => return Err(End::Finished),
            Ok(_) => {}
            Err(error) => return Err(End::Gone(error)),
        }
    }
}

impl Connection {
    /// What a client is told that has a session.
    fn welcome(&mut self) {
        self.output.authentication(Authentication::Ok);
        self.tell_settings();
        let secret = self.entry.shown().client().secret;
        self.output.backend_key(self.entry.pid(), secret);
        self.ready();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(
            options_of("-c statement_timeout=5s -csearch_path=a,b --extra-float-digits=2"),
            pairs(&[("statement_timeout", "5s"), ("search_path", "a,b"), ("extra_float_digits", "2")])
        );
        assert_eq!(options_of(r"-c application_name=my\ app"), pairs(&[("application_name", "my app")]));
        assert_eq!(options_of("  "), pairs(&[]));
    }
}
