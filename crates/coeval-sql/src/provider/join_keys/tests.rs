// SPDX-License-Identifier: Apache-2.0
//! Joins with what scans are told and without, and of which joins scans are told.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};

fn session() -> Session {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    session
        .execute(
            "CREATE TABLE sold (customer int, item int, ticket bigint, day date, shop text, price int, far bigint);
             INSERT INTO sold SELECT nullif(i % 5000, 7), i % 1801, i / 3, date '2024-01-01' + i % 365,
                 'shop ' || i % 9, i % 97, i % 999 * 1000000000000 FROM generate_series(1, 150000) i;
             CREATE TABLE returned (customer int, item int, ticket bigint, day date, shop text, amount int, far bigint);
             INSERT INTO returned SELECT customer, item, CASE WHEN price < 50 THEN ticket ELSE -ticket END, day,
                 shop, price, far FROM sold WHERE price % 10 = 3;
             INSERT INTO returned VALUES (NULL, 1, 1, '2024-01-02', 'shop 1', 0, 1), (1, NULL, 1, '2024-01-02', NULL, 0, 1),
                 (1, 1, NULL, NULL, 'shop 1', 0, 1);
             CREATE TABLE wanted (far bigint, item int);
             INSERT INTO wanted VALUES (7000000000000, 7), (8000000000000, 8), (9, 9), (NULL, NULL);
             CREATE TABLE unsold (customer int, item int);
             CREATE TABLE asked (customer int NOT NULL);
             INSERT INTO asked VALUES (1), (6000);
             CHECKPOINT",
        )
        .unwrap();
    session
}

/// What a statement gives, each row as one text.
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let mut rows = Vec::new();
    for batch in results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches) {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort_unstable();
    rows
}

/// Joins that lose rows of the table that a scan reads.
const TOLD: [&str; 11] = [
    "SELECT s.*, r.amount FROM sold s JOIN returned r
     ON s.customer = r.customer AND s.item = r.item AND s.ticket = r.ticket",
    "SELECT s.*, r.amount FROM sold s JOIN returned r ON s.ticket = r.ticket AND s.day = r.day",
    // No set is made of texts.
    "SELECT s.*, r.amount FROM sold s JOIN returned r ON s.ticket = r.ticket AND s.shop = r.shop",
    "SELECT s.* FROM sold s WHERE EXISTS
     (SELECT 1 FROM returned r WHERE s.customer = r.customer AND s.ticket = r.ticket)",
    // A single key, of values near to each other and far apart.
    "SELECT s.*, r.amount FROM sold s JOIN returned r ON s.ticket = r.ticket",
    "SELECT s.*, w.item FROM sold s JOIN wanted w ON s.item = w.item",
    "SELECT s.*, w.item FROM sold s JOIN wanted w ON s.far = w.far",
    // One of the keys is computed: the other one by itself.
    "SELECT * FROM wanted w WHERE w.item = (SELECT min(s.item) FROM sold s WHERE s.far = w.far)",
    "SELECT w.item FROM wanted w WHERE (w.far, w.item) IN
     (SELECT s.far, max(s.item) FROM sold s WHERE s.customer > 9 GROUP BY s.far)",
    "SELECT w.item, s.n FROM wanted w JOIN (SELECT far, item + 1 AS next, count(*) AS n FROM sold GROUP BY far, item) s
     ON s.far = w.far AND s.next = w.item + 1",
    "SELECT w.item FROM wanted w WHERE NOT EXISTS
     (SELECT 1 FROM (SELECT far, max(item) AS item FROM sold GROUP BY far) s WHERE s.far = w.far AND s.item = w.item)",
];

/// Others: rows without a partner come out, NULL finds NULL, and a single NULL leaves nothing.
const NOT_TOLD: [&str; 6] = [
    "SELECT s.*, r.amount FROM sold s LEFT JOIN returned r ON s.item = r.item AND s.ticket = r.ticket",
    "SELECT s.* FROM sold s WHERE NOT EXISTS
     (SELECT 1 FROM returned r WHERE s.item = r.item AND s.ticket = r.ticket)",
    "SELECT customer, item FROM sold INTERSECT SELECT customer, item FROM returned",
    "SELECT a.customer FROM asked a WHERE a.customer NOT IN (SELECT s.customer FROM sold s)",
    // Not below what computes both keys.
    "SELECT w.item FROM wanted w JOIN (SELECT shop, max(far) AS far, max(item) AS item FROM sold GROUP BY shop) s
     ON s.far = w.far AND s.item = w.item",
    // Nor among the first so many rows.
    "SELECT w.item FROM wanted w JOIN (SELECT far, max(item) AS item FROM
     (SELECT far, item FROM sold ORDER BY customer, item, ticket LIMIT 70000) f GROUP BY far) s
     ON s.far = w.far AND s.item = w.item",
];

/// Joins on a column that another one has the name of, where operators below look for columns by name.
const NAMED_ALIKE: [&str; 3] = [
    "SELECT w.item, q.* FROM wanted w JOIN
     (SELECT b.item, max(a.item) AS most, count(*) AS n FROM sold a LEFT JOIN sold b ON a.ticket = b.ticket + 1
      WHERE a.price + coalesce(b.price, 0) <> 5 GROUP BY b.item) q ON q.item = w.item AND q.n * 0 = w.far * 0",
    "SELECT w.item, q.* FROM wanted w JOIN
     (SELECT b.item, max(a.item) AS most, max(r.item) AS most_returned, count(*) AS n FROM sold a
      LEFT JOIN sold b ON a.ticket = b.ticket + 1 LEFT JOIN returned r ON r.ticket = a.ticket GROUP BY b.item) q
     ON q.item = w.item AND q.n * 0 = w.far * 0",
    "SELECT w.item, q.* FROM wanted w JOIN
     (SELECT item, count(*) AS n, sum(price) AS s FROM sold a
      WHERE EXISTS (SELECT 1 FROM sold b WHERE b.customer = a.item AND b.item + a.price > 700) GROUP BY item) q
     ON q.item = w.item AND q.n * 0 = w.far * 0",
];

#[test]
fn rows_are_those_of_the_join_alone() {
    let mut session = session();
    let of_nothing = "SELECT s.* FROM sold s JOIN unsold n ON s.customer = n.customer AND s.item = n.item";
    // The smaller side has other keys in each step.
    let of_steps = "WITH RECURSIVE walk (ticket, step) AS (
         SELECT CAST(1 AS bigint), 0 UNION ALL
         SELECT s.ticket + 10, w.step + 1 FROM walk w JOIN sold s ON s.ticket = w.ticket WHERE w.step < 4)
         SELECT ticket, step FROM walk";
    for query in TOLD.into_iter().chain(NOT_TOLD).chain(NAMED_ALIKE).chain([of_nothing, of_steps]) {
        session.execute("SET coeval.join_keys = off").unwrap();
        let expected = rows(&mut session, query);
        session.execute("RESET coeval.join_keys").unwrap();
        let found = rows(&mut session, query);
        assert_eq!(found.len(), expected.len(), "{query}");
        assert!(found == expected, "{query}");
    }
}

#[test]
fn a_null_on_the_larger_side_leaves_nothing_of_not_in() {
    let mut session = session();
    let not_among = |sold: &str| format!("SELECT customer FROM asked WHERE customer NOT IN ({sold})");
    assert!(rows(&mut session, &not_among("SELECT customer FROM sold")).is_empty());
    let known = not_among("SELECT customer FROM sold WHERE customer IS NOT NULL");
    assert_eq!(rows(&mut session, &known), ["6000"]);
}

#[test]
fn scans_are_told_of_joins_that_lose_rows_without_partner() {
    let mut session = session();
    let mut plan = |query: &str| rows(&mut session, &format!("EXPLAIN {query}")).join("\n");
    for query in TOLD {
        let plan = plan(query);
        assert!(plan.contains("join_keys=[") && plan.contains("NotedKeysExec"), "{query}:\n{plan}");
    }
    for query in NOT_TOLD {
        let plan = plan(query);
        assert!(!plan.contains("join_keys=[") && !plan.contains("NotedKeysExec"), "{query}:\n{plan}");
    }
    session.execute("SET coeval.join_keys = off").unwrap();
    let plan = rows(&mut session, &format!("EXPLAIN {}", TOLD[0])).join("\n");
    assert!(!plan.contains("join_keys=["), "{plan}");
}

#[test]
fn rows_without_partner_are_counted() {
    let mut session = session();
    for query in [TOLD[0], TOLD[5], TOLD[6]] {
        let plan = rows(&mut session, &format!("EXPLAIN ANALYZE {query}")).join("\n");
        assert!(plan.contains("rows_without_partner="), "{plan}");
        assert!(!plan.contains("rows_without_partner=0"), "{plan}");
    }
}

#[test]
fn what_is_written_meanwhile_is_found() {
    let mut session = session();
    let query =
        "SELECT s.price, r.amount FROM sold s JOIN returned r ON s.customer = r.customer AND s.item = r.item
        WHERE r.amount = 1000";
    assert!(rows(&mut session, query).is_empty());
    session
        .execute(
            "BEGIN; INSERT INTO sold VALUES (2000000000, -2000000000, 1, '2030-01-01', '', 5);
             INSERT INTO returned VALUES (2000000000, -2000000000, 1, '2030-01-01', '', 1000)",
        )
        .unwrap();
    assert_eq!(rows(&mut session, query), ["5|1000"]);
    session.execute("ROLLBACK").unwrap();
    assert!(rows(&mut session, query).is_empty());
}
