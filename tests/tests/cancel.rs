// SPDX-License-Identifier: Apache-2.0
//! A running statement that another thread cancels.
#![allow(clippy::unwrap_used)]

use coeval::{CopyOutcome, Database, Error, Outcome, Session, SqlState, TransactionStatus};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs for minutes if nobody cancels it.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000000000) AS t(x) WHERE x % 7 = 3";

/// Runs SQL while another thread cancels again and again.
fn run_cancelled(session: &mut Session, sql: &str) -> Result<u64, Error> {
    let handle = session.cancel_handle();
    let is_over = AtomicBool::new(false);
    let has_begun = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            has_begun.wait();
            while !is_over.load(Ordering::Relaxed) {
                handle.cancel();
                std::thread::yield_now();
            }
        });
        has_begun.wait();
        let outcome = session.execute(sql);
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Runs a statement that takes milliseconds until it has been cancelled, at most for half a minute, with `undo` behind
/// each run: on a busy machine the other thread may not get a core before the statement is through.
fn assert_can_be_cancelled(session: &mut Session, statement: &str, mut undo: impl FnMut(&mut Session, bool)) {
    let name: String = statement.chars().take(60).collect();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        let outcome = run_cancelled(session, statement);
        undo(session, outcome.is_ok());
        if let Err(error) = outcome {
            assert_eq!(error.state(), SqlState::QueryCanceled, "{name}: {error}");
            return;
        }
    }
    panic!("{name} was through each time");
}

#[test]
fn a_cancelled_statement_has_no_effect_and_the_session_goes_on() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (n bigint PRIMARY KEY)").unwrap();
    for statement in [LONG.to_owned(), format!("INSERT INTO t {LONG}"), format!("EXPLAIN ANALYZE {LONG}")] {
        let error = run_cancelled(&mut session, &statement).unwrap_err();
        assert_eq!(error.state(), SqlState::QueryCanceled, "{error}");
    }
    assert_eq!(session.execute("SELECT n FROM t").unwrap(), 0);
}

#[test]
fn writing_many_rows_is_cancelled_between_two_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("numbers.csv");
    let numbers: Vec<String> = (0..200_000).map(|number| number.to_string()).collect();
    std::fs::write(&file, numbers.join("\n")).unwrap();
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (n bigint PRIMARY KEY)").unwrap();
    let values: Vec<String> = numbers.iter().map(|number| format!("({number})")).collect();
    let copy = format!("COPY t FROM '{}' (FORMAT csv)", file.display());
    for statement in [format!("INSERT INTO t VALUES {}", values.join(", ")), copy] {
        assert_can_be_cancelled(&mut session, &statement, |session, is_done| {
            if is_done {
                session.execute("TRUNCATE t").unwrap();
            }
        });
        assert_eq!(session.execute("SELECT n FROM t").unwrap(), 0);
    }
    assert_eq!(session.execute(&format!("COPY t FROM '{}' (FORMAT csv)", file.display())).unwrap(), 200_000);
}

#[test]
fn changing_many_definitions_is_cancelled_between_two_of_them() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.run("CREATE ROLE r; CREATE SCHEMA s; BEGIN").unwrap();
    for table in 0..300 {
        session.execute(&format!("CREATE TABLE s.t{table} (n int)")).unwrap();
    }
    session.execute("COMMIT").unwrap();
    for statement in
        ["GRANT SELECT ON ALL TABLES IN SCHEMA s TO r", "DROP OWNED BY r", "DROP SCHEMA s CASCADE"]
    {
        session.execute("BEGIN").unwrap();
        assert_can_be_cancelled(&mut session, statement, |session, _| {
            session.run("ROLLBACK; BEGIN").unwrap();
        });
        session.execute("ROLLBACK").unwrap();
    }
    session.execute("DROP SCHEMA s CASCADE").unwrap();
}

#[test]
fn a_cancelled_statement_fails_its_transaction_block() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("BEGIN").unwrap();
    run_cancelled(&mut session, LONG).unwrap_err();
    assert_eq!(session.transaction_status(), TransactionStatus::Failed);
    session.execute("ROLLBACK").unwrap();
}

/// What `wait` gives, which another thread cancels while it waits.
fn cancelled_meanwhile<T>(session: &Session, wait: impl FnOnce() -> T) -> T {
    let handle = session.cancel_handle();
    let began = Instant::now();
    let given = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            handle.cancel();
        });
        wait()
    });
    assert!(began.elapsed() < Duration::from_secs(300), "it has slept to the end");
    given
}

/// The wait went on to its end, as only work on rows looked for requests.
#[test]
fn a_query_that_sleeps_is_cancelled_while_its_rows_are_read() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    let Outcome::Rows(mut rows) = session.start("SELECT pg_sleep(600)").unwrap() else { panic!("no rows") };
    let next = cancelled_meanwhile(&session, || rows.next());
    assert_eq!(next.unwrap().unwrap_err().state(), SqlState::QueryCanceled);
    assert!(rows.next().is_none());
    let copy = session.start_copy("COPY (SELECT pg_sleep(600)) TO STDOUT").unwrap();
    let CopyOutcome::Out(mut copy) = copy else { panic!("no rows") };
    let error = cancelled_meanwhile(&session, || copy.find_map(Result::err));
    assert_eq!(error.unwrap().state(), SqlState::QueryCanceled);
    assert_eq!(session.execute("SELECT 1").unwrap(), 1);
}

#[test]
fn a_request_between_statements_concerns_none() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.cancel_handle().cancel();
    assert_eq!(session.execute("SELECT count(*) FROM generate_series(1, 1000) AS t(i)").unwrap(), 1);
}

#[test]
fn casts_of_numbers_with_many_digits_are_cancelled_between_two_of_them() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    let setup = "CREATE TABLE long (x numeric);
        INSERT INTO long SELECT ('0.' || repeat('37', 8191))::numeric FROM generate_series(1, 8000)";
    session.run(setup).unwrap();
    session.execute("SET statement_timeout = '100ms'").unwrap();
    // One batch of rows takes many seconds.
    for cast in ["x::float8 > 5", "x::int > 5", "x::numeric(10,2) > 5"] {
        let took = [(); 3].map(|()| {
            let began = Instant::now();
            let error = session.execute(&format!("SELECT count(*) FROM long WHERE {cast}")).unwrap_err();
            assert_eq!(error.state(), SqlState::QueryCanceled, "{cast}: {error}");
            began.elapsed()
        });
        // A busy machine may hold it up for as long, but not each time.
        assert!(took.iter().any(|took| *took < Duration::from_secs(2)), "{cast} ended after {took:?}");
    }
}
