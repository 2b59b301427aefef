// SPDX-License-Identifier: Apache-2.0
//! Figure 4, concurrent commits, priority.

use crate::{all_options, database, rows, state, text};
use coeval_tique::{
    Connection, DataFusionEngine, Database, Dialect, Effort, Engine, EngineError, Layout, Options, Priority,
    Rows, SqlState, Writes,
};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

fn physical(connection: &mut dyn Connection, sql: &str) -> Vec<String> {
    text(&connection.query(sql, Effort::Point).unwrap())
}

#[test]
fn figure_4_goes_through_the_steps_of_the_paper() {
    let engine = DataFusionEngine::in_memory().unwrap();
    let mut look = engine.connect().unwrap();
    let options =
        Options { layout: Layout::Joined, writes: Writes::AtOnce, checkpoint_at: 0, ..Options::default() };
    // Transaction 11 was the last to commit.
    let earlier = Database::open(Arc::new(engine.clone()), options).unwrap();
    earlier.session().unwrap().execute("CREATE TABLE table1 (k text PRIMARY KEY, v text)").unwrap();
    look.execute("INSERT INTO table1_storage VALUES ('k1', 'v1'), ('k2', 'v2')").unwrap();
    look.execute("INSERT INTO tique_committed VALUES (11, 25)").unwrap();
    let database = Database::open(Arc::new(engine), options).unwrap();
    let (mut client, mut other) = (database.session().unwrap(), database.session().unwrap());
    // 1 to 3: BEGIN gives txid 12 and sts 25.
    client.execute("BEGIN").unwrap();
    // 4: the UPDATE is an insert into the cache.
    client.execute("UPDATE table1 SET v = v || '.2' WHERE k = 'k1'").unwrap();
    let cache = "SELECT k, v, tique_deleted, tique_txid FROM table1_cache";
    assert_eq!(physical(&mut *look, cache), ["k1|v1.2|false|12"]);
    assert_eq!(rows(&mut client, "SELECT v FROM table1 WHERE k = 'k1'"), ["v1.2"]);
    assert_eq!(rows(&mut other, "SELECT v FROM table1 WHERE k = 'k1'"), ["v1"]);
    // 5 to 8: cts, certification, and the status of transaction 12 as R, C and T.
    client.execute("COMMIT").unwrap();
    assert_eq!(physical(&mut *look, "SELECT * FROM tique_began"), ["12|25"]);
    assert_eq!(physical(&mut *look, "SELECT * FROM tique_committing"), ["12|25|26"]);
    assert_eq!(physical(&mut *look, "SELECT * FROM tique_committed ORDER BY cts"), ["11|25", "12|26"]);
    assert_eq!(physical(&mut *look, "SELECT count(*) FROM tique_write_sets WHERE txid = 12"), ["1"]);
    // 9: the start timestamp is 26.
    assert_eq!(rows(&mut other, "SELECT v FROM table1 ORDER BY k"), ["v1.2", "v2"]);
    assert_eq!(physical(&mut *look, "SELECT * FROM table1_storage ORDER BY k"), ["k1|v1", "k2|v2"]);
    database.checkpoint().unwrap();
    assert_eq!(physical(&mut *look, "SELECT * FROM table1_storage ORDER BY k"), ["k1|v1.2", "k2|v2"]);
    assert_eq!(physical(&mut *look, cache), [""; 0]);
    assert_eq!(physical(&mut *look, "SELECT * FROM tique_committed"), ["12|26"]);
    assert_eq!(physical(&mut *look, "SELECT * FROM tique_write_sets"), [""; 0]);
}

#[test]
fn with_stamped_versions_the_cache_row_carries_the_commit_timestamp() {
    let engine = DataFusionEngine::in_memory().unwrap();
    let mut look = engine.connect().unwrap();
    let database =
        Database::open(Arc::new(engine), Options { checkpoint_at: 0, ..Options::default() }).unwrap();
    let mut client = database.session().unwrap();
    client
        .execute("CREATE TABLE t (k int PRIMARY KEY, v text); BEGIN; INSERT INTO t VALUES (1, 'a')")
        .unwrap();
    assert_eq!(physical(&mut *look, "SELECT * FROM t_cache"), [""; 0], "writes are buffered");
    client.execute("UPDATE t SET v = 'b' WHERE k = 1; DELETE FROM t WHERE k = 2; COMMIT").unwrap();
    let cache = "SELECT k, v, tique_deleted, tique_cts FROM t_cache WHERE tique_cts IS NOT NULL";
    assert_eq!(physical(&mut *look, cache), ["1|b|false|1"]);
}

/// Transfers that each client is to get through, and what it may need for them: who is refused tries another.
const TRANSFERS: usize = 10;
const ROUNDS_MOST: usize = 300;

#[test]
fn concurrent_transfers_keep_the_sum_while_checkpoints_run() {
    for options in all_options() {
        let database = database(Options { checkpoint_at: 60, ..options });
        let mut setup = database.session().unwrap();
        setup
            .execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int CHECK (balance >= 0))")
            .unwrap();
        setup
            .execute("INSERT INTO accounts VALUES (0, 100), (1, 100), (2, 100), (3, 100), (4, 100)")
            .unwrap();
        let clients: Vec<_> = (0..4_usize)
            .map(|client| {
                let database = database.clone();
                std::thread::spawn(move || {
                    let mut session = database.session().unwrap();
                    let mut committed = 0;
                    for round in 0..ROUNDS_MOST {
                        let (from, to) = ((client + round) % 5, (client * 3 + round * 2 + 1) % 5);
                        let sum = rows(&mut session, "SELECT sum(balance), count(*) FROM accounts");
                        assert_eq!(sum, ["500|5"]);
                        let sql = format!(
                            "BEGIN; UPDATE accounts SET balance = balance - 1 WHERE id = {from}; \
                             UPDATE accounts SET balance = balance + 1 WHERE id = {to}; COMMIT"
                        );
                        match session.execute(&sql) {
                            Ok(_) => committed += 1,
                            Err(error) => assert_eq!(error.state, SqlState::SerializationFailure, "{error}"),
                        }
                        if committed == TRANSFERS {
                            return;
                        }
                    }
                    panic!("client {client} committed {committed} of {ROUNDS_MOST}");
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        database.checkpoint().unwrap();
        assert_eq!(rows(&mut setup, "SELECT sum(balance), count(*) FROM accounts"), ["500|5"]);
    }
}

#[test]
fn who_has_priority_is_refused_once_at_most() {
    for options in all_options() {
        let database = database(options);
        let (mut long, mut short) = (database.session().unwrap(), database.session().unwrap());
        long.execute(
            "CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)",
        )
        .unwrap();
        long.execute("SET tique.priority = high; BEGIN; UPDATE t SET v = v + 10").unwrap();
        short.execute("UPDATE t SET v = v + 1 WHERE k = 2").unwrap();
        assert_eq!(state(&mut long, "COMMIT"), SqlState::SerializationFailure);
        long.execute("BEGIN; UPDATE t SET v = v + 10").unwrap();
        let refused = state(&mut short, "BEGIN; UPDATE t SET v = v + 1 WHERE k = 2; COMMIT");
        assert_eq!(refused, SqlState::SerializationFailure, "the rows are reserved");
        short.execute("INSERT INTO t VALUES (4, 0)").unwrap();
        long.execute("COMMIT").unwrap();
        short.execute("UPDATE t SET v = v + 1 WHERE k = 2").unwrap();
        assert_eq!(rows(&mut short, "SELECT v FROM t ORDER BY k"), ["10", "12", "10", "0"], "{options:?}");
    }
}

/// An engine that takes its time to note who has aborted.
struct SlowToAbort {
    engine: DataFusionEngine,
    aborts: Sender<()>,
}

struct SlowConnection {
    connection: Box<dyn Connection>,
    aborts: Sender<()>,
}

impl Engine for SlowToAbort {
    fn dialect(&self) -> &Dialect {
        self.engine.dialect()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        let connection = self.engine.connect()?;
        Ok(Box::new(SlowConnection { connection, aborts: self.aborts.clone() }))
    }
}

impl Connection for SlowConnection {
    fn query(&mut self, sql: &str, effort: Effort) -> Result<Rows, EngineError> {
        self.connection.query(sql, effort)
    }

    fn execute(&mut self, sql: &str) -> Result<u64, EngineError> {
        self.connection.execute(sql)
    }

    fn append(&mut self, table: &str, rows: &arrow::array::RecordBatch) -> Result<(), EngineError> {
        if table == "tique_aborted" {
            self.aborts.send(()).unwrap_or_default();
            std::thread::sleep(Duration::from_millis(500));
        }
        self.connection.append(table, rows)
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.connection.sync()
    }
}

#[test]
fn who_has_priority_is_not_refused_by_one_that_is_being_refused() {
    let (aborts, aborting) = std::sync::mpsc::channel();
    let engine = SlowToAbort { engine: DataFusionEngine::in_memory().unwrap(), aborts };
    let database = Database::open(Arc::new(engine), Options::default()).unwrap();
    let (mut long, mut short) = (database.session().unwrap(), database.session().unwrap());
    short.execute("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)").unwrap();
    long.execute("SET tique.priority = high; BEGIN; UPDATE t SET v = v + 10").unwrap();
    short.execute("UPDATE t SET v = v + 1 WHERE k = 2").unwrap();
    assert_eq!(state(&mut long, "COMMIT"), SqlState::SerializationFailure);
    aborting.recv().unwrap();
    long.execute("BEGIN; UPDATE t SET v = v + 10").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let refused = state(&mut short, "BEGIN; UPDATE t SET v = v + 1 WHERE k = 2; COMMIT");
            assert_eq!(refused, SqlState::SerializationFailure, "the rows are reserved");
        });
        aborting.recv().unwrap();
        long.execute("COMMIT").unwrap();
    });
    assert_eq!(rows(&mut long, "SELECT v FROM t ORDER BY k"), ["10", "11"]);
}

#[test]
fn a_reservation_ends_with_its_session() {
    let database = database(Options::default());
    let (mut long, mut short) = (database.session().unwrap(), database.session().unwrap());
    short.execute("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)").unwrap();
    long.set_priority(Priority::High);
    long.execute("BEGIN; UPDATE t SET v = v + 10").unwrap();
    short.execute("UPDATE t SET v = v + 1").unwrap();
    assert_eq!(state(&mut long, "COMMIT"), SqlState::SerializationFailure);
    assert_eq!(state(&mut short, "BEGIN; UPDATE t SET v = 9; COMMIT"), SqlState::SerializationFailure);
    drop(long);
    short.execute("UPDATE t SET v = v + 1").unwrap();
    assert_eq!(rows(&mut short, "SELECT v FROM t"), ["2"]);
}

#[test]
fn a_snapshot_is_read_the_same_over_checkpoints() {
    for options in all_options() {
        let database = database(options);
        let (mut reader, mut writer) = (database.session().unwrap(), database.session().unwrap());
        writer.execute("CREATE TABLE t (k int PRIMARY KEY, v int)").unwrap();
        writer.execute("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)").unwrap();
        reader.execute("BEGIN").unwrap();
        let before = ["1|0", "2|0", "3|0"];
        assert_eq!(rows(&mut reader, "SELECT * FROM t ORDER BY k"), before);
        for round in 1..=3 {
            writer.execute(&format!("UPDATE t SET v = {round}; DELETE FROM t WHERE k = {round}")).unwrap();
            writer.execute(&format!("INSERT INTO t VALUES ({}, {round})", round + 10)).unwrap();
            database.checkpoint().unwrap();
            assert_eq!(rows(&mut reader, "SELECT * FROM t ORDER BY k"), before, "{options:?}");
            assert_eq!(rows(&mut reader, "SELECT v FROM t WHERE k = 1"), ["0"], "{options:?}");
            assert!(rows(&mut reader, "SELECT v FROM t WHERE k = 11").is_empty(), "{options:?}");
        }
        reader.execute("COMMIT").unwrap();
        database.checkpoint().unwrap();
        assert_eq!(database.cached_versions(), 0);
        // The last round's UPDATE came before its INSERT.
        assert_eq!(rows(&mut reader, "SELECT * FROM t ORDER BY k"), ["11|3", "12|3", "13|3"]);
    }
}
