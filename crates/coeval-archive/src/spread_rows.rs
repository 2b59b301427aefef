// SPDX-License-Identifier: Apache-2.0
//! Rows of tables that are spread over a cluster: who gives them to a backup, and what a backup names of them.
//!
//! They are in no file of the database, and not in its log: the nodes of the cluster have them. So a node is asked for all of them as one
//! snapshot has them ([`SpreadSource`]), and gives them in parts. What a part has in it only who gives and who takes them knows; here
//! they are pieces, with a checksum, as those of files are.

use crate::error::ArchiveError;
use crate::pieces::Piece;
use coeval_store::{LogTime, Store};
use coeval_txn::{Epoch, Version};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a backup gets the rows of spread tables from, if the database has such tables.
#[derive(Clone, Copy)]
pub enum SpreadRows<'s> {
    /// Nobody here has them: there is no backup then ([`ArchiveError::SpreadElsewhere`]).
    Elsewhere,
    /// A node of the cluster has them, or gets them from the others.
    Of(&'s dyn SpreadSource),
    /// They are left out, as was asked for: the backup says of which tables.
    LeftOut,
}

impl fmt::Debug for SpreadRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elsewhere => "Elsewhere",
            Self::Of(_) => "Of",
            Self::LeftOut => "LeftOut",
        })
    }
}

/// A node of the cluster over which tables are spread.
pub trait SpreadSource: Send + Sync {
    /// Takes a snapshot of all spread tables. It is held until what this gives is dropped. Blocks the thread.
    ///
    /// # Errors
    /// [`ArchiveError::Spread`] if the node does not serve.
    fn snapshot(&self) -> Result<Box<dyn SpreadSnapshot>, ArchiveError>;
}

/// All rows of spread tables as of one moment.
pub trait SpreadSnapshot {
    /// What it has: all that was loaded up to this epoch of the cluster.
    fn epoch(&self) -> Epoch;

    /// The tables that it gives rows of, with their numbers and names, also those without rows.
    fn tables(&self) -> Vec<(u64, String)>;

    /// What comes next: all parts of one table, then those of the next one. Blocks the thread.
    ///
    /// # Errors
    /// [`ArchiveError::Spread`] if nobody who has some of the rows gives them.
    fn next(&mut self) -> Result<SpreadNext, ArchiveError>;
}

/// What a snapshot gives next.
#[derive(Debug)]
pub enum SpreadNext {
    /// Some rows of a table, that are read without others.
    Part(SpreadPart),
    /// The table with this number was dropped meanwhile: nobody needs what came of it.
    Dropped(u64),
    /// There is no more.
    End,
}

/// Some rows of a table, as they are to be brought back.
#[derive(Clone, Debug)]
pub struct SpreadPart {
    /// The number of the table.
    pub table: u64,
    /// How many rows.
    pub rows: u64,
    /// The rows. At most 16 MiB; the same ones again are to be the same bytes, so that they are not sent a second time.
    pub bytes: Vec<u8>,
}

/// The names of the tables of a database that are spread over a cluster, in order.
#[must_use]
pub fn spread_tables(store: &Store) -> Vec<String> {
    let world = store.world();
    let spread = world.tables().filter(|table| table.def().is_spread());
    let mut names: Vec<String> = spread.map(|table| table.def().name.to_string()).collect();
    names.sort();
    names
}

/// The rows of spread tables that a backup has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchivedSpread {
    /// See [`SpreadSnapshot::epoch`].
    pub(crate) epoch: u64,
    /// When the snapshot had been taken, by the clock of the machine, and the version of the database by then.
    pub(crate) taken: u64,
    pub(crate) version: u64,
    pub(crate) tables: Vec<ArchivedTable>,
}

/// A spread table of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchivedTable {
    pub(crate) table: u64,
    pub(crate) name: String,
    /// Each with the number of its rows.
    pub(crate) parts: Vec<(u64, Piece)>,
}

impl ArchivedSpread {
    pub(crate) fn taken(&self) -> LogTime {
        LogTime::from_micros(self.taken)
    }

    pub(crate) fn version(&self) -> Version {
        Version::new(self.version)
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.tables.iter().flat_map(|table| table.parts.iter().map(|(_, piece)| piece))
    }

    pub(crate) fn rows(&self) -> u64 {
        self.tables.iter().map(ArchivedTable::rows).sum()
    }
}

impl ArchivedTable {
    pub(crate) fn rows(&self) -> u64 {
        self.parts.iter().map(|(rows, _)| rows).sum()
    }
}
