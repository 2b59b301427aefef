// SPDX-License-Identifier: Apache-2.0
//! Clients that send what no client should: each is answered or cut off, and the others notice nothing.
#![allow(clippy::unwrap_used)]

#[path = "hostile/adversary.rs"]
mod adversary;
#[path = "../../../tests/bounded.rs"]
mod bounded;
#[path = "hostile/insiders.rs"]
mod insiders;
#[path = "hostile/privileged.rs"]
mod privileged;
mod support;

use coeval_server::ServerOptions;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;
use support::{Chance, Raw, Running, error_code, kinds, message, query};

/// The server still answers somebody else.
fn assert_alive(server: &Running) {
    assert_eq!(kinds(&server.raw().run("SELECT 1")), "TDCZ");
}

#[test]
fn openings_that_make_no_sense_end_their_connection() {
    let server = Running::new();
    let packet = |code: u32, body: &[u8]| {
        let length = body.len() as u32 + 8;
        [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
    };
    let cases: [(Vec<u8>, &str); 6] = [
        (vec![0xFF; 64], "08P01"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "08P01"),
        (packet(2 << 16, b"user\0x\0\0"), "0A000"),
        (packet(3 << 16, b"user\0x"), "08P01"),
        (packet(3 << 16, b"database\0x\0\0"), "28000"),
        (packet(3 << 16, b"user\0x\0no_such_setting\0x\0\0"), "42704"),
    ];
    for (bytes, code) in cases {
        let mut raw = server.unopened();
        raw.send(&bytes);
        assert_eq!(error_code(&raw.until_end()), code, "{bytes:?}");
    }
    assert_alive(&server);
}

#[test]
fn a_connection_that_is_never_opened_is_closed() {
    let options = ServerOptions { opening_timeout: Duration::from_millis(100), ..ServerOptions::default() };
    let server = Running::with(options);
    let mut silent = server.unopened();
    let mut half = server.unopened();
    half.send(&[0, 0]);
    assert_eq!(silent.next(), None);
    assert_eq!(half.next(), None);
    assert_alive(&server);
}

#[test]
fn frames_that_make_no_sense_end_their_connection() {
    let server = Running::with(ServerOptions { message_bytes_max: 100_000, ..ServerOptions::default() });
    let frames: [&[u8]; 5] =
        [b"\0\0\0\0\x04", b"~\0\0\0\x04", b"Q\0\0\0\x03", b"Q\xff\xff\xff\xff", b"Q\x7f\xff\xff\xff"];
    for frame in frames {
        let mut raw = server.raw();
        raw.send(frame);
        let messages = raw.until_end();
        assert_eq!((kinds(&messages).as_str(), error_code(&messages).as_str()), ("E", "08P01"), "{frame:?}");
        assert_eq!(messages[0].field('S').as_deref(), Some("FATAL"));
    }
    let mut raw = server.raw();
    raw.send(&query(&"x".repeat(200_000)));
    assert_eq!(error_code(&raw.until_end()), "08P01");
    assert_alive(&server);
}

#[test]
fn bodies_that_make_no_sense_are_refused_and_the_session_goes_on() {
    let server = Running::new();
    let mut raw = server.raw();
    for body in [&b""[..], b"no end", b"SELECT 1\0more\0"] {
        raw.send(&message(b'Q', body));
        assert_eq!(error_code(&raw.until_ready()), "08P01");
    }
    raw.send(&message(b'Q', b"SELECT '\xff'\0"));
    assert_eq!(error_code(&raw.until_ready()), "22021");
    for (kind, body) in [
        (b'B', &b"\0\0\0\x01"[..]),
        (b'B', b"\0\0\xff\xff"),
        (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
        (b'P', b"\0SELECT 1\0\xff\xff"),
        (b'D', b"x\0"),
        (b'E', b""),
        (b'C', b""),
    ] {
        raw.send_all(&[message(kind, body), support::sync()]);
        let messages = raw.until_ready();
        assert_eq!((kinds(&messages).as_str(), error_code(&messages).as_str()), ("EZ", "08P01"), "{body:?}");
    }
    // What is left of a COPY that failed is passed over.
    raw.send_all(&[message(b'd', b"1\n"), message(b'c', b""), message(b'f', b"why\0")]);
    assert_eq!(kinds(&raw.run("SELECT 1")), "TDCZ");
    raw.send(&message(b'F', b"\0\0\0\x01"));
    assert_eq!(error_code(&raw.until_ready()), "0A000");
}

#[test]
fn a_statement_during_a_copy_ends_the_copy() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    raw.send(&query("COPY t FROM STDIN"));
    assert_eq!(raw.next().unwrap().kind, 'G');
    raw.send(&message(b'd', b"1\n"));
    raw.send(&query("SELECT 1"));
    assert_eq!(error_code(&raw.until_ready()), "08P01");
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["0"]);
    // COPY inside a text: what follows it runs when the rows are there.
    raw.send(&query("COPY t FROM STDIN; SELECT count(*) FROM t"));
    assert_eq!(raw.next().unwrap().kind, 'G');
    raw.send_all(&[message(b'd', b"1\n2"), message(b'd', b"\n3\n"), message(b'c', b"")]);
    let messages = raw.until_ready();
    assert_eq!(kinds(&messages), "CTDCZ");
    assert_eq!((messages[0].tag(), messages[2].texts()), ("COPY 3", vec!["3".to_owned()]));
}

#[test]
fn a_client_that_closes_its_half_gets_its_answer() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.send(&query("SELECT 42"));
    raw.stream.shutdown(Shutdown::Write).unwrap();
    let messages = raw.until_end();
    assert_eq!(kinds(&messages), "TDCZ");
    assert_eq!(messages[1].texts(), ["42"]);
    assert_alive(&server);
}

#[test]
fn a_message_that_comes_byte_by_byte_is_a_message() {
    let server = Running::new();
    let mut raw = server.raw();
    for byte in query("SELECT 42") {
        raw.send(&[byte]);
    }
    assert_eq!(raw.until_ready()[1].texts(), ["42"]);
}

/// Bytes by chance behind a session that is open, and messages with bytes changed. Whatever comes of it, the server
/// goes on.
#[test]
fn a_server_survives_any_bytes_at_all() {
    let server = Running::with(ServerOptions { message_bytes_max: 10_000, ..ServerOptions::default() });
    let seed = 0xD1B5_4A32_D192_ED03;
    let mut chance = Chance::of_seed(seed);
    let good = [
        query("SELECT 1"),
        support::parse("s", "SELECT $1::int", &[23]),
        support::bind("", "s", &[Some("1")]),
        support::describe('S', "s"),
        support::execute("", 1),
        support::sync(),
        query("COPY (SELECT 1) TO STDOUT"),
        query("BEGIN"),
        query("ROLLBACK"),
        message(b'd', b"1\n"),
    ];
    for round in 0..150 {
        let raw = server.raw();
        let mut bytes: Vec<u8> =
            (0..1 + chance.below(12)).flat_map(|_| good[chance.below(good.len())].clone()).collect();
        chance.change(&mut bytes);
        send_and_leave(raw, &bytes, &format!("seed {seed}, round {round}"));
    }
    assert_alive(&server);
}

/// Sends bytes and reads whatever comes, up to the end: the server may cut off, but not fall silent.
fn send_and_leave(mut raw: Raw, bytes: &[u8], what: &str) {
    // The server may have cut it off already.
    let _ = raw.stream.write_all(bytes);
    let _ = raw.stream.shutdown(Shutdown::Write);
    let mut rest = Vec::new();
    if let Err(error) = raw.stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{what}: {error}");
    }
}

#[test]
fn a_server_survives_openings_of_any_bytes() {
    let server = Running::new();
    let seed = 0x8A91_6F0C_33D2_57E1;
    let mut chance = Chance::of_seed(seed);
    let packet = |code: u32, body: &[u8]| {
        let length = body.len() as u32 + 8;
        [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
    };
    let good = [
        packet(3 << 16, b"user\0x\0database\0y\0options\0-c statement_timeout=5s\0\0"),
        packet(3 << 16 | 2, b"user\0x\0_pq_.option\0y\0\0"),
        packet(80_877_103, b""),
        packet(80_877_104, b""),
        packet(80_877_102, b"12345678"),
    ];
    for round in 0..300 {
        let mut bytes = match chance.below(4) {
            0 => (0..chance.below(60)).map(|_| chance.byte()).collect(),
            _ => (0..1 + chance.below(2))
                .flat_map(|_| good[chance.below(good.len())].clone())
                .collect::<Vec<u8>>(),
        };
        chance.change(&mut bytes);
        send_and_leave(server.unopened(), &bytes, &format!("seed {seed}, round {round}"));
    }
    assert_alive(&server);
}

#[test]
fn a_server_survives_copies_of_any_bytes() {
    let server = Running::new();
    server.raw().run("CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(10, 2), d timestamptz)");
    let rows = |row: &str| row.repeat(3).into_bytes();
    let mut binary = server.raw();
    binary.run("INSERT INTO t VALUES (1, 'x', 1.5, '2026-11-20 12:00:00+00'), (2, NULL, NULL, NULL)");
    let written = binary.run("COPY t TO STDOUT (FORMAT binary)");
    binary.run("TRUNCATE t");
    let binary = written.iter().filter(|message| message.kind == 'd').flat_map(|m| m.body.clone()).collect();
    let inputs = [
        ("text", rows("1\tone\\n\t1.50\t2026-11-20 12:00:00+00\n2\t\\N\t\\N\t\\N\n")),
        ("csv", rows("1,\"one, \"\"two\"\"\",1.5,2026-11-20\r\n2,,,\r\n")),
        ("binary", binary),
    ];
    let seed = 0x51F3_0B7D_92C4_AE68;
    let mut chance = Chance::of_seed(seed);
    for round in 0..300 {
        let (format, good) = &inputs[chance.below(inputs.len())];
        let mut bytes = good.clone();
        chance.change(&mut bytes);
        let mut messages = query(&format!("COPY t FROM STDIN (FORMAT {format})"));
        let piece = 1 + chance.below(40);
        bytes.chunks(piece).for_each(|piece| messages.extend(message(b'd', piece)));
        messages.extend(message(b'c', &[]));
        messages.extend(query("TRUNCATE t"));
        let mut raw = server.raw();
        raw.send(&messages);
        let what = format!("seed {seed}, round {round}");
        assert!(matches!(kinds(&raw.until_ready()).as_str(), "GCZ" | "GEZ"), "{what}");
        assert_eq!(kinds(&raw.until_ready()), "CZ", "{what}");
    }
    assert_alive(&server);
}
