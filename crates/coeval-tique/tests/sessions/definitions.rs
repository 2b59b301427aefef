// SPDX-License-Identifier: Apache-2.0
//! What CREATE TABLE finds in the engine, and where tables are.

use crate::engine::in_memory;
use crate::skipping::needed;
use crate::{persistent, text};
use coeval_tique::{Database, Effort, Options, SqlState};
use std::sync::Arc;

#[test]
fn a_table_of_the_engines_is_not_taken_for_a_physical_one() {
    for physical in ["n_storage", "n_cache"] {
        let engine = in_memory();
        let database = Database::open(Arc::clone(&engine), Options::default()).unwrap();
        let (mut session, mut look) = (database.session().unwrap(), engine.connect().unwrap());
        look.execute(&format!("CREATE TABLE {physical} (x bigint)")).unwrap();
        for rows in 0..2 {
            let refused = session.execute("CREATE TABLE n (k int PRIMARY KEY)").unwrap_err();
            assert_eq!(refused.state, SqlState::DuplicateTable, "{refused}");
            assert!(refused.message.contains(physical), "{refused}");
            let left = look.query(&format!("SELECT x FROM {physical}"), Effort::Point).unwrap();
            assert_eq!(left.count(), rows);
            look.execute(&format!("INSERT INTO {physical} VALUES (1)")).unwrap();
        }
        look.execute(&format!("DROP TABLE {physical}")).unwrap();
        session.execute("CREATE TABLE n (k int PRIMARY KEY); INSERT INTO n VALUES (1)").unwrap();
    }
}

/// 3.1.4, on DuckDB: what need not outlive the process is not in the file.
#[test]
fn duckdb_has_the_tables_of_running_transactions_in_memory() {
    if needed("duckdb", std::env::var_os("COEVAL_TIQUE_DUCKDB")).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let engine = persistent(directory.path());
    let database = Database::open(Arc::clone(&engine), Options::default()).unwrap();
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
    session.execute("BEGIN; INSERT INTO t VALUES (1); COMMIT").unwrap();
    let mut look = engine.connect().unwrap();
    let sql = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'tique_memory' ORDER BY 1";
    let mut ask = |sql: &str| text(&look.query(sql, Effort::Point).unwrap());
    assert_eq!(ask(sql), ["tique_aborted", "tique_began", "tique_committing", "tique_write_sets"]);
    assert_eq!(
        ask(&sql.replace("= 'tique_memory'", "<> 'tique_memory'")),
        ["t_cache", "t_storage", "tique_committed", "tique_tables"]
    );
    assert_eq!(ask("SELECT count(*) FROM tique_memory.tique_write_sets"), ["1"]);
}
