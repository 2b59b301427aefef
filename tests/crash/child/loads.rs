// SPDX-License-Identifier: Apache-2.0
//! Bulk loads, which become chunks at once, and the ways their rows go again.
//!
//! Keys: `load/TAG` is the number of rows with this tag.

use crate::{Effect, Worker};
use arrow::array::{Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use coeval::{Database, Error};
use rand::Rng;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// Rows of one load: enough to become chunks without a detour.
const ROWS: i64 = 4_200;

/// So many loads stay at most.
const LOADS: usize = 3;

/// Loads, deletes and truncates.
pub(crate) fn work(mut worker: Worker, db: &Database) -> Result<(), Error> {
    let mut session = db.session();
    let mut tags = BTreeSet::new();
    for batch in session.query("SELECT DISTINCT tag FROM loads")? {
        tags.extend(
            (0..batch.num_rows()).filter_map(|row| coeval::value_at(batch.column(0).as_ref(), row).as_i64()),
        );
    }
    let file = std::env::temp_dir().join(format!("coeval-crash-{}.csv", std::process::id()));
    loop {
        let mut effect = Effect::default();
        if tags.len() < LOADS {
            let tag = tags.last().map_or(0, |last| last + 1);
            effect.put(format_args!("load/{tag}"), ROWS);
            if worker.dice.random_ratio(1, 2) {
                write_csv(&file, tag);
                let copy = format!("COPY loads FROM '{}' WITH (FORMAT csv)", file.display());
                worker.run(&effect, || session.execute(&copy).map(drop))?;
                // What a kill leaves behind goes with the directory that the test has given it.
                let _ = std::fs::remove_file(&file);
            } else {
                worker.run(&effect, || db.bulk_insert("loads", &[batch(tag)]).map(drop))?;
            }
            tags.insert(tag);
        } else if worker.dice.random_ratio(1, 2) {
            tags.iter().for_each(|tag| effect.remove(format_args!("load/{tag}")));
            worker.run(&effect, || session.execute("TRUNCATE loads").map(drop))?;
            tags.clear();
        } else {
            let tag = tags.pop_first().expect("there are loads");
            effect.remove(format_args!("load/{tag}"));
            let delete = format!("DELETE FROM loads WHERE tag = {tag}");
            worker.run(&effect, || session.execute(&delete).map(drop))?;
        }
    }
}

fn rows(tag: i64) -> impl Iterator<Item = (i64, String)> {
    (0..ROWS).map(move |row| (tag * 10_000 + row, format!("row {row} of {tag}")))
}

fn write_csv(file: &std::path::Path, tag: i64) {
    let mut text = String::new();
    for (id, note) in rows(tag) {
        writeln!(text, "{id},{tag},{note}").expect("a string takes everything");
    }
    std::fs::write(file, text).expect("the directory for temporary files takes a file");
}

fn batch(tag: i64) -> RecordBatch {
    let fields = [("id", DataType::Int64), ("tag", DataType::Int64), ("note", DataType::Utf8View)];
    let schema = Schema::new(fields.map(|(name, ty)| Field::new(name, ty, name == "note")).to_vec());
    let ids = Int64Array::from_iter_values(rows(tag).map(|(id, _)| id));
    let tags = Int64Array::from_iter_values(rows(tag).map(|_| tag));
    let notes = StringViewArray::from_iter_values(rows(tag).map(|(_, note)| note));
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(tags), Arc::new(notes)])
        .expect("the columns are those of the schema")
}
