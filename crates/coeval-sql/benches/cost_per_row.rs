// SPDX-License-Identifier: Apache-2.0
//! What a row costs when there are ten times as many: for each kind of statement and constraint the time for each row, and
//! the ratio of the two. A ratio near one says that what is done per row is constant; ten says that it grows with the rows.
//!
//! `cargo bench -p coeval-sql --bench cost_per_row [rows]`; without a number 2,000 and 20,000 rows. The least of three runs counts.
//! It fails if a ratio is above [`RATIO_MAX`].
#![allow(clippy::unwrap_used)]

use coeval_sql::{Engine, Session};
use coeval_store::{Store, StoreOptions};
use std::time::Instant;

/// What is done once is spread over more rows, and trees and caches cost a little more: what grows with the rows is at ten.
const RATIO_MAX: f64 = 3.0;

/// See [`RATIO_MAX`].
const RUNS: usize = 3;

/// One kind of work: what is there before, and what is timed; `{n}` is the number of rows.
struct Work {
    name: &'static str,
    before: &'static [&'static str],
    timed: Timed,
}

enum Timed {
    /// One statement for all rows.
    Whole(&'static str),
    /// A statement for each row, `{i}`, in one transaction.
    Each(&'static str),
}

const T: &str = "CREATE TABLE t (n int PRIMARY KEY, v int, w text)";
const FILLED: &str = "INSERT INTO t SELECT n, n, 'text' FROM generate_series(1, {n}) s(n)";
const PARENTS: &str =
    "CREATE TABLE p (n int PRIMARY KEY); INSERT INTO p SELECT n FROM generate_series(1, {n}) s(n)";

/// A table of children of `p`, with this to say about parents that go, and a row for each of them.
macro_rules! children {
    ($action:literal, $index:literal) => {
        concat!(
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p ",
            $action,
            "); ",
            $index,
            "INSERT INTO c SELECT n, n FROM generate_series(1, {n}) s(n)"
        )
    };
}

const WORK: &[Work] = &[
    Work { name: "insert select", before: &[T], timed: Timed::Whole(FILLED) },
    Work {
        name: "insert, one by one",
        before: &[T],
        timed: Timed::Each("INSERT INTO t VALUES ({i}, 1, 'a')"),
    },
    Work {
        name: "insert on conflict",
        before: &[T, FILLED],
        timed: Timed::Whole(
            "INSERT INTO t SELECT n, 1, 'b' FROM generate_series(1, {n}) s(n) ON CONFLICT (n) DO UPDATE SET v = excluded.v",
        ),
    },
    Work {
        name: "insert returning",
        before: &[T],
        timed: Timed::Whole("INSERT INTO t SELECT n, n, 'a' FROM generate_series(1, {n}) s(n) RETURNING n"),
    },
    Work {
        name: "insert, child of a parent",
        before: &[PARENTS, "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p)"],
        timed: Timed::Whole("INSERT INTO c SELECT n, n FROM generate_series(1, {n}) s(n) RETURNING n"),
    },
    Work {
        name: "insert, deferred constraint",
        before: &[
            PARENTS,
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        ],
        timed: Timed::Each("INSERT INTO c VALUES ({i}, {i})"),
    },
    Work {
        name: "insert, generated column and check",
        before: &[
            "CREATE TABLE t (n int PRIMARY KEY, v int GENERATED ALWAYS AS (n * 2) STORED, CHECK (n > 0))",
        ],
        timed: Timed::Whole("INSERT INTO t SELECT n FROM generate_series(1, {n}) s(n) RETURNING n"),
    },
    Work { name: "update", before: &[T, FILLED], timed: Timed::Whole("UPDATE t SET v = v + 1") },
    Work {
        name: "update of the key",
        before: &[T, FILLED],
        timed: Timed::Whole("UPDATE t SET n = n + 10000000"),
    },
    Work {
        name: "update, indexed column",
        before: &[T, FILLED, "CREATE INDEX ON t (v)"],
        timed: Timed::Whole("UPDATE t SET v = v + 1"),
    },
    Work {
        name: "update, one by one",
        before: &[T, FILLED],
        timed: Timed::Each("UPDATE t SET v = 0 WHERE n = {i}"),
    },
    Work { name: "delete", before: &[T, FILLED], timed: Timed::Whole("DELETE FROM t") },
    Work {
        name: "delete of parents without children",
        before: &[PARENTS, "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p)"],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "delete, cascade with an index",
        before: &[PARENTS, children!("ON DELETE CASCADE", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "delete, cascade without an index",
        before: &[PARENTS, children!("ON DELETE CASCADE", "")],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "delete, set null without an index",
        before: &[PARENTS, children!("ON DELETE SET NULL", "")],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "update of parents, cascade",
        before: &[PARENTS, children!("ON UPDATE CASCADE", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("UPDATE p SET n = n + 10000000"),
    },
    Work {
        name: "delete down a chain",
        before: &[
            "CREATE TABLE chain (n int PRIMARY KEY, up int REFERENCES chain ON DELETE CASCADE)",
            "INSERT INTO chain SELECT n, greatest(n - 1, 1) FROM generate_series(1, {n}) s(n)",
        ],
        timed: Timed::Whole("DELETE FROM chain WHERE n = 1"),
    },
    Work {
        name: "merge",
        before: &[T, FILLED],
        timed: Timed::Whole(
            "MERGE INTO t USING (SELECT n FROM generate_series(1, {n}) s(n)) s ON t.n = s.n WHEN MATCHED THEN UPDATE SET v = 0",
        ),
    },
    Work {
        name: "insert, two unique indexes",
        before: &[T, "CREATE UNIQUE INDEX ON t (v); CREATE UNIQUE INDEX ON t (w, n)"],
        timed: Timed::Whole("INSERT INTO t SELECT n, n, 'a' FROM generate_series(1, {n}) s(n) RETURNING n"),
    },
    Work {
        name: "insert into a temporary table",
        before: &["CREATE TEMPORARY TABLE t (n int PRIMARY KEY, v int, w text)"],
        timed: Timed::Whole(FILLED),
    },
    Work {
        name: "insert into bricks",
        before: &[
            "CREATE TABLE t (n int, v int, w text) USING brick PARTITION BY (v CARDINALITY 64 RANGE SIZE 8)",
        ],
        timed: Timed::Whole("INSERT INTO t SELECT n, n % 64, 'text' FROM generate_series(1, {n}) s(n)"),
    },
    Work {
        name: "update from",
        before: &[T, FILLED, PARENTS],
        timed: Timed::Whole("UPDATE t SET v = p.n + 1 FROM p WHERE p.n = t.n"),
    },
    Work {
        name: "delete using",
        before: &[T, FILLED, PARENTS],
        timed: Timed::Whole("DELETE FROM t USING p WHERE p.n = t.n"),
    },
    Work {
        name: "select for update",
        before: &[T, FILLED],
        timed: Timed::Whole("BEGIN; SELECT count(*) FROM (SELECT n FROM t FOR UPDATE) s; COMMIT"),
    },
    Work {
        name: "delete of parents, restrict",
        before: &[
            PARENTS,
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p ON DELETE RESTRICT); CREATE INDEX ON c (p)",
        ],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "delete, set null with an index",
        before: &[PARENTS, children!("ON DELETE SET NULL", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "set constraints",
        before: &[
            PARENTS,
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        ],
        timed: Timed::Each(
            "INSERT INTO c VALUES ({i}, {i}); SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED",
        ),
    },
    Work {
        name: "rows moved by WITH",
        before: &[T, FILLED, "CREATE TABLE u (n int PRIMARY KEY, v int, w text)"],
        timed: Timed::Whole("WITH gone AS (DELETE FROM t RETURNING *) INSERT INTO u SELECT * FROM gone"),
    },
    Work { name: "create index", before: &[T, FILLED], timed: Timed::Whole("CREATE INDEX ON t (v, w)") },
    Work {
        name: "add a check",
        before: &[T, FILLED],
        timed: Timed::Whole("ALTER TABLE t ADD CHECK (v > 0)"),
    },
    Work {
        name: "add a unique constraint",
        before: &[T, FILLED],
        timed: Timed::Whole("ALTER TABLE t ADD UNIQUE (v)"),
    },
    Work {
        name: "add a foreign key",
        before: &[T, FILLED, PARENTS],
        timed: Timed::Whole("ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES p"),
    },
    Work {
        name: "savepoints",
        before: &[T],
        timed: Timed::Each("SAVEPOINT s; INSERT INTO t VALUES ({i}, 1, 'a'); RELEASE SAVEPOINT s"),
    },
    Work {
        name: "fetch",
        before: &[T, FILLED, "BEGIN; DECLARE k CURSOR WITH HOLD FOR SELECT * FROM t; COMMIT"],
        timed: Timed::Each("FETCH 1 FROM k"),
    },
];

fn run(session: &mut Session, sql: &str, rows: usize) {
    session.execute(&sql.replace("{n}", &rows.to_string())).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Nanoseconds for each row.
fn cost(work: &Work, rows: usize) -> f64 {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    work.before.iter().for_each(|sql| run(&mut session, sql, rows));
    let began = Instant::now();
    match work.timed {
        Timed::Whole(sql) => run(&mut session, sql, rows),
        Timed::Each(sql) => {
            session.execute("BEGIN").unwrap();
            for row in 1..=rows {
                session.execute(&sql.replace("{i}", &row.to_string())).unwrap();
            }
            session.execute("COMMIT").unwrap();
        }
    }
    began.elapsed().as_nanos() as f64 / rows as f64
}

fn main() {
    let rows = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(2_000);
    println!("{:<40} {:>12} {:>12} {:>7}", "ns per row", rows, rows * 10, "ratio");
    let mut grows = Vec::new();
    for work in WORK {
        let least = |rows| (0..RUNS).map(|_| cost(work, rows)).fold(f64::INFINITY, f64::min);
        let (few, many) = (least(rows), least(rows * 10));
        println!("{:<40} {few:>12.0} {many:>12.0} {:>7.2}", work.name, many / few);
        if many > RATIO_MAX * few {
            grows.push(work.name);
        }
    }
    assert!(grows.is_empty(), "what a row costs grows with the rows: {grows:?}");
}
