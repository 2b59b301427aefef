// SPDX-License-Identifier: Apache-2.0
//! A commit that spans a server and the database, while what it waits for does not come: replicas, or other transactions. Statements
//! on servers that are cancelled.

use super::{rows, run, session, state};
use crate::skipping::needed;
use coeval::{Database, Session, SqlState};
use coeval_txn::LockState;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ON_SERVER: &str = "SELECT quantity FROM stock WHERE w = 1 AND i = 1";
const HERE: &str = "SELECT name FROM items WHERE i = 1";

/// A database with a server, and a row in each.
fn served(directory: &Path) -> (Database, Session) {
    let database = Database::open(directory.join("db")).unwrap();
    let mut client = session(&database);
    run(
        &mut client,
        "CREATE SERVER wh ENGINE datafusion; \
         CREATE TABLE stock (w int, i int, quantity int, PRIMARY KEY (w, i)) USING tique SERVER wh; \
         CREATE TABLE items (i int PRIMARY KEY, name text); \
         INSERT INTO stock VALUES (1, 1, 10); INSERT INTO items VALUES (1, 'one')",
    );
    (database, client)
}

/// Who waits, and how it is told to end.
fn spanning(database: &Database) -> (std::thread::JoinHandle<SqlState>, coeval::CancelHandle) {
    let mut spanning = session(database);
    let cancel = spanning.cancel_handle();
    let waiting = std::thread::spawn(move || {
        run(
            &mut spanning,
            "BEGIN; UPDATE stock SET quantity = 77 WHERE w = 1 AND i = 1; UPDATE items SET name = 'both' WHERE i = 1",
        );
        spanning.run("COMMIT").map(drop).expect_err("it is cancelled").state()
    });
    (waiting, cancel)
}

/// As [`spanning`], once it has its place on the server and waits for replicas.
fn spanning_by_now(database: &Database) -> (std::thread::JoinHandle<SqlState>, coeval::CancelHandle) {
    let before = database.store().applied_version();
    let (waiting, cancel) = spanning(database);
    let has_come = || database.store().applied_version() != before || waiting.is_finished();
    until("it does not get there", has_come);
    std::thread::sleep(Duration::from_millis(100));
    assert!(!waiting.is_finished());
    (waiting, cancel)
}

/// Nobody sees a commit on the server before one that came first there: it waited for that, deaf to everything.
#[test]
fn a_commit_on_the_server_behind_one_that_spans_can_be_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let (database, mut client) = served(directory.path());
    run(&mut client, "SET synchronous_standby_names = 'nobody'");
    let (spans, cancel_spans) = spanning_by_now(&database);
    let mut behind = session(&database);
    let cancel = behind.cancel_handle();
    loop {
        run(&mut behind, "BEGIN; INSERT INTO stock VALUES (2, 2, 2)");
        let state = std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| behind.run("COMMIT").map(drop).expect_err("it is cancelled").state());
            std::thread::sleep(Duration::from_millis(200));
            assert!(!waiting.is_finished() && !spans.is_finished());
            while !waiting.is_finished() {
                cancel.cancel();
                std::thread::sleep(Duration::from_millis(5));
            }
            waiting.join().unwrap()
        });
        // On a busy machine it had not come so far, and nothing is left of it.
        if state != SqlState::QueryCanceled {
            assert_eq!(state.code(), "08007");
            break;
        }
    }
    cancel_spans.cancel();
    assert_eq!(spans.join().unwrap().code(), "08007");
    run(&mut client, "SET synchronous_standby_names = ''");
    let began = Instant::now();
    while rows(&mut client, "SELECT count(*) FROM stock") != ["2"] {
        assert!(began.elapsed() < Duration::from_secs(20), "it is not seen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whoever began on the server waited for as long as the replicas were away, deaf to everything, and so did the commit.
#[test]
fn while_a_commit_that_spans_waits_for_replicas_others_begin_on_the_server_and_it_can_be_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let (database, mut client) = served(directory.path());
    let before = [vec!["10".to_owned()], vec!["one".to_owned()]];
    run(&mut client, "SET synchronous_standby_names = 'nobody'");
    let (waiting, cancel) = spanning_by_now(&database);
    let mut reader = session(&database);
    assert_eq!([rows(&mut reader, ON_SERVER), rows(&mut reader, HERE)], before, "nothing of it is seen");
    assert!(!waiting.is_finished());
    cancel.cancel();
    assert_eq!(waiting.join().unwrap().code(), "08007");
    assert_eq!([rows(&mut reader, ON_SERVER), rows(&mut reader, HERE)], before, "nor now");

    // It commits in both places once nobody is waited for, though nobody waits for it.
    run(&mut client, "SET synchronous_standby_names = ''");
    let both = [vec!["77".to_owned()], vec!["both".to_owned()]];
    let began = Instant::now();
    loop {
        run(&mut reader, "BEGIN");
        let here = rows(&mut reader, HERE);
        // Whose world was followed by another one between the two halves is told to begin again.
        if reader.run("SELECT 1 FROM stock").is_ok() {
            let seen = [rows(&mut reader, ON_SERVER), here];
            assert!(seen == both || seen == before, "half of it is seen: {seen:?}");
            if seen == both {
                break;
            }
        }
        run(&mut reader, "ROLLBACK");
        assert!(began.elapsed() < Duration::from_secs(20), "it is not seen");
    }
}

/// Waits until this is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Others begin on the server, and commit in both places.
fn others_go_on(database: &Database, number: usize) {
    let mut other = session(database);
    run(&mut other, "SET statement_timeout = '20s'; BEGIN");
    assert_eq!(rows(&mut other, ON_SERVER), ["10"]);
    run(&mut other, "COMMIT");
    let both =
        format!("INSERT INTO stock VALUES (9, {number}, 0); INSERT INTO items VALUES ({number}, 'more')");
    run(&mut other, &format!("BEGIN; {both}; COMMIT"));
}

/// A commit that met a reservation waited for it with the right to span the server in its hand, for up to five seconds: nobody began
/// there meanwhile. Fails if `span` calls `commit_applied`.
#[test]
fn while_a_commit_that_spans_waits_for_a_reservation_others_begin_and_span_and_it_can_be_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let (database, mut client) = served(directory.path());
    let mut first = session(&database);
    run(&mut first, "SET coeval.priority = on; BEGIN");
    assert_eq!(rows(&mut first, HERE), ["one"]);
    run(&mut client, "UPDATE items SET name = 'theirs' WHERE i = 1");
    run(&mut first, "UPDATE items SET name = 'mine' WHERE i = 1");
    assert_eq!(state(&mut first, "COMMIT"), SqlState::SerializationFailure);

    let (waiting, cancel) = spanning(&database);
    let waits = || database.store().waiting_for_reservations() == 1;
    until("it does not meet the reservation", waits);
    others_go_on(&database, 20);
    assert!(waits(), "the others have waited as well");
    cancel.cancel();
    assert_eq!(waiting.join().unwrap(), SqlState::QueryCanceled);
    assert_eq!([rows(&mut client, ON_SERVER), rows(&mut client, HERE)], [["10"], ["theirs"]]);
}

/// The checks that were put off to the commit may want row locks of others, who may take their time: they were waited for while
/// nobody could begin on the server. Fails without `check_before_commit` in `span`.
#[test]
fn while_a_commit_that_spans_waits_for_a_row_lock_others_begin_and_span() {
    let directory = tempfile::tempdir().unwrap();
    let (database, mut client) = served(directory.path());
    run(
        &mut client,
        "CREATE TABLE parts (id int PRIMARY KEY, item int REFERENCES items DEFERRABLE INITIALLY DEFERRED)",
    );
    let mut holder = session(&database);
    run(&mut holder, "BEGIN ISOLATION LEVEL READ COMMITTED; DELETE FROM items WHERE i = 1");
    let mut spanning = session(&database);
    let waiting = std::thread::spawn(move || {
        run(
            &mut spanning,
            "BEGIN ISOLATION LEVEL READ COMMITTED; INSERT INTO stock VALUES (3, 3, 3); INSERT INTO parts VALUES (1, 1); COMMIT",
        );
    });
    let waits = || database.store().row_locks().iter().any(|lock| lock.state == LockState::Waiting);
    until("it does not wait for the lock", waits);
    others_go_on(&database, 21);
    assert!(waits(), "the holder has not ended");
    run(&mut holder, "ROLLBACK");
    waiting.join().unwrap();
    assert_eq!(rows(&mut client, "SELECT item FROM parts"), ["1"]);
    assert_eq!(rows(&mut client, "SELECT quantity FROM stock WHERE w = 3"), ["3"]);
}

/// More than a role may leave behind on engines before its statements have to wait.
const CANCELLED: usize = 12;

/// What is answered at once is answered within this on any machine, and what waits for the end of a long statement is not.
const SOON: Duration = Duration::from_secs(10);

/// A cancelled statement worked on to its end inside of DuckDB: eight of a role, and its next statement waited for them.
#[test]
fn cancelled_statements_are_answered_at_once_and_end_in_their_engine() {
    let library = std::env::var("COEVAL_TIQUE_DUCKDB").ok();
    let Some(library) = needed("duckdb", library) else { return };
    let database = Database::in_memory().unwrap();
    let mut client = session(&database);
    let values: Vec<_> = (0..3_000).map(|k| format!("({k})")).collect();
    run(
        &mut client,
        &format!(
            "CREATE SERVER duck ENGINE duckdb OPTIONS (library '{library}'); \
             CREATE TABLE t (k int PRIMARY KEY) USING tique SERVER duck; INSERT INTO t VALUES {}",
            values.join(", ")
        ),
    );
    // 27,000,000,000 combinations; which there are cannot be told from the least and the greatest key.
    let long =
        "SELECT count(*) FROM t AS a, t AS b, t AS c WHERE (a.k * 7 + b.k * 13 + c.k) % 1000003 = 1000002";
    for _ in 0..CANCELLED {
        let (cancel, is_over) = (client.cancel_handle(), AtomicBool::new(false));
        let asked = std::thread::scope(|scope| {
            let cancels = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                let asked = Instant::now();
                // On a busy machine the statement may not have begun.
                while !is_over.load(Ordering::Relaxed) {
                    cancel.cancel();
                    std::thread::sleep(Duration::from_millis(5));
                }
                asked
            });
            let ended = client.run(long).map(drop).map_err(|error| error.state());
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(ended, Err(SqlState::QueryCanceled));
            cancels.join().unwrap()
        });
        // A tenth of a second, and room for a machine that is busy. To its end the statement takes minutes.
        assert!(asked.elapsed() < SOON, "the answer took {:?}", asked.elapsed());
    }
    let began = Instant::now();
    assert_eq!(rows(&mut client, "SELECT count(*) FROM t"), ["3000"]);
    assert!(began.elapsed() < SOON, "statements that were cancelled work on");
}
