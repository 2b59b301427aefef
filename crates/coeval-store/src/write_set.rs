// SPDX-License-Identifier: Apache-2.0
//! What a transaction wrote, for those who are certified against it and for safe snapshots, which apply it.

use crate::bricks::{BrickChanges, WrittenBricks};
use crate::bulk_load::BulkLoad;
use crate::catalog::{CatalogChange, TableDef};
use crate::footprint::Footmark;
use crate::ids::{CATALOG_SPACE, SpaceId};
use crate::key::Key;
use crate::table_writes::TableWrites;
use crate::world::World;
use coeval_txn::ssi::Written;
use coeval_txn::{Access, Epoch};
use std::sync::Arc;

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
    pub(crate) fn new<'w>(
        snapshot: &World,
        writes: impl Iterator<Item = &'w TableWrites>,
        changes: &[CatalogChange],
        loads: &[BulkLoad],
        footprint: &[Footmark],
        bricks: &BrickChanges,
    ) -> Self {
        let def_of = |table| snapshot.table(table).map(|table| Arc::clone(table.def()));
        let tables = writes.filter_map(|writes| Some((def_of(writes.table)?, writes.clone())));
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
