// SPDX-License-Identifier: Apache-2.0
//! What a transaction hands to the commit pipeline.

use crate::bricks::BrickChanges;
use crate::bulk_load::BulkLoad;
use crate::catalog::CatalogChange;
use crate::certification::Certification;
use crate::conflicts::Party;
use crate::footprint::{Footmark, GlobalKey};
use crate::ids::SpaceId;
use crate::index_file::{IndexFile, late_bytes_max};
use crate::replicas::SynchronousCommit;
use crate::space::Space;
use crate::table::Table;
use crate::table_writes::TableWrites;
use crate::world::World;
use crate::write_set::WriteSet;
use coeval_txn::{LargeFootprint, TransactionId, Version};
use std::sync::Arc;

/// An index of a transaction over rows that are newer than its snapshot.
#[derive(Clone, Debug)]
pub(crate) struct RebuiltIndex {
    pub(crate) index: SpaceId,
    /// The version of the rows.
    pub(crate) version: Version,
    pub(crate) read: Arc<Table>,
    pub(crate) entries: Space,
    pub(crate) loaded: LoadedEntries,
    /// Where the base of the entries lies, if it is large and there are files.
    pub(crate) file: Option<IndexFile>,
}

/// Where the entries of rows are that a transaction has loaded in bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadedEntries {
    /// With the load.
    Apart,
    /// In the index.
    Merged,
}

/// A transaction that wants to commit.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) transaction: TransactionId,
    /// Who it is, for those that lose against it.
    pub(crate) party: Party,
    /// Whose reservation it comes with, if it has priority.
    pub(crate) priority: Option<u64>,
    /// The oldest version that anything in the footprint was looked at.
    pub(crate) begin: Version,
    /// The version of `snapshot`; later than `begin` if that has moved.
    pub(crate) snapshot_version: Version,
    /// What it is certified by.
    pub(crate) footprint: Vec<Footmark>,
    /// The same as the certifier takes it, if it is large.
    pub(crate) large_footprint: Option<Arc<LargeFootprint<GlobalKey>>>,
    /// The same as others may have read it.
    pub(crate) written: Arc<WriteSet>,
    /// What it is certified by at SERIALIZABLE.
    pub(crate) certification: Option<Certification>,
    /// Definitions first, then bulk loads, then rows: the order they take effect in.
    pub(crate) catalog_changes: Vec<CatalogChange>,
    pub(crate) loads: Vec<BulkLoad>,
    pub(crate) writes: Vec<TableWrites>,
    /// What it did to brick tables.
    pub(crate) bricks: BrickChanges,
    /// Whether its version names an age, with a load of a cluster.
    pub(crate) names_age: bool,
    /// What it read, own definitions and loads included: indexes it built are taken from here.
    pub(crate) snapshot: Arc<World>,
    /// Indexes that were built once more, over newer rows: these are taken first.
    pub(crate) rebuilt: Vec<RebuiltIndex>,
    /// What it waits for.
    pub(crate) synchronous_commit: SynchronousCommit,
    /// The same as bytes for the log; empty without one.
    pub(crate) body: Vec<u8>,
    /// The checksum of a large body: made before the leader's lock is held.
    pub(crate) body_checksum: Option<u32>,
}

impl Submission {
    /// Whether it must be alone in its batch: it changes more than rows.
    pub(crate) fn is_structural(&self) -> bool {
        !(self.catalog_changes.is_empty() && self.loads.is_empty())
    }

    /// Whether its place in the order has to be that of its version: no safe snapshot has it before.
    pub(crate) fn stands_at_its_version(&self) -> bool {
        self.is_structural() || self.names_age
    }

    /// Whether it takes so many bytes in the log that it is a batch of its own.
    pub(crate) fn is_large(&self) -> bool {
        self.body_checksum.is_some()
    }

    /// Its new indexes whose entries lie in files.
    pub(crate) fn index_files(&self) -> impl Iterator<Item = (&RebuiltIndex, &IndexFile)> {
        self.rebuilt.iter().filter_map(|rebuilt| Some((rebuilt, rebuilt.file.as_ref()?)))
    }

    /// Whether there are any.
    pub(crate) fn has_index_files(&self) -> bool {
        self.index_files().next().is_some()
    }

    /// How many bytes its record has before the body at most, but for those that every record has, if the leader takes in so many
    /// rows.
    pub(crate) fn late_bytes_max(&self, rows_max: usize) -> usize {
        if self.has_index_files() { late_bytes_max(rows_max) } else { 0 }
    }

    /// How many rows and index entries it changes.
    pub(crate) fn row_changes(&self) -> usize {
        let of_table = |writes: &TableWrites| {
            writes.rows.len() + writes.indexes.iter().map(|changes| changes.len()).sum::<usize>()
        };
        self.writes.iter().map(of_table).sum::<usize>() + self.bricks.changes.len()
    }

    /// How many entries it adds to deltas at most. New indexes count as large: they want a checkpoint soon.
    pub(crate) fn change_count(&self) -> u64 {
        let definitions = if self.catalog_changes.is_empty() { 0 } else { CHANGES_OF_DEFINITION };
        self.row_changes() as u64 + definitions
    }
}

/// What a change of definitions counts as: enough that the keeper has a look.
const CHANGES_OF_DEFINITION: u64 = 1 << 32;
