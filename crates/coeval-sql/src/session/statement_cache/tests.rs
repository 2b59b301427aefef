// SPDX-License-Identifier: Apache-2.0
//! Statements that a session keeps by their text.

use super::CACHE_BYTES;
use crate::engine::Engine;
use crate::point::compilations;
use crate::quota::QuotaShare;
use crate::session::Session;
use coeval_store::{Store, StoreOptions};

fn session() -> Session {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    session.execute("CREATE TABLE t (n bigint PRIMARY KEY, value text)").unwrap();
    session
}

/// How many statements are compiled while this runs on this thread.
fn compiled(run: impl FnOnce()) -> usize {
    let before = compilations();
    run();
    compilations() - before
}

#[test]
fn a_statement_that_runs_by_key_is_compiled_once() {
    let mut session = session();
    assert_eq!(compiled(|| drop(session.execute("INSERT INTO t VALUES (1, 'a')").unwrap())), 1);
    assert_eq!(compiled(|| drop(session.execute("SELECT value FROM t WHERE n = 1").unwrap())), 1);
    assert_eq!(compiled(|| drop(session.execute("SELECT value FROM t WHERE n = 1").unwrap())), 0);
}

#[test]
fn old_texts_make_room_and_those_in_use_stay() {
    let mut session = session();
    let often = "SELECT value FROM t WHERE n = -1";
    session.execute(often).unwrap();
    for number in 0..3_000 {
        session.execute(&format!("INSERT INTO t VALUES ({number}, 'a')")).unwrap();
        if number % 100 == 0 {
            assert_eq!(compiled(|| drop(session.execute(often).unwrap())), 0, "after {number}");
        }
    }
    assert!(session.cached.bytes.amount() <= CACHE_BYTES);
    assert_eq!(session.cached.entries.len(), session.cached.order.len());
    assert!(session.cached.entries.len() > 100);
    // The newest text is kept, the oldest is not.
    assert_eq!(compiled(|| drop(session.execute("DELETE FROM t WHERE n = 1").unwrap())), 1);
    assert_eq!(compiled(|| drop(session.execute("DELETE FROM t WHERE n = 1").unwrap())), 0);
    assert_eq!(compiled(|| drop(session.execute("INSERT INTO t VALUES (0, 'a')").unwrap_err())), 1);
}

#[test]
fn what_all_sessions_keep_has_a_bound_behind_which_statements_run_unkept() {
    let mut session = session();
    let sql = "SELECT value FROM t WHERE n = 1";
    let mut others = QuotaShare::of(&session.engine.quotas().kept_statements);
    while others.take(1 << 20).is_ok() {}
    while others.take(1).is_ok() {}
    assert_eq!(compiled(|| drop(session.execute(sql).unwrap())), 1);
    assert_eq!(compiled(|| drop(session.execute(sql).unwrap())), 1);
    drop(others);
    assert_eq!(compiled(|| drop(session.execute(sql).unwrap())), 1);
    assert_eq!(compiled(|| drop(session.execute(sql).unwrap())), 0);
}

#[test]
fn a_long_text_pushes_nothing_out() {
    let mut session = session();
    let short = "SELECT value FROM t WHERE n = 1";
    session.execute(short).unwrap();
    let long = format!("SELECT value FROM t WHERE n = 1 AND value <> '{}'", "x".repeat(CACHE_BYTES));
    session.execute(&long).unwrap();
    assert_eq!(compiled(|| drop(session.execute(short).unwrap())), 0);
}

/// The rows of a query, as text.
fn rows(session: &mut Session, sql: &str) -> String {
    let results = session.execute(sql).unwrap();
    arrow::util::pretty::pretty_format_batches(&results[0].rows.as_ref().unwrap().batches)
        .unwrap()
        .to_string()
}

/// Whether the session keeps this text with an optimized plan.
fn is_kept_optimized(session: &mut Session, sql: &str) -> bool {
    session.cached.get(sql).is_some_and(|prepared| prepared.keeps_optimized())
}

const BY_VALUE: &str = "SELECT value, count(*) FROM t GROUP BY value ORDER BY value";

#[test]
fn a_query_that_is_asked_again_is_not_optimized_again_and_sees_new_rows() {
    let mut session = session();
    assert!(!rows(&mut session, BY_VALUE).contains('a'));
    assert!(is_kept_optimized(&mut session, BY_VALUE));
    session.execute("INSERT INTO t SELECT n, 'a' FROM generate_series(1, 50) n").unwrap();
    assert!(rows(&mut session, BY_VALUE).contains("| a     | 50 "), "rows that came later are there");
    // Many more rows: the plan is made anew, and kept again.
    session.execute("INSERT INTO t SELECT n, 'b' FROM generate_series(51, 60000) n").unwrap();
    assert!(rows(&mut session, BY_VALUE).contains("| b     | 59950 "));
    assert!(is_kept_optimized(&mut session, BY_VALUE));
}

#[test]
fn a_kept_query_means_what_its_text_means_now() {
    let mut session = session();
    session.execute("INSERT INTO t VALUES (1, 'a')").unwrap();
    let moment = "SELECT max(n), max(timestamptz '2026-07-01 12:00') AS at FROM t WHERE value <> 'x'";
    let in_utc = rows(&mut session, moment);
    session.execute("SET TimeZone = 'Asia/Tokyo'").unwrap();
    assert_ne!(rows(&mut session, moment), in_utc, "the literal is of the zone of now");
    session.execute("SET TimeZone = 'UTC'").unwrap();
    assert_eq!(rows(&mut session, moment), in_utc);

    rows(&mut session, BY_VALUE);
    session.execute("CREATE SCHEMA other; CREATE TABLE other.t (n bigint PRIMARY KEY, value text)").unwrap();
    session.execute("SET search_path = other").unwrap();
    assert!(!rows(&mut session, BY_VALUE).contains("| a "), "the name means another table");
    session.execute("RESET search_path").unwrap();
    assert!(rows(&mut session, BY_VALUE).contains("| a "));

    session.execute("DROP TABLE t; CREATE TABLE t (n bigint PRIMARY KEY, value bigint)").unwrap();
    session.execute("INSERT INTO t VALUES (1, 77)").unwrap();
    assert!(rows(&mut session, BY_VALUE).contains("| 77 "));
}

#[test]
fn what_the_clock_says_is_asked_each_time() {
    let mut session = session();
    session.execute("INSERT INTO t VALUES (1, 'a')").unwrap();
    for sql in [
        "SELECT max(n), clock FROM t, (SELECT now() AS clock) c GROUP BY clock",
        "SELECT count(*), max(current_timestamp) FROM t WHERE value <> 'x'",
    ] {
        let first = rows(&mut session, sql);
        assert!(!is_kept_optimized(&mut session, sql), "{sql}");
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_ne!(rows(&mut session, sql), first, "{sql}");
    }
}

#[test]
fn a_right_that_is_taken_back_counts_for_kept_queries() {
    let mut session = session();
    session.execute("CREATE ROLE reader; GRANT SELECT ON t TO reader; SET ROLE reader").unwrap();
    rows(&mut session, BY_VALUE);
    session.execute("RESET ROLE; REVOKE SELECT ON t FROM reader; SET ROLE reader").unwrap();
    assert_eq!(session.execute(BY_VALUE).unwrap_err().state.code(), "42501");
}

/// To break it: keep a statement that runs by key for any search path.
#[test]
fn a_kept_statement_by_key_finds_its_table_by_the_search_path_of_now() {
    let mut session = session();
    session.execute("CREATE SCHEMA other; CREATE TABLE other.t (n bigint PRIMARY KEY, value text)").unwrap();
    session.execute("INSERT INTO t VALUES (1, 'first'); INSERT INTO other.t VALUES (1, 'second')").unwrap();
    let (read, write) = ("SELECT value FROM t WHERE n = 1", "UPDATE t SET value = value || '!' WHERE n = 1");
    session.execute(write).unwrap();
    assert!(rows(&mut session, read).contains("| first! "));
    session.execute("SET search_path = other, public").unwrap();
    assert!(rows(&mut session, read).contains("| second "));
    session.execute(write).unwrap();
    assert!(rows(&mut session, read).contains("| second! "));
    session.execute("RESET search_path").unwrap();
    assert!(rows(&mut session, read).contains("| first! "));
    // A path for one transaction alone.
    session.execute("BEGIN").unwrap();
    session.execute("SET LOCAL search_path = other").unwrap();
    assert!(rows(&mut session, read).contains("| second! "));
    session.execute("ROLLBACK").unwrap();
    assert!(rows(&mut session, read).contains("| first! "));
}

/// To break it: have `PlannedQuery::has_settings_of` give true.
#[test]
fn a_kept_query_reads_the_view_that_the_search_path_of_now_finds() {
    let mut session = session();
    session.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')").unwrap();
    session.execute("CREATE VIEW seen AS SELECT max(value) AS value FROM t WHERE n < 2").unwrap();
    session.execute("CREATE SCHEMA other").unwrap();
    session.execute("CREATE VIEW other.seen AS SELECT max(value) AS value FROM public.t").unwrap();
    let read = "SELECT value FROM seen";
    assert!(rows(&mut session, read).contains("| a "));
    assert!(is_kept_optimized(&mut session, read));
    session.execute("SET search_path = other, public").unwrap();
    assert!(rows(&mut session, read).contains("| b "), "the name means another view, of the same table");
    session.execute("RESET search_path").unwrap();
    assert!(rows(&mut session, read).contains("| a "));
}

/// To break it: look for temporary relations alone among those that may stand before the table on the search path.
#[test]
fn a_relation_made_before_a_kept_query_s_table_on_the_search_path_is_the_one_that_is_read() {
    let mut session = session();
    session.execute("INSERT INTO t VALUES (1, 'later on the path')").unwrap();
    session.execute("CREATE SCHEMA other; SET search_path = other, public").unwrap();
    let read = "SELECT max(value) AS value FROM t";
    assert!(rows(&mut session, read).contains("| later on the path "));
    for (make, drop) in [
        ("CREATE TABLE other.t AS SELECT 'a table' AS value", "DROP TABLE other.t"),
        ("CREATE VIEW other.t AS SELECT 'a view' AS value", "DROP VIEW other.t"),
        ("CREATE TEMP TABLE t AS SELECT 'a temporary table' AS value", "DROP TABLE pg_temp.t"),
    ] {
        session.execute(make).unwrap();
        assert!(rows(&mut session, read).contains("| a "), "after {make}");
        session.execute(drop).unwrap();
        assert!(rows(&mut session, read).contains("| later on the path "), "after {drop}");
    }
}
