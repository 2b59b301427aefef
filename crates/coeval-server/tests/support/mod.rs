// SPDX-License-Identifier: Apache-2.0
//! A server of a database in memory, and clients of it.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test program uses a part")]

pub mod proving;

use coeval::Database;
use coeval_server::{Certificate, Server, ServerOptions};
use socket2::{Domain, Socket, Type};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

/// The tests' certificate.
pub fn server_certificate() -> Certificate {
    Certificate {
        chain: "tests/certificate/server.crt".into(),
        key: key_file("server.key"),
        client_authorities: None,
    }
}

/// The file of a key among the tests' certificates, copied, for the one in the tree may be read by others.
pub fn key_file(name: &str) -> PathBuf {
    static KEYS: OnceLock<TempDir> = OnceLock::new();
    let directory = KEYS.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir("tests/certificate").unwrap() {
            let file = entry.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "key") {
                let key = directory.path().join(file.file_name().unwrap());
                std::fs::copy(&file, &key).unwrap();
                std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
            }
        }
        directory
    });
    directory.path().join(name)
}

/// A server that runs until it is dropped.
pub struct Running {
    pub database: Database,
    pub address: SocketAddr,
    pub metrics_address: Option<SocketAddr>,
    pub runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<()>>,
}

impl Running {
    pub fn new() -> Self {
        Self::with(ServerOptions::default())
    }

    pub fn with(options: ServerOptions) -> Self {
        let runtime = coeval_server::runtime(&options).unwrap();
        Self::on(runtime, Database::in_memory().unwrap(), options)
    }

    /// A server whose connections are all served by one thread.
    pub fn on_one_thread(options: ServerOptions) -> Self {
        Self::on_one_thread_of(Database::in_memory().unwrap(), options)
    }

    pub fn on_one_thread_of(database: Database, options: ServerOptions) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let builder = builder.worker_threads(1).thread_stack_size(coeval::STATEMENT_STACK_BYTES);
        Self::on(builder.enable_all().build().unwrap(), database, options)
    }

    /// A server of this database.
    pub fn of(database: Database) -> Self {
        let options = ServerOptions::default();
        Self::on(coeval_server::runtime(&options).unwrap(), database, options)
    }

    fn on(runtime: Runtime, database: Database, options: ServerOptions) -> Self {
        let server = runtime.block_on(Server::bind(&database, "127.0.0.1:0", options)).unwrap();
        let (address, metrics_address) = (server.address(), server.metrics_address());
        let (stop, stopped) = oneshot::channel::<()>();
        let served = runtime.spawn(server.run(async move {
            let _ = stopped.await;
        }));
        Self { database, address, metrics_address, runtime, stop: Some(stop), served: Some(served) }
    }

    /// Asks the server to stop.
    pub fn begin_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits until it has.
    pub fn wait_stopped(&mut self) {
        self.begin_to_stop();
        if let Some(served) = self.served.take() {
            self.runtime.block_on(served).unwrap();
        }
    }

    pub fn config(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(self.address.port()).user("tester").dbname("coeval");
        config
    }

    /// A client of the server.
    pub async fn client(&self) -> Client {
        let (client, connection) = self.config().connect(NoTls).await.unwrap();
        tokio::spawn(async move {
            let _ = connection.await;
        });
        client
    }

    /// A client that speaks in bytes, with a session open.
    pub fn raw(&self) -> Raw {
        let mut raw = self.unopened();
        raw.send_startup(&[("user", "tester")]);
        raw.until_ready();
        raw
    }

    /// A client that speaks in bytes and has said nothing yet.
    pub fn unopened(&self) -> Raw {
        Raw::over(TcpStream::connect(self.address).unwrap())
    }

    /// The same from another address of the loopback.
    pub fn unopened_from(&self, address: Ipv4Addr) -> Raw {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&self.address.into()).unwrap();
        Raw::over(socket.into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.wait_stopped();
        }
    }
}

/// A client that speaks in bytes.
pub struct Raw {
    pub stream: TcpStream,
    pending: Vec<u8>,
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: char,
    pub body: Vec<u8>,
}

impl Message {
    /// The field of an error or notice.
    pub fn field(&self, field: char) -> Option<String> {
        assert!(matches!(self.kind, 'E' | 'N'), "{self:?}");
        self.body.split(|&byte| byte == 0).find_map(|part| {
            let (&kind, text) = part.split_first()?;
            (kind as char == field).then(|| String::from_utf8(text.to_vec()).unwrap())
        })
    }

    /// The text of a command tag.
    pub fn tag(&self) -> &str {
        assert_eq!(self.kind, 'C');
        std::str::from_utf8(&self.body[..self.body.len() - 1]).unwrap()
    }

    /// The values of a row.
    pub fn values(&self) -> Vec<Option<Vec<u8>>> {
        assert_eq!(self.kind, 'D');
        let mut rest = &self.body[2..];
        let mut values = Vec::new();
        while !rest.is_empty() {
            let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
            rest = &rest[4..];
            values.push(usize::try_from(length).ok().map(|length| {
                let value = rest[..length].to_vec();
                rest = &rest[length..];
                value
            }));
        }
        values
    }

    /// The values of a row as text.
    pub fn texts(&self) -> Vec<String> {
        let text =
            |value: Option<Vec<u8>>| value.map_or("NULL".to_owned(), |v| String::from_utf8(v).unwrap());
        self.values().into_iter().map(text).collect()
    }
}

/// A message of a client.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0").as_bytes())
}

pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = format!("{name}\0{sql}\0").into_bytes();
    body.extend_from_slice(&(types.len() as u16).to_be_bytes());
    types.iter().for_each(|oid| body.extend_from_slice(&oid.to_be_bytes()));
    message(b'P', &body)
}

/// A Bind of values as text, for results as text.
pub fn bind(portal: &str, statement: &str, values: &[Option<&str>]) -> Vec<u8> {
    let values: Vec<_> = values.iter().map(|value| value.map(str::as_bytes)).collect();
    bind_as(portal, statement, &values, 0, 0)
}

pub fn bind_as(
    portal: &str,
    statement: &str,
    values: &[Option<&[u8]>],
    format: u16,
    result_format: u16,
) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0").into_bytes();
    body.extend_from_slice(&1_u16.to_be_bytes());
    body.extend_from_slice(&format.to_be_bytes());
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            None => body.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(bytes) => {
                body.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                body.extend_from_slice(bytes);
            }
        }
    }
    body.extend_from_slice(&1_u16.to_be_bytes());
    body.extend_from_slice(&result_format.to_be_bytes());
    message(b'B', &body)
}

pub fn describe(kind: char, name: &str) -> Vec<u8> {
    message(b'D', format!("{kind}{name}\0").as_bytes())
}

pub fn close(kind: char, name: &str) -> Vec<u8> {
    message(b'C', format!("{kind}{name}\0").as_bytes())
}

pub fn execute(portal: &str, rows_max: u32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend_from_slice(&rows_max.to_be_bytes());
    message(b'E', &body)
}

/// A statement without a name or parameters, prepared, bound and executed.
pub fn unnamed(sql: &str) -> Vec<u8> {
    [parse("", sql, &[]), bind("", "", &[]), execute("", 0)].concat()
}

pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

impl Raw {
    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, pending: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends as much as the server takes before it ends the connection.
    pub fn send_until_ended(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub fn send_all(&mut self, messages: &[Vec<u8>]) {
        self.send(&messages.concat());
    }

    pub fn send_startup(&mut self, parameters: &[(&str, &str)]) {
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for (name, value) in parameters {
            body.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
        }
        body.push(0);
        let mut packet = (body.len() as u32 + 4).to_be_bytes().to_vec();
        packet.extend_from_slice(&body);
        self.send(&packet);
    }

    /// The next message; `None` at the end.
    pub fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(length) = self.pending.get(1..5) {
                let whole = u32::from_be_bytes(length.try_into().unwrap()) as usize + 1;
                if self.pending.len() >= whole {
                    let bytes: Vec<u8> = self.pending.drain(..whole).collect();
                    return Some(Message { kind: bytes[0] as char, body: bytes[5..].to_vec() });
                }
            }
            let mut piece = [0; 65_536];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(length) => self.pending.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    /// The messages up to the server's ReadyForQuery, which is among them.
    pub fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let message = self.next().unwrap_or_else(|| panic!("the server ended after {messages:?}"));
            let is_last = message.kind == 'Z';
            messages.push(message);
            if is_last {
                return messages;
            }
        }
    }

    /// Runs a text; the kinds of the messages that come.
    pub fn run(&mut self, sql: &str) -> Vec<Message> {
        self.send(&query(sql));
        self.until_ready()
    }

    /// The messages up to the end of the connection.
    pub fn until_end(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// Numbers by chance, the same ones for the same seed.
pub struct Chance(u64);

impl Chance {
    pub fn of_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below this one.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    pub fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }

    /// Changes, cuts, doubles or takes out some of the bytes.
    pub fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.byte()),
                2 => {
                    bytes.remove(at);
                }
                3 => bytes.extend_from_within(at..),
                _ => bytes[at] = self.byte(),
            }
        }
    }
}

/// The kinds of messages, one letter each.
pub fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|message| message.kind).collect()
}

/// The transaction status at the end of messages.
pub fn status(messages: &[Message]) -> char {
    let last = messages.last().unwrap();
    assert_eq!(last.kind, 'Z');
    last.body[0] as char
}

/// The SQLSTATE of the only error among messages.
pub fn error_code(messages: &[Message]) -> String {
    let errors: Vec<_> = messages.iter().filter(|message| message.kind == 'E').collect();
    assert_eq!(errors.len(), 1, "{messages:?}");
    errors[0].field('C').unwrap()
}
