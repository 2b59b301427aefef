// SPDX-License-Identifier: Apache-2.0
//! Clients that go while their statement runs: it is cancelled, whatever it is doing or waiting for.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::Shutdown;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Raw, Running, error_code, kinds, query, sync, unnamed};

/// Runs for longer than all that tests wait.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000) AS a, generate_series(1, 100000) AS b";

/// Waits for somebody else's lock.
const WAITING: &str = "SELECT v FROM t WHERE k = 1 FOR UPDATE";

/// Waits until only so many sessions are left.
fn sessions_become(server: &Running, count: usize, case: &str) {
    let began = Instant::now();
    while server.database.engine().registry().count() > count {
        assert!(began.elapsed() < Duration::from_secs(20), "it is still worked for: {case}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server with a table, and somebody who holds a lock on its first row.
fn server() -> (Running, Raw) {
    let server = Running::new();
    let mut holder = server.raw();
    holder.run("CREATE TABLE t (k int PRIMARY KEY, v bigint)");
    holder.run("INSERT INTO t VALUES (1, 10), (2, 20)");
    holder.run("BEGIN");
    assert_eq!(kinds(&holder.run(WAITING)), "TDCZ");
    (server, holder)
}

/// Waits until another session than the holder's runs a statement.
fn wait_until_it_runs(server: &Running) {
    let is_active = || {
        let all = server.database.engine().registry().all();
        all.iter().any(|session| session.activity().state.name() == "active")
    };
    while !is_active() {
        std::thread::yield_now();
    }
}

/// Statements went on to their end, with the locks that they had, though nobody was there any more.
#[test]
fn whoever_goes_is_cancelled_whatever_the_statement_is_doing() {
    let (server, _holder) = server();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let statements = [
        LONG.to_owned(),
        WAITING.to_owned(),
        format!("INSERT INTO t SELECT 3, n FROM ({LONG}) AS c(n)"),
        format!("UPDATE t SET v = (SELECT n FROM ({LONG}) AS c(n)) WHERE k = 2"),
        format!("BEGIN; DECLARE c CURSOR FOR {LONG}; FETCH c"),
        format!("COPY ({LONG}) TO STDOUT"),
        format!("COPY t FROM '{}'", pipe.display()),
        format!("COPY t TO '{}'", pipe.display()),
    ];
    for sql in &statements {
        let mut raw = server.raw();
        raw.send(&query(sql));
        wait_until_it_runs(&server);
        drop(raw);
        sessions_become(&server, 1, sql);
    }
    for sql in [LONG, WAITING] {
        let mut raw = server.raw();
        raw.send_all(&[unnamed(sql), sync()]);
        wait_until_it_runs(&server);
        drop(raw);
        sessions_become(&server, 1, sql);
    }
    assert_eq!(server.database.store().active_snapshots(), 1, "the holder's");
}

/// Bytes that were sent ahead have to stay where they are, and behind them the end of the client could not be read.
#[test]
fn what_was_sent_ahead_hides_no_end_and_is_not_run() {
    let (server, mut holder) = server();
    let mut raw = server.raw();
    raw.send_all(&[query(WAITING), query("INSERT INTO t VALUES (3, 30)")]);
    wait_until_it_runs(&server);
    drop(raw);
    sessions_become(&server, 1, "with a statement behind it");
    assert_eq!(server.raw().run("SELECT count(*) FROM t")[1].texts(), ["2"]);
    // Whoever is there gets all answers, however long the first one takes.
    let mut patient = server.raw();
    patient.send_all(&[query(WAITING), query("INSERT INTO t VALUES (4, 40)")]);
    std::thread::sleep(Duration::from_millis(2_500));
    holder.run("ROLLBACK");
    assert_eq!(kinds(&patient.until_ready()), "TDCZ");
    assert_eq!(kinds(&patient.until_ready()), "CZ");
}

#[test]
fn who_has_closed_its_half_gets_short_answers_and_with_the_setting_at_0_long_ones() {
    let (server, mut holder) = server();
    let mut short = server.raw();
    short.send_all(&[query("SELECT 1"), query("SELECT 2")]);
    short.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(kinds(&short.until_end()), "TDCZTDCZ");

    let mut long = server.raw();
    long.send(&query(WAITING));
    long.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(error_code(&long.until_end()), "08006");

    let mut patient = server.raw();
    patient.run("SET client_connection_check_interval = 0");
    patient.send(&query(WAITING));
    patient.stream.shutdown(Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(2_500));
    holder.run("ROLLBACK");
    assert_eq!(kinds(&patient.until_end()), "TDCZ");
}
