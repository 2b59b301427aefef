// SPDX-License-Identifier: Apache-2.0
//! Group commit: who waits for a leader commits with the others.

use crate::engine::{Appends, Connection, DataFusionEngine, Dialect, Effort, Engine, EngineError, Rows};
use crate::interrupt::{Interrupt, interruptible, is_interrupted};
use crate::{Certification, Database, Options, SqlState};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use parking_lot::Mutex;
use std::sync::Arc;

/// What an engine was asked for.
type Calls = Arc<Mutex<Vec<String>>>;

/// An engine that notes appends, certifications and syncs, and what is taken back of one table; it refuses some rows, and does not get to
/// writing others.
struct Noting {
    engine: DataFusionEngine,
    dialect: Dialect,
    calls: Calls,
}

impl Noting {
    fn new(appends: Appends, calls: &Calls) -> Self {
        let engine = DataFusionEngine::in_memory().unwrap();
        let dialect = Dialect { appends, ..engine.dialect().clone() };
        Self { engine, dialect, calls: Arc::clone(calls) }
    }
}

struct NotingConnection {
    connection: Box<dyn Connection>,
    appends: Appends,
    calls: Calls,
}

/// Refuses rows of a table that has a column which refuses some, and some of which a query keeps the engine.
fn check(table: &str, rows: &RecordBatch) -> Result<(), EngineError> {
    if table != "picky_cache" {
        return Ok(());
    }
    let has = |key: i32| rows.column(0).as_primitive::<Int32Type>().iter().any(|one| one == Some(key));
    if has(3) {
        return Err(EngineError::refused("three is no number"));
    }
    if has(7) { Err(EngineError::busy("somebody counts to seven")) } else { Ok(()) }
}

impl Engine for Noting {
    fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        let connection = self.engine.connect()?;
        let appends = self.dialect.appends;
        Ok(Box::new(NotingConnection { connection, appends, calls: Arc::clone(&self.calls) }))
    }
}

impl Connection for NotingConnection {
    fn query(&mut self, sql: &str, effort: Effort) -> Result<Rows, EngineError> {
        if sql.contains("tique_write_sets") {
            self.calls.lock().push("certify".to_owned());
        }
        self.connection.query(sql, effort)
    }

    fn execute(&mut self, sql: &str) -> Result<u64, EngineError> {
        if sql.starts_with("DELETE FROM \"picky_cache\"") {
            self.calls.lock().push("taken back".to_owned());
        }
        self.connection.execute(sql)
    }

    fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<(), EngineError> {
        check(table, rows)?;
        if is_interrupted() {
            self.calls.lock().push("interrupted".to_owned());
        }
        self.calls.lock().push(format!("{table} {}", rows.num_rows()));
        self.connection.append(table, rows)
    }

    fn append_all(&mut self, appends: &[(&str, &RecordBatch)]) -> Result<(), EngineError> {
        if self.appends == Appends::Together {
            appends.iter().try_for_each(|(table, rows)| check(table, rows))?;
        }
        appends.iter().try_for_each(|(table, rows)| self.append(table, rows))
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.calls.lock().push("sync".to_owned());
        self.connection.sync()
    }
}

/// Runs these statements in sessions of their own, which commit in one batch.
fn in_one_batch(database: &Database, statements: &[String]) -> Vec<crate::Result<()>> {
    let pipeline = &database.shared.pipeline;
    // As if somebody were leading.
    pipeline.queue.lock().has_leader = true;
    std::thread::scope(|scope| {
        let run = |(place, sql): (usize, &String)| {
            let (mut session, sql) = (database.session().unwrap(), sql.clone());
            let running = scope.spawn(move || session.execute(&sql).map(drop));
            while pipeline.queue.lock().waiting.len() <= place && !running.is_finished() {
                std::thread::yield_now();
            }
            running
        };
        let running: Vec<_> = statements.iter().enumerate().map(run).collect();
        pipeline.queue.lock().has_leader = false;
        pipeline.changed.notify_all();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn whose_rows_the_engine_refuses_fails_alone_and_the_others_of_its_batch_commit() {
    for certification in [Certification::InEngine, Certification::InProcess] {
        for appends in [Appends::OneByOne, Appends::Together] {
            let engine = Noting::new(appends, &Calls::default());
            let options = Options { certification, checkpoint_at: 0, ..Options::default() };
            let database = Database::open(Arc::new(engine), options).unwrap();
            let mut session = database.session().unwrap();
            let create = "CREATE TABLE picky (k int PRIMARY KEY); CREATE TABLE t (k int PRIMARY KEY)";
            session.execute(create).unwrap();
            let statements = [1, 2, 3, 4].map(|k| {
                format!("BEGIN; INSERT INTO picky VALUES ({k}); INSERT INTO t VALUES ({k}); COMMIT")
            });
            let outcomes = in_one_batch(&database, &statements);
            let states: Vec<_> =
                outcomes.iter().map(|outcome| outcome.as_ref().err().map(|error| error.state)).collect();
            assert_eq!(states, [None, None, Some(SqlState::EngineRefused), None], "{outcomes:?}");
            let mut keys = |sql: &str| {
                let rows = session.execute(sql).unwrap().remove(0).rows.unwrap();
                let keys = rows
                    .batches
                    .iter()
                    .flat_map(|batch| batch.column(0).as_primitive::<Int32Type>().values());
                keys.copied().collect::<Vec<_>>()
            };
            assert_eq!(keys("SELECT k FROM picky ORDER BY k"), [1, 2, 4]);
            assert_eq!(keys("SELECT k FROM t ORDER BY k"), [1, 2, 4]);
            // Who was refused refuses nobody, and is nowhere.
            assert_eq!(keys("SELECT k FROM t WHERE k = 3"), [0; 0]);
            let outcomes = in_one_batch(&database, &["INSERT INTO t VALUES (3)".to_owned()]);
            assert!(outcomes[0].is_ok(), "{outcomes:?}");
            assert_eq!(keys("SELECT k FROM t ORDER BY k"), [1, 2, 3, 4]);
        }
    }
}

#[test]
fn who_waits_shares_one_certification_one_marker_and_one_sync() {
    const CLIENTS: usize = 5;
    for certification in [Certification::InEngine, Certification::InProcess] {
        let calls = Calls::default();
        let engine = Noting::new(Appends::OneByOne, &calls);
        let options = Options { certification, checkpoint_at: 0, ..Options::default() };
        let database = Database::open(Arc::new(engine), options).unwrap();
        let mut session = database.session().unwrap();
        session.execute("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
        calls.lock().clear();
        let statements: Vec<_> =
            (0..CLIENTS).map(|client| format!("INSERT INTO t VALUES ({client})")).collect();
        assert!(in_one_batch(&database, &statements).iter().all(Result::is_ok));
        let calls = calls.lock();
        let count = |call: &str| calls.iter().filter(|one| *one == call).count();
        let queries = usize::from(certification == Certification::InEngine);
        assert_eq!(count("certify"), queries, "{calls:?}");
        assert_eq!((count(&format!("tique_committed {CLIENTS}")), count("sync")), (1, 1), "{calls:?}");
        assert_eq!(count(&format!("t_cache {CLIENTS}")), 1, "{calls:?}");
        drop(calls);
        let outcomes = session.execute("SELECT k FROM t").unwrap();
        assert_eq!(outcomes[0].rows.as_ref().unwrap().count(), CLIENTS);
    }
}

/// A query that read a table's cache for hours held up each commit to the table, and all later ones, which are seen behind it.
#[test]
fn whose_rows_a_long_query_keeps_the_engine_from_writing_is_turned_away_alone() {
    for certification in [Certification::InEngine, Certification::InProcess] {
        let calls = Calls::default();
        let engine = Noting::new(Appends::Together, &calls);
        let options = Options { certification, checkpoint_at: 0, ..Options::default() };
        let database = Database::open(Arc::new(engine), options).unwrap();
        let mut session = database.session().unwrap();
        let create = "CREATE TABLE picky (k int PRIMARY KEY); CREATE TABLE t (k int PRIMARY KEY)";
        session.execute(create).unwrap();
        calls.lock().clear();
        // In a batch of its own, and of others.
        for others in [vec![], vec![1, 2]] {
            let before = database.shared.cached();
            let keys: Vec<i32> = others.iter().copied().chain([7]).collect();
            let statements: Vec<_> = keys
                .iter()
                .map(|k| format!("BEGIN; INSERT INTO picky VALUES ({k}); INSERT INTO t VALUES ({k}); COMMIT"))
                .collect();
            let outcomes = in_one_batch(&database, &statements);
            for (key, outcome) in keys.iter().zip(&outcomes) {
                let state = outcome.as_ref().err().map(|error| error.state);
                assert_eq!(state, (*key == 7).then_some(SqlState::LockNotAvailable), "{outcomes:?}");
            }
            assert_eq!(database.shared.cached() - before, others.len() * 2, "what was not written counts");
        }
        assert!(
            !calls.lock().iter().any(|call| call == "taken back"),
            "that would wait for the query as well"
        );
        // Who was turned away refuses nobody, and its key is where it was: nowhere.
        let mut rows = |sql: &str| session.execute(sql).unwrap().remove(0).rows.map(|rows| rows.count());
        assert_eq!(rows("SELECT k FROM t WHERE k = 7"), Some(0));
        rows("INSERT INTO t VALUES (7)");
        assert_eq!((rows("SELECT k FROM t"), rows("SELECT k FROM picky")), (Some(3), Some(2)));
    }
}

/// An engine ends waits of whoever is to end, and others' rows are among what a leader writes.
#[test]
fn what_a_leader_does_for_all_does_not_end_with_its_own_statement() {
    for certification in [Certification::InEngine, Certification::InProcess] {
        let calls = Calls::default();
        let engine = Noting::new(Appends::Together, &calls);
        let options = Options { certification, checkpoint_at: 0, ..Options::default() };
        let database = Database::open(Arc::new(engine), options).unwrap();
        let mut session = database.session().unwrap();
        session.execute("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
        calls.lock().clear();
        let interrupt: Interrupt = Arc::new(|| true);
        interruptible(Some(interrupt), || session.execute("INSERT INTO t VALUES (1)")).unwrap();
        let calls = calls.lock();
        let has = |what: &str| calls.iter().any(|call| call == what);
        assert!(has("t_cache 1") && !has("interrupted"), "it leads for itself: {calls:?}");
    }
}
