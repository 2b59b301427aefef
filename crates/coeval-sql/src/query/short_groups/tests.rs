// SPDX-License-Identifier: Apache-2.0
//! Which groups are found without the texts that follow from their keys, and that the answers are the same.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};

/// Orders of which half are open, their lines, and notes without a key. Customers, prices and notes are NULL in some rows.
const TABLES: &str = "
    CREATE TABLE orders (id int PRIMARY KEY, code int UNIQUE, day date, customer text, state text NOT NULL, price numeric(8, 2));
    INSERT INTO orders SELECT g, CASE WHEN g % 10 <> 0 THEN g END, date '2024-01-01' + g % 300,
        CASE WHEN g % 7 <> 0 THEN 'customer ' || g % 100 END, CASE WHEN g % 2 = 0 THEN 'open' ELSE 'closed' END, g % 50
        FROM generate_series(1, 30000) g;
    CREATE TABLE lines (order_id int, number int, note text, amount int, PRIMARY KEY (order_id, number));
    INSERT INTO lines SELECT g / 2, g % 2, CASE WHEN g % 5 <> 0 THEN 'note ' || g % 9 END, g % 13 FROM generate_series(0, 61000) g;
    CREATE TABLE notes (id int, note text);
    INSERT INTO notes SELECT g, 'note ' || g % 10 FROM generate_series(1, 30000) g;
    CHECKPOINT;";

/// Queries whose texts are any of their group.
const SHORT: [&str; 8] = [
    "SELECT id, customer, count(*) FROM orders GROUP BY id, customer",
    "SELECT state, id, price, max(day) FROM orders WHERE day > '2024-01-02' GROUP BY id, state, price HAVING max(day) > '2024-02-01'",
    "SELECT id, left(customer, 11), count(*) FROM orders GROUP BY id, left(customer, 11)",
    "SELECT order_id, number, note, sum(amount) FROM lines GROUP BY order_id, number, note",
    // Of tables that are joined.
    "SELECT o.id, o.customer, o.state, sum(l.amount) FROM orders o JOIN lines l ON l.order_id = o.id WHERE o.state = 'open' \
     GROUP BY o.id, o.customer, o.state",
    "SELECT l.order_id, o.customer, sum(l.amount) FROM orders o JOIN lines l ON l.order_id = o.id WHERE o.state = 'open' \
     GROUP BY l.order_id, o.customer",
    // A key that is joined by is not NULL.
    "SELECT o.code, o.customer, sum(l.amount) FROM orders o JOIN lines l ON l.order_id = o.code WHERE o.state = 'closed' \
     GROUP BY o.code, o.customer",
    "SELECT id, customer, count(*) FROM orders WHERE id IN (SELECT order_id FROM lines WHERE amount > 2) GROUP BY id, customer",
];

/// Queries whose groups go by all that they name.
const LONG: [&str; 8] = [
    "SELECT day, customer, count(*) FROM orders GROUP BY day, customer",
    "SELECT code, customer, count(*) FROM orders GROUP BY code, customer",
    "SELECT order_id, note, sum(amount) FROM lines GROUP BY order_id, note",
    "SELECT id, note, count(*) FROM notes GROUP BY id, note",
    "SELECT day, upper(customer), count(*) FROM orders GROUP BY day, upper(customer)",
    "SELECT id, day, count(*) FROM orders GROUP BY id, day",
    "SELECT id, customer, count(*) FROM orders GROUP BY ROLLUP (id, customer)",
    "SELECT o.id, o.customer, count(*) FROM notes n LEFT JOIN orders o ON o.id = n.id + 10 GROUP BY o.id, o.customer",
];

fn session() -> Session {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    session.execute(TABLES).unwrap_or_else(|error| panic!("{error}"));
    session
}

/// The lines of an answer, in an order of their own.
fn lines(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    let of_batch = |batch: &arrow::array::RecordBatch| {
        let of_row = |row| {
            let texts = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            texts.collect::<Vec<_>>().join(" | ")
        };
        (0..batch.num_rows()).map(of_row).collect::<Vec<_>>()
    };
    let mut lines: Vec<String> = batches.flat_map(of_batch).collect();
    lines.sort_unstable();
    lines
}

/// Whether some value of a plan is any of its group.
fn is_short(session: &mut Session, sql: &str) -> bool {
    lines(session, &format!("EXPLAIN {sql}")).iter().any(|line| line.contains("coeval_any"))
}

#[test]
fn what_follows_from_a_key_is_any_value_of_its_group() {
    let mut session = session();
    session.execute("SET coeval.late_joins = off").unwrap();
    for sql in SHORT {
        assert!(is_short(&mut session, sql), "{sql}");
        let short = lines(&mut session, sql);
        session.execute("SET coeval.short_groups = off").unwrap();
        assert!(!is_short(&mut session, sql), "{sql}");
        assert_eq!(short, lines(&mut session, sql), "{sql}");
        assert!(!short.is_empty(), "{sql}");
        session.execute("RESET coeval.short_groups").unwrap();
    }
}

#[test]
fn what_does_not_follow_or_is_short_itself_is_grouped_by() {
    let mut session = session();
    for sql in LONG {
        assert!(!is_short(&mut session, sql), "{sql}");
        assert!(!lines(&mut session, sql).is_empty(), "{sql}");
    }
}

#[test]
fn few_groups_are_left_as_they_are() {
    let mut session = session();
    session.execute("DELETE FROM orders WHERE id > 5000; CHECKPOINT").unwrap();
    assert!(!is_short(&mut session, SHORT[0]));
}
