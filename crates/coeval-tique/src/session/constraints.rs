// SPDX-License-Identifier: Apache-2.0
//! Constraints: what is checked when a statement changes rows, and which of these checks have to hold at commit as well.
//!
//! | constraint | checked against | certified by |
//! |---|---|---|
//! | NOT NULL, CHECK, length | the row | nothing: a row has one writer |
//! | PRIMARY KEY | snapshot and own writes | the key, as identity |
//! | UNIQUE | snapshot and own writes | the old and the new value, as identity |
//! | FOREIGN KEY, from the child | the parent's key | the parent's key, as reference |
//! | FOREIGN KEY, from the parent | children | the parent's key, as identity |

use super::{Sees, Session};
use crate::catalog::Table;
use crate::engine::{Dialect, Indexes, Integers};
use crate::error::{Result, SqlState, TiqueError};
use crate::literal::{Row, joined};
use crate::names::quoted;
use crate::rows_as_sql::one_of;
use crate::schema::{Definition, ForeignKey, Nulls};
use crate::write_set::Access;
use datafusion::common::ScalarValue;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A row that comes, goes, or becomes another.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) old: Option<Row>,
    pub(crate) new: Option<Row>,
    /// The CHECK that the new row fails.
    pub(crate) failed_check: Option<usize>,
}

/// So many rows are looked up by one condition; more are found by reading the columns of the whole table.
const LOOK_UP_ROWS_MAX: usize = 500;

fn shown(row: &Row, columns: &[usize]) -> String {
    columns.iter().map(|&column| row[column].to_string()).collect::<Vec<_>>().join(", ")
}

fn named(table: &Definition, columns: &[usize]) -> String {
    columns.iter().map(|&column| table.columns[column].name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Whether a value is the smallest of its type.
fn is_smallest(value: &ScalarValue) -> bool {
    matches!(
        value,
        ScalarValue::Int16(Some(i16::MIN))
            | ScalarValue::Int32(Some(i32::MIN))
            | ScalarValue::Int64(Some(i64::MIN))
    )
}

/// What one row alone can break: NOT NULL, lengths, CHECK, and what the engine's integers and indexes can hold.
pub(crate) fn check_rows(table: &Definition, changes: &[Change], dialect: &Dialect) -> Result<()> {
    for change in changes {
        let Some(row) = &change.new else { continue };
        if let Indexes::OnKeys { bytes_max: Some(most) } = dialect.indexes
            && joined(row, &table.key).len() > most
        {
            let message = format!("a key of table {} has more than {most} bytes", table.name);
            let detail = format!("{} finds rows by an index, which takes no more.", dialect.name);
            return Err(TiqueError::new(SqlState::ProgramLimitExceeded, message).detail(detail));
        }
        for (value, column) in row.iter().zip(&table.columns) {
            if column.nulls == Nulls::Refused && value.is_null() {
                let message = format!("column {} of table {} takes no NULL", column.name, table.name);
                return Err(TiqueError::new(SqlState::NotNullViolation, message));
            }
            if dialect.integers != Integers::Whole && is_smallest(value) {
                let message = format!("column {} of table {} takes no {value}", column.name, table.name);
                let detail = "The engine keeps the smallest integer of a type for NULL.";
                return Err(TiqueError::new(SqlState::OutOfRange, message).detail(detail));
            }
            if let (Some(most), Some(Some(text))) = (column.characters_max(), value.try_as_str())
                && text.chars().count() as u64 > most
            {
                let message =
                    format!("column {} of table {} takes {most} characters", column.name, table.name);
                return Err(TiqueError::new(SqlState::StringTooLong, message));
            }
        }
        if let Some(check) = change.failed_check.and_then(|place| table.checks.get(place)) {
            let message = format!("a row of table {} fails CHECK {}", table.name, check.name);
            let columns: Vec<_> = (0..row.len()).collect();
            let detail = format!("The row is ({}).", shown(row, &columns));
            return Err(TiqueError::new(SqlState::CheckViolation, message).detail(detail));
        }
    }
    Ok(())
}

fn unique_violation(table: &Definition, constraint: &str, columns: &[usize], row: &Row) -> TiqueError {
    let message = format!("a row of table {} has the same value: constraint {constraint}", table.name);
    let detail = format!("It is ({}) = ({}).", named(table, columns), shown(row, columns));
    TiqueError::new(SqlState::UniqueViolation, message).detail(detail)
}

impl Session {
    /// Checks the changes of a statement and notes them in the transaction; all of them or, if one fails, none.
    pub(crate) fn apply(&mut self, table: &Arc<Table>, changes: &[Change]) -> Result<()> {
        let definition = &table.definition;
        check_rows(definition, changes, self.shared.engine.dialect())?;
        let old_keys: HashSet<_> = changes
            .iter()
            .filter_map(|change| change.old.as_ref())
            .map(|row| joined(row, &definition.key))
            .collect();
        self.check_others(table, changes, &old_keys).inspect_err(|_| self.note_refusal(table))?;
        self.note_write_set(table, changes, &old_keys);
        self.put(table, changes);
        Ok(())
    }

    /// What other rows can break.
    fn check_others(
        &mut self,
        table: &Arc<Table>,
        changes: &[Change],
        old_keys: &HashSet<String>,
    ) -> Result<()> {
        self.check_keys(table, changes, old_keys)?;
        for place in 0..table.definition.uniques.len() {
            self.check_unique(table, place, changes, old_keys)?;
        }
        self.check_parents(table, changes)?;
        self.check_children(table, changes)
    }

    /// At SERIALIZABLE, notes what the refusal of a change depended on: a client that goes on from a savepoint has seen the refusal.
    fn note_refusal(&mut self, table: &Table) {
        let catalog = self.shared.catalog();
        let Some(read_set) = &mut self.transaction().read_set else { return };
        let definition = &table.definition;
        read_set.table(definition);
        let parents = definition.foreign_keys.iter().filter_map(|key| catalog.table(&key.parent).ok());
        let children = catalog.children(&definition.name).map(|(child, _)| child);
        parents.chain(children).for_each(|other| read_set.table(&other.definition));
    }

    fn check_keys(
        &mut self,
        table: &Arc<Table>,
        changes: &[Change],
        old_keys: &HashSet<String>,
    ) -> Result<()> {
        let key = &table.definition.key;
        let constraint = format!("{}_pkey", table.definition.name);
        let (mut seen, mut fresh) = (HashSet::new(), Vec::new());
        for row in changes.iter().filter_map(|change| change.new.as_ref()) {
            let text = joined(row, key);
            if !seen.insert(text.clone()) {
                return Err(unique_violation(&table.definition, &constraint, key, row));
            }
            if !old_keys.contains(&text) {
                fresh.push(row);
            }
        }
        match self.find(table, key, &fresh)?.first() {
            Some(row) => Err(unique_violation(&table.definition, &constraint, key, row)),
            None => Ok(()),
        }
    }

    fn check_unique(
        &mut self,
        table: &Arc<Table>,
        place: usize,
        changes: &[Change],
        old_keys: &HashSet<String>,
    ) -> Result<()> {
        let unique = &table.definition.uniques[place];
        let (columns, mut seen) = (&unique.columns, HashSet::new());
        let mut fresh = Vec::new();
        for change in changes {
            let Some(row) = &change.new else { continue };
            if columns.iter().any(|&column| row[column].is_null()) {
                continue;
            }
            let value = joined(row, columns);
            if change.old.as_ref().is_none_or(|old| joined(old, columns) != value) {
                fresh.push(row);
            }
            if !seen.insert(value) {
                return Err(unique_violation(&table.definition, &unique.name, columns, row));
            }
        }
        let found = self.find(table, columns, &fresh)?;
        match found.iter().find(|row| !old_keys.contains(&joined(row, &table.definition.key))) {
            Some(row) => Err(unique_violation(&table.definition, &unique.name, columns, row)),
            None => Ok(()),
        }
    }

    /// Each new row's parents are there.
    fn check_parents(&mut self, table: &Arc<Table>, changes: &[Change]) -> Result<()> {
        let catalog = self.shared.catalog();
        for key in &table.definition.foreign_keys {
            let parent = catalog.table(&key.parent)?;
            let mut wanted: BTreeMap<String, &Row> = BTreeMap::new();
            for row in changes.iter().filter_map(|change| change.new.as_ref()) {
                if key.columns.iter().all(|&column| !row[column].is_null()) {
                    wanted.insert(joined(row, &key.columns), row);
                }
            }
            if key.parent == table.definition.name {
                for row in changes.iter().filter_map(|change| change.new.as_ref()) {
                    wanted.remove(&joined(row, &table.definition.key));
                }
            }
            let rows: Vec<Row> = wanted.values().map(|row| as_parent(row, key, &parent.definition)).collect();
            let rows: Vec<&Row> = rows.iter().collect();
            for row in self.find(parent, &parent.definition.key, &rows)? {
                wanted.remove(&joined(&row, &parent.definition.key));
            }
            if let Some(row) = wanted.values().next() {
                let message =
                    format!("table {} lacks the parent that constraint {} wants", key.parent, key.name);
                let (names, values) = (named(&table.definition, &key.columns), shown(row, &key.columns));
                let detail =
                    format!("The row of table {} has ({names}) = ({values}).", table.definition.name);
                return Err(TiqueError::new(SqlState::ForeignKeyViolation, message).detail(detail));
            }
        }
        Ok(())
    }

    /// No row that goes leaves children.
    fn check_children(&mut self, table: &Arc<Table>, changes: &[Change]) -> Result<()> {
        let catalog = self.shared.catalog();
        let kept: HashSet<_> = changes
            .iter()
            .filter_map(|change| change.new.as_ref())
            .map(|row| joined(row, &table.definition.key))
            .collect();
        let gone: Vec<&Row> = changes
            .iter()
            .filter_map(|change| change.old.as_ref())
            .filter(|row| !kept.contains(&joined(row, &table.definition.key)))
            .collect();
        for (child, key) in catalog.children(&table.definition.name) {
            let wanted: Vec<Row> =
                gone.iter().map(|row| as_child(row, key, table, &child.definition)).collect();
            let wanted: Vec<&Row> = wanted.iter().collect();
            let mut children = self.find(child, &key.columns, &wanted)?;
            if child.definition.name == table.definition.name {
                let ends = |row: &Row| {
                    let key = joined(row, &table.definition.key);
                    changes.iter().any(|change| {
                        change.old.as_ref().is_some_and(|old| joined(old, &table.definition.key) == key)
                    })
                };
                children.retain(|row| !ends(row));
            }
            if let Some(row) = children.first() {
                let name = &child.definition.name;
                let message =
                    format!("a row of table {name} still needs its parent: constraint {}", key.name);
                let detail = format!(
                    "Its ({}) is ({}).",
                    named(&child.definition, &key.columns),
                    shown(row, &key.columns)
                );
                return Err(TiqueError::new(SqlState::ForeignKeyViolation, message).detail(detail));
            }
        }
        Ok(())
    }

    fn note_write_set(&mut self, table: &Arc<Table>, changes: &[Change], old_keys: &HashSet<String>) {
        let catalog = self.shared.catalog();
        let definition = &table.definition;
        let new_keys: HashSet<_> = changes
            .iter()
            .filter_map(|change| change.new.as_ref())
            .map(|row| joined(row, &definition.key))
            .collect();
        let set = &mut self.transaction().buffer.write_set;
        for change in changes {
            for (row, others) in [(&change.old, &new_keys), (&change.new, old_keys)] {
                let Some(row) = row else { continue };
                let stays = others.contains(&joined(row, &definition.key));
                set.key(definition, row, if stays { Access::Update } else { Access::Identity });
            }
            for (place, unique) in definition.uniques.iter().enumerate() {
                let value = |row: &Option<Row>| row.as_ref().map(|row| joined(row, &unique.columns));
                if value(&change.old) != value(&change.new) {
                    for row in [&change.old, &change.new].into_iter().flatten() {
                        set.unique(definition, place, row);
                    }
                }
            }
            for key in &definition.foreign_keys {
                let Some(row) = &change.new else { continue };
                let parent = catalog.table(&key.parent).ok();
                if let Some(parent) =
                    parent.filter(|_| key.columns.iter().all(|&column| !row[column].is_null()))
                {
                    set.parent(&parent.definition, row, &key.columns);
                }
            }
        }
    }

    /// The rows of a table, the transaction's own among them, that have the same values in `columns` as one of `rows`.
    pub(crate) fn find(&mut self, table: &Arc<Table>, columns: &[usize], rows: &[&Row]) -> Result<Vec<Row>> {
        let known = |row: &&&Row| columns.iter().all(|&column| !row[column].is_null());
        let rows: Vec<&Row> = rows.iter().filter(known).copied().collect();
        let definition = &table.definition;
        let wanted: HashSet<_> = rows.iter().map(|row| joined(row, columns)).collect();
        let mut found = Vec::new();
        // If the transaction has itself written or deleted the row with a key, the snapshot need not be read for it.
        let by_key = columns == definition.key;
        let buffer = &self.transaction().buffer;
        let open: Vec<&Row> = rows
            .into_iter()
            .filter(|row| !by_key || buffer.fate(table, &joined(row, columns)).is_none())
            .collect();
        if !open.is_empty() {
            let names = definition.all_names().join(", ");
            let name = quoted(&definition.name);
            let condition = if open.len() <= LOOK_UP_ROWS_MAX {
                format!(" WHERE {}", one_of(definition, columns, &open, ""))
            } else {
                String::new()
            };
            let rows = self.query_text(&format!("SELECT {names} FROM {name}{condition}"), Sees::Committed)?;
            let types = self.types();
            let buffer = &self.transaction().buffer;
            for batch in &rows.batches {
                let values = table.received(batch.columns(), types)?;
                for place in 0..batch.num_rows() {
                    let row: std::result::Result<Row, _> =
                        values.iter().map(|column| ScalarValue::try_from_array(column, place)).collect();
                    let row = row
                        .map_err(|error| TiqueError::new(SqlState::EngineRefused, error.strip_backtrace()))?;
                    let is_decided = buffer.fate(table, &joined(&row, &definition.key)).is_some();
                    if !is_decided && wanted.contains(&joined(&row, columns)) {
                        found.push(row);
                    }
                }
            }
        }
        let own = self.transaction().buffer.live(table);
        found.extend(own.filter(|row| wanted.contains(&joined(row, columns))).cloned());
        Ok(found)
    }
}

/// A row of the parent with the key that a child names.
fn as_parent(child: &Row, key: &ForeignKey, parent: &Definition) -> Row {
    let mut row = vec![ScalarValue::Null; parent.columns.len()];
    for (&from, &to) in key.columns.iter().zip(&parent.key) {
        row[to] = child[from].clone();
    }
    row
}

/// A row of the child that names this parent.
fn as_child(parent: &Row, key: &ForeignKey, table: &Table, child: &Definition) -> Row {
    let mut row = vec![ScalarValue::Null; child.columns.len()];
    for (&from, &to) in table.definition.key.iter().zip(&key.columns) {
        row[to] = parent[from].clone();
    }
    row
}
