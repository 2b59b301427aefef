// SPDX-License-Identifier: Apache-2.0
//! Group commit: who waits for a leader commits with the others.

use crate::engine::{Connection, DataFusionEngine, Dialect, Effort, Engine, EngineError, Rows};
use crate::{Certification, Database, Options};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::sync::Arc;

/// What an engine was asked for.
type Calls = Arc<Mutex<Vec<String>>>;

/// An engine that notes appends, certifications and syncs.
struct Noting {
    engine: DataFusionEngine,
    calls: Calls,
}

struct NotingConnection {
    connection: Box<dyn Connection>,
    calls: Calls,
}

impl Engine for Noting {
    fn dialect(&self) -> &Dialect {
        self.engine.dialect()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        let connection = self.engine.connect()?;
        Ok(Box::new(NotingConnection { connection, calls: Arc::clone(&self.calls) }))
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
        self.connection.execute(sql)
    }

    fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<(), EngineError> {
        self.calls.lock().push(format!("{table} {}", rows.num_rows()));
        self.connection.append(table, rows)
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.calls.lock().push("sync".to_owned());
        self.connection.sync()
    }
}

#[test]
fn who_waits_shares_one_certification_one_marker_and_one_sync() {
    const CLIENTS: usize = 5;
    for certification in [Certification::InEngine, Certification::InProcess] {
        let calls = Calls::default();
        let engine = Noting { engine: DataFusionEngine::in_memory().unwrap(), calls: Arc::clone(&calls) };
        let options = Options { certification, checkpoint_at: 0, ..Options::default() };
        let database = Database::open(Arc::new(engine), options).unwrap();
        database.session().unwrap().execute("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
        let pipeline = &database.shared.pipeline;
        // As if somebody were leading.
        pipeline.queue.lock().has_leader = true;
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let mut session = database.session().unwrap();
                scope.spawn(move || session.execute(&format!("INSERT INTO t VALUES ({client})")).unwrap());
            }
            while pipeline.queue.lock().waiting.len() < CLIENTS {
                std::thread::yield_now();
            }
            calls.lock().clear();
            pipeline.queue.lock().has_leader = false;
            pipeline.changed.notify_all();
        });
        let calls = calls.lock();
        let count = |call: &str| calls.iter().filter(|one| *one == call).count();
        let queries = usize::from(certification == Certification::InEngine);
        assert_eq!(count("certify"), queries, "{calls:?}");
        assert_eq!((count(&format!("tique_committed {CLIENTS}")), count("sync")), (1, 1), "{calls:?}");
        assert_eq!(count(&format!("t_cache {CLIENTS}")), 1, "{calls:?}");
        let mut session = database.session().unwrap();
        let outcomes = session.execute("SELECT k FROM t").unwrap();
        assert_eq!(outcomes[0].rows.as_ref().unwrap().count(), CLIENTS);
    }
}
