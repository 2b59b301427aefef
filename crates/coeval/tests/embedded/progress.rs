// SPDX-License-Identifier: Apache-2.0
//! How far a query is, as whoever waits for it sees it.

use coeval::{CancelHandle, Database, Outcome, QueryProgress, RowWork};
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
    let watcher = watched_for(&handle, move |progress| Some(progress) == whole);
    // It has read all rows when it begins to sleep.
    session.query("SELECT total, pg_sleep(2) FROM (SELECT sum(n) AS total FROM t) AS q").unwrap();
    assert_eq!(handle.progress(), None);
    assert_eq!(watcher.join().unwrap(), whole);
}

/// All of so many rows read.
fn read(rows: u64) -> Option<QueryProgress> {
    Some(QueryProgress { work: RowWork::Reading, passed: rows, rows })
}

/// Looks at a session's progress until it is what is wanted, or long enough; what was seen last.
fn watched_for(
    session: &CancelHandle,
    is_wanted: impl Fn(QueryProgress) -> bool + Send + 'static,
) -> JoinHandle<Option<QueryProgress>> {
    let session = session.clone();
    std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(60);
        let mut seen: Option<QueryProgress> = None;
        while !seen.is_some_and(&is_wanted) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            seen = session.progress().or(seen);
        }
        seen
    })
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
        let watcher = watched_for(&session.cancel_handle(), |progress| Some(progress) == read(20_000));
        session
            .query(&format!("SELECT total, pg_sleep(2) FROM (SELECT {total} AS total FROM b) AS q"))
            .unwrap();
        assert_eq!(watcher.join().unwrap(), read(20_000), "{total}");
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
    let until = Instant::now() + Duration::from_secs(60);
    while handle.progress().is_some() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(handle.progress(), None);
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
        let watcher = watched_for(&session.cancel_handle(), is_written);
        session.execute(statement).unwrap();
        let seen = watcher.join().unwrap().unwrap_or_else(|| panic!("{statement} shows no rows written"));
        assert!(seen.work == RowWork::Writing && seen.rows == rows, "{statement}: {seen:?}");
        assert_eq!(session.cancel_handle().progress(), None);
    }
}
