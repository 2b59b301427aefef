// SPDX-License-Identifier: Apache-2.0
//! Sessions in every layout and way to write: what they see, what they are told, what survives.
//!
//! On the default engine, or on the one whose library a variable of the environment names: `COEVAL_TIQUE_DUCKDB`,
//! `COEVAL_TIQUE_MONETDB`, `COEVAL_TIQUE_SQLITE`, or `COEVAL_TIQUE_POSTGRESQL` with a server at `COEVAL_TIQUE_POSTGRESQL_ADDRESS`. On the last two,
//! one test at a time: `--test-threads=1`. What looks at plans or physical tables stays on the default engine. Tests that kill a
//! PostgreSQL start one of their own (`cluster.rs`). With `COEVAL_TIQUE_BY_DRIVER` beside it DuckDB is an engine that the crate does not
//! know; its tests of bytes and of tables in memory fail then, since the dialect that is given leaves both out.

// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

mod abandoned;
#[path = "../../../../tests/bounded.rs"]
mod bounded;
mod cluster;
mod commits;
mod constraints;
mod copies;
mod definitions;
mod driver;
mod engine;
mod keys;
mod kills;
mod monetdb;
mod postgresql;
mod processes;
mod proxy;
mod reads;
mod savepoints;
mod serializable;
#[path = "../../../../tests/skipping.rs"]
mod skipping;
mod spanning;
mod writes;

use coeval_tique::{
    AdbcEngine, Certification, DataFusionEngine, Database, Durability, Engine, Layout, MonetDbEngine,
    Options, Rows, Session, SqlState, TiqueError, Writes,
};
use std::path::Path;
use std::sync::Arc;

/// Each combination of layout and way to write, certified in the engine; two that differ in both in this process.
fn all_options() -> Vec<Options> {
    use Certification::{InEngine, InProcess};
    let combinations = [
        (Layout::Stamped, Writes::Buffered, InEngine),
        (Layout::Stamped, Writes::AtOnce, InEngine),
        (Layout::Joined, Writes::Buffered, InEngine),
        (Layout::Joined, Writes::AtOnce, InEngine),
        (Layout::Stamped, Writes::Buffered, InProcess),
        (Layout::Joined, Writes::AtOnce, InProcess),
    ];
    let options = |(layout, writes, certification)| Options {
        layout,
        writes,
        certification,
        checkpoint_at: 0,
        ..Options::default()
    };
    combinations.into_iter().map(options).collect()
}

/// Whether the engine has no recursive queries.
fn is_monetdb() -> bool {
    std::env::var_os("COEVAL_TIQUE_MONETDB").is_some() && std::env::var_os("COEVAL_TIQUE_DUCKDB").is_none()
}

/// As [`is_monetdb`], of a test that is about nothing else.
#[track_caller]
fn needs_monetdb() -> bool {
    skipping::needed("monetdb", is_monetdb().then_some(())).is_some()
}

/// Whether the engine has neither decimals nor dates.
fn is_sqlite() -> bool {
    std::env::var_os("COEVAL_TIQUE_SQLITE").is_some()
}

/// The combinations that engines are killed in: half of them on engines that take long to open.
fn kill_options() -> Vec<Options> {
    let named = |name: &str| std::env::var_os(name).is_some();
    let step = if named("COEVAL_TIQUE_DUCKDB") || named("COEVAL_TIQUE_MONETDB") { 2 } else { 1 };
    all_options().into_iter().step_by(step).collect()
}

/// Whether the engine makes appends to several tables one change.
fn appends_together() -> bool {
    let named = |name: &str| std::env::var_os(name).is_some();
    ["DUCKDB", "MONETDB", "SQLITE", "POSTGRESQL"]
        .iter()
        .any(|engine| named(&format!("COEVAL_TIQUE_{engine}")))
}

fn database(options: Options) -> Database {
    Database::open(engine::in_memory(), options).unwrap()
}

/// An engine whose data outlives it, in this directory: the one that the environment names.
fn persistent(directory: &Path) -> Arc<dyn Engine> {
    if let Some(library) = std::env::var_os("COEVAL_TIQUE_DUCKDB") {
        let file = directory.join("engine.duckdb");
        return Arc::new(engine::duckdb(Path::new(&library), Some(&file)));
    }
    if let Some(library) = std::env::var_os("COEVAL_TIQUE_MONETDB") {
        return Arc::new(MonetDbEngine::open(Path::new(&library), Some(&directory.join("engine"))).unwrap());
    }
    if let Some(library) = std::env::var_os("COEVAL_TIQUE_SQLITE") {
        let file = directory.join("engine.sqlite");
        return Arc::new(AdbcEngine::sqlite(Path::new(&library), Some(&file)).unwrap());
    }
    if let Some(library) = std::env::var_os("COEVAL_TIQUE_POSTGRESQL") {
        let name = directory.file_name().unwrap().to_string_lossy();
        let name: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        return Arc::new(engine::postgresql_in(Path::new(&library), &format!("tique_{name}")));
    }
    Arc::new(DataFusionEngine::open(directory, Durability::Process).unwrap())
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
