// SPDX-License-Identifier: Apache-2.0
//! A client that knows no password and does what it can: after each attempt, with its connections still open, somebody
//! else who knows one is served within a bound.

use super::bounded;
use super::support::proving::{MECHANISM, first};
use super::support::{Raw, Running, error_code, kinds, message, query, server_certificate};
use coeval_server::{Roles, ServerOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

/// Sessions of the server; each address may have some more connections that are about to open.
const CONNECTIONS_MAX: usize = 20;

/// More connections than one address may have that are about to open.
const MANY: usize = 200;

/// How long another client may take, for all that tests wait: it never comes near.
const BOUND: Duration = Duration::from_secs(10);

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;
const VERSION: u32 = 3 << 16;

fn protected() -> Running {
    Running::with(ServerOptions {
        connections_max: CONNECTIONS_MAX,
        roles: Roles::new().with("app", "geheim").unwrap(),
        certificate: Some(server_certificate()),
        ..ServerOptions::default()
    })
}

fn packet(code: u32, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32 + 8;
    [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
}

fn startup(parameters: &[u8]) -> Vec<u8> {
    packet(VERSION, parameters)
}

/// The client that has a right to be served is.
fn assert_served(server: &Running, behind: &str) {
    assert_let_in(server.unopened(), behind);
}

/// It is over this connection, which has said nothing so far.
fn assert_let_in(mut raw: Raw, behind: &str) {
    let began = Instant::now();
    let messages = raw.try_password("app", "geheim");
    assert_eq!(messages.last().map(|message| message.kind), Some('Z'), "behind {behind}: {messages:?}");
    assert_eq!(kinds(&raw.run("SELECT 1")), "TDCZ", "behind {behind}");
    assert!(began.elapsed() < BOUND, "behind {behind}: {:?}", began.elapsed());
}

/// So many connections that have each sent this.
fn sent(server: &Running, count: usize, bytes: &[u8]) -> Vec<Raw> {
    let connections = (0..count).map(|_| {
        let mut raw = server.unopened();
        // The server may have cut it off.
        let _ = raw.stream.write_all(bytes);
        raw
    });
    connections.collect()
}

/// So many connections that were asked for a proof and have each answered with this.
fn answered(server: &Running, count: usize, answer: &[u8]) -> Vec<Raw> {
    let mut connections = sent(server, count, &startup(b"user\0app\0\0"));
    for raw in &mut connections {
        let _ = raw.stream.write_all(answer);
    }
    connections
}

/// Guesses, each on a connection of its own and all at the same time.
fn guesses(server: &Running, user: fn(usize) -> String) -> Vec<Raw> {
    let mut guessing: Vec<Raw> = (0..CONNECTIONS_MAX).map(|_| server.unopened()).collect();
    for (number, raw) in guessing.iter_mut().enumerate() {
        let proof = raw.challenged(&user(number)).proof("falsch", "n,,", b"");
        raw.send(&proof);
    }
    guessing
}

/// What is tried: its name, and the connections that it keeps open.
type Attempt = (&'static str, fn(&Running) -> Vec<Raw>);

const OPENINGS: &[Attempt] = &[
    ("connections that say nothing", |server| sent(server, MANY, b"")),
    ("connections that say a byte", |server| sent(server, MANY, &[0])),
    ("requests for TLS and nothing else", |server| sent(server, MANY, &packet(SSL_REQUEST, b""))),
    ("requests for GSSAPI and nothing else", |server| sent(server, MANY, &packet(GSS_REQUEST, b""))),
    ("requests for TLS and no TLS", |server| {
        let mut connections = sent(server, 50, &packet(SSL_REQUEST, b""));
        connections.iter_mut().for_each(|raw| raw.send(&[0x55; 500]));
        connections
    }),
    ("requests for TLS and half a greeting", |server| {
        let mut connections = sent(server, MANY, &packet(SSL_REQUEST, b""));
        for raw in &mut connections {
            let _ = raw.stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0]);
        }
        connections
    }),
    ("a thousand requests for GSSAPI", |server| sent(server, 3, &packet(GSS_REQUEST, b"").repeat(1_000))),
    ("a thousand requests for TLS", |server| sent(server, 3, &packet(SSL_REQUEST, b"").repeat(1_000))),
    ("a packet of 4 GiB", |server| sent(server, 20, &[0xFF; 64])),
    ("a packet of less than nothing", |server| sent(server, 20, &[0; 64])),
    ("packets that never end", |server| sent(server, MANY, &[0, 0, 0x27, 0x10, 0, 3, 0, 0, b'u'])),
    ("a packet without a user", |server| sent(server, 20, &startup(b"database\0x\0\0"))),
    ("a packet without an end", |server| sent(server, 20, &startup(b"user\0app"))),
    ("a packet that is no text", |server| sent(server, 20, &startup(b"user\0\xFF\xFE\0\0"))),
    ("four thousand parameters", |server| sent(server, 20, &startup(&[b'a', 0].repeat(4_900)))),
    ("options without sense", |server| {
        sent(server, 20, &startup(b"user\0app\0options\0-c -c --=\\\\ -cx=\0\0"))
    }),
    ("another version", |server| sent(server, 20, &packet(2 << 16, b"user\0app\0\0"))),
    ("replication", |server| sent(server, 20, &startup(b"user\0app\0replication\0true\0\0"))),
    ("HTTP", |server| sent(server, 20, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")),
    ("the protocol of tomorrow", |server| sent(server, 20, &packet(VERSION + 9_999, b"user\0app\0\0"))),
    ("options of the protocol that nobody knows", |server| {
        sent(server, 20, &startup(b"user\0app\0_pq_.everything\0on\0\0"))
    }),
    ("no name", |server| sent(server, 20, &startup(b"user\0\0\0"))),
    ("a name of kilobytes", |server| {
        sent(server, 20, &startup(&[&b"user\0"[..], &[b'a'; 9_000][..], b"\0\0"].concat()))
    }),
    ("a database of kilobytes", |server| {
        sent(server, 20, &startup(&[&b"user\0app\0database\0"[..], &[b'a'; 9_000][..], b"\0\0"].concat()))
    }),
    ("a setting that only superusers may set", |server| {
        sent(server, 20, &startup(b"user\0app\0options\0-c session_authorization=coeval -c role=coeval\0\0"))
    }),
    ("replication of a database", |server| {
        sent(server, 20, &startup(b"user\0app\0replication\0database\0database\0coeval\0\0"))
    }),
    ("nothing but zeros behind a packet", |server| {
        sent(server, 20, &[startup(b"\0"), vec![0; 4_000]].concat())
    }),
    ("two packets at once", |server| sent(server, 20, &startup(b"user\0app\0\0").repeat(2))),
    ("a request for TLS with a packet behind it", |server| {
        sent(server, 20, &[packet(SSL_REQUEST, b""), startup(b"user\0app\0\0"), query("SELECT 1")].concat())
    }),
    ("a request for TLS and one for GSSAPI in turns", |server| {
        let both = [packet(SSL_REQUEST, b""), packet(GSS_REQUEST, b"")].concat();
        sent(server, 20, &both.repeat(100))
    }),
    ("SSH", |server| sent(server, 20, b"SSH-2.0-OpenSSH_9.6\r\n")),
    ("a name with lines in it", |server| sent(server, 20, &startup(b"user\0app\nINFO all is well\0\0"))),
];

const PROOFS: &[Attempt] = &[
    ("connections that prove nothing", |server| sent(server, MANY, &startup(b"user\0app\0\0"))),
    ("statements instead of a proof", |server| answered(server, 20, &query("SELECT 1"))),
    ("the end instead of a proof", |server| answered(server, 20, &message(b'X', b""))),
    ("a proof without a mechanism", |server| answered(server, 20, &message(b'p', b"no end"))),
    ("a mechanism that there is not", |server| answered(server, 20, &first("MD5", "n,,"))),
    ("a channel where there is none", |server| {
        answered(server, 20, &first("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,"))
    }),
    ("a proof of 2 GiB", |server| answered(server, 20, &[b'p', 0x7F, 0xFF, 0xFF, 0xFF])),
    ("a proof of less than nothing", |server| answered(server, 20, &[b'p', 0x80, 0, 0, 0])),
    ("half a proof", |server| answered(server, MANY, &first(MECHANISM, "n,,")[..20])),
    ("a second step that makes no sense", |server| {
        answered(server, 20, &[first(MECHANISM, "n,,"), message(b'p', b"c=,r=,p=")].concat())
    }),
    ("a nonce that is not ours", |server| {
        answered(server, 20, &[first(MECHANISM, "n,,"), message(b'p', b"c=biws,r=x,p=AAAA")].concat())
    }),
    ("the password as it is", |server| answered(server, 20, &message(b'p', b"geheim\0"))),
    ("an empty proof", |server| answered(server, 20, &message(b'p', b""))),
    ("nothing but the mechanism", |server| answered(server, 20, &message(b'p', b"SCRAM-SHA-256\0"))),
    ("another name in the proof", |server| answered(server, 20, &first(MECHANISM, "n,a=coeval,"))),
    ("a proof that is no text", |server| answered(server, 20, &message(b'p', &[0xFF; 200]))),
    ("a proof of a mebibyte", |server| answered(server, 20, &message(b'p', &vec![b'a'; 1 << 20]))),
    ("both steps of a proof at once", |server| answered(server, 20, &first(MECHANISM, "n,,").repeat(2))),
    ("a thousand first steps", |server| answered(server, 3, &first(MECHANISM, "n,,").repeat(1_000))),
    ("rows of a COPY instead of a proof", |server| answered(server, 20, &message(b'd', b"1\tx\n"))),
    ("a call of a function instead of a proof", |server| answered(server, 20, &message(b'F', &[0; 8]))),
    ("a Sync and a Flush instead of a proof", |server| {
        answered(server, 20, &[message(b'S', b""), message(b'H', b"")].concat())
    }),
    ("a prepared statement instead of a proof", |server| {
        answered(server, 20, &[message(b'P', b"\0SELECT 1\0\0\0"), message(b'S', b"")].concat())
    }),
    ("a kind of message that there is not", |server| answered(server, 20, &message(b'~', b"x"))),
    ("a cancel request for nobody", |server| sent(server, 50, &packet(CANCEL_REQUEST, &[0xFF; 8]))),
    ("half a cancel request", |server| sent(server, 50, &packet(CANCEL_REQUEST, &[0; 8])[..10])),
    ("a cancel request of kilobytes", |server| sent(server, 50, &packet(CANCEL_REQUEST, &[0; 9_000]))),
    ("wrong passwords", |server| guesses(server, |_| "app".to_owned())),
    ("passwords of nobody", |server| guesses(server, |number| format!("nobody{number}"))),
    ("cancel requests by guess", |server| {
        let guess =
            |number: u32| packet(CANCEL_REQUEST, &[&1_u32.to_be_bytes()[..], &number.to_be_bytes()].concat());
        (0..50).flat_map(|number| sent(server, 1, &guess(number))).collect()
    }),
];

fn tried(attempts: &[Attempt]) {
    let server = protected();
    for (name, attempt) in attempts {
        let connections = attempt(&server);
        assert_served(&server, name);
        drop(connections);
    }
}

#[test]
fn nobody_is_kept_out_by_openings_that_go_nowhere() {
    tried(OPENINGS);
}

#[test]
fn nobody_is_kept_out_by_proofs_that_prove_nothing() {
    tried(PROOFS);
}

/// Whether the server ends a connection within the connection's patience, whatever it says before.
fn is_ended(raw: &mut Raw) -> bool {
    let mut bytes = [0; 64];
    loop {
        match raw.stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return false;
            }
            Err(_) => return true,
        }
    }
}

/// Connections of one address that are nobody's yet: as many as there may be sessions, and so many more.
const OPENING_SPARE: usize = 128;

/// Fewer than all addresses together may have, so that nothing but the bound of each address ends the oldest. (Without that bound,
/// all other tests of this file pass.)
#[test]
fn an_address_with_too_many_connections_loses_its_oldest_before_there_are_too_many_in_all() {
    const EXCESS: usize = CONNECTIONS_MAX / 2;
    let server = Running::with(ServerOptions {
        connections_max: CONNECTIONS_MAX,
        roles: Roles::new().with("app", "geheim").unwrap(),
        certificate: Some(server_certificate()),
        // None is ended for this.
        opening_timeout: Duration::from_secs(300),
        ..ServerOptions::default()
    });
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let early = server.unopened_from(other);
    let request = packet(SSL_REQUEST, b"");
    let mut greedy: Vec<Raw> = (0..CONNECTIONS_MAX + OPENING_SPARE + EXCESS)
        .map(|number| {
            let mut raw = server.unopened();
            if number % 2 == 0 {
                // The server may have cut it off.
                let _ = raw.stream.write_all(&request);
            }
            raw
        })
        .collect();
    let (excess, allowed) = greedy.split_at_mut(EXCESS);
    for (number, raw) in excess.iter_mut().enumerate() {
        raw.stream.set_read_timeout(Some(BOUND)).unwrap();
        assert!(is_ended(raw), "connection {number} of {EXCESS} too many is still there");
    }
    // Each has gone for a later one, so all have come by now.
    for (number, raw) in allowed.iter_mut().enumerate() {
        raw.stream.set_nonblocking(true).unwrap();
        assert!(!is_ended(raw), "connection {number} of those that are allowed has gone");
    }
    assert_let_in(early, "one that came before the others");
    assert_let_in(server.unopened_from(other), "connections of another address");
}

#[test]
fn slow_senders_and_connections_that_are_torn_keep_nobody_out() {
    let server = protected();
    let mut slow = sent(&server, 50, b"");
    for byte in startup(b"user\0app\0\0") {
        slow.iter_mut().for_each(|raw| raw.send(&[byte]));
    }
    assert_served(&server, "slow senders");
    for _ in 0..3 * MANY {
        let raw = server.unopened();
        socket2::SockRef::from(&raw.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
    assert_served(&server, "connections that are torn");
    drop(slow);
}

#[test]
fn a_connection_that_proves_nothing_is_ended_in_seconds() {
    let server = Running::with(ServerOptions {
        opening_timeout: Duration::from_millis(200),
        roles: Roles::new().with("app", "geheim").unwrap(),
        ..ServerOptions::default()
    });
    for bytes in [packet(GSS_REQUEST, b""), startup(b"user\0app\0\0")] {
        let mut raw = server.unopened();
        raw.send(&bytes);
        let began = Instant::now();
        let mut rest = Vec::new();
        // It comes to an end, however that is.
        let _ = raw.stream.read_to_end(&mut rest);
        assert!(began.elapsed() < BOUND);
    }
    assert!(ServerOptions::default().opening_timeout <= Duration::from_secs(10));
}

#[test]
fn wrong_passwords_take_ever_longer_and_the_right_one_goes_in() {
    let server = protected();
    let began = Instant::now();
    for _ in 0..5 {
        assert_eq!(error_code(&server.unopened().try_password("app", "falsch")), "28P01");
    }
    // Nothing before the first, 50 ms before the second, and twice as much each time.
    assert!(began.elapsed() >= Duration::from_millis(50 + 100 + 200 + 400), "{:?}", began.elapsed());
    assert_served(&server, "wrong passwords");
}

/// More guesses of an address at the same time than may wait: those beyond are not looked at, and say so.
#[test]
fn guesses_at_the_same_time_are_bounded_and_keep_nobody_out() {
    const GUESSES: usize = 80;
    let server = Running::with(ServerOptions {
        roles: Roles::new().with("app", "geheim").unwrap(),
        passwords_per_second: 2,
        ..ServerOptions::default()
    });
    assert_served(&server, "nothing");
    // One of each costs nothing, so far.
    for number in 0..22 {
        server.unopened().try_password(&format!("nobody{number}"), "falsch");
    }
    let mut guessing: Vec<Raw> = (0..GUESSES).map(|_| server.unopened()).collect();
    let proofs: Vec<Vec<u8>> = guessing
        .iter_mut()
        .enumerate()
        .map(|(number, raw)| raw.challenged(&format!("somebody{number}")).proof("falsch", "n,,", b""))
        .collect();
    let began = Instant::now();
    guessing.iter_mut().zip(&proofs).for_each(|(raw, proof)| raw.send(proof));
    assert_served(&server, "guesses of other names");
    let codes: Vec<String> = guessing.iter_mut().map(|raw| error_code(&raw.until_end())).collect();
    let count = |code: &str| codes.iter().filter(|found| *found == code).count();
    // Four wait, and others take their places as they are looked at.
    let looked_at_max = 4 * (2 + began.elapsed().as_secs() as usize);
    assert!((1..=looked_at_max).contains(&count("28P01")), "{} looked at", count("28P01"));
    assert_eq!(count("28P01") + count("53300"), GUESSES, "{codes:?}");
}

#[test]
fn names_cannot_be_told_by_their_salts_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let salts = || {
        let server = Running::with(ServerOptions {
            roles: Roles::new().with("app", VERIFIER).unwrap(),
            mock_secret_file: Some(directory.path().join("mock-secret")),
            ..ServerOptions::default()
        });
        ["app", "nobody", "no one"].map(|name| server.unopened().challenged(name).salt())
    };
    let before = salts();
    assert_eq!(salts(), before);
    assert!(before[0] != before[1] && before[1] != before[2]);
    assert!(before.iter().all(|salt| salt.len() == 16));
}

/// Of some password.
const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==\
    $WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

#[test]
fn sessions_are_kept_for_superusers() {
    let server = Running::with(ServerOptions {
        connections_max: 4,
        superuser_connections: 2,
        roles: Roles::new().with("app", "geheim").unwrap(),
        ..ServerOptions::default()
    });
    server.database.session().run("CREATE ROLE clerk LOGIN PASSWORD 'pencil'").unwrap();
    let open = |user: &str, password: &str| {
        let mut raw = server.unopened();
        let messages = raw.try_password(user, password);
        (raw, messages)
    };
    let clerks: Vec<_> = (0..2).map(|_| open("clerk", "pencil")).collect();
    assert!(clerks.iter().all(|(_, messages)| messages.last().unwrap().kind == 'Z'));
    let (_, refused) = open("clerk", "pencil");
    assert_eq!(error_code(&refused), "53300");
    let error = refused.iter().find(|message| message.kind == 'E').unwrap();
    assert!(error.field('M').unwrap().contains("reserved for superuser"), "{error:?}");
    let superusers: Vec<_> = (0..2).map(|_| open("app", "geheim")).collect();
    assert!(superusers.iter().all(|(_, messages)| messages.last().unwrap().kind == 'Z'));
    assert_eq!(error_code(&open("app", "geheim").1), "53300", "no more than there are");
}

/// They name the session whose statement runs, and come from another address than the right one: of one address, whoever guesses keeps
/// the others waiting. Fails if the secret is not looked at, or if guesses are counted by the session's number.
#[test]
fn a_flood_of_cancel_requests_with_wrong_secrets_ends_nothing_and_the_right_one_is_heard() {
    const FLOOD: u32 = 100;
    let server = protected();
    let mut raw = server.unopened();
    let messages = raw.try_password("app", "geheim");
    let key = messages.iter().find(|message| message.kind == 'K').unwrap().body.clone();
    let (pid, secret) = key.split_at(4);
    let secret = u32::from_be_bytes(secret.try_into().unwrap());
    raw.send(&query("SELECT pg_sleep(100)"));
    let registry = server.database.engine().registry();
    while !registry.all().iter().any(|session| session.activity().statement.contains("pg_sleep(100)")) {
        std::thread::yield_now();
    }
    let guesses: Vec<Raw> = (1..=FLOOD)
        .map(|change| {
            let guess = [pid, &(secret ^ change).to_be_bytes()].concat();
            let mut guessing = server.unopened_from(Ipv4Addr::new(127, 0, 0, 2));
            // The server may have cut it off.
            let _ = guessing.stream.write_all(&packet(CANCEL_REQUEST, &guess));
            guessing
        })
        .collect();
    assert_served(&server, "cancel requests with wrong secrets");
    raw.stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut byte = [0];
    let peeked = raw.stream.peek(&mut byte);
    assert!(peeked.is_err() || byte[0] == b'T', "a wrong secret ends nothing");
    raw.stream.set_read_timeout(Some(BOUND)).unwrap();
    let began = Instant::now();
    let mut right = server.unopened();
    right.send(&packet(CANCEL_REQUEST, &key));
    assert_eq!(right.next(), None, "a cancel request has no answer");
    assert_eq!(error_code(&raw.until_ready()), "57014");
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    // Those that still wait to be looked at end no later statement either.
    assert_eq!(kinds(&raw.run("SELECT pg_sleep(3)")), "TDCZ");
    drop(guesses);
}

/// Set in the process of a test that is run in one of its own, because it counts that process's threads.
const ALONE: &str = "COEVAL_TEST_ALONE";

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn clients_that_leave_at_once_take_few_threads() {
    const CLIENTS: usize = 120;
    const ROWS: usize = 500;
    if std::env::var_os(ALONE).is_none() {
        let name = "adversary::clients_that_leave_at_once_take_few_threads";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = bounded::output(command.args(["--exact", name, "--nocapture"]).env(ALONE, "1"));
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let server = Running::new();
    server.raw().run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    let mut clients: Vec<Raw> = (0..CLIENTS).map(|_| server.raw()).collect();
    for (number, raw) in clients.iter_mut().enumerate() {
        let begin = number * ROWS;
        let insert = format!(
            "INSERT INTO t SELECT i, 'x' FROM generate_series({begin}, {}) AS s(i)",
            begin + ROWS - 1
        );
        raw.run(&format!("BEGIN; {insert}"));
    }
    let before = thread_count();
    drop(clients);
    let mut most = before;
    let registry = server.database.engine().registry();
    while registry.count() > 0 {
        most = most.max(thread_count());
        std::thread::yield_now();
    }
    assert!(most <= before + 40, "{before} threads became {most}");
}
