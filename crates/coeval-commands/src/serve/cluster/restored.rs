// SPDX-License-Identifier: Apache-2.0
//! Rows of spread tables that a restore has brought into the directory: the first node of the cluster that is made of it loads them.
//!
//! # Once, whatever ends it
//! All of them are one load, so they are there as a whole or not at all. As long as they may not be there, the node is alone: it
//! listens where nobody knows of, so no node joins, and the server does not serve yet, so nobody loads or deletes. Hence the spread
//! tables are empty before that load, and have all of its rows behind it: a look at them says whether it has been done. What looks is
//! a delete, that is rolled back: what it sees is all that has ended, and it waits until each load of a life before has ended,
//! in whichever way. A snapshot of a reader may not have the load yet, and it would be done twice.
//!
//! ```text
//!   rows wait? --no--> serve
//!       | yes
//!   the node alone, the cluster founded, unless it is --> is one of the tables not empty? --yes--+
//!       ^                                                          | no                          |
//!       | killed anywhere                                        one load, committed             |
//!       +----------------------------------------------------------+-------> the files go <------+ --> serve
//! ```
//! Tables that were dropped since the backup are left out; columns that were added since have what older rows have in them.
//!
//! Cost: all rows are in this node's memory, as there is no other; reading each part once, and writing its rows to the node's log.

use super::declarations::Declarations;
use super::writing::pieces;
use super::{NotStarted, Start, attempt, start_keeper};
use crate::failure::Failure;
use crate::readable::grouped;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use arrow::ipc::reader::StreamReader;
use coeval::BrickSchema;
use coeval_archive::{RestoredRows, RestoredTable};
use coeval_cluster::{BrickAddress, CommitWait, Durability, Founding, Load, Node};
use std::fmt::Display;
use std::io::Cursor;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;

/// How far it is: a process may be killed behind each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Started,
    Founded,
    Looked,
    /// Some of the rows are sent.
    Sent,
    Committed,
    Stopped,
    Removed,
}

/// What hears of each step, and may end everything there, as a test does.
pub(super) type Hears<'a> = &'a dyn Fn(Step) -> Result<(), String>;

/// A table whose rows are brought back.
struct Table<'r> {
    rows: &'r RestoredTable,
    schema: BrickSchema,
}

fn failed(error: impl Display) -> String {
    error.to_string()
}

/// Says so if rows wait for a cluster, and the server makes none. It serves row tables also if they are damaged.
pub(super) fn remind(dir: &Path) {
    match RestoredRows::open(dir) {
        Ok(None) => {}
        Ok(Some(rows)) => eprintln!(
            "{} has rows of tables that are spread over a cluster, as of {}, which wait until it is served with --cluster: {}",
            dir.display(),
            rows.taken(),
            names_of(rows.tables())
        ),
        Err(error) => eprintln!(
            "{} may have rows of tables that are spread over a cluster, which a restore has brought and that cannot be read: {error}",
            dir.display()
        ),
    }
}

/// Loads the rows that wait in the directory of a database into the cluster that is made of it, and removes them. `start` has what the node
/// is started with; nothing of it runs yet, and nothing does when this returns.
///
/// # Errors
/// If they are damaged, or a table does not take them: none of them is loaded then. The next start tries it again.
pub(super) fn bring_back(
    dir: &Path,
    start: &Start,
    declarations: &Declarations,
    hears: Hears<'_>,
) -> Result<(), Failure> {
    let rows = RestoredRows::open(dir).map_err(|error| of_folder(dir, error))?;
    warn_of_lost(start, declarations, rows.as_ref());
    let Some(rows) = rows else { return Ok(()) };
    let has_founded = start.options.keeper == start.options.transport.node;
    let Some(term) = start.term.filter(|_| has_founded) else {
        tracing::warn!(
            folder = %rows.folder().display(),
            "rows of a restore are here, and this node has not made its cluster: they are not loaded"
        );
        return Ok(());
    };
    eprintln!(
        "Loading {} rows of spread tables, as of {}: {}",
        grouped(rows.tables().iter().map(RestoredTable::rows).sum()),
        rows.taken(),
        names_of(rows.tables())
    );
    let folder = rows.folder().display().to_string();
    let brought = brought(&rows, (start, term), declarations, hears);
    let done = brought.and_then(|()| rows.remove().map_err(failed)).and_then(|()| hears(Step::Removed));
    done.map_err(|why| {
        Failure::Work(format!(
            "the rows of spread tables that a restore has brought are not loaded: {why}. They wait in {folder}, and the next start tries it \
             again; without that folder the cluster begins with empty tables"
        ))
    })
}

fn of_folder(dir: &Path, error: impl Display) -> Failure {
    Failure::work(format_args!("cannot look for restored rows in {}", dir.display()), error)
}

fn names_of(tables: &[RestoredTable]) -> String {
    let names = tables.iter().map(|table| format!("{} ({})", table.name, grouped(table.rows())));
    names.collect::<Vec<_>>().join(", ")
}

/// A cluster that is new has no rows of tables that are there and were not restored.
fn warn_of_lost(start: &Start, declarations: &Declarations, rows: Option<&RestoredRows>) {
    if start.founding == Founding::GoOn {
        return;
    }
    let is_restored =
        |number: u64| rows.is_some_and(|rows| rows.tables().iter().any(|table| table.table == number));
    let lost = declarations.spread_tables().into_iter().filter(|(number, _)| !is_restored(*number));
    let lost: Vec<String> = lost.map(|(_, name)| name).collect();
    if !lost.is_empty() {
        let tables = lost.join(", ");
        tracing::warn!(
            tables,
            "this cluster is new: these spread tables are empty, whatever they had before"
        );
    }
}

/// See [`bring_back`].
fn brought(
    rows: &RestoredRows,
    (start, term): (&Start, u64),
    declarations: &Declarations,
    hears: Hears<'_>,
) -> Result<(), String> {
    let (mut tables, mut dropped) = (Vec::new(), Vec::new());
    for table in rows.tables() {
        match declarations.columns(table.table) {
            Some(schema) => tables.push(Table { rows: table, schema }),
            None => dropped.push(table.name.as_str()),
        }
    }
    if !dropped.is_empty() {
        let tables = dropped.join(", ");
        tracing::info!(tables, "these tables were dropped since the backup: their rows are left out");
    }
    // Nobody is told of this address: neither other nodes nor who would join.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let alone = Start {
        options: start.options.clone(),
        listener,
        directory: start.directory.clone(),
        founding: start.founding,
        // What is loaded is removed from where it waits.
        durability: Durability::Synced,
        store: start.store.clone(),
        term: start.term,
        threads: start.threads.clone(),
    };
    let node = attempt(&alone, declarations).map_err(|error| match error {
        NotStarted::Failed(why) => why,
        NotStarted::Waits(table) => format!("table {table} is not defined yet"),
    })?;
    start.threads.block_on(async {
        hears(Step::Started)?;
        start_keeper(&alone, term, &node).await.map_err(failed)?;
        node.serves().await.map_err(failed)?;
        hears(Step::Founded)?;
        let are_loaded = are_loaded(&node, &tables).await?;
        hears(Step::Looked)?;
        if !are_loaded {
            load(&node, rows, &tables, hears).await?;
        }
        hears(Step::Committed)?;
        node.stop().await;
        hears(Step::Stopped)
    })
}

/// Whether the load was committed by an earlier start.
async fn are_loaded(node: &Node, tables: &[Table<'_>]) -> Result<bool, String> {
    let delete = node.begin_delete().await.map_err(failed)?;
    let seen = delete.snapshot();
    let mut found = false;
    for table in tables {
        let table = table.rows.table;
        for brick in seen.bricks(table).await.map_err(failed)? {
            found = found || seen.read(BrickAddress { table, brick }).await.map_err(failed)?.count() > 0;
        }
    }
    delete.roll_back().await.map_err(failed)?;
    Ok(found)
}

/// Loads all rows, all at once.
async fn load(
    node: &Node,
    rows: &RestoredRows,
    tables: &[Table<'_>],
    hears: Hears<'_>,
) -> Result<(), String> {
    let mut load = node.begin().await.map_err(failed)?;
    for table in tables {
        for part in &table.rows.parts {
            let bytes = rows.read(part).map_err(failed)?;
            let sent = send(&mut load, table, bytes).await?;
            if sent != part.rows {
                return Err(format!("a part of {} has {sent} rows, not {}", table.rows.name, part.rows));
            }
            hears(Step::Sent)?;
        }
    }
    load.commit(CommitWait::Decided).await.map(drop).map_err(failed)
}

/// Sends the rows of a part; gives how many there were.
async fn send(load: &mut Load, table: &Table<'_>, part: Vec<u8>) -> Result<u64, String> {
    let of_table = |error: &dyn Display| format!("{}: {error}", table.rows.name);
    let batches = StreamReader::try_new(Cursor::new(part), None).map_err(|error| of_table(&error))?;
    let mut sent = 0;
    for batch in batches {
        let batch = batch.map_err(|error| of_table(&error))?;
        sent += batch.num_rows() as u64;
        for piece in pieces(&completed(&batch, &table.schema)?) {
            let appended = load.append_rows(table.rows.table, &piece).await;
            appended.map_err(|error| of_table(&error))?;
        }
    }
    Ok(sent)
}

/// The same rows with the columns that have come since.
fn completed(batch: &RecordBatch, schema: &BrickSchema) -> Result<RecordBatch, String> {
    let (rows, columns) = (batch.num_rows(), schema.columns().len());
    let mut arrays: Vec<ArrayRef> = batch.columns().to_vec();
    for place in arrays.len()..columns {
        let missing = schema.missing_column(place, rows);
        arrays.push(missing.ok_or_else(|| "the table has another dimension by now".to_owned())?);
    }
    let fields: Vec<Field> = schema
        .columns()
        .iter()
        .zip(&arrays)
        .map(|(column, array)| Field::new(column.name(), array.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(failed)
}

#[cfg(test)]
mod tests;
