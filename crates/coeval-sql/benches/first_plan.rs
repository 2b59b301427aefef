// SPDX-License-Identifier: Apache-2.0
//! What is done once for a query, before it first runs: it is parsed, names and types are found, and all rules for plans run over it.
//!
//! `cargo bench -p coeval-sql --bench first_plan [executions]`; without a number 200. For joins of so many tables the least and the middle
//! of the times of EXPLAIN, in milliseconds. Each has a text of its own, so that nothing is kept of the one before.
#![allow(clippy::unwrap_used)]

use coeval_sql::{Engine, Session};
use coeval_store::{Store, StoreOptions};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// How many tables the queries join.
const JOINED: [usize; 4] = [2, 5, 10, 20];

/// Columns of each table that no query names.
const UNNAMED: usize = 16;

/// Executions before the first that counts.
const BEFORE: usize = 20;

fn run(session: &mut Session, sql: &str) {
    session.execute(sql).unwrap_or_else(|error| panic!("{sql:.200}: {error}"));
}

/// Sales, and so many tables less one that say what its numbers mean.
fn make_tables(session: &mut Session, count: usize) {
    let unnamed: String = (0..UNNAMED).map(|column| format!(", c{column} int")).collect();
    let mut keys = String::new();
    for number in 1..count {
        write!(keys, ", k{number} int").unwrap();
        let columns = format!("id int PRIMARY KEY, name text, kind int{unnamed}");
        run(session, &format!("CREATE TABLE t{number} ({columns})"));
        let rows = format!("SELECT i, 'name ' || i % 7, i % 10 FROM generate_series(0, {}) i", 10 * number);
        run(session, &format!("INSERT INTO t{number} (id, name, kind) {rows}"));
    }
    let columns = format!("id int PRIMARY KEY, amount int, price numeric(12,2){keys}{unnamed}");
    run(session, &format!("CREATE TABLE sales ({columns})"));
    let values: String = (1..count).map(|number| format!(", i % {}", 10 * number)).collect();
    let names: String = (1..count).map(|number| format!(", k{number}")).collect();
    let rows = format!("SELECT i, i % 9, i % 100 + 0.25{values} FROM generate_series(1, 5000) i");
    run(session, &format!("INSERT INTO sales (id, amount, price{names}) {rows}"));
    run(session, "CHECKPOINT");
}

/// The sums of sales by what two of the tables say that they are joined with, a third of which leave one kind.
fn query(joined: usize) -> String {
    let tables: String = (1..joined).map(|number| format!(", t{number}")).collect();
    let on: Vec<String> = (1..joined).map(|number| format!("sales.k{number} = t{number}.id")).collect();
    let kinds: String = (1..joined).step_by(3).map(|number| format!(" AND t{number}.kind = 3")).collect();
    let last = joined - 1;
    format!(
        "SELECT t1.name, t{last}.kind, sum(price) AS total, count(*) \
         FROM sales{tables} WHERE {}{kinds} AND amount > 1 \
         GROUP BY t1.name, t{last}.kind HAVING sum(price) > 10 ORDER BY total DESC LIMIT 10",
        on.join(" AND ")
    )
}

/// The times of so many first plans of a query, ascending.
fn times(session: &mut Session, sql: &str, executions: usize) -> Vec<Duration> {
    let once = |number: usize| {
        let text = format!("EXPLAIN {sql} -- {number}");
        let began = Instant::now();
        run(session, &text);
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..BEFORE + executions).map(once).skip(BEFORE).collect();
    times.sort_unstable();
    times
}

fn main() {
    let executions = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let executions: usize = executions.unwrap_or(200).max(1);
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    make_tables(&mut session, JOINED.into_iter().max().unwrap());
    println!("{:<20} {:>10} {:>10}", "ms per first plan", "least", "middle");
    for joined in JOINED {
        let times = times(&mut session, &query(joined), executions);
        let millis = |place: usize| times[place].as_secs_f64() * 1_000.0;
        println!("{:<20} {:>10.2} {:>10.2}", format!("{joined} tables"), millis(0), millis(times.len() / 2));
    }
}
