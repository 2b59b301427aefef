// SPDX-License-Identifier: Apache-2.0
//! [`Connection`]: a session of the server in this process, in PostgreSQL's protocol, with values as texts.
//!
//! A driver would hide what the page shows: where the session's transaction stands, notices, positions of errors, the types of
//! columns before their rows. So this speaks the protocol itself, by the crate that drivers are made of.

use crate::report::Report;
use bytes::{Buf, BytesMut};
use coeval_server::{Encryption, Entrance};
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{Message, RowDescriptionBody};
use postgres_protocol::message::frontend;
use postgres_protocol::{IsNull, Oid};
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Longest user, password or database: proving a password takes time by its length.
const CREDENTIAL_BYTES_MAX: usize = 1 << 10;

/// How often the server is ready until a question is answered: behind its beginning, the statement and its end.
pub(crate) const QUESTION_PARTS: usize = 3;

/// Values that a statement may have for its parameters.
const PARAMETERS_MAX: usize = 65_535;

/// Bytes of a row that is taken as a whole, whatever the server sends: it goes through memory, here and in the browser.
pub(crate) const ROW_BYTES_MAX: usize = 32 << 20;

/// Bytes that are asked of the connection at a time.
const READ_ROOM: usize = 32 << 10;

/// Whose session it is.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) user: String,
    /// Kept for as long as the login lasts: each tab opens a session by it.
    pub(crate) password: String,
    pub(crate) database: String,
    /// Where the browser is.
    pub(crate) address: SocketAddr,
    pub(crate) encryption: Encryption,
    /// Whether transactions are read-only unless they say otherwise.
    pub(crate) is_read_only: bool,
}

/// Where the session's transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TransactionState {
    Idle,
    Block,
    Failed,
}

/// Why a session does not come about, or has ended.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The server says why.
    Ended(Report),
    /// The connection answers.
    Broken(io::Error),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl From<Lost> for Report {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Ended(report) => report,
            Lost::Broken(error) => Self::own("08006", format!("the session has ended: {error}")),
        }
    }
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) type_oid: Oid,
}

/// Why something is not sent to the server at all.
pub(crate) fn unsendable(sql: &str, parameters: &[Option<String>]) -> Option<Report> {
    if sql.contains('\0') {
        return Some(Report::own("22021", "the text has a character with code zero"));
    }
    let many = parameters.len() > PARAMETERS_MAX;
    many.then(|| Report::own("54023", format!("a statement has at most {PARAMETERS_MAX} parameters")))
}

/// What somebody needs to end a session's statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CancelKey {
    pid: i32,
    secret: i32,
}

/// What a session says.
pub(crate) enum Heard {
    Message(Message),
    /// A row of so many bytes, which are gone.
    LongRow(usize),
}

/// See the module.
pub(crate) struct Connection {
    stream: UnixStream,
    input: BytesMut,
    /// Of a row that is passed over: the bytes that are to come, and its length.
    passing: Option<(usize, usize)>,
    output: BytesMut,
    cancel_key: CancelKey,
    state: TransactionState,
    /// As the server says; empty if it does not.
    pub(crate) version: String,
    pub(crate) is_superuser: bool,
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server sent {what}"))
}

/// Columns by a message of the server.
pub(crate) fn columns_of(described: &RowDescriptionBody) -> io::Result<Vec<Column>> {
    let fields = described.fields();
    fields.map(|field| Ok(Column { name: field.name().to_owned(), type_oid: field.type_oid() })).collect()
}

impl Connection {
    /// Opens a session; `settings` are what it begins with.
    ///
    /// # Errors
    /// If the server refuses it.
    pub(crate) async fn open(
        entrance: &Entrance,
        identity: &Identity,
        settings: &[(&str, &str)],
    ) -> Result<Self, Lost> {
        let stream = entrance.connect(identity.address, identity.encryption).await?;
        let mut connection = Self {
            stream,
            input: BytesMut::new(),
            passing: None,
            output: BytesMut::new(),
            cancel_key: CancelKey { pid: 0, secret: 0 },
            state: TransactionState::Idle,
            version: String::new(),
            is_superuser: false,
        };
        let mut parameters = vec![("user", identity.user.as_str()), ("database", identity.database.as_str())];
        parameters.push(("client_encoding", "UTF8"));
        if identity.is_read_only {
            parameters.push(("default_transaction_read_only", "on"));
        }
        parameters.extend_from_slice(settings);
        let is_long = [&identity.user, &identity.password, &identity.database]
            .iter()
            .any(|text| text.len() > CREDENTIAL_BYTES_MAX);
        if is_long {
            let message = format!("a name or password has more than {CREDENTIAL_BYTES_MAX} bytes");
            return Err(Lost::Ended(Report::own("28000", message)));
        }
        // A zero byte would end the text early, and what follows be taken for another parameter.
        if parameters.iter().any(|(_, value)| value.contains('\0')) {
            return Err(Lost::Ended(Report::own("22021", "a name has a character with code zero")));
        }
        frontend::startup_message(parameters, &mut connection.output)?;
        connection.send().await?;
        connection.authenticate(identity.password.as_bytes()).await?;
        connection.until_ready().await?;
        Ok(connection)
    }

    /// Proves that we know the password, if that is wanted.
    async fn authenticate(&mut self, password: &[u8]) -> Result<(), Lost> {
        let mut exchange = ScramSha256::new(password, ChannelBinding::unsupported());
        loop {
            match self.next().await? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationSasl(_) => {
                    frontend::sasl_initial_response(SCRAM_SHA_256, exchange.message(), &mut self.output)?;
                }
                Message::AuthenticationSaslContinue(body) => {
                    // Thousands of rounds of a digest.
                    tokio::task::block_in_place(|| exchange.update(body.data()))?;
                    frontend::sasl_response(exchange.message(), &mut self.output)?;
                }
                Message::AuthenticationSaslFinal(body) => exchange.finish(body.data())?,
                Message::ErrorResponse(body) => return Err(Lost::Ended(Report::of(body.fields())?)),
                _ => return Err(unexpected("no question for a password that the console can answer").into()),
            }
            self.send().await?;
        }
    }

    /// Takes what the server says of the session, up to when it waits for a statement.
    async fn until_ready(&mut self) -> Result<(), Lost> {
        loop {
            match self.next().await? {
                Message::BackendKeyData(body) => {
                    self.cancel_key = CancelKey { pid: body.process_id(), secret: body.secret_key() };
                }
                Message::ReadyForQuery(_) => return Ok(()),
                Message::ErrorResponse(body) => return Err(Lost::Ended(Report::of(body.fields())?)),
                _ => {}
            }
        }
    }

    /// Where its transaction stood when the last statement had ended.
    pub(crate) fn state(&self) -> TransactionState {
        self.state
    }

    pub(crate) fn cancel_key(&self) -> CancelKey {
        self.cancel_key
    }

    /// Begins a text of any number of statements.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn begin_script(&mut self, sql: &str) -> io::Result<()> {
        frontend::query(sql, &mut self.output)?;
        self.send().await
    }

    /// Begins one statement with values for its parameters, which the server takes as texts of the types that it finds.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn begin_statement(
        &mut self,
        sql: &str,
        parameters: &[Option<String>],
    ) -> io::Result<()> {
        self.push_statement(sql, parameters, 0)?;
        self.send().await
    }

    /// Begins one statement in a transaction that only reads and is rolled back; of its rows at most so many. The server is ready
    /// [so often](QUESTION_PARTS) before it is done.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn begin_question(
        &mut self,
        sql: &str,
        parameters: &[Option<String>],
        rows_max: i32,
    ) -> io::Result<()> {
        frontend::query("BEGIN READ ONLY", &mut self.output)?;
        self.push_statement(sql, parameters, rows_max)?;
        frontend::query("ROLLBACK", &mut self.output)?;
        self.send().await
    }

    /// The messages of a statement; of its rows so many, all for 0.
    fn push_statement(&mut self, sql: &str, parameters: &[Option<String>], rows_max: i32) -> io::Result<()> {
        let output = &mut self.output;
        frontend::parse("", sql, [], output)?;
        let text = |value: &Option<String>, buffer: &mut BytesMut| {
            Ok(match value {
                Some(value) => {
                    buffer.extend_from_slice(value.as_bytes());
                    IsNull::No
                }
                None => IsNull::Yes,
            })
        };
        frontend::bind("", "", [], parameters, text, [], output).map_err(|error| match error {
            frontend::BindError::Conversion(error) => io::Error::other(error),
            frontend::BindError::Serialization(error) => error,
        })?;
        frontend::describe(b'P', "", output)?;
        frontend::execute("", rows_max, output)?;
        frontend::sync(output);
        Ok(())
    }

    /// Tells a COPY FROM STDIN that there is nothing to come.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn refuse_copy(&mut self) -> io::Result<()> {
        frontend::copy_fail("the console has no rows to send: use psql, or coeval sql", &mut self.output)?;
        self.send().await
    }

    /// The server's next message, where no long row is expected.
    ///
    /// # Errors
    /// If the connection has ended, or a [long row](Heard::LongRow) has come.
    pub(crate) async fn next(&mut self) -> io::Result<Message> {
        match self.hear().await? {
            Heard::Message(message) => Ok(message),
            Heard::LongRow(bytes) => Err(unexpected(&format!("a message of {bytes} bytes"))),
        }
    }

    /// The length of the message that comes next, if it is a row that is longer than any that is kept.
    fn long_row(&self) -> Option<usize> {
        let (kind, length) = self.input.split_first_chunk::<5>().map(|(head, _)| (head[0], &head[1..]))?;
        let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
        (matches!(kind, b'D' | b'd') && length > ROW_BYTES_MAX).then_some(length)
    }

    /// Drops what has come of a row that is passed over; its length, once all of it has.
    fn pass(&mut self) -> Option<usize> {
        let (left, length) = self.passing.as_mut()?;
        let there = self.input.len().min(*left);
        self.input.advance(there);
        *left -= there;
        let passed = (*left == 0).then_some(*length)?;
        self.passing = None;
        Some(passed)
    }

    async fn read(&mut self) -> io::Result<()> {
        self.input.reserve(READ_ROOM);
        if self.stream.read_buf(&mut self.input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// What comes next; settings that the server tells are noted on the way. A row that is too long is passed over, and never in
    /// memory as a whole. Whoever drops it while it waits loses nothing.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn hear(&mut self) -> io::Result<Heard> {
        loop {
            if self.passing.is_none() {
                // The byte that says what it is comes on top of what the length counts.
                self.passing = self.long_row().map(|length| (length + 1, length));
            }
            if self.passing.is_some() {
                match self.pass() {
                    Some(length) => return Ok(Heard::LongRow(length)),
                    None => self.read().await?,
                }
                continue;
            }
            let Some(message) = Message::parse(&mut self.input)? else {
                self.read().await?;
                continue;
            };
            match message {
                Message::ParameterStatus(status) => match status.name()? {
                    "server_version" => status.value()?.clone_into(&mut self.version),
                    "is_superuser" => self.is_superuser = status.value()? == "on",
                    _ => {}
                },
                Message::ReadyForQuery(ready) => {
                    self.state = match ready.status() {
                        b'T' => TransactionState::Block,
                        b'E' => TransactionState::Failed,
                        _ => TransactionState::Idle,
                    };
                    return Ok(Heard::Message(Message::ReadyForQuery(ready)));
                }
                message => return Ok(Heard::Message(message)),
            }
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        self.stream.write_all_buf(&mut self.output).await
    }
}

/// Ends the statement of a session, as anybody would who has its key. That it has ended by itself meanwhile is no error.
///
/// # Errors
/// If the system has no more sockets.
pub(crate) async fn cancel(entrance: &Entrance, identity: &Identity, key: CancelKey) -> io::Result<()> {
    let mut stream = entrance.connect(identity.address, identity.encryption).await?;
    let mut request = BytesMut::new();
    frontend::cancel_request(key.pid, key.secret, &mut request);
    stream.write_all_buf(&mut request).await?;
    // The server closes its side when it has done it.
    stream.read(&mut [0]).await.map(drop)
}
