// SPDX-License-Identifier: Apache-2.0
//! Statements that nobody waits for any more end in their engines: those of DuckDB and PostgreSQL at any time, those of SQLite, whose
//! driver cannot cancel, between two batches of rows.

use super::*;
use crate::skipping::needed;
use coeval_tique::{Abandonment, abandonable};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// The statements look at 27,000,000,000 combinations, which takes any engine longer than this. One that runs for so long after
/// it was abandoned was not asked to end.
const TIME: Duration = Duration::from_secs(20);

/// Abandons this statement over `t` while it runs, and looks what is behind it.
fn ends_when_it_is_abandoned(sql: &'static str) {
    let database = database(Options { checkpoint_at: 0, ..Options::default() });
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
    let values: Vec<_> = (0..3_000).map(|k| format!("({k})")).collect();
    session.execute(&format!("INSERT INTO t VALUES {}", values.join(", "))).unwrap();
    database.checkpoint().unwrap();

    let statement = Abandonment::default();
    let theirs = statement.clone();
    let working = spawn(move || {
        session.execute("BEGIN").unwrap();
        let is_done = abandonable(&theirs, || session.execute(sql).is_ok());
        // The block can be rolled back, and the session's connection is well.
        session.execute("ROLLBACK").unwrap();
        (is_done, rows(&mut session, "SELECT count(*) FROM t"))
    });
    sleep(Duration::from_millis(500));
    assert!(!working.is_finished(), "the statement is not long enough to show anything");
    let left = Instant::now();
    statement.abandon();
    while !working.is_finished() {
        assert!(left.elapsed() < TIME, "it runs on in the engine");
        sleep(Duration::from_millis(1));
    }
    assert_eq!(working.join().unwrap(), (false, vec!["3000".to_owned()]));
}

#[test]
fn a_statement_that_nobody_waits_for_any_more_is_cancelled_in_its_engine() {
    let is_named = |engine: &str| std::env::var_os(format!("COEVAL_TIQUE_{engine}")).is_some();
    let can_cancel = is_named("DUCKDB") || is_named("POSTGRESQL_ADDRESS");
    if needed("duckdb", can_cancel.then_some(())).is_some() {
        // Which combinations there are cannot be told from the least and the greatest key.
        ends_when_it_is_abandoned(
            "SELECT count(*) FROM t AS a, t AS b, t AS c WHERE (a.k * 7 + b.k * 13 + c.k) % 1000003 = 1000002",
        );
    }
}

#[test]
fn rows_that_nobody_waits_for_any_more_are_not_computed() {
    if needed("sqlite", is_sqlite().then_some(())).is_some() {
        ends_when_it_is_abandoned("SELECT a.k FROM t AS a, t AS b, t AS c");
    }
}
