// SPDX-License-Identifier: Apache-2.0
//! Figure 5 of the paper, and both formulations on random versions.

use super::*;
use crate::engine::{Connection, DataFusionEngine, Effort, Engine};
use crate::physical::{create_schema, create_table};
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

fn table1() -> Definition {
    let sql = "CREATE TABLE table1 (k text PRIMARY KEY, v text)";
    match Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().pop() {
        Some(Statement::CreateTable(create)) => Definition::of(&create).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn connection() -> Box<dyn Connection> {
    let engine = DataFusionEngine::in_memory().unwrap();
    let mut connection = engine.connect().unwrap();
    let statements =
        create_schema(engine.dialect()).into_iter().chain(create_table(&table1(), engine.dialect()).unwrap());
    for statement in statements {
        connection.execute(&statement).unwrap();
    }
    connection
}

/// Rows as text, in order.
fn rows(connection: &mut dyn Connection, sql: &str) -> Vec<(String, String)> {
    let rows = connection.query(sql, Effort::Analytical).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let mut list = Vec::new();
    for batch in &rows.batches {
        for row in 0..batch.num_rows() {
            let text = |column: usize| {
                arrow::util::display::array_value_to_string(batch.column(column), row).unwrap()
            };
            list.push((text(0), text(1)));
        }
    }
    list.sort();
    list
}

fn view(sts: i64, own: Option<i64>, layout: Layout) -> View {
    View { sts: Timestamp(sts), own: own.map(Txid), layout, cache: CacheRows::Some }
}

#[test]
fn figure_5_gives_the_rows_of_the_paper() {
    let mut engine = connection();
    engine
        .execute("INSERT INTO table1_storage VALUES ('k1','v1'),('k2','v2'),('k3','v3'),('k4','v4')")
        .unwrap();
    // Transactions 1 and 2 committed before 4 began, 3 after; 4 is running and has written k1.
    engine.execute("INSERT INTO tique_committed VALUES (1, 1), (2, 2), (3, 3)").unwrap();
    let joined = "INSERT INTO table1_cache VALUES ('k1','v100',false,4,NULL,1), ('k2','v20',false,1,NULL,1), \
                  ('k2','v2000',false,3,NULL,1), ('k3',NULL,true,2,NULL,1)";
    engine.execute(joined).unwrap();
    let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    let expected = [pair("k1", "v100"), pair("k2", "v20"), pair("k4", "v4")];
    for formulation in [Formulation::Ranking, Formulation::AntiJoin] {
        let sql = query(&table1(), &view(2, Some(4), Layout::Joined), formulation, &FoundBy::default());
        assert_eq!(rows(&mut *engine, &sql), expected, "{formulation:?}");
    }
    engine.execute("DELETE FROM table1_cache WHERE true").unwrap();
    let stamped = "INSERT INTO table1_cache VALUES ('k1','v100',false,4,NULL,1), ('k2','v20',false,1,1,1), \
                   ('k2','v2000',false,3,3,1), ('k3',NULL,true,2,2,1)";
    engine.execute(stamped).unwrap();
    for formulation in [Formulation::Ranking, Formulation::AntiJoin] {
        let sql = query(&table1(), &view(2, Some(4), Layout::Stamped), formulation, &FoundBy::default());
        assert_eq!(rows(&mut *engine, &sql), expected, "{formulation:?}");
    }
}

#[test]
fn every_snapshot_of_random_versions_is_what_a_replay_gives() {
    let mut random = StdRng::seed_from_u64(5);
    for layout in [Layout::Stamped, Layout::Joined] {
        let mut engine = connection();
        let mut states = vec![BTreeMap::new()];
        for key in 0..6 {
            engine.execute(&format!("INSERT INTO table1_storage VALUES ('k{key}', 'stable')")).unwrap();
            states[0].insert(format!("k{key}"), "stable".to_owned());
        }
        for cts in 1..=12 {
            let mut next = states.last().unwrap().clone();
            for key in 0..9 {
                if !random.random_ratio(1, 4) {
                    continue;
                }
                let deleted = random.random_ratio(1, 3);
                let stamp = if layout == Layout::Stamped { cts.to_string() } else { "NULL".to_owned() };
                let version = format!("('k{key}', 'v{cts}', {deleted}, {}, {stamp}, 1)", 100 + cts);
                engine.execute(&format!("INSERT INTO table1_cache VALUES {version}")).unwrap();
                if deleted {
                    next.remove(&format!("k{key}"));
                } else {
                    next.insert(format!("k{key}"), format!("v{cts}"));
                }
            }
            engine.execute(&format!("INSERT INTO tique_committed VALUES ({}, {cts})", 100 + cts)).unwrap();
            states.push(next);
        }
        for (sts, state) in states.iter().enumerate() {
            for formulation in [Formulation::Ranking, Formulation::AntiJoin] {
                let sql = query(&table1(), &view(sts as i64, None, layout), formulation, &FoundBy::default());
                let expected: Vec<_> = state.clone().into_iter().collect();
                assert_eq!(rows(&mut *engine, &sql), expected, "{formulation:?} at {sts} of {layout:?}");
            }
        }
    }
}

/// What a checkpoint does with the table up to a timestamp; its transactions have the numbers of their timestamps and a hundred.
fn checkpoint(engine: &mut dyn Connection, stable: i64) {
    let is_stable = format!("{TXID} <= {}", 100 + stable);
    for sql in [
        format!(
            "DELETE FROM table1_storage WHERE EXISTS (SELECT 1 FROM (SELECT k FROM table1_cache WHERE {is_stable}) \
             AS v WHERE v.k = table1_storage.k)"
        ),
        format!(
            "INSERT INTO table1_storage (k, v) SELECT k, v FROM (SELECT k, v, {DELETED}, rank() OVER \
             (PARTITION BY k ORDER BY {TXID} DESC) AS place FROM table1_cache WHERE {is_stable}) AS ranked \
             WHERE place = 1 AND NOT {DELETED}"
        ),
        format!("DELETE FROM table1_cache WHERE {is_stable}"),
    ] {
        engine.execute(&sql).unwrap();
    }
}

/// A copy read cache and storage at once, so that commits waited for it as long as the storage takes.
#[test]
fn a_checkpoint_between_the_look_at_the_cache_and_the_one_at_the_storage_is_not_seen() {
    let mut random = StdRng::seed_from_u64(6);
    for layout in [Layout::Stamped, Layout::Joined] {
        let mut engine = connection();
        let made = format!(
            "CREATE TABLE newer (k VARCHAR, v VARCHAR, {DELETED} BOOLEAN, {CTS} BIGINT, {SEQUENCE} BIGINT)"
        );
        engine.execute(&made).unwrap();
        engine.execute("INSERT INTO table1_storage VALUES ('k0', 'stable'), ('k1', 'stable')").unwrap();
        let stable = |key: &str| (key.to_owned(), "stable".to_owned());
        let mut state = BTreeMap::from([stable("k0"), stable("k1")]);
        let mut states = vec![state.clone()];
        for cts in 1..=16 {
            let (key, deleted) = (format!("k{}", random.random_range(0..5)), random.random_ratio(1, 3));
            let stamp = if layout == Layout::Stamped { cts.to_string() } else { "NULL".to_owned() };
            let version = format!("('{key}', 'v{cts}', {deleted}, {}, {stamp}, 1)", 100 + cts);
            engine.execute(&format!("INSERT INTO table1_cache VALUES {version}")).unwrap();
            engine.execute(&format!("INSERT INTO tique_committed VALUES ({}, {cts})", 100 + cts)).unwrap();
            if deleted {
                state.remove(&key);
            } else {
                state.insert(key, format!("v{cts}"));
            }
            states.push(state.clone());
        }
        for (sts, state) in (0_i64..).zip(&states) {
            engine.execute("DELETE FROM newer WHERE true").unwrap();
            let versions = versions(&table1(), "k, v", &view(sts, None, layout));
            engine.execute(&format!("INSERT INTO newer {versions}")).unwrap();
            // None, one of less than this transaction sees, and one of all of it.
            match sts % 3 {
                0 => {}
                1 => checkpoint(&mut *engine, sts - 1),
                _ => checkpoint(&mut *engine, sts),
            }
            let expected: Vec<_> = state.clone().into_iter().collect();
            let seen = rows(&mut *engine, &merged(&table1(), "k, v", "newer"));
            assert_eq!(seen, expected, "at {sts} of {layout:?}");
        }
    }
}

#[test]
fn a_filter_on_the_key_reaches_storage_and_cache_and_an_empty_cache_is_not_in_the_plan() {
    let mut engine = connection();
    engine.execute("INSERT INTO table1_storage VALUES ('k1','v1'),('k2','v2')").unwrap();
    engine.execute("INSERT INTO table1_cache VALUES ('k1','v3',false,1,1,1)").unwrap();
    let mut plan = |view: View| {
        let snapshot = query(&table1(), &view, Formulation::Ranking, &FoundBy::default());
        let sql = format!("EXPLAIN SELECT v FROM ({snapshot}) AS t WHERE k = 'k1'");
        rows(&mut *engine, &sql).into_iter().find(|(kind, _)| kind == "logical_plan").unwrap().1
    };
    let filled = plan(view(1, None, Layout::Stamped));
    let below_window = filled.split("WindowAggr").nth(1).expect("the versions are ranked");
    assert_eq!(below_window.matches("k = Utf8(\"k1\")").count(), 2, "{filled}");
    let empty = plan(View { cache: CacheRows::None, ..view(1, None, Layout::Stamped) });
    assert!(!empty.contains("table1_cache") && !empty.contains("Window"), "{empty}");
}
