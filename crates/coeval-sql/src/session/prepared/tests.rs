// SPDX-License-Identifier: Apache-2.0
//! Prepared queries with parameters: when one plan serves all their values, and that its rows are those of a plan for these alone.

use super::Prepared;
use crate::engine::Engine;
use crate::session::Session;
use coeval_store::{Store, StoreOptions, Value};
use std::sync::Arc;

/// Two tables of numbers, some of them NULL, and one of texts.
fn engine() -> Arc<Engine> {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    for sql in [
        "CREATE TABLE t (n bigint PRIMARY KEY, v bigint)",
        "CREATE TABLE u (n bigint PRIMARY KEY, v bigint)",
        "CREATE TABLE texts (n int PRIMARY KEY, value text, day date)",
        "INSERT INTO t SELECT n, nullif(n % 7, 6) FROM generate_series(1, 40) n",
        "INSERT INTO u SELECT n, nullif(n % 5, 4) FROM generate_series(0, 20) n",
        "INSERT INTO texts SELECT n, 'n' || n, date '2026-01-01' + n FROM generate_series(1, 40) n",
    ] {
        session.execute(sql).unwrap();
    }
    engine
}

/// A session whose queries run through DataFusion, with their plans made in this mode.
fn session(engine: &Arc<Engine>, mode: &str) -> Session {
    let mut session = engine.session();
    session.execute(&format!("SET coeval.point_path = off; SET plan_cache_mode = {mode}")).unwrap();
    session
}

/// The rows, or the state of the error.
fn outcome(session: &mut Session, prepared: &Arc<Prepared>, values: &[Value]) -> Result<String, String> {
    let result = session.run(prepared, values).map_err(|error| error.state.code().to_owned())?;
    let rows = result.rows.expect("it is a query");
    Ok(arrow::util::pretty::pretty_format_batches(&rows.batches).unwrap().to_string())
}

/// Runs a query in both modes with all these values; whether one plan came to serve all of them.
fn compared(sql: &str, values: &[Vec<Value>]) -> bool {
    let engine = engine();
    let (mut custom, mut generic) =
        (session(&engine, "force_custom_plan"), session(&engine, "force_generic_plan"));
    let (for_values, for_all) = (custom.prepare(sql).unwrap(), generic.prepare(sql).unwrap());
    for values in values {
        let expected = outcome(&mut custom, &for_values, values);
        assert_eq!(outcome(&mut generic, &for_all, values), expected, "{sql} with {values:?}");
    }
    assert!(!for_values.keeps_optimized(), "{sql}");
    for_all.keeps_optimized()
}

fn numbers(count: usize) -> Vec<Vec<Value>> {
    let pairs: [(Option<i64>, Option<i64>); 8] = [
        (Some(1), Some(2)),
        (Some(1), Some(1)),
        (Some(3), None),
        (None, Some(1)),
        (Some(0), Some(5)),
        (Some(7), Some(3)),
        (None, None),
        (Some(20), Some(0)),
    ];
    let values = |(first, second)| [Value::from(first), Value::from(second)][..count].to_vec();
    pairs.into_iter().map(values).collect()
}

#[test]
fn one_plan_for_all_values_gives_the_rows_of_a_plan_for_each() {
    for (sql, count) in [
        ("SELECT n, v FROM t WHERE v > $1 ORDER BY n", 1),
        ("SELECT count(*), max(n), min(n), max(v) FROM t WHERE v > $1", 1),
        ("SELECT n, CASE WHEN v > $1 THEN v ELSE n END AS other FROM t ORDER BY n", 1),
        ("SELECT a.n, b.v FROM t a JOIN u b ON a.v = b.n WHERE a.n > $1 AND b.v < $2 ORDER BY a.n", 2),
        (
            "SELECT a.n, c.v FROM t a JOIN u b ON a.v = b.n JOIN t c ON c.n = b.v WHERE a.n = $1 AND c.v > $2 ORDER BY 1",
            2,
        ),
        ("SELECT n FROM t ORDER BY n DESC LIMIT $1 OFFSET $2", 2),
    ] {
        assert!(compared(sql, &numbers(count)), "no plan is kept: {sql}");
    }
}

#[test]
fn values_that_decide_more_than_a_comparison_do_so_at_each_execution() {
    for (sql, count) in [
        ("SELECT n FROM t WHERE v IN ($1, $2, 100, 101) AND v IN (1, 2, 200, 201) ORDER BY n", 2),
        ("SELECT n FROM t WHERE v IN ($1, $2, 5, 6) AND v NOT IN ($2, 3, 4, 9) ORDER BY n", 2),
        ("SELECT n FROM t WHERE $1::bigint IS NULL OR v = $1 ORDER BY n", 1),
        ("SELECT count(*) FROM t GROUP BY $1::bigint", 1),
        ("SELECT v + $1, count(*) FROM t GROUP BY v + $1 ORDER BY 1 NULLS FIRST", 1),
        ("SELECT DISTINCT v = $1 FROM t ORDER BY 1", 1),
        (
            "SELECT a.n, b.v FROM t a LEFT JOIN u b ON b.n = a.v AND b.v > $1 WHERE coalesce(b.v, $2) = $2 ORDER BY 1",
            2,
        ),
        ("SELECT a.n FROM t a LEFT JOIN u b ON b.n = a.v WHERE b.v = $1 ORDER BY 1", 1),
        (
            "SELECT a.n FROM t a LEFT JOIN u b ON b.n = a.v WHERE b.v IS NOT DISTINCT FROM $1::bigint ORDER BY 1",
            1,
        ),
        ("SELECT count(*) FROM t WHERE v > (SELECT avg(v) FROM u WHERE n < $1)", 1),
        ("SELECT n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.n = t.v AND u.v > $1) ORDER BY n", 1),
        ("SELECT n FROM t WHERE v NOT IN (SELECT v FROM u WHERE n > $1) ORDER BY n", 1),
        ("SELECT $1::bigint AS x UNION SELECT v FROM t WHERE v < $2 ORDER BY 1", 2),
        ("SELECT x FROM (VALUES ($1::bigint), (5), (NULL)) a (x) WHERE x > $2 ORDER BY 1", 2),
        ("SELECT n, sum(v + $1) OVER (ORDER BY n) FROM t WHERE n < $2 ORDER BY n", 2),
        ("SELECT n, $1::bigint FROM t ORDER BY $1::bigint, n LIMIT $2", 2),
        ("SELECT n FROM t WHERE 10 / $1 > v ORDER BY n", 1),
        (
            "SELECT round(v::numeric / 3, $1::int), n FROM t WHERE round(v::numeric / 3, $1) = 0.3 OR n < 5 ORDER BY n",
            1,
        ),
        ("SELECT n FROM t WHERE v = ANY (ARRAY[$1, $2]) ORDER BY n", 2),
    ] {
        compared(sql, &numbers(count));
    }
}

#[test]
fn texts_and_dates_are_read_with_their_values() {
    let texts = |values: &[&str]| values.iter().map(|value| vec![Value::from(*value)]).collect::<Vec<_>>();
    compared("SELECT n FROM texts WHERE value LIKE $1 ORDER BY n", &texts(&["n1%", "%2", "n_", "%", ""]));
    compared("SELECT n FROM texts WHERE value ~ $1 ORDER BY n", &texts(&["^n1", "2$", "x", "["]));
    let days = texts(&["2026-01-20", "yesterday", "no day"]);
    compared("SELECT n FROM texts WHERE day > $1::text::date ORDER BY n", &days);
    compared("SELECT string_agg(value, $1 ORDER BY n) FROM texts WHERE n < 5", &texts(&[",", " - "]));
}

#[test]
fn two_lists_of_parameters_are_never_one_for_all_values() {
    for other in [
        "v IN (1, 2, 200, 201)",
        // The first values have no rows, and later ones have.
        "(v = 3 OR v = 5 OR v = 200 OR v = 201)",
        "NOT (v <> 3 AND v <> 5 AND v <> 200 AND v <> 201)",
        // The other way round.
        "NOT (v = 3 OR v = 5 OR v = 200 OR v = 201)",
    ] {
        let sql = format!("SELECT n FROM t WHERE v IN ($1, $2, 100, 101) AND {other} ORDER BY n");
        assert!(!compared(&sql, &numbers(2)), "{other}");
    }
}

#[test]
fn a_plan_is_kept_with_dates_in_it_and_not_with_the_time_of_now() {
    let engine = engine();
    let mut session = session(&engine, "auto");
    for (sql, is_kept) in [
        ("SELECT n FROM t WHERE date '2024-01-01' + n > date '2024-02-01' + interval '3 days'", true),
        ("SELECT n FROM t WHERE extract(year FROM timestamptz '2024-01-01 00:00') > n", true),
        ("SELECT n FROM t WHERE now() > timestamptz '2024-01-01 00:00'", false),
    ] {
        let query = session.prepare(sql).unwrap();
        outcome(&mut session, &query, &[]).unwrap();
        assert_eq!(query.keeps_optimized(), is_kept, "{sql}");
    }
}

#[test]
fn a_plan_for_all_values_comes_after_five_for_values() {
    let engine = engine();
    let mut session = session(&engine, "auto");
    let query = session.prepare("SELECT count(*) FROM t WHERE v > $1").unwrap();
    for value in 0..5 {
        outcome(&mut session, &query, &[Value::Int64(value)]).unwrap();
        assert!(!query.keeps_optimized(), "after {} executions", value + 1);
    }
    outcome(&mut session, &query, &[Value::Int64(5)]).unwrap();
    assert!(query.keeps_optimized());

    // Rows that came later are there, and so is a plan of its own for many more of them.
    session.execute("INSERT INTO t SELECT n, 50 FROM generate_series(100, 149) n").unwrap();
    assert!(outcome(&mut session, &query, &[Value::Int64(49)]).unwrap().contains("| 50 "));
    session.execute("INSERT INTO t SELECT n, 60 FROM generate_series(1000, 30999) n").unwrap();
    assert!(outcome(&mut session, &query, &[Value::Int64(59)]).unwrap().contains("| 30000 "));
    assert!(!query.keeps_optimized());
}

/// To break it: give each execution answers of its own. Then the second one leaves none.
#[test]
fn what_scans_are_estimated_to_give_is_kept_with_the_plan() {
    let engine = engine();
    let mut session = session(&engine, "auto");
    let sql = "SELECT count(*) FROM t a JOIN t b ON a.n = b.v WHERE a.v > 3 AND b.n < 7";
    let query = session.prepare(sql).unwrap();
    let first = outcome(&mut session, &query, &[]);
    assert!(query.keeps_optimized());
    assert_eq!(query.forget_scans(), 2);
    assert_eq!(outcome(&mut session, &query, &[]), first);
    assert_eq!(query.forget_scans(), 2);

    // Parameters have other values each time.
    let query = session.prepare("SELECT count(*) FROM t WHERE v > $1").unwrap();
    for value in 0..7 {
        outcome(&mut session, &query, &[Value::Int64(value)]).unwrap();
    }
    assert!(query.keeps_optimized());
    assert_eq!(query.forget_scans(), 0);
}

#[test]
fn what_the_clock_says_is_asked_at_each_execution() {
    let engine = engine();
    let mut session = session(&engine, "force_generic_plan");
    let sql = "SELECT clock, count(*) FROM t, (SELECT now() AS clock) c WHERE v > $1 GROUP BY clock";
    let query = session.prepare(sql).unwrap();
    let first = outcome(&mut session, &query, &[Value::Int64(1)]);
    for _ in 0..2 {
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_ne!(outcome(&mut session, &query, &[Value::Int64(1)]), first);
    }
    assert!(!query.keeps_optimized());
}

#[test]
fn a_query_of_a_view_is_kept_until_definitions_change() {
    let engine = engine();
    let mut session = session(&engine, "force_generic_plan");
    session.execute("CREATE ROLE keeper; GRANT SELECT ON t TO keeper").unwrap();
    session
        .execute("CREATE VIEW few AS SELECT n, v FROM t WHERE v < 3; ALTER VIEW few OWNER TO keeper")
        .unwrap();
    let query = session.prepare("SELECT count(*) FROM few WHERE n > $1").unwrap();
    let mut counted = |sql: &str| {
        session.execute(sql).unwrap();
        outcome(&mut session, &query, &[Value::Int64(0)])
    };
    let before = counted("SELECT 1").unwrap();
    assert!(query.keeps_optimized());
    assert_eq!(counted("SELECT 1").unwrap(), before);
    assert_ne!(counted("CREATE OR REPLACE VIEW few AS SELECT n, v FROM t WHERE v < 2").unwrap(), before);
    // It is read with its owner's rights, whoever asks.
    assert_eq!(counted("REVOKE SELECT ON t FROM keeper"), Err("42501".to_owned()));
    assert!(counted("GRANT SELECT ON t TO keeper").is_ok());
    assert_eq!(counted("DROP VIEW few"), Err("42P01".to_owned()));
}

/// As in PostgreSQL. To break it: take a plan whose table is there for one whose names mean that table.
#[test]
fn a_prepared_statement_finds_its_tables_by_the_search_path_of_now() {
    let engine = engine();
    for point_path in ["on", "off"] {
        let mut session = engine.session();
        let schema = format!("of_{point_path}");
        session.execute(&format!("SET coeval.point_path = {point_path}; CREATE SCHEMA {schema}")).unwrap();
        session.execute(&format!("CREATE TABLE {schema}.t (n bigint PRIMARY KEY, v bigint)")).unwrap();
        session.execute(&format!("INSERT INTO {schema}.t VALUES (1, 1001)")).unwrap();
        let prepared = session.prepare("SELECT v FROM t WHERE n = $1").unwrap();
        let one = [Value::Int64(1)];
        assert!(outcome(&mut session, &prepared, &one).unwrap().contains("| 1 "));
        session.execute(&format!("SET search_path = {schema}, public")).unwrap();
        for _ in 0..2 {
            assert!(outcome(&mut session, &prepared, &one).unwrap().contains("| 1001 "));
        }
        session.execute("RESET search_path").unwrap();
        assert!(outcome(&mut session, &prepared, &one).unwrap().contains("| 1 "));
    }
}
