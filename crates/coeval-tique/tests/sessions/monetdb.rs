// SPDX-License-Identifier: Apache-2.0
//! MonetDB's own sessions: they are used again, without what they had, and there are no more than so many.

use crate::{is_monetdb, text};
use coeval_tique::{Effort, Engine, EngineErrorKind, MonetDbEngine};
use std::path::Path;

/// How many times as many as MonetDB takes at once.
const CAME_AND_WENT: usize = 200;

fn engine() -> MonetDbEngine {
    let library = std::env::var("COEVAL_TIQUE_MONETDB").unwrap();
    MonetDbEngine::open(Path::new(&library), None).unwrap()
}

#[test]
fn sessions_come_and_go_on_the_second_database_of_a_process_too() {
    if !is_monetdb() {
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
    if !is_monetdb() {
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
