// SPDX-License-Identifier: Apache-2.0
//! GROUP BY of texts of a table with files, with and without `coeval.text_codes`, in turn.
//!
//! `cargo bench -p coeval-sql --bench text_codes [rows]`; without a number 2,000,000. The columns are those of db-benchmark's groupby questions.
//! Each line has the least of five runs with codes and without, in milliseconds, and their ratio; in front of them the first run after
//! the database was opened, which reads the columns from their files.
#![allow(clippy::unwrap_used)]

use coeval_sql::{Engine, Session};
use coeval_store::{Store, StoreOptions};
use std::path::Path;
use std::time::Instant;

const QUESTIONS: [&str; 7] = [
    "SELECT id1, sum(v1) FROM x GROUP BY id1",
    "SELECT id1, id2, sum(v1) FROM x GROUP BY id1, id2",
    "SELECT id3, sum(v1) FROM x GROUP BY id3",
    "SELECT id2, id4, sum(v1) FROM x GROUP BY id2, id4",
    "SELECT id1, sum(v1) FROM x WHERE id4 < 10 GROUP BY id1",
    "SELECT count(DISTINCT id1) FROM x",
    "SELECT id1, id2, id3, id4, sum(v1) FROM x GROUP BY id1, id2, id3, id4",
];

const RUNS: usize = 5;

fn run(session: &mut Session, sql: &str) {
    session.execute(sql).unwrap_or_else(|error| panic!("{sql:.200}: {error}"));
}

fn open(folder: &Path) -> Session {
    Engine::new(Store::open(folder, StoreOptions::default()).unwrap()).unwrap().session()
}

fn milliseconds(session: &mut Session, sql: &str) -> f64 {
    let begun = Instant::now();
    run(session, sql);
    begun.elapsed().as_secs_f64() * 1000.0
}

/// The first run with this setting of a database that was just opened.
fn first(folder: &Path, setting: &str, sql: &str) -> f64 {
    let mut session = open(folder);
    run(&mut session, setting);
    milliseconds(&mut session, sql)
}

fn main() {
    let rows = std::env::args().skip(1).find_map(|one| one.parse().ok()).unwrap_or(2_000_000_u64);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("db");
    let mut session = open(&folder);
    let columns = "id bigint PRIMARY KEY, id1 text, id2 text, id3 text, id4 int, v1 int";
    run(&mut session, &format!("CREATE TABLE x ({columns})"));
    // Numbers that are spread as if they were drawn.
    let drawn = |step: u64, count: u64| format!("i * {step} % 1000003 % {count}");
    run(
        &mut session,
        &format!(
            "INSERT INTO x SELECT i, 'id' || lpad(({})::text, 3, '0'), 'id' || lpad(({})::text, 3, '0'),
                 'id' || lpad(({})::text, 10, '0'), {}, {} FROM generate_series(1::bigint, {rows}) i",
            drawn(7_919, 100),
            drawn(104_729, 100),
            drawn(15_485_863, rows / 100),
            drawn(3_571, 100),
            drawn(1_299_709, 5),
        ),
    );
    run(&mut session, "CHECKPOINT");
    drop(session);
    let settings = ["SET coeval.text_codes = on", "SET coeval.text_codes = off"];
    for question in QUESTIONS {
        let firsts = settings.map(|setting| first(&folder, setting, question));
        let mut session = open(&folder);
        let mut least = [f64::INFINITY; 2];
        // The first of each reads what the others find in memory.
        for _ in 0..=RUNS {
            for (setting, least) in settings.iter().zip(&mut least) {
                run(&mut session, setting);
                *least = least.min(milliseconds(&mut session, question));
            }
        }
        let [with, without] = least;
        println!(
            "{:8.1} {:8.1}  {with:7.1} {without:7.1}  {:.2}  {question}",
            firsts[0],
            firsts[1],
            with / without
        );
    }
}
