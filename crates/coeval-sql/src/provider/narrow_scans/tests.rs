// SPDX-License-Identifier: Apache-2.0
//! Which decimals come as 64-bit integers, and that what is computed of them is the same whether they do or not.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};
use tempfile::TempDir;

/// A table whose chunks have files, with decimals of few digits and NULLs in `p` and `e`, others in `d`, and of many digits in `w`.
fn session() -> (Session, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("db"), StoreOptions::default()).unwrap();
    let mut session = Engine::new(store).unwrap().session();
    session
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, g text NOT NULL, p numeric(12,2), e numeric(12,2),
                 d numeric(4,2) NOT NULL, w numeric(30,4));
             INSERT INTO t
             SELECT i, i % 11, 'g' || i * 7 % 5, nullif(i % 1000, 13) + 0.25, nullif(i % 700, 17) - 300.5, i % 11 * 0.01,
                 i * 1000000000000.0001
             FROM generate_series(1, 100000) i;
             CHECKPOINT",
        )
        .unwrap();
    (session, folder)
}

/// The rows of a query, in order, each as a text.
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let mut found = Vec::new();
    for batch in results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches) {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            found.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    found.sort_unstable();
    found
}

/// The columns that a query's scan reads as 64-bit integers.
fn narrow(session: &mut Session, sql: &str) -> Option<String> {
    let plan = rows(session, &format!("EXPLAIN {sql}")).join("\n");
    let (_, narrow) = plan.split_once("narrow=[")?;
    narrow.split_once(']').map(|(narrow, _)| narrow.to_owned())
}

#[test]
fn decimals_that_are_computed_with_come_as_integers() {
    let (mut session, _folder) = session();
    for (sql, expected) in [
        ("SELECT g, sum(p), min(p), max(p), count(p) FROM t GROUP BY g", Some("p")),
        ("SELECT g, avg(p), avg(d) FROM t GROUP BY g", Some("p, d")),
        ("SELECT g, sum(p * (1 - d)), sum(p * (1 - d) * (1 + d)), sum(d) FROM t GROUP BY g", Some("p, d")),
        ("SELECT g, sum(c) FROM (SELECT g, p + e AS c FROM t) q GROUP BY g", Some("p, e")),
        ("SELECT sum(p * d) FROM t", Some("p, d")),
        ("SELECT g, sum(p) FROM t WHERE p BETWEEN 10.00 AND 500.00 AND d <> 0.05 GROUP BY g", Some("p, d")),
        ("SELECT g, sum(p) FROM t WHERE p > e GROUP BY g", Some("p, e")),
        ("SELECT count(*) FROM t WHERE p > 100.00", Some("p")),
        // What is compared is not of one type, so that one is cast.
        ("SELECT g, sum(p) FROM t WHERE p > d GROUP BY g", None),
        ("SELECT g, sum(p) FROM t WHERE p % 3 = 1.25 GROUP BY g", None),
        ("SELECT g, sum(p) FILTER (WHERE p > 10.00), count(*) FROM t GROUP BY g", None),
        ("SELECT g, p, count(*) FROM t GROUP BY g, p", None),
        ("SELECT g, sum(p), stddev(p) FROM t GROUP BY g", None),
        ("SELECT g, sum(w) FROM t GROUP BY g", None),
        ("SELECT sum(p) FROM t", None),
        ("SELECT p, d FROM t", None),
    ] {
        assert_eq!(narrow(&mut session, sql).as_deref(), expected, "{sql}");
    }
    session.execute("SET coeval.narrow_scans = off").unwrap();
    assert_eq!(narrow(&mut session, "SELECT g, sum(p) FROM t GROUP BY g"), None);
}

#[test]
fn of_a_table_without_files_decimals_stay_what_they_are() {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    session
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, g text, p numeric(12,2));
             INSERT INTO t SELECT i, 'g' || i % 5, i * 0.25 FROM generate_series(1, 100000) i; CHECKPOINT",
        )
        .unwrap();
    assert_eq!(narrow(&mut session, "SELECT g, sum(p) FROM t GROUP BY g"), None);
}

/// The queries give the same rows with integers and without.
fn check(session: &mut Session) {
    for sql in [
        "SELECT g, sum(p), min(p), max(p), count(p), count(*) FROM t GROUP BY g",
        "SELECT g, avg(p), avg(p * (1 - d)), max(d) FROM t GROUP BY g",
        "SELECT g, sum(p * (1 - d)), sum(p * (1 - d) * (1 + d)), min(e - p), sum(w) FROM t GROUP BY g",
        "SELECT sum(p * d), min(p + e), count(p - d), count(*) FROM t",
        "SELECT sum(p * d) FROM t WHERE d BETWEEN 0.05 AND 0.07 AND e < -100.00",
        "SELECT g, sum(p) FROM t WHERE p > e AND d IN (0.01, 0.02, 0.09) GROUP BY g",
        "SELECT g, sum(p), sum(e * d) FROM t WHERE p IS NOT NULL OR e > 0.00 GROUP BY g",
        "SELECT count(*) FROM t WHERE p > 100.00 AND b % 3 = 1",
        "SELECT b, sum(e) FILTER (WHERE g = 'g1'), sum(p) FROM t WHERE id % 1000 = 7 GROUP BY b",
        "SELECT id, sum(p), sum(p * d), min(e) FROM t GROUP BY id",
        "SELECT id % 50000, b, sum(p), max(e - 1) FROM t GROUP BY id % 50000, b",
        "SELECT g, max(CASE WHEN b > 3 THEN p * d ELSE p - d END), bool_or(p * 2 > e) FROM t GROUP BY g",
        "SELECT g, count(*), sum(p * p * p) FROM t WHERE p < 1.00 GROUP BY g",
        "SELECT x.g, x.n, y.n FROM (SELECT g, sum(p) AS n FROM t GROUP BY g) x
         JOIN (SELECT g, sum(e) AS n FROM t WHERE d > 0.03 GROUP BY g) y ON x.g = y.g",
        "SELECT g, b, sum(p), sum(d) FROM t GROUP BY ROLLUP (g, b)",
    ] {
        session.execute("SET coeval.narrow_scans = off").unwrap();
        let without = rows(session, sql);
        session.execute("SET coeval.narrow_scans = on").unwrap();
        assert_eq!(rows(session, sql), without, "{sql}");
    }
}

#[test]
fn what_is_computed_of_integers_is_what_is_computed_of_decimals() {
    let (mut session, _folder) = session();
    check(&mut session);
    session
        .execute(
            "UPDATE t SET p = p + 9999999.99, e = NULL WHERE id % 997 = 3;
             DELETE FROM t WHERE id BETWEEN 30000 AND 41000;
             INSERT INTO t
             SELECT i, i % 200, 'g1', nullif(i % 50, 3), -9999999999.99, 99.99, NULL FROM generate_series(100001, 103000) i",
        )
        .unwrap();
    check(&mut session);
    session.execute("BEGIN").unwrap();
    session.execute("UPDATE t SET p = -0.01, d = -d WHERE id % 500 = 1").unwrap();
    check(&mut session);
    session.execute("COMMIT").unwrap();
    session.execute("ALTER TABLE t DROP COLUMN e").unwrap();
    session.execute("ALTER TABLE t ADD COLUMN e numeric(12,2) DEFAULT 7.25").unwrap();
    check(&mut session);
    session.execute("UPDATE t SET e = NULL WHERE id % 3 = 1; CHECKPOINT").unwrap();
    check(&mut session);
    session.execute("DELETE FROM t").unwrap();
    check(&mut session);
}
