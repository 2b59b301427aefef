// SPDX-License-Identifier: Apache-2.0
//! Which plans have operators of ours: keys in the place of several columns, filters that ask step by step; and which have none.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};

fn session() -> Session {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    session
        .execute(
            "CREATE TABLE t (a int, b int NOT NULL, c int NOT NULL, d date, e bigint, f bigint, g text);
             INSERT INTO t SELECT i % 7, i % 5, i, date '2024-01-01' + i % 30, i, i, 'text ' || i % 3
             FROM generate_series(1, 40000) i;
             CHECKPOINT",
        )
        .unwrap();
    session
}

/// The lines of the query's plan.
fn plan(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(&format!("EXPLAIN {sql}")).unwrap();
    let mut lines = Vec::new();
    for batch in results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches) {
        for row in 0..batch.num_rows() {
            let text = array_value_to_string(batch.columns().last().unwrap(), row).unwrap();
            lines.extend(text.lines().map(str::to_owned).collect::<Vec<_>>());
        }
    }
    lines
}

/// The rows of a query.
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap();
    let mut lines = Vec::new();
    for batch in results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches) {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            lines.push(values.collect::<Vec<_>>().join(" | "));
        }
    }
    lines
}

/// How many steps of the query's plan go by keys, and of how many bits these are.
fn packed(session: &mut Session, sql: &str) -> (usize, Vec<String>) {
    let lines = plan(session, sql).into_iter();
    let steps: Vec<String> = lines.filter(|line| line.contains("PackedGroupsExec")).collect();
    let bits = |line: &String| {
        let (_, bits) = line.rsplit_once("bits=")?;
        Some(bits.chars().take_while(char::is_ascii_digit).collect::<String>())
    };
    (steps.len(), steps.iter().filter_map(bits).collect())
}

#[test]
fn columns_that_fit_into_a_key_are_grouped_by_it() {
    let mut session = session();
    // Those of more than 64 bits have room for the values that there are.
    let groups = [("b, c", "64"), ("a, b", "63"), ("b, c, d", "61"), ("e, a", "63"), ("e, f", "62")];
    for (columns, bits) in groups {
        let sql = format!("SELECT {columns}, count(*) FROM t GROUP BY {columns}");
        let (steps, found) = packed(&mut session, &sql);
        assert!(steps > 0, "{sql}");
        assert!(found.iter().all(|found| found == bits), "{sql}: {found:?}");
    }
    for columns in ["a", "a, g"] {
        let sql = format!("SELECT {columns}, count(*) FROM t GROUP BY {columns}");
        assert_eq!(packed(&mut session, &sql).0, 0, "{sql}");
    }
}

#[test]
fn values_far_from_all_others_are_grouped_too() {
    let mut session = session();
    let sql = "SELECT a, b, count(*) FROM t GROUP BY a, b HAVING count(*) < 3 ORDER BY a, b";
    let rows = |session: &mut Session| {
        let results = session.execute(sql).unwrap();
        let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
        batches.map(|batch| batch.num_rows()).sum::<usize>()
    };
    assert_eq!(rows(&mut session), 0);
    session
        .execute(
            "INSERT INTO t (a, b, c) VALUES (2147483647, -2147483648, 0), (2147483647, -2147483648, 0);
             INSERT INTO t (a, b, c) VALUES (NULL, 9, 0), (7, 5, 0), (-1, 5, 0)",
        )
        .unwrap();
    assert_eq!(rows(&mut session), 4);
}

#[test]
fn a_setting_switches_keys_off() {
    let mut session = session();
    let sql = "SELECT a, b, sum(c) FROM t GROUP BY a, b";
    assert!(packed(&mut session, sql).0 > 0);
    session.execute("SET coeval.packed_groups = off").unwrap();
    assert_eq!(packed(&mut session, sql).0, 0);
    session.execute("RESET coeval.packed_groups").unwrap();
    assert!(packed(&mut session, sql).0 > 0);
}

/// Of 64 bits they are made by an accumulator of their own. Break: leave out the types of states in `is_spread`, or the squares of a value.
#[test]
fn spreads_of_small_integers_are_made_by_codes_of_their_groups() {
    let mut session = session();
    // Two chunks, so that there are first steps.
    let more = "INSERT INTO t (a, b, c, e) SELECT i % 7, i % 5, i, i FROM generate_series(40001, 100000) i";
    session.execute(more).unwrap();
    session.execute("CHECKPOINT").unwrap();
    let sql = |value: &str| {
        format!(
            "SELECT a, stddev({value}), stddev_pop({value}), variance({value}), avg({value}), count({value}),
                    var_pop({value}) FILTER (WHERE b > 1)
             FROM t GROUP BY a ORDER BY a"
        )
    };
    let has_accumulators = |session: &mut Session, value: &str| {
        let lines = plan(session, &sql(value));
        let coded = lines.iter().find(|line| line.contains("CodedGroupsExec"));
        coded.expect("few groups go by codes").contains("general=")
    };
    for (small, large) in [
        ("c", "e"),
        // The last groups have no values.
        ("CASE WHEN a < 3 THEN c - 20000 END", "CASE WHEN a < 3 THEN e - 20000 END"),
        ("(c % 100)::smallint", "e % 100"),
    ] {
        assert!(!has_accumulators(&mut session, small), "{small}");
        assert!(has_accumulators(&mut session, large), "{large}");
        let found = rows(&mut session, &sql(small));
        assert_eq!(found, rows(&mut session, &sql(large)), "{small}");
        session.execute("SET coeval.coded_groups = off").unwrap();
        assert_eq!(found, rows(&mut session, &sql(small)), "without codes: {small}");
        session.execute("RESET coeval.coded_groups").unwrap();
    }
}

/// Of 64 bits they are floats. Break: leave out the types of states in `is_of_pairs`, or mix up the order of states.
#[test]
fn correlations_of_small_integers_are_made_by_codes_of_their_groups() {
    let mut session = session();
    let sql = |y: &str, x: &str| {
        format!(
            "SELECT a, corr({y}, {x}), regr_slope({y}, {x}), regr_intercept({y}, {x}), regr_r2({x}, {y}),
                    covar_pop({y}, {x}), regr_avgx({y}, {x}), regr_count({y}, {x}), avg({x}), count(*),
                    regr_sxy({y}, {x}) FILTER (WHERE b > 1)
             FROM t GROUP BY a ORDER BY a"
        )
    };
    let has_accumulators = |session: &mut Session, y: &str, x: &str| {
        let lines = plan(session, &sql(y, x));
        let coded = lines.iter().find(|line| line.contains("CodedGroupsExec"));
        coded.expect("few groups go by codes").contains("general=")
    };
    for (y, x) in [
        ("c", "b"),
        ("c - 20000", "(c % 100)::smallint"),
        // Some pairs have a NULL, and the last groups have no pairs.
        ("CASE WHEN a < 5 THEN c END", "CASE WHEN b > 0 THEN b * 1000 END"),
        ("CASE c % 3 WHEN 0 THEN -2147483647 WHEN 1 THEN 2147483647 ELSE c END", "-c"),
        ("b::smallint", "(c % 7)::smallint"),
    ] {
        assert!(!has_accumulators(&mut session, y, x), "{y}, {x}");
        let found = rows(&mut session, &sql(y, x));
        session.execute("SET coeval.coded_groups = off").unwrap();
        assert_eq!(found, rows(&mut session, &sql(y, x)), "without codes: {y}, {x}");
        session.execute("RESET coeval.coded_groups").unwrap();
    }
    assert!(has_accumulators(&mut session, "e", "b"), "bigint");
    assert!(session.execute("SELECT corr(DISTINCT c, b) FROM t GROUP BY a").is_err());
}

/// To break it: pass by outer joins as well, or ask for rows whatever values they may have.
#[test]
fn rows_that_are_there_several_times_are_left_out_below_the_joins_of_a_distinct() {
    let mut session = session();
    session
        .execute(
            "CREATE TABLE names (k int PRIMARY KEY, name text);
             INSERT INTO names SELECT i, 'name ' || i % 3 FROM generate_series(0, 5) i;
             CHECKPOINT",
        )
        .unwrap();
    let steps = |session: &mut Session, sql: &str| {
        plan(session, sql).iter().filter(|line| line.contains("CodedGroupsExec")).count()
    };
    for (sql, expected) in [
        ("SELECT DISTINCT name, d FROM t JOIN names ON a = k ORDER BY name, d", 2),
        ("SELECT name, b FROM t JOIN names ON a = k GROUP BY name, b ORDER BY name, b", 2),
        // Rows are different in all columns together, or come out without a partner.
        ("SELECT DISTINCT name, c, e FROM t JOIN names ON a = k ORDER BY c", 1),
        ("SELECT DISTINCT name, d FROM t LEFT JOIN names ON a = k ORDER BY name, d", 1),
    ] {
        assert_eq!(steps(&mut session, sql), expected, "{sql}");
        let found = rows(&mut session, sql);
        session.execute("SET coeval.coded_groups = off").unwrap();
        assert_eq!(steps(&mut session, sql), 0, "{sql}");
        assert_eq!(found, rows(&mut session, sql), "{sql}");
        session.execute("RESET coeval.coded_groups").unwrap();
    }
}

#[test]
fn filters_above_scans_are_asked_step_by_step_unless_a_setting_is_off() {
    let mut session = session();
    let sql = "SELECT a, count(*) FROM t GROUP BY a HAVING count(*) > 10 AND max(c) < 39998";
    let filters = |session: &mut Session| {
        plan(session, sql).into_iter().filter(|line| line.contains("FilterExec")).collect::<Vec<_>>()
    };
    let is_stepwise = |line: &String| line.contains("StepwiseFilterExec: ");
    let found = filters(&mut session);
    assert!(!found.is_empty() && found.iter().all(is_stepwise), "{found:?}");
    session.execute("SET coeval.stepwise_filters = off").unwrap();
    let found = filters(&mut session);
    assert!(!found.is_empty() && !found.iter().any(is_stepwise), "{found:?}");
}
