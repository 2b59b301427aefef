// SPDX-License-Identifier: Apache-2.0
//! A replication connection to the primary: opening it, commands, and the messages of a COPY.

use crate::address::{PrimaryAddress, TlsMode};
use crate::error::ReplicaError;
use crate::tls::trusting;
use bytes::BytesMut;
use coeval_store::log::Lsn;
use coeval_store::{FORMAT_VERSION, LogStanding, Promise, TermHistory, Timeline};
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for an answer while the connection is opened.
pub(crate) const OPENING_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest message of a primary: a record of the log, and a little.
const MESSAGE_BYTES_MAX: usize = (1 << 30) + (1 << 20);

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// What the primary says when a slot is there already.
const DUPLICATE_OBJECT: &str = "42710";

/// From 1970 to 2000, where PostgreSQL's times begin.
const EPOCH_SECONDS: u64 = 946_684_800;

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

/// What a machine says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) database: u64,
    /// The number of its last term, and how long its log is.
    pub(crate) standing: LogStanding,
    /// The id of that term; none before the first.
    pub(crate) term_id: Option<u64>,
    /// The timeline that its log is in.
    pub(crate) timeline: Timeline,
    /// The highest that it has promised, or its own.
    pub(crate) promised: Timeline,
    pub(crate) role: Role,
    /// The newest form of log and files that its program writes; 0 if that does not say so yet.
    pub(crate) format: u32,
    pub(crate) compares: Compares,
}

impl Identity {
    /// Fails if it is a replica whose log is the beginning of this one, and no more. Asked for what comes behind `position`, it
    /// would have to say that it does not know the term, or has another history: it cannot know that of what it lacks.
    ///
    /// # Errors
    /// [`ReplicaError::ReplicaBehind`].
    pub(crate) fn check_not_behind(
        &self,
        own: &TermHistory,
        position: Lsn,
        address: &PrimaryAddress,
    ) -> Result<(), ReplicaError> {
        let durable = self.standing.durable;
        let is_beginning = || own.check_follower(self.term_id, durable).is_ok();
        if self.role != Role::Replica || durable >= position || !is_beginning() {
            return Ok(());
        }
        Err(ReplicaError::ReplicaBehind { address: address.to_string(), durable, position })
    }
}

/// By what a machine's program tells timelines apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compares {
    /// By their numbers, and of one number by who was promoted.
    Candidates,
    /// By their numbers alone: it is older.
    Numbers,
}

/// Whether the primary is to say at once where its log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Wanted,
    Unneeded,
}

/// What a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It writes the log.
    Primary,
    /// It follows.
    Replica,
    /// It was a primary, and takes no commits any more.
    Superseded,
    /// It is served to be read only, as some of its files may be damaged: it writes no log, and gives none.
    Salvaged,
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    pub(crate) body: Vec<u8>,
}

/// A row of texts.
struct Row {
    values: Vec<Option<String>>,
}

impl Row {
    fn text(&self, index: usize) -> &str {
        self.values.get(index).and_then(|text| text.as_deref()).unwrap_or_default()
    }

    fn malformed() -> ReplicaError {
        ReplicaError::Protocol("a command is not answered as Coeval does".to_owned())
    }

    fn number(&self, index: usize) -> Result<u64, ReplicaError> {
        self.text(index).parse().map_err(|_| Self::malformed())
    }

    fn timeline(&self, index: usize) -> Result<Timeline, ReplicaError> {
        self.text(index).parse().map(Timeline::new).map_err(|_| Self::malformed())
    }

    fn place(&self, index: usize) -> Result<Lsn, ReplicaError> {
        Lsn::from_wal_text(self.text(index)).ok_or_else(Self::malformed)
    }
}

/// A replication connection.
pub struct Link {
    stream: Stream,
    address: String,
    /// What has come and is not worked off, from `start` on.
    buffer: Vec<u8>,
    start: usize,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.address)
    }
}

impl Link {
    /// Connects and says who this is.
    ///
    /// # Errors
    /// [`ReplicaError::Connection`], [`ReplicaError::Tls`], [`ReplicaError::Refused`].
    pub(crate) fn open(to: &PrimaryAddress) -> Result<Self, ReplicaError> {
        Self::open_within(to, OPENING_TIME_MAX)
    }

    /// The same, waiting at most so long for each answer.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_within(to: &PrimaryAddress, patience: Duration) -> Result<Self, ReplicaError> {
        let failed = |error: io::Error| ReplicaError::Connection { address: to.to_string(), error };
        let mut addresses = (to.host.as_str(), to.port).to_socket_addrs().map_err(failed)?;
        let mut connected = Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        for address in &mut addresses {
            connected = TcpStream::connect_timeout(&address, patience);
            if connected.is_ok() {
                break;
            }
        }
        let socket = connected.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(patience)).map_err(failed)?;
        socket.set_write_timeout(Some(patience)).map_err(failed)?;
        let stream = match &to.tls {
            TlsMode::Disable => Stream::Plain(socket),
            TlsMode::VerifyFull(authorities) => encrypted(socket, to, authorities)?,
        };
        let mut link = Self { stream, address: to.to_string(), buffer: Vec::new(), start: 0 };
        link.introduce(to)?;
        Ok(link)
    }

    fn introduce(&mut self, to: &PrimaryAddress) -> Result<(), ReplicaError> {
        let parameters =
            [("user", to.user.as_str()), ("replication", "true"), ("application_name", &to.application_name)];
        self.send(|out| frontend::startup_message(parameters, out))?;
        let mut scram = None;
        loop {
            let message = self.expect()?;
            match message.kind {
                b'R' => self.authenticate(&message.body, to, &mut scram)?,
                b'Z' => return Ok(()),
                b'S' | b'K' | b'N' | b'v' => {}
                other => return Err(unexpected(other, "while the connection is opened")),
            }
        }
    }

    fn authenticate(
        &mut self,
        body: &[u8],
        to: &PrimaryAddress,
        scram: &mut Option<ScramSha256>,
    ) -> Result<(), ReplicaError> {
        let malformed = || ReplicaError::Protocol("a malformed step of authentication".to_owned());
        let refused = |error: io::Error| ReplicaError::Refused {
            state: "28P01".to_owned(),
            message: format!("the password: {error}"),
        };
        let (step, rest) = body.split_first_chunk::<4>().ok_or_else(malformed)?;
        match u32::from_be_bytes(*step) {
            0 => Ok(()),
            10 => {
                if !rest.split(|byte| *byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(ReplicaError::Protocol(
                        "the primary does not offer SCRAM-SHA-256".to_owned(),
                    ));
                }
                let password = to.password.as_deref().ok_or_else(|| ReplicaError::Refused {
                    state: "28P01".to_owned(),
                    message: format!("user \"{}\" needs a password", to.user),
                })?;
                let begun = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
                let first = begun.message().to_vec();
                *scram = Some(begun);
                self.send(|out| frontend::sasl_initial_response(SCRAM_SHA_256, &first, out))
            }
            11 => {
                let scram = scram.as_mut().ok_or_else(malformed)?;
                scram.update(rest).map_err(refused)?;
                let next = scram.message().to_vec();
                self.send(|out| frontend::sasl_response(&next, out))
            }
            12 => scram.as_mut().ok_or_else(malformed)?.finish(rest).map_err(refused),
            other => Err(ReplicaError::Protocol(format!("authentication of kind {other} is not known here"))),
        }
    }

    /// Which database the primary has.
    ///
    /// # Errors
    /// [`ReplicaError`].
    pub(crate) fn identify(&mut self) -> Result<Identity, ReplicaError> {
        let row = self.row("IDENTIFY_SYSTEM")?;
        let number = row.timeline(1)?;
        let candidate = self.candidate(row.text(9), number)?;
        Ok(Identity {
            database: row.number(0)?,
            standing: LogStanding::new(row.number(5)?, candidate, row.place(2)?),
            term_id: u64::from_str_radix(row.text(4), 16).ok().filter(|id| *id > 0),
            timeline: number.of_candidate(candidate),
            promised: row.timeline(6)?,
            role: match row.text(7) {
                "primary" => Role::Primary,
                "replica" => Role::Replica,
                "salvaged" => Role::Salvaged,
                _ => Role::Superseded,
            },
            format: row.text(8).parse().unwrap_or_default(),
            compares: if row.text(9).is_empty() { Compares::Numbers } else { Compares::Candidates },
        })
    }

    /// The same of whom log or files are to be taken from.
    ///
    /// # Errors
    /// [`ReplicaError::NewerFormat`], [`ReplicaError::Salvaged`]; other [`ReplicaError`]s.
    pub(crate) fn identify_source(&mut self) -> Result<Identity, ReplicaError> {
        let found = self.identify()?;
        if found.role == Role::Salvaged {
            return Err(ReplicaError::Salvaged(self.address.clone()));
        }
        if found.format > FORMAT_VERSION {
            return Err(ReplicaError::NewerFormat { found: found.format, supported: FORMAT_VERSION });
        }
        Ok(found)
    }

    /// The terms of its log; nothing if its program is too old to say them.
    ///
    /// # Errors
    /// [`ReplicaError`].
    pub(crate) fn term_history(&mut self) -> Result<Option<TermHistory>, ReplicaError> {
        match self.row("TERM_HISTORY") {
            Ok(row) => TermHistory::from_line(row.text(0)).map(Some).ok_or_else(Row::malformed),
            Err(error) if error.is_unknown_command() => {
                self.until_ready()?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks for a promise. How long the other's log is behind it. The `+` says that two timelines of one number are told apart here by their
    /// candidates; a program that does not know it reads a number with a sign.
    ///
    /// # Errors
    /// [`ReplicaError::Refused`] if it has promised the timeline to another, or a higher one; other [`ReplicaError`]s.
    pub(crate) fn ask_for(&mut self, promise: Promise) -> Result<LogStanding, ReplicaError> {
        let Promise { timeline, candidate } = promise;
        let row = self.row(&format!("PROMISE_TIMELINE {timeline} '+{candidate:016x}'"))?;
        let (term, durable) = (row.number(0)?, row.place(1)?);
        let known = LogStanding::new(term, 0, durable);
        let candidate = self.candidate(row.text(2), known.timeline)?;
        Ok(LogStanding::new(term, candidate, durable))
    }

    /// Who was promoted into the timeline of this number, as the text of an answer says, or, if the other's program is too old for that,
    /// the terms of its log; 0 if nobody says.
    fn candidate(&mut self, text: &str, number: Timeline) -> Result<u64, ReplicaError> {
        if !text.is_empty() {
            return u64::from_str_radix(text, 16).map_err(|_| Row::malformed());
        }
        if number <= Timeline::FIRST {
            return Ok(0);
        }
        let found = self.term_history()?.map(|terms| terms.timeline());
        Ok(found.filter(|found| found.get() == number.get()).map_or(0, Timeline::candidate))
    }

    /// The one row that answers a command.
    fn row(&mut self, command: &str) -> Result<Row, ReplicaError> {
        self.command(command)?;
        let mut values = Vec::new();
        loop {
            let message = self.expect()?;
            match message.kind {
                b'D' => values = texts_of(&message.body)?,
                b'T' | b'C' | b'N' | b'S' => {}
                b'Z' => return Ok(Row { values }),
                other => return Err(unexpected(other, "to a command")),
            }
        }
    }

    /// Sends a command.
    ///
    /// # Errors
    /// [`ReplicaError::Connection`].
    pub(crate) fn command(&mut self, text: &str) -> Result<(), ReplicaError> {
        self.send(|out| frontend::query(text, out))
    }

    /// Has a slot be there.
    ///
    /// # Errors
    /// [`ReplicaError`].
    pub(crate) fn make_slot(&mut self, name: &str) -> Result<(), ReplicaError> {
        match self.row(&format!("CREATE_REPLICATION_SLOT {name} PHYSICAL")) {
            Ok(_) => Ok(()),
            Err(ReplicaError::Refused { state, .. }) if state == DUPLICATE_OBJECT => self.until_ready(),
            Err(error) => Err(error),
        }
    }

    /// Behind an error: waits until the other side takes commands again.
    fn until_ready(&mut self) -> Result<(), ReplicaError> {
        while self.expect()?.kind != b'Z' {}
        Ok(())
    }

    /// Asks for the log from a place on, and waits until it begins.
    ///
    /// # Errors
    /// [`ReplicaError`]; [`needs_copy`](ReplicaError::needs_copy) may also be found with the first record.
    pub(crate) fn start_replication(
        &mut self,
        slot: Option<&str>,
        position: Lsn,
        term: Option<u64>,
    ) -> Result<(), ReplicaError> {
        let (position, term) = (position.to_wal_text(), term.unwrap_or_default());
        let slot = slot.map_or_else(String::new, |slot| format!("SLOT {slot} "));
        self.command(&format!("START_REPLICATION {slot}PHYSICAL {position} TERM {term:016x}"))?;
        loop {
            match self.expect()?.kind {
                b'W' => return Ok(()),
                b'N' | b'S' => {}
                other => return Err(unexpected(other, "to START_REPLICATION")),
            }
        }
    }

    /// Tells the primary how far this replica is: what of the log is written, durable and shown here.
    ///
    /// # Errors
    /// [`ReplicaError::Connection`].
    pub(crate) fn send_status(
        &mut self,
        [written, flushed, applied]: [Lsn; 3],
        answer: Answer,
    ) -> Result<(), ReplicaError> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let micros = since.saturating_sub(Duration::from_secs(EPOCH_SECONDS)).as_micros();
        let mut status = vec![b'r'];
        for number in [written.get(), flushed.get(), applied.get(), u64::try_from(micros).unwrap_or_default()]
        {
            status.extend_from_slice(&number.to_be_bytes());
        }
        status.push(u8::from(answer == Answer::Wanted));
        self.send(|out| {
            frontend::CopyData::new(status.as_slice())?.write(out);
            Ok(())
        })
    }

    /// Says that this replica goes. Nobody hears of it if the connection has ended.
    pub(crate) fn say_goodbye(&mut self) {
        let _ = self.send(|out| {
            frontend::terminate(out);
            Ok(())
        });
    }

    fn send(&mut self, make: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> Result<(), ReplicaError> {
        let mut out = BytesMut::new();
        let sent = make(&mut out).and_then(|()| self.stream.write_all(&out));
        sent.map_err(|error| self.failed(error))
    }

    /// Waits for at most so long for messages from here on.
    ///
    /// # Errors
    /// [`ReplicaError::Connection`].
    pub(crate) fn set_patience(&mut self, patience: Duration) -> Result<(), ReplicaError> {
        self.stream.socket().set_read_timeout(Some(patience)).map_err(|error| self.failed(error))
    }

    /// The next message, which has to come.
    ///
    /// # Errors
    /// As [`next`](Self::next); [`ReplicaError::Connection`] if none has come within the patience.
    pub(crate) fn expect(&mut self) -> Result<Message, ReplicaError> {
        match self.next()? {
            Some(message) => Ok(message),
            None => Err(self.failed(io::ErrorKind::TimedOut.into())),
        }
    }

    /// The next message; nothing if none has come within the patience.
    ///
    /// # Errors
    /// [`ReplicaError::Connection`] at the end of the connection; [`ReplicaError::Refused`] for an error that the primary
    /// reports.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, ReplicaError> {
        loop {
            if let Some(message) = self.take()? {
                if message.kind == b'E' {
                    return Err(refusal(&message.body));
                }
                return Ok(Some(message));
            }
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.start = 0;
            }
            let before = self.buffer.len();
            self.buffer.resize(before + READ_BYTES, 0);
            let read = self.stream.read(&mut self.buffer[before..]);
            self.buffer.truncate(before + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Err(self.failed(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Whether a whole message lies ready.
    pub(crate) fn has_message(&self) -> bool {
        let rest = &self.buffer[self.start..];
        rest.get(1..5).is_some_and(|length| {
            let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
            rest.len() > length
        })
    }

    /// The first whole message of the buffer.
    fn take(&mut self) -> Result<Option<Message>, ReplicaError> {
        let rest = &self.buffer[self.start..];
        let Some((header, body)) = rest.split_first_chunk::<5>() else { return Ok(None) };
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(ReplicaError::Protocol(format!("a message of {length} bytes")));
        }
        let Some(body) = body.get(..length - 4) else { return Ok(None) };
        let message = Message { kind: header[0], body: body.to_vec() };
        self.start += length + 1;
        Ok(Some(message))
    }

    fn failed(&self, error: io::Error) -> ReplicaError {
        ReplicaError::Connection { address: self.address.clone(), error }
    }
}

fn encrypted(mut socket: TcpStream, to: &PrimaryAddress, authorities: &Path) -> Result<Stream, ReplicaError> {
    let failed = |what: String| ReplicaError::Tls { address: to.to_string(), what };
    let mut out = BytesMut::new();
    frontend::ssl_request(&mut out);
    let mut answer = [0];
    socket
        .write_all(&out)
        .and_then(|()| socket.read_exact(&mut answer))
        .map_err(|error| ReplicaError::Connection { address: to.to_string(), error })?;
    if answer != *b"S" {
        return Err(failed("the primary has no TLS".to_owned()));
    }
    let config = trusting(to, authorities)?;
    let name = ServerName::try_from(to.host.clone()).map_err(|error| failed(error.to_string()))?;
    let connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| failed(error.to_string()))?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.conn.complete_io(&mut stream.sock).map_err(|error| failed(error.to_string()))?;
    Ok(Stream::Tls(Box::new(stream)))
}

fn unexpected(kind: u8, to_what: &str) -> ReplicaError {
    ReplicaError::Protocol(format!("message {:?} {to_what}", char::from(kind)))
}

/// The values of a row.
fn texts_of(body: &[u8]) -> Result<Vec<Option<String>>, ReplicaError> {
    let malformed = || ReplicaError::Protocol("a malformed row".to_owned());
    let (count, mut rest) = body.split_first_chunk::<2>().ok_or_else(malformed)?;
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, behind) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
        rest = behind;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            values.push(None);
            continue;
        };
        let (value, behind) = rest.split_at_checked(length).ok_or_else(malformed)?;
        values.push(Some(String::from_utf8_lossy(value).into_owned()));
        rest = behind;
    }
    Ok(values)
}

/// What an error message says.
fn refusal(body: &[u8]) -> ReplicaError {
    let (mut state, mut message) = (String::new(), String::new());
    for field in body.split(|byte| *byte == 0) {
        match field.split_first() {
            Some((b'C', text)) => state = String::from_utf8_lossy(text).into_owned(),
            Some((b'M', text)) => message = String::from_utf8_lossy(text).into_owned(),
            _ => {}
        }
    }
    ReplicaError::Refused { state, message }
}

#[cfg(test)]
pub(crate) mod tests;
