// SPDX-License-Identifier: Apache-2.0
//! What a transaction hands to the commit pipeline.

use crate::bricks::{BrickChanges, WrittenBricks};
use crate::bulk_load::BulkLoad;
use crate::catalog::{CatalogChange, TableDef};
use crate::conflicts::Party;
use crate::delta::Delta;
use crate::footprint::{Footmark, GlobalKey};
use crate::ids::{CATALOG_SPACE, SpaceId};
use crate::key::Key;
use crate::replicas::SynchronousCommit;
use crate::serializable::Certification;
use crate::space::Space;
use crate::table::Table;
use crate::world::World;
use coeval_txn::ssi::Written;
use coeval_txn::{Access, Epoch, LargeFootprint, TransactionId, Version};
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

/// An index of a transaction over rows that are newer than its snapshot.
#[derive(Clone, Debug)]
pub(crate) struct RebuiltIndex {
    pub(crate) index: SpaceId,
    /// The version of the rows.
    pub(crate) version: Version,
    pub(crate) read: Arc<Table>,
    pub(crate) entries: Space,
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

impl TableWrites {
    /// Forgets where rows lie in a base that is not the table's any more.
    pub(crate) fn forget_positions(&mut self) {
        let entries = self.rows.iter().map(|(key, entry)| (key.clone(), entry.clone().without_position()));
        self.rows = Delta::from_sorted(entries.collect::<Vec<_>>());
    }
}

/// What a transaction wrote, as others may have read it: keys of rows, entries of indexes, definitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteSet {
    pub(crate) tables: Vec<(Arc<TableDef>, TableWrites)>,
    /// Spaces that it loaded or emptied.
    whole: Vec<SpaceId>,
    definitions: Vec<Key>,
    /// Bricks that it appended to or deleted from, and its epochs.
    bricks: Vec<WrittenBricks>,
    pub(crate) epochs: Vec<Epoch>,
}

impl WriteSet {
    /// The write set of a transaction that reads `snapshot`. Costs some reference counts.
    pub(crate) fn new(
        snapshot: &World,
        writes: &[TableWrites],
        changes: &[CatalogChange],
        loads: &[BulkLoad],
        footprint: &[Footmark],
        bricks: &BrickChanges,
    ) -> Self {
        let def_of = |table| snapshot.table(table).map(|table| Arc::clone(table.def()));
        let tables = writes.iter().filter_map(|writes| Some((def_of(writes.table)?, writes.clone())));
        let mut written = Self {
            tables: tables.collect(),
            bricks: bricks.written.clone(),
            epochs: bricks.epochs.clone(),
            ..Self::default()
        };
        if changes.is_empty() && loads.is_empty() {
            return written;
        }
        let emptied = changes.iter().filter_map(|change| match change {
            CatalogChange::Truncate(id) | CatalogChange::RemoveTable(id) => Some(*id),
            _ => None,
        });
        for table in emptied.chain(loads.iter().map(BulkLoad::table)) {
            written.whole.push(table);
            if let Some(def) = def_of(table) {
                written.whole.extend(def.indexes.iter().map(|index| index.id));
            }
        }
        let definitions = footprint.iter().filter(|mark| mark.key.0 == CATALOG_SPACE);
        let changed = definitions.filter(|mark| mark.admit != Access::Reference);
        written.definitions.extend(changed.map(|mark| mark.key.1.clone()));
        written
    }

    /// What the log has of a write set: enough for a safe snapshot, not for certification.
    pub(crate) fn replayed(
        world: &World,
        writes: impl Iterator<Item = TableWrites>,
        epochs: Vec<Epoch>,
    ) -> Self {
        let def_of = |table| world.table(table).map(|table| Arc::clone(table.def()));
        let tables = writes.filter_map(|writes| Some((def_of(writes.table)?, writes))).collect();
        Self { tables, epochs, ..Self::default() }
    }

    /// Every key, with its space. A key may come twice.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (SpaceId, Written<'_, Key>)> {
        let changed = self.tables.iter().flat_map(|(def, writes)| {
            let rows = std::iter::once((writes.table, &writes.rows));
            let indexes = def.indexes.iter().map(|index| index.id).zip(&writes.indexes);
            rows.chain(indexes)
                .flat_map(|(space, changes)| changes.iter().map(move |(key, _)| (space, Written::Key(key))))
        });
        let many = self.bricks.iter().filter(|bricks| bricks.marks.is_none()).map(|bricks| &bricks.table);
        let whole = self.whole.iter().chain(many).map(|&space| (space, Written::WholeSpace));
        let bricks = self.bricks.iter().flat_map(|bricks| {
            let marks = bricks.marks.iter().flatten();
            marks.map(|mark| (bricks.table, Written::Key(mark)))
        });
        let definitions = self.definitions.iter().map(|key| (CATALOG_SPACE, Written::Key(key)));
        changed.chain(whole).chain(bricks).chain(definitions)
    }
}

impl Submission {
    /// Whether it must be alone in its batch: it changes more than rows.
    pub(crate) fn is_structural(&self) -> bool {
        !(self.catalog_changes.is_empty() && self.loads.is_empty())
    }

    /// Whether it takes so many bytes in the log that it is a batch of its own.
    pub(crate) fn is_large(&self) -> bool {
        self.body_checksum.is_some()
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
