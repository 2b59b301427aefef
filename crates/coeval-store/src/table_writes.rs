// SPDX-License-Identifier: Apache-2.0
//! What a transaction changes of one table, row by row: private until it commits, then applied to the table.

use crate::delta::Delta;
use crate::ids::SpaceId;
use coeval_ptree::PTree;
use std::convert::Infallible;

/// A transaction's changes of one table.
#[derive(Clone, Debug)]
pub(crate) struct TableWrites {
    pub(crate) table: SpaceId,
    /// Changes of rows, by primary key.
    pub(crate) rows: Delta,
    /// Changes of entries, for each index of the definition.
    pub(crate) indexes: Vec<Delta>,
}

impl TableWrites {
    /// Forgets where rows lie in a base that is not the table's any more.
    pub(crate) fn forget_positions(&mut self) {
        let entries = self.rows.iter().map(|(key, entry)| (key.clone(), entry.clone().without_position()));
        self.rows = Delta::from_sorted(entries.collect::<Vec<_>>());
    }
}

/// So many tables are at hand, where the next row looks for its table one by one; and so many a savepoint copies.
const RECENT_MAX: usize = 8;

/// How many of the other tables a leaf of theirs has at most: so many are copied at the first write behind a savepoint.
const LEAF_TABLES: usize = 16;

/// A transaction's changes of all tables.
///
/// Rows that follow one another are mostly of few tables: those written last are at hand. The others are in a tree, so that
/// neither a row nor a savepoint costs more the more tables the transaction has written.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenTables {
    /// Those written last, the one that came first in front.
    recent: Vec<TableWrites>,
    others: PTree<SpaceId, TableWrites, (), LEAF_TABLES>,
}

impl WrittenTables {
    pub(crate) fn is_empty(&self) -> bool {
        // There are others only behind a full list of recent ones, but tables may have been dropped.
        self.recent.is_empty() && self.others.is_empty()
    }

    /// Each table once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TableWrites> {
        self.others.values().chain(&self.recent)
    }

    /// The changes of this table. Costs the logarithm of the number of tables at most.
    #[inline]
    pub(crate) fn get(&self, table: SpaceId) -> Option<&TableWrites> {
        let recent = self.recent.iter().find(|writes| writes.table == table);
        recent.or_else(|| if self.others.is_empty() { None } else { self.others.get(&table) })
    }

    /// Where the changes of this table are for [`at`](Self::at), until the next call. Costs as [`get`](Self::get).
    #[inline]
    pub(crate) fn place(&mut self, table: SpaceId) -> Option<usize> {
        let recent = self.recent.iter().position(|writes| writes.table == table);
        if recent.is_some() || self.others.is_empty() {
            return recent;
        }
        let writes = self.others.remove(&table)?;
        Some(self.push(writes))
    }

    /// The changes at a place.
    ///
    /// # Panics
    /// If there are none.
    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> &mut TableWrites {
        &mut self.recent[place]
    }

    /// Adds the changes of a table that has none yet, and says where they are.
    ///
    /// # Panics
    /// If it has some.
    pub(crate) fn push(&mut self, writes: TableWrites) -> usize {
        assert!(self.get(writes.table).is_none(), "the changes of a table are in one place");
        if self.recent.len() >= RECENT_MAX {
            let oldest = self.recent.remove(0);
            self.others.insert(oldest.table, oldest);
        }
        self.recent.push(writes);
        self.recent.len() - 1
    }

    /// The table's changes are undone.
    pub(crate) fn remove(&mut self, table: SpaceId) {
        self.recent.retain(|writes| writes.table != table);
        self.others.remove(&table);
    }

    /// Changes each, as long as that does not fail.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn change_all<E>(
        &mut self,
        mut change: impl FnMut(&mut TableWrites) -> Result<(), E>,
    ) -> Result<(), E> {
        let others: Vec<SpaceId> = self.others.keys().copied().collect();
        for table in others {
            self.others.modify(&table, &mut change).transpose()?;
        }
        self.recent.iter_mut().try_for_each(change)
    }

    /// Forgets of all where rows lie in bases that are not the tables' any more.
    pub(crate) fn forget_positions(&mut self) {
        let Ok(()) = self.change_all(|writes| {
            writes.forget_positions();
            Ok::<_, Infallible>(())
        });
    }

    /// All of them, for the commit.
    pub(crate) fn into_vec(self) -> Vec<TableWrites> {
        self.others.into_iter().map(|(_, writes)| writes).chain(self.recent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(table: u32) -> TableWrites {
        TableWrites { table: SpaceId::new(table), rows: Delta::default(), indexes: Vec::new() }
    }

    /// Writes to a table: as many entries of `indexes` as there were writes.
    fn write(all: &mut WrittenTables, table: u32) {
        let place = all.place(SpaceId::new(table)).unwrap_or_else(|| all.push(writes(table)));
        all.at(place).indexes.push(Delta::default());
    }

    fn counts(all: &WrittenTables) -> Vec<(u32, usize)> {
        let mut counts: Vec<_> =
            all.iter().map(|writes| (writes.table.get(), writes.indexes.len())).collect();
        counts.sort_unstable();
        counts
    }

    #[test]
    fn every_table_is_found_however_many_there_are() {
        let mut all = WrittenTables::default();
        (1..=3).for_each(|_| (0..100).for_each(|table| write(&mut all, table)));
        assert_eq!(counts(&all), (0..100).map(|table| (table, 3)).collect::<Vec<_>>());
        assert!((0..100).all(|table| all.get(SpaceId::new(table)).is_some()));
        assert!(all.get(SpaceId::new(100)).is_none() && all.place(SpaceId::new(100)).is_none());
        (0..99).for_each(|table| all.remove(SpaceId::new(table)));
        assert_eq!(counts(&all), [(99, 3)]);
        assert_eq!(all.clone().into_vec().len(), 1);
        all.remove(SpaceId::new(99));
        assert!(all.is_empty());
    }

    #[test]
    fn a_copy_stays_as_it_is_and_costs_few_tables() {
        let mut all = WrittenTables::default();
        (0..1_000).for_each(|table| write(&mut all, table));
        assert!(all.recent.len() <= RECENT_MAX);
        let before = all.clone();
        assert!(all.others.ptr_eq(&before.others), "a savepoint copies none of the tree");
        [5, 999, 5].into_iter().for_each(|table| write(&mut all, table));
        assert!(counts(&before).iter().all(|(_, count)| *count == 1));
        let changed: Vec<_> = counts(&all).into_iter().filter(|(_, count)| *count > 1).collect();
        assert_eq!(changed, [(5, 3), (999, 2)]);
    }
}
