// SPDX-License-Identifier: Apache-2.0
//! Subqueries as joins beside the same that run for each row.

use crate::engine::Engine;
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Queries that become joins. Orders leave nothing open.
const JOINED: [&str; 27] = [
    // The first rows of each group.
    "SELECT g.id, s.id, s.v FROM g CROSS JOIN LATERAL (SELECT id, v FROM t WHERE t.k = g.k ORDER BY v DESC, id LIMIT 2) s",
    "SELECT g.id, s.v, s.w FROM g LEFT JOIN LATERAL (SELECT v, w FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) s ON true",
    "SELECT g.id, s.id FROM g LEFT JOIN LATERAL (SELECT id FROM t WHERE g.k = t.k AND v > 0 ORDER BY id OFFSET 1) s ON true",
    "SELECT g.id, s.id FROM g, LATERAL (SELECT t.id FROM t WHERE t.k = g.k ORDER BY w NULLS FIRST, t.id LIMIT 2 OFFSET 1) s",
    "SELECT g.id, s.id FROM g, LATERAL (SELECT id FROM t WHERE k + 1 = g.k AND t.v = g.j + 1 ORDER BY id LIMIT 1) s",
    "SELECT g.id, s.id FROM g, LATERAL (SELECT id FROM t WHERE t.w = g.w ORDER BY id DESC LIMIT 1) s WHERE s.id > g.id",
    // One value.
    "SELECT g.id, (SELECT v FROM t WHERE t.k = g.k ORDER BY v NULLS FIRST, id LIMIT 1) FROM g",
    "SELECT g.id, (SELECT v FROM t WHERE t.id = g.id) FROM g",
    "SELECT g.id, (SELECT t.v + t.k FROM t WHERE t.k = g.k AND t.id = g.j) FROM g",
    "SELECT g.id, CASE WHEN g.k > 1 THEN (SELECT w FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) ELSE 'no' END FROM g",
    "SELECT g.id FROM g WHERE (SELECT v FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) >= 1",
    "SELECT (SELECT max((SELECT t.v FROM t WHERE t.id = o.id))) FROM g o",
    "SELECT sum((SELECT v FROM t WHERE t.k = g.k ORDER BY id LIMIT 1)), g.j FROM g GROUP BY g.j",
    "SELECT g.id, (SELECT v FROM t WHERE t.k = g.k ORDER BY id LIMIT 1), (SELECT w FROM t WHERE t.w = g.w LIMIT 1) FROM g",
    "SELECT id, (SELECT v FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) AS x FROM g ORDER BY (SELECT t.v FROM t WHERE t.id = g.id), id",
    // Aggregates, which have a row where there are none.
    "SELECT g.id, s.n, s.m FROM g, LATERAL (SELECT count(*) AS n, max(v) AS m FROM t WHERE t.k = g.k AND v > 1) s",
    "SELECT g.id, s.n FROM g LEFT JOIN LATERAL (SELECT count(v) * 2 + 1 AS n FROM t WHERE t.k = g.k) s ON true",
    "SELECT g.id, s.w, s.n FROM g, LATERAL (SELECT w, count(*) AS n FROM t WHERE t.k = g.k GROUP BY w ORDER BY n DESC, w LIMIT 1) s",
    "SELECT g.id, s.n FROM g, LATERAL (SELECT sum(v) AS n FROM (SELECT v FROM t WHERE t.k = g.k ORDER BY id LIMIT 2) x) s",
    // Others.
    "SELECT g.id, EXISTS (SELECT 1 FROM t WHERE t.k = g.k AND v > 2) FROM g",
    "SELECT g.id, NOT EXISTS (SELECT v FROM t WHERE t.k = g.k AND t.v = g.j ORDER BY id LIMIT 3) FROM g",
    "SELECT g.id, s.v FROM g, LATERAL (SELECT DISTINCT v FROM t WHERE t.k = g.k) s",
    "SELECT g.id, s.id, s.other FROM g, LATERAL (SELECT t.id, u.id AS other FROM t JOIN t u ON u.v = t.v WHERE t.k = g.k \
     ORDER BY t.id, u.id LIMIT 3) s",
    // Columns of both in what is selected.
    "SELECT g.id, s.x, s.y FROM g, LATERAL (SELECT coalesce(t.v, g.k) AS x, g.j + t.id AS y FROM t WHERE t.k = g.k) s",
    "SELECT g.id, s.x, s.y FROM g LEFT JOIN LATERAL (SELECT coalesce(t.v, g.j, 7) AS x, g.j AS y FROM t WHERE t.k = g.k) s ON true",
    "SELECT g.id, s.n FROM g LEFT JOIN LATERAL (SELECT count(*) + coalesce(g.j, 0) AS n FROM t WHERE t.k = g.k) s ON true",
    // Tables of one name around and within.
    "SELECT a.id, t.w, (SELECT t.w FROM t WHERE t.k = a.k ORDER BY t.id LIMIT 1) FROM g a JOIN t ON t.id = a.id",
];

/// Those that would not be the same for all rows at once.
const STAYING: [&str; 12] = [
    "SELECT (SELECT v FROM t WHERE t.k = g.k ORDER BY random() LIMIT 1) FROM g",
    "SELECT (SELECT 10 / v FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT 1.5 / v FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT w::int FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT w::date FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT ln(v) FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT v::smallint FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT make_date(2020, v, 1) FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT v FROM t WHERE t.k < g.k ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT v + g.k FROM t WHERE t.k = g.k ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT v FROM t WHERE t.f = g.f ORDER BY id LIMIT 1) FROM g",
    "SELECT (SELECT v FROM t WHERE t.k IS NOT DISTINCT FROM g.k ORDER BY id LIMIT 1) FROM g",
];

/// Whether subqueries become joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Joins,
    RowByRow,
}

fn session() -> Session {
    Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session()
}

fn run(session: &mut Session, sql: &str) -> Vec<StatementResult> {
    session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"))
}

fn lines(results: &[StatementResult]) -> Vec<String> {
    let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    let mut lines: Vec<String> = batches
        .flat_map(|batch| {
            (0..batch.num_rows()).map(move |row| {
                let texts = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
                texts.collect::<Vec<_>>().join(" | ")
            })
        })
        .collect();
    lines.sort_unstable();
    lines
}

fn go(session: &mut Session, way: Way) {
    let value = if way == Way::Joins { "on" } else { "off" };
    run(session, &format!("SET coeval.joined_subqueries = {value}"));
}

/// Whether some subquery runs for each row.
fn runs_for_each_row(session: &mut Session, query: &str) -> bool {
    let plan = lines(&run(session, &format!("EXPLAIN {query}")));
    plan.iter().any(|line| line.contains("coeval_apply"))
}

/// `g` is around, `t` in the subqueries: few values, so that keys repeat and are missing, and NULLs. Types of keys differ.
fn fill(session: &mut Session, dice: &mut StdRng) {
    run(session, "CREATE TABLE g (id int PRIMARY KEY, k bigint, j int, w text, f double precision)");
    run(session, "CREATE TABLE t (id int PRIMARY KEY, k int, v int, w text, f double precision)");
    for table in ["g", "t"] {
        let number = |dice: &mut StdRng| match dice.random_range(0..5) {
            4 => "NULL".to_owned(),
            value => value.to_string(),
        };
        let rows: Vec<String> = (0..dice.random_range(1..25))
            .map(|id| {
                let (k, j, f) = (number(dice), number(dice), number(dice));
                let w = ["'a'", "'b'", "''", "NULL"][dice.random_range(0..4)];
                format!("({id}, {k}, {j}, {w}, {f})")
            })
            .collect();
        run(session, &format!("INSERT INTO {table} VALUES {}", rows.join(", ")));
    }
}

#[test]
fn answers_are_those_of_subqueries_that_run_for_each_row() {
    for seed in 0..8 {
        let mut session = session();
        fill(&mut session, &mut StdRng::seed_from_u64(seed));
        for query in JOINED {
            go(&mut session, Way::RowByRow);
            assert!(runs_for_each_row(&mut session, query), "{query}");
            let expected = lines(&run(&mut session, query));
            go(&mut session, Way::Joins);
            assert!(!runs_for_each_row(&mut session, query), "{query}");
            assert_eq!(lines(&run(&mut session, query)), expected, "seed {seed}: {query}");
        }
    }
}

#[test]
fn what_would_be_something_else_for_all_rows_stays() {
    let mut session = session();
    fill(&mut session, &mut StdRng::seed_from_u64(1));
    for query in STAYING {
        assert!(runs_for_each_row(&mut session, query), "{query}");
    }
}

#[test]
fn a_second_row_is_an_error_where_somebody_asks_for_it() {
    let mut session = session();
    run(&mut session, "CREATE TABLE g (k int)");
    run(&mut session, "INSERT INTO g VALUES (1), (2), (NULL)");
    run(&mut session, "CREATE TABLE t (k int, v int)");
    run(&mut session, "INSERT INTO t VALUES (1, 10), (2, NULL), (3, 5), (3, 6)");
    let query = "SELECT (SELECT v FROM t WHERE t.k = g.k) FROM g";
    assert!(!runs_for_each_row(&mut session, query));
    assert_eq!(lines(&run(&mut session, query)), ["", "", "10"]);
    run(&mut session, "INSERT INTO g VALUES (3)");
    let state = |error: SqlError| error.state;
    assert_eq!(session.execute(query).map_err(state).err(), Some(SqlState::CardinalityViolation));
    let guarded = "SELECT CASE WHEN g.k < 3 THEN (SELECT v FROM t WHERE t.k = g.k) ELSE 0 END FROM g";
    assert!(!runs_for_each_row(&mut session, guarded));
    assert_eq!(lines(&run(&mut session, guarded)), ["", "0", "0", "10"]);
}

#[test]
fn a_few_rows_around_a_large_table_are_looked_up() {
    let mut session = session();
    run(&mut session, "CREATE TABLE g (id int PRIMARY KEY, k int)");
    run(&mut session, "INSERT INTO g SELECT i, i FROM generate_series(1, 100) AS s(i)");
    run(&mut session, "CREATE TABLE t (id int PRIMARY KEY, k int)");
    run(&mut session, "INSERT INTO t SELECT i, i % 100 FROM generate_series(1, 100000) AS s(i)");
    let all = "SELECT (SELECT t.id FROM t WHERE t.k = g.k ORDER BY t.id LIMIT 1) FROM g";
    assert!(!runs_for_each_row(&mut session, all));
    assert!(runs_for_each_row(&mut session, &format!("{all} WHERE g.id = 7")));
}
