// SPDX-License-Identifier: Apache-2.0
//! `coeval_memory`: what memory is used for, and what bounds it.

use super::rows::{Rows, count, table_defs, text};
use crate::catalog::Source;
use coeval_store::{ColumnType, Store, ValueRef, process_memory};

/// One row for each use.
pub(super) fn memory(store: &Store, source: &Source<'_>) -> Rows {
    let mut rows = Rows::new(&[(ColumnType::Text, "used_for"), (ColumnType::BigInt, "bytes bytes_max")]);
    let transaction = source.transaction;
    let (mut deltas, mut bricks) = (0, 0);
    for (_, def) in table_defs(transaction) {
        if let Ok(table) = transaction.table(def.id) {
            deltas += table.spaces().map(|(_, space)| space.delta_bytes()).sum::<usize>();
        }
        if def.bricks.is_some()
            && let Ok(snapshot) = transaction.brick_view(def.id, |all| all)
        {
            let of_bricks = snapshot.bricks().iter().map(|brick| brick.memory());
            bricks += of_bricks.map(|memory| memory.block_bytes + memory.epochs_bytes).sum::<usize>();
        }
    }
    let queries = source.engine.query_memory();
    let uses = [
        ("table files", Some(store.data_memory_bytes()), store.data_memory_max()),
        ("deltas", Some(deltas as u64), None),
        ("bricks", Some(bricks as u64), None),
        ("queries", Some(queries.taken as u64), Some(queries.most as u64)),
        ("the process", process_memory().map(|bytes| bytes as u64), None),
    ];
    for (used_for, bytes, most) in uses {
        rows.push([text(used_for), number(bytes), number(most)]);
    }
    rows
}

fn number(bytes: Option<u64>) -> ValueRef<'static> {
    bytes.map_or(ValueRef::Null, count)
}
