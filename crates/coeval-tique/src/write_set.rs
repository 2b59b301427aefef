// SPDX-License-Identifier: Apache-2.0
//! Write sets (3.2.4): what a transaction wrote or relied on, as hashed entries of one table.
//!
//! | this one \ one that committed before | update | identity | reference |
//! |---|---|---|---|
//! | update (a row's other columns) | conflict | conflict | |
//! | identity (a key or unique value comes or goes) | conflict | conflict | conflict |
//! | reference (a parent has to be there; a row in a range was written) | | conflict | |
//! | read of a row | conflict | conflict | |
//! | read of a range | conflict | conflict | conflict |
//!
//! In numbers: 1, 2, 0, -1, -2, and two entries conflict if their sizes add up to two at least. The paper has updates alone;
//! without identities and references, concurrent transactions could break UNIQUE and FOREIGN KEY. Reads are of transactions at
//! SERIALIZABLE (`read_set.rs`); that somebody read before refuses nobody, unless it is a reservation (`priority.rs`).

use crate::literal::{Row, joined};
use crate::schema::Definition;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How an entry was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    ReadRange = -2,
    ReadRow = -1,
    Reference = 0,
    Update = 1,
    Identity = 2,
}

/// Two entries conflict if the sizes of their accesses add up to this at least.
pub(crate) const CONFLICT_AT: i64 = 2;

impl Access {
    fn is_read(self) -> bool {
        self < Self::Reference
    }

    fn meets(self, other: Self) -> bool {
        (self as i64).abs() + (other as i64).abs() >= CONFLICT_AT
    }

    /// Whether this access is refused by that of a concurrent transaction which has committed.
    pub(crate) fn meets_committed(self, other: Self) -> bool {
        !other.is_read() && self.meets(other)
    }

    /// Whether it is refused by one that is reserved.
    pub(crate) fn meets_reserved(self, other: Self) -> bool {
        !self.is_read() && self.meets(other)
    }
}

/// Entries, each with its strongest access.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteSet {
    entries: HashMap<i64, Access>,
}

/// The entry of a row by its key.
pub(crate) fn row_entry(table: &Definition, row: &Row) -> i64 {
    entry(&table.name, &joined(row, &table.key))
}

/// The entry of all rows whose keys begin with this one's first `known` columns.
pub(crate) fn range_entry(table: &Definition, row: &Row, known: usize) -> i64 {
    entry(&format!("{}\n{known} of the key", table.name), &joined(row, &table.key[..known]))
}

/// The entry of a key or unique value: 64 bits, so that two share one about never (2^-64 for each pair), and a transaction
/// is refused without need then.
fn entry(space: &str, values: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    (space, values).hash(&mut hasher);
    hasher.finish().cast_signed()
}

impl WriteSet {
    /// The set of a transaction that updates this one entry.
    #[cfg(test)]
    pub(crate) fn of_update(entry: i64) -> Self {
        let mut set = Self::default();
        set.add(entry, Access::Update);
        set
    }

    fn add(&mut self, entry: i64, access: Access) {
        let strongest = self.entries.entry(entry).or_insert(access);
        *strongest = access.max(*strongest);
    }

    /// Notes the access of a row by its key.
    pub(crate) fn key(&mut self, table: &Definition, row: &Row, access: Access) {
        self.add(row_entry(table, row), access);
    }

    /// Notes that these columns of a row, which a constraint names, take or give up their value. NULL is nobody's.
    pub(crate) fn unique(&mut self, table: &Definition, constraint: usize, row: &Row) {
        let unique = &table.uniques[constraint];
        if unique.columns.iter().all(|&column| !row[column].is_null()) {
            let space = format!("{}\n{constraint}", table.name);
            self.add(entry(&space, &joined(row, &unique.columns)), Access::Identity);
        }
    }

    /// Notes that the parent of a row was relied on.
    pub(crate) fn parent(&mut self, parent: &Definition, row: &Row, columns: &[usize]) {
        self.add(entry(&parent.name, &joined(row, columns)), Access::Reference);
    }

    /// Marks the ranges that a row is in, for those who read them.
    pub(crate) fn ranges(&mut self, table: &Definition, row: &Row) {
        for known in 0..table.key.len() {
            self.add(range_entry(table, row, known), Access::Reference);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_conflict_as_the_table_says() {
        use Access::{Identity, ReadRange, ReadRow, Reference, Update};
        let conflicts = [
            (Update, vec![Update, Identity]),
            (Identity, vec![Reference, Update, Identity]),
            (Reference, vec![Identity]),
            (ReadRow, vec![Update, Identity]),
            (ReadRange, vec![Reference, Update, Identity]),
        ];
        for (one, others) in &conflicts {
            for (other, _) in &conflicts {
                assert_eq!(one.meets_committed(*other), others.contains(other), "{one:?}, then {other:?}");
                assert_eq!(
                    other.meets_reserved(*one),
                    others.contains(other),
                    "{one:?} reserved, then {other:?}"
                );
            }
        }
    }

    #[test]
    fn the_strongest_access_of_an_entry_counts() {
        let mut set = WriteSet::default();
        for access in [Access::Update, Access::Identity, Access::Reference] {
            set.add(7, access);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [(7, Access::Identity)]);
    }
}
