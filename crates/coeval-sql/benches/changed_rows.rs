// SPDX-License-Identifier: Apache-2.0
//! What scans cost once some of a table's rows have changed since they were put into chunks: for each query the least time of some
//! executions on the unchanged table, with the changes, and the ratio of the two.
//!
//! `cargo bench -p coeval-sql --bench changed_rows [rows] [percent] [executions]`; without numbers a million rows, of which 5 in 100 are
//! updated, and 15 executions. The first execution on a version of a table, which lays out its changed rows as columns, is a column of
//! its own. `scattered` rows lie evenly among all, `apart` ones follow one another.
#![allow(clippy::unwrap_used)]

use coeval_sql::{Engine, Session};
use coeval_store::{CheckpointPolicy, Store, StoreOptions};
use std::time::{Duration, Instant};

const TABLE: &str = "
    CREATE TABLE line (order_id bigint, place int, part int, quantity numeric(12,2), price numeric(12,2), discount numeric(12,2),
        flag text, mode text, instruction text, shipped date, PRIMARY KEY (order_id, place));
    INSERT INTO line SELECT i / 4, i % 4, i * 7 % 20000, i % 50 + 1, i % 9000 + 0.5, i % 11 * 0.01, substr('ANR', i % 3 + 1, 1),
        (ARRAY['AIR', 'FOB', 'MAIL', 'RAIL', 'REG AIR', 'SHIP', 'TRUCK'])[i % 7 + 1],
        (ARRAY['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN'])[i % 13 % 4 + 1],
        date '1992-01-01' + i % 2500 FROM generate_series(1, {rows}) i;
    CHECKPOINT";

/// Many columns and few, changed and not, many rows left and few, texts and none, the order of keys asked for and not.
const QUERIES: [(&str, &str); 9] = [
    (
        "sums by two texts",
        "SELECT flag, mode, sum(quantity), sum(price), sum(price * (1 - discount)), count(*) FROM line
         WHERE shipped <= date '1998-08-01' GROUP BY flag, mode",
    ),
    ("sums by a text", "SELECT mode, sum(quantity) FROM line GROUP BY mode"),
    ("unchanged, by a text", "SELECT flag, sum(part) FROM line GROUP BY flag"),
    ("sum of all", "SELECT sum(price) FROM line"),
    (
        "few rows by numbers",
        "SELECT sum(price * discount) FROM line WHERE shipped >= date '1994-01-01' AND shipped < date '1995-01-01'
             AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24",
    ),
    (
        "few rows by texts",
        "SELECT sum(price * (1 - discount)) FROM line WHERE quantity BETWEEN 10 AND 20 AND mode IN ('AIR', 'REG AIR')
             AND instruction = 'DELIVER IN PERSON'",
    ),
    (
        "few rows with keys",
        "SELECT order_id, mode FROM line WHERE mode IN ('MAIL', 'SHIP') AND shipped >= date '1994-01-01'
             AND shipped < date '1994-02-01' ORDER BY order_id",
    ),
    (
        "half of the rows by keys",
        "SELECT count(*) FROM (
             SELECT order_id, sum(price) AS total FROM line WHERE shipped > date '1995-06-01' GROUP BY order_id) t
         WHERE total > 10",
    ),
    ("a text as it is", "SELECT count(*) FROM line WHERE instruction LIKE '%COD' AND flag <> 'A'"),
];

fn run(session: &mut Session, sql: &str) {
    session.execute(sql).unwrap_or_else(|error| panic!("{sql:.200}: {error}"));
}

/// The time of the first execution and the least of the others.
fn times(session: &mut Session, sql: &str, executions: usize) -> (Duration, Duration) {
    let mut once = || {
        let began = Instant::now();
        run(session, sql);
        began.elapsed()
    };
    let first = once();
    (first, (0..executions).map(|_| once()).min().unwrap_or(first))
}

fn session(rows: usize) -> Session {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let engine = Engine::new(Store::in_memory(options)).unwrap();
    let mut session = engine.session();
    run(&mut session, &TABLE.replace("{rows}", &rows.to_string()));
    session
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let rows = numbers.next().unwrap_or(1_000_000).max(1_000);
    let percent = numbers.next().unwrap_or(5).clamp(1, 100);
    let executions = numbers.next().unwrap_or(15).max(1);
    let orders = rows / 4;
    let changes = [
        ("scattered", format!("order_id * 37 % 100 < {percent}")),
        ("apart", format!("order_id >= {}", orders - orders * percent / 100)),
    ];
    for (kind, changed) in changes {
        let mut session = session(rows);
        let unchanged: Vec<_> = QUERIES.iter().map(|(_, sql)| times(&mut session, sql, executions)).collect();
        run(&mut session, &format!("UPDATE line SET quantity = quantity + 1, mode = 'MAIL' WHERE {changed}"));
        let head = format!("{percent} in 100, {kind}");
        println!("{head:<26} {:>10} {:>10} {:>10} {:>8}", "unchanged", "changed", "at first", "ratio");
        for ((name, sql), (_, unchanged)) in QUERIES.iter().zip(unchanged) {
            let (first, changed) = times(&mut session, sql, executions);
            let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
            let ratio = millis(changed) / millis(unchanged);
            println!(
                "{name:<26} {:>10.2} {:>10.2} {:>10.2} {ratio:>8.2}",
                millis(unchanged),
                millis(changed),
                millis(first)
            );
        }
    }
}
