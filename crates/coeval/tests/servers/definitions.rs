// SPDX-License-Identifier: Apache-2.0
//! Definitions of tables on servers: names that are taken there, and what was left.

use crate::{database, rows, run, session, state};
use coeval::{Database, SqlState};
use coeval_tique::{DataFusionEngine, Durability, Engine};

#[test]
fn what_a_rollback_left_on_the_server_is_in_nobodys_way() {
    let (_database, mut session) = database();
    run(&mut session, "BEGIN; CREATE TABLE n (k int PRIMARY KEY) USING tique SERVER wh; ROLLBACK");
    assert_eq!(state(&mut session, "SELECT * FROM n"), SqlState::UndefinedTable);
    run(
        &mut session,
        "CREATE TABLE n (v text, k int PRIMARY KEY) USING tique SERVER wh; INSERT INTO n VALUES ('one', 1)",
    );
    assert_eq!(rows(&mut session, "SELECT * FROM n"), ["one|1"]);
}

#[test]
fn two_tables_have_two_names_on_the_server() {
    let (_database, mut session) = database();
    run(
        &mut session,
        "CREATE SCHEMA a; CREATE TABLE a.t (k int PRIMARY KEY) USING tique SERVER wh; \
         CREATE TABLE t (k int PRIMARY KEY) USING tique SERVER wh; \
         INSERT INTO a.t VALUES (1); INSERT INTO t VALUES (2)",
    );
    assert_eq!(rows(&mut session, "SELECT x.k, y.k FROM a.t x, t y"), ["1|2"]);
    let taken = "CREATE TABLE a__t (k int PRIMARY KEY) USING tique SERVER wh";
    assert_eq!(state(&mut session, taken), SqlState::DuplicateTable);
    for name in ["t_storage", "t_cache", "tique_t"] {
        let sql = format!("CREATE TABLE {name} (k int PRIMARY KEY) USING tique SERVER wh");
        assert_eq!(state(&mut session, &sql), SqlState::ReservedName, "{name}");
    }
    assert_eq!(rows(&mut session, "SELECT k FROM a.t"), ["1"]);
}

#[test]
fn what_is_on_the_server_already_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wh");
    {
        let engine = DataFusionEngine::open(&path, Durability::Process).unwrap();
        engine.connect().unwrap().execute("CREATE TABLE foreign_storage (x bigint)").unwrap();
    }
    let server = format!("CREATE SERVER wh ENGINE datafusion OPTIONS (path '{}')", path.display());
    let create = |name: &str| format!("CREATE TABLE {name} (k int PRIMARY KEY, v int) USING tique SERVER wh");
    {
        let database = Database::in_memory().unwrap();
        let mut session = session(&database);
        run(&mut session, &server);
        let coeval::Error::Sql(error) = session.run(&create("\"foreign\"")).map(drop).unwrap_err() else {
            panic!()
        };
        assert_eq!(error.state, SqlState::DuplicateTable, "{error}");
        assert!(error.message.contains("foreign_storage") && error.hint.is_some(), "{error:?}");
        assert_eq!(state(&mut session, "SELECT * FROM \"foreign\""), SqlState::UndefinedTable);
        run(
            &mut session,
            "CREATE TABLE \"full\" (k int PRIMARY KEY) USING tique SERVER wh; INSERT INTO \"full\" VALUES (1)",
        );
        run(&mut session, "CREATE TABLE nothing (k int PRIMARY KEY) USING tique SERVER wh");
    }
    // Another database, which knows of none of them.
    let database = Database::in_memory().unwrap();
    let mut session = session(&database);
    run(&mut session, &server);
    let coeval::Error::Sql(error) = session.run(&create("\"full\"")).map(drop).unwrap_err() else { panic!() };
    assert_eq!(error.state, SqlState::DuplicateTable, "{error}");
    assert!(error.detail.is_some_and(|detail| detail.contains("with rows")));
    run(&mut session, &create("nothing"));
    run(&mut session, "INSERT INTO nothing VALUES (1, 2)");
}
