// SPDX-License-Identifier: Apache-2.0
//! Brings TPC-H's tables into a database: generated, or from Parquet files.

use super::files::{parquet_path, read_parquet};
use super::tables::{LINEITEM, TABLES, generate, part_count, row_estimate};
use crate::engine::{create_tables, has_table, query_number};
use crate::error::BenchError;
use crate::options::{Api, Options};
use crate::progress::Progress;
use crate::system::EmbeddedConsole;
use crate::table::TableSpec;
use crate::tpcc::{load, send};
use coeval::Database;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a load took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) rows: u64,
    pub(crate) time: Duration,
}

/// Makes sure that the database holds the tables at the options' scale. `None` if they were there.
///
/// # Errors
/// If the database holds tables of another scale, or refuses the rows.
pub(crate) fn populate(
    db: &Database,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Option<Loaded>, BenchError> {
    if has_table(db, &LINEITEM) {
        verify(db, options)?;
        return Ok(None);
    }
    create_tables(db, TABLES)?;
    let started = Instant::now();
    progress.begin("load TPC-H", Some(row_total(options.scale)));
    let rows = match (&options.read_parquet, options.api) {
        (Some(directory), Api::Sql) => copy_parquet(db, directory, progress)?,
        (Some(directory), Api::Typed) => load_parquet(db, directory, progress)?,
        (None, _) => load_generated(db, options.scale, progress)?,
    };
    progress.end();
    Ok(Some(Loaded { rows, time: started.elapsed() }))
}

fn row_total(scale: f64) -> u64 {
    TABLES.iter().map(|table| row_estimate(table, scale)).sum()
}

fn load_generated(db: &Database, scale: f64, progress: &dyn Progress) -> Result<u64, BenchError> {
    load(&mut EmbeddedConsole::new(db), progress, |batches| {
        for table in TABLES {
            for part in 0..part_count(table, scale) {
                generate::<BenchError>(table, scale, part, &mut |batch| {
                    send(batches, (table, batch));
                    Ok(())
                })?;
            }
        }
        Ok(())
    })
}

/// With `bulk_insert`, a row group at a time.
fn load_parquet(db: &Database, directory: &Path, progress: &dyn Progress) -> Result<u64, BenchError> {
    load(&mut EmbeddedConsole::new(db), progress, |batches| {
        for table in TABLES {
            for batch in read_parquet(directory, table)? {
                send(batches, (table, batch?));
            }
        }
        Ok(())
    })
}

/// With one `COPY` for each table.
fn copy_parquet(db: &Database, directory: &Path, progress: &dyn Progress) -> Result<u64, BenchError> {
    let mut session = db.session();
    let mut rows = 0;
    for table in TABLES {
        rows += session.execute(&copy_statement(directory, table)?)?;
        progress.advance(row_estimate(table, 1.0));
    }
    Ok(rows)
}

/// The statement that copies a table from its file.
pub(crate) fn copy_statement(directory: &Path, table: &TableSpec) -> Result<String, BenchError> {
    let path = parquet_path(directory, table);
    let absolute = std::path::absolute(&path).map_err(|source| BenchError::file(&path, source))?;
    let quoted = absolute.to_string_lossy().replace('\'', "''");
    Ok(format!("COPY {} FROM '{quoted}' (FORMAT parquet)", table.name))
}

/// Whether what the directory holds is what the options ask for. Only `lineitem` has no exact count.
fn verify(db: &Database, options: &Options) -> Result<(), BenchError> {
    let mut session = db.session();
    for table in TABLES.into_iter().filter(|table| table.name != LINEITEM.name) {
        let found = query_number(&mut session, &format!("SELECT count(*) FROM {}", table.name))?;
        let wanted = row_estimate(table, options.scale);
        if found.unsigned_abs() != wanted {
            return Err(BenchError::Population(format!(
                "the directory holds {found} rows of {}, scale {} has {wanted}; choose another directory",
                table.name, options.scale
            )));
        }
    }
    Ok(())
}
