// SPDX-License-Identifier: Apache-2.0
//! Enums through the log, checkpoints and a bulk load: what is kept are places, whatever the labels are by then.

use coeval::{CheckpointPolicy, Database};
use std::path::Path;

fn open(directory: &Path) -> Database {
    Database::options().checkpoint(CheckpointPolicy::Manual).open(directory).unwrap()
}

/// The only column of a query, as text.
fn texts(db: &Database, sql: &str) -> Vec<String> {
    let batches = db.session().query(sql).unwrap();
    let value =
        |array: &dyn arrow::array::Array, row| coeval::value_at(array, row).as_str().unwrap().to_owned();
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| value(batch.column(0), row))).collect()
}

const IN_ORDER: &str = "SELECT m::text FROM t ORDER BY t.m, id";

#[test]
fn labels_and_their_order_outlive_restarts_and_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    {
        let db = open(directory.path());
        let mut session = db.session();
        session.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')").unwrap();
        session.execute("CREATE TYPE unused AS ENUM ()").unwrap();
        session.execute("CREATE TABLE t (id int PRIMARY KEY, m mood, list mood[])").unwrap();
        session.execute("CREATE INDEX ON t (m)").unwrap();
        session.execute("INSERT INTO t VALUES (1, 'happy', '{sad}'), (2, 'sad', NULL)").unwrap();
        db.checkpoint().unwrap();
        session.execute("ALTER TYPE mood ADD VALUE 'ok' BEFORE 'happy'").unwrap();
        session.execute("INSERT INTO t VALUES (3, 'ok', '{ok,happy}')").unwrap();
    }
    {
        // By the log alone.
        let db = open(directory.path());
        assert_eq!(texts(&db, IN_ORDER), ["sad", "ok", "happy"]);
        let mut session = db.session();
        session.execute("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").unwrap();
        session.execute("UPDATE t SET m = 'blue' WHERE m = 'ok'").unwrap();
        session.execute("INSERT INTO t SELECT n, 'happy' FROM generate_series(10, 12) AS s (n)").unwrap();
        db.checkpoint().unwrap();
    }
    // By the manifest.
    let db = open(directory.path());
    assert_eq!(texts(&db, IN_ORDER), ["blue", "blue", "happy", "happy", "happy", "happy"]);
    assert_eq!(texts(&db, "SELECT id::text FROM t WHERE m = 'blue' ORDER BY id"), ["2", "3"]);
    assert_eq!(texts(&db, "SELECT list::text FROM t WHERE id = 3"), ["{ok,happy}"]);
    assert_eq!(texts(&db, "SELECT enum_range(NULL::mood)::text"), ["{blue,ok,happy}"]);
    assert_eq!(texts(&db, "SELECT enum_range(NULL::unused)::text"), ["{}"]);
    let mut session = db.session();
    session.execute("DROP TYPE unused").unwrap();
    // New objects get numbers that no type has.
    session.execute("CREATE TYPE other AS ENUM ('x')").unwrap();
    session.execute("CREATE TABLE more (o other PRIMARY KEY)").unwrap();
    session.execute("INSERT INTO more VALUES ('x')").unwrap();
    drop((session, db));
    assert!(Database::check(directory.path()).unwrap().is_clean());
}

#[test]
fn who_knows_an_older_version_of_a_type_reads_by_its_labels() {
    let db = Database::in_memory().unwrap();
    let (mut old, mut new) = (db.session(), db.session());
    new.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')").unwrap();
    new.execute("CREATE TABLE t (id int PRIMARY KEY, m mood)").unwrap();
    new.execute("INSERT INTO t VALUES (1, 'sad')").unwrap();
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    let label = |session: &mut coeval::Session| {
        let batches = session.query("SELECT m::text FROM t").unwrap();
        coeval::value_at(batches[0].column(0), 0).as_str().unwrap().to_owned()
    };
    assert_eq!(label(&mut old), "sad");
    new.execute("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").unwrap();
    assert_eq!((label(&mut old), label(&mut new)), ("sad".to_owned(), "blue".to_owned()));
    old.execute("COMMIT").unwrap();
    assert_eq!(label(&mut old), "blue");
}
