// SPDX-License-Identifier: Apache-2.0
//! Where the parts of the protocol meet: the simple in the extended one, statements that changed under a client, the
//! end of a session in the middle of its rows.
#![allow(clippy::unwrap_used)]

mod support;

use coeval_server::ServerOptions;
use std::io::{Read, Write};
use std::time::Duration;
use support::{
    Running, bind, bind_as, describe, error_code, execute, kinds, message, parse, query, status, sync,
    unnamed,
};

#[test]
fn a_simple_query_ends_what_was_executed_before_it() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    raw.run("INSERT INTO t VALUES (1, 0)");
    // The session knows this text from now on.
    raw.run("SELECT v FROM t WHERE k = 1");
    raw.send_all(&[
        unnamed("UPDATE t SET v = 7 WHERE k = 1"),
        message(b'H', &[]),
        query("SELECT v FROM t WHERE k = 1"),
    ]);
    let messages = raw.until_ready();
    assert_eq!(status(&messages), 'I');
    let seen = server.raw().run("SELECT v FROM t WHERE k = 1");
    assert_eq!(seen[1].texts(), ["7"]);
}

#[test]
fn a_refused_function_call_undoes_what_was_executed_before_it() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (k int PRIMARY KEY)");
    raw.send_all(&[unnamed("INSERT INTO t VALUES (1)"), message(b'F', &[0; 10])]);
    assert_eq!(status(&raw.until_ready()), 'I');
    raw.send_all(&[sync()]);
    raw.until_ready();
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["0"]);
}

#[test]
fn rows_of_other_types_than_the_client_was_told_are_refused() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE u (k int PRIMARY KEY, v int)");
    raw.run("INSERT INTO u VALUES (1, 5)");
    raw.send_all(&[parse("s", "SELECT v FROM u WHERE k = 1", &[]), describe('S', "s"), sync()]);
    raw.until_ready();
    for (ty, value) in [("text", "'abc'"), ("numeric", "1.5")] {
        raw.run(&format!(
            "DROP TABLE u; CREATE TABLE u (k int PRIMARY KEY, v {ty}); INSERT INTO u VALUES (1, {value})"
        ));
        raw.send_all(&[bind_as("", "s", &[], 0, 1), execute("", 0), sync()]);
        let messages = raw.until_ready();
        assert_eq!(error_code(&messages), "0A000");
    }
}

#[test]
fn a_statement_without_rows_is_executed_once() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (k int PRIMARY KEY)");
    raw.send_all(&[unnamed("INSERT INTO t VALUES (1)"), execute("", 0), sync()]);
    let messages = raw.until_ready();
    assert_eq!(error_code(&messages), "55000");
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["0"]);
}

#[test]
fn a_failed_block_gives_no_more_rows() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("BEGIN");
    raw.send_all(&[
        parse("", "SELECT * FROM generate_series(1, 10) AS t(x)", &[]),
        bind("p", "", &[]),
        execute("p", 2),
        sync(),
    ]);
    assert_eq!(status(&raw.until_ready()), 'T');
    raw.run("SELECT 1 / 0");
    raw.send_all(&[execute("p", 2), sync()]);
    let messages = raw.until_ready();
    assert_eq!((error_code(&messages).as_str(), status(&messages)), ("25P02", 'E'));
}

#[test]
fn what_was_asked_before_terminate_is_answered() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.send_all(&[query("SELECT 41 + 1"), message(b'X', &[])]);
    let messages = raw.until_ready();
    assert_eq!(kinds(&messages), "TDCZ");
    assert_eq!(messages[1].texts(), ["42"]);
}

/// Every message must be whole, also if the session is ended while the client is slow to read.
#[test]
fn a_session_that_is_ended_while_it_writes_repeats_nothing() {
    let options = ServerOptions { stopping_timeout: Duration::from_millis(100), ..ServerOptions::default() };
    let mut server = Running::with(options);
    let mut raw = server.raw();
    raw.stream.write_all(&query("SELECT x FROM generate_series(1, 3000000) AS t(x)")).unwrap();
    let mut bytes = vec![0; 1 << 16];
    raw.stream.read_exact(&mut bytes).unwrap();
    server.wait_stopped();
    raw.stream.read_to_end(&mut bytes).unwrap();
    let mut rest = &bytes[..];
    let mut next = 1_u64;
    while rest.len() >= 5 {
        let length = u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize + 1;
        let Some(body) = rest.get(5..length) else { break };
        match rest[0] {
            b'D' => {
                assert_eq!(std::str::from_utf8(&body[6..]).unwrap(), next.to_string());
                next += 1;
            }
            b'T' | b'E' | b'C' | b'Z' | b'S' => {}
            other => panic!("a message of kind {other:#x} behind row {next}"),
        }
        rest = &rest[length..];
    }
    assert!(next > 1);
}

/// A pipeline in the middle is no session without work: a server that stops lets it end.
#[test]
fn a_group_without_its_sync_is_no_idle_session() {
    let mut server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (k int PRIMARY KEY)");
    raw.send_all(&[unnamed("INSERT INTO t VALUES (1)"), message(b'H', &[])]);
    assert_eq!(['1', '2', 'C'].map(|_| raw.next().unwrap().kind), ['1', '2', 'C']);
    let registry = server.database.engine().registry();
    assert_eq!(registry.all()[0].state().name(), "active");
    server.begin_to_stop();
    raw.send(&sync());
    assert_eq!(status(&raw.until_ready()), 'I');
    assert_eq!(error_code(&raw.until_end()), "57P01");
    server.wait_stopped();
    assert_eq!(server.database.session().query("SELECT * FROM t").unwrap()[0].num_rows(), 1);
}

/// Sessions that wait each have a thread; there must be others for those that do not.
#[test]
fn sessions_that_wait_for_a_lock_stop_nobody_else() {
    let waiting = 520;
    let server = Running::with(ServerOptions { connections_max: waiting + 2, ..ServerOptions::default() });
    let mut holder = server.raw();
    holder.run("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)");
    holder.run("BEGIN ISOLATION LEVEL READ COMMITTED");
    holder.run("UPDATE t SET v = v + 1 WHERE k = 1");
    let mut waiters: Vec<_> = (0..waiting).map(|_| server.raw()).collect();
    for waiter in &mut waiters {
        waiter.run("SET default_transaction_isolation = 'read committed'");
        waiter.send(&query("UPDATE t SET v = v + 1 WHERE k = 1"));
    }
    let active = || {
        let sessions = server.database.engine().registry().all();
        sessions.iter().filter(|session| session.state().name() == "active").count()
    };
    while active() < waiting {
        std::thread::yield_now();
    }
    let mut other = server.raw();
    assert_eq!(kinds(&other.run("SELECT v FROM t WHERE k = 1")), "TDCZ");
    assert_eq!(kinds(&other.run("CREATE TABLE u (k int PRIMARY KEY)")), "CZ");
    assert_eq!(status(&holder.run("COMMIT")), 'I');
    for waiter in &mut waiters {
        assert_eq!(waiter.until_ready()[0].tag(), "UPDATE 1");
    }
    assert_eq!(other.run("SELECT v FROM t WHERE k = 1")[1].texts(), [(waiting + 1).to_string()]);
}
