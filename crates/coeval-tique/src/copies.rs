// SPDX-License-Identifier: Apache-2.0
//! Copies: snapshots that a session keeps as temporary tables for its analytical statements.
//!
//! Some engines order joins badly where they see unions of subqueries instead of tables, and pay for each row of such a union at
//! every use. There an analytical statement reads a table whose cache is not empty from a copy of its snapshot: with the columns that
//! the session's statements have used so far, and the key. The session keeps it, and the next statement brings it up to date by
//! what has been committed since:
//!
//! | the copy is as of `a`, the transaction sees up to `s` | what is done |
//! |---|---|
//! | no version newer than `a` was ever noted | nothing |
//! | the cache has all versions of `(a, s]` | their keys' rows are deleted, and the newest version of each inserted |
//! | a checkpoint has moved versions newer than `a`; a column is missing; as much was refreshed as copied | it is made anew |
//!
//! **Made in two steps.** The visible versions go into a temporary table first, and the rest of the snapshot is read from that and the
//! storage. So the cache, whose readers commits may have to wait for, is read for a moment, however large the storage is.
//!
//! In the joined layout it is not noted which versions there are: a copy is made anew for each other start timestamp.
//!
//! **Why it is right.** Made anew it is the snapshot (`snapshot::merged`). A row whose key has no version in `(a, s]` is the same at both;
//! one that has is its newest version there. Whether the cache still had all of these when they were read is checked
//! afterwards: a checkpoint announces what it is about to delete before it does (`versions.rs`). The rows of a copy are the
//! session's own, and its name collides with none of the application's, which never begin with `tique_`. If anything fails, the
//! copy is dropped and the statement reads without it. A transaction that has sent versions of its own to a table's cache reads
//! that table without a copy.

use crate::buffer::Buffer;
use crate::catalog::Table;
use crate::counters::Timestamp;
use crate::engine::Connection;
use crate::error::Result;
use crate::names::quoted;
use crate::physical::{CTS, DELETED, KEY, cache, key_columns};
use crate::rewrite::Reads;
use crate::schema::Kind;
use crate::snapshot::{self, CopyOf, Layout, View};
use crate::versions::CacheRows;
use datafusion::sql::sqlparser::ast::Statement;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// So many versions are brought into small copies before they are made anew.
const ROOM_LEAST: i64 = 1_000;

/// A temporary table with a snapshot.
struct Kept {
    of: Weak<Table>,
    copy: CopyOf,
    as_of: Timestamp,
    /// How many versions may be brought into it before it is made anew.
    room: i64,
}

/// The copies of a session, by their tables' names.
pub(crate) struct Copies {
    layout: Layout,
    kept: BTreeMap<String, Kept>,
    count: u64,
}

impl Kept {
    /// Whether it is of this table, has these columns, and is worth being brought up to date.
    fn suits(&self, table: &Arc<Table>, columns: &BTreeSet<usize>, sts: Timestamp) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(table))
            && columns.iter().all(|column| self.copy.columns.contains(column))
            && self.as_of <= sts
            && self.room > 0
    }
}

fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '$')
}

/// The words of a statement, in lower case.
fn words(statement: &Statement) -> BTreeSet<String> {
    let text = statement.to_string().to_lowercase();
    text.split(|letter| !is_part(letter)).map(str::to_owned).collect()
}

/// The columns of a table that a statement may use, by the words that stand in it: all where it does not name them.
fn used(table: &Table, reads: &Reads, words: &BTreeSet<String>) -> BTreeSet<usize> {
    let is_used = |name: &str| {
        reads.uses_all_columns || words.contains(&name.to_lowercase()) || !name.chars().all(is_part)
    };
    let columns = table.definition.columns.iter().enumerate();
    let columns = columns.filter(|(_, column)| is_used(&column.name)).map(|(place, _)| place);
    columns.chain(table.definition.key.iter().copied()).collect()
}

impl Copies {
    /// None yet, in a database of this layout.
    pub(crate) fn none(layout: Layout) -> Self {
        Self { layout, kept: BTreeMap::new(), count: 0 }
    }

    /// The copies that a statement reads, by their tables' names; made or brought up to date over the session's connection. The
    /// transaction sees up to `sts`, and has written what the buffer has.
    pub(crate) fn for_statement(
        &mut self,
        connection: &mut dyn Connection,
        (sts, buffer): (Timestamp, &Buffer),
        statement: &Statement,
        reads: &Reads,
    ) -> BTreeMap<String, CopyOf> {
        let words = words(statement);
        let mut ready = BTreeMap::new();
        for (name, table) in &reads.tables {
            let is_scanned = reads.found_by[name].iter().any(|found_by| found_by.key.is_none());
            if !is_scanned || table.definition.kind == Kind::Static || buffer.is_sent(table) {
                continue;
            }
            if table.cache() == CacheRows::None {
                // The storage is as good.
                self.drop_copy(connection, name);
                continue;
            }
            match self.copy_of(connection, table, used(table, reads, &words), sts) {
                Ok(copy) => drop(ready.insert(name.clone(), copy)),
                // If the engine is not well, the statement itself will say so.
                Err(_) => self.drop_copy(connection, name),
            }
        }
        ready
    }

    /// A copy that has these columns, as of this timestamp.
    fn copy_of(
        &mut self,
        connection: &mut dyn Connection,
        table: &Arc<Table>,
        mut columns: BTreeSet<usize>,
        sts: Timestamp,
    ) -> Result<CopyOf> {
        let name = &table.definition.name;
        if let Some(kept) = self.kept.get_mut(name) {
            let (copy, as_of) = (kept.copy.clone(), kept.as_of);
            if kept.suits(table, &columns, sts) {
                let is_noted = self.layout == Layout::Stamped;
                if as_of == sts || (is_noted && table.versions.newest() <= as_of) {
                    return Ok(copy);
                }
                let is_whole = || is_noted && table.versions.forgotten() <= as_of;
                let brought =
                    if is_whole() { Some(bring(connection, table, &copy, as_of, sts)?) } else { None };
                if let Some(brought) = brought
                    && is_whole()
                {
                    kept.as_of = sts;
                    kept.room -= brought;
                    return Ok(copy);
                }
            }
            if std::ptr::eq(kept.of.as_ptr(), Arc::as_ptr(table)) {
                columns.extend(copy.columns);
            }
            self.drop_copy(connection, name);
        }
        self.make(connection, table, columns, sts)
    }

    fn make(
        &mut self,
        connection: &mut dyn Connection,
        table: &Arc<Table>,
        columns: BTreeSet<usize>,
        sts: Timestamp,
    ) -> Result<CopyOf> {
        let definition = &table.definition;
        let columns: Vec<usize> = columns.into_iter().collect();
        self.count += 1;
        let name = format!("tique_copy_{}_{}", self.count, definition.name);
        let newer = quoted(&format!("tique_newer_{}_{}", self.count, definition.name));
        let view = View { sts, own: None, layout: self.layout, cache: table.cache() };
        let names = copied_columns(table, &columns).join(", ");
        let make = |name: &str, rows: &str| {
            format!("CREATE LOCAL TEMPORARY TABLE {name} AS {rows} WITH DATA ON COMMIT PRESERVE ROWS")
        };
        connection.temporary(&make(&newer, &snapshot::versions(definition, &names, &view)))?;
        let rows = snapshot::merged(definition, &names, &newer);
        let made = connection.temporary(&make(&quoted(&name), &rows));
        // If the engine does not, the session's end does.
        drop(connection.temporary(&format!("DROP TABLE {newer}")));
        let made = made?;
        let copy = CopyOf { name, columns };
        let room = i64::try_from(made).unwrap_or(i64::MAX).max(ROOM_LEAST);
        let kept = Kept { of: Arc::downgrade(table), copy: copy.clone(), as_of: sts, room };
        self.kept.insert(definition.name.clone(), kept);
        Ok(copy)
    }

    /// Drops the copy of a table, if there is one. If the engine does not, the session's end does.
    fn drop_copy(&mut self, connection: &mut dyn Connection, table: &str) {
        if let Some(kept) = self.kept.remove(table) {
            drop(connection.temporary(&format!("DROP TABLE {}", quoted(&kept.copy.name))));
        }
    }
}

/// Brings a copy from one timestamp to a later one; how many rows that touched.
fn bring(
    connection: &mut dyn Connection,
    table: &Table,
    copy: &CopyOf,
    from: Timestamp,
    to: Timestamp,
) -> Result<i64> {
    let (cache, temporary) = (quoted(&cache(&table.definition)), quoted(&copy.name));
    let keys = key_columns(&table.definition);
    let same: Vec<_> = keys.iter().map(|key| format!("tique_v.{key} = {temporary}.{key}")).collect();
    let newer = format!("{CTS} > {} AND {CTS} <= {}", from.0, to.0);
    let gone = connection.temporary(&format!(
        "DELETE FROM {temporary} WHERE EXISTS (SELECT 1 FROM {cache} AS tique_v WHERE {newer} AND {})",
        same.join(" AND ")
    ))?;
    let names = copied_columns(table, &copy.columns).join(", ");
    let come = connection.temporary(&format!(
        "INSERT INTO {temporary} ({names}) SELECT {names} FROM (SELECT {names}, {DELETED}, rank() OVER \
         (PARTITION BY {} ORDER BY {CTS} DESC) AS tique_rank FROM {cache} WHERE {newer}) AS tique_ranked \
         WHERE tique_rank = 1 AND NOT {DELETED}",
        keys.join(", ")
    ))?;
    Ok(i64::try_from(gone + come).unwrap_or(i64::MAX))
}

/// The names of a copy's columns, quoted: the key's one column is among them.
fn copied_columns(table: &Table, columns: &[usize]) -> Vec<String> {
    let mut names = table.definition.names(columns);
    if table.definition.has_key_column() {
        names.push(quoted(KEY));
    }
    names
}
