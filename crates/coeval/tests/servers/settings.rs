// SPDX-License-Identifier: Apache-2.0
//! What a client sets, and what a server's options say, is so on the server.

use crate::{database, rows, run, session, state};
use coeval::{Database, SqlState};

#[test]
fn what_is_set_here_is_set_on_the_server() {
    let (_database, mut session) = database();
    let count = "EXPLAIN SELECT count(*) FROM stock";
    for formulation in ["ranking", "anti_join", "ranking"] {
        // In a block that has begun, too.
        run(
            &mut session,
            &format!("BEGIN; SELECT * FROM stock; SET LOCAL tique.formulation = '{formulation}'"),
        );
        let plan = rows(&mut session, count).join("\n");
        assert_eq!(plan.contains("LeftAnti"), formulation == "anti_join", "{plan}");
        run(&mut session, "COMMIT");
        assert!(rows(&mut session, count).join("\n").contains("LeftAnti"), "until the end of the block");
    }
    assert_eq!(state(&mut session, "SET tique.formulation = 'best'"), SqlState::InvalidParameterValue);
    assert_eq!(state(&mut session, "SET tique.nothing = 1"), SqlState::UndefinedObject);
}

#[test]
fn who_has_priority_here_has_it_on_the_server() {
    const CHANGE: &str = "UPDATE stock SET quantity = quantity + 1 WHERE w = 1 AND i = 1";
    for set in ["SET coeval.priority = on", "SET tique.priority = 'high'"] {
        let (database, mut first) = database();
        let mut other = session(&database);
        run(&mut first, &format!("{set}; BEGIN; {CHANGE}"));
        run(&mut other, CHANGE);
        assert_eq!(state(&mut first, "COMMIT"), SqlState::SerializationFailure);
        // What it accessed is reserved for its next one.
        run(&mut other, &format!("BEGIN; {CHANGE}"));
        assert_eq!(state(&mut other, "COMMIT"), SqlState::SerializationFailure, "{set}");
        run(&mut first, &format!("BEGIN; {CHANGE}; COMMIT"));
        run(&mut other, CHANGE);
        assert_eq!(rows(&mut other, "SELECT quantity FROM stock WHERE w = 1 AND i = 1"), ["13"]);
    }
}

#[test]
fn a_world_that_is_held_is_read_the_same_over_a_servers_checkpoint() {
    let database = Database::in_memory().unwrap();
    let (mut reader, mut writer) = (session(&database), session(&database));
    run(
        &mut writer,
        "CREATE SERVER wh ENGINE datafusion \
         OPTIONS (checkpoint_at '9', certification 'process', writes 'at_once'); \
         CREATE TABLE old (k int PRIMARY KEY) USING tique SERVER wh; \
         CREATE TABLE t (k int PRIMARY KEY, v int) USING tique SERVER wh; \
         INSERT INTO old VALUES (1); INSERT INTO t VALUES (1, 0), (2, 0)",
    );
    run(&mut reader, "BEGIN");
    assert_eq!(rows(&mut reader, "SELECT v FROM t ORDER BY k"), ["0", "0"]);
    for round in 1..=9 {
        run(
            &mut writer,
            &format!("UPDATE t SET v = {round} WHERE k = 1; INSERT INTO t VALUES (10 + {round}, 0)"),
        );
    }
    // A checkpoint has been there once nothing is cached of what the reader sees as well.
    while rows(&mut writer, "EXPLAIN SELECT count(*) FROM old").join("\n").contains("old_cache") {}
    assert_eq!(rows(&mut reader, "SELECT v FROM t ORDER BY k"), ["0", "0"]);
    assert_eq!(rows(&mut reader, "SELECT v FROM t WHERE k = 1"), ["0"]);
    run(&mut reader, "COMMIT");
    assert_eq!(rows(&mut reader, "SELECT count(*), max(v) FROM t"), ["11|9"]);
}

#[test]
fn an_option_that_is_none_is_refused_with_those_that_are() {
    let database = Database::in_memory().unwrap();
    let mut session = session(&database);
    for (options, said) in [
        ("certification 'nowhere'", "engine or process"),
        ("writes 'never'", "buffered or at_once"),
        ("checkpoint_at '-1'", "a number"),
        ("layout 'joined'", "certification, checkpoint_at, writes"),
    ] {
        let sql = format!("CREATE SERVER wh ENGINE datafusion OPTIONS ({options})");
        let coeval::Error::Sql(error) = session.run(&sql).map(drop).unwrap_err() else { panic!("{sql}") };
        assert_eq!(error.state, SqlState::InvalidParameterValue, "{error}");
        assert!(error.hint.as_ref().is_some_and(|hint| hint.contains(said)), "{error:?}");
    }
}
