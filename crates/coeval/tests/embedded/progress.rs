// SPDX-License-Identifier: Apache-2.0
//! How far a query is, as whoever waits for it sees it.

use coeval::{CancelHandle, CopyOutcome, Database, Outcome, QueryProgress, RowWork, Session, SqlState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[test]
fn whoever_waits_sees_how_far_a_query_is_and_nothing_behind_its_end() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n int)").unwrap();
    session.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 10000) AS s(i)").unwrap();
    let handle = session.cancel_handle();
    assert_eq!(handle.progress(), None);
    let whole = read(10_000);
    // It has read all rows when it begins to sleep.
    let query = "SELECT total, pg_sleep(60) FROM (SELECT sum(n) AS total FROM t) AS q";
    assert_eq!(seen_while_it_sleeps(&mut session, query, move |progress| Some(progress) == whole), whole);
    session.query("SELECT sum(n) FROM t").unwrap();
    assert_eq!(handle.progress(), None);
}

/// Looks at a query's progress until it is what is wanted, and cancels it then; what was seen last.
fn seen_while_it_sleeps(
    session: &mut Session,
    query: &str,
    is_wanted: impl Fn(QueryProgress) -> bool + Send + 'static,
) -> Option<QueryProgress> {
    let handle = session.cancel_handle();
    let watcher = Watcher::start(&handle, is_wanted, Then::Cancel);
    let ended = session.query(query).map(drop).map_err(|error| error.state());
    let seen = watcher.end();
    assert_eq!(ended, Err(SqlState::QueryCanceled), "{seen:?}");
    assert_eq!(handle.progress(), None);
    seen
}

/// All of so many rows read.
fn read(rows: u64) -> Option<QueryProgress> {
    Some(QueryProgress { work: RowWork::Reading, passed: rows, rows })
}

/// What somebody does who has seen what is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Cancel,
    Nothing,
}

/// Looks at a session's progress until it is what is wanted, or the statement has ended.
struct Watcher {
    has_ended: Arc<AtomicBool>,
    looking: JoinHandle<Option<QueryProgress>>,
}

impl Watcher {
    fn start(
        session: &CancelHandle,
        is_wanted: impl Fn(QueryProgress) -> bool + Send + 'static,
        then: Then,
    ) -> Self {
        let (session, has_ended) = (session.clone(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&has_ended);
        let looking = std::thread::spawn(move || {
            let mut seen: Option<QueryProgress> = None;
            while !seen.is_some_and(&is_wanted) && !ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                seen = session.progress().or(seen);
            }
            if then == Then::Cancel {
                session.cancel();
            }
            seen
        });
        Self { has_ended, looking }
    }

    /// The statement has ended: what was seen last.
    fn end(self) -> Option<QueryProgress> {
        self.has_ended.store(true, Ordering::Relaxed);
        self.looking.join().unwrap()
    }
}

#[test]
fn rows_of_bricks_count_in_scans_and_in_aggregates() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    let table =
        "CREATE TABLE b (slot int, n bigint) USING brick PARTITION BY (slot CARDINALITY 100 RANGE SIZE 10)";
    session.execute(table).unwrap();
    session.execute("INSERT INTO b SELECT g % 50, g FROM generate_series(1, 20000) AS g").unwrap();
    // The first begins where the bricks are, the second takes their rows.
    for total in ["sum(n * 2)", "count(DISTINCT n)"] {
        let query = format!("SELECT total, pg_sleep(60) FROM (SELECT {total} AS total FROM b) AS q");
        let is_all = |progress: QueryProgress| Some(progress) == read(20_000);
        assert_eq!(seen_while_it_sleeps(&mut session, &query, is_all), read(20_000), "{total}");
    }
}

#[test]
fn rows_that_stream_are_counted_until_nobody_reads_on() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n int)").unwrap();
    session.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 200000) AS s(i)").unwrap();
    let handle = session.cancel_handle();
    let Outcome::Rows(mut rows) = session.start("SELECT id, n FROM t WHERE n > 0").unwrap() else {
        panic!("it has rows")
    };
    rows.next().unwrap().unwrap();
    let progress = handle.progress().unwrap();
    assert!(progress.passed > 0 && progress.rows == 200_000, "{progress:?}");
    // Another statement of the session is shown while it runs, and then this one again.
    session.query("SELECT 1").unwrap();
    assert!(handle.progress().is_some_and(|progress| progress.rows == 200_000));
    drop(rows);
    assert_all_end(&handle);
}

/// Waits until no query of the session is shown.
fn assert_all_end(handle: &CancelHandle) {
    let until = Instant::now() + Duration::from_secs(60);
    while handle.progress().is_some() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(handle.progress(), None);
}

/// To break it: wait for rows of the query no longer, and leave it running.
#[test]
fn a_copy_that_is_cancelled_ends_while_somebody_keeps_it() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n int)").unwrap();
    session.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 10) AS s(i)").unwrap();
    let handle = session.cancel_handle();
    let copy = session.start_copy("COPY (SELECT n, pg_sleep(600) FROM t) TO STDOUT").unwrap();
    let CopyOutcome::Out(mut copy) = copy else { panic!("it has rows") };
    assert!(handle.progress().is_some());
    handle.cancel();
    assert_eq!(copy.find_map(Result::err).unwrap().state(), SqlState::QueryCanceled);
    assert_all_end(&handle);
    drop(copy);
}

#[test]
fn rows_that_are_changed_or_deleted_are_counted_as_they_are_written() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n int)").unwrap();
    session.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 200000) AS s(i)").unwrap();
    // Selected rows go between others one by one.
    let insert = "INSERT INTO t SELECT CASE WHEN i = 1 THEN -1 ELSE i + 200000 END, i \
                  FROM generate_series(1, 200000) AS s(i)";
    session.execute("INSERT INTO t VALUES (0, 0)").unwrap();
    // By keys and by a query.
    let update = "UPDATE t SET n = n + 1 WHERE id BETWEEN 1 AND 200000";
    for (statement, point_path, rows) in [
        (insert, "on", 200_000),
        (update, "on", 200_000),
        (update, "off", 200_000),
        ("DELETE FROM t WHERE id BETWEEN 1 AND 200000", "off", 200_000),
        ("DELETE FROM t WHERE id BETWEEN 200002 AND 400000", "on", 199_999),
    ] {
        session.execute(&format!("SET coeval.point_path = {point_path}")).unwrap();
        let is_written = |progress: QueryProgress| progress.work == RowWork::Writing && progress.passed > 0;
        // On a busy machine nobody may have looked before it is through: it is taken back then, and tried again.
        let seen = (0..20).find_map(|_| {
            session.execute("BEGIN").unwrap();
            let watcher = Watcher::start(&session.cancel_handle(), is_written, Then::Nothing);
            session.execute(statement).unwrap();
            let seen = watcher.end().filter(|progress| is_written(*progress));
            assert_eq!(session.cancel_handle().progress(), None);
            session.execute(if seen.is_some() { "COMMIT" } else { "ROLLBACK" }).unwrap();
            seen
        });
        let seen = seen.unwrap_or_else(|| panic!("{statement} shows no rows written"));
        assert_eq!(seen.rows, rows, "{statement}: {seen:?}");
    }
}
