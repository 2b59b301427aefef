// SPDX-License-Identifier: Apache-2.0
//! The engine goes away at each step of a commit, a checkpoint and a definition; recovery settles what was begun.

use crate::{kill_options, rows, tag};
use coeval_tique::{
    Appends, Certification, Connection, Database, Dialect, Effort, Engine, EngineError, Layout, Options,
    Rows, SqlState, Writes,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// How an engine ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// The call fails, and all behind it; what it asked for was not done.
    Before,
    /// The same, but it was done.
    After,
    /// That call alone fails, and was not done; the engine is well.
    BeforeOnce,
    /// The same, but it was done.
    AfterOnce,
    /// The thread that called panics, once; the engine is well.
    Panic,
}

/// An engine that ends at a change: the one that brings `left` to zero.
struct Mortal {
    engine: Arc<dyn Engine>,
    left: Arc<AtomicI64>,
    end: End,
}

struct MortalConnection {
    connection: Box<dyn Connection>,
    appends: Appends,
    left: Arc<AtomicI64>,
    end: End,
}

impl Engine for Mortal {
    fn dialect(&self) -> &Dialect {
        self.engine.dialect()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        let connection = self.engine.connect()?;
        let appends = self.dialect().appends;
        Ok(Box::new(MortalConnection { connection, appends, left: Arc::clone(&self.left), end: self.end }))
    }
}

impl MortalConnection {
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut dyn Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let gone = || Err(EngineError::gone("killed"));
        match (self.left.fetch_sub(1, Ordering::SeqCst), self.end) {
            (1, End::Panic) => panic!("killed"),
            (1, End::After | End::AfterOnce) => change(&mut *self.connection).and_then(|_| gone()),
            (1, End::BeforeOnce) => gone(),
            (..=1, End::Before | End::After) => gone(),
            _ => change(&mut *self.connection),
        }
    }
}

impl Connection for MortalConnection {
    fn query(&mut self, sql: &str, effort: Effort) -> Result<Rows, EngineError> {
        if matches!(self.end, End::Before | End::After) && self.left.load(Ordering::SeqCst) <= 0 {
            return Err(EngineError::gone("killed"));
        }
        self.connection.query(sql, effort)
    }

    fn execute(&mut self, sql: &str) -> Result<u64, EngineError> {
        self.change(|connection| connection.execute(sql))
    }

    fn append(&mut self, table: &str, rows: &arrow::array::RecordBatch) -> Result<(), EngineError> {
        self.change(|connection| connection.append(table, rows))
    }

    fn append_all(&mut self, appends: &[(&str, &arrow::array::RecordBatch)]) -> Result<(), EngineError> {
        if self.appends == Appends::Together {
            return self.change(|connection| connection.append_all(appends));
        }
        appends.iter().try_for_each(|(table, rows)| self.append(table, rows))
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.change(|connection| connection.sync())
    }
}

const FOREVER: i64 = i64::MAX / 2;

pub(crate) fn open(directory: &Path, end: End, options: Options) -> (Database, Arc<AtomicI64>) {
    let engine = crate::persistent(directory);
    let left = Arc::new(AtomicI64::new(FOREVER));
    let engine = Mortal { engine, left: Arc::clone(&left), end };
    (Database::open(Arc::new(engine), options).unwrap(), left)
}

pub(crate) const CONTENTS: &str = "SELECT * FROM t ORDER BY k";
pub(crate) const BEFORE: [&str; 3] = ["1|a1", "2|b", "4|d"];
pub(crate) const AFTER: [&str; 3] = ["1|a2", "3|c", "4|d"];

/// A database with stable rows, versions of two transactions in the cache, and garbage of one that was rolled back.
pub(crate) fn prepare(directory: &Path, end: End, options: Options) -> (Database, Arc<AtomicI64>) {
    let (database, left) = open(directory, end, options);
    fill(&database);
    (database, left)
}

/// Makes what [`BEFORE`] says.
pub(crate) fn fill(database: &Database) {
    let mut session = database.session().unwrap();
    session
        .execute("CREATE TABLE t (k int PRIMARY KEY, v text); CREATE TABLE u (k int PRIMARY KEY)")
        .unwrap();
    session.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'old')").unwrap();
    database.checkpoint().unwrap();
    session.execute("UPDATE t SET v = 'a0' WHERE k = 1; DELETE FROM t WHERE k = 3").unwrap();
    session.execute("UPDATE t SET v = 'a1' WHERE k = 1; INSERT INTO t VALUES (4, 'd')").unwrap();
    session.execute("BEGIN; INSERT INTO t VALUES (7, 'lost'); SELECT * FROM t; ROLLBACK").unwrap();
    assert_eq!(rows(&mut session, CONTENTS), BEFORE);
}

/// A transaction over two tables that inserts, updates and deletes.
pub(crate) const CHANGE: &str = "BEGIN; UPDATE t SET v = 'a2' WHERE k = 1; DELETE FROM t WHERE k = 2; \
                      INSERT INTO t VALUES (3, 'c'); INSERT INTO u VALUES (1); COMMIT";

/// Whether a commit is one change of the engine, versions and marker, and the sync behind it: what becomes of it is open
/// wherever it is killed.
pub(crate) fn is_one_change(options: Options) -> bool {
    let is_buffered = options.layout == Layout::Stamped && options.writes == Writes::Buffered;
    crate::appends_together() && options.certification == Certification::InProcess && is_buffered
}

/// The database works, and goes on working.
pub(crate) fn check_alive(database: &Database) {
    let mut session = database.session().unwrap();
    let before = rows(&mut session, CONTENTS);
    database.checkpoint().unwrap();
    assert_eq!(rows(&mut session, CONTENTS), before, "a checkpoint changes nothing");
    assert_eq!(tag(&mut session, "INSERT INTO t VALUES (99, 'new')"), "INSERT 0 1");
    assert_eq!(rows(&mut session, "SELECT v FROM t WHERE k = 99"), ["new"]);
}

#[test]
fn a_commit_that_is_killed_at_any_step_is_whole_or_absent() {
    for options in kill_options() {
        for end in [End::Before, End::After] {
            let (mut committed, mut aborted, mut unknown) = (0, 0, 0);
            for step in 1..40 {
                let directory = tempfile::tempdir().unwrap();
                let (database, left) = prepare(directory.path(), end, options);
                let mut session = database.session().unwrap();
                left.store(step, Ordering::SeqCst);
                let outcome = session.execute(CHANGE);
                let is_over = left.load(Ordering::SeqCst) > 0;
                drop((session, database));
                let (database, _) = open(directory.path(), end, options);
                let mut session = database.session().unwrap();
                let after = rows(&mut session, CONTENTS);
                let others = rows(&mut session, "SELECT count(*) FROM u");
                assert!(after == BEFORE || after == AFTER, "step {step}: {after:?} with {options:?}");
                assert_eq!(others[0] == "1", after == AFTER, "both tables at step {step}");
                match outcome {
                    Ok(_) => assert_eq!(after, AFTER, "acknowledged"),
                    Err(error) if error.state == SqlState::TransactionResolutionUnknown => unknown += 1,
                    Err(_) => {
                        assert_eq!(after, BEFORE, "step {step}: said to have failed");
                        aborted += 1;
                    }
                }
                committed += usize::from(after == AFTER);
                check_alive(&database);
                if is_over {
                    break;
                }
                assert!(step < 39, "a commit has fewer steps");
            }
            // Where versions and marker are one change, a kill there leaves it open what became of them; and what is
            // certified in this process has one change less before them.
            let is_in_process = options.certification == Certification::InProcess;
            let surely_aborted = match crate::appends_together() || is_in_process {
                _ if is_one_change(options) => 0,
                true => 2,
                false => 3,
            };
            assert!(
                committed > 0 && aborted >= surely_aborted && unknown > 0,
                "{committed}, {aborted}, {unknown}"
            );
        }
    }
}

#[test]
fn a_checkpoint_that_is_killed_at_any_step_changes_no_snapshot() {
    for options in kill_options() {
        for end in [End::Before, End::After] {
            for step in 1..80 {
                let directory = tempfile::tempdir().unwrap();
                let (database, left) = prepare(directory.path(), end, options);
                left.store(step, Ordering::SeqCst);
                let outcome = database.checkpoint();
                left.store(FOREVER, Ordering::SeqCst);
                let mut session = database.session().unwrap();
                assert_eq!(rows(&mut session, CONTENTS), BEFORE, "step {step}, still open, {options:?}");
                drop((session, database));
                let (database, _) = open(directory.path(), end, options);
                let mut session = database.session().unwrap();
                assert_eq!(rows(&mut session, CONTENTS), BEFORE, "step {step}, opened again, {options:?}");
                check_alive(&database);
                if outcome.is_ok() {
                    // What is certified in this process leaves no write sets to be removed.
                    let is_in_process = options.certification == Certification::InProcess;
                    let least = if is_in_process { 9 } else { 10 };
                    assert!(step > least, "a checkpoint has more steps than {step}: {options:?}");
                    break;
                }
                assert!(step < 79, "a checkpoint has fewer steps");
            }
        }
    }
}

/// Another definition of `n` than the one that was killed.
const OTHERWISE: &str = "CREATE TABLE n (v text, k int PRIMARY KEY)";

#[test]
fn a_definition_that_is_killed_at_any_step_is_there_or_not_and_its_name_is_free() {
    for sql in ["CREATE TABLE n (k int PRIMARY KEY)", "DROP TABLE u"] {
        for end in [End::Before, End::After] {
            for step in 1..20 {
                let directory = tempfile::tempdir().unwrap();
                let (database, left) = prepare(directory.path(), end, Options::default());
                database.session().unwrap().execute("INSERT INTO u VALUES (1)").unwrap();
                left.store(step, Ordering::SeqCst);
                let outcome = database.session().unwrap().execute(sql);
                drop(database);
                let (database, _) = open(directory.path(), end, Options::default());
                let mut session = database.session().unwrap();
                session.execute(&format!("DROP TABLE IF EXISTS n; {OTHERWISE}")).unwrap();
                session.execute("CREATE TABLE IF NOT EXISTS u (k int PRIMARY KEY)").unwrap();
                let left = rows(&mut session, "SELECT k FROM u");
                let may_be_gone = sql.starts_with("DROP");
                assert!(left == ["1"] || (may_be_gone && left.is_empty()), "{sql} at step {step}: {left:?}");
                assert_eq!(tag(&mut session, "INSERT INTO n VALUES ('v', 5)"), "INSERT 0 1");
                if outcome.is_ok() {
                    assert_eq!(left.is_empty(), may_be_gone, "acknowledged");
                    assert!(step > 3, "a definition has more steps");
                    break;
                }
                assert!(step < 19, "a definition has fewer steps");
            }
        }
    }
}

/// As above, where the process goes on.
#[test]
fn what_is_left_of_a_definition_that_failed_is_nothing_to_those_behind_it() {
    for (sql, table) in [("CREATE TABLE n (k int PRIMARY KEY)", "n"), ("DROP TABLE u", "u")] {
        for end in [End::BeforeOnce, End::AfterOnce] {
            for step in 1..20 {
                let directory = tempfile::tempdir().unwrap();
                let (database, left) = prepare(directory.path(), end, Options::default());
                let mut session = database.session().unwrap();
                left.store(step, Ordering::SeqCst);
                let outcome = session.execute(sql);
                left.store(FOREVER, Ordering::SeqCst);
                if outcome.is_err() && table == "n" {
                    session.execute(OTHERWISE).unwrap();
                }
                session.execute(&format!("CREATE TABLE IF NOT EXISTS {table} (k int PRIMARY KEY)")).unwrap();
                let insert = format!("INSERT INTO {table} (k) VALUES (5)");
                assert_eq!(tag(&mut session, &insert), "INSERT 0 1");
                drop((session, database));
                let (database, _) = open(directory.path(), end, Options::default());
                let kept = rows(&mut database.session().unwrap(), &format!("SELECT k FROM {table}"));
                assert_eq!(kept, ["5"], "{sql} at step {step}, {end:?}");
                if outcome.is_ok() {
                    assert!(step > 3, "a definition has more steps");
                    break;
                }
                assert!(step < 19, "a definition has fewer steps");
            }
        }
    }
}

#[test]
fn who_dies_between_timestamp_and_status_does_not_hold_up_the_others() {
    for options in kill_options() {
        let (mut died, mut stopped) = (0, 0);
        for step in 1..20 {
            let directory = tempfile::tempdir().unwrap();
            let (database, left) = prepare(directory.path(), End::Panic, options);
            let mut other = database.session().unwrap();
            other.execute("BEGIN; UPDATE t SET v = 'other' WHERE k = 4").unwrap();
            let mut session = database.session().unwrap();
            let client = std::thread::spawn(move || {
                left.store(step, Ordering::SeqCst);
                let outcome = session.execute(CHANGE).map(drop);
                left.store(FOREVER, Ordering::SeqCst);
                outcome
            });
            if client.join().is_ok() {
                break;
            }
            died += 1;
            match other.execute("COMMIT") {
                Ok(_) => {
                    let expected = ["1|a1", "2|b", "4|other"];
                    assert_eq!(rows(&mut other, CONTENTS), expected, "step {step} of {options:?}");
                    check_alive(&database);
                }
                Err(error) => {
                    // The marker may have been written: only recovery knows.
                    assert_eq!(error.state, SqlState::CannotConnectNow, "step {step}: {error}");
                    stopped += 1;
                    drop((other, database));
                    let (database, _) = open(directory.path(), End::Panic, options);
                    let after = rows(&mut database.session().unwrap(), CONTENTS);
                    assert!(after == BEFORE || after == AFTER, "step {step}: {after:?}");
                }
            }
        }
        let least = if is_one_change(options) { 2 } else { 4 };
        assert!(
            died >= least && (1..=2).contains(&stopped),
            "{died} died, {stopped} stopped with {options:?}"
        );
    }
}
