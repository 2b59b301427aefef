// SPDX-License-Identifier: Apache-2.0
//! MonetDB's own sessions: they are used again, without what they had, and there are no more than so many. What is too long
//! for one statement is one change.

use crate::{needs_monetdb, text};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use coeval_tique::{Effort, Engine, EngineErrorKind, MonetDbEngine};
use std::path::Path;
use std::sync::Arc;

/// How many times as many as MonetDB takes at once.
const CAME_AND_WENT: usize = 200;

fn engine() -> MonetDbEngine {
    let library = std::env::var("COEVAL_TIQUE_MONETDB").unwrap();
    MonetDbEngine::open(Path::new(&library), None).unwrap()
}

#[test]
fn sessions_come_and_go_on_the_second_database_of_a_process_too() {
    if !needs_monetdb() {
        return;
    }
    for _ in 0..2 {
        let engine = engine();
        engine.connect().unwrap().execute("CREATE TABLE t (a int)").unwrap();
        for number in 0..CAME_AND_WENT {
            let mut session = engine.connect().unwrap();
            let made = "CREATE LOCAL TEMPORARY TABLE mine (a int) ON COMMIT PRESERVE ROWS";
            session.temporary(made).unwrap_or_else(|error| panic!("session {number}: {error}"));
            session.execute("INSERT INTO t VALUES (1)").unwrap();
        }
        let mut session = engine.connect().unwrap();
        let count = session.query("SELECT count(*) FROM t", Effort::Point).unwrap();
        assert_eq!(text(&count), [CAME_AND_WENT.to_string()]);
    }
}

#[test]
fn who_finds_no_place_is_told_so_and_finds_one_when_another_goes() {
    if !needs_monetdb() {
        return;
    }
    let engine = engine();
    let mut sessions = Vec::new();
    let refused = loop {
        assert!(sessions.len() < 100, "MonetDB takes more sessions than its error says");
        match engine.connect() {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind, EngineErrorKind::Full);
    assert!(refused.message.contains("63"), "{refused}");
    sessions.pop();
    engine.connect().unwrap().execute("CREATE TABLE t (a int)").unwrap();
}

#[test]
fn many_rows_are_appended_together_or_not_at_all() {
    if !needs_monetdb() {
        return;
    }
    let engine = engine();
    let mut session = engine.connect().unwrap();
    session.execute("CREATE TABLE t (a bigint PRIMARY KEY)").unwrap();
    let rows = |numbers: &mut dyn Iterator<Item = i64>| {
        let numbers = Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef;
        RecordBatch::try_from_iter([("a", numbers)]).unwrap()
    };
    let mut count = || {
        let count = session.query("SELECT count(*), max(a) FROM t", Effort::Point).unwrap();
        text(&count).join(",")
    };
    let mut other = engine.connect().unwrap();
    other.append("t", &rows(&mut (0..100_000))).unwrap();
    assert_eq!(count(), "100000|99999");
    // The last row is there already, and stands in the last of several statements.
    let refused = other.append("t", &rows(&mut (100_000..200_000).chain([7]))).unwrap_err();
    assert_eq!(refused.kind, EngineErrorKind::Refused);
    assert_eq!(count(), "100000|99999");
    // A statement that is long itself; the session answers as before.
    let long = format!(
        "SELECT count(*) FROM t WHERE a IN ({})",
        (0..40_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
    );
    assert_eq!(text(&other.query(&long, Effort::Point).unwrap()), ["40000"]);
    other.append("t", &rows(&mut (100_000..100_001))).unwrap();
    assert_eq!(count(), "100001|100000");
}

/// 3.2.1: the pipeline that plans fast for who looks up rows, the one that plans well for others.
#[test]
fn a_statements_effort_chooses_the_optimizers_pipeline() {
    if !needs_monetdb() {
        return;
    }
    let mut session = engine().connect().unwrap();
    for (effort, pipeline) in [
        (Effort::Point, "minimal_fast"),
        (Effort::Analytical, "default_pipe"),
        (Effort::Point, "minimal_fast"),
    ] {
        assert_eq!(text(&session.query("SELECT optimizer", effort).unwrap()), [pipeline]);
    }
}
