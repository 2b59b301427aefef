// SPDX-License-Identifier: Apache-2.0
//! System tables on brick tables: `coeval_bricks`, `coeval_epochs` and `coeval_ingest_offsets`.

use super::rows::{Rows, count, integer, table_defs, text};
use crate::error::SqlError;
use crate::registry::Registry;
use crate::rights::{Object, Rights};
use crate::types::format_value;
use coeval_store::{
    BrickSnapshot, BrickView, ColumnType, DimensionBounds, Store, TableDef, Transaction, Value, ValueRef,
};

const TEXT: ColumnType = ColumnType::Text;
const INT: ColumnType = ColumnType::Int;
const BIGINT: ColumnType = ColumnType::BigInt;

/// `coeval_bricks`: one row for each brick that has rows, visible or not. Its ranges, which are values of rows, are shown to
/// who may read the table. When it was loaded last is known of loads since the last checkpoint before the database was opened.
pub(super) fn bricks(transaction: &Transaction, rights: &Rights) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "table_schema table_name"),
        (BIGINT, "brick"),
        (TEXT, "ranges"),
        (BIGINT, "rows visible_rows value_bytes bytes epochs_entries epochs_bytes newest_epoch"),
        (ColumnType::TimestampTz, "last_load"),
    ]);
    for (name, def) in table_defs(transaction) {
        if def.bricks.is_none() {
            continue;
        }
        let may_read = rights.may_read(Object::Table(&def));
        let Ok(snapshot) = transaction.brick_view(def.id, |all| all) else { continue };
        for brick in snapshot.bricks() {
            let memory = brick.memory();
            let ranges = may_read.then(|| ranges(&snapshot, &def, brick));
            rows.push([
                text(&name.schema),
                text(&name.name),
                count(brick.id().get()),
                ranges.as_deref().map_or(ValueRef::Null, text),
                count(brick.rows()),
                count(snapshot.visible_rows(brick)),
                count(memory.value_bytes),
                count(memory.block_bytes + memory.epochs_bytes),
                count(brick.epochs_entries()),
                count(memory.epochs_bytes),
                snapshot.newest_epoch(brick).map_or(ValueRef::Null, |epoch| count(epoch.get())),
                brick.loaded_at().map_or(ValueRef::Null, count),
            ]);
        }
    }
    rows
}

/// `region in 'a'..'b', day in 2026-01-01..2026-01-31`.
fn ranges(snapshot: &BrickSnapshot, def: &TableDef, brick: &BrickView) -> String {
    let mut out = String::new();
    for (place, (_, column)) in def.live_columns().enumerate() {
        let (least, greatest) = match snapshot.dimension_bounds(brick, place) {
            None => continue,
            Some(DimensionBounds::Strings(least, greatest)) => {
                (format!("'{least}'"), format!("'{greatest}'"))
            }
            Some(DimensionBounds::Ordered(least, greatest)) => {
                (number(least, column.ty), number(greatest, column.ty))
            }
        };
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(&format!("{} in {least}..{greatest}", column.name));
    }
    out
}

/// A dimension's number as its type writes it.
fn number(number: i64, ty: ColumnType) -> String {
    let value = match ty {
        ColumnType::Date => i32::try_from(number).map_or(Value::Int64(number), Value::Int32),
        _ => Value::Int64(number),
    };
    let ty = if matches!(ty, ColumnType::SmallInt | ColumnType::Int) { BIGINT } else { ty };
    let mut out = String::new();
    format_value(value.borrow(), ty, chrono_tz::UTC, &mut out);
    out
}

/// `coeval_ingest_offsets`: how far each source of each table has come.
///
/// # Errors
/// If the offsets cannot be read.
pub(super) fn ingest_offsets(transaction: &Transaction, rights: &Rights) -> Result<Rows, SqlError> {
    let mut rows = Rows::new(&[(TEXT, "table_schema table_name source"), (BIGINT, "last_offset rows")]);
    let offsets = transaction.ingest_offsets()?;
    let readable = |def: &TableDef| rights.may_read(Object::Table(def));
    for (name, def) in table_defs(transaction).into_iter().filter(|(_, def)| readable(def)) {
        for offset in offsets.iter().filter(|offset| offset.table == def.id) {
            rows.push([
                text(&name.schema),
                text(&name.name),
                text(&offset.source),
                ValueRef::Int64(offset.offset),
                ValueRef::Int64(offset.rows),
            ]);
        }
    }
    Ok(rows)
}

/// `coeval_epochs`: one row. What is pending keeps commits behind it from being purged, and so does the oldest version that
/// a transaction reads by: both are named, with the session if it has one.
pub(super) fn epochs(store: &Store, registry: &Registry) -> Rows {
    let mut rows = Rows::new(&[
        (BIGINT, "next latest_committed latest_safe pending oldest_pending oldest_pending_transaction"),
        (INT, "oldest_pending_pid"),
        (BIGINT, "oldest_held oldest_held_version"),
        (INT, "oldest_held_pid"),
    ]);
    let status = store.epochs();
    let number = |number: Option<u64>| number.map_or(ValueRef::Null, count);
    let writer = store.oldest_brick_writer();
    let version = store.held_snapshots().first().map(|(version, _)| *version);
    let sessions = registry.all();
    let reader = sessions.iter().find(|session| {
        let block = session.activity().transaction;
        version.is_some() && block.is_some_and(|block| block.begin == version)
    });
    rows.push([
        count(status.next.get()),
        count(status.latest_committed.get()),
        count(status.latest_safe.get()),
        count(status.pending.len()),
        number(status.pending.first().map(|epoch| epoch.get())),
        number(writer.map(|(_, transaction)| transaction.get())),
        integer(writer.and_then(|(_, transaction)| registry.session_of(transaction))),
        number(status.oldest_held.map(|epoch| epoch.get())),
        number(version.map(|version| version.get())),
        integer(reader.map(|session| session.pid())),
    ]);
    rows
}
