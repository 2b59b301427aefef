// SPDX-License-Identifier: Apache-2.0
//! The brick tables of the database, as the node has to know them: declared before rows of them come, forgotten once they are gone.
//!
//! Nobody else declares or forgets. A table is made on the primary, and rows of it come to a node before anybody there has asked for it.
//! So the published world is looked at now and then, and the node told what is new; and at once, when a statement is about to use a
//! table that is not declared yet.
//!
//! Why a file: the node's log may have rows of a table that the world does not have when the node starts. Either it was dropped, and is
//! to be forgotten; or this is a replica whose own log ends before that, and the table is about to come. So each table is noted durably,
//! before rows come, with the version of the world in which it was seen and the number of the term that was being written:
//!
//! ```text
//! 17 2041 1
//! 23 2310 4294967297      table 23 was seen in the world of version 2310, in the first term of the second timeline
//! ```
//! A table that the world has not is gone if that world has all that there ever was before ([`Reach::has_passed`]):
//!
//! - It is the primary's. What that does not have was dropped, or a promotion has given it up (`--accept-loss`), or a crash has taken it.
//! - It is as new as the one in which the table was seen. Versions are those of commits, in their order, in every history.
//! - It shows something of a later term. Terms follow each other in a log, each as a whole, and the record that made the table was of the
//!   noted term or of one before; so if this history has it at all, it was before that. This is the case behind a promotion that has given up
//!   the table: the new history may need long to come to the version in which it was seen, and with the node waiting may never.

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
    /// The store has all that there is: it is the primary's.
    has_all: bool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The tables that were seen, each with a world that had it.
    worlds: BTreeMap<u64, SeenAt>,
    /// Those that were forgotten since the start.
    gone: BTreeSet<u64>,
    /// How far the world went that was looked at last, and its definitions.
    looked: Option<(Reach, Arc<Catalog>)>,
    /// Those that the node does not take, which has been said.
    refused: BTreeSet<u64>,
}

impl Seen {
    /// Whether nothing has come or gone since the last look: the definitions are the same, and no table was to come by now.
    fn has_looked_at(&self, reach: Reach, catalog: &Arc<Catalog>) -> bool {
        let Some((looked, known)) = &self.looked else { return false };
        let was_to_come = |seen_at: &SeenAt| reach.has_passed(*seen_at) && !looked.has_passed(*seen_at);
        Arc::ptr_eq(known, catalog) && !self.worlds.values().any(was_to_come)
    }
}

/// In which world a table was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeenAt {
    version: u64,
    /// The number of a term whose log, with that of the terms before, has all of that world. An older program has noted none.
    term: Option<u64>,
}

/// How far the published world goes, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    version: u64,
    /// The number of the newest term of which it shows something, if that is known.
    term: Option<u64>,
    /// It is the primary's.
    has_all: bool,
}

impl Reach {
    /// Whether a table that was seen so is here, if this history has its definition and nobody has dropped it.
    fn has_passed(self, seen_at: SeenAt) -> bool {
        let is_behind = |(seen, now): (u64, u64)| seen < now;
        self.has_all || seen_at.version <= self.version || seen_at.term.zip(self.term).is_some_and(is_behind)
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
        let worlds = match std::fs::read_to_string(&path) {
            Ok(text) => parse(&text)
                .ok_or_else(|| Failure::Work(format!("{} is damaged: no list of tables", path.display())))?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Failure::work(format_args!("cannot read {}", path.display()), error)),
        };
        let seen = Mutex::new(Seen { worlds, ..Seen::default() });
        // One that is read only, as some of it is damaged, is not asked what there is.
        let has_all = !store.is_following() && !store.is_salvaged();
        Ok(Self { store, tables, directory: directory.to_owned(), has_all, seen })
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
        let shown_term = self.shown_term();
        let world = self.store.world();
        let reach = self.reach(shown_term, world.version().get());
        if seen.has_looked_at(reach, world.catalog()) {
            return Ok(());
        }
        // Read behind the world: its log is of this term or of earlier ones.
        let term = self.store.terms().last().map(|term| term.number);
        let seen_now = SeenAt { version: reach.version, term };
        let mut present = BTreeSet::new();
        for table in world.tables() {
            let Some((number, schema)) = spread(table.def()) else { continue };
            present.insert(number);
            if self.tables.is_declared_as(number, &schema) {
                continue;
            }
            self.note(seen, number, seen_now)?;
            if let Err(error) = self.tables.declare(number, schema)
                && seen.refused.insert(number)
            {
                tracing::warn!(table = number, %error, "the cluster does not take the table: no rows of it are spread");
            }
        }
        // What was seen in a later world, before a restart, is about to come.
        let is_gone =
            |(table, seen_at): &(&u64, &SeenAt)| reach.has_passed(**seen_at) && !present.contains(*table);
        let dropped: Vec<u64> = seen.worlds.iter().filter(is_gone).map(|(table, _)| *table).collect();
        for table in dropped {
            if seen.gone.insert(table) {
                self.tables.forget(table);
            }
        }
        seen.looked = Some((reach, Arc::clone(world.catalog())));
        Ok(())
    }

    /// The number of the newest term of which readers see something. To be asked before the world is taken of which that is said: it
    /// goes as far then, or further.
    fn shown_term(&self) -> Option<u64> {
        let shown = self.store.shown_position()?;
        self.store.terms().of_record(shown).map(|term| term.number)
    }

    fn reach(&self, term: Option<u64>, version: u64) -> Reach {
        Reach { version, term, has_all: self.has_all }
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
        let shown_term = self.shown_term();
        let world = self.store.world();
        let reach = self.reach(shown_term, world.version().get());
        let is_here =
            u32::try_from(table).ok().and_then(|number| world.table(SpaceId::new(number))).is_some();
        if is_here {
            return Ok(if self.tables.has(table) { Fate::Declared } else { Fate::NotYet });
        }
        let seen_at = self.lock().worlds.get(&table).copied();
        // One that nobody has noted, and that the primary does not have, was a definition that a crash has taken.
        let is_gone = seen_at.map_or(self.has_all, |seen_at| reach.has_passed(seen_at));
        if is_gone {
            self.forget(table);
        }
        Ok(if is_gone { Fate::Gone } else { Fate::NotYet })
    }

    /// Notes durably that there is a table.
    fn note(&self, seen: &mut Seen, table: u64, seen_at: SeenAt) -> io::Result<()> {
        if seen.worlds.contains_key(&table) {
            return Ok(());
        }
        seen.worlds.insert(table, seen_at);
        let written = write_file(&self.directory, FILE_NAME, &text_of(&seen.worlds));
        if written.is_err() {
            seen.worlds.remove(&table);
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

fn text_of(worlds: &BTreeMap<u64, SeenAt>) -> String {
    let mut text = String::new();
    for (table, SeenAt { version, term }) in worlds {
        let term = term.map(|term| format!(" {term}")).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{table} {version}{term}");
    }
    text
}

fn parse(text: &str) -> Option<BTreeMap<u64, SeenAt>> {
    let line = |line: &str| {
        let numbers: Option<Vec<u64>> = line.split(' ').map(|number| number.parse().ok()).collect();
        match numbers?[..] {
            [table, version] => Some((table, SeenAt { version, term: None })),
            [table, version, term] => Some((table, SeenAt { version, term: Some(term) })),
            _ => None,
        }
    };
    text.lines().map(line).collect()
}
