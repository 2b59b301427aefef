// SPDX-License-Identifier: Apache-2.0
//! An engine that the crate does not know, by its ADBC driver: DuckDB, of which the test says the dialect.

use crate::engine::by_driver;
use crate::skipping::needed;
use crate::{rows, state, tag};
use coeval_tique::{AdbcEngine, Appends, Copying, Database, Dialect, Options, SqlState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[track_caller]
fn library() -> Option<PathBuf> {
    needed("duckdb", std::env::var_os("COEVAL_TIQUE_DUCKDB").map(PathBuf::from))
}

#[test]
fn an_engine_is_a_driver_and_a_dialect() {
    let Some(library) = library() else { return };
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let engine = by_driver(&library, Some(&directory.path().join("engine.duckdb")));
        Database::open(Arc::new(engine), Options::default()).unwrap()
    };
    let database = open();
    let (mut one, mut other) = (database.session().unwrap(), database.session().unwrap());
    one.execute("CREATE TABLE t (k int PRIMARY KEY, v text)").unwrap();
    one.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')").unwrap();
    for session in [&mut one, &mut other] {
        session.execute("BEGIN; SELECT * FROM t").unwrap();
    }
    one.execute("UPDATE t SET v = 'one' WHERE k = 1; COMMIT").unwrap();
    other.execute("UPDATE t SET v = 'other' WHERE k = 1").unwrap();
    assert_eq!(state(&mut other, "COMMIT"), SqlState::SerializationFailure);
    assert_eq!(tag(&mut other, "DELETE FROM t WHERE k = 2"), "DELETE 1");
    database.checkpoint().unwrap();
    drop((one, other, database));
    assert_eq!(rows(&mut open().session().unwrap(), "SELECT * FROM t"), ["1|one"]);
}

#[test]
fn an_engine_may_append_to_one_table_after_the_other() {
    let Some(library) = library() else { return };
    let dialect = Dialect { appends: Appends::OneByOne, text: "VARCHAR", ..Dialect::STANDARD };
    let engine = AdbcEngine::open(&library, c"duckdb_adbc_init", &[], dialect).unwrap();
    let database = Database::open(Arc::new(engine), Options::default()).unwrap();
    let mut session = database.session().unwrap();
    session
        .execute("CREATE TABLE t (k int PRIMARY KEY, v text); CREATE TABLE u (k int PRIMARY KEY)")
        .unwrap();
    session.execute("BEGIN; INSERT INTO t VALUES (1, 'a'); INSERT INTO u VALUES (1); COMMIT").unwrap();
    assert_eq!(rows(&mut session, "SELECT t.k, v FROM t JOIN u USING (k)"), ["1|a"]);
}

#[test]
fn what_is_no_driver_is_said() {
    let Some(library) = library() else { return };
    let open = |library: &Path, entry, options: &[_]| {
        AdbcEngine::open(library, entry, options, Dialect::STANDARD).map(drop).unwrap_err().message
    };
    let error = open(&library, c"nothing_init", &[]);
    assert!(error.contains("nothing_init"), "{error}");
    let error = open(Path::new("nowhere.so"), c"duckdb_adbc_init", &[]);
    assert!(error.contains("nowhere.so"), "{error}");
    let copying = Dialect { copying: Copying::Worthwhile, ..Dialect::STANDARD };
    let error = AdbcEngine::open(&library, c"duckdb_adbc_init", &[], copying).map(drop).unwrap_err();
    assert!(error.message.contains("temporary tables"), "{error}");
    let error = open(&library, c"duckdb_adbc_init", &[("path", "/proc/nowhere/at/all.duckdb")]);
    assert!(error.contains("/proc/nowhere/at/all.duckdb"), "{error}");
}
