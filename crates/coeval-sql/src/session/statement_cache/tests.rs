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
