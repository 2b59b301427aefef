// SPDX-License-Identifier: Apache-2.0
//! What a transaction hands to the commit pipeline.

use crate::bulk::BulkLoad;
use crate::catalog::CatalogChange;
use crate::delta::Delta;
use crate::ids::SpaceId;
use crate::transaction::Footmark;
use crate::world::World;
use coeval_txn::Version;
use std::sync::Arc;

/// A transaction's changes of one table.
#[derive(Clone, Debug)]
pub(crate) struct TableWrites {
    pub(crate) table: SpaceId,
    /// Changes of rows, by primary key.
    pub(crate) rows: Delta,
    /// Changes of entries, for each index of the definition.
    pub(crate) indexes: Vec<Delta>,
}

/// A transaction that wants to commit.
#[derive(Debug)]
pub(crate) struct Submission {
    /// The oldest version that anything in the footprint was looked at.
    pub(crate) begin: Version,
    /// The version of `snapshot`; later than `begin` if that has moved.
    pub(crate) snapshot_version: Version,
    /// What it is certified by.
    pub(crate) footprint: Vec<Footmark>,
    /// Definitions first, then bulk loads, then rows: the order they take effect in.
    pub(crate) catalog_changes: Vec<CatalogChange>,
    pub(crate) loads: Vec<BulkLoad>,
    pub(crate) writes: Vec<TableWrites>,
    /// What it read, own definitions and loads included: indexes it built are taken from here.
    pub(crate) snapshot: Arc<World>,
    /// The same as bytes for the log; empty without one.
    pub(crate) body: Vec<u8>,
}

impl TableWrites {
    /// Forgets where rows lie in a base that is not the table's any more.
    pub(crate) fn forget_positions(&mut self) {
        let entries = self.rows.iter().map(|(key, entry)| (key.clone(), entry.clone().without_position()));
        self.rows = Delta::from_sorted(entries.collect::<Vec<_>>());
    }
}

impl Submission {
    /// Whether it must be alone in its batch: it changes more than rows.
    pub(crate) fn is_structural(&self) -> bool {
        !(self.catalog_changes.is_empty() && self.loads.is_empty())
    }

    /// How many rows and index entries it changes.
    pub(crate) fn row_changes(&self) -> usize {
        let of_table = |writes: &TableWrites| {
            writes.rows.len() + writes.indexes.iter().map(|changes| changes.len()).sum::<usize>()
        };
        self.writes.iter().map(of_table).sum()
    }

    /// How many entries it adds to deltas at most. New indexes count as large: they want a checkpoint soon.
    pub(crate) fn change_count(&self) -> u64 {
        let definitions = if self.catalog_changes.is_empty() { 0 } else { CHANGES_OF_DEFINITION };
        self.row_changes() as u64 + definitions
    }
}

/// What a change of definitions counts as: enough that the keeper has a look.
const CHANGES_OF_DEFINITION: u64 = 1 << 32;
