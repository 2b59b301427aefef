// SPDX-License-Identifier: Apache-2.0
//! ON CONFLICT: which unique keys decide.

use super::target::Target;
use crate::error::{SqlError, SqlState};
use crate::parse::{TARGET_EXPRESSION, TARGET_PREDICATE};
use crate::stored::index_keys;
use crate::unique_keys::UniqueKey;
use coeval_store::{ColumnDef, ColumnState, TableDef};
use datafusion::sql::sqlparser::ast::{ConflictTarget, Ident, ObjectName};

/// The unique keys that an ON CONFLICT clause means: all of them if it names none.
///
/// # Errors
/// `42P10` if no unique key has the named columns, `42704` for an unknown constraint, `42703` for an
/// unknown column.
pub(super) fn arbiters(target: &Target, clause: Option<&ConflictTarget>) -> Result<Vec<UniqueKey>, SqlError> {
    match clause {
        None => Ok(UniqueKey::all(&target.def)),
        Some(ConflictTarget::Columns(columns)) => by_columns(target, columns),
        Some(ConflictTarget::OnConstraint(name)) => by_name(&target.def, name).map(|arbiter| vec![arbiter]),
    }
}

fn by_columns(target: &Target, names: &[Ident]) -> Result<Vec<UniqueKey>, SqlError> {
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
    let found: Vec<UniqueKey> = UniqueKey::all(def)
        .into_iter()
        .filter(|arbiter| match arbiter {
            UniqueKey::Primary => matches(&def.primary_key),
            UniqueKey::Index(place) => {
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

fn by_name(def: &TableDef, name: &ObjectName) -> Result<UniqueKey, SqlError> {
    let (_, name) = crate::names::split_name(name)?;
    UniqueKey::of_constraint(def, &name).ok_or_else(|| {
        let message = format!("constraint \"{name}\" for table \"{}\" does not exist", def.name.name);
        SqlError::new(SqlState::UndefinedObject, message)
    })
}
