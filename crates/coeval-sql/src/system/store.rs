// SPDX-License-Identifier: Apache-2.0
//! System tables on the store: tables and their sizes, the store itself, transactions.

use super::rows::{Rows, count, table_defs, text};
use coeval_store::{CheckpointPolicy, ColumnType, Durability, Store, Table, Transaction};
use std::sync::Arc;

const TEXT: ColumnType = ColumnType::Text;
const BIGINT: ColumnType = ColumnType::BigInt;

/// `coeval_tables`: one row per table, own changes of the transaction not counted.
pub(super) fn tables(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        ("table_schema", TEXT),
        ("table_name", TEXT),
        ("rows", BIGINT),
        ("base_chunks", BIGINT),
        ("base_bytes", BIGINT),
        ("delta_rows", BIGINT),
        ("delta_bytes", BIGINT),
        ("indexes", BIGINT),
    ]);
    for (name, def) in table_defs(transaction) {
        let Ok(table) = transaction.table(def.id) else { continue };
        rows.push([
            text(&name.schema),
            text(&name.name),
            count(table.row_count()),
            count(table.base_chunks()),
            count(base_bytes(table)),
            count(table.delta_rows()),
            count(table.spaces().map(|(_, space)| space.delta_bytes()).sum::<usize>()),
            count(def.indexes.len()),
        ]);
    }
    rows
}

fn base_bytes(table: &Arc<Table>) -> usize {
    table.spaces().map(|(_, space)| space.base_bytes()).sum()
}

/// `coeval_store`: one row.
pub(super) fn store(store: &Store) -> Rows {
    let mut rows = Rows::new(&[("version", BIGINT), ("durability", TEXT), ("checkpoint", TEXT)]);
    let options = store.options();
    rows.push([
        count(store.world().version().get()),
        text(match options.durability {
            Durability::Fsync => "fsync",
            Durability::None => "none",
        }),
        text(match options.checkpoint {
            CheckpointPolicy::Manual => "manual",
            CheckpointPolicy::Automatic { .. } => "automatic",
        }),
    ]);
    rows
}

/// `coeval_transactions`: one row, what active transactions hold.
pub(super) fn transactions(store: &Store) -> Rows {
    let mut rows =
        Rows::new(&[("active_snapshots", BIGINT), ("current_version", BIGINT), ("oldest_version", BIGINT)]);
    rows.push([
        count(store.active_snapshots()),
        count(store.world().version().get()),
        count(store.oldest_active().get()),
    ]);
    rows
}
