// SPDX-License-Identifier: Apache-2.0
//! Scans of tables whose rows have changed give what they give behind a checkpoint, when nothing is left to merge.

mod codes;
mod narrow;
mod turns;

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{CheckpointPolicy, Store, StoreOptions};
use std::sync::Arc;

/// A table whose key says the order, one that has none, and one to join with. Several windows each, of two chunks.
const TABLES: &str = "
    CREATE TABLE sold (id bigint PRIMARY KEY, day date, shop text, note text, price numeric(12,2), amount int, is_paid bool);
    INSERT INTO sold SELECT i * 2, date '2024-01-01' + i % 365, 'shop ' || i % 9,
        CASE WHEN i % 11 <> 0 THEN 'a note that no view holds, number ' || i % 50 END,
        nullif(i % 1000, 13) + 0.25, i % 97, i % 3 = 0 FROM generate_series(1, 80000) i;
    CREATE TABLE logged (sale bigint, shop text, amount int);
    INSERT INTO logged SELECT id, shop, amount FROM sold;
    CREATE TABLE wanted (sale bigint, kind int);
    INSERT INTO wanted SELECT i * 14, i % 5 FROM generate_series(1, 3000) i;
    CHECKPOINT";

/// Each begins with the chunks that the one before has left. The last puts more rows than a batch has between two of a chunk, so that what
/// is read next begins in the middle of a byte of the mask.
const CHANGES: [&str; 5] = [
    "UPDATE sold SET price = price + 1, shop = 'new ' || shop, note = note || '!', amount = amount + 1 WHERE id % 40 = 6;
     UPDATE logged SET amount = amount + 1, shop = 'a shop that no view holds' WHERE sale % 40 = 6",
    "DELETE FROM sold WHERE id % 50 = 8; DELETE FROM logged WHERE sale % 50 = 8",
    "INSERT INTO sold SELECT id + 1, day, shop, note, price, amount, is_paid FROM sold WHERE id % 60 = 12;
     INSERT INTO sold SELECT id + 1000001, day, shop, 'behind all', NULL, amount, NULL FROM sold WHERE id % 60 = 14;
     INSERT INTO logged SELECT id, shop, amount FROM sold WHERE id > 1000000",
    "UPDATE sold SET note = NULL, amount = 0 WHERE id % 3 = 0; DELETE FROM sold WHERE id BETWEEN 40000 AND 60000;
     INSERT INTO sold SELECT i * 2 + 1, NULL, 'shop 1', 'new', 5, 17, true FROM generate_series(20000, 24000) i;
     UPDATE logged SET amount = 17 WHERE amount = 18; DELETE FROM logged WHERE amount = 19",
    "INSERT INTO sold SELECT i, date '2024-01-01' + i % 365, 'shop ' || i % 9, 'between two', 7, i % 97, i % 2 = 0
         FROM generate_series(48002, 59999) i;
     UPDATE sold SET amount = amount + 1, is_paid = NULL WHERE id > 60000 AND id % 8 = 6;
     DELETE FROM sold WHERE id > 60000 AND id % 28 = 2; UPDATE logged SET amount = 18 WHERE amount = 20",
];

/// All rows, many, few and none; what fails for rows that another filter leaves out; joins; in the order of keys and in any.
const QUERIES: [&str; 15] = [
    "SELECT shop, count(*), sum(price), min(note), max(day) FROM sold GROUP BY shop",
    "SELECT shop, note, price FROM sold",
    "SELECT count(*), sum(amount) FROM sold WHERE is_paid",
    "SELECT sum(price * amount) FROM sold WHERE shop IN ('shop 1', 'shop 2', 'new shop 2') AND amount BETWEEN 10 AND 60
         AND (note = 'a note that no view holds, number 5' OR note LIKE '%7!')",
    "SELECT id FROM sold WHERE amount <> 0 AND 100 / amount > 20",
    "SELECT note FROM sold WHERE amount > 1000",
    "SELECT count(*), sum(amount), min(note) FROM sold WHERE id > 140000",
    "SELECT shop, sum(price) FROM sold WHERE id < 3000 GROUP BY shop",
    "SELECT s.shop, s.amount, w.kind FROM sold s JOIN wanted w ON s.id = w.sale",
    "SELECT l.shop, sum(l.amount), min(w.kind) FROM logged l JOIN wanted w ON l.sale = w.sale GROUP BY l.shop",
    "SELECT shop, sum(amount), count(*) FROM logged WHERE amount < 90 GROUP BY shop",
    "SELECT id, shop, note FROM sold WHERE amount = 17 ORDER BY id",
    "SELECT id, price, note, is_paid FROM sold ORDER BY id",
    "SELECT id, shop FROM sold WHERE amount < 80 ORDER BY id",
    "SELECT id, note FROM sold WHERE shop LIKE 'new%' ORDER BY id LIMIT 50",
];

fn engine() -> Arc<Engine> {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let engine = Engine::new(Store::in_memory(options)).unwrap();
    engine.session().execute(TABLES).unwrap();
    engine
}

fn session() -> Session {
    engine().session()
}

/// What a statement gives, each row as one text, in an order that does not depend on how it was read.
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let mut rows = Vec::new();
    for batch in results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches) {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    if !sql.contains("ORDER BY") {
        rows.sort_unstable();
    }
    rows
}

#[test]
fn changed_rows_are_read_as_if_they_had_always_been_in_chunks() {
    let mut session = session();
    for changes in CHANGES {
        session.execute(changes).unwrap();
        let changed = rows(&mut session, "SELECT delta_rows FROM coeval_tables WHERE table_name = 'sold'");
        assert_ne!(changed, ["0"], "the changes are not in chunks");
        let before: Vec<Vec<String>> = QUERIES.iter().map(|query| rows(&mut session, query)).collect();
        session.execute("CHECKPOINT").unwrap();
        for (query, before) in QUERIES.iter().zip(before) {
            let behind = rows(&mut session, query);
            assert_eq!(before.len(), behind.len(), "{query} behind {changes}");
            let differs = before.iter().zip(&behind).find(|(before, behind)| before != behind);
            assert_eq!(differs, None, "{query} behind {changes}");
        }
    }
}

/// That both sessions have the same rows behind these changes.
fn assert_same_rows(ours: &mut Session, others: &mut Session, changes: &str) {
    for query in QUERIES {
        let (ours, others) = (rows(ours, query), rows(others, query));
        assert_eq!(ours.len(), others.len(), "{query} behind {changes}");
        let differs = ours.iter().zip(&others).find(|(ours, others)| ours != others);
        assert_eq!(differs, None, "{query} behind {changes}");
    }
}

/// Tables in memory have arrays of all columns. To break it: take columns that come late from other rows than those that filters left.
#[test]
fn rows_of_files_are_those_of_tables_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let with_files = Engine::new(Store::open(folder.path().join("db"), options).unwrap()).unwrap();
    let (mut ours, mut others) = (with_files.session(), session());
    ours.execute(TABLES).unwrap();
    assert_same_rows(&mut ours, &mut others, "nothing");
    for changes in CHANGES {
        ours.execute(changes).unwrap();
        others.execute(changes).unwrap();
        assert_same_rows(&mut ours, &mut others, changes);
    }
    ours.execute("CHECKPOINT").unwrap();
    assert_same_rows(&mut ours, &mut others, "all of them, in files");
}

#[test]
fn a_transaction_reads_its_own_rows_among_those_of_chunks() {
    let mut session = session();
    let query = "SELECT shop, sum(amount), count(*) FROM sold WHERE amount > 3 GROUP BY shop";
    let unchanged = rows(&mut session, query);
    session.execute("BEGIN; UPDATE sold SET shop = 'mine' WHERE id % 20 = 2").unwrap();
    let of_own = rows(&mut session, query);
    let count = "SELECT count(*) FROM sold WHERE amount > 3 AND id % 20 = 2";
    let count = format!("|{}", rows(&mut session, count)[0]);
    assert!(of_own.iter().any(|row| row.starts_with("mine|") && row.ends_with(&count)), "{of_own:?}");
    session.execute("ROLLBACK").unwrap();
    assert_eq!(rows(&mut session, query), unchanged);
}

/// Numbers and bits, of which new values are put into the places of the old ones.
const OF_NUMBERS: &str = "
    SELECT count(*), sum(price), sum(amount), min(amount), count(is_paid), sum(id) FILTER (WHERE is_paid) FROM sold";

#[test]
fn savepoints_give_back_what_was_in_the_places_of_new_values() {
    let mut session = session();
    let mut seen = vec![rows(&mut session, OF_NUMBERS)];
    session.execute("BEGIN").unwrap();
    for update in [
        "UPDATE sold SET amount = amount + 100, is_paid = NULL WHERE id % 20 = 2",
        "UPDATE sold SET price = NULL, amount = -amount, is_paid = true WHERE id % 30 = 2",
        "DELETE FROM sold WHERE id % 44 = 2; UPDATE sold SET amount = NULL WHERE id % 52 = 2",
    ] {
        session.execute(&format!("SAVEPOINT s{}; {update}", seen.len())).unwrap();
        let of_own = rows(&mut session, OF_NUMBERS);
        assert!(!seen.contains(&of_own), "{update}");
        seen.push(of_own);
    }
    for place in (1..seen.len()).rev() {
        assert_eq!(rows(&mut session, OF_NUMBERS), seen[place]);
        session.execute(&format!("ROLLBACK TO SAVEPOINT s{place}")).unwrap();
    }
    assert_eq!(rows(&mut session, OF_NUMBERS), seen[0]);
    session.execute("ROLLBACK").unwrap();
    assert_eq!(rows(&mut session, OF_NUMBERS), seen[0]);
}

#[test]
fn an_older_snapshot_has_the_values_from_before_an_update() {
    let engine = engine();
    let (mut reader, mut writer) = (engine.session(), engine.session());
    writer.execute("UPDATE sold SET amount = amount + 1 WHERE id % 40 = 6").unwrap();
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    let before = rows(&mut reader, OF_NUMBERS);
    writer.execute("UPDATE sold SET amount = amount + 1000, is_paid = true WHERE id % 20 = 6").unwrap();
    let behind = rows(&mut writer, OF_NUMBERS);
    assert_ne!(before, behind);
    assert_eq!(rows(&mut reader, OF_NUMBERS), before);
    reader.execute("COMMIT").unwrap();
    assert_eq!(rows(&mut reader, OF_NUMBERS), behind);
}

#[test]
fn columns_that_chunks_do_not_have_are_updated() {
    let mut session = session();
    session.execute("ALTER TABLE sold ADD COLUMN place int DEFAULT 5, ADD COLUMN kind text").unwrap();
    let query = "SELECT count(*), sum(place), count(place), min(kind), count(kind), sum(amount) FROM sold
                 WHERE place IS NULL OR place < 9";
    for update in [
        "UPDATE sold SET amount = amount + 1 WHERE id % 40 = 6",
        "UPDATE sold SET place = id % 11 WHERE id % 40 = 8; UPDATE sold SET place = NULL WHERE id % 44 = 2",
        "UPDATE sold SET kind = 'kind ' || id % 3 WHERE id % 50 = 2; DELETE FROM sold WHERE id % 70 = 2",
    ] {
        session.execute(update).unwrap();
    }
    let before = rows(&mut session, query);
    session.execute("CHECKPOINT").unwrap();
    assert_eq!(rows(&mut session, query), before);
}
