// SPDX-License-Identifier: Apache-2.0
//! EXISTS by extremes beside the same by pairs of rows: an expression is no key that is known to repeat.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};

/// Keys with a hundred rows, or none; one of them with one value, one with NULL alone, and rows around them of either kind.
const TABLES: &str = "
    CREATE TABLE t (id int PRIMARY KEY, k int, b int, c text);
    INSERT INTO t SELECT g, g % 20,
            CASE WHEN g % 20 = 5 THEN 3 WHEN g % 20 = 6 OR g % 11 = 0 THEN NULL ELSE g % 7 END, 'c' || g % 4
        FROM generate_series(1, 2000) g;
    CREATE TABLE o (id int PRIMARY KEY, k int, b int, c text);
    INSERT INTO o SELECT g, CASE WHEN g % 13 = 0 THEN NULL ELSE g % 25 END, CASE WHEN g % 7 = 0 THEN NULL ELSE g % 9 END, 'c' || g % 5
        FROM generate_series(1, 300) g;
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

fn groups(session: &mut Session, query: &str) -> bool {
    column(session, &format!("EXPLAIN {query}")).iter().any(|line| line.contains("coeval_extreme"))
}

#[test]
fn answers_are_those_of_all_pairs() {
    let mut session = session();
    let comparisons =
        ["t.b <> o.b", "o.b <> t.b", "t.b < o.b", "o.b < t.b", "t.b <= o.b", "o.b + 1 >= t.b", "t.c <> o.c"];
    for condition in comparisons {
        for exists in ["EXISTS", "NOT EXISTS"] {
            let query = |key: &str| {
                format!(
                    "SELECT id FROM o WHERE {exists} (SELECT 1 FROM t WHERE {key} = o.k AND {condition}) ORDER BY id"
                )
            };
            let (by_extremes, by_pairs) = (query("t.k"), query("t.k + 0"));
            assert!(groups(&mut session, &by_extremes), "{by_extremes}");
            assert!(!groups(&mut session, &by_pairs), "{by_pairs}");
            assert_eq!(column(&mut session, &by_extremes), column(&mut session, &by_pairs), "{by_extremes}");
        }
    }
}

#[test]
fn keys_that_hardly_repeat_and_other_conditions_are_left() {
    let mut session = session();
    let conditions = [
        "t.id = o.k AND t.b <> o.b",
        "t.k = o.k AND t.b <> o.b AND t.id > o.id",
        "t.k = o.k AND t.b + o.b > 3",
        "t.k = o.k AND t.b + 1 <> o.b",
    ];
    for condition in conditions {
        let query = format!("SELECT id FROM o WHERE EXISTS (SELECT 1 FROM t WHERE {condition})");
        assert!(!groups(&mut session, &query), "{query}");
    }
}
