// SPDX-License-Identifier: Apache-2.0
//! Sessions that wait stop nobody else: here one thread serves all connections.
#![allow(clippy::unwrap_used)]

mod support;

use coeval_server::ServerOptions;
use std::time::{Duration, Instant};
use support::{Raw, Running, error_code, kinds, query, status, sync, unnamed};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// How a statement is sent.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    Simple,
    Extended,
}

/// Where it stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Alone,
    InBlock,
}

/// Whether it waits for who has locked row 1 and is about to take key 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Always,
    /// It may lose at its commit instead.
    AtReadCommitted,
}

const STATEMENTS: [(&str, Waits); 6] = [
    ("SELECT v FROM t WHERE k = 1 FOR UPDATE", Waits::Always),
    ("SELECT v FROM t WHERE v < 15 FOR SHARE", Waits::Always),
    ("UPDATE t SET v = v + 1 WHERE k = 1", Waits::AtReadCommitted),
    ("DELETE FROM t WHERE v + k = 11", Waits::AtReadCommitted),
    ("INSERT INTO t VALUES (8, 7)", Waits::AtReadCommitted),
    ("INSERT INTO t VALUES (7, 8)", Waits::AtReadCommitted),
];

fn server() -> Running {
    let server = Running::on_one_thread(ServerOptions::default());
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (k int PRIMARY KEY, v int UNIQUE)");
    raw.run("INSERT INTO t VALUES (1, 10), (2, 20)");
    server
}

fn send(raw: &mut Raw, protocol: Protocol, sql: &str) {
    match protocol {
        Protocol::Simple => raw.send(&query(sql)),
        Protocol::Extended => raw.send_all(&[unnamed(sql), sync()]),
    }
}

/// Somebody waits for a lock, if that is sure; others are served; who waits goes on when the lock ends.
fn check(server: &Running, level: &str, sql: &str, waits: Waits, protocol: Protocol, place: Place) {
    let case = format!("{level}, {protocol:?}, {place:?}: {sql}");
    let (mut holder, mut waiter, mut other) = (server.raw(), server.raw(), server.raw());
    holder.run("BEGIN ISOLATION LEVEL READ COMMITTED");
    holder.run("UPDATE t SET v = 11 WHERE k = 1");
    holder.run("INSERT INTO t VALUES (7, 7)");
    match place {
        Place::Alone => waiter.run(&format!("SET default_transaction_isolation = '{level}'")),
        Place::InBlock => waiter.run(&format!("BEGIN ISOLATION LEVEL {level}")),
    };
    send(&mut waiter, protocol, sql);
    let is_sure = waits == Waits::Always || level == LEVELS[0];
    while is_sure && server.database.engine().store().waiting_for_locks() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(kinds(&other.run("SELECT count(*) FROM t")), "TDCZ", "{case}");
    assert_eq!(kinds(&other.run("SELECT v FROM t WHERE k = 2")), "TDCZ", "{case}");
    assert_eq!(kinds(&other.run("UPDATE t SET v = v + 1 WHERE k = 2")), "CZ", "{case}");
    assert_eq!(kinds(&other.run("BEGIN; INSERT INTO t VALUES (3, 3000); ROLLBACK")), "CCCZ", "{case}");
    if is_sure {
        assert_eq!(server.database.engine().store().waiting_for_locks(), 1, "{case}");
    }
    holder.run("ROLLBACK");
    let answer = waiter.until_ready();
    if is_sure {
        assert!(!kinds(&answer).contains('E'), "{case}: {answer:?}");
    }
    if matches!(place, Place::InBlock) {
        assert_eq!(status(&waiter.run("ROLLBACK")), 'I', "{case}");
    }
    other.run("DELETE FROM t WHERE k > 2");
    other.run("INSERT INTO t VALUES (1, 10) ON CONFLICT (k) DO UPDATE SET v = 10");
}

#[test]
fn a_session_that_waits_for_a_row_lock_stops_no_other_connection() {
    let server = server();
    for level in LEVELS {
        for (sql, waits) in STATEMENTS {
            for protocol in [Protocol::Simple, Protocol::Extended] {
                for place in [Place::Alone, Place::InBlock] {
                    check(&server, level, sql, waits, protocol, place);
                }
            }
        }
    }
}

#[test]
fn many_sessions_that_wait_for_one_row_go_on_one_after_the_other() {
    let server = server();
    let mut holder = server.raw();
    holder.run("BEGIN");
    holder.run("SELECT v FROM t WHERE k = 1 FOR UPDATE");
    let mut waiters: Vec<Raw> = (0..20).map(|_| server.raw()).collect();
    for waiter in &mut waiters {
        waiter.run("SET default_transaction_isolation = 'read committed'");
        waiter.send(&query("UPDATE t SET v = v + 100 WHERE k = 1"));
    }
    while server.database.engine().store().waiting_for_locks() < 20 {
        std::thread::yield_now();
    }
    holder.run("COMMIT");
    for waiter in &mut waiters {
        assert_eq!(kinds(&waiter.until_ready()), "CZ");
    }
    assert_eq!(holder.run("SELECT v FROM t WHERE k = 1")[1].texts(), ["2010"]);
}

#[test]
fn a_session_that_waits_and_leaves_takes_its_place_along() {
    let server = server();
    let mut holder = server.raw();
    holder.run("BEGIN");
    holder.run("SELECT v FROM t WHERE k = 1 FOR UPDATE");
    let mut waiter = server.raw();
    waiter.run("SET lock_timeout = '10ms'");
    let messages = waiter.run("SELECT v FROM t WHERE k = 1 FOR UPDATE");
    assert_eq!(support::error_code(&messages), "55P03");
    assert_eq!(server.database.engine().store().waiting_for_locks(), 0);
    assert_eq!(kinds(&holder.run("UPDATE t SET v = 12 WHERE k = 1")), "CZ");
}

/// Commits wait for the disk together; whoever is told of one finds it.
#[test]
fn commits_of_many_connections_on_disk_are_seen_by_whoever_is_told_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let database = coeval::Database::open(dir.path()).unwrap();
    let server = Running::on_one_thread_of(database, ServerOptions::default());
    server.raw().run("CREATE TABLE t (k int PRIMARY KEY)");
    std::thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let (mut writer, mut reader) = (server.raw(), server.raw());
                for turn in 0..20 {
                    let key = client * 100 + turn;
                    let insert = format!("INSERT INTO t VALUES ({key})");
                    match turn % 3 {
                        0 => writer.send(&query(&insert)),
                        1 => {
                            writer.send_all(&[unnamed("BEGIN"), unnamed(&insert), unnamed("COMMIT"), sync()])
                        }
                        _ => writer.send_all(&[unnamed(&insert), sync()]),
                    }
                    assert!(!kinds(&writer.until_ready()).contains('E'));
                    let seen = reader.run(&format!("SELECT k FROM t WHERE k = {key}"));
                    assert_eq!(kinds(&seen), "TDCZ", "{key}");
                }
            });
        }
    });
    assert_eq!(server.raw().run("SELECT count(*) FROM t")[1].texts(), ["160"]);
}

/// With a timeout of 0 the wait had no end: nothing could end it, and it kept a thread and a place among openings.
#[test]
fn a_session_that_is_opened_with_a_token_waits_no_longer_than_openings_may_take() {
    // Somebody else has to come in within it, on a busy machine too.
    let opening_timeout = Duration::from_secs(5);
    let server = Running::on_one_thread(ServerOptions { opening_timeout, ..ServerOptions::default() });
    let (mut raw, began) = (server.unopened(), Instant::now());
    let options = "-c coeval.wait_for_token_timeout=0 -c coeval.wait_for_token=ffff-1-1-1";
    raw.send_startup(&[("user", "tester"), ("options", options)]);
    // Somebody else comes in meanwhile.
    assert_eq!(kinds(&server.raw().run("SELECT 1")), "TDCZ");
    assert_eq!(error_code(&raw.until_end()), "57014");
    assert!(began.elapsed() >= opening_timeout / 2, "{:?}", began.elapsed());
}
