// SPDX-License-Identifier: Apache-2.0
//! What is begun below joins and what is not, and that the answers are the same. `abs(x)` is taken to be able to fail, so an aggregate of
//! it stays above: each query is asked both ways. No value is less than zero.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};

/// Orders, their lines, ten of each, and customers. Some lines have no order, some orders no lines, some amounts are
/// NULL, and customers are named twice.
const TABLES: &str = "
    CREATE TABLE orders (id int PRIMARY KEY, customer int, day int);
    CREATE TABLE lines (order_id int, number int, amount numeric(8, 2), weight float8, units smallint, pieces bigint,
                        PRIMARY KEY (order_id, number));
    CREATE TABLE customers (id int, name text);
    INSERT INTO orders SELECT g, g % 7, g % 30 FROM generate_series(1, 2000) g;
    INSERT INTO lines SELECT 100 + g / 10, g % 10, CASE WHEN g % 11 = 0 THEN NULL ELSE g % 97 END, g % 4, g % 5,
            9000000000000000000 - g
        FROM generate_series(0, 19999) g;
    INSERT INTO customers SELECT g % 7, 'name ' || g FROM generate_series(0, 13) g;
    CHECKPOINT;";

fn session() -> Session {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    session.execute(TABLES).unwrap();
    session
}

fn rows(session: &mut Session, sql: &str) -> Vec<Vec<String>> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let rows = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    let of_batch = |batch: &arrow::array::RecordBatch| {
        let text = |row| {
            batch
                .columns()
                .iter()
                .map(|column| array_value_to_string(column, row).unwrap())
                .collect::<Vec<_>>()
        };
        (0..batch.num_rows()).map(text).collect::<Vec<_>>()
    };
    rows.flat_map(of_batch).collect()
}

/// Whether an aggregate of the plan stands below a join.
fn begins_below(session: &mut Session, sql: &str) -> bool {
    let plan: Vec<String> = rows(session, &format!("EXPLAIN {sql}")).into_iter().flatten().collect();
    let depth = |line: &String| line.len() - line.trim_start().len();
    let join = plan.iter().position(|line| line.contains("JoinExec")).expect("the query joins");
    let is_grouping =
        |line: &String| ["AggregateExec", "PackedGroupsExec"].iter().any(|name| line.contains(name));
    plan[join..].iter().any(|line| is_grouping(line) && depth(line) > depth(&plan[join]))
}

/// Asks a query with `amount`, `weight`, `units` and `pieces` as columns and as expressions.
fn both_ways(sql: &str) -> bool {
    both_ways_in(&mut session(), sql)
}

/// The same in a session.
fn both_ways_in(session: &mut Session, sql: &str) -> bool {
    let above = ["amount", "weight", "units", "pieces"]
        .iter()
        .fold(sql.to_owned(), |sql, column| sql.replace(&format!("l.{column}"), &format!("abs(l.{column})")));
    assert!(!begins_below(session, &above), "{above}");
    let expected = rows(session, &above);
    assert_eq!(rows(session, sql), expected, "{sql}");
    assert!(!expected.is_empty());
    begins_below(session, sql)
}

#[test]
fn what_each_order_has_is_added_up_before_the_join() {
    assert!(both_ways(
        "SELECT o.day, sum(l.amount), count(l.amount), count(*), min(l.amount), max(l.weight), sum(l.units),
                avg(l.amount)
         FROM orders o JOIN lines l ON l.order_id = o.id GROUP BY o.day ORDER BY 1"
    ));
    assert!(both_ways(
        "SELECT o.id, o.day, sum(l.amount) AS whole FROM lines l, orders o, customers c
         WHERE l.order_id = o.id AND o.customer = c.id GROUP BY o.id, o.day HAVING sum(l.amount) > 500 ORDER BY 3, 1"
    ));
}

/// Sums of `bigint` are decimals of 38 digits, which no number of rows fills.
#[test]
fn sums_of_64_bits_are_added_up_before_the_join() {
    for sums in ["sum(l.pieces), avg(l.pieces)", "sum(l.pieces::numeric(20, 0))"] {
        let sql = format!(
            "SELECT o.day, {sums} FROM orders o JOIN lines l ON l.order_id = o.id GROUP BY o.day ORDER BY 1"
        );
        assert!(both_ways(&sql), "{sums}");
    }
}

/// Break: split the columns of an aggregate behind as many as it has expressions to group by, in `merged`.
#[test]
fn several_sets_are_made_of_groups_that_were_made_once_before_the_join() {
    for late_joins in ["on", "off"] {
        let mut session = session();
        session.execute(&format!("SET coeval.late_joins = {late_joins}")).unwrap();
        let joined = "FROM orders o JOIN lines l ON l.order_id = o.id";
        for sql in [
            format!(
                "SELECT o.day, o.customer, grouping(o.customer), sum(l.amount), count(*), count(l.units), avg(l.pieces) {joined} \
                 GROUP BY ROLLUP (o.day, o.customer) ORDER BY 1, 2"
            ),
            format!(
                "SELECT o.day + 1, max(l.amount), count(*) {joined} GROUP BY GROUPING SETS ((o.day + 1), ()) ORDER BY 1"
            ),
            format!(
                "SELECT c.name, o.day, min(l.weight), count(l.amount) {joined} JOIN customers c ON c.id = o.customer \
                 GROUP BY CUBE (c.name, o.day) HAVING count(*) > 30 ORDER BY 1, 2"
            ),
        ] {
            assert!(both_ways_in(&mut session, &sql), "late joins {late_joins}: {sql}");
        }
    }
    // A set of no columns has a group, even if there are no rows.
    let mut session = session();
    session.execute("UPDATE orders SET id = id + 1000000").unwrap();
    let joined = "FROM orders o JOIN lines l ON l.order_id = o.id";
    let none = format!("SELECT o.day, sum(l.amount), count(*) {joined} GROUP BY ROLLUP (o.day)");
    assert_eq!(rows(&mut session, &none), [["", "", "0"]]);
}

#[test]
fn what_is_computed_and_cannot_fail_is_added_up_before_the_join() {
    assert!(both_ways(
        "SELECT o.day, sum((l.amount - 1) * 2 / 4), count(l.amount + 1), sum(CASE WHEN l.amount > 5 THEN l.amount END)
         FROM orders o JOIN lines l ON l.order_id = o.id GROUP BY o.day ORDER BY 1"
    ));
}

#[test]
fn rows_that_meet_several_count_with_each() {
    assert!(both_ways(
        "SELECT c.name, sum(l.amount), count(*) FROM customers c JOIN orders o ON o.customer = c.id
         JOIN lines l ON l.order_id = o.id GROUP BY c.name ORDER BY 1"
    ));
}

#[test]
fn without_groups_nothing_that_meets_nothing_counts_as_none() {
    assert!(both_ways(
        "SELECT sum(l.amount), count(*), count(l.units) FROM orders o JOIN lines l ON l.order_id = o.id"
    ));
    let mut session = session();
    session.execute("UPDATE orders SET id = id + 1000000").unwrap();
    let none = "SELECT sum(l.amount), count(*) FROM orders o JOIN lines l ON l.order_id = o.id";
    assert_eq!(rows(&mut session, none), [["", "0"]]);
}

#[test]
fn what_pays_not_or_may_not_be_stays_above() {
    let mut session = session();
    let mut stays = |what: &str, sql: &str| assert!(!begins_below(&mut session, sql), "{what}: {sql}");
    let joined = "FROM orders o JOIN lines l ON l.order_id = o.id";
    stays(
        "as many groups as rows",
        &format!("SELECT l.number, sum(l.amount) {joined} GROUP BY l.order_id, l.number"),
    );
    stays("few rows come out", &format!("SELECT sum(l.amount) {joined} WHERE o.id < 120"));
    stays("distinct", &format!("SELECT o.day, sum(DISTINCT l.amount) {joined} GROUP BY o.day"));
    stays(
        "a filter",
        &format!("SELECT o.day, sum(l.amount) FILTER (WHERE o.day > 3) {joined} GROUP BY o.day"),
    );
    stays("what might fail", &format!("SELECT o.day, sum(1 / l.amount) {joined} GROUP BY o.day"));
    stays(
        "columns of both",
        &format!("SELECT o.day, sum(l.amount), max(o.customer) {joined} GROUP BY o.day"),
    );
    stays(
        "many digits",
        &format!("SELECT o.day, sum(l.amount * 100000000000000000000000.5) {joined} GROUP BY o.day"),
    );
    stays("a sum of floats", &format!("SELECT o.day, sum(l.weight) {joined} GROUP BY o.day"));
    stays("an order", &format!("SELECT o.day, string_agg(o.id::text, ',') {joined} GROUP BY o.day"));
    let outer = "FROM orders o LEFT JOIN lines l ON l.order_id = o.id";
    stays("an outer join", &format!("SELECT o.day, sum(l.amount), count(*) {outer} GROUP BY o.day"));
    let product = "FROM orders o CROSS JOIN lines l WHERE l.number >= 0";
    stays("groups that nothing links", &format!("SELECT o.day, sum(l.amount) {product} GROUP BY o.day"));
    stays("lots by rows", &format!("SELECT o.day, sum(l.amount) {joined} AND random() < 0.5 GROUP BY o.day"));
    stays("groups by lots", &format!("SELECT random() < 0.5, sum(l.amount) {joined} GROUP BY 1"));
}

#[test]
fn texts_are_read_as_numbers_behind_the_join() {
    let mut session = session();
    session.execute("ALTER TABLE lines ADD COLUMN note text DEFAULT '7'").unwrap();
    session.execute("CHECKPOINT").unwrap();
    let joined = "FROM orders o JOIN lines l ON l.order_id = o.id";
    for aggregate in ["count(l.note::int)", "sum(l.note::float8)"] {
        let sql = format!("SELECT o.day, {aggregate} {joined} GROUP BY o.day");
        assert!(!begins_below(&mut session, &sql), "{sql}");
    }
    // Lines of these numbers have no order.
    session.execute("UPDATE lines SET note = 'seven' WHERE order_id > 2000").unwrap();
    let sql = format!("SELECT count(l.note::int) = count(*), sum(l.note::float8) = 7 * count(*) {joined}");
    assert_eq!(rows(&mut session, &sql), [["true", "true"]]);
}
