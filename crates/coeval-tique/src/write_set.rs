// SPDX-License-Identifier: Apache-2.0
//! Write sets (3.2.4): what a transaction wrote or relied on, as hashed entries of one table.
//!
//! | | update | identity | reference |
//! |---|---|---|---|
//! | update (a row's other columns) | conflict | conflict | |
//! | identity (a key or unique value comes or goes) | conflict | conflict | conflict |
//! | reference (a parent has to be there) | | conflict | |
//!
//! In numbers: 1, 2, 0, and two entries conflict if they add up to two at least. The paper has updates alone; without the
//! others, concurrent transactions could break UNIQUE and FOREIGN KEY.

use crate::literal::{Row, joined};
use crate::schema::Definition;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How an entry was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Reference = 0,
    Update = 1,
    Identity = 2,
}

/// Two entries conflict if their accesses add up to this at least.
pub(crate) const CONFLICT_AT: i64 = 2;

/// Entries, each with its strongest access.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteSet {
    entries: HashMap<i64, Access>,
}

/// The entry of a key or unique value: 64 bits, so that two share one about never (2^-64 for each pair), and a transaction
/// is refused without need then.
fn entry(space: &str, values: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    (space, values).hash(&mut hasher);
    hasher.finish().cast_signed()
}

impl WriteSet {
    /// The set of who updates this one entry.
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
        self.add(entry(&table.name, &joined(row, &table.key)), access);
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
        use Access::{Identity, Reference, Update};
        let conflicts = |one: Access, other: Access| one as i64 + other as i64 >= CONFLICT_AT;
        let pairs = [(Update, Update), (Update, Identity), (Identity, Identity), (Identity, Reference)];
        for one in [Reference, Update, Identity] {
            for other in [Reference, Update, Identity] {
                let expected = pairs.contains(&(one, other)) || pairs.contains(&(other, one));
                assert_eq!(conflicts(one, other), expected, "{one:?} and {other:?}");
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
