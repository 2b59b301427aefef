// SPDX-License-Identifier: Apache-2.0
//! A running statement that another thread cancels.
#![allow(clippy::unwrap_used)]

use coeval::{Database, Error, Session, SqlState, TransactionStatus};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs for minutes if nobody cancels it.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000000000) AS t(x) WHERE x % 7 = 3";

/// Runs SQL while another thread cancels again and again.
fn run_cancelled(session: &mut Session, sql: &str) -> Result<u64, Error> {
    let handle = session.cancel_handle();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                handle.cancel();
                std::thread::yield_now();
            }
        });
        let outcome = session.execute(sql);
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
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
        // On a busy machine a statement may be through before the other thread has begun.
        let cancelled = (0..50).find_map(|_| {
            let error = run_cancelled(&mut session, &statement).err();
            if error.is_none() {
                session.execute("TRUNCATE t").unwrap();
            }
            error
        });
        assert_eq!(cancelled.unwrap().state(), SqlState::QueryCanceled);
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
        // On a busy machine a statement may be through before the other thread has begun.
        let cancelled = (0..50).find_map(|_| {
            session.execute("BEGIN").unwrap();
            let error = run_cancelled(&mut session, statement).err();
            session.execute("ROLLBACK").unwrap();
            error
        });
        assert_eq!(cancelled.unwrap().state(), SqlState::QueryCanceled, "{statement}");
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

#[test]
fn a_request_between_statements_concerns_none() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.cancel_handle().cancel();
    assert_eq!(session.execute("SELECT count(*) FROM generate_series(1, 1000) AS t(i)").unwrap(), 1);
}
