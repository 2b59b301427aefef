// SPDX-License-Identifier: Apache-2.0
//! `coeval_table_changes`: what transactions have changed in a table, in the table's own columns.

use arrow::datatypes::DataType;
use coeval::{Database, Session, SqlState};

/// The rows of a query as texts, NULL as `-`.
fn rows(session: &mut Session, sql: &str) -> Vec<Vec<String>> {
    let batches = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let options = arrow::util::display::FormatOptions::default().with_null("-");
    let mut rows = Vec::new();
    for batch in &batches {
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

fn run(session: &mut Session, statements: &[&str]) {
    for statement in statements {
        session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn state(session: &mut Session, sql: &str) -> SqlState {
    match session.query(sql) {
        Ok(_) => panic!("{sql} gives an answer"),
        Err(error) => error.state(),
    }
}

fn token(session: &mut Session) -> String {
    rows(session, "SELECT coeval_snapshot_token()").remove(0).remove(0)
}

#[test]
fn changes_of_a_table_have_its_columns_with_their_types_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path().join("data")).unwrap();
    let mut session = database.session();
    run(
        &mut session,
        &["CREATE TABLE accounts (id int PRIMARY KEY, amount bigint)", "CREATE TABLE other (id int)"],
    );
    let begun = token(&mut session);
    run(
        &mut session,
        &[
            "INSERT INTO accounts VALUES (1, 100), (2, 50)",
            "INSERT INTO other VALUES (1)",
            "UPDATE accounts SET amount = amount - 7 WHERE id = 1",
            "DELETE FROM accounts WHERE id = 2",
            "TRUNCATE accounts",
        ],
    );
    let columns = "operation, old_id, old_amount, new_id, new_amount";
    let all =
        rows(&mut session, &format!("SELECT {columns} FROM coeval_table_changes('accounts', '{begun}')"));
    assert_eq!(
        all,
        [
            ["insert", "-", "-", "1", "100"],
            ["insert", "-", "-", "2", "50"],
            ["update", "1", "100", "1", "93"],
            ["delete", "2", "50", "-", "-"],
            ["truncate", "-", "-", "-", "-"],
        ]
    );
    // Asked for a plan, nobody reads the log for it.
    let plan = format!("EXPLAIN SELECT operation FROM coeval_table_changes('accounts', '{begun}')");
    let plan = rows(&mut session, &plan).concat().join("\n");
    assert!(plan.contains("coeval_table_changes_as_json") && !plan.contains("\"operation\":"), "{plan}");
    // They are numbers: what they were less than is asked without a cast.
    let lost = format!(
        "SELECT sum(old_amount - new_amount) FROM coeval_table_changes('public.accounts'::regclass, '{begun}') AS c \
         WHERE c.new_amount < c.old_amount"
    );
    assert_eq!(rows(&mut session, &lost), [["7"]]);
    let batches =
        session.query(&format!("SELECT * FROM coeval_table_changes('accounts', '{begun}')")).unwrap();
    let schema = batches[0].schema();
    let named: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(
        named,
        [
            "token",
            "version",
            "position",
            "committed_at",
            "operation",
            "old_id",
            "old_amount",
            "new_id",
            "new_amount"
        ]
    );
    assert_eq!(schema.field_with_name("new_amount").unwrap().data_type(), &DataType::Int64);
    // One goes on from a token that it was given, and to one.
    let tokens = format!(
        "SELECT token FROM coeval_table_changes('accounts', '{begun}') WHERE token IS NOT NULL ORDER BY version"
    );
    let tokens = rows(&mut session, &tokens);
    assert_eq!(tokens.len(), 4, "one for each transaction that changed the table");
    let between = format!(
        "SELECT operation FROM coeval_table_changes('accounts', '{}', '{}')",
        tokens[0][0], tokens[2][0]
    );
    assert_eq!(rows(&mut session, &between), [["update"], ["delete"]]);
}

/// Of rows that come as JSON, an array cannot be read back as one, and the document `null` cannot be told from NULL.
#[test]
fn each_type_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path().join("data")).unwrap();
    let mut session = database.session();
    run(
        &mut session,
        &[
            "CREATE SCHEMA s",
            "CREATE TYPE s.\"Mood\" AS ENUM ('sad', 'very \"happy\"')",
            "CREATE TABLE s.\"All\" (id int PRIMARY KEY, small smallint, r real, d double precision, n numeric(6, 2), b boolean, \
             t text, v varchar(5), c char(4), raw bytea, day date, at time, ts timestamp, tz timestamptz, i interval, u uuid, \
             j json, jb jsonb, place pg_lsn, mood s.\"Mood\", moods s.\"Mood\"[], tags text[], numbers int[], \"Odd \"\"name\"\"\" int)",
        ],
    );
    let begun = token(&mut session);
    run(
        &mut session,
        &[
            "INSERT INTO s.\"All\" VALUES (1, 2, 1.5, 'NaN', 12.30, true, E'a \"b\" \\\\ ''c''\\n', 'abc', 'xy', '\\x00ff', '2026-02-28', \
             '10:00:00.5', '2026-11-26 10:00:00.123456', '2026-11-26 10:00:00+01', '1 mon 2 days 03:00:00', \
             '6f1ed002-ab5e-4b7e-9a58-a39f1c6d7d6a', 'null', '{\"a\": null}', '1/2A', 'very \"happy\"', '{sad,NULL}', \
             '{\"a,b\",NULL,\"null\",\"\"}', '{1,NULL,3}', 7)",
            "INSERT INTO s.\"All\" (id) VALUES (2)",
        ],
    );
    let columns: Vec<String> = rows(&mut session, "SELECT column_name FROM information_schema.columns WHERE table_name = 'All' ORDER BY ordinal_position")
        .into_iter()
        .map(|mut row| row.remove(0))
        .collect();
    assert_eq!(columns.len(), 24);
    let list = |prefix: &str| {
        let shown = |column: &String| format!("\"{prefix}{}\"", column.replace('"', "\"\""));
        columns.iter().map(shown).collect::<Vec<_>>().join(", ")
    };
    let table = format!("SELECT {} FROM s.\"All\" ORDER BY id", list(""));
    let changes =
        format!("SELECT {} FROM coeval_table_changes('s.\"All\"', '{begun}') ORDER BY new_id", list("new_"));
    // Whatever the session's zone and path are.
    for setting in ["SET timezone = 'UTC'", "SET timezone = 'Asia/Tokyo'", "SET search_path = s"] {
        run(&mut session, &[setting]);
        assert_eq!(rows(&mut session, &changes), rows(&mut session, &table), "{setting}");
    }
    let same = format!(
        "SELECT count(*) FROM (SELECT {} FROM s.\"All\") a, coeval_table_changes('s.\"All\"', '{begun}') c \
         WHERE a.id = c.new_id AND (a.mood = c.new_mood OR a.mood IS NULL) AND (a.numbers = c.new_numbers OR a.numbers IS NULL) \
         AND (a.j IS NULL) = (c.new_j IS NULL)",
        list("")
    );
    assert_eq!(rows(&mut session, &same), [["2"]]);
}

#[test]
fn columns_are_followed_over_changes_of_their_table() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path().join("data")).unwrap();
    let mut session = database.session();
    run(&mut session, &["CREATE TABLE t (id int PRIMARY KEY, a int, gone int)"]);
    let begun = token(&mut session);
    run(
        &mut session,
        &[
            "INSERT INTO t VALUES (1, 10, 100)",
            "ALTER TABLE t RENAME COLUMN a TO b",
            "ALTER TABLE t DROP COLUMN gone",
            "ALTER TABLE t ADD COLUMN gone text DEFAULT 'new'",
            "UPDATE t SET b = 11",
        ],
    );
    let changes = format!(
        "SELECT operation, old_b, old_gone, new_b, new_gone FROM coeval_table_changes('t', '{begun}')"
    );
    let found = rows(&mut session, &changes);
    assert_eq!(found[0], ["insert", "-", "-", "10", "-"], "the other column of that name was not there yet");
    assert!(found[1..4].iter().all(|row| row[..] == ["definition", "-", "-", "-", "-"]), "{found:?}");
    assert_eq!(found[4..], [["update", "10", "new", "11", "new"]]);
    // Another type makes the table anew, under its name.
    run(
        &mut session,
        &["ALTER TABLE t ALTER COLUMN b TYPE text USING b::text", "UPDATE t SET b = 'x' WHERE id = 1"],
    );
    let found = rows(&mut session, &changes);
    assert_eq!(found[0], ["insert", "-", "-", "-", "100"], "what was before that is found by names");
    assert_eq!(found.last().unwrap()[..], ["update", "11", "new", "x", "new"]);
    // A value that is none of the present type is an error, not NULL.
    run(&mut session, &["ALTER TABLE t ALTER COLUMN b TYPE int USING 5"]);
    assert_eq!(state(&mut session, &changes).code(), "22P02");
    run(&mut session, &["ALTER TABLE t RENAME TO former"]);
    assert_eq!(state(&mut session, &changes).code(), "42P01");
}

#[test]
fn what_has_no_changes_in_the_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path().join("data")).unwrap();
    let mut session = database.session();
    run(
        &mut session,
        &[
            "CREATE TABLE t (id int)",
            "CREATE VIEW v AS SELECT * FROM t",
            "CREATE TEMPORARY TABLE hidden (id int)",
        ],
    );
    let token = token(&mut session);
    for (arguments, code) in [
        (format!("'nowhere', '{token}'"), "42P01"),
        (format!("'no where', '{token}'"), "42P01"),
        (format!("'v', '{token}'"), "42809"),
        (format!("'pg_class', '{token}'"), "42809"),
        (format!("'hidden', '{token}'"), "0A000"),
        (format!("'t' || '', '{token}'"), "0A000"),
        ("'t'".to_owned(), "42883"),
        (format!("'t', '{token}', '{token}', '{token}'"), "42883"),
        ("'t', 'yesterday'".to_owned(), "22023"),
    ] {
        let query = format!("SELECT * FROM coeval_table_changes({arguments})");
        assert_eq!(state(&mut session, &query).code(), code, "{query}");
    }
    let empty = "SELECT * FROM coeval_table_changes('t', NULL)";
    assert!(rows(&mut session, empty).is_empty());
    run(&mut session, &["CREATE ROLE nosy", "GRANT SELECT ON t TO nosy", "SET ROLE nosy"]);
    let query = format!("SELECT * FROM coeval_table_changes('t', '{token}')");
    assert_eq!(state(&mut session, &query).code(), "42501");
}
