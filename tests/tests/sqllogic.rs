// SPDX-License-Identifier: Apache-2.0
//! Runs every file of `tests/sql/` against an in-memory database of its own, once as sessions come and once
//! with the point path off: both paths give the same answers and errors.
//!
//! Values print as PostgreSQL prints them; NULL as `NULL`, an empty text as `(empty)`. Expected errors are
//! named by SQLSTATE: `statement error (23505)`. `connection two` opens a second session on the same database.

#[path = "../skipping.rs"]
mod skipping;
#[path = "sqllogic/tique.rs"]
mod tique;

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::DataType;
use coeval_sql::{
    Engine, RowSet, Session, SqlError, StatementResult, column_type_of_arrow, format_shown, format_value,
};
use coeval_store::{EnumType, Store, StoreOptions, ValueRef, value_at};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether statements by key take their own path.
#[derive(Clone, Copy, Debug)]
enum Paths {
    Both,
    GeneralOnly,
}

struct Connection(Session);

impl Connection {
    fn open(engine: &Arc<Engine>, paths: Paths) -> Result<Self, SqlError> {
        let mut session = engine.session();
        if matches!(paths, Paths::GeneralOnly) {
            session.execute("SET coeval.point_path = off")?;
        }
        Ok(Self(session))
    }
}

impl DB for Connection {
    type Error = SqlError;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, SqlError> {
        let results = self.0.execute(sql)?;
        Ok(match results.into_iter().next_back() {
            Some(StatementResult { rows: Some(rows), .. }) => {
                let zone = self.0.settings().zone();
                let types = vec![DefaultColumnType::Any; rows.schema.fields().len()];
                DBOutput::Rows { types, rows: printed(&rows, zone) }
            }
            Some(result) => DBOutput::StatementComplete(result.tag.rows().unwrap_or(0)),
            None => DBOutput::StatementComplete(0),
        })
    }

    fn engine_name(&self) -> &'static str {
        "coeval"
    }

    fn error_sql_state(error: &SqlError) -> Option<String> {
        Some(error.state.code().to_owned())
    }
}

fn printed(rows: &RowSet, zone: chrono_tz::Tz) -> Vec<Vec<String>> {
    let mut out = Vec::with_capacity(rows.rows());
    for batch in &rows.batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|array| {
                let array = &without_lists(array, zone);
                let ty = column_type_of_arrow(array.data_type()).expect("results are of types that SQL has");
                let plain =
                    arrow::compute::cast(array, &ty.arrow()).expect("a type casts to its own array type");
                (ty, plain)
            })
            .collect();
        for row in 0..batch.num_rows() {
            let text = |(ty, array): &(coeval_store::ColumnType, arrow::array::ArrayRef)| {
                let value = value_at(array, row);
                if matches!(value, ValueRef::Null) {
                    return "NULL".to_owned();
                }
                let mut text = String::new();
                format_value(value, *ty, zone, &mut text);
                if text.is_empty() { "(empty)".to_owned() } else { text }
            };
            out.push(columns.iter().map(text).collect());
        }
    }
    out
}

/// Arrays and rows as their text; anything else as it is.
fn without_lists(array: &ArrayRef, zone: chrono_tz::Tz) -> ArrayRef {
    let is_row =
        matches!(array.data_type(), DataType::Struct(_)) && EnumType::of_arrow(array.data_type()).is_none();
    if !is_row && !matches!(array.data_type(), DataType::List(_)) {
        return array.clone();
    }
    let texts = (0..array.len()).map(|row| format_shown(array, row, zone).expect("arrays have a text"));
    Arc::new(texts.collect::<StringViewArray>())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of SQL tests is in the repository") {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension() == Some(OsStr::new("slt")) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Runs all files; the names and messages of those that fail. `SQL_TEST` narrows the files by a part of their
/// name.
fn failures(paths: Paths) -> Vec<String> {
    let folder = Path::new("sql");
    let wanted = std::env::var("SQL_TEST").unwrap_or_default();
    let mut failed = Vec::new();
    for file in files(folder) {
        let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
        if !name.contains(&wanted) {
            continue;
        }
        let store = Store::in_memory(StoreOptions::default());
        let engine = Engine::new(store).expect("threads can be started");
        let mut runner = Runner::new(|| {
            let connection = Connection::open(&engine, paths);
            async move { connection }
        });
        if let Err(error) = runner.run_file(&file) {
            failed.push(format!("{name}: {error}"));
        }
    }
    failed
}

#[test]
fn every_file_passes() {
    let failed = failures(Paths::Both);
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn every_file_passes_with_the_point_path_off() {
    let failed = failures(Paths::GeneralOnly);
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
