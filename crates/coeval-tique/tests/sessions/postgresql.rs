// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL goes away, whole or one connection of it, at each step of what is done there; what it alone has.
//!
//! On a server of the test's own, if `COEVAL_TIQUE_POSTGRESQL` names the driver and PostgreSQL 15 is installed.

use crate::cluster::Cluster;
use crate::kills::{AFTER, BEFORE, CHANGE, CONTENTS, check_alive, fill, is_one_change};
use crate::proxy::Proxy;
use crate::{all_options, rows, state, tag};
use arrow::array::RecordBatch;
use coeval_tique::{
    AdbcEngine, Certification, Connection, Database, Dialect, Effort, Engine, EngineError, EngineErrorKind,
    Options, Rows, SqlState,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A server, and the driver for it.
struct Place {
    cluster: Cluster,
    library: String,
}

impl Place {
    fn find() -> Option<Arc<Self>> {
        let library = std::env::var("COEVAL_TIQUE_POSTGRESQL").ok()?;
        Some(Arc::new(Self { cluster: Cluster::start()?, library }))
    }

    fn engine(&self, database: &str) -> Result<AdbcEngine, EngineError> {
        AdbcEngine::postgresql(Path::new(&self.library), &self.cluster.address(database))
    }

    /// A new database.
    fn new_database(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tique_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.run(&format!("CREATE DATABASE {name}"));
        name
    }

    /// TiQuE in a new database, with checkpoints when they are asked for.
    fn database(&self) -> Database {
        let engine = self.engine(&self.new_database()).unwrap();
        Database::open(Arc::new(engine), Options { checkpoint_at: 0, ..Options::default() }).unwrap()
    }

    /// Ends all connections to a database but the owner's session.
    fn end_connections(&self, database: &str) {
        self.run(&format!(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' \
             AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = '{database}')"
        ));
    }

    fn run(&self, sql: &str) {
        self.engine("postgres").unwrap().connect().unwrap().execute(sql).unwrap();
    }
}

/// What goes away.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goes {
    Server,
    Connections,
}

/// When it does: of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Before,
    After,
}

/// What goes away, when, and behind how many changes from now on: none does at zero or less.
struct Fate {
    place: Arc<Place>,
    database: String,
    goes: Goes,
    moment: Moment,
    left: AtomicI64,
}

impl Fate {
    /// Whether it has come to pass.
    fn has_struck(&self) -> bool {
        self.left.swap(0, Ordering::SeqCst) < 0
    }

    fn strike_at(&self, moment: Moment, left: i64) {
        if moment == self.moment && left == 1 {
            match self.goes {
                Goes::Server => self.place.cluster.kill(),
                Goes::Connections => self.place.end_connections(&self.database),
            }
            self.left.store(-1, Ordering::SeqCst);
        }
    }
}

/// An engine with a fate.
struct Fated {
    engine: AdbcEngine,
    fate: Arc<Fate>,
}

struct FatedConnection {
    connection: Box<dyn Connection>,
    fate: Arc<Fate>,
}

impl Engine for Fated {
    fn dialect(&self) -> &Dialect {
        self.engine.dialect()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        let connection = self.engine.connect()?;
        Ok(Box::new(FatedConnection { connection, fate: Arc::clone(&self.fate) }))
    }

    fn is_lost(&self) -> bool {
        self.engine.is_lost()
    }

    fn retire(&self) -> bool {
        self.engine.retire()
    }
}

impl FatedConnection {
    fn change<T>(&mut self, change: impl FnOnce(&mut dyn Connection) -> T) -> T {
        let left = self.fate.left.load(Ordering::SeqCst);
        if left > 0 {
            self.fate.left.store(left - 1, Ordering::SeqCst);
        }
        self.fate.strike_at(Moment::Before, left);
        let outcome = change(&mut *self.connection);
        self.fate.strike_at(Moment::After, left);
        outcome
    }
}

impl Connection for FatedConnection {
    fn query(&mut self, sql: &str, effort: Effort) -> Result<Rows, EngineError> {
        self.connection.query(sql, effort)
    }

    fn execute(&mut self, sql: &str) -> Result<u64, EngineError> {
        self.change(|connection| connection.execute(sql))
    }

    fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<(), EngineError> {
        self.change(|connection| connection.append(table, rows))
    }

    fn append_all(&mut self, appends: &[(&str, &RecordBatch)]) -> Result<(), EngineError> {
        self.change(|connection| connection.append_all(appends))
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.connection.sync()
    }

    fn is_lost(&self) -> bool {
        self.connection.is_lost()
    }
}

/// The layouts and ways to certify that differ in what is written.
fn options() -> Vec<Options> {
    all_options().into_iter().step_by(2).collect()
}

/// Runs something at whose each step something goes away, and looks at the database behind it, which has been opened again if
/// that was needed: with what was told, and where it happened. Looks once more when it has been opened again in any case.
fn at_each_step(
    place: &Arc<Place>,
    (goes, options, setup): (Goes, Options, &str),
    run: impl Fn(&Database) -> Result<(), SqlState>,
    look: impl Fn(&Database, Result<(), SqlState>, &str),
    look_again: impl Fn(&Database, &str),
) {
    for moment in [Moment::Before, Moment::After] {
        for step in 1..40 {
            let name = place.new_database();
            let fate = Fate {
                place: Arc::clone(place),
                database: name.clone(),
                goes,
                moment,
                left: AtomicI64::new(0),
            };
            let fate = Arc::new(fate);
            let engine = Fated { engine: place.engine(&name).unwrap(), fate: Arc::clone(&fate) };
            let database = Database::open(Arc::new(engine), options).unwrap();
            fill(&database);
            database.session().unwrap().execute(setup).unwrap();
            fate.left.store(step, Ordering::SeqCst);
            let outcome = run(&database);
            let is_over = !fate.has_struck();
            let what = format!("step {step}, {moment:?}, {goes:?}, {options:?}: {outcome:?}");
            if goes == Goes::Server && !is_over {
                assert!(database.session().is_err(), "{what}: the server is not there");
                place.cluster.start_again();
                let refused = database.session().map(drop).unwrap_err();
                assert_eq!(refused.state, SqlState::ConnectionFailure, "{what}: unlogged tables are empty");
                assert!(database.has_stopped(), "{what}");
            }
            let open_again = |database: &Database| {
                assert!(database.retire(), "{what}");
                Database::open(Arc::new(place.engine(&name).unwrap()), options).unwrap()
            };
            let database = if database.has_stopped() { open_again(&database) } else { database };
            look(&database, outcome, &what);
            look_again(&open_again(&database), &what);
            if is_over {
                // One if versions and marker are one change, and nothing is before them.
                assert!(step > if is_one_change(options) { 1 } else { 3 }, "{what}: too few steps");
                break;
            }
            assert!(step < 39, "{what}: too many steps");
        }
    }
}

#[test]
fn a_commit_is_whole_or_absent_wherever_the_server_or_the_connections_end() {
    let Some(place) = Place::find() else { return };
    for options in options() {
        for goes in [Goes::Server, Goes::Connections] {
            let commit = |database: &Database| {
                let mut session = database.session().unwrap();
                let outcome = session.execute(CHANGE).map(drop).map_err(|error| error.state);
                if outcome.is_err() && !database.has_stopped() {
                    session.execute("ROLLBACK").unwrap();
                    assert_eq!(rows(&mut session, CONTENTS), BEFORE, "the session connects again");
                }
                outcome
            };
            let look = |database: &Database, outcome: Result<(), SqlState>, what: &str| {
                let mut session = database.session().unwrap();
                let after = rows(&mut session, CONTENTS);
                let others = rows(&mut session, "SELECT count(*) FROM u");
                assert_eq!(others[0] == "1", after == AFTER, "{what}: both tables");
                match outcome {
                    Ok(()) => assert_eq!(after, AFTER, "{what}"),
                    Err(SqlState::TransactionResolutionUnknown) => {
                        assert!(after == BEFORE || after == AFTER, "{what}: {after:?}");
                    }
                    Err(SqlState::ConnectionFailure | SqlState::CannotConnectNow) => {
                        assert_eq!(after, BEFORE, "{what}");
                    }
                    Err(other) => panic!("{what}: {other:?}"),
                }
                check_alive(database);
            };
            let look_again = |database: &Database, what: &str| {
                let new = rows(&mut database.session().unwrap(), "SELECT v FROM t WHERE k = 99");
                assert_eq!(new, ["new"], "{what}");
            };
            at_each_step(&place, (goes, options, ""), commit, look, look_again);
        }
    }
}

#[test]
fn a_checkpoint_changes_no_snapshot_wherever_the_server_or_the_connections_end() {
    let Some(place) = Place::find() else { return };
    for options in options() {
        for goes in [Goes::Server, Goes::Connections] {
            let checkpoint = |database: &Database| database.checkpoint().map_err(|error| error.state);
            let look = |database: &Database, _: Result<(), SqlState>, what: &str| {
                assert_eq!(rows(&mut database.session().unwrap(), CONTENTS), BEFORE, "{what}");
                check_alive(database);
            };
            let look_again = |database: &Database, what: &str| {
                let old = rows(&mut database.session().unwrap(), "SELECT * FROM t WHERE k < 99 ORDER BY k");
                assert_eq!(old, BEFORE, "{what}");
            };
            at_each_step(&place, (goes, options, ""), checkpoint, look, look_again);
        }
    }
}

#[test]
fn a_definition_is_there_or_not_wherever_the_server_or_the_connections_end() {
    let Some(place) = Place::find() else { return };
    for sql in ["CREATE TABLE n (k int PRIMARY KEY); CREATE TABLE m (k int PRIMARY KEY)", "DROP TABLE u"] {
        for goes in [Goes::Server, Goes::Connections] {
            let define = |database: &Database| {
                database.session().unwrap().execute(sql).map(drop).map_err(|error| error.state)
            };
            let look = |database: &Database, outcome: Result<(), SqlState>, what: &str| {
                let mut session = database.session().unwrap();
                session
                    .execute("DROP TABLE IF EXISTS n; CREATE TABLE n (v text, k int PRIMARY KEY)")
                    .unwrap();
                session.execute("CREATE TABLE IF NOT EXISTS u (k int PRIMARY KEY)").unwrap();
                let left = rows(&mut session, "SELECT k FROM u");
                let may_be_gone = sql.starts_with("DROP");
                assert!(left == ["1"] || (may_be_gone && left.is_empty()), "{what}: {left:?}");
                if outcome.is_ok() {
                    assert_eq!(left.is_empty(), may_be_gone, "{what}");
                }
                assert_eq!(tag(&mut session, "INSERT INTO n VALUES ('v', 5)"), "INSERT 0 1", "{what}");
                assert_eq!(tag(&mut session, "INSERT INTO u VALUES (6)"), "INSERT 0 1", "{what}");
            };
            // Nothing that was noted of a definition that failed is carried out later.
            let look_again = |database: &Database, what: &str| {
                let mut session = database.session().unwrap();
                assert_eq!(rows(&mut session, "SELECT k FROM n"), ["5"], "{what}");
                assert_eq!(rows(&mut session, "SELECT k FROM u WHERE k = 6"), ["6"], "{what}");
            };
            let setup = "INSERT INTO u VALUES (1)";
            at_each_step(&place, (goes, Options::default(), setup), define, look, look_again);
        }
    }
}

#[test]
fn who_began_before_the_server_was_killed_does_not_commit_behind_it() {
    let Some(place) = Place::find() else { return };
    for options in options() {
        let name = place.new_database();
        let database = Database::open(Arc::new(place.engine(&name).unwrap()), options).unwrap();
        fill(&database);
        let mut late = database.session().unwrap();
        late.execute("BEGIN; UPDATE t SET v = 'late' WHERE k = 1").unwrap();
        database.session().unwrap().execute("UPDATE t SET v = 'first' WHERE k = 1").unwrap();
        // With the server go the write sets that would refuse it.
        place.cluster.kill();
        place.cluster.start_again();
        let expected = match options.certification {
            Certification::InEngine => SqlState::ConnectionFailure,
            Certification::InProcess => SqlState::SerializationFailure,
        };
        assert_eq!(state(&mut late, "COMMIT"), expected, "{options:?}");
        assert!(database.retire() && database.has_stopped());
        let database = Database::open(Arc::new(place.engine(&name).unwrap()), options).unwrap();
        assert_eq!(rows(&mut database.session().unwrap(), "SELECT v FROM t WHERE k = 1"), ["first"]);
    }
}

#[test]
fn an_engine_that_was_retired_does_nothing_beside_the_next_owner() {
    let Some(place) = Place::find() else { return };
    let name = place.new_database();
    let engine = place.engine(&name).unwrap();
    let mut connection = engine.connect().unwrap();
    let refused = place.engine(&name).map(drop).unwrap_err();
    assert!(refused.message.contains("another process owns"), "{refused}");
    connection.execute("CREATE TABLE mine (k int)").unwrap();
    assert!(!engine.is_lost() && engine.retire() && engine.is_lost());
    assert_eq!(engine.connect().map(drop).unwrap_err().kind, EngineErrorKind::Lost);
    let next = place.engine(&name).unwrap();
    let lost = connection.execute("INSERT INTO mine VALUES (1)").unwrap_err();
    assert_eq!(lost.kind, EngineErrorKind::Gone, "{lost}");
    assert!(connection.is_lost());
    let rows = next.connect().unwrap().query("SELECT * FROM mine", Effort::Point).unwrap();
    assert_eq!(rows.count(), 0);
}

#[test]
fn what_a_lost_connection_was_asked_for_does_not_happen_later() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::before(place.cluster.port);
    let address = place.cluster.address(&place.new_database());
    let through = address.replace(&place.cluster.port.to_string(), &proxy.port.to_string());
    let engine = AdbcEngine::postgresql(Path::new(&place.library), &through).unwrap();
    let mut other = engine.connect().unwrap();
    other.execute("CREATE TABLE late (k int)").unwrap();
    let mut connection = engine.connect().unwrap();
    let mut ask = |sql: &str| other.query(sql, Effort::Point).unwrap().count();
    ask("SELECT pg_advisory_lock(7)::text");
    let insert = "INSERT INTO late SELECT 1 FROM pg_advisory_xact_lock(7)";
    let asked = std::thread::spawn(move || connection.execute(insert));
    while ask("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted") == 0 {}
    proxy.cut_last();
    assert_eq!(asked.join().unwrap().unwrap_err().kind, EngineErrorKind::Gone);
    assert!(!engine.is_lost());
    // The lock is given to the insert, if that waits still, and comes back with its end.
    ask("SELECT pg_advisory_unlock(7)");
    ask("SELECT pg_advisory_lock(7)::text");
    assert_eq!(ask("SELECT * FROM late"), 0, "the server went on");
}

#[test]
fn what_the_server_refuses_is_not_a_connection_that_is_lost() {
    let Some(place) = Place::find() else { return };
    let name = place.new_database();
    let engine = place.engine(&name).unwrap();
    let mut connection = engine.connect().unwrap();
    let refusals = [
        "SELECT * FROM nowhere",
        "SELECT 1 / 0",
        // Found while the rows are already on their way.
        "SELECT 1 / (50000 - n) FROM generate_series(1, 60000) AS n",
        "no SQL",
    ];
    for sql in refusals {
        let refused = connection.query(sql, Effort::Point).map(drop).unwrap_err();
        assert_eq!(refused.kind, EngineErrorKind::Refused, "{sql}: {refused}");
        let refused = connection.execute(sql).map(drop).unwrap_err();
        assert_eq!(refused.kind, EngineErrorKind::Refused, "{sql}: {refused}");
    }
    assert!(!connection.is_lost());
    assert_eq!(connection.query("SELECT 1", Effort::Point).unwrap().count(), 1);
    place.end_connections(&name);
    let lost = connection.query("SELECT 1", Effort::Point).map(drop).unwrap_err();
    assert_eq!(lost.kind, EngineErrorKind::Lost, "{lost}");
    assert!(connection.is_lost() && !engine.is_lost());
    assert_eq!(engine.connect().unwrap().query("SELECT 1", Effort::Point).unwrap().count(), 1);
}

/// 3.1.4: what need not outlive the server is not written ahead; what commits depend on is.
#[test]
fn the_tables_of_write_sets_and_running_transactions_are_unlogged() {
    let Some(place) = Place::find() else { return };
    let engine = Arc::new(place.engine(&place.new_database()).unwrap());
    let database = Database::open(engine.clone(), Options::default()).unwrap();
    database.session().unwrap().execute("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
    let mut connection = engine.connect().unwrap();
    let sql = "SELECT relname || '' FROM pg_class WHERE relkind = 'r' AND relname ~ '^(tique|t)_' \
               AND relpersistence = 'PERSISTENCE' ORDER BY 1";
    let mut kept = |persistence: &str| {
        crate::text(&connection.query(&sql.replace("PERSISTENCE", persistence), Effort::Point).unwrap())
    };
    assert_eq!(kept("u"), ["tique_aborted", "tique_began", "tique_committing", "tique_write_sets"]);
    assert_eq!(kept("p"), ["t_cache", "t_storage", "tique_committed", "tique_tables"]);
}

/// A table of a hundred pages is not read for one row.
#[test]
fn rows_are_found_by_an_index_over_the_key() {
    let Some(place) = Place::find() else { return };
    let database = place.database();
    let mut session = database.session().unwrap();
    let tables = [
        ("CREATE TABLE one (k int PRIMARY KEY, n int)", "one", "k = 77"),
        ("CREATE TABLE two (k int, n int, PRIMARY KEY (n, k))", "two", "k = 77 AND n = 77"),
        (
            "CREATE TABLE text (k int, n int, PRIMARY KEY (n, k)) WITH (key = 'concatenated')",
            "text",
            "k = 77 AND n = 77",
        ),
    ];
    for (create, table, condition) in tables {
        session.execute(create).unwrap();
        let fill = format!("INSERT INTO {table} (k, n) SELECT n, n FROM generate_series(1, 20000) AS s (n)");
        session.execute(&fill).unwrap();
        database.checkpoint().unwrap();
        session.execute(&format!("UPDATE {table} SET n = n WHERE k < 9")).unwrap();
        for formulation in ["ranking", "anti_join"] {
            session.execute(&format!("SET tique.formulation = '{formulation}'")).unwrap();
            let sql = format!("SELECT k FROM {table} WHERE {condition}");
            assert_eq!(rows(&mut session, &sql), ["77"], "{formulation}");
            let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
            assert!(plan.contains(&format!("{table}_storage_keys")), "{formulation}: {plan}");
        }
    }
}

/// The names and keys that PostgreSQL would cut or refuse later.
#[test]
fn names_and_keys_have_lengths_that_it_takes() {
    let Some(place) = Place::find() else { return };
    let database = place.database();
    let mut session = database.session().unwrap();
    for (length, expected) in
        [(50, None), (51, Some(SqlState::NameTooLong)), (63, Some(SqlState::NameTooLong))]
    {
        let create = format!("CREATE TABLE {} (k int PRIMARY KEY)", "n".repeat(length));
        assert_eq!(session.execute(&create).err().map(|error| error.state), expected, "{length}");
    }
    session.execute("CREATE TABLE t (k text PRIMARY KEY, n int); INSERT INTO t VALUES ('a', 1)").unwrap();
    // Letters that do not repeat: PostgreSQL presses others together.
    let random = |count: usize| -> String {
        let mut state = 1_u64;
        let mut letter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'0' + u8::try_from((state >> 33) % 75).unwrap())
        };
        (0..count).map(|_| letter()).filter(|letter| !matches!(letter, '\\' | '.')).collect()
    };
    let insert = |key: &str| format!("INSERT INTO t VALUES ('{key}', 2)");
    assert_eq!(state(&mut session, &insert(&random(2_700))), SqlState::ProgramLimitExceeded);
    let update = format!("UPDATE t SET k = '{}'", random(2_700));
    assert_eq!(state(&mut session, &update), SqlState::ProgramLimitExceeded);
    session.execute(&insert(&random(2_600))).unwrap();
    database.checkpoint().unwrap();
    assert_eq!(rows(&mut session, "SELECT n FROM t ORDER BY n"), ["1", "2"]);
}
