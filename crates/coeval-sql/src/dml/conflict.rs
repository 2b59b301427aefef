// SPDX-License-Identifier: Apache-2.0
//! ON CONFLICT: which unique keys decide, and who owns them.

use super::target::Target;
use crate::error::{SqlError, SqlState};
use crate::parse::{TARGET_EXPRESSION, TARGET_PREDICATE};
use crate::stored::index_keys;
use coeval_store::{
    ColumnDef, ColumnState, Direction, IndexDef, Key, KeyRange, KeyWriter, StoreError, TableDef, Transaction,
    Uniqueness, Value,
};
use datafusion::sql::sqlparser::ast::{ConflictTarget, Ident, ObjectName};

/// A unique key of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arbiter {
    /// Its primary key.
    PrimaryKey,
    /// The unique index at this place of the definition.
    Index(usize),
}

/// The unique keys that an ON CONFLICT clause means: all of them if it names none.
///
/// # Errors
/// `42P10` if no unique key has the named columns, `42704` for an unknown constraint, `42703` for an
/// unknown column.
pub(super) fn arbiters(target: &Target, clause: Option<&ConflictTarget>) -> Result<Vec<Arbiter>, SqlError> {
    match clause {
        None => Ok(all(&target.def)),
        Some(ConflictTarget::Columns(columns)) => by_columns(target, columns),
        Some(ConflictTarget::OnConstraint(name)) => by_name(&target.def, name).map(|arbiter| vec![arbiter]),
    }
}

fn unique_indexes(def: &TableDef) -> impl Iterator<Item = (usize, &IndexDef)> {
    def.indexes.iter().enumerate().filter(|(_, index)| index.uniqueness.is_unique())
}

fn all(def: &TableDef) -> Vec<Arbiter> {
    let primary = def.has_declared_primary_key().then_some(Arbiter::PrimaryKey);
    primary.into_iter().chain(unique_indexes(def).map(|(place, _)| Arbiter::Index(place))).collect()
}

fn by_columns(target: &Target, names: &[Ident]) -> Result<Vec<Arbiter>, SqlError> {
    let def = &target.def;
    let (mut wanted, mut predicate, mut is_known) = (Vec::new(), None, true);
    for name in names {
        if let Some(condition) = name.value.strip_prefix(TARGET_PREDICATE) {
            predicate = Some(condition);
        } else if let Some(expression) = name.value.strip_prefix(TARGET_EXPRESSION) {
            let computed = index_keys::normal(expression);
            let is_it = |column: &ColumnDef| {
                column.state == ColumnState::Computed && Some(&column.name) == computed.as_ref()
            };
            let columns = def.columns.iter().enumerate().filter(|(_, column)| is_it(column));
            let columns: Vec<usize> = columns.map(|(index, _)| index).collect();
            is_known &= !columns.is_empty();
            wanted.push(columns);
        } else {
            wanted.push(vec![target.column(name)?]);
        }
    }
    let matches = |columns: &[usize]| {
        columns.iter().all(|column| wanted.iter().any(|wanted| wanted.contains(column)))
            && wanted.iter().all(|wanted| wanted.iter().any(|column| columns.contains(column)))
    };
    let found: Vec<Arbiter> = all(def)
        .into_iter()
        .filter(|arbiter| match arbiter {
            Arbiter::PrimaryKey => matches(&def.primary_key),
            Arbiter::Index(place) => {
                let index = &def.indexes[*place];
                matches(index_keys::keys_of(def, &index.columns))
                    && index_keys::implies(predicate, index_keys::predicate_of(def, index))
            }
        })
        .collect();
    if found.is_empty() || !is_known {
        let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        return Err(SqlError::new(SqlState::InvalidColumnReference, message));
    }
    Ok(found)
}

fn by_name(def: &TableDef, name: &ObjectName) -> Result<Arbiter, SqlError> {
    let (_, name) = crate::names::split_name(name)?;
    if def.has_declared_primary_key() && name == def.primary_key_name {
        return Ok(Arbiter::PrimaryKey);
    }
    let constraint = |index: &IndexDef| index.uniqueness == Uniqueness::Constraint && index.name == name;
    let found = def.indexes.iter().position(constraint);
    found.map(Arbiter::Index).ok_or_else(|| {
        let message = format!("constraint \"{name}\" for table \"{}\" does not exist", def.name.name);
        SqlError::new(SqlState::UndefinedObject, message)
    })
}

impl Arbiter {
    /// The row that has this key's columns in common with the values, own writes included. NULLs have
    /// nothing in common.
    ///
    /// # Errors
    /// If the table or index is gone: a bug.
    pub(super) fn owner(
        &self,
        transaction: &Transaction,
        def: &TableDef,
        values: &[Value],
    ) -> Result<Option<Key>, StoreError> {
        let columns = match self {
            Self::PrimaryKey => &def.primary_key,
            Self::Index(place) => &def.indexes[*place].columns,
        };
        if columns.iter().any(|&column| values[column] == Value::Null) {
            return Ok(None);
        }
        match self {
            Self::PrimaryKey => {
                let key = def.key_of(|column| values[column].borrow());
                Ok(transaction.get(def.id, &key)?.is_some().then_some(key))
            }
            Self::Index(place) => {
                let mut prefix = KeyWriter::new();
                columns.iter().for_each(|&column| prefix.push_nullable(values[column].borrow()));
                let range = KeyRange::prefix(prefix.as_slice());
                let mut entries =
                    transaction.scan_index(def.id, def.indexes[*place].id, &range, Direction::Forward)?;
                Ok(entries.next().transpose()?.map(|entry| entry.primary_key))
            }
        }
    }
}
