// SPDX-License-Identifier: Apache-2.0
//! Brick tables that are spread over a cluster: what SQL makes of them, on nodes that share a cluster in memory.
#![allow(clippy::unwrap_used)]

#[path = "spread/ages.rs"]
mod ages;
#[path = "spread/fake.rs"]
mod fake;
#[path = "spread/pieces.rs"]
mod pieces;
#[path = "spread/rows_and_loads.rs"]
mod rows_and_loads;
#[path = "spread/windows.rs"]
mod windows;

use arrow::util::display::array_value_to_string;
use coeval_sql::{Acknowledgement, CommitMode, Engine, Execution, Session, SqlError, SqlState};
use coeval_store::files::DiskFiles;
use coeval_store::{Follower, Store, StoreOptions, demote};
use fake::{Ages, Answers, NextCommit, Node, Shared};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FACTS: &str = "CREATE TABLE facts (day int, region text, likes int NOT NULL, note text) USING brick
    PARTITION BY (day CARDINALITY 100 RANGE SIZE 10, region CARDINALITY 8 RANGE SIZE 2)";

fn engine() -> Arc<Engine> {
    Engine::new(Store::in_memory(StoreOptions::default())).unwrap()
}

/// Nodes of one cluster, with one table. Each has the definition from its own statement, as by the log: under one number.
struct Nodes {
    shared: Arc<Shared>,
    nodes: Vec<Arc<Node>>,
    engines: Vec<Arc<Engine>>,
}

impl Nodes {
    fn new() -> Self {
        let shared = Arc::new(Shared::default());
        let nodes = vec![Node::first(&shared), Node::another(&shared)];
        Self::of(shared, nodes)
    }

    /// One node, whose readers of rows go by the ages that these name.
    fn with_ages(ages: Ages) -> Self {
        let shared = Arc::new(Shared::default());
        let nodes = vec![Node::with_ages(&shared, ages)];
        let nodes = Self::of(shared, nodes);
        nodes.session(0).execute("CREATE TABLE done (day int PRIMARY KEY)").unwrap();
        nodes
    }

    fn of(shared: Arc<Shared>, nodes: Vec<Arc<Node>>) -> Self {
        let engines: Vec<_> = nodes.iter().map(|_| engine()).collect();
        for (engine, node) in engines.iter().zip(&nodes) {
            engine.set_cluster(node.clone());
            engine.session().execute(FACTS).unwrap();
        }
        Self { shared, nodes, engines }
    }

    /// Has rows name what has been loaded so far.
    fn note_age(&self) {
        self.engines[0].store().note_brick_age(self.shared.newest_age()).unwrap();
    }

    /// The same, in a moment.
    fn note_soon(&self) -> JoinHandle<()> {
        let (store, shared) = (self.engines[0].store().clone(), Arc::clone(&self.shared));
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            store.note_brick_age(shared.newest_age()).unwrap();
        })
    }

    fn session(&self, node: usize) -> Session {
        self.engines[node].session()
    }

    /// Nothing is held when nobody reads or loads. What ran in parts may take a moment to end.
    #[track_caller]
    fn assert_nothing_is_open(&self) {
        let begun = Instant::now();
        while self.shared.open() > 0 && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(self.shared.open(), 0);
    }

    fn rows(&self, node: usize) -> Vec<String> {
        rows(&mut self.session(node), "SELECT day, region, likes, note FROM facts ORDER BY likes")
    }
}

/// What the last statement of a text gives, a line for each row.
#[track_caller]
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    try_rows(session, sql).unwrap()
}

fn try_rows(session: &mut Session, sql: &str) -> Result<Vec<String>, SqlError> {
    let result = session.execute(sql)?.pop().unwrap();
    let mut lines = Vec::new();
    for batch in &result.rows.unwrap().batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            lines.push(values.collect::<Vec<_>>().join(" "));
        }
    }
    Ok(lines)
}

#[track_caller]
fn count(session: &mut Session, sql: &str) -> u64 {
    session.execute(sql).unwrap().pop().unwrap().tag.rows().unwrap()
}

/// The statement fails like this, with something to do about it.
#[track_caller]
fn refused(session: &mut Session, sql: &str, state: SqlState) -> SqlError {
    let error = session.execute(sql).unwrap_err();
    assert_eq!(error.state, state, "{sql}: {error}");
    error
}

#[track_caller]
fn refused_with_hint(session: &mut Session, sql: &str, state: SqlState) {
    let error = refused(session, sql, state);
    assert!(error.hint.is_some(), "{sql}: {error}");
}

fn copied(session: &mut Session, sql: &str, pieces: &[&str]) -> Result<u64, SqlError> {
    let statement = session.parse(sql)?.pop().unwrap();
    let Execution::CopyIn(mut copy) = session.start(&statement)? else { panic!("{sql}: no COPY") };
    for piece in pieces {
        session.feed_copy(&mut copy, piece.as_bytes())?;
    }
    Ok(session.finish_copy(*copy)?.rows().unwrap())
}

/// How many rows of a spread table and of another one there are, in one statement.
const BOTH: &str =
    "SELECT f.n, d.n FROM (SELECT count(*) AS n FROM facts) AS f, (SELECT count(*) AS n FROM done) AS d";
const LOAD: &str = "INSERT INTO facts VALUES (1, 'a', 1, 'x')";

/// Break: have `SpreadPart::commit` forget its change.
#[test]
fn a_load_through_any_node_is_seen_on_all() {
    let nodes = Nodes::new();
    let mut second = nodes.session(1);
    assert_eq!(count(&mut second, "INSERT INTO facts VALUES (1, 'a', 1, 'x'), (11, 'b', 2, NULL)"), 2);
    let mut first = nodes.session(0);
    assert_eq!(count(&mut first, "INSERT INTO facts (likes, region, day) VALUES (3, 'c', 12)"), 1);
    assert_eq!(copied(&mut first, "COPY facts FROM STDIN (FORMAT csv)", &["5,a,4,\n6,", "b,5,y\n"]), Ok(2));
    let expected = ["1 a 1 x", "11 b 2 ", "12 c 3 ", "5 a 4 ", "6 b 5 y"];
    assert_eq!(nodes.rows(0), expected);
    assert_eq!(nodes.rows(1), expected);
    assert_eq!(nodes.shared.modes(), [CommitMode::Decided; 3]);
    assert_eq!(rows(&mut second, "SELECT count(*), sum(likes) FROM facts WHERE region = 'a'"), ["2 5"]);
    assert_eq!(rows(&mut second, "SELECT count(*) FROM facts"), ["5"]);
    drop((first, second));
    nodes.assert_nothing_is_open();
}

/// Break: ask for `CommitMode::Decided` whatever the setting says.
#[test]
fn synchronous_commit_says_what_a_load_waits_for() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    for (setting, mode) in [
        ("off", CommitMode::Asked),
        ("local", CommitMode::Asked),
        ("on", CommitMode::Decided),
        ("remote_apply", CommitMode::Decided),
    ] {
        session.execute(&format!("SET synchronous_commit = {setting}")).unwrap();
        session.execute("INSERT INTO facts VALUES (1, 'a', 1, 'x')").unwrap();
        assert_eq!(nodes.shared.modes().last(), Some(&mode), "{setting}");
    }
}

/// Break: leave out `stats_of`, or take a column without statistics for one without NULLs.
#[test]
fn bricks_are_left_out_by_the_ranges_of_dimensions() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    session
        .execute(
            "INSERT INTO facts SELECT g, 'a', g, CASE WHEN g > 5 THEN 'n' END FROM generate_series(0, 99) g",
        )
        .unwrap();
    nodes.shared.take_reads();
    assert_eq!(rows(&mut session, "SELECT count(*) FROM facts WHERE day BETWEEN 15 AND 24"), ["10"]);
    assert_eq!(nodes.shared.take_reads().len(), 2);
    assert_eq!(rows(&mut session, "SELECT sum(likes) FROM facts WHERE day = 7"), ["7"]);
    let reads = nodes.shared.take_reads();
    assert_eq!(reads.len(), 1);
    assert_eq!(reads[0].1, [0, 2], "day and likes");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM facts WHERE note IS NULL"), ["6"]);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM facts WHERE likes > 97 AND region = 'a'"), ["2"]);
    let plan = rows(&mut session, "EXPLAIN SELECT likes FROM facts WHERE day < 30").join("\n");
    assert!(plan.contains("bricks=3, pruned=7, spread"), "{plan}");
}

/// Break: keep the snapshot at READ COMMITTED in `begin_statement`, or drop it at REPEATABLE READ.
#[test]
fn a_snapshot_is_a_statements_or_a_transactions() {
    let nodes = Nodes::new();
    for (level, after) in [("READ COMMITTED", "1"), ("REPEATABLE READ", "0"), ("SERIALIZABLE", "0")] {
        let nodes = Nodes::new();
        let (mut reader, mut loader) = (nodes.session(1), nodes.session(0));
        reader.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        assert_eq!(rows(&mut reader, "SELECT count(*) FROM facts"), ["0"]);
        loader.execute("INSERT INTO facts VALUES (1, 'a', 1, 'x')").unwrap();
        assert_eq!(rows(&mut reader, "SELECT count(*) FROM facts"), [after], "{level}");
        reader.execute("COMMIT").unwrap();
        assert_eq!(rows(&mut reader, "SELECT count(*) FROM facts"), ["1"], "{level}");
    }
    // One for all tables of a statement, and for its subqueries.
    let mut session = nodes.session(0);
    session.execute("INSERT INTO facts VALUES (1, 'a', 1, 'x')").unwrap();
    let sql = "SELECT count(*) FROM facts f JOIN facts g ON f.day = g.day WHERE f.likes = (SELECT max(likes) FROM facts)";
    assert_eq!(rows(&mut session, sql), ["1"]);
}

/// Break: commit each load of a block with its statement.
#[test]
fn a_blocks_loads_are_committed_together_or_not_at_all() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    session.execute("BEGIN").unwrap();
    session.execute("INSERT INTO facts VALUES (1, 'a', 1, 'x')").unwrap();
    copied(&mut session, "COPY facts FROM STDIN", &["2\ta\t2\t\\N\n"]).unwrap();
    assert!(nodes.rows(1).is_empty());
    session.execute("COMMIT").unwrap();
    assert_eq!(nodes.rows(1).len(), 2);
    assert_eq!(nodes.shared.modes().len(), 1);

    session.execute("BEGIN; INSERT INTO facts VALUES (3, 'a', 3, 'x')").unwrap();
    session.execute("ROLLBACK").unwrap();
    session.execute("BEGIN; INSERT INTO facts VALUES (3, 'a', 3, 'x')").unwrap();
    refused(&mut session, "SELECT 1 / 0", SqlState::DivisionByZero);
    session.execute("COMMIT").unwrap();
    assert_eq!(nodes.rows(1).len(), 2);
    // Statements that are sent together are one transaction.
    session
        .execute("INSERT INTO facts VALUES (4, 'a', 4, 'x'); INSERT INTO facts VALUES (5, 'a', 5, 'x')")
        .unwrap();
    let sent = "INSERT INTO facts VALUES (6, 'a', 6, 'x'); INSERT INTO facts VALUES (7, 'a', 7 / 0, 'x')";
    refused(&mut session, sent, SqlState::DivisionByZero);
    assert_eq!(nodes.rows(1).len(), 4);
    drop(session);
    nodes.assert_nothing_is_open();
}

/// Break: leave one condition out of `SpreadPart::check` or `require_change`.
#[test]
fn what_a_transaction_cannot_do_beside_a_load_is_refused() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    session.execute("CREATE TABLE items (id int PRIMARY KEY)").unwrap();
    let load = "INSERT INTO facts VALUES (1, 'a', 1, 'x')";
    let blocks: &[(&str, &[&str], &str)] = &[
        ("REPEATABLE READ", &[load], "INSERT INTO items VALUES (1)"),
        ("REPEATABLE READ", &["INSERT INTO items VALUES (1)"], load),
        ("REPEATABLE READ", &["CREATE TABLE other (id int)"], load),
        ("REPEATABLE READ", &[load], "SELECT count(*) FROM facts"),
        ("REPEATABLE READ", &[load], "SAVEPOINT s"),
        ("REPEATABLE READ", &["SAVEPOINT s"], load),
        ("REPEATABLE READ", &[], "DELETE FROM facts"),
        ("REPEATABLE READ", &[load], "TRUNCATE facts"),
        ("SERIALIZABLE", &["SELECT * FROM items"], load),
        ("SERIALIZABLE", &["SELECT id FROM items WHERE id = 1"], load),
        ("SERIALIZABLE", &["SELECT count(*) FROM facts"], load),
        ("SERIALIZABLE", &[load], "SELECT * FROM items"),
        ("SERIALIZABLE", &[], "INSERT INTO facts SELECT id, 'a', id, 'x' FROM items"),
        ("SERIALIZABLE", &["SELECT count(*) FROM facts"], "INSERT INTO items VALUES (1)"),
        ("SERIALIZABLE", &["INSERT INTO items VALUES (1)"], "SELECT count(*) FROM facts"),
        ("SERIALIZABLE", &[], "INSERT INTO items SELECT count(*)::int FROM facts"),
    ];
    for (level, before, last) in blocks {
        session.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        for statement in *before {
            session.execute(statement).unwrap();
        }
        refused_with_hint(&mut session, last, SqlState::FeatureNotSupported);
        session.execute("ROLLBACK").unwrap();
    }
    assert!(nodes.rows(0).is_empty());
    refused_with_hint(
        &mut session,
        "INSERT INTO items SELECT count(*)::int FROM facts",
        SqlState::FeatureNotSupported,
    );
}

/// Break: refuse at every level what SERIALIZABLE refuses.
#[test]
fn below_serializable_loads_may_read_and_readers_may_write_rows() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    session.execute("CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (3), (4)").unwrap();
    session.execute("SET default_transaction_isolation = 'repeatable read'").unwrap();
    assert_eq!(count(&mut session, "INSERT INTO facts SELECT id, 'a', id, 'x' FROM items"), 2);
    assert_eq!(
        count(&mut session, "INSERT INTO facts SELECT day + 10, region, likes + 10, note FROM facts"),
        2
    );
    assert_eq!(count(&mut session, "INSERT INTO items SELECT likes FROM facts WHERE likes > 4"), 2);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM items JOIN facts ON id = likes"), ["4"]);
    session
        .execute("BEGIN; SELECT * FROM items; INSERT INTO facts VALUES (1, 'a', 1, 'x'); SELECT * FROM items")
        .unwrap();
    session.execute("COMMIT").unwrap();
    assert_eq!(nodes.rows(1).len(), 5);
    // Many rows go another way.
    let many = "INSERT INTO facts SELECT g % 100, 'b', g, 'm' FROM generate_series(1001, 11000) g";
    assert_eq!(count(&mut session, many), 10_000);
    assert_eq!(
        rows(&mut session, "SELECT count(*), sum(likes) FROM facts WHERE region = 'b'"),
        ["10000 60005000"]
    );
}

/// Break: have `bad_rows` find none.
#[test]
fn bad_rows_have_the_errors_of_bricks() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    let error = refused(
        &mut session,
        "INSERT INTO facts VALUES (1, 'a', 1, 'x'), (100, 'a', 1, 'x')",
        SqlState::CheckViolation,
    );
    assert!(error.message.contains("100 is not between 0 and 99"), "{error}");
    refused(&mut session, "INSERT INTO facts VALUES (NULL, 'a', 1, 'x')", SqlState::NotNullViolation);
    refused(&mut session, "INSERT INTO facts (day, region) VALUES (1, 'a')", SqlState::NotNullViolation);
    let lines = ["1,a,1,x\n100,a,2,x\n2,a,,x\n3,a,4,x\n"];
    let error = copied(&mut session, "COPY facts FROM STDIN (FORMAT csv)", &lines).unwrap_err();
    assert_eq!(error.state, SqlState::CheckViolation, "{error}");
    assert_eq!(error.context.as_deref(), Some("COPY facts, line 2"));
    assert!(nodes.rows(0).is_empty(), "a load is seen as a whole or not at all");
    let copy = "COPY facts FROM STDIN (FORMAT csv, MAX_REJECTED 2)";
    assert_eq!(copied(&mut session, copy, &lines), Ok(2));
    assert_eq!(nodes.rows(1), ["1 a 1 x", "3 a 4 x"]);
}

/// Break: take a commit that is rolled back, or of which nothing is heard, for one that is committed.
#[test]
fn what_becomes_of_a_commit_is_told() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    let load = "INSERT INTO facts VALUES (1, 'a', 1, 'x')";
    nodes.shared.set_next(NextCommit::RolledBack);
    session.execute(load).unwrap();
    assert_eq!(nodes.rows(1).len(), 1, "outside a block it is run again");

    nodes.shared.set_next(NextCommit::RolledBack);
    session.execute(&format!("BEGIN; {load}")).unwrap();
    refused(&mut session, "COMMIT", SqlState::SerializationFailure);
    assert_eq!(nodes.rows(1).len(), 1);

    nodes.shared.set_next(NextCommit::Silent);
    session.execute("SET statement_timeout = '50ms'").unwrap();
    refused_with_hint(&mut session, load, SqlState::TransactionResolutionUnknown);
    session.execute("RESET statement_timeout").unwrap();
    session.execute(load).unwrap();
    drop(session);
    nodes.assert_nothing_is_open();
}

/// Break: count no rows of a brick that do not satisfy the condition.
#[test]
fn deletes_take_whole_bricks() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    let load = "INSERT INTO facts SELECT g, CASE WHEN g < 30 THEN 'a' ELSE 'b' END, g, 'x' FROM generate_series(0, 49) g";
    session.execute(load).unwrap();
    assert_eq!(count(&mut session, "DELETE FROM facts WHERE day < 10"), 10);
    assert_eq!(count(&mut session, "DELETE FROM facts WHERE day BETWEEN 10 AND 19 AND region = 'a'"), 10);
    // Both texts are in one range of the dimension, each in bricks of its own days.
    assert_eq!(count(&mut session, "DELETE FROM facts WHERE region = 'b' AND day >= 40"), 10);
    assert_eq!(rows(&mut session, "SELECT count(*), min(day), max(day) FROM facts"), ["20 20 39"]);
    let error = refused(&mut session, "DELETE FROM facts WHERE day = 25", SqlState::FeatureNotSupported);
    assert!(error.message.contains("would cut brick") && error.hint.is_some(), "{error}");
    refused_with_hint(&mut session, "DELETE FROM facts WHERE likes = 1", SqlState::FeatureNotSupported);
    assert_eq!(count(&mut session, "DELETE FROM facts WHERE day > 100"), 0);
    assert_eq!(nodes.rows(1).len(), 20);
    let error = refused(&mut nodes.session(1), "DELETE FROM facts", SqlState::FeatureNotSupported);
    assert_eq!(error.hint.as_deref(), Some("Connect to n1.example."));
    session.execute("TRUNCATE facts").unwrap();
    assert!(nodes.rows(1).is_empty());
    session.execute("CREATE TABLE items (id int)").unwrap();
    refused_with_hint(&mut session, "TRUNCATE facts, items", SqlState::FeatureNotSupported);
    drop(session);
    nodes.assert_nothing_is_open();
}

/// Break: leave out a refusal.
#[test]
fn statements_on_single_rows_are_refused_as_of_local_bricks() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    session.execute("SET default_transaction_isolation = 'repeatable read'").unwrap();
    for sql in [
        "UPDATE facts SET likes = 2",
        "INSERT INTO facts VALUES (1, 'a', 1, 'x') ON CONFLICT DO NOTHING",
        "SELECT * FROM facts FOR UPDATE",
        "CREATE INDEX ON facts (likes)",
        "ALTER TABLE facts ADD CHECK (likes > 0)",
        "ALTER TABLE facts DROP COLUMN note",
        "ALTER TABLE facts ADD COLUMN kind text DEFAULT 'k'",
        "ALTER TABLE facts ADD COLUMN rank int NOT NULL",
        "ALTER TABLE facts SET RETENTION '30 days' ON day",
    ] {
        refused_with_hint(&mut session, sql, SqlState::FeatureNotSupported);
    }
}

/// Break: have `cluster_of` declare what the statement's own transaction sees, or nothing.
#[test]
fn definitions_are_declared_once_they_are_committed_and_used() {
    let nodes = Nodes::new();
    let (node, mut session) = (&nodes.nodes[0], nodes.session(0));
    assert!(node.declared().is_empty());
    session.execute("SELECT * FROM facts").unwrap();
    assert_eq!(node.declared(), [["day", "region", "likes", "note"]]);
    session.execute("INSERT INTO facts VALUES (1, 'a', 1, 'x')").unwrap();
    session.execute("ALTER TABLE facts ADD COLUMN kind text").unwrap();
    nodes.session(1).execute("ALTER TABLE facts ADD COLUMN kind text").unwrap();
    session.execute("INSERT INTO facts VALUES (2, 'a', 2, 'x', 'k')").unwrap();
    assert_eq!(node.declared(), [["day", "region", "likes", "note", "kind"]]);
    assert_eq!(rows(&mut nodes.session(1), "SELECT likes, kind FROM facts ORDER BY 1"), ["1 ", "2 k"]);
    // What is not committed, the nodes do not know.
    session.execute("BEGIN; ALTER TABLE facts ADD COLUMN more int").unwrap();
    refused_with_hint(&mut session, "SELECT * FROM facts", SqlState::ObjectNotInPrerequisiteState);
    session.execute("ROLLBACK").unwrap();
    assert_eq!(node.declared(), [["day", "region", "likes", "note", "kind"]]);
    // Who began before the table was dropped does not have it declared again.
    let mut reader = nodes.session(0);
    reader.execute("BEGIN; SELECT 1").unwrap();
    session.execute("DROP TABLE facts").unwrap();
    refused(&mut reader, "SELECT * FROM facts", SqlState::ObjectNotInPrerequisiteState);
}

/// A crash that takes the definition leaves rows of its number on other nodes, which the next table gets.
///
/// Break: leave `changes_spread_tables` out of `set_synchronous_commit`, or what is dropped out of that.
#[test]
fn definitions_of_spread_tables_wait_for_the_disk_whatever_synchronous_commit_says() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(Store::open(dir.path(), StoreOptions::default()).unwrap()).unwrap();
    engine.set_cluster(Node::first(&Arc::default()));
    let mut session = engine.session();
    session.set_acknowledgement(Acknowledgement::LeftToCaller);
    session.execute("SET synchronous_commit = off").unwrap();
    let here = FACTS.replace("facts", "here") + " WITH (replicas = 0)";
    for (sql, waits) in [
        ("CREATE TABLE items (id int PRIMARY KEY)", false),
        (here.as_str(), false),
        (FACTS, true),
        ("ALTER TABLE facts ADD COLUMN kind text", true),
        ("BEGIN; CREATE TABLE more (id int PRIMARY KEY); DROP TABLE facts; COMMIT", true),
        ("DROP TABLE here", false),
    ] {
        session.execute(sql).unwrap();
        let publication = session.publication();
        assert_eq!(publication.is_some(), waits, "{sql}");
        if let Some(publication) = publication {
            futures::executor::block_on(publication).unwrap();
        }
    }
}

/// Break: spread every brick table, or none.
#[test]
fn create_table_says_where_bricks_are() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    let table = |name: &str, options: &str| {
        format!("CREATE TABLE {name} (day int) USING brick PARTITION BY (day CARDINALITY 10) {options}")
    };
    session.execute(&table("two", "WITH (replicas = 2)")).unwrap();
    session.execute(&table("here", "WITH (replicas = 0)")).unwrap();
    for options in ["WITH (replicas = 3)", "WITH (replicas = many)"] {
        refused(&mut session, &table("three", options), SqlState::InvalidParameterValue);
    }
    let is_spread = |name: &str| {
        let world = nodes.engines[0].store().world();
        world.tables().find(|table| table.def().name.name == name).unwrap().def().is_spread()
    };
    assert!(is_spread("two") && is_spread("facts") && !is_spread("here"));
    session.execute("INSERT INTO here VALUES (1)").unwrap();
    assert_eq!(rows(&mut session, "SELECT table_name, rows FROM coeval_bricks"), ["here 1"]);
    let of_catalog = "SELECT relname FROM pg_class WHERE relname IN ('facts', 'here', 'two') ORDER BY 1";
    assert_eq!(rows(&mut session, of_catalog), ["facts", "here", "two"]);
    session.execute("SELECT * FROM coeval_dimensions; SELECT * FROM coeval_memory").unwrap();
    refused(&mut session, "CREATE TABLE r (id int) WITH (replicas = 2)", SqlState::InvalidParameterValue);

    let mut alone = engine().session();
    refused_with_hint(
        &mut alone,
        &table("two", "WITH (replicas = 2)"),
        SqlState::ObjectNotInPrerequisiteState,
    );
    alone.execute(&table("here", "WITH (replicas = 0)")).unwrap();
    alone.execute("INSERT INTO here VALUES (1)").unwrap();
    assert_eq!(rows(&mut alone, "SELECT * FROM here"), ["1"]);
}

/// A replica with the table, in a cluster or in none, and what follows for it.
fn replica(shared: Option<&Arc<Shared>>) -> (TempDir, Arc<Engine>, Follower) {
    let dir = tempfile::tempdir().unwrap();
    {
        let primary = Engine::new(Store::open(dir.path(), StoreOptions::default()).unwrap()).unwrap();
        primary.set_cluster(Node::first(&Arc::default()));
        primary.session().execute(FACTS).unwrap();
        primary.session().execute("CREATE TABLE items (id int PRIMARY KEY)").unwrap();
        primary.session().execute("INSERT INTO items VALUES (1)").unwrap();
        primary.store().checkpoint().unwrap();
    }
    demote(&DiskFiles, dir.path()).unwrap();
    let options = StoreOptions::default();
    let (store, follower) = Store::open_follower(Arc::new(DiskFiles), dir.path(), options).unwrap();
    follower.note_all_published();
    let engine = Engine::new(store).unwrap();
    if let Some(shared) = shared {
        engine.set_cluster(Node::another(shared));
    }
    (dir, engine, follower)
}

/// Break: leave out `changes_spread_table`, or let it look at no declaration.
#[test]
fn a_replica_loads_into_spread_tables_and_writes_nothing_else() {
    let shared = Arc::new(Shared::default());
    let (_dir, engine, _follower) = replica(Some(&shared));
    let mut session = engine.session();
    session.execute("SET default_transaction_isolation = 'repeatable read'").unwrap();
    assert_eq!(count(&mut session, "INSERT INTO facts VALUES (1, 'a', 1, 'x')"), 1);
    assert_eq!(copied(&mut session, "COPY facts FROM STDIN (FORMAT csv)", &["2,a,2,y\n"]), Ok(1));
    assert_eq!(count(&mut session, "INSERT INTO facts SELECT id, 'b', 3, 'z' FROM items"), 1);
    session.execute("BEGIN; INSERT INTO facts VALUES (4, 'a', 4, 'x')").unwrap();
    session.execute("COMMIT").unwrap();
    assert_eq!(rows(&mut session, "SELECT likes FROM facts ORDER BY 1"), ["1", "2", "3", "4"]);
    let error = refused(&mut session, "DELETE FROM facts", SqlState::FeatureNotSupported);
    assert_eq!(error.hint.as_deref(), Some("Connect to n1.example."));
    for sql in ["INSERT INTO items VALUES (2)", "DELETE FROM items", "UPDATE facts SET likes = 1"] {
        refused(&mut session, sql, SqlState::ReadOnlySqlTransaction);
    }
    session.execute("BEGIN READ ONLY").unwrap();
    refused(&mut session, "INSERT INTO facts VALUES (5, 'a', 5, 'x')", SqlState::ReadOnlySqlTransaction);
    session.execute("ROLLBACK").unwrap();
    session.execute("SET default_transaction_read_only = on").unwrap();
    refused(&mut session, "INSERT INTO facts VALUES (5, 'a', 5, 'x')", SqlState::ReadOnlySqlTransaction);
}

/// Break: have `cluster_nodes` take what nobody has said for none.
#[test]
fn what_nodes_have_is_shown_as_far_as_they_say_so() {
    const NODES: &str =
        "SELECT node, state, has_answered, bricks, rows, bytes, bricks_to_come FROM coeval_cluster_nodes
        ORDER BY node";
    let nodes = Nodes::new();
    let mut session = nodes.session(1);
    session
        .execute("INSERT INTO facts VALUES (1, 'a', 1, 'x'), (2, 'a', 2, NULL), (11, 'a', 3, NULL)")
        .unwrap();
    assert_eq!(rows(&mut session, NODES), ["1 live true 2 3 24 0", "2 live true 0 0 0 ", "3 away     "]);
    nodes.shared.set_answers(Answers::First);
    assert_eq!(rows(&mut session, NODES), ["1 live true 2 3 24 0", "2 live false    ", "3 away     "]);
    assert!(rows(&mut engine().session(), NODES).is_empty(), "it is no node");
}

/// Break: ask where the table is looked up, or whatever the query names.
#[test]
fn nodes_are_asked_when_the_table_is_read_and_nobody_is_asked_without_need() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    let questions = |session: &mut Session, sql: &str| {
        session.execute(sql).unwrap();
        nodes.shared.take_share_questions()
    };
    assert_eq!(questions(&mut session, "SELECT count(bricks) FROM coeval_cluster_nodes"), 1);
    assert_eq!(questions(&mut session, "SELECT * FROM coeval_cluster_nodes"), 1);
    for sql in [
        "EXPLAIN SELECT bricks FROM coeval_cluster_nodes",
        "PREPARE looks AS SELECT bricks FROM coeval_cluster_nodes",
        "SELECT count(*) FROM coeval_cluster_nodes WHERE state = 'live'",
        "SELECT node, address, last_error FROM coeval_cluster_nodes ORDER BY node",
    ] {
        assert_eq!(questions(&mut session, sql), 0, "{sql}");
    }
    assert_eq!(rows(&mut session, "SELECT count(*) FROM coeval_cluster_nodes WHERE state = 'live'"), ["2"]);
}

/// Break: wait for the answers where nobody can tell the statement to end, as before a plan runs.
#[test]
fn who_waits_for_answers_of_nodes_can_be_told_to_end() {
    let nodes = Nodes::new();
    let mut session = nodes.session(0);
    nodes.shared.set_answers(Answers::Never);
    session.execute("SET statement_timeout = '50ms'").unwrap();
    refused(&mut session, "SELECT sum(bricks) FROM coeval_cluster_nodes", SqlState::QueryCanceled);
    session.execute("RESET statement_timeout").unwrap();
    nodes.shared.set_answers(Answers::All);
    assert_eq!(rows(&mut session, "SELECT sum(bricks) FROM coeval_cluster_nodes"), ["0"]);
}

/// Break: read the rows of a spread table that are in the store.
#[test]
fn without_the_cluster_a_spread_table_is_not_empty_but_elsewhere() {
    let (_dir, engine, _follower) = replica(None);
    let mut session = engine.session();
    session.execute("SET default_transaction_isolation = 'repeatable read'").unwrap();
    for sql in
        ["SELECT count(*) FROM facts", "INSERT INTO facts VALUES (1, 'a', 1, 'x')", "DELETE FROM facts"]
    {
        refused_with_hint(&mut session, sql, SqlState::ObjectNotInPrerequisiteState);
    }
    assert_eq!(rows(&mut session, "SELECT count(*) FROM items"), ["1"]);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM coeval_bricks"), ["0"]);
}
