// SPDX-License-Identifier: Apache-2.0
//! Which texts come as codes, and that groups are the same whether they do or not.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};
use tempfile::TempDir;

/// A table whose chunks have files: few texts in `g` and `h`, which has long ones and NULLs, and one for each row in `k`.
fn session() -> (Session, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("db"), StoreOptions::default()).unwrap();
    let mut session = Engine::new(store).unwrap().session();
    session
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, g text NOT NULL, h text, k text);
             INSERT INTO t
             SELECT i, i % 11, 'g' || i * 7 % 5, 'longer than a view, ' || nullif(i % 13, 4), 'text ' || i
             FROM generate_series(1, 100000) i;
             CHECKPOINT",
        )
        .unwrap();
    (session, folder)
}

/// The rows of a query, in order, each as a text.
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap();
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

/// The columns that a query's scan gives as codes.
fn codes(session: &mut Session, sql: &str) -> Option<String> {
    let plan = rows(session, &format!("EXPLAIN {sql}")).join("\n");
    let (_, codes) = plan.split_once("codes=[")?;
    codes.split_once(']').map(|(codes, _)| codes.to_owned())
}

#[test]
fn few_texts_that_are_grouped_by_come_as_codes() {
    let (mut session, _folder) = session();
    for (sql, coded) in [
        ("SELECT g, sum(b) FROM t GROUP BY g", Some("g")),
        ("SELECT h, g, sum(b) FROM t GROUP BY h, g", Some("g, h")),
        ("SELECT k, g, sum(b) FROM t GROUP BY k, g", Some("g")),
        ("SELECT g, sum(b) FROM t WHERE b % 3 = 1 GROUP BY g", Some("g")),
        ("SELECT g, c, count(*) FROM (SELECT g, b + 1 AS c FROM t) q GROUP BY g, c", Some("g")),
        ("SELECT count(DISTINCT g) FROM t", Some("g")),
        ("SELECT DISTINCT g FROM t", Some("g")),
        ("SELECT k, count(*) FROM t GROUP BY k", None),
        ("SELECT g, sum(b) FROM t WHERE g > 'g1' AND b > 3 GROUP BY g", Some("g")),
        ("SELECT g, sum(b) FROM t WHERE upper(g) > 'G1' GROUP BY g", None),
        ("SELECT g, max(g) FROM t GROUP BY g", None),
        ("SELECT upper(g), sum(b) FROM t GROUP BY upper(g)", None),
        ("SELECT g, b FROM t", None),
        ("SELECT sum(b) FROM t WHERE g = 'g1'", Some("g")),
        ("SELECT id, b FROM t WHERE h IS NULL OR h IN ('longer than a view, 3')", Some("h")),
        ("SELECT h, sum(b) FROM t WHERE g <> 'g1' GROUP BY h", Some("h, g")),
        ("SELECT sum(b) FROM t WHERE g = 'g1' AND length(g) = 2", None),
        ("SELECT sum(b) FROM t WHERE g = 'g1' OR b = 3", None),
        ("SELECT sum(b) FROM t WHERE k = 'text 5'", None),
    ] {
        assert_eq!(codes(&mut session, sql).as_deref(), coded, "{sql}");
    }
    session.execute("SET coeval.text_codes = off").unwrap();
    assert_eq!(codes(&mut session, "SELECT g, sum(b) FROM t GROUP BY g"), None);
}

#[test]
fn texts_of_a_key_that_are_grouped_by_with_others_come_as_codes() {
    let (mut session, _folder) = session();
    session
        .execute(
            "CREATE TABLE u (g text, id int, b int, PRIMARY KEY (g, id));
             INSERT INTO u SELECT g, id, b FROM t; CHECKPOINT",
        )
        .unwrap();
    let query = "SELECT g, b, count(*) FROM u GROUP BY g, b";
    assert_eq!(codes(&mut session, query).as_deref(), Some("g"));
    let without = rows(&mut session, &query.replace("FROM u", "FROM t"));
    assert_eq!(rows(&mut session, query), without);
}

/// The queries give the same rows with codes and without.
fn check(session: &mut Session) {
    for sql in [
        "SELECT g, sum(b), count(*) FROM t GROUP BY g",
        "SELECT h, sum(b), count(h), count(*) FROM t GROUP BY h",
        "SELECT g, h, min(b) FROM t GROUP BY g, h",
        "SELECT g, h, b, count(*) FROM t WHERE b % 4 = 1 GROUP BY g, h, b",
        "SELECT h, count(*) FROM t WHERE id % 1000 = 7 GROUP BY h",
        "SELECT h, count(*) FROM t WHERE id BETWEEN 70000 AND 70010 OR b > 100 GROUP BY h",
        "SELECT h, count(*) FROM t WHERE h > 'longer than a view, 3' AND b < 7 GROUP BY h",
        "SELECT h, g, count(*) FROM t
         WHERE (h IS NULL OR h = 'longer than a view, 11') AND g <> 'g1' GROUP BY h, g",
        "SELECT g, count(*) FROM t WHERE g IN ('g2', 'g3', 'new in g1') AND id % 3 = 1 GROUP BY g",
        "SELECT g, k, max(b) FROM t GROUP BY g, k",
        "SELECT h, max(id), corr(b, id) IS NULL FROM t GROUP BY h HAVING count(*) > 3",
        "SELECT count(DISTINCT h) FROM t",
        "SELECT DISTINCT g, h FROM t",
        "SELECT x.g, y.n FROM (SELECT g, count(*) FROM t GROUP BY g) x
         JOIN (SELECT g, sum(b) AS n FROM t WHERE b > 3 GROUP BY g) y ON x.g = y.g",
        "SELECT q.g || '!', count(*) FROM (SELECT g, b + 1 AS b FROM t) q GROUP BY q.g, q.b",
        "SELECT g, h, count(*) FROM t GROUP BY ROLLUP (g, h)",
        "SELECT id, b FROM t WHERE g = 'g1' AND h > 'longer than a view, 3'",
        "SELECT sum(b), count(k) FROM t WHERE h IS NULL AND id % 3 = 1",
        "SELECT h, max(b) FROM t WHERE g NOT IN ('g1', 'new in g3') GROUP BY h",
        "SELECT x.id FROM t x JOIN t y ON y.id = x.b WHERE x.g = 'g2' AND y.g > 'g0'",
    ] {
        session.execute("SET coeval.text_codes = off").unwrap();
        let without = rows(session, sql);
        session.execute("SET coeval.text_codes = on").unwrap();
        assert_eq!(rows(session, sql), without, "{sql}");
    }
}

#[test]
fn groups_by_codes_are_those_by_texts() {
    let (mut session, _folder) = session();
    check(&mut session);
    session
        .execute(
            "UPDATE t SET g = 'new in ' || g, h = NULL WHERE id % 997 = 3;
             DELETE FROM t WHERE id BETWEEN 30000 AND 41000;
             INSERT INTO t
             SELECT i, i % 200, 'g1', 'new ' || i % 50, 'k' FROM generate_series(100001, 103000) i",
        )
        .unwrap();
    check(&mut session);
    session.execute("BEGIN").unwrap();
    session.execute("UPDATE t SET h = 'of the transaction' WHERE id % 500 = 1").unwrap();
    check(&mut session);
    session.execute("COMMIT").unwrap();
    session.execute("ALTER TABLE t DROP COLUMN k").unwrap();
    session.execute("ALTER TABLE t ADD COLUMN k text DEFAULT 'added'").unwrap();
    check(&mut session);
    session.execute("CHECKPOINT").unwrap();
    check(&mut session);
    session.execute("DELETE FROM t").unwrap();
    check(&mut session);
}
