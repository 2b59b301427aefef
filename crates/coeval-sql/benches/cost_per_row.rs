// SPDX-License-Identifier: Apache-2.0
//! What a row costs when there are ten times as many: for each kind of statement and constraint the time for each row, and
//! the ratio of the two. A ratio near one says that what is done per row is constant; ten says that it grows with the rows.
//!
//! `cargo bench -p coeval-sql --bench cost_per_row [rows] [words]`; without a number 2,000 and 20,000 rows. The least of three runs
//! counts. It fails if a ratio is above [`RATIO_MAX`]. With words, only the kinds of work run whose names have them. What takes
//! next to no time for each row, as COPY, shows that it grows only if there are many: `cost_per_row 50000 copy`.
#![allow(clippy::unwrap_used)]

#[path = "cost_per_row/work.rs"]
mod work;

use coeval_sql::{Engine, Execution, Session};
use coeval_store::{Store, StoreOptions};
use std::path::Path;
use std::time::Instant;
use work::{Timed, WORK, Work};

/// What is done once is spread over more rows, and trees and caches cost a little more: what grows with the rows is at ten.
const RATIO_MAX: f64 = 3.0;

/// See [`RATIO_MAX`].
const RUNS: usize = 3;

fn run(session: &mut Session, sql: &str) {
    session.execute(sql).unwrap_or_else(|error| panic!("{sql:.200}: {error}"));
}

/// What a text about each row is for one of them.
fn of_row(text: &str, row: usize) -> String {
    text.replace("{i}", &row.to_string())
}

/// Runs what stands before the work: a text about each row once for each of them, in one transaction.
fn prepare(session: &mut Session, sql: &str, rows: usize) {
    if !sql.contains("{i}") {
        return run(session, sql);
    }
    run(session, "BEGIN");
    (1..=rows).for_each(|row| run(session, &of_row(sql, row)));
    run(session, "COMMIT");
}

/// Feeds a COPY FROM STDIN a piece for each row.
fn feed(session: &mut Session, sql: &str, piece: &str, rows: usize) {
    let statement = session.parse(sql).unwrap().pop().unwrap();
    let Execution::CopyIn(mut copy) = session.start(&statement).unwrap() else { panic!("{sql}: no COPY") };
    for row in 1..=rows {
        session.feed_copy(&mut copy, of_row(piece, row).as_bytes()).unwrap();
    }
    session.finish_copy(*copy).unwrap();
}

fn run_timed(session: &mut Session, timed: &Timed, rows: usize, filled: impl Fn(&str) -> String) {
    match timed {
        Timed::Whole(sql) => run(session, &filled(sql)),
        Timed::Each(sql) => {
            let sql = filled(sql);
            run(session, "BEGIN");
            (1..=rows).for_each(|row| run(session, &of_row(&sql, row)));
            run(session, "COMMIT");
        }
        Timed::Alone(sql) => {
            let sql = filled(sql);
            (1..=rows).for_each(|row| run(session, &of_row(&sql, row)));
        }
        Timed::Listed(before, each, behind) => {
            let listed: String = (1..=rows).map(|row| of_row(each, row)).collect();
            run(session, &format!("{before}{listed}{behind}"));
        }
        Timed::Fed(sql, piece) => feed(session, sql, piece, rows),
    }
}

/// Nanoseconds for each row.
fn cost(work: &Work, rows: usize, files: &Path) -> f64 {
    let filled =
        |sql: &str| sql.replace("{n}", &rows.to_string()).replace("{files}", &files.display().to_string());
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    work.before.iter().for_each(|sql| prepare(&mut session, &filled(sql), rows));
    let began = Instant::now();
    run_timed(&mut session, &work.timed, rows, filled);
    began.elapsed().as_nanos() as f64 / rows as f64
}

fn main() {
    // Cargo adds an option that says that this is a benchmark.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let rows: Option<usize> = arguments.iter().find_map(|argument| argument.parse().ok());
    let rows = rows.unwrap_or(2_000);
    let words = arguments.iter().find(|argument| argument.parse::<usize>().is_err());
    let chosen: Vec<&Work> =
        WORK.iter().filter(|work| words.is_none_or(|words| work.name.contains(words.as_str()))).collect();
    let files = tempfile::tempdir().unwrap();
    println!("{:<45} {:>12} {:>12} {:>7}", "ns per row", rows, rows * 10, "ratio");
    let (mut grows, mut highest) = (Vec::new(), (0.0, ""));
    for work in &chosen {
        let least = |rows| (0..RUNS).map(|_| cost(work, rows, files.path())).fold(f64::INFINITY, f64::min);
        let (few, many) = (least(rows), least(rows * 10));
        let ratio = many / few;
        println!("{:<45} {few:>12.0} {many:>12.0} {ratio:>7.2}", work.name);
        if ratio > highest.0 {
            highest = (ratio, work.name);
        }
        if ratio > RATIO_MAX {
            grows.push(work.name);
        }
    }
    println!("{} kinds of work, the highest ratio {:.2}: {}", chosen.len(), highest.0, highest.1);
    assert!(grows.is_empty(), "what a row costs grows with the rows: {grows:?}");
}
