// SPDX-License-Identifier: Apache-2.0
//! What is computed once and what is not, and that the answers are the same.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};

/// So many rows that scans are divided where there are threads for it.
const TABLES: &str = "
    CREATE TABLE sales (id int PRIMARY KEY, shop int, month int, amount bigint);
    CREATE TABLE shops (shop int PRIMARY KEY, name text);
    INSERT INTO sales SELECT g, g % 50, g % 12, g % 1000 FROM generate_series(1, 40000) g;
    INSERT INTO shops SELECT g, 'shop ' || g FROM generate_series(0, 49) g;
    CHECKPOINT;";

/// What is named in several places by most of the queries.
const TOTALS: &str = "totals AS (SELECT shop, month, sum(amount) AS total FROM sales GROUP BY shop, month)";

fn session() -> Session {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    session.execute(TABLES).unwrap();
    session
}

/// The rows of a query, a text for each, in order.
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    let of_batch = |batch: &arrow::array::RecordBatch| {
        let text = |row| {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            values.collect::<Vec<_>>().join(" ")
        };
        (0..batch.num_rows()).map(text).collect::<Vec<_>>()
    };
    batches.flat_map(of_batch).collect()
}

/// How many parts of a query's plan are shared, and how many copies of them read.
fn shared(session: &mut Session, sql: &str) -> (usize, usize) {
    let plan = rows(session, &format!("EXPLAIN {sql}"));
    let count = |what: &str| plan.iter().filter(|line| line.trim_start().starts_with(what)).count();
    (count("Shared: "), count("SharedReader: "))
}

/// The same, of a query whose answer is what it is without the rule.
fn shared_with_equal_answers(session: &mut Session, sql: &str) -> (usize, usize) {
    let sorted = |session: &mut Session| {
        let mut rows = rows(session, sql);
        rows.sort_unstable();
        rows
    };
    let (ours, found) = (sorted(session), shared(session, sql));
    session.execute("SET coeval.shared_subplans = off").unwrap();
    assert_eq!(shared(session, sql), (0, 0), "{sql}");
    assert_eq!(ours, sorted(session), "{sql}");
    assert!(!ours.is_empty(), "{sql}");
    session.execute("SET coeval.shared_subplans = on").unwrap();
    found
}

#[test]
fn what_is_named_several_times_is_computed_once() {
    let mut session = session();
    for (query, readers) in [
        ("SELECT * FROM totals UNION ALL SELECT * FROM totals", 1),
        ("SELECT * FROM totals UNION ALL SELECT * FROM totals UNION ALL SELECT * FROM totals", 2),
        (
            "SELECT a.shop, a.total, b.total FROM totals a
                 JOIN totals b ON a.shop = b.shop AND a.total < b.total",
            1,
        ),
        (
            "SELECT a.shop, a.total, b.total, c.total FROM totals a
                 JOIN totals b ON a.shop = b.shop AND a.month = b.month + 2
                 LEFT JOIN totals c ON a.shop = c.shop AND a.month = c.month - 2",
            2,
        ),
        // Conditions on what is grouped stay above the groups.
        ("SELECT * FROM totals WHERE total > 70000 UNION ALL SELECT * FROM totals WHERE total < 65000", 1),
        ("SELECT shop, month FROM totals WHERE total = (SELECT max(total) FROM totals)", 1),
    ] {
        let sql = format!("WITH {TOTALS} {query}");
        assert_eq!(shared_with_equal_answers(&mut session, &sql), (1, readers), "{sql}");
    }
}

#[test]
fn subqueries_without_a_name_are_found_too() {
    let mut session = session();
    let part =
        "SELECT s.name, sum(amount) AS total FROM sales JOIN shops s ON s.shop = sales.shop GROUP BY s.name";
    let sql = format!("SELECT * FROM ({part}) a JOIN ({part}) b ON a.total = b.total");
    assert_eq!(shared_with_equal_answers(&mut session, &sql), (1, 1));
}

/// What follows from the key of a group has a numbered name.
#[test]
fn groups_that_go_by_their_key_alone_are_found_too() {
    let mut session = session();
    session
        .execute(
            "CREATE TABLE notes (id int PRIMARY KEY, note text, size int);
             INSERT INTO notes SELECT g, 'note ' || g % 7, g % 100 FROM generate_series(1, 20000) g;
             CHECKPOINT;",
        )
        .unwrap();
    let sql = "WITH sizes AS (SELECT id, note, sum(size) AS total FROM notes GROUP BY id, note)
               SELECT * FROM sizes UNION ALL SELECT * FROM sizes";
    let plan = rows(&mut session, &format!("EXPLAIN {sql}"));
    assert!(plan.iter().any(|line| line.contains("coeval_any")), "{plan:?}");
    assert_eq!(shared_with_equal_answers(&mut session, sql), (1, 1));
}

#[test]
fn windows_over_what_is_shared_may_differ() {
    let mut session = session();
    let sql = format!(
        "WITH {TOTALS}, places AS (
             SELECT shop, month, total, rank() OVER (PARTITION BY shop ORDER BY month) AS place,
                 avg(total) OVER (PARTITION BY shop) AS mean
             FROM totals)
         SELECT a.shop, a.month, a.mean, b.total FROM places a JOIN places b
             ON a.shop = b.shop AND a.place = b.place + 1 WHERE a.month > 3"
    );
    assert_eq!(shared_with_equal_answers(&mut session, &sql), (1, 1));
}

#[test]
fn what_is_not_the_same_is_not_shared() {
    let mut session = session();
    let grouped = |what: &str| format!("SELECT shop, {what} AS x FROM sales GROUP BY shop");
    for (one, other) in [
        (grouped("sum(amount)"), grouped("max(amount)")),
        (grouped("sum(amount)"), grouped("sum(amount + 1)")),
        (grouped("sum(amount + 1)"), grouped("sum(amount + 2)")),
        (grouped("count(*) FILTER (WHERE month > 3)"), grouped("count(*) FILTER (WHERE month > 4)")),
        (grouped("count(month)"), grouped("count(DISTINCT month)")),
        (grouped("sum(amount)"), grouped("sum(amount)").replace("GROUP", "WHERE month = 1 GROUP")),
        (grouped("sum(amount)"), grouped("sum(amount)").replace("GROUP BY shop", "GROUP BY month, shop")),
    ] {
        let sql = format!("SELECT shop, x FROM ({one}) a UNION ALL SELECT shop, x FROM ({other}) b");
        assert_eq!(shared_with_equal_answers(&mut session, &sql), (0, 0), "{sql}");
    }
}

#[test]
fn scans_are_done_again() {
    let mut session = session();
    let sql = "WITH v AS (SELECT * FROM shops WHERE shop > 40)
               SELECT a.name, b.name FROM v a JOIN v b ON a.shop = b.shop";
    assert_eq!(shared_with_equal_answers(&mut session, sql), (0, 0));
}

#[test]
fn what_gives_something_else_each_time_is_not_shared() {
    let mut session = session();
    for drawn in ["max(random())", "max(gen_random_uuid()::text)"] {
        let sql = format!(
            "WITH v AS (SELECT shop, {drawn} AS x FROM sales GROUP BY shop)
             SELECT a.x, b.x FROM v a JOIN v b ON a.shop = b.shop"
        );
        assert_eq!(shared(&mut session, &sql), (0, 0), "{sql}");
    }
}

#[test]
fn what_is_to_be_computed_in_each_place_is() {
    let mut session = session();
    let query = "SELECT * FROM totals UNION ALL SELECT * FROM totals";
    for (hint, expected) in [("", (1, 1)), ("MATERIALIZED", (1, 1)), ("NOT MATERIALIZED", (0, 0))] {
        let totals = TOTALS.replace("AS (", &format!("AS {hint} ("));
        let sql = format!("WITH {totals} {query}");
        assert_eq!(shared_with_equal_answers(&mut session, &sql), expected, "{sql}");
        let within = format!("SELECT count(*) FROM ({sql}) q");
        assert_eq!(shared_with_equal_answers(&mut session, &within), expected, "{within}");
    }
}

#[test]
fn what_a_recursion_runs_again_is_computed_again() {
    let mut session = session();
    let sql = format!(
        "WITH RECURSIVE {TOTALS}, chain(shop, month) AS (
             SELECT 1 AS shop, 1 AS month
             UNION ALL
             SELECT a.shop, a.month FROM chain
                 JOIN totals a ON a.shop = chain.shop + 1 JOIN totals b ON b.shop = a.shop AND b.month = a.month
             WHERE chain.shop < 4 AND a.month < 2)
         SELECT shop, count(*) FROM chain GROUP BY shop"
    );
    assert_eq!(shared_with_equal_answers(&mut session, &sql), (0, 0));
}

#[test]
fn the_plan_says_how_many_rows_each_reader_got() {
    let mut session = session();
    let sql = format!("EXPLAIN ANALYZE WITH {TOTALS} SELECT * FROM totals UNION ALL SELECT * FROM totals");
    let plan = rows(&mut session, &sql);
    for reader in ["Shared: 1,", "SharedReader: 1,"] {
        let line = plan.iter().find(|line| line.trim_start().starts_with(reader));
        let line = line.unwrap_or_else(|| panic!("no {reader} in\n{}", plan.join("\n")));
        assert!(line.contains("output_rows=300"), "{line}");
    }
}

#[test]
fn a_prepared_query_and_a_cursor_read_it_again() {
    let mut session = session();
    let sql = format!("WITH {TOTALS} SELECT count(*) FROM totals a JOIN totals b ON a.total = b.total");
    let expected = rows(&mut session, &sql);
    session.execute(&format!("PREPARE again AS {sql}")).unwrap();
    for _ in 0..3 {
        assert_eq!(rows(&mut session, "EXECUTE again"), expected);
        assert_eq!(rows(&mut session, &sql), expected);
    }
    let all = format!("WITH {TOTALS} SELECT * FROM totals UNION ALL SELECT * FROM totals");
    session.execute(&format!("BEGIN; DECLARE first_rows CURSOR FOR {all}")).unwrap();
    assert_eq!(rows(&mut session, "FETCH 5 FROM first_rows").len(), 5);
    session.execute("COMMIT").unwrap();
}
