// SPDX-License-Identifier: Apache-2.0
//! Aggregates that keep all their input need no rows in order, and give the same however often their input is divided.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};

const TABLE: &str = "
    CREATE TABLE words (id int PRIMARY KEY, g int, place int, word text);
    INSERT INTO words SELECT i, i % 500, i * 7919 % 10007, 'word ' || i % 97 FROM generate_series(1, 20000) i;
    CHECKPOINT;";

const AGGREGATES: [&str; 6] = [
    "array_agg(word ORDER BY place, id)",
    "array_agg(id ORDER BY place DESC, id)",
    "string_agg(word, ', ' ORDER BY place, id)",
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY word)",
    "percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY place)",
    "mode() WITHIN GROUP (ORDER BY place DESC)",
];

fn session() -> Session {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    session.execute(TABLE).unwrap();
    session
}

/// The values of all columns, row by row.
fn texts(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    let of_batch = |batch: &arrow::array::RecordBatch| {
        let places = (0..batch.num_rows()).flat_map(|row| batch.columns().iter().map(move |all| (all, row)));
        places.map(|(all, row)| array_value_to_string(all, row).unwrap()).collect::<Vec<_>>()
    };
    batches.flat_map(of_batch).collect()
}

#[test]
fn no_rows_are_sorted_for_them() {
    let mut session = session();
    for aggregate in AGGREGATES {
        for sql in
            [format!("SELECT {aggregate} FROM words"), format!("SELECT g, {aggregate} FROM words GROUP BY g")]
        {
            let plan = texts(&mut session, &format!("EXPLAIN {sql}")).join("\n");
            assert!(!plan.contains("SortExec"), "{sql}\n{plan}");
        }
    }
}

/// Of all rows at once and of one group after the other.
#[test]
fn groups_have_what_their_rows_alone_have() {
    let mut session = session();
    for aggregate in AGGREGATES {
        let grouped = format!("SELECT ({aggregate})::text FROM words WHERE g < 5 GROUP BY g ORDER BY g");
        let grouped = texts(&mut session, &grouped);
        assert_eq!(grouped.len(), 5);
        for (g, wanted) in grouped.iter().enumerate() {
            let alone = format!("SELECT ({aggregate})::text FROM words WHERE g = {g}");
            assert_eq!(texts(&mut session, &alone), std::slice::from_ref(wanted), "{aggregate} of {g}");
        }
    }
}
