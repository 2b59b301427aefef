// SPDX-License-Identifier: Apache-2.0
//! What a feed of changes gives: committed transactions, each with what it did.

use super::ChangeToken;
use crate::catalog::TableDef;
use crate::clock::LogTime;
use crate::key::Key;
use crate::table::RowRef;
use crate::value::ValueRef;
use arrow::array::ArrayRef;
use coeval_txn::Version;
use std::io;

/// A committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FedTransaction {
    /// Stands behind it.
    pub token: ChangeToken,
    /// The version of its batch.
    pub version: Version,
    /// Its number in that, from 0.
    pub position: u32,
    /// When it committed, to about 10 milliseconds, if the log says so.
    pub time: Option<LogTime>,
}

/// One thing that a transaction did.
#[derive(Debug)]
pub enum FedChange<'a> {
    /// A row has come.
    Inserted {
        /// Its table.
        table: &'a TableDef,
        /// Its primary key, or what stands for one; none of a brick table.
        key: Option<&'a Key>,
        /// The row.
        after: ChangedRow<'a>,
    },
    /// A row has been replaced by another one with the same primary key.
    Updated {
        /// Its table.
        table: &'a TableDef,
        /// Its primary key, or what stands for one.
        key: &'a Key,
        /// The row before the transaction; with its bulk loads, if it has some.
        before: ChangedRow<'a>,
        /// The row.
        after: ChangedRow<'a>,
    },
    /// A row has gone.
    Deleted {
        /// Its table.
        table: &'a TableDef,
        /// Its primary key, or what stands for one; none of a brick table.
        key: Option<&'a Key>,
        /// The row before the transaction.
        before: ChangedRow<'a>,
    },
    /// All rows of a table have gone (TRUNCATE). They are not given one by one.
    Emptied {
        /// The table.
        table: &'a TableDef,
    },
    /// A table is new, or is called otherwise, or has other columns, another primary key.
    Defined {
        /// What it was before, if it is not new.
        before: Option<&'a TableDef>,
        /// The table.
        table: &'a TableDef,
    },
    /// A table has gone with all its rows. They are not given one by one.
    Dropped {
        /// The table.
        table: &'a TableDef,
    },
}

impl FedChange<'_> {
    /// The table that it is of, as it is defined behind it.
    #[must_use]
    pub fn table(&self) -> &TableDef {
        match self {
            Self::Inserted { table, .. }
            | Self::Updated { table, .. }
            | Self::Deleted { table, .. }
            | Self::Emptied { table }
            | Self::Defined { table, .. }
            | Self::Dropped { table } => table,
        }
    }
}

/// A row of a change, by the columns of its table's definition.
#[derive(Clone, Copy, Debug)]
pub struct ChangedRow<'a>(Place<'a>);

#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Row(RowRef<'a>),
    /// Row by row in the columns of a brick table; none of those that are not live.
    Columns(&'a [Option<ArrayRef>], usize),
}

impl<'a> ChangedRow<'a> {
    pub(super) fn of_row(row: RowRef<'a>) -> Self {
        Self(Place::Row(row))
    }

    pub(super) fn of_columns(columns: &'a [Option<ArrayRef>], row: usize) -> Self {
        Self(Place::Columns(columns, row))
    }

    /// The value of a live column, by its index in the definition.
    ///
    /// # Panics
    /// If the definition has no such column.
    #[must_use]
    pub fn get(&self, column: usize) -> ValueRef<'a> {
        match self.0 {
            Place::Row(row) => row.get(column),
            Place::Columns(columns, row) => match &columns[column] {
                Some(array) => crate::value::value_at(array, row),
                None => ValueRef::Null,
            },
        }
    }
}

/// Who takes a feed of changes. An error ends the feed; nothing of the transaction counts as given then.
pub trait ChangeSink {
    /// Whether changes of this table are wanted. Others cost next to nothing.
    fn wants(&self, table: &TableDef) -> bool;

    /// Takes a change: first definitions in their order, then bulk loads, then rows, then those of brick tables.
    ///
    /// # Errors
    /// Why it goes no further.
    fn change(&mut self, transaction: &FedTransaction, change: &FedChange<'_>) -> io::Result<()>;

    /// That was the transaction. Also called for one without a change that is wanted.
    ///
    /// # Errors
    /// Why it goes no further.
    fn end(&mut self, transaction: &FedTransaction) -> io::Result<()>;

    /// Everything up to here was given, and there is nothing more at the moment.
    ///
    /// # Errors
    /// Why it goes no further.
    fn idle(&mut self, reached: &ChangeToken) -> io::Result<()>;

    /// Called again and again while what is to come is waited for, which may be for as long as a replica or a storage is away.
    ///
    /// # Errors
    /// Why it is waited for no longer.
    fn look(&mut self) -> io::Result<()> {
        Ok(())
    }
}
