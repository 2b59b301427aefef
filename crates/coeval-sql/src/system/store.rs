// SPDX-License-Identifier: Apache-2.0
//! System tables on the store: tables and their sizes, the store itself, transactions and their snapshots.

use super::rows::{Rows, count, integer, table_defs, text};
use crate::registry::{ActivityState, Registry};
use coeval_store::{
    AccessMode, CheckpointPolicy, ColumnType, Durability, Reading, Store, Table, Transaction, ValueRef,
};
use std::sync::Arc;

const TEXT: ColumnType = ColumnType::Text;
const INT: ColumnType = ColumnType::Int;
const BIGINT: ColumnType = ColumnType::BigInt;
const MOMENT: ColumnType = ColumnType::TimestampTz;

/// `coeval_tables`: one row per table, own changes of the transaction not counted.
pub(super) fn tables(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "table_schema table_name"),
        (BIGINT, "rows base_chunks base_bytes delta_rows delta_bytes indexes bytes"),
    ]);
    for (name, def) in table_defs(transaction) {
        let Ok(table) = transaction.table(def.id) else { continue };
        let delta_bytes: usize = table.spaces().map(|(_, space)| space.delta_bytes()).sum();
        rows.push([
            text(&name.schema),
            text(&name.name),
            count(table.row_count()),
            count(table.base_chunks()),
            count(base_bytes(table)),
            count(table.delta_rows()),
            count(delta_bytes),
            count(def.indexes.len()),
            count(base_bytes(table) + delta_bytes),
        ]);
    }
    rows
}

fn base_bytes(table: &Arc<Table>) -> usize {
    table.spaces().map(|(_, space)| space.base_bytes()).sum()
}

/// `coeval_store`: one row.
pub(super) fn store(store: &Store) -> Rows {
    let mut rows = Rows::new(&[
        (BIGINT, "version"),
        (TEXT, "durability checkpoint"),
        (BIGINT, "active_snapshots oldest_version"),
    ]);
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
        count(store.active_snapshots()),
        count(store.oldest_active().get()),
    ]);
    rows
}

/// `coeval_transactions`: one row for each session of a client that is in a transaction: in a block, or in the transaction of
/// a single statement, for which level and version are not shown. `holds_boundary` is true for the transaction that keeps safe
/// snapshots from advancing: the oldest read-write transaction at SERIALIZABLE. `noted_reads` counts the keys, ranges and tables
/// that it has read and is certified by. Its conflicts at SERIALIZABLE: `first_out_version` is the version of the first commit
/// that overwrote something it has read; `in_edges` counts the transactions that have read what it has overwritten, each open one
/// of a client once, and all committed ones together once. A transaction with conflicts of both kinds may be refused.
pub(super) fn transactions(store: &Store, registry: &Registry) -> Rows {
    let mut rows = Rows::new(&[
        (INT, "pid"),
        (TEXT, "state isolation access"),
        (BIGINT, "begin_version"),
        (MOMENT, "since"),
        (ColumnType::Boolean, "holds_boundary"),
        (BIGINT, "transaction noted_reads first_out_version in_edges"),
    ]);
    let holder = store.snapshot_lag().holder.map(|holder| holder.transaction);
    let sessions: Vec<_> = registry.all().iter().map(|session| (session.pid(), session.activity())).collect();
    let readings = || sessions.iter().filter_map(|(_, other)| other.transaction.as_ref()?.reading.as_ref());
    let in_edges = |reading: &Reading| {
        let open = readings().filter(|other| reading.is_overwriting(other)).count();
        open + usize::from(store.in_edge(reading).is_some())
    };
    for (pid, activity) in &sessions {
        let since = activity.transaction_micros.or(match activity.state {
            ActivityState::Active => activity.statement_micros,
            ActivityState::Idle
            | ActivityState::IdleInTransaction
            | ActivityState::IdleInFailedTransaction => None,
        });
        let Some(since) = since else { continue };
        let block = activity.transaction.as_ref();
        let isolation = block.map(|block| block.isolation.to_string().to_lowercase());
        let access = block.map(|block| match block.mode {
            AccessMode::ReadOnly | AccessMode::Query => "read only",
            AccessMode::ReadWrite => "read write",
        });
        rows.push([
            integer(Some(*pid)),
            text(activity.state.name()),
            isolation.as_deref().map_or(ValueRef::Null, text),
            access.map_or(ValueRef::Null, text),
            block.and_then(|block| block.begin).map_or(ValueRef::Null, |version| count(version.get())),
            ValueRef::Int64(since),
            block.map_or(ValueRef::Null, |block| ValueRef::Boolean(block.id.is_some() && block.id == holder)),
            block.and_then(|block| block.id).map_or(ValueRef::Null, |id| count(id.get())),
            block
                .and_then(|block| block.reading.as_ref())
                .map_or(ValueRef::Null, |reading| count(reading.noted_count())),
            block
                .and_then(|block| store.first_out(block.reading.as_ref()?))
                .map_or(ValueRef::Null, |version| count(version.get())),
            block
                .and_then(|block| block.reading.as_ref())
                .map_or(ValueRef::Null, |reading| count(in_edges(reading))),
        ]);
    }
    rows
}

/// `coeval_snapshots`: who holds which version. Sessions that wait for their client inside a block have a row each; the
/// other holders of a version, statements that run and sessions of the embedding program, are counted in one without a
/// number.
pub(super) fn snapshots(store: &Store, registry: &Registry) -> Rows {
    let mut rows = Rows::new(&[
        (BIGINT, "version versions_behind"),
        (INT, "pid"),
        (BIGINT, "holders"),
        (MOMENT, "since"),
    ]);
    let newest = store.world().version().get();
    let sessions: Vec<_> = registry.all().iter().map(|session| (session.pid(), session.activity())).collect();
    for (version, holders) in store.held_snapshots() {
        let behind = newest.saturating_sub(version.get());
        let own = sessions.iter().filter(|(_, activity)| {
            activity.transaction.as_ref().and_then(|transaction| transaction.begin) == Some(version)
        });
        let mut others = holders;
        for (pid, activity) in own {
            others = others.saturating_sub(1);
            rows.push([
                count(version.get()),
                count(behind),
                integer(Some(*pid)),
                count(1_u64),
                activity.transaction_micros.map_or(ValueRef::Null, ValueRef::Int64),
            ]);
        }
        if others > 0 {
            rows.push([count(version.get()), count(behind), ValueRef::Null, count(others), ValueRef::Null]);
        }
    }
    rows
}
