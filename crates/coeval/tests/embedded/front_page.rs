// SPDX-License-Identifier: Apache-2.0
//! The example of the front page: that it compiles, what it gives, and that the page shows what is compiled here.

use arrow::array::RecordBatch;
use coeval::{Database, Isolation, Value};
use std::path::Path;

const PAGE: &str = include_str!("../../../../README.md");

/// What the page shows, but for where the database is.
fn example(place: &Path) -> Result<Vec<RecordBatch>, coeval::Error> {
    let db = Database::open(place)?;
    db.session().execute("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)")?;

    let accounts = db.table("accounts")?;
    db.transaction(Isolation::Snapshot, |tx| {
        // runs again by itself when another one was first
        let key = accounts.key(&[Value::Int64(1)]);
        let balance = tx.get(&accounts, &key)?.and_then(|row| row.get(1).as_i64()).unwrap_or(0);
        tx.put(&accounts, accounts.row(&[Value::Int64(1), Value::Int64(balance + 10)])?)
    })?;

    let batches = db.session().query("SELECT sum(balance) FROM accounts")?; // Arrow record batches
    Ok(batches)
}

/// A text without its blanks: how it is laid out says nothing.
fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn the_front_pages_example_gives_what_it_says() {
    let place = tempfile::tempdir().unwrap();
    let batches = example(&place.path().join("my-data")).unwrap();
    let sum = arrow::util::display::array_value_to_string(batches[0].column(0), 0).unwrap();
    assert_eq!((batches[0].num_rows(), sum.as_str()), (1, "10"));
}

/// Changed in one place alone, it would be a page that nobody has tried.
#[test]
fn the_front_page_shows_what_is_compiled_here() {
    let (_, behind) = PAGE.split_once("```rust\n").unwrap();
    let (shown, _) = behind.split_once("```").unwrap();
    let (imports, body) = shown.split_once("\n\n").unwrap();
    assert!(without_blanks(include_str!("front_page.rs")).contains(&without_blanks(imports)), "{imports}");
    let body = body.replace("Database::open(\"my-data\")", "Database::open(place)");
    assert!(without_blanks(include_str!("front_page.rs")).contains(&without_blanks(&body)), "{body}");
}
