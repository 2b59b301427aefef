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
//! that a constraint looks up need no entries here: what the answer relies on is in the write set (`constraints.rs`). Where
//! that is not kept, because the change was refused or taken back to a savepoint, the client knows the answer all the same:
//! a refusal reads the tables that were looked at, and the entries of what was taken back move here.
//!
//! A transaction that writes at a lower level leaves no marks: its writes conflict only with look-ups by the whole key.

use crate::literal::Row;
use crate::lookups::FoundBy;
use crate::schema::Definition;
use crate::write_set::{Access, WriteSet, range_entry, row_entry};
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
        self.note(entry, access);
    }

    /// Notes a row that was read.
    pub(crate) fn row(&mut self, table: &Definition, row: &Row) {
        self.note(row_entry(table, row), Access::ReadRow);
    }

    /// Notes that all of a table may have been looked at.
    pub(crate) fn table(&mut self, table: &Definition) {
        self.look_up(table, &FoundBy::default());
    }

    /// Notes what a change relied on that is taken back.
    pub(crate) fn absorb(&mut self, taken_back: &WriteSet) {
        for (entry, access) in taken_back.iter() {
            self.note(entry, access);
        }
    }

    /// An entry that is noted twice keeps the access that conflicts with more.
    fn note(&mut self, entry: i64, access: Access) {
        let strongest = self.entries.entry(entry).or_insert(access);
        if (*strongest as i64).abs() < (access as i64).abs() {
            *strongest = access;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, for the table of write sets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Access)> + '_ {
        self.entries.iter().map(|(entry, access)| (*entry, *access))
    }
}
