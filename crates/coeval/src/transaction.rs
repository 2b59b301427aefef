// SPDX-License-Identifier: Apache-2.0
//! Key-level access inside [`Database::transaction`](crate::Database::transaction).

use crate::error::Error;
use crate::table::Table;
use coeval_store::{
    BrickSnapshot, BrickView, Direction, IndexEntry, Key, KeyRange, Row, RowRef, ScanOrder, SpaceId,
};

/// A running transaction: reads one snapshot and its own writes.
#[derive(Debug)]
pub struct Transaction {
    inner: coeval_store::Transaction,
}

impl Transaction {
    pub(crate) fn new(inner: coeval_store::Transaction) -> Self {
        Self { inner }
    }

    pub(crate) fn commit(self) -> Result<(), Error> {
        self.inner.commit()?;
        Ok(())
    }

    /// The row with this primary key, where it lies: copy what you need before the next write.
    ///
    /// # Errors
    /// If the table is gone in this snapshot, or the file that would hold the row is damaged there.
    #[inline]
    pub fn get(&self, table: &Table, key: &Key) -> Result<Option<RowRef<'_>>, Error> {
        Ok(self.inner.get(table.id(), key)?)
    }

    /// Adds a row; returns its primary key.
    ///
    /// # Errors
    /// If a constraint refuses it; nothing is changed then.
    #[inline]
    pub fn insert(&mut self, table: &Table, row: Row) -> Result<Key, Error> {
        Ok(self.inner.insert(table.id(), row)?)
    }

    /// Replaces the row with this key.
    ///
    /// # Errors
    /// If it is not there, or a constraint refuses the new one; nothing is changed then.
    #[inline]
    pub fn update(&mut self, table: &Table, key: &Key, row: Row) -> Result<(), Error> {
        Ok(self.inner.update(table.id(), key, row)?)
    }

    /// Adds the row, or replaces the one with its primary key.
    ///
    /// # Errors
    /// If a constraint refuses it; nothing is changed then.
    #[inline]
    pub fn put(&mut self, table: &Table, row: Row) -> Result<(), Error> {
        Ok(self.inner.put(table.id(), row)?)
    }

    /// Removes the row with this key; returns whether it was there.
    ///
    /// # Errors
    /// If other rows refer to it and may not go; nothing is changed then.
    #[inline]
    pub fn delete(&mut self, table: &Table, key: &Key) -> Result<bool, Error> {
        Ok(self.inner.delete(table.id(), key)?)
    }

    /// The row joins the write set unchanged, so that a concurrent change of it is a conflict.
    ///
    /// # Errors
    /// If the table is gone in this snapshot.
    pub fn lock(&mut self, table: &Table, key: &Key) -> Result<bool, Error> {
        Ok(self.inner.lock_row(table.id(), key)?)
    }

    /// Rows of a range of primary keys, in order.
    ///
    /// # Errors
    /// If the table is gone in this snapshot. An item is an error, and the last one, if the rows from there on
    /// lie in a damaged file.
    #[inline]
    pub fn scan<'a>(
        &'a self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Result<(Key, RowRef<'a>), Error>> + use<'a>, Error> {
        Ok(self.inner.scan(table.id(), range, direction)?.map(|row| row.map_err(Error::from)))
    }

    /// Entries of a range of an index, in order; each names the primary key of its row.
    ///
    /// # Errors
    /// If the table or index is gone in this snapshot. An item is an error, and the last one, if the entries
    /// from there on lie in a damaged file.
    #[inline]
    pub fn scan_index<'a>(
        &'a self,
        table: &Table,
        index: SpaceId,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Result<IndexEntry, Error>> + use<'a>, Error> {
        let entries = self.inner.scan_index(table.id(), index, range, direction)?;
        Ok(entries.map(|entry| entry.map_err(Error::from)))
    }

    /// A brick table as it is now in this transaction, to be read in place as Arrow batches, brick by brick. It stays as it
    /// is, and can be read, for as long as it is kept, also behind the transaction's end.
    ///
    /// # Errors
    /// If the table is gone in this snapshot or is no brick table.
    pub fn bricks(&self, table: &Table) -> Result<BrickSnapshot, Error> {
        Ok(self.inner.brick_view(table.id(), |all| all)?)
    }

    /// What reading these columns of a brick table is, as it is now in this transaction: to be divided, sent as bytes, and
    /// run by [`Database::ordered_scan`](crate::Database::ordered_scan) on other threads or connections, which all read one
    /// snapshot. Keep the transaction until they have begun. None if it has written to the table: nobody else sees that.
    ///
    /// # Errors
    /// If the table is gone in this snapshot, is no brick table or has no such column.
    pub fn scan_order(&self, table: &Table, columns: &[&str]) -> Result<Option<ScanOrder>, Error> {
        let snapshot = self.bricks(table)?;
        let index = |name: &&str| {
            let mut live = table.def().live_columns();
            let found = live.find(|(_, column)| column.name == *name);
            found.map(|(index, _)| index).ok_or_else(|| Error::UnknownColumn((*name).to_owned()))
        };
        let columns = columns.iter().map(index).collect::<Result<Vec<_>, _>>()?;
        Ok(snapshot.order(columns, snapshot.bricks().iter().map(BrickView::id).collect()))
    }
}
