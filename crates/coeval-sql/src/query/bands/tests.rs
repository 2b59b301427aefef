// SPDX-License-Identifier: Apache-2.0
//! Joins by intervals beside the same of all pairs: what is cast is no column.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};

/// Numbers on both sides of zero, some of them NULL, some twice, and large ones.
const TABLES: &str = "
    CREATE TABLE t (id int PRIMARY KEY, a int);
    INSERT INTO t SELECT g, CASE WHEN g % 50 = 0 THEN NULL ELSE g % 1500 - 700 END FROM generate_series(1, 2000) g;
    INSERT INTO t VALUES (3000, 2147483600), (3001, -2147483600);
    CREATE TABLE g (id int PRIMARY KEY, k int);
    INSERT INTO g SELECT g, CASE WHEN g % 60 = 0 THEN NULL ELSE g * 3 - 1700 END FROM generate_series(1, 1200) g;
    INSERT INTO g VALUES (3000, 2147483599), (3001, -2147483601);
    CHECKPOINT;";

fn session() -> Session {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    session.execute(TABLES).unwrap();
    session
}

fn column(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    let texts = batches.flat_map(|batch| {
        (0..batch.num_rows()).map(move |row| array_value_to_string(batch.column(0), row).unwrap())
    });
    texts.collect()
}

fn looks_at_all_pairs(session: &mut Session, query: &str) -> bool {
    column(session, &format!("EXPLAIN {query}")).iter().any(|line| line.contains("NestedLoopJoinExec"))
}

fn of(from: &str, condition: &str) -> String {
    format!("SELECT t.id::text || ' ' || g.id::text AS pair FROM {from} ON {condition} ORDER BY 1")
}

#[test]
fn answers_are_those_of_all_pairs() {
    let mut session = session();
    let conditions = [
        "{a} BETWEEN g.k AND g.k + 1",
        "{a} BETWEEN g.k - 3 AND g.k + 5",
        "{a} > g.k - 2 AND g.k + 2 > {a}",
        "g.k BETWEEN {a} AND {a} + 6",
        "{a} BETWEEN g.k + 4 AND g.k + 6",
        "{a} >= g.k AND {a} <= g.k + 10 AND {a} <= g.k + 2 AND t.id > g.id",
    ];
    for condition in conditions {
        for from in ["t JOIN g", "g JOIN t"] {
            let by_intervals = of(from, &condition.replace("{a}", "t.a"));
            let by_pairs = of(from, &condition.replace("{a}", "t.a::bigint"));
            assert!(!looks_at_all_pairs(&mut session, &by_intervals), "{by_intervals}");
            assert!(looks_at_all_pairs(&mut session, &by_pairs), "{by_pairs}");
            assert_eq!(
                column(&mut session, &by_intervals),
                column(&mut session, &by_pairs),
                "{by_intervals}"
            );
        }
    }
}

#[test]
fn what_is_no_band_is_left() {
    let mut session = session();
    let conditions = [
        "t.a >= g.k",
        "t.a BETWEEN g.k AND g.id + 1",
        "t.a BETWEEN g.k + 2 AND g.k + 1",
        "t.a BETWEEN g.k AND g.k * 2",
        "t.a::bigint BETWEEN g.k AND g.k + 1",
    ];
    for condition in conditions {
        let query = of("t JOIN g", condition);
        assert!(looks_at_all_pairs(&mut session, &query), "{query}");
    }
    let outer = of("t LEFT JOIN g", "t.a BETWEEN g.k AND g.k + 1");
    assert!(looks_at_all_pairs(&mut session, &outer));
}
