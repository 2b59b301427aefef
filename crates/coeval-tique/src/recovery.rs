// SPDX-License-Identifier: Apache-2.0
//! Recovery (2.4.2): what the last owner left behind becomes a database again.
//!
//! | killed | what is there | recovery |
//! |---|---|---|
//! | before the marker of a commit | versions without marker | deletes them: aborted |
//! | behind the marker, before the client was told | versions and marker | keeps them: committed |
//! | behind PREPARE of a spanning commit, before its decision | versions without marker | deletes them: aborted |
//! | behind the decision, before the marker | versions, and the decision elsewhere | writes the marker: committed |
//! | before the start timestamp moved | markers above it | starts behind the last marker |
//! | in a checkpoint, while storage was written | stable versions still in the cache, which hide the storage | nothing; the next checkpoint writes them again |
//! | in a checkpoint, while the cache was trimmed | the rest of the stable versions, newest last | nothing |
//! | in a checkpoint, while markers were trimmed | markers without versions | nothing |
//! | in CREATE TABLE | what says that the table is unfinished, some of the physical tables | drops them |
//! | in DROP TABLE | the same | drops the rest |
//!
//! Tables that need not outlive a process are emptied, for engines that keep them all the same.

use crate::catalog::{Catalog, Table};
use crate::commit::Decision;
use crate::counters::{Counters, Timestamp, Txid};
use crate::definitions::{definitions, describe};
use crate::engine::{Connection, Effort, Engine};
use crate::error::Result;
use crate::literal::{Row, joined};
use crate::names::quoted;
use crate::physical::{CTS, TXID, cache, create_schema, create_table, not_ours, number};
use crate::snapshot::Layout;
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;

/// The catalog, and counters behind everything that happened.
pub(crate) fn recover(
    engine: &dyn Engine,
    connection: &mut dyn Connection,
    layout: Layout,
    decided: &[Decision],
) -> Result<(Catalog, Counters)> {
    for statement in create_schema(engine.dialect()) {
        connection.execute(&statement)?;
    }
    settle(connection, decided)?;
    let mut catalog = Catalog::default();
    for definition in definitions(connection, engine.dialect().literals)? {
        for statement in create_table(&definition, engine.dialect())? {
            connection.execute(&statement)?;
        }
        let table = describe(connection, definition, layout, engine.dialect())?;
        catalog = catalog.with(table);
    }
    let mut last_txid = number(connection, "SELECT max(txid) FROM tique_committed")?;
    let last_cts = number(connection, "SELECT max(cts) FROM tique_committed")?;
    for table in catalog.tables() {
        let cache = quoted(&cache(&table.definition));
        last_txid = last_txid.max(number(connection, &format!("SELECT max({TXID}) FROM {cache}"))?);
        let is_lost = match layout {
            Layout::Stamped => format!("{CTS} IS NULL OR {CTS} NOT IN (SELECT cts FROM tique_committed)"),
            Layout::Joined => format!("{TXID} NOT IN (SELECT txid FROM tique_committed)"),
        };
        connection.execute(&format!("DELETE FROM {cache} WHERE {is_lost}"))?;
        let left = number(connection, &format!("SELECT count(*) FROM {cache}"))?;
        table.note_appended(usize::try_from(left).unwrap_or(0));
        if left > 0 && layout == Layout::Stamped {
            note_versions(connection, table)?;
        }
    }
    for table in ["tique_began", "tique_committing", "tique_aborted", "tique_write_sets"] {
        connection.execute(&format!("DELETE FROM {table} WHERE txid IS NOT NULL"))?;
    }
    connection.sync()?;
    Ok((catalog, Counters::after(Txid(last_txid), Timestamp(last_cts))))
}

/// Notes the keys that have versions in a cache.
fn note_versions(connection: &mut dyn Connection, table: &Table) -> Result<()> {
    let definition = &table.definition;
    let columns = definition.names(&definition.key).join(", ");
    let sql = format!("SELECT {CTS}, {columns} FROM {}", quoted(&cache(definition)));
    let keys: Vec<usize> = (1..=definition.key.len()).collect();
    for batch in &connection.query(&sql, Effort::Analytical)?.batches {
        let stamps = cast(batch.column(0), &DataType::Int64).map_err(not_ours)?;
        let stamps = stamps.as_primitive::<Int64Type>();
        let mut columns = vec![batch.column(0).clone()];
        for (column, &place) in batch.columns()[1..].iter().zip(&definition.key) {
            columns.push(table.typed(place, column)?);
        }
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|column| ScalarValue::try_from_array(column, row));
            let values: Row = values.collect::<std::result::Result<_, _>>().map_err(not_ours)?;
            let key = joined(&values, &keys);
            table.versions.note(std::iter::once(key.as_str()), Timestamp(stamps.value(row)));
        }
    }
    Ok(())
}

/// Writes the markers that decided transactions lack. They were prepared: their versions are there, or in the storage.
fn settle(connection: &mut dyn Connection, decided: &[Decision]) -> Result<()> {
    for Decision { transaction, timestamp } in decided {
        let marked = format!("SELECT count(*) FROM tique_committed WHERE txid = {transaction}");
        if number(connection, &marked)? == 0 {
            connection
                .execute(&format!("INSERT INTO tique_committed VALUES ({transaction}, {timestamp})"))?;
        }
    }
    Ok(connection.sync()?)
}
