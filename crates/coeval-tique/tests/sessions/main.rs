// SPDX-License-Identifier: Apache-2.0
//! Sessions in every layout and way to write: what they see, what they are told, what survives.
//!
//! On the default engine, or, if `COEVAL_TIQUE_DUCKDB` in the environment names its library, on DuckDB; what looks at
//! plans, files or physical tables stays on the default engine.

// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

mod commits;
mod constraints;
mod kills;
mod reads;
mod writes;

use coeval_tique::{
    AdbcEngine, DataFusionEngine, Database, Engine, Layout, Options, Rows, Session, SqlState, TiqueError,
    Writes,
};
use std::path::Path;
use std::sync::Arc;

/// Each combination of layout and way to write.
fn all_options() -> Vec<Options> {
    let pairs = [
        (Layout::Stamped, Writes::Buffered),
        (Layout::Stamped, Writes::AtOnce),
        (Layout::Joined, Writes::Buffered),
        (Layout::Joined, Writes::AtOnce),
    ];
    let options = |(layout, writes)| Options { layout, writes, checkpoint_at: 0, ..Options::default() };
    pairs.into_iter().map(options).collect()
}

fn database(options: Options) -> Database {
    let engine: Arc<dyn Engine> = match std::env::var_os("COEVAL_TIQUE_DUCKDB") {
        Some(library) => Arc::new(AdbcEngine::duckdb(Path::new(&library), None).unwrap()),
        None => Arc::new(DataFusionEngine::in_memory().unwrap()),
    };
    Database::open(engine, options).unwrap()
}

/// A database whose plans are DataFusion's.
fn default_database(options: Options) -> Database {
    Database::open(Arc::new(DataFusionEngine::in_memory().unwrap()), options).unwrap()
}

/// Each row as text, its columns divided by a bar; NULL is empty.
fn text(rows: &Rows) -> Vec<String> {
    let mut list = Vec::new();
    for batch in &rows.batches {
        for row in 0..batch.num_rows() {
            let columns = batch.columns().iter();
            let cells: Vec<_> = columns
                .map(|column| arrow::util::display::array_value_to_string(column, row).unwrap())
                .collect();
            list.push(cells.join("|"));
        }
    }
    list
}

/// The rows of the last statement.
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let outcomes = session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    text(outcomes.last().unwrap().rows.as_ref().unwrap())
}

/// The tag of the last statement.
fn tag(session: &mut Session, sql: &str) -> String {
    let outcomes = session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    outcomes.last().unwrap().tag.clone()
}

fn error(session: &mut Session, sql: &str) -> TiqueError {
    match session.execute(sql) {
        Err(error) => error,
        Ok(_) => panic!("{sql} should fail"),
    }
}

fn state(session: &mut Session, sql: &str) -> SqlState {
    error(session, sql).state
}
