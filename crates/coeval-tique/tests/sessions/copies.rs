// SPDX-License-Identifier: Apache-2.0
//! Analytical statements from copies of snapshots. Where the engine has none the same statements read without them.

use super::*;
use coeval_tique::{Connection, Copying, Dialect, Effort, EngineError};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An engine that notes the first words of statements about temporary tables, and fails them while it is told to.
struct Watched {
    engine: Arc<dyn Engine>,
    seen: Arc<Mutex<Vec<String>>>,
    fails: Arc<AtomicBool>,
}

struct WatchedConnection {
    connection: Box<dyn Connection>,
    seen: Arc<Mutex<Vec<String>>>,
    fails: Arc<AtomicBool>,
}

impl Engine for Watched {
    fn dialect(&self) -> &Dialect {
        self.engine.dialect()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        let connection = self.engine.connect()?;
        let (seen, fails) = (Arc::clone(&self.seen), Arc::clone(&self.fails));
        Ok(Box::new(WatchedConnection { connection, seen, fails }))
    }
}

impl Connection for WatchedConnection {
    fn query(&mut self, sql: &str, effort: Effort) -> Result<Rows, EngineError> {
        self.connection.query(sql, effort)
    }

    fn execute(&mut self, sql: &str) -> Result<u64, EngineError> {
        self.connection.execute(sql)
    }

    fn append(&mut self, table: &str, rows: &arrow::array::RecordBatch) -> Result<(), EngineError> {
        self.connection.append(table, rows)
    }

    fn temporary(&mut self, sql: &str) -> Result<u64, EngineError> {
        self.seen.lock().push(sql.split(' ').next().unwrap_or_default().to_owned());
        if self.fails.load(Ordering::SeqCst) && !sql.starts_with("DROP") {
            // What fails half-way: the copy is there and is not what it should be.
            drop(self.connection.temporary(sql));
            return Err(EngineError::refused("told to fail"));
        }
        self.connection.temporary(sql)
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.connection.sync()
    }
}

fn options() -> Options {
    Options { checkpoint_at: 0, ..Options::default() }
}

/// The versions that are seen, the copy by them and the storage, and the end of the first.
const MADE: &[&str] = &["CREATE", "CREATE", "DROP"];

#[test]
fn a_copy_is_made_once_brought_up_to_date_and_made_anew() {
    if !needs_monetdb() {
        return;
    }
    let library = std::env::var("COEVAL_TIQUE_MONETDB").unwrap();
    let engine: Arc<dyn Engine> = Arc::new(MonetDbEngine::open(Path::new(&library), None).unwrap());
    assert_eq!(engine.dialect().copying, Copying::Worthwhile);
    let (seen, fails) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let watched = Watched { engine, seen: Arc::clone(&seen), fails: Arc::clone(&fails) };
    let database = Database::open(Arc::new(watched), options()).unwrap();
    let mut writer = database.session().unwrap();
    let mut session = database.session().unwrap();
    let mut reads = |sql: &str, expected: &str, statements: &[&str]| {
        assert_eq!(rows(&mut session, sql), [expected], "{sql}");
        assert_eq!(std::mem::take(&mut *seen.lock()), statements, "{sql}");
    };
    writer.execute("CREATE TABLE t (k int PRIMARY KEY, v int, w text)").unwrap();
    writer.execute("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')").unwrap();
    reads("SELECT sum(v) FROM t", "60", MADE);
    reads("SELECT sum(x.v + y.v) FROM t AS x JOIN t AS y USING (k)", "120", &[]);
    // By key, and by a change, nothing is copied.
    reads("SELECT v FROM t WHERE k = 1", "10", &[]);
    writer.execute("UPDATE t SET v = v + 1 WHERE v > 10").unwrap();
    reads("SELECT sum(v) FROM t", "62", &["DELETE", "INSERT"]);
    writer.execute("DELETE FROM t WHERE k = 1").unwrap();
    writer.execute("INSERT INTO t VALUES (1, 5, 'd')").unwrap();
    reads("SELECT count(v) FROM t", "3", &["DELETE", "INSERT"]);
    reads("SELECT max(w) FROM t WHERE EXISTS (SELECT * FROM t)", "d", &[&["DROP"][..], MADE].concat());
    reads("SELECT v FROM t WHERE w = 'd'", "5", &[]);
    // A checkpoint that moved what the copy lacks.
    writer.execute("UPDATE t SET v = 6 WHERE k = 1").unwrap();
    database.checkpoint().unwrap();
    writer.execute("UPDATE t SET v = 7 WHERE k = 1").unwrap();
    reads("SELECT v FROM t WHERE w = 'd'", "7", &[&["DROP"][..], MADE].concat());
    // One behind which the storage is as good.
    database.checkpoint().unwrap();
    reads("SELECT v FROM t WHERE w = 'd'", "7", &["DROP"]);
    writer.execute("UPDATE t SET v = 8 WHERE k = 1").unwrap();
    reads("SELECT v FROM t WHERE w = 'd'", "8", MADE);
    // What fails, and is half done, is not read.
    writer.execute("UPDATE t SET v = 9 WHERE k = 1").unwrap();
    fails.store(true, Ordering::SeqCst);
    reads("SELECT v FROM t WHERE w = 'd'", "9", &["DELETE", "DROP"]);
    reads("SELECT v FROM t WHERE w = 'd'", "9", &["CREATE"]);
    fails.store(false, Ordering::SeqCst);
    reads("SELECT v FROM t WHERE w = 'd'", "9", MADE);
    // A table of the same name is another table.
    writer.execute("DROP TABLE t; CREATE TABLE t (k int PRIMARY KEY, v int, w text)").unwrap();
    writer.execute("INSERT INTO t VALUES (1, 100, 'd')").unwrap();
    reads("SELECT v FROM t WHERE w = 'd'", "100", &[&["DROP"][..], MADE].concat());
    reads("SELECT count(*) FROM t x (a, b, c) WHERE c = 'd'", "1", &[]);
    // What a change writes is a query of the application's.
    writer.execute("CREATE TABLE u (k int PRIMARY KEY, v int); INSERT INTO u VALUES (5, 5)").unwrap();
    writer.execute("UPDATE t SET v = 101 WHERE k = 1").unwrap();
    reads("INSERT INTO u SELECT k, v FROM t WHERE v > 0 RETURNING v", "101", &["DELETE", "INSERT"]);
}

/// Statements that name columns in many ways.
const QUERIES: [&str; 8] = [
    "SELECT count(*) FROM a",
    "SELECT g, sum(v), min(note), max(note) FROM a GROUP BY g ORDER BY g",
    "SELECT * FROM a ORDER BY x, y",
    "SELECT a.note, b.note FROM a JOIN b ON a.v = b.k ORDER BY 1, 2",
    "SELECT count(*) FROM a AS p (e, f, h, i, j), b WHERE b.k = p.h",
    "SELECT b.k FROM b WHERE EXISTS (SELECT * FROM a WHERE a.g = b.k AND a.note > 'm') ORDER BY 1",
    "WITH s AS (SELECT g, sum(v) AS n FROM a GROUP BY g) SELECT s.g, s.n, b.note FROM s LEFT JOIN b ON b.k = s.g ORDER BY 1",
    "SELECT count(*) FROM a NATURAL JOIN (SELECT g, v FROM a WHERE x > 0) AS z",
];

fn change(random: &mut StdRng) -> String {
    let (x, y, n) = (random.random_range(-2..8), random.random_range(0..6), random.random_range(0..100));
    match random.random_range(0..9) {
        0..=2 => format!("INSERT INTO a VALUES ({x}, {y}, {n}, {}, 'n{n}') ON CONFLICT DO NOTHING", n % 7),
        3 => format!("UPDATE a SET v = v + 1, note = note || '.' WHERE g = {}", n % 7),
        4 => format!("UPDATE a SET g = {} WHERE x = {x}", n % 7),
        5 => format!("DELETE FROM a WHERE x = {x} AND y = {y}"),
        6 => format!("INSERT INTO b VALUES ({n}, 'b{n}') ON CONFLICT (k) DO UPDATE SET note = b.note || 'x'"),
        7 => format!("DELETE FROM b WHERE k = {n}"),
        _ => format!("UPDATE b SET note = 'u{n}' WHERE k < {n}"),
    }
}

#[test]
fn copies_give_what_a_statement_without_them_gives() {
    for layout in [Layout::Stamped, Layout::Joined] {
        copies_give_the_same_in(layout);
    }
}

fn copies_give_the_same_in(layout: Layout) {
    let database = database(Options { layout, ..options() });
    let mut writer = database.session().unwrap();
    let mut session = database.session().unwrap();
    writer
        .execute(
            "CREATE TABLE a (x int, y int, v int, g int, note text, PRIMARY KEY (x, y)) WITH (key = 'concatenated');
             CREATE TABLE b (k int PRIMARY KEY, note text)",
        )
        .unwrap();
    let mut random = StdRng::seed_from_u64(12);
    for round in 0..100 {
        session.execute("BEGIN").unwrap();
        rows(&mut session, "SELECT count(*) FROM b WHERE k = -1");
        for _ in 0..random.random_range(0..3) {
            writer.execute(&change(&mut random)).unwrap();
        }
        if round % 11 == 0 {
            database.checkpoint().unwrap();
        }
        if random.random_range(0..5) == 0 {
            // Writes of its own, seen or not yet sent.
            session.execute(&change(&mut random)).unwrap();
        }
        let query = QUERIES[random.random_range(0..QUERIES.len())];
        let mut read = |formulation: &str| {
            session.execute(&format!("SET tique.formulation = '{formulation}'")).unwrap();
            rows(&mut session, query)
        };
        assert_eq!(read("copied"), read("anti_join"), "{query}, round {round}, {layout:?}");
        session.execute("ROLLBACK").unwrap();
    }
}

#[test]
fn copies_are_of_one_snapshot_while_others_write_and_checkpoints_run() {
    for layout in [Layout::Stamped, Layout::Joined] {
        copies_are_of_one_snapshot_in(layout);
    }
}

fn copies_are_of_one_snapshot_in(layout: Layout) {
    let database = database(Options { layout, ..options() });
    let mut session = database.session().unwrap();
    session
        .execute(
            "CREATE TABLE a (k int PRIMARY KEY, n int, note text); CREATE TABLE b (k int PRIMARY KEY, n int)",
        )
        .unwrap();
    let list = |f: &dyn Fn(i32) -> String| (0..20).map(f).collect::<Vec<_>>().join(", ");
    session.execute(&format!("INSERT INTO a VALUES {}", list(&|k| format!("({k}, 100, 'n100')")))).unwrap();
    session.execute(&format!("INSERT INTO b VALUES {}", list(&|k| format!("({k}, 100)")))).unwrap();
    // Others write as long as anybody reads. How many statements that are is up to the machine, but for the least.
    let until = Instant::now() + Duration::from_secs(2);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (database, ended) = (&database, &ended);
            scope.spawn(move || {
                let (mut session, mut random) = (database.session().unwrap(), StdRng::seed_from_u64(writer));
                while !ended.load(Ordering::SeqCst) {
                    // What leaves a comes to b, or goes with a row that comes back later.
                    let (from, to) = (random.random_range(0..20), random.random_range(0..20));
                    let sql = format!(
                        "BEGIN; UPDATE a SET n = n - 1, note = 'n' || (n - 1) WHERE k = {from}; \
                         UPDATE b SET n = n + 1 WHERE k = {to}; COMMIT"
                    );
                    if session.execute(&sql).is_err() {
                        session.execute("ROLLBACK").unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(150));
                database.checkpoint().unwrap();
            }
        });
        let read = || {
            let mut session = database.session().unwrap();
            let mut count = 0;
            while Instant::now() < until || count < 6 {
                let sums = "SELECT sum(n) FROM (SELECT n FROM a UNION ALL SELECT n FROM b) AS t";
                assert_eq!(rows(&mut session, sums), ["4000"]);
                let odd = "SELECT count(*) FROM a WHERE note <> 'n' || n";
                assert_eq!(rows(&mut session, odd), ["0"]);
                count += 1;
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        let results = readers.map(|reader| reader.join());
        // Also after a wrong answer, which is told when nobody writes any more.
        ended.store(true, Ordering::SeqCst);
        for result in results {
            result.unwrap();
        }
    });
}
