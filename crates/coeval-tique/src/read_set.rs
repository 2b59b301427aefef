// SPDX-License-Identifier: Apache-2.0
//! Read sets: what a transaction at SERIALIZABLE read, certified as its write set is. The paper names serializability as
//! future work (6).
//!
//! A look-up by the whole key reads a row, which need not be there; one by the first columns of the key reads a range; any
//! other reads the table, the range of all keys. Who writes at SERIALIZABLE marks all ranges that the keys of its rows are in.
//!
//! **Why it is right.** Let T commit at SERIALIZABLE. Nobody at SERIALIZABLE with a timestamp between T's start and commit
//! timestamps wrote what T read, or T was refused: whoever wrote a row that T's condition holds of, before or behind the write,
//! has an entry for its key and a mark on each range that it is in, shown before T looks (`README.md`, *Nobody is missed*). So T would have
//! read the same at its commit timestamp, and the transactions that write are as if run one after the other in the order of
//! these. One that wrote nothing reads the state at its start timestamp, between two of them, and is never refused. Rows
//! that a constraint looks up need no entries here: what the answer relies on is in the write set (`constraints.rs`).
//!
//! Who writes at a lower level leaves no marks: its writes are met by look-ups of whole keys alone.

use crate::literal::Row;
use crate::lookups::FoundBy;
use crate::schema::Definition;
use crate::write_set::{Access, range_entry, row_entry};
use std::collections::HashMap;

/// What a transaction read, as hashed entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadSet {
    entries: HashMap<i64, Access>,
}

impl ReadSet {
    /// Notes a look-up of a table.
    pub(crate) fn look_up(&mut self, table: &Definition, found_by: &FoundBy) {
        let (row, known) = found_by.start_of_key(table);
        let (entry, access) = match known == table.key.len() {
            true => (row_entry(table, &row), Access::ReadRow),
            false => (range_entry(table, &row, known), Access::ReadRange),
        };
        self.entries.insert(entry, access);
    }

    /// Notes a row that was read.
    pub(crate) fn row(&mut self, table: &Definition, row: &Row) {
        self.entries.insert(row_entry(table, row), Access::ReadRow);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, for the table of write sets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Access)> + '_ {
        self.entries.iter().map(|(entry, access)| (*entry, *access))
    }
}
