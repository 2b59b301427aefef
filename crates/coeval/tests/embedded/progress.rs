// SPDX-License-Identifier: Apache-2.0
//! How far a query is, as whoever waits for it sees it.

use coeval::{Database, QueryProgress};
use std::time::{Duration, Instant};

#[test]
fn whoever_waits_sees_how_far_a_query_is_and_nothing_behind_its_end() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n int)").unwrap();
    session.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 10000) AS s(i)").unwrap();
    let handle = session.cancel_handle();
    assert_eq!(handle.progress(), None);
    let whole = Some(QueryProgress { passed: 10_000, rows: 10_000 });
    let watched = handle.clone();
    let watcher = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(60);
        let mut seen = None;
        while seen != whole && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            seen = watched.progress().or(seen);
        }
        seen
    });
    // It has read all rows when it begins to sleep.
    session.query("SELECT total, pg_sleep(2) FROM (SELECT sum(n) AS total FROM t) AS q").unwrap();
    assert_eq!(handle.progress(), None);
    assert_eq!(watcher.join().unwrap(), whole);
}
