// SPDX-License-Identifier: Apache-2.0
//! The brick tables of the database, as the node has to know them: declared before rows of them come, forgotten once they are gone.
//!
//! Nobody else declares or forgets. A table is made on the primary, and rows of it come to a node before anybody there has asked for it.
//! So the published world is looked at now and then, and the node told what is new; and at once, when a statement is about to use a
//! table that is not declared yet.
//!
//! Why a file: the node's log may have rows of a table that the world does not have when the node starts. Either it was dropped, and is
//! to be forgotten; or this is a replica whose own log ends before that, and the table is about to come. A world that is as new as the
//! one in which the table was seen tells the two apart. So each table is noted with that world's version, durably, before rows come:
//!
//! ```text
//! 17 2041
//! 23 2310      table 23 was seen in the world of version 2310
//! ```

#[cfg(test)]
mod tests;

use super::folder::write_file;
use crate::failure::Failure;
use coeval::{BrickSchema, Catalog, SpaceId, Store, TableDef};
use coeval_cluster::{DefinitionError, Tables};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Its name in the node's directory.
const FILE_NAME: &str = "tables";

/// What the node is told of tables.
///
/// # Locking
/// `seen` is held while a table is noted, which writes a file, and while the node is told; the node's own locks come within it.
#[derive(Debug)]
pub(super) struct Declarations {
    store: Store,
    tables: Tables,
    directory: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The tables that were seen, each with the version of a world that had it.
    versions: BTreeMap<u64, u64>,
    /// Those that were forgotten since the start.
    gone: BTreeSet<u64>,
    /// The version that was looked at last, and its definitions.
    looked: Option<(u64, Arc<Catalog>)>,
    /// Those that the node does not take, which has been said.
    refused: BTreeSet<u64>,
}

impl Seen {
    /// Whether nothing has come or gone since the last look: the definitions are the same, and no table was to come by this version.
    fn has_looked_at(&self, version: u64, catalog: &Arc<Catalog>) -> bool {
        let Some((looked, known)) = &self.looked else { return false };
        let was_to_come = |seen_at: &u64| (looked + 1..=version).contains(seen_at);
        Arc::ptr_eq(known, catalog) && !self.versions.values().any(was_to_come)
    }
}

/// What became of a table that the node has rows of, and nobody has declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is declared by now.
    Declared,
    /// It was dropped.
    Gone,
    /// The world does not go so far yet; or it has a table that the node does not take, which has been said.
    NotYet,
}

impl Declarations {
    /// What was noted in a directory; nothing is declared yet.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub(super) fn open(store: Store, tables: Tables, directory: &Path) -> Result<Self, Failure> {
        let path = directory.join(FILE_NAME);
        let versions = match std::fs::read_to_string(&path) {
            Ok(text) => parse(&text)
                .ok_or_else(|| Failure::Work(format!("{} is damaged: no list of tables", path.display())))?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Failure::work(format_args!("cannot read {}", path.display()), error)),
        };
        let seen = Mutex::new(Seen { versions, ..Seen::default() });
        Ok(Self { store, tables, directory: directory.to_owned(), seen })
    }

    /// Tells the node what is new in the published world. Cheap if no definition has changed, however many rows have: a look at the
    /// tables that were seen.
    ///
    /// # Errors
    /// If a table cannot be noted: it is not declared then, and is tried again.
    pub(super) fn follow(&self) -> io::Result<()> {
        self.follow_locked(&mut self.lock())
    }

    fn follow_locked(&self, seen: &mut Seen) -> io::Result<()> {
        // Behind the lock, so that it is no older than what somebody else has declared from.
        let world = self.store.world();
        let version = world.version().get();
        if seen.has_looked_at(version, world.catalog()) {
            return Ok(());
        }
        let mut present = BTreeSet::new();
        for table in world.tables() {
            let Some((number, schema)) = spread(table.def()) else { continue };
            present.insert(number);
            if self.tables.is_declared_as(number, &schema) {
                continue;
            }
            self.note(seen, number, version)?;
            if let Err(error) = self.tables.declare(number, schema)
                && seen.refused.insert(number)
            {
                tracing::warn!(table = number, %error, "the cluster does not take the table: no rows of it are spread");
            }
        }
        // What was seen in a later world, before a restart, is about to come.
        let is_dropped = |(table, seen_at): &(&u64, &u64)| **seen_at <= version && !present.contains(*table);
        let dropped: Vec<u64> = seen.versions.iter().filter(is_dropped).map(|(table, _)| *table).collect();
        for table in dropped {
            if seen.gone.insert(table) {
                self.tables.forget(table);
            }
        }
        seen.looked = Some((version, Arc::clone(world.catalog())));
        Ok(())
    }

    /// Sees that a table is declared that a statement is about to use: by the newest definition, whatever the statement has.
    ///
    /// # Errors
    /// As [`Tables::declare`].
    pub(super) fn declare(&self, table: u64, schema: &BrickSchema) -> Result<(), Undeclared> {
        if self.tables.is_declared_as(table, schema) {
            return Ok(());
        }
        let mut seen = self.lock();
        self.follow_locked(&mut seen).map_err(Undeclared::NotNoted)?;
        let world = self.store.world();
        let newest = u32::try_from(table).ok().and_then(|number| world.table(SpaceId::new(number)));
        let Some((_, newest)) = newest.and_then(|table| spread(table.def())) else {
            return Err(Undeclared::Refused(DefinitionError::Forgotten { table }));
        };
        // It is declared so by now, or it is said here why not.
        self.tables.declare(table, newest).map_err(Undeclared::Refused)
    }

    /// The spread tables of the published world, with their names.
    pub(super) fn spread_tables(&self) -> Vec<(u64, String)> {
        let world = self.store.world();
        let spread = world.tables().map(|table| table.def()).filter(|def| def.is_spread());
        spread.map(|def| (u64::from(def.id.get()), def.name.to_string())).collect()
    }

    /// The columns of a spread table of the published world, as bricks have them.
    pub(super) fn columns(&self, table: u64) -> Option<BrickSchema> {
        let world = self.store.world();
        let table = u32::try_from(table).ok().and_then(|number| world.table(SpaceId::new(number)))?;
        spread(table.def()).map(|(_, schema)| schema)
    }

    /// Forgets a table that was dropped.
    fn forget(&self, table: u64) {
        let mut seen = self.lock();
        seen.gone.insert(table);
        self.tables.forget(table);
    }

    /// What became of a table that the node has rows of. If it is gone, it is forgotten.
    ///
    /// # Errors
    /// As [`follow`](Self::follow).
    pub(super) fn fate(&self, table: u64) -> io::Result<Fate> {
        self.follow()?;
        let world = self.store.world();
        let is_here =
            u32::try_from(table).ok().and_then(|number| world.table(SpaceId::new(number))).is_some();
        if is_here {
            return Ok(if self.tables.has(table) { Fate::Declared } else { Fate::NotYet });
        }
        let seen_at = self.lock().versions.get(&table).copied();
        let is_gone = match seen_at {
            Some(version) => version <= world.version().get(),
            // The primary has everything that there ever was, so it was a definition that a crash has taken.
            None => !self.store.is_following(),
        };
        if is_gone {
            self.forget(table);
        }
        Ok(if is_gone { Fate::Gone } else { Fate::NotYet })
    }

    /// Notes durably that there is a table.
    fn note(&self, seen: &mut Seen, table: u64, version: u64) -> io::Result<()> {
        if seen.versions.contains_key(&table) {
            return Ok(());
        }
        seen.versions.insert(table, version);
        let written = write_file(&self.directory, FILE_NAME, &text_of(&seen.versions));
        if written.is_err() {
            seen.versions.remove(&table);
        }
        written
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a table is not declared.
#[derive(Debug)]
pub(super) enum Undeclared {
    /// It could not be written down that there is one.
    NotNoted(io::Error),
    /// The node does not take it.
    Refused(DefinitionError),
}

/// The number and the columns of a table, if it is spread over the cluster.
fn spread(def: &TableDef) -> Option<(u64, BrickSchema)> {
    let bricks = def.bricks.as_ref().filter(|bricks| bricks.is_spread())?;
    let schema = bricks.schema(def).ok()?;
    Some((u64::from(def.id.get()), schema))
}

fn text_of(versions: &BTreeMap<u64, u64>) -> String {
    let mut text = String::new();
    for (table, version) in versions {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{table} {version}");
    }
    text
}

fn parse(text: &str) -> Option<BTreeMap<u64, u64>> {
    let line = |line: &str| {
        let (table, version) = line.split_once(' ')?;
        Some((table.parse().ok()?, version.parse().ok()?))
    };
    text.lines().map(line).collect()
}
