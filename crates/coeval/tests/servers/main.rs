// SPDX-License-Identifier: Apache-2.0
//! Tables of servers: statements that go there, statements over both, transactions that span both, kills.
//!
//! Kills are on the default engine, or on the one whose library `COEVAL_TIQUE_DUCKDB`, `COEVAL_TIQUE_MONETDB` or
//! `COEVAL_TIQUE_SQLITE` names.

#![allow(clippy::unwrap_used)]

#[path = "../../../../tests/bounded.rs"]
mod bounded;
#[path = "../../../coeval-tique/tests/sessions/cluster.rs"]
mod cluster;
mod definitions;
mod postgresql;
mod settings;
#[path = "../../../../tests/skipping.rs"]
mod skipping;
mod snapshots;
mod waiting;

use coeval::{Database, Session, SqlState, Value};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let batches = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut list = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter();
            let cells: Vec<_> =
                cells.map(|cell| arrow::util::display::array_value_to_string(cell, row).unwrap()).collect();
            list.push(cells.join("|"));
        }
    }
    list
}

fn run(session: &mut Session, sql: &str) {
    for statement in sql.split(';').filter(|statement| !statement.trim().is_empty()) {
        session.run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn state(session: &mut Session, sql: &str) -> SqlState {
    session.run(sql).map(drop).expect_err(sql).state()
}

fn session(database: &Database) -> Session {
    let mut session = database.session();
    run(&mut session, "SET default_transaction_isolation TO 'repeatable read'");
    session
}

/// A database with a server in memory, a table there and one of its own.
fn database() -> (Database, Session) {
    let database = Database::in_memory().unwrap();
    let mut session = session(&database);
    run(
        &mut session,
        "CREATE SERVER wh ENGINE datafusion; \
         CREATE TABLE stock (w int, i int, quantity int CHECK (quantity >= 0), PRIMARY KEY (w, i)) USING tique SERVER wh; \
         CREATE TABLE items (i int PRIMARY KEY, name text); \
         INSERT INTO stock VALUES (1, 1, 10), (1, 2, 20), (2, 1, 30); \
         INSERT INTO items VALUES (1, 'one'), (2, 'two')",
    );
    (database, session)
}

#[test]
fn statements_over_a_servers_tables_run_there() {
    let (_database, mut session) = database();
    assert_eq!(
        rows(&mut session, "SELECT w, sum(quantity) FROM stock GROUP BY w ORDER BY w"),
        ["1|30", "2|30"]
    );
    let plan = rows(&mut session, "EXPLAIN SELECT quantity FROM stock WHERE w = 1 AND i = 2").join("\n");
    assert!(plan.contains("stock_cache"), "the server's own plan: {plan}");
    assert!(rows(&mut session, "EXPLAIN (FORMAT json) SELECT * FROM stock").join("").contains("stock_cache"));
    let measured = rows(&mut session, "EXPLAIN ANALYZE UPDATE stock SET quantity = 0 WHERE w = 9").join("\n");
    assert!(measured.contains("Server wh: UPDATE") && measured.contains("Execution time"), "{measured}");
    assert_eq!(session.execute("UPDATE stock SET quantity = quantity - 1 WHERE w = 1").unwrap(), 2);
    assert_eq!(session.execute("DELETE FROM public.stock AS s WHERE s.w = 2").unwrap(), 1);
    assert_eq!(
        rows(&mut session, "INSERT INTO stock VALUES (3, 1, 5) ON CONFLICT DO NOTHING RETURNING quantity"),
        ["5"]
    );
    assert_eq!(state(&mut session, "INSERT INTO stock VALUES (3, 1, 5)"), SqlState::UniqueViolation);
    assert_eq!(state(&mut session, "UPDATE stock SET quantity = -1"), SqlState::CheckViolation);
    assert_eq!(rows(&mut session, "SELECT * FROM stock ORDER BY w, i"), ["1|1|9", "1|2|19", "3|1|5"]);
}

#[test]
fn prepared_statements_have_the_types_of_the_definition() {
    let (_database, mut session) = database();
    let sum = session.prepare("SELECT sum(quantity), count(*) FROM stock WHERE w = $1").unwrap();
    let update = session.prepare("UPDATE stock SET quantity = $1 WHERE w = $2 AND i = $3").unwrap();
    let values = [Value::Int32(7), Value::Int32(2), Value::Int32(1)];
    assert_eq!(session.execute_prepared(&update, &values).unwrap(), 1);
    let batches = session.query_prepared(&sum, &[Value::Int32(2)]).unwrap();
    let types: Vec<_> = batches[0].schema().fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!(types, [arrow::datatypes::DataType::Int64, arrow::datatypes::DataType::Int64]);
    assert_eq!(arrow::util::display::array_value_to_string(batches[0].column(0), 0).unwrap(), "7");
}

#[test]
fn what_a_prepared_statement_promised_is_nothing_to_the_next_one() {
    let (_database, mut session) = database();
    run(&mut session, "CREATE TABLE names (i int PRIMARY KEY, name text) USING tique SERVER wh");
    run(&mut session, "INSERT INTO names VALUES (1, 'one'); PREPARE q AS SELECT i FROM stock WHERE w = 2");
    assert_eq!(rows(&mut session, "EXECUTE q"), ["1"]);
    assert_eq!(rows(&mut session, "SELECT name FROM names"), ["one"]);
}

#[test]
fn a_table_is_not_dropped_while_foreign_keys_on_its_server_name_it() {
    let (_database, mut session) = database();
    run(
        &mut session,
        "CREATE TABLE parent (id int PRIMARY KEY) USING tique SERVER wh; \
         CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent (id)) USING tique SERVER wh; \
         INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1)",
    );
    for sql in ["DROP TABLE parent", "DROP TABLE parent CASCADE"] {
        let error = session.run(sql).map(drop).expect_err(sql);
        assert_eq!(error.state(), SqlState::DependentObjectsStillExist, "{error}");
    }
    assert_eq!(rows(&mut session, "SELECT p FROM child"), ["1"]);
    run(&mut session, "DROP TABLE parent, child");
    // Both names are free on the server too.
    run(
        &mut session,
        "CREATE TABLE parent (n int PRIMARY KEY) USING tique SERVER wh; INSERT INTO parent VALUES (7); \
         CREATE TABLE child (id int PRIMARY KEY) USING tique SERVER wh",
    );
    assert_eq!(rows(&mut session, "SELECT n FROM parent"), ["7"]);
}

#[test]
fn queries_over_both_are_joined_here_and_rows_go_both_ways() {
    let (_database, mut session) = database();
    let joined =
        "SELECT name, sum(quantity) FROM stock JOIN items ON items.i = stock.i GROUP BY name ORDER BY name";
    assert_eq!(rows(&mut session, joined), ["one|40", "two|20"]);
    run(&mut session, "CREATE VIEW low AS SELECT i FROM stock WHERE quantity < 15");
    assert_eq!(rows(&mut session, "SELECT i FROM low"), ["1"]);
    run(
        &mut session,
        "INSERT INTO stock SELECT 9, i, 0 FROM items; INSERT INTO items SELECT 10 + w, 'w' FROM stock WHERE w = 2",
    );
    assert_eq!(rows(&mut session, "SELECT i FROM stock WHERE w = 9 ORDER BY i"), ["1", "2"]);
    assert_eq!(rows(&mut session, "SELECT name FROM items WHERE i = 12"), ["w"]);
    assert_eq!(
        session.execute("DELETE FROM items USING stock WHERE stock.w = 9 AND stock.i = items.i").unwrap(),
        2
    );
    let changes = "UPDATE stock SET quantity = 1 FROM items WHERE items.i = stock.i";
    assert_eq!(state(&mut session, changes), SqlState::FeatureNotSupported);
}

/// Names and types are told in the application's words, with their place; what only the engine knows in the engine's.
#[test]
fn what_the_engine_refuses_is_said_of_the_statement_that_was_written() {
    let (_database, mut session) = database();
    for (sql, expected, place) in [
        ("SELECT w, nope FROM stock", SqlState::UndefinedColumn, Some(11)),
        ("SELECT w FROM stock WHERE stock.nope = 1", SqlState::UndefinedColumn, Some(27)),
        ("UPDATE stock SET quantity = nope", SqlState::UndefinedColumn, Some(29)),
        ("DELETE FROM stock WHERE nope", SqlState::UndefinedColumn, Some(25)),
        ("INSERT INTO stock SELECT 7, nope, 1 FROM stock", SqlState::UndefinedColumn, Some(29)),
        ("SELECT nofunction(w) FROM stock", SqlState::UndefinedFunction, None),
        ("SELECT w, count(*) FROM stock", SqlState::GroupingError, None),
        ("EXPLAIN SELECT nope FROM stock", SqlState::UndefinedColumn, Some(16)),
    ] {
        let coeval::Error::Sql(error) = session.run(sql).map(drop).unwrap_err() else { panic!("{sql}") };
        assert_eq!(error.state, expected, "{sql}: {error}");
        assert!(place.is_none() || error.position == place, "{sql}: {:?}", error.position);
        assert!(!error.to_string().contains("tique_"), "{sql}: {error}");
    }
    // A function of ours, which the engine lacks, is called here, with what the server gives.
    for sql in [
        "SELECT w, pg_typeof(w) FROM stock",
        "SELECT i FROM stock WHERE w = 1 AND pg_typeof(i) = 'integer'",
        "PREPARE lacking AS SELECT w, pg_typeof(w) FROM stock; EXECUTE lacking",
    ] {
        run(&mut session, sql);
    }
    // The table's name there is another.
    run(&mut session, "ALTER TABLE stock RENAME TO wares");
    let sql = "SELECT CAST('x' || quantity AS int) FROM wares";
    let coeval::Error::Sql(error) = session.run(sql).map(drop).unwrap_err() else { panic!("{sql}") };
    assert_eq!(error.detail, Some(format!("The statement was: {}", sql.replace("int)", "INT)"))));
}

/// What the hint of ALTER TABLE says: in one transaction, which others see whole or not at all.
#[test]
fn a_servers_table_gets_another_definition_by_becoming_another() {
    let (database, mut one) = database();
    let refused = one.run("ALTER TABLE stock DROP COLUMN quantity").map(drop).unwrap_err();
    let coeval::Error::Sql(refused) = refused else { panic!("{refused}") };
    assert!(refused.hint.is_some_and(|hint| hint.contains("RENAME TO stock")));
    let mut other = session(&database);
    run(
        &mut one,
        "BEGIN; CREATE TABLE stock_2 (w int, i int, name text DEFAULT 'none', PRIMARY KEY (w, i)) USING tique SERVER wh; \
         INSERT INTO stock_2 (w, i) SELECT w, i FROM stock; DROP TABLE stock; ALTER TABLE stock_2 RENAME TO stock",
    );
    assert_eq!(rows(&mut other, "SELECT quantity FROM stock WHERE w = 2"), ["30"]);
    run(&mut one, "COMMIT");
    for session in [&mut one, &mut other] {
        assert_eq!(rows(session, "SELECT * FROM stock ORDER BY w, i"), ["1|1|none", "1|2|none", "2|1|none"]);
    }
    assert_eq!(one.execute("UPDATE stock SET name = 'x' WHERE w = 2").unwrap(), 1);
}

#[test]
fn what_a_servers_table_cannot_do_is_refused() {
    let (database, mut session) = database();
    for sql in [
        "ALTER TABLE stock ADD COLUMN a int",
        "CREATE INDEX ON stock (quantity)",
        "SELECT * FROM stock FOR UPDATE",
        "TRUNCATE stock",
        "CREATE TABLE child (w int, i int, FOREIGN KEY (w, i) REFERENCES stock)",
        "CREATE TABLE other (i int PRIMARY KEY REFERENCES items) USING tique SERVER wh",
    ] {
        assert_eq!(state(&mut session, sql), SqlState::FeatureNotSupported, "{sql}");
        let _ = session.run("ROLLBACK");
    }
    assert!(database.table("stock").is_err(), "its rows are not in the store");
    assert_eq!(
        state(&mut session, "CREATE TABLE t (k int PRIMARY KEY) USING tique SERVER no"),
        SqlState::UndefinedObject
    );
    assert_eq!(state(&mut session, "CREATE SERVER s ENGINE no"), SqlState::InvalidParameterValue);
    assert_eq!(
        state(&mut session, "CREATE SERVER s ENGINE datafusion OPTIONS (no 'x')"),
        SqlState::InvalidParameterValue
    );
    assert_eq!(state(&mut session, "DROP SERVER wh"), SqlState::DependentObjectsStillExist);
    run(&mut session, "DROP TABLE stock; CREATE TABLE stock (k int PRIMARY KEY) USING tique SERVER wh");
    assert!(rows(&mut session, "SELECT * FROM stock").is_empty(), "the dropped table's rows went with it");
    run(&mut session, "DROP TABLE stock; DROP SERVER wh");
}

#[test]
fn a_transaction_spans_both_and_so_does_its_rollback() {
    let (database, mut one) = database();
    let mut two = session(&database);
    let both =
        "SELECT (SELECT quantity FROM stock WHERE w = 1 AND i = 1), (SELECT name FROM items WHERE i = 1)";
    let change = "UPDATE stock SET quantity = quantity + 1 WHERE w = 1 AND i = 1; UPDATE items SET name = name || '+' WHERE i = 1";
    run(&mut one, &format!("BEGIN; {change}"));
    assert_eq!(rows(&mut one, both), ["11|one+"]);
    assert_eq!(rows(&mut two, both), ["10|one"]);
    run(&mut one, "ROLLBACK");
    run(&mut one, &format!("BEGIN; {change}; SAVEPOINT s; {change}; ROLLBACK TO s; COMMIT"));
    assert_eq!(rows(&mut two, both), ["11|one+"]);
    // A conflict on either side takes both along.
    for (held, state) in [
        ("UPDATE stock SET quantity = 0 WHERE w = 1 AND i = 1", SqlState::SerializationFailure),
        ("UPDATE items SET name = 'mine' WHERE i = 1", SqlState::SerializationFailure),
    ] {
        run(&mut one, &format!("BEGIN; {change}"));
        run(&mut two, held);
        let outcome = one.run("COMMIT").map(drop).expect_err("somebody else was first");
        assert_eq!(outcome.state(), state, "{held}");
    }
    assert_eq!(rows(&mut two, both), ["0|mine"]);
    // Decisions that the server knows of go with a later one.
    for _ in 0..3 {
        run(&mut one, &format!("BEGIN; {change}; COMMIT"));
    }
    assert_eq!(rows(&mut two, both), ["3|mine+++"]);
    assert_eq!(rows(&mut one, "SELECT count(*) FROM tique.decisions"), ["1"]);
}

#[test]
fn serializable_is_for_transactions_on_one_server_alone() {
    const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    let (database, mut one) = database();
    let mut other = session(&database);
    // Write skew: each reads the sum and takes from another row.
    for (session, item) in [(&mut one, 1), (&mut other, 2)] {
        run(session, BEGIN);
        assert_eq!(rows(session, "SELECT sum(quantity) FROM stock WHERE w = 1"), ["30"]);
        run(session, &format!("UPDATE stock SET quantity = quantity - 5 WHERE w = 1 AND i = {item}"));
    }
    run(&mut one, "COMMIT");
    assert_eq!(state(&mut other, "COMMIT"), SqlState::SerializationFailure);
    // Who only reads commits, whatever was committed meanwhile.
    run(&mut other, BEGIN);
    assert_eq!(rows(&mut other, "SELECT sum(quantity) FROM stock"), ["55"]);
    run(&mut one, "UPDATE stock SET quantity = 0");
    assert_eq!(rows(&mut other, "SELECT sum(quantity) FROM stock"), ["55"]);
    run(&mut other, "COMMIT");
    // In two places, whichever comes first; nothing of it remains.
    run(
        &mut one,
        "CREATE SERVER second ENGINE datafusion; CREATE TABLE far (k int PRIMARY KEY) USING tique SERVER second",
    );
    let stock = "UPDATE stock SET quantity = 9 WHERE w = 2";
    for elsewhere in
        ["SELECT * FROM items", "INSERT INTO items VALUES (3, 'three')", "INSERT INTO far VALUES (1)"]
    {
        for [first, second] in [[stock, elsewhere], [elsewhere, stock]] {
            run(&mut one, BEGIN);
            run(&mut one, first);
            let refused = one.run(second).map(drop).and_then(|()| one.run("COMMIT").map(drop));
            assert_eq!(
                refused.expect_err(second).state(),
                SqlState::FeatureNotSupported,
                "{first}; {second}"
            );
            run(&mut one, "ROLLBACK");
        }
    }
    run(&mut one, "SET default_transaction_isolation TO 'serializable'");
    assert_eq!(state(&mut one, "SELECT * FROM stock JOIN items USING (i)"), SqlState::FeatureNotSupported);
    assert_eq!(
        state(&mut one, "INSERT INTO items SELECT DISTINCT w + 10, 'x' FROM stock"),
        SqlState::FeatureNotSupported
    );
    assert_eq!(state(&mut one, "INSERT INTO stock SELECT i, 9, 1 FROM items"), SqlState::FeatureNotSupported);
    assert_eq!(rows(&mut one, "SELECT sum(quantity), count(*) FROM stock"), ["0|3"]);
    assert_eq!(rows(&mut one, "SELECT count(*) FROM items"), ["2"]);
    assert_eq!(rows(&mut one, "SELECT count(*) FROM far"), ["0"]);
    // Definitions are on both sides by themselves.
    run(
        &mut one,
        "CREATE TABLE new (k int PRIMARY KEY) USING tique SERVER wh; INSERT INTO new VALUES (1); DROP TABLE new",
    );
    run(&mut one, &format!("{BEGIN} READ ONLY"));
    assert_eq!(state(&mut one, "SELECT * FROM stock"), SqlState::FeatureNotSupported);
}

#[test]
fn a_snapshot_never_holds_half_of_a_spanning_commit() {
    let (database, mut setup) = database();
    run(&mut setup, "CREATE TABLE counter (k int PRIMARY KEY, n int); INSERT INTO counter VALUES (1, 10)");
    let seen = AtomicUsize::new(0);
    // Until somebody has looked some times beside it; the bound is for one that panics.
    let writer = |database: &Database| {
        let mut session = session(database);
        let mut commits = 0;
        while commits < 60 || (seen.load(Ordering::Relaxed) < 4 && commits < 6_000) {
            run(
                &mut session,
                "BEGIN; UPDATE stock SET quantity = quantity + 1 WHERE w = 1 AND i = 1; \
                 UPDATE counter SET n = n + 1; COMMIT",
            );
            commits += 1;
        }
        commits
    };
    let commits = std::thread::scope(|scope| {
        let writing = scope.spawn(|| writer(&database));
        let mut reader = session(&database);
        while !writing.is_finished() {
            let sql = "SELECT n = quantity FROM counter, stock WHERE w = 1 AND i = 1";
            assert_eq!(rows(&mut reader, sql), ["true"]);
            seen.fetch_add(1, Ordering::Relaxed);
        }
        writing.join().unwrap()
    });
    assert!(seen.into_inner() >= 4);
    assert_eq!(rows(&mut setup, "SELECT n FROM counter"), [(10 + commits).to_string()]);
}

/// An engine whose data is there, as CREATE SERVER names it: the default one, or that whose library the environment names.
fn persistent(path: &Path) -> String {
    for engine in ["duckdb", "monetdb", "sqlite"] {
        if let Ok(library) = std::env::var(format!("COEVAL_TIQUE_{}", engine.to_uppercase())) {
            return format!("{engine} OPTIONS (library '{library}', path '{}')", path.display());
        }
    }
    format!("datafusion OPTIONS (path '{}')", path.display())
}

const DIRECTORY: &str = "COEVAL_SPANNING_DIRECTORY";

/// The process that is killed: commits that span both, each told when it is acknowledged.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let database = Database::open(Path::new(&directory).join("db")).unwrap();
    let mut session = session(&database);
    let first: u64 = rows(&mut session, "SELECT coalesce(max(n), 0) FROM own")[0].parse().unwrap();
    for n in first + 1.. {
        run(
            &mut session,
            &format!("BEGIN; INSERT INTO own VALUES ({n}); INSERT INTO there VALUES ({n}, 'x'); COMMIT"),
        );
        println!("done {n}");
    }
}

#[test]
fn killed_at_any_time_both_sides_have_the_same() {
    let directory = tempfile::tempdir().unwrap();
    {
        let database = Database::open(directory.path().join("db")).unwrap();
        let mut session = session(&database);
        run(
            &mut session,
            &format!(
                "CREATE SERVER wh ENGINE {}; \
                 CREATE TABLE there (n int PRIMARY KEY, v text) USING tique SERVER wh; \
                 CREATE TABLE own (n int PRIMARY KEY)",
                persistent(&directory.path().join("wh"))
            ),
        );
    }
    let mut last = 0;
    for round in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut acknowledged = last;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let alarm = bounded::Alarm::set(&child, bounded::END_PATIENCE);
        for line in lines.by_ref() {
            let line = line.unwrap();
            let Some((_, n)) = line.rsplit_once("done ") else { continue };
            acknowledged = n.parse().unwrap();
            if acknowledged >= last + 3 + round % 4 {
                break;
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(round * 370));
        drop(alarm);
        child.kill().unwrap();
        child.wait().unwrap();
        let told = lines.map_while(Result::ok).filter_map(|line| line.rsplit_once("done ")?.1.parse().ok());
        acknowledged = told.fold(acknowledged, u64::max);
        let database = Database::open(directory.path().join("db")).unwrap();
        let mut session = session(&database);
        let own = rows(&mut session, "SELECT n FROM own ORDER BY n");
        assert_eq!(own, rows(&mut session, "SELECT n FROM there ORDER BY n"), "round {round}");
        last = own.len() as u64;
        assert!(last >= acknowledged, "{acknowledged} were acknowledged, {last} are there");
        assert_eq!(rows(&mut session, "SELECT count(*) FROM tique.decisions"), ["0"], "settled");
    }
}

#[test]
fn a_table_is_removed_from_its_server_by_a_drop_that_commits_and_by_no_other() {
    let (database, mut session) = database();
    let count = "SELECT count(*) FROM stock";
    run(&mut session, "BEGIN; SAVEPOINT s; DROP TABLE stock; ROLLBACK TO s; COMMIT");
    assert_eq!(rows(&mut session, count), ["3"]);
    // One that is refused when it commits, with a block behind it that has nothing to do with it.
    run(&mut session, "BEGIN; UPDATE items SET name = 'mine' WHERE i = 1; DROP TABLE stock");
    let mut other = self::session(&database);
    run(&mut other, "UPDATE items SET name = 'first' WHERE i = 1");
    assert_eq!(state(&mut session, "COMMIT"), SqlState::SerializationFailure);
    run(&mut session, "BEGIN; SELECT * FROM items; COMMIT");
    assert_eq!(rows(&mut session, count), ["3"]);
    run(&mut session, "BEGIN; DROP TABLE stock; SAVEPOINT s; SELECT * FROM items; ROLLBACK TO s; COMMIT");
    run(&mut session, "CREATE TABLE stock (k int PRIMARY KEY) USING tique SERVER wh");
    assert_eq!(rows(&mut session, count), ["0"]);
}
