// SPDX-License-Identifier: Apache-2.0
//! Files in FROM.

use coeval::{Database, Session, SqlState};
use std::path::Path;

/// The lines `id`, `7`, `8` as gzip makes them shorter.
const ZIPPED: [u8; 27] =
    [31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 203, 76, 225, 50, 231, 178, 224, 2, 0, 142, 147, 182, 205, 7, 0, 0, 0];

/// The rows of a query as texts, NULL as `-`.
fn rows(session: &mut Session, sql: &str) -> Vec<Vec<String>> {
    let batches = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut rows = Vec::new();
    for batch in &batches {
        let options = arrow::util::display::FormatOptions::default().with_null("-");
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| arrow::util::display::ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect());
        }
    }
    rows
}

fn state(session: &mut Session, sql: &str) -> SqlState {
    match session.query(sql) {
        Ok(_) => panic!("{sql} gives an answer"),
        Err(error) => error.state(),
    }
}

fn path_in(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

#[test]
fn parquet_is_read_where_it_lies_with_the_types_that_it_was_written_with() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    let setup = "CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(10,2), day date, at timestamptz, tags text[], doc jsonb);
        INSERT INTO t VALUES (1, 'a', 1.50, '2026-01-02', '2026-01-02 03:04:05+00', '{x,y}', '{\"a\": 1}'), (2, NULL, NULL, NULL, NULL, NULL, NULL)";
    session.run(setup).unwrap();
    let file = path_in(dir.path(), "t.parquet");
    session.run(&format!("COPY t TO '{file}' (FORMAT parquet)")).unwrap();
    let shown =
        "SELECT id, name, price, day, at, tags, doc->'a', pg_typeof(price)::text, pg_typeof(tags)::text";
    let order = "ORDER BY id";
    assert_eq!(
        rows(&mut session, &format!("{shown} FROM '{file}' {order}")),
        rows(&mut session, &format!("{shown} FROM t {order}")),
    );
    // A file says of a document that it is a text.
    assert_eq!(
        rows(&mut session, &format!("SELECT pg_typeof(doc)::text FROM '{file}' WHERE id = 1")),
        [["text"]]
    );
    assert_eq!(rows(&mut session, "SELECT pg_typeof(doc)::text FROM t WHERE id = 1"), [["jsonb"]]);
    // Together with tables, under an alias, in a subquery, quoted as a name.
    assert_eq!(
        rows(&mut session, &format!("SELECT t.id FROM t JOIN '{file}' AS f USING (id) WHERE f.price > 1")),
        [["1"]]
    );
    assert_eq!(rows(&mut session, &format!("SELECT count(*) FROM (SELECT * FROM \"{file}\") x")), [["2"]]);
    // Into a table.
    session.run(&format!("CREATE TABLE copied AS SELECT * FROM '{file}'")).unwrap();
    assert_eq!(rows(&mut session, "SELECT count(*), sum(price) FROM copied"), [["2", "1.50"]]);
}

#[test]
fn texts_have_the_types_that_their_values_have() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("a.csv", "id,name,score,day\n1,ann,1.5,2026-01-02\n2,\"b, o\",,2026-01-03\n");
    write("a.tsv", "id\tname\n1\tann\n");
    write("a.jsonl", "{\"id\": 1, \"name\": \"ann\", \"ok\": true}\n{\"id\": 2, \"ok\": null}\n");
    std::fs::write(dir.path().join("z.csv.gz"), ZIPPED).unwrap();
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    let from = |name: &str| format!("FROM '{}'", path_in(dir.path(), name));
    assert_eq!(
        rows(&mut session, &format!("SELECT *, pg_typeof(score)::text {} ORDER BY id", from("a.csv"))),
        [
            ["1", "ann", "1.5", "2026-01-02", "double precision"],
            ["2", "b, o", "-", "2026-01-03", "double precision"]
        ]
    );
    assert_eq!(rows(&mut session, &format!("SELECT name {}", from("a.tsv"))), [["ann"]]);
    assert_eq!(
        rows(&mut session, &format!("SELECT id, name, ok {} ORDER BY id", from("a.jsonl"))),
        [["1", "ann", "true"], ["2", "-", "-"]]
    );
    assert_eq!(rows(&mut session, &format!("SELECT sum(id) {}", from("z.csv.gz"))), [["15"]]);
}

#[test]
fn a_pattern_is_all_files_that_fit() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("m1.csv", "a,b\n1,x\n"), ("m2.csv", "a,b\n2,y\n3,z\n"), ("other.csv", "a\n9\n")] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    let from = |name: &str| format!("SELECT count(*), sum(a) FROM '{}'", path_in(dir.path(), name));
    assert_eq!(rows(&mut session, &from("m*.csv")), [["3", "6"]]);
    assert_eq!(rows(&mut session, &from("m[2-3].csv")), [["2", "5"]]);
    assert_eq!(state(&mut session, &from("x*.csv")), SqlState::UndefinedFile);
    // What is written after a first look is seen by the next one.
    std::fs::write(dir.path().join("m3.csv"), "a,b\n10,w\n").unwrap();
    std::fs::write(dir.path().join("m1.csv"), "a,b\n100,x\n200,x\n").unwrap();
    assert_eq!(rows(&mut session, &from("m*.csv")), [["5", "315"]]);
}

#[test]
fn what_cannot_be_read_says_why() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("broken.parquet"), "this is no Parquet").unwrap();
    std::fs::write(dir.path().join("t.csv"), "a\n1\n").unwrap();
    std::fs::create_dir(dir.path().join("dir.csv")).unwrap();
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    let from = |name: &str| format!("SELECT * FROM '{}'", path_in(dir.path(), name));
    assert_eq!(state(&mut session, &from("missing.parquet")), SqlState::UndefinedFile);
    assert_eq!(state(&mut session, &from("broken.parquet")), SqlState::BadCopyFileFormat);
    assert_eq!(state(&mut session, &from("dir.csv")), SqlState::WrongObjectType);
    assert_eq!(state(&mut session, "SELECT * FROM 'no_file'"), SqlState::UndefinedTable);
    // A definition outlives the session, and its reader may be somebody else.
    let view = format!("CREATE VIEW v AS {}", from("t.csv"));
    assert_eq!(session.run(&view).unwrap_err().state(), SqlState::UndefinedTable);
    // A table of the same name comes first.
    let name = path_in(dir.path(), "t.csv");
    session.run(&format!("CREATE TABLE \"{name}\" (a int)")).unwrap();
    assert_eq!(rows(&mut session, &format!("SELECT count(*) FROM '{name}'")), [["0"]]);
}

#[test]
fn files_of_the_server_are_for_superusers() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t.csv"), "a\n1\n").unwrap();
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.run("CREATE ROLE clerk LOGIN; SET ROLE clerk").unwrap();
    let sql = format!("SELECT * FROM '{}'", path_in(dir.path(), "t.csv"));
    assert_eq!(state(&mut session, &sql), SqlState::InsufficientPrivilege);
    // Whether a file is there is not told either.
    let sql = format!("SELECT * FROM '{}'", path_in(dir.path(), "missing.csv"));
    assert_eq!(state(&mut session, &sql), SqlState::InsufficientPrivilege);
    // Nor what its columns are, to who asks for those of a statement that does not run.
    let locking = format!("SELECT * FROM '{}' FOR UPDATE", path_in(dir.path(), "t.csv"));
    assert!(session.prepare(&locking).map_or(true, |prepared| prepared.columns().is_none()));
    session.run("RESET ROLE").unwrap();
    assert_eq!(rows(&mut session, &sql.replace("missing", "t")), [["1"]]);
}

/// Whoever opened one was told that a file in it, of which nobody had spoken, could not be inspected.
#[test]
fn a_file_is_no_database_and_the_refusal_says_how_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |name: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, "id\n1\n").unwrap();
        let Err(error) = Database::open(&file) else { panic!("{name} is opened") };
        assert_eq!(error.state(), SqlState::WrongObjectType, "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"id\n1\n");
        error.to_string()
    };
    let letter = refusal("letter.txt");
    assert!(letter.contains("is a file") && letter.contains("name a new or an empty directory"), "{letter}");
    let rows = refusal("it's.csv");
    assert!(rows.contains(&format!("SELECT * FROM '{}'", path_in(dir.path(), "it''s.csv"))), "{rows}");
}
