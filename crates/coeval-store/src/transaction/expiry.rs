// SPDX-License-Identifier: Apache-2.0
//! Rows of brick tables that are older than their tables keep them.

use super::begin::BeginAt;
use super::{AccessMode, Transaction};
use crate::shared::Shared;
use coeval_txn::Isolation;
use std::sync::Arc;

/// Deletes the bricks of which all rows are older at `now` than their table keeps them, a transaction for each table.
pub(crate) fn expire_bricks(shared: &Arc<Shared>, now_micros: i64) {
    if shared.is_following() {
        return;
    }
    let world = shared.published();
    for table in world.tables() {
        let here = table.def().bricks.as_ref().filter(|bricks| !bricks.is_spread());
        let Some((dimension, last)) = here.and_then(|bricks| {
            let retention = bricks.retention.as_ref()?;
            let ty = table.def().columns.get(retention.column)?.ty;
            bricks.expired(retention, ty, now_micros)
        }) else {
            continue;
        };
        let mut transaction =
            Transaction::begin(shared, Isolation::Snapshot, AccessMode::ReadWrite, BeginAt::Published);
        let deleted = transaction.delete_bricks(table.id(), |all| all.within(dimension, &[i64::MIN..=last]));
        let outcome = match deleted {
            Ok(0) => continue,
            Ok(rows) => transaction.commit().map(|_| rows),
            Err(error) => Err(error),
        };
        let name = &table.def().name;
        match outcome {
            Ok(rows) => tracing::debug!(%name, rows, "bricks have expired"),
            Err(error) => tracing::warn!(%name, %error, "bricks that have expired were not deleted"),
        }
    }
}
