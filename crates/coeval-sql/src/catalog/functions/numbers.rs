// SPDX-License-Identifier: Apache-2.0
//! What the server counts: transactions, statistics. Most of it is not kept here and is zero or NULL, as on a
//! PostgreSQL server without statistics.

use super::{Entry, Gives, called, strict};
use crate::catalog::CatalogAccess;
use crate::catalog::rows::Cell;
use crate::error::{SqlError, SqlState};
use coeval_store::log::Lsn;

pub(super) const ENTRIES: &[Entry] = &[
    called("txid_current", 0..=0, Gives::BigInt, |call| version(call.access()?)),
    called("pg_current_xact_id", 0..=0, Gives::BigInt, |call| version(call.access()?)),
    called("txid_current_if_assigned", 0..=0, Gives::BigInt, |_| Ok(Cell::Null)),
    called("pg_is_in_recovery", 0..=0, Gives::Bool, |call| Ok(call.access()?.store().is_following().into())),
    called("pg_current_wal_lsn", 0..=0, Gives::Text, |call| written(call.access()?)),
    called("pg_current_wal_insert_lsn", 0..=0, Gives::Text, |call| written(call.access()?)),
    called("pg_current_wal_flush_lsn", 0..=0, Gives::Text, |call| flushed(call.access()?)),
    called("pg_is_wal_replay_paused", 0..=0, Gives::Bool, |_| Ok(false.into())),
    called("pg_last_wal_receive_lsn", 0..=0, Gives::Text, |call| followed(call.access()?)),
    called("pg_last_wal_replay_lsn", 0..=0, Gives::Text, |call| followed(call.access()?)),
    called("pg_last_xact_replay_timestamp", 0..=0, Gives::Time, |_| Ok(Cell::Null)),
    strict("pg_stat_get_numscans", 1..=1, Gives::BigInt, |_| Ok(Cell::Int(0))),
    strict("pg_stat_get_live_tuples", 1..=1, Gives::BigInt, |_| Ok(Cell::Int(0))),
    strict("pg_stat_get_dead_tuples", 1..=1, Gives::BigInt, |_| Ok(Cell::Int(0))),
    strict("pg_stat_get_last_vacuum_time", 1..=1, Gives::Time, |_| Ok(Cell::Null)),
    strict("pg_stat_get_last_autovacuum_time", 1..=1, Gives::Time, |_| Ok(Cell::Null)),
    strict("pg_stat_get_last_analyze_time", 1..=1, Gives::Time, |_| Ok(Cell::Null)),
    strict("pg_stat_get_last_autoanalyze_time", 1..=1, Gives::Time, |_| Ok(Cell::Null)),
    strict("pg_sequence_last_value", 1..=1, Gives::BigInt, |_| Ok(Cell::Null)),
];

/// The end of the log that this database writes.
fn written(access: &CatalogAccess) -> Result<Cell, SqlError> {
    own_log(access).map(|(end, _)| wal_place(end).into())
}

/// Up to where that is durable.
fn flushed(access: &CatalogAccess) -> Result<Cell, SqlError> {
    own_log(access).map(|(_, durable)| wal_place(durable).into())
}

/// The end of the log that a replica has taken and applied; NULL elsewhere.
fn followed(access: &CatalogAccess) -> Result<Cell, SqlError> {
    let store = access.store();
    let position = store.log_position().filter(|_| store.is_following());
    Ok(position.map(|(end, _)| wal_place(end)).into())
}

fn own_log(access: &CatalogAccess) -> Result<(Lsn, Lsn), SqlError> {
    let store = access.store();
    let refused = |message| SqlError::new(SqlState::ObjectNotInPrerequisiteState, message);
    if store.is_following() {
        return Err(refused("recovery is in progress")
            .with_hint("WAL control functions cannot be executed on a replica."));
    }
    store.log_position().ok_or_else(|| refused("a database in memory has no log"))
}

/// A place in the log as PostgreSQL writes it.
pub(in crate::catalog) fn wal_place(place: Lsn) -> String {
    format!("{:X}/{:X}", place.get() >> 32, place.get() & 0xFFFF_FFFF)
}

fn version(access: &CatalogAccess) -> Result<Cell, SqlError> {
    Ok(i64::try_from(access.world().version().get()).ok().into())
}
