// SPDX-License-Identifier: Apache-2.0
//! What is done for each execution of a query whose optimized plan is kept: nearly all of it is to make the physical plan, as the tables
//! are small.
//!
//! `cargo bench -p coeval-sql --bench kept_plan [executions]`; without a number 500. For each query the least and the middle of the times
//! of its executions, in microseconds. The first executions do not count: plans come to be kept in them.
#![allow(clippy::unwrap_used)]

use coeval_sql::{Engine, Session};
use coeval_store::{Store, StoreOptions};
use std::time::{Duration, Instant};

/// A table of sales between three that say what its numbers mean, as in TPC-DS.
const TABLES: &str = "
    CREATE TABLE days (day_id int PRIMARY KEY, year_no int, month_no int, name text);
    CREATE TABLE items (item_id int PRIMARY KEY, brand_id int, brand text, manager int, category text);
    CREATE TABLE shops (shop_id int PRIMARY KEY, name text, county text);
    CREATE TABLE sales (day_id int, item_id int, shop_id int, ticket bigint, amount int, price numeric(12,2),
        PRIMARY KEY (item_id, ticket));
    INSERT INTO days
        SELECT i, 1998 + i / 365, i % 365 / 31 + 1, 'day ' || i % 7 FROM generate_series(0, 1799) i;
    INSERT INTO items
        SELECT i, i % 50, 'brand ' || i % 50, i % 20, 'category ' || i % 10 FROM generate_series(0, 999) i;
    INSERT INTO shops SELECT i, 'shop ' || i, 'county ' || i % 5 FROM generate_series(0, 19) i;
    INSERT INTO sales
        SELECT i * 7 % 1800, i % 1000, i % 20, i, i % 9, i % 100 + 0.25 FROM generate_series(1, 5000) i;
    CHECKPOINT";

const QUERIES: [(&str, &str); 7] = [
    ("filter", "SELECT item_id, brand FROM items WHERE manager = 1 AND category <> 'category 3'"),
    ("groups", "SELECT shop_id, sum(amount), count(*) FROM sales WHERE amount > 2 GROUP BY shop_id"),
    (
        "three tables",
        "SELECT d.year_no, i.brand_id, i.brand, sum(s.price) AS total
         FROM days d, sales s, items i
         WHERE d.day_id = s.day_id AND s.item_id = i.item_id
             AND i.manager = 1 AND d.month_no = 11 AND d.year_no = 2000
         GROUP BY d.year_no, i.brand, i.brand_id ORDER BY d.year_no, total DESC, i.brand_id LIMIT 100",
    ),
    (
        "four tables",
        "SELECT h.county, i.category, avg(s.amount) AS amount, sum(s.price) AS total
         FROM sales s JOIN days d ON d.day_id = s.day_id JOIN items i ON s.item_id = i.item_id
             JOIN shops h ON h.shop_id = s.shop_id
         WHERE d.year_no = 1999 AND i.brand_id BETWEEN 10 AND 30 AND h.name LIKE 'shop 1%'
         GROUP BY h.county, i.category HAVING sum(s.price) > 10 ORDER BY total DESC LIMIT 10",
    ),
    (
        "value of a subquery",
        "SELECT h.county, sum(s.price) AS total
         FROM sales s JOIN shops h ON h.shop_id = s.shop_id
         WHERE s.day_id > (SELECT avg(day_id) FROM days WHERE year_no = 2000)
         GROUP BY h.county ORDER BY total DESC",
    ),
    (
        "window",
        "SELECT item_id, shop_id, price, rank() OVER (PARTITION BY shop_id ORDER BY price DESC) AS place
         FROM sales WHERE amount > 6 ORDER BY shop_id, place LIMIT 20",
    ),
    (
        "twice the same",
        "WITH totals AS (
             SELECT shop_id, day_id % 12 AS part, sum(price) AS total FROM sales WHERE amount > 1 GROUP BY 1, 2)
         SELECT a.shop_id, a.total, b.total
         FROM totals a JOIN totals b ON a.shop_id = b.shop_id AND a.part = b.part + 1
         ORDER BY 1, 2 LIMIT 10",
    ),
];

/// Executions before the first that counts.
const BEFORE: usize = 20;

fn run(session: &mut Session, sql: &str) {
    session.execute(sql).unwrap_or_else(|error| panic!("{sql:.200}: {error}"));
}

/// The times of so many executions of a query, ascending.
fn times(session: &mut Session, sql: &str, executions: usize) -> Vec<Duration> {
    let query = session.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut once = || {
        let began = Instant::now();
        session.run(&query, &[]).unwrap();
        began.elapsed()
    };
    for _ in 0..BEFORE {
        once();
    }
    let mut times: Vec<Duration> = (0..executions).map(|_| once()).collect();
    times.sort_unstable();
    times
}

fn main() {
    let executions = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let executions: usize = executions.unwrap_or(500).max(1);
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    run(&mut session, TABLES);
    println!("{:<20} {:>10} {:>10}", "us per execution", "least", "middle");
    for (name, sql) in QUERIES {
        let times = times(&mut session, sql, executions);
        let micros = |place: usize| times[place].as_nanos() as f64 / 1_000.0;
        println!("{name:<20} {:>10.1} {:>10.1}", micros(0), micros(times.len() / 2));
    }
}
