// SPDX-License-Identifier: Apache-2.0
//! Sessions from the outside: how they begin, are limited, cancelled and ended.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;
#[path = "sessions/client_certificates.rs"]
mod client_certificates;
#[path = "../../../tests/skipping.rs"]
mod skipping;
mod support;

use coeval::Database;
use coeval_server::{Roles, ServerOptions};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use skipping::needed;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{
    Message, Raw, Running, bind, error_code, execute, kinds, message, parse, proving, query,
    server_certificate, status, sync,
};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Runs for as long as nobody ends it, for all that tests wait.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000) AS a, generate_series(1, 100000) AS b";

fn key_of(messages: &[support::Message]) -> [u8; 8] {
    let key = messages.iter().find(|message| message.kind == 'K').unwrap();
    key.body.as_slice().try_into().unwrap()
}

fn opened(server: &Running) -> (Raw, [u8; 8]) {
    let mut raw = server.unopened();
    raw.send_startup(&[("user", "tester")]);
    let messages = raw.until_ready();
    (raw, key_of(&messages))
}

fn send_cancel(server: &Running, key: [u8; 8]) {
    let mut raw = server.unopened();
    let packet = [&16_u32.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &key].concat();
    raw.send(&packet);
    assert_eq!(raw.next(), None, "a cancel request has no answer");
}

#[test]
fn a_cancel_request_ends_the_statement_and_not_the_session() {
    let server = Running::new();
    let (mut raw, key) = opened(&server);
    let mut wrong = key;
    wrong[7] ^= 1;
    raw.send(&query(LONG));
    while server.database.engine().registry().all()[0].activity().statement != LONG {
        std::thread::yield_now();
    }
    send_cancel(&server, wrong);
    raw.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut byte = [0];
    let peeked = raw.stream.peek(&mut byte);
    assert!(peeked.is_err() || byte[0] == b'T', "a wrong secret ends nothing");
    raw.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let is_over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            // On a busy machine the session may have noted the statement, and not begun it.
            for _ in (0..50).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                send_cancel(&server, key);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let ended = raw.until_ready();
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    assert_eq!(error_code(&ended), "57014");
    // Without a statement it has no effect.
    send_cancel(&server, key);
    assert_eq!(kinds(&raw.run("SELECT 1")), "TDCZ");
}

#[test]
fn a_statement_ends_when_its_time_is_over() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("SET statement_timeout = '50ms'");
    let messages = raw.run(LONG);
    assert_eq!(error_code(&messages), "57014");
    let error = messages.iter().find(|message| message.kind == 'E').unwrap();
    assert_eq!(error.field('M').unwrap(), "canceling statement due to statement timeout");
    // On a busy machine any statement may take longer.
    let mut until_it_is_through = |sql: &str| loop {
        let messages = raw.run(sql);
        if !kinds(&messages).contains('E') {
            break messages;
        }
    };
    assert_eq!(until_it_is_through("SHOW statement_timeout")[1].texts(), ["50ms"]);
    until_it_is_through("SET statement_timeout = 0");
    assert_eq!(kinds(&raw.run("SELECT 1")), "TDCZ");
}

#[test]
fn a_statement_that_sleeps_ends_when_its_time_is_over() {
    let server = Running::new();
    let mut raw = server.raw();
    let messages = raw.run("SELECT pg_sleep(0.001), 7 AS n");
    assert_eq!(messages[1].texts(), ["", "7"]);
    raw.run("SET statement_timeout = '100ms'");
    let messages = raw.run("SELECT pg_sleep(600)");
    assert_eq!(error_code(&messages), "57014");
    assert_eq!(status(&messages), 'I');
}

#[test]
fn a_client_that_is_silent_in_a_block_is_put_out() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    raw.run("SET idle_in_transaction_session_timeout = '50ms'");
    raw.run("BEGIN; INSERT INTO t VALUES (1)");
    let messages = raw.until_end();
    assert_eq!(error_code(&messages), "25P03");
    assert_eq!(messages[0].field('S').as_deref(), Some("FATAL"));
    assert_eq!(server.raw().run("SELECT count(*) FROM t")[1].texts(), ["0"]);
}

#[test]
fn a_client_that_is_silent_without_a_block_is_put_out_if_it_asks_for_that() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("SET idle_session_timeout = '50ms'");
    let messages = raw.until_end();
    assert_eq!(error_code(&messages), "57P05");
    assert_eq!(messages[0].field('S').as_deref(), Some("FATAL"));
    // Neither a block nor a group of messages that has begun is such a silence.
    let mut raw = server.raw();
    raw.send(&query("SET idle_session_timeout = '50ms'; BEGIN"));
    assert_eq!(status(&raw.until_ready()), 'T');
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(status(&raw.run("SET idle_session_timeout = 0; COMMIT")), 'I');
}

#[test]
fn a_client_that_goes_leaves_nothing_behind() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    raw.run("BEGIN; INSERT INTO t VALUES (1)");
    drop(raw);
    let registry = server.database.engine().registry();
    while registry.count() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(server.database.store().active_snapshots(), 0);
    let mut raw = server.raw();
    assert_eq!(kinds(&raw.run("INSERT INTO t VALUES (1)")), "CZ");
    // A client that goes while its query runs is not computed for.
    raw.send(&query("SELECT * FROM generate_series(1, 100000000)"));
    assert_eq!(raw.next().unwrap().kind, 'T');
    drop(raw);
    while registry.count() > 0 {
        std::thread::yield_now();
    }
}

/// A sort went on for as long as it took, and kept its rows, though nobody was there any more to get them.
#[test]
fn a_client_that_goes_before_its_first_row_is_not_computed_for() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.send(&query("SELECT i, repeat('x', 100) FROM generate_series(1, 100000000) AS s(i) ORDER BY 1 DESC"));
    let registry = server.database.engine().registry();
    while registry.all()[0].activity().state.name() != "active" {
        std::thread::yield_now();
    }
    drop(raw);
    let began = std::time::Instant::now();
    while registry.count() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "it is still computed for");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_that_does_not_read_is_waited_for() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.send(&query("SELECT * FROM generate_series(1, 100000000)"));
    assert_eq!(raw.next().unwrap().kind, 'T');
    // Others go on, and who does not read can be ended.
    let mut other = server.raw();
    assert_eq!(kinds(&other.run("SELECT 1")), "TDCZ");
    let registry = server.database.engine().registry();
    let reader = registry.all()[0].clone();
    assert_eq!(reader.activity().state.name(), "active");
    reader.terminate();
    while registry.count() > 1 {
        std::thread::yield_now();
    }
}

/// What waits for clients that do not read is bounded for all of them together. Who would go beyond is told, in each way
/// that rows are sent, and everybody else goes on.
#[test]
fn rows_that_wait_for_clients_that_do_not_read_have_a_bound_with_an_error_that_names_it() {
    // Longer than all buffers on the way take, and more than half of the bound.
    const LONG_ROW: &str = "SELECT repeat('x', 40000000)";
    const LONG_ROW_BYTES: usize = 40_000_000;
    let server = Running::with(ServerOptions { unsent_bytes_max: 64 << 20, ..ServerOptions::default() });
    let (mut silent, mut other, mut third) = (server.raw(), server.raw(), server.raw());
    // What comes first is sent together with the row: that one is counted then.
    silent.send(&query(LONG_ROW));
    assert_eq!(silent.next().unwrap().kind, 'T');
    let answer = other.run(LONG_ROW);
    let refused = answer.iter().find(|message| message.kind == 'E').expect("no room for two long rows");
    assert_eq!(refused.field('C').as_deref(), Some("53200"));
    let message = "too many bytes waiting to be sent: all sessions together may have 67108864";
    assert_eq!(refused.field('M').as_deref(), Some(message));
    assert!(refused.field('H').unwrap().contains("--unsent-memory"));

    other.send_all(&[support::unnamed(LONG_ROW), support::sync()]);
    assert_eq!(error_code(&other.until_ready()), "53200");
    assert_eq!(error_code(&other.run(&format!("COPY ({LONG_ROW}) TO STDOUT"))), "53200");
    // Whoever was refused goes on, and so does who sends what each may have.
    assert_eq!(kinds(&other.run("SELECT 1")), "TDCZ");
    assert_eq!(kinds(&third.run("SELECT repeat('x', 1000000)")), "TDCZ");
    assert_eq!(kinds(&third.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")), "CCZ");

    // Who reads at last gets all of it, and room for others.
    let rows = silent.until_ready();
    assert_eq!(kinds(&rows), "DCZ");
    assert_eq!(rows[0].texts()[0].len(), LONG_ROW_BYTES);
    assert_eq!(kinds(&other.run(LONG_ROW)), "TDCZ");
    // So does who leaves.
    silent.send(&query(LONG_ROW));
    assert_eq!(silent.next().unwrap().kind, 'T');
    assert_eq!(error_code(&other.run(LONG_ROW)), "53200");
    drop(silent);
    let began = std::time::Instant::now();
    while kinds(&other.run(LONG_ROW)) != "TDCZ" {
        assert!(began.elapsed() < Duration::from_secs(60), "the place of a client that has gone is taken");
    }
    // A row that is too long by itself is refused in the same way.
    assert_eq!(error_code(&third.run("SELECT repeat('x', 70000000)")), "53200");
}

/// So is what they send: values of statements that are not executed, and messages of which the end does not come.
#[test]
fn messages_that_are_not_worked_off_have_a_bound_with_an_error_that_names_it() {
    const MESSAGE: &str =
        "too many bytes of messages and of their values: all sessions together may have 268435456";
    let server = Running::with(ServerOptions { received_bytes_max: 256 << 20, ..ServerOptions::default() });
    let (mut slow, mut other) = (server.raw(), server.raw());
    // What comes takes twice its length at most while it comes, and its length from then on.
    let long = "x".repeat(100_000_000);
    let bound = [parse("", "SELECT length($1::text)", &[]), bind("", "", &[Some(&long)])].concat();
    slow.send_all(&[bound.clone(), message(b'H', b"")]);
    assert_eq!([slow.next().unwrap().kind, slow.next().unwrap().kind], ['1', '2']);
    other.send_all(&[bound.clone(), sync()]);
    let answer = other.until_ready();
    assert_eq!(kinds(&answer), "1EZ");
    assert_eq!(answer[1].field('C').as_deref(), Some("53200"));
    assert_eq!(answer[1].field('M').as_deref(), Some(MESSAGE));
    assert!(answer[1].field('H').unwrap().contains("--received-memory"));
    assert_eq!(kinds(&other.run("SELECT 1")), "TDCZ");
    // Who executes has room again.
    slow.send_all(&[execute("", 0), sync()]);
    assert_eq!(kinds(&slow.until_ready()), "DCZ");
    other.send_all(&[bound, execute("", 0), sync()]);
    assert_eq!(kinds(&other.until_ready()), "12DCZ");

    slow.send(&[b"Q".as_slice(), &200_000_000_i32.to_be_bytes(), &long.as_bytes()[..70_000_000]].concat());
    slow.send(&long.as_bytes()[..70_000_000]);
    let counted = query(&format!("SELECT length('{}')", &long[..400_000]));
    let one_more = || {
        let mut third = server.raw();
        third.send_until_ended(&counted);
        third.next()
    };
    let began = std::time::Instant::now();
    let refused = loop {
        match one_more() {
            Some(refused) if refused.kind == 'E' => break refused,
            _ => assert!(began.elapsed() < Duration::from_secs(60), "there is room for everybody"),
        }
    };
    assert_eq!(
        (refused.field('S').as_deref(), refused.field('C').as_deref()),
        (Some("FATAL"), Some("53200"))
    );
    assert_eq!(refused.field('M').as_deref(), Some(MESSAGE));
    // Short ones are not counted, and who leaves makes room.
    assert_eq!(kinds(&other.run("SELECT 1")), "TDCZ");
    drop(slow);
    let began = std::time::Instant::now();
    while one_more().is_none_or(|answer| answer.kind != 'T') {
        assert!(began.elapsed() < Duration::from_secs(60), "the room of a client that has gone is taken");
    }
}

#[test]
fn there_are_as_many_sessions_as_there_may_be() {
    let server = Running::with(ServerOptions { connections_max: 2, ..ServerOptions::default() });
    let first = server.raw();
    let _second = server.raw();
    let mut third = server.unopened();
    third.send_startup(&[("user", "tester")]);
    let messages = third.until_end();
    assert_eq!(error_code(&messages), "53300");
    drop(first);
    while server.database.engine().registry().count() > 1 {
        std::thread::yield_now();
    }
    drop(server.raw());
}

#[test]
fn a_server_that_stops_lets_transactions_end() {
    let mut server = Running::new();
    let mut idle = server.raw();
    let mut busy = server.raw();
    busy.run("CREATE TABLE t (a int PRIMARY KEY)");
    assert_eq!(status(&busy.run("BEGIN; INSERT INTO t VALUES (1)")), 'T');
    server.begin_to_stop();
    assert_eq!(error_code(&idle.until_end()), "57P01");
    assert_eq!(status(&busy.run("COMMIT")), 'I');
    assert_eq!(error_code(&busy.until_end()), "57P01");
    server.wait_stopped();
    let rows = server.database.session().query("SELECT * FROM t").unwrap();
    assert_eq!(rows[0].num_rows(), 1);
}

#[test]
fn a_transaction_that_does_not_end_is_ended() {
    let options = ServerOptions { stopping_timeout: Duration::from_millis(100), ..ServerOptions::default() };
    let mut server = Running::with(options);
    let mut busy = server.raw();
    busy.run("CREATE TABLE t (a int PRIMARY KEY)");
    busy.run("BEGIN; INSERT INTO t VALUES (1)");
    server.wait_stopped();
    assert_eq!(error_code(&busy.until_end()), "57P01");
    let rows = server.database.session().query("SELECT * FROM t").unwrap();
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 0);
}

/// Whoever has sent more behind the statement that is ended hears of the end once, and of nothing else.
#[test]
fn a_statement_of_a_session_that_is_ended_says_so_as_the_last_word() {
    let server = Running::new();
    let (mut busy, mut other) = (server.raw(), server.raw());
    let rows = "generate_series(1, 1000000000)";
    busy.send_all(&[
        query(&format!("SELECT count(*) FROM {rows} a, {rows} b")),
        query("SELECT 1"),
        query("SELECT 2"),
    ]);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT count%' AND state = 'active'";
    while !other.run(end).iter().any(|message| message.kind == 'D') {}
    let said = busy.until_end();
    assert_eq!(error_code(&said), "57P01");
    assert_eq!(said.iter().map(|message| message.kind).collect::<String>(), "TE", "{said:?}");
    assert_eq!(said[1].field('S').as_deref(), Some("FATAL"));
}

fn with_password() -> ServerOptions {
    ServerOptions { roles: Roles::new().with("app", "geheim ✓").unwrap(), ..ServerOptions::default() }
}

#[test]
fn a_password_opens_a_session_and_nothing_else_does() {
    let server = Running::with(with_password());
    server.runtime.block_on(async {
        let connect = |user: &'static str, password: &'static str| {
            let mut config = server.config();
            config.user(user).password(password);
            async move { config.connect(NoTls).await.map(|(client, _)| client) }
        };
        assert!(connect("app", "geheim ✓").await.is_ok());
        let wrong = connect("app", "falsch").await.err().unwrap();
        let nobody = connect("nobody", "geheim ✓").await.err().unwrap();
        for (error, user) in [(wrong, "app"), (nobody, "nobody")] {
            let error = error.as_db_error().unwrap();
            assert_eq!(error.code(), &SqlState::INVALID_PASSWORD);
            assert_eq!(error.message(), format!("password authentication failed for user \"{user}\""));
        }
    });
    // Statements before the proof are not run.
    let mut raw = server.unopened();
    raw.send_startup(&[("user", "app")]);
    raw.send(&query("SELECT 1"));
    let messages = raw.until_end();
    assert_eq!((kinds(&messages).as_str(), error_code(&messages).as_str()), ("RE", "08P01"));
}

#[test]
fn a_server_without_roles_listens_to_its_own_machine_only() {
    let server = Running::new();
    let bound = server.runtime.block_on(coeval_server::Server::bind(
        &server.database,
        "0.0.0.0:0",
        ServerOptions::default(),
    ));
    assert!(matches!(bound, Err(coeval_server::ServerError::Unprotected(_))));
}

#[test]
fn tls_is_offered_with_a_certificate_and_refused_without() {
    let ssl_request = [&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat();
    let answer = |server: &Running| {
        let mut raw = server.unopened();
        raw.send(&ssl_request);
        let mut byte = [0];
        raw.stream.read_exact(&mut byte).unwrap();
        (raw, byte[0])
    };
    let plain = Running::new();
    let (mut raw, byte) = answer(&plain);
    assert_eq!(byte, b'N');
    raw.send_startup(&[("user", "tester")]);
    assert_eq!(status(&raw.until_ready()), 'I');
    assert_eq!(raw.run("SHOW ssl")[1].texts(), ["off"]);
    assert_eq!(raw.run("SHOW max_connections")[1].texts(), ["1000"]);

    let server =
        Running::with(ServerOptions { certificate: Some(server_certificate()), ..ServerOptions::default() });
    let (raw, byte) = answer(&server);
    assert_eq!(byte, b'S');
    let mut encrypted = encrypted(raw.stream);
    let mut startup = [&196_608_u32.to_be_bytes()[..], b"user\0tester\0\0"].concat();
    startup.splice(0..0, (startup.len() as u32 + 4).to_be_bytes());
    encrypted.write_all(&startup).unwrap();
    let mut first = [0; 9];
    encrypted.read_exact(&mut first).unwrap();
    assert_eq!(first, [b'R', 0, 0, 0, 8, 0, 0, 0, 0]);
    // What is sent unencrypted behind the request is not taken for encrypted.
    let mut raw = server.unopened();
    raw.send(&[&ssl_request[..], b"x"].concat());
    assert_eq!(error_code(&raw.until_end()), "08P01");
}

/// The end of a client is seen beneath its encryption, in whose records it may not be.
#[test]
fn a_client_under_tls_that_goes_is_cancelled() {
    let options = ServerOptions { certificate: Some(server_certificate()), ..ServerOptions::default() };
    let server = Running::with(options);
    let mut raw = server.unopened();
    raw.send(&[&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat());
    let mut byte = [0];
    raw.stream.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [b'S']);
    let mut encrypted = encrypted(raw.stream);
    let mut startup = [&196_608_u32.to_be_bytes()[..], b"user\0tester\0\0"].concat();
    startup.splice(0..0, (startup.len() as u32 + 4).to_be_bytes());
    encrypted.write_all(&startup).unwrap();
    // Something is sent behind it, and what was answered is not read.
    encrypted.write_all(&[query(LONG), query("SELECT 1")].concat()).unwrap();
    let registry = server.database.engine().registry();
    while !registry.all().iter().any(|session| session.activity().state.name() == "active") {
        std::thread::yield_now();
    }
    drop(encrypted);
    let began = std::time::Instant::now();
    while registry.count() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "it is still worked for");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A TLS client that trusts the tests' certificate.
fn encrypted(stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    encrypted_by(&tls_client(None), stream)
}

fn encrypted_by(client: &Arc<ClientConfig>, stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    let name = "localhost".try_into().unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(client), name).unwrap(), stream)
}

/// Such a client, which has this certificate of the tests' itself.
fn tls_client(own: Option<&str>) -> Arc<ClientConfig> {
    let pem = |name: &str| CertificateDer::from_pem_file(format!("tests/certificate/{name}.crt")).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(pem("server")).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match own {
        Some(own) => {
            let key = PrivateKeyDer::from_pem_file(format!("tests/certificate/{own}.key")).unwrap();
            builder.with_client_auth_cert(vec![pem(own)], key).unwrap()
        }
        None => builder.with_no_client_auth(),
    })
}

/// The next message of a stream.
fn read_message(stream: &mut impl Read) -> Message {
    try_read_message(stream).unwrap()
}

fn try_read_message(stream: &mut impl Read) -> std::io::Result<Message> {
    let mut header = [0; 5];
    stream.read_exact(&mut header)?;
    let length = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize - 4;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Message { kind: header[0] as char, body })
}

#[test]
fn a_password_is_proven_for_the_certificate_that_the_client_has_seen() {
    let server = Running::with(ServerOptions { certificate: Some(server_certificate()), ..with_password() });
    let seen = CertificateDer::from_pem_file("tests/certificate/server.crt").unwrap();
    let seen = ring::digest::digest(&ring::digest::SHA256, &seen);
    let plus = "SCRAM-SHA-256-PLUS";
    let bound = "p=tls-server-end-point,,";
    let attempt = |mechanism: &str, gs2: &str, channel: &[u8]| {
        let mut raw = server.unopened();
        raw.send(&[&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat());
        raw.stream.read_exact(&mut [0]).unwrap();
        let mut stream = encrypted(raw.stream);
        let mut startup = [&196_608_u32.to_be_bytes()[..], b"user\0app\0\0"].concat();
        startup.splice(0..0, (startup.len() as u32 + 4).to_be_bytes());
        stream.write_all(&startup).unwrap();
        assert_eq!(proving::offered(&read_message(&mut stream)), [plus, proving::MECHANISM]);
        stream.write_all(&proving::first(mechanism, gs2)).unwrap();
        let challenge = read_message(&mut stream);
        if challenge.kind == 'E' {
            return challenge;
        }
        let proof = proving::Challenge::of(&challenge).proof("geheim ✓", gs2, channel);
        stream.write_all(&proof).unwrap();
        read_message(&mut stream)
    };
    for (mechanism, gs2, channel) in [(plus, bound, seen.as_ref()), (proving::MECHANISM, "n,,", b"")] {
        let last = attempt(mechanism, gs2, channel);
        assert_eq!((last.kind, &last.body[..4]), ('R', &[0, 0, 0, 12][..]), "{mechanism}: {last:?}");
    }
    // Somebody in between has another certificate, or says that the server offers no binding.
    for (mechanism, gs2, channel, message) in [
        (plus, bound, &[7; 32][..], "SCRAM channel binding check failed"),
        (proving::MECHANISM, "y,,", b"", "SCRAM channel binding negotiation error"),
    ] {
        let refused = attempt(mechanism, gs2, channel);
        assert_eq!(refused.field('M').as_deref(), Some(message));
    }
}

#[test]
fn silent_clients_do_not_keep_figures_from_others() {
    let options = ServerOptions {
        metrics_address: Some("127.0.0.1:0".to_owned()),
        metrics_token: Some("geheim".to_owned()),
        ..ServerOptions::default()
    };
    let server = Running::with(options);
    let connect = || std::net::TcpStream::connect(server.metrics_address.unwrap()).unwrap();
    let ask = |header: &str| {
        let mut stream = connect();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(format!("GET /metrics HTTP/1.1\r\n{header}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // Those that say nothing have five seconds each, of which none is waited for. A busy machine may take as long, but not each time.
    let took: Vec<Duration> = (0..3)
        .map(|_| {
            let silent: Vec<_> = (0..100).map(|_| connect()).collect();
            let began = std::time::Instant::now();
            assert!(ask("Authorization: Bearer geheim\r\n").starts_with("HTTP/1.1 200"));
            drop(silent);
            began.elapsed()
        })
        .collect();
    assert!(took.iter().any(|took| *took < Duration::from_secs(4)), "{took:?}");
    let silent: Vec<_> = (0..100).map(|_| connect()).collect();
    let refused = ask("");
    assert!(refused.starts_with("HTTP/1.1 401") && !refused.contains("coeval_"), "{refused}");
    drop(silent);
    let open = ServerOptions { metrics_address: Some("0.0.0.0:0".to_owned()), ..ServerOptions::default() };
    let bound = server.runtime.block_on(coeval_server::Server::bind(&server.database, "127.0.0.1:0", open));
    assert!(matches!(bound, Err(coeval_server::ServerError::UnprotectedMetrics(_))));
}

#[test]
fn figures_are_given_to_who_asks_for_them() {
    let options =
        ServerOptions { metrics_address: Some("127.0.0.1:0".to_owned()), ..ServerOptions::default() };
    let server = Running::with(options);
    let mut raw = server.raw();
    raw.run("SELECT 1");
    raw.run("SELECT 1 / 0");
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(server.metrics_address.unwrap()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let figures = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(figures.starts_with("HTTP/1.1 200 OK\r\n"), "{figures}");
    for line in [
        "coeval_connections_total 1",
        "coeval_errors_total 1",
        "coeval_statement_seconds_count 2",
        "coeval_sessions{state=\"idle\"} 1",
    ] {
        assert!(figures.lines().any(|other| other == line), "{line} is missing in\n{figures}");
    }
    assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
}

/// `psql -c SELECT 1` as `app`, with this in its connection string.
#[track_caller]
fn psql(server: &Running, more: &str) -> Option<Output> {
    let port = server.address.port();
    let to = format!("host=127.0.0.1 port={port} user=app dbname=coeval {more}");
    let mut command = Command::new("psql");
    command
        .args(["-XAtc", "SELECT 1", &to])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = needed("client psql", command.spawn().ok())?;
    Some(bounded::end_of(child, "psql", bounded::END_PATIENCE))
}

#[test]
fn psql_that_insists_on_channel_binding_and_tls_is_served_and_refused_without_tls() {
    let roles = || Roles::new().with("app", "geheim").unwrap();
    let encrypted = Running::with(ServerOptions {
        roles: roles(),
        certificate: Some(server_certificate()),
        ..ServerOptions::default()
    });
    let bound = "channel_binding=require sslmode=require";
    let Some(output) = psql(&encrypted, &format!("password=geheim {bound}")) else { return };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && output.stdout == b"1\n", "{said}");
    let Some(output) = psql(&encrypted, &format!("password=falsch {bound}")) else { return };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("password authentication failed"), "{said}");
    let plain = Running::with(ServerOptions { roles: roles(), ..ServerOptions::default() });
    let Some(output) = psql(&plain, "password=geheim channel_binding=require sslmode=disable") else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("channel binding"), "{said}");
}

/// While nobody else writes, a declared reader begins with every commit, and every table, that was acknowledged before.
#[test]
fn a_read_only_transaction_reads_what_was_acknowledged_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::of(Database::open(directory.path().join("data")).unwrap());
    server.runtime.block_on(async {
        let (writer, reader) = (server.client().await, server.client().await);
        writer.batch_execute("CREATE TABLE t (n int PRIMARY KEY)").await.unwrap();
        for n in 0..300 {
            writer.batch_execute(&format!("INSERT INTO t VALUES ({n})")).await.unwrap();
            reader.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY").await.unwrap();
            let newest: i32 = reader.query_one("SELECT max(n) FROM t", &[]).await.unwrap().get(0);
            reader.batch_execute("COMMIT").await.unwrap();
            assert_eq!(newest, n);
            if n % 10 == 0 {
                writer.batch_execute(&format!("CREATE TABLE t{n} (n int PRIMARY KEY)")).await.unwrap();
                reader.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY").await.unwrap();
                let found = reader.query_one(&format!("SELECT count(*) FROM t{n}"), &[]).await;
                assert_eq!(found.unwrap().get::<_, i64>(0), 0, "t{n} was acknowledged");
                reader.batch_execute("COMMIT").await.unwrap();
            }
        }
    });
}
