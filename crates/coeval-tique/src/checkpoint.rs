// SPDX-License-Identifier: Apache-2.0
//! Checkpoints (2.4.1): stable versions move from cache to storage; nobody waits for it (but on MonetDB, for single
//! statements of it), and nobody notices.
//!
//! Stable is what every running and future transaction sees. For each table:
//!
//! 1. delete from the storage the rows that have stable versions: they are hidden by these in every snapshot;
//! 2. insert the newest stable version of each row that is not a tombstone: hidden as well;
//! 3. delete the stable versions by ascending timestamp: each was the same as the storage, or hidden;
//!    Look-ups by key were told before that the storage has the rows (`versions.rs`);
//! 4. delete versions that nobody will ever see: of transactions that have ended without a marker.
//!
//! Then, behind all tables, what the transaction tables say of stable transactions. A kill between any two of these
//! leaves a state in which every snapshot is what it was; `recovery.rs` has the table.

use crate::catalog::Table;
use crate::certifier::Certification;
use crate::counters::{Timestamp, Txid};
use crate::engine::Connection;
use crate::error::Result;
use crate::names::quoted;
use crate::physical::{CTS, DELETED, SEQUENCE, TXID, cache, key_columns, number, storage, storage_columns};
use crate::schema::Kind;
use crate::shared::Shared;
use crate::snapshot::{COMMITS, Layout};
use std::sync::Arc;

/// Stable versions are deleted in so many steps of ascending timestamps, so that no single DELETE holds writers long.
const TRIM_STEPS: i64 = 4;

/// The last timestamp of each step, ascending to the stable one: what was committed from `first` on, in equal parts.
fn trim_steps(first: i64, stable: Timestamp) -> Vec<i64> {
    let part = (stable.0 - first).max(0) / TRIM_STEPS;
    (0..TRIM_STEPS).rev().map(|rest| stable.0 - part * rest).collect()
}

impl Shared {
    /// Starts a checkpoint in the background if the caches are full and none is running. One that fails leaves the work
    /// to the next.
    pub(crate) fn checkpoint_if_worth(self: &Arc<Self>) {
        let limit = self.options.checkpoint_at;
        if limit == 0 || self.cached() < limit {
            return;
        }
        let mut checkpointer = self.checkpointer.lock();
        if checkpointer.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        let shared = Arc::clone(self);
        // The reason why one failed is the engine's; whoever uses it next will be told.
        let run = move || drop(shared.run_checkpoint());
        // Without a thread there is none this time.
        *checkpointer = std::thread::Builder::new().name("tique-checkpoint".to_owned()).spawn(run).ok();
    }

    pub(crate) fn run_checkpoint(&self) -> Result<()> {
        let _alone = self.checkpoint.lock();
        let mut connection = self.engine.connect()?;
        let (stable, first_running) = self.pipeline.counters.stable();
        // The last checkpoint has left nothing of before.
        let first = number(&mut *connection, "SELECT min(cts) FROM tique_committed")?;
        let steps = trim_steps(first, stable);
        let tables: Vec<_> = self.catalog().tables().cloned().collect();
        for table in
            tables.iter().filter(|table| table.definition.kind == Kind::Transactional && table.cached() > 0)
        {
            self.move_table(&mut *connection, table, stable, first_running, &steps)?;
        }
        self.trim_transactions(&mut *connection, stable, first_running)?;
        Ok(connection.sync()?)
    }

    fn move_table(
        &self,
        connection: &mut dyn Connection,
        table: &Table,
        stable: Timestamp,
        first_running: Txid,
        steps: &[i64],
    ) -> Result<()> {
        let definition = &table.definition;
        let (storage, cache) = (quoted(&storage(definition)), quoted(&cache(definition)));
        let columns = storage_columns(definition).join(", ");
        let keys = key_columns(definition);
        let versions = match self.options.layout {
            Layout::Stamped => format!(
                "SELECT {columns}, {DELETED}, {CTS}, {SEQUENCE} FROM {cache} WHERE {CTS} <= {}",
                stable.0
            ),
            Layout::Joined => format!(
                "SELECT {columns}, {DELETED}, tique_at AS {CTS}, {SEQUENCE} FROM {cache} AS tique_c \
                 JOIN {COMMITS} ON tique_by = tique_c.{TXID} WHERE tique_at <= {}",
                stable.0
            ),
        };
        let same: Vec<_> = keys.iter().map(|key| format!("tique_v.{key} = {storage}.{key}")).collect();
        connection.execute(&format!(
            "DELETE FROM {storage} WHERE EXISTS (SELECT 1 FROM ({versions}) AS tique_v WHERE {})",
            same.join(" AND ")
        ))?;
        connection.execute(&format!(
            "INSERT INTO {storage} ({columns}) SELECT {columns} FROM (SELECT {columns}, {DELETED}, rank() OVER \
             (PARTITION BY {} ORDER BY {CTS} DESC, {SEQUENCE} DESC) AS tique_rank FROM ({versions}) AS tique_v) \
             AS tique_ranked WHERE tique_rank = 1 AND NOT {DELETED}",
            keys.join(", ")
        ))?;
        table.versions.forget(stable);
        let trimmed = self.trim_cache(connection, table, first_running, steps);
        if trimmed.is_err() {
            // Versions that are still there will be moved once more, and readers have been told that they are gone.
            table.versions.lose();
        }
        trimmed
    }

    fn trim_cache(
        &self,
        connection: &mut dyn Connection,
        table: &Table,
        first_running: Txid,
        steps: &[i64],
    ) -> Result<()> {
        let cache = quoted(&cache(&table.definition));
        for up_to in steps {
            let is_stable = match self.options.layout {
                Layout::Stamped => format!("{CTS} <= {up_to}"),
                Layout::Joined => {
                    format!("{TXID} IN (SELECT txid FROM tique_committed WHERE cts <= {up_to})")
                }
            };
            table.note_deleted(connection.execute(&format!("DELETE FROM {cache} WHERE {is_stable}"))?);
        }
        let is_lost = match self.options.layout {
            Layout::Stamped => format!("{CTS} IS NULL"),
            Layout::Joined => format!("{TXID} NOT IN (SELECT txid FROM tique_committed)"),
        };
        let lost = format!("DELETE FROM {cache} WHERE {TXID} < {} AND {is_lost}", first_running.0);
        table.note_deleted(connection.execute(&lost)?);
        Ok(())
    }

    fn trim_transactions(
        &self,
        connection: &mut dyn Connection,
        stable: Timestamp,
        first_running: Txid,
    ) -> Result<()> {
        let markers = format!(
            "DELETE FROM tique_committed WHERE cts <= {} AND cts < (SELECT max(cts) FROM tique_committed)",
            stable.0
        );
        if self.options.certification == Certification::InProcess {
            connection.execute(&markers)?;
            return Ok(());
        }
        let reserved: Vec<_> =
            self.pipeline.reservations.current().iter().map(|one| format!("txid <> {}", one.0)).collect();
        let kept = reserved.iter().map(|one| format!(" AND {one}")).collect::<String>();
        let ended = format!("txid IN (SELECT txid FROM tique_committing WHERE cts <= {})", stable.0);
        for statement in [
            format!("DELETE FROM tique_write_sets WHERE {ended}{kept}"),
            format!("DELETE FROM tique_committing WHERE cts <= {}{kept}", stable.0),
            format!(
                "DELETE FROM tique_aborted WHERE txid < {} AND txid NOT IN (SELECT txid FROM tique_committing)",
                first_running.0
            ),
            format!("DELETE FROM tique_began WHERE txid < {}", first_running.0),
            markers,
        ] {
            connection.execute(&statement)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_divide_what_was_committed_since_the_last_checkpoint() {
        assert_eq!(trim_steps(1_000_000, Timestamp(1_000_400)), [1_000_100, 1_000_200, 1_000_300, 1_000_400]);
        assert_eq!(trim_steps(0, Timestamp(3)), [3, 3, 3, 3]);
        assert_eq!(trim_steps(9, Timestamp(8)), [8, 8, 8, 8], "the newest marker stays behind a checkpoint");
    }
}
