// SPDX-License-Identifier: Apache-2.0
//! What the server counts: transactions, statistics. Most of it is not kept here and is zero or NULL, as on a
//! PostgreSQL server without statistics.

use super::{Entry, Gives, called, strict};
use crate::catalog::CatalogAccess;
use crate::catalog::rows::Cell;
use crate::error::SqlError;

pub(super) const ENTRIES: &[Entry] = &[
    called("txid_current", 0..=0, Gives::BigInt, |call| version(call.access()?)),
    called("pg_current_xact_id", 0..=0, Gives::BigInt, |call| version(call.access()?)),
    called("txid_current_if_assigned", 0..=0, Gives::BigInt, |_| Ok(Cell::Null)),
    strict("pg_stat_get_numscans", 1..=1, Gives::BigInt, |_| Ok(Cell::Int(0))),
    strict("pg_stat_get_live_tuples", 1..=1, Gives::BigInt, |_| Ok(Cell::Int(0))),
    strict("pg_stat_get_dead_tuples", 1..=1, Gives::BigInt, |_| Ok(Cell::Int(0))),
    strict("pg_stat_get_last_vacuum_time", 1..=1, Gives::Time, |_| Ok(Cell::Null)),
    strict("pg_stat_get_last_autovacuum_time", 1..=1, Gives::Time, |_| Ok(Cell::Null)),
    strict("pg_stat_get_last_analyze_time", 1..=1, Gives::Time, |_| Ok(Cell::Null)),
    strict("pg_stat_get_last_autoanalyze_time", 1..=1, Gives::Time, |_| Ok(Cell::Null)),
    strict("pg_sequence_last_value", 1..=1, Gives::BigInt, |_| Ok(Cell::Null)),
];

fn version(access: &CatalogAccess) -> Result<Cell, SqlError> {
    Ok(i64::try_from(access.world().version().get()).ok().into())
}
