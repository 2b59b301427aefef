// SPDX-License-Identifier: Apache-2.0
//! ALTER TABLE DROP CONSTRAINT.

use super::changed_table::put;
use super::comment;
use super::dependents::{Behavior, release_unique_key};
use super::rewrite;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use coeval_store::{SpaceId, TableDef, Uniqueness};

/// Drops the constraint; returns the table's number, which is new if it was the primary key: the rows are
/// then written anew under a hidden row id.
///
/// # Errors
/// 42704 if it is not there; 2BP01 if a foreign key needs it and CASCADE was not said.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    name: &str,
    behavior: Behavior,
) -> Result<SpaceId, SqlError> {
    let what = format!("constraint {name} on table {}", def.name);
    if def.has_declared_primary_key() && def.primary_key_name == name {
        release_unique_key(context, def, &def.primary_key, &what, behavior)?;
        let mut def = TableDef::clone(&**context.transaction.table_def(def.id)?);
        comment::forget(&mut def, name);
        return rewrite::execute(context, &def, &rewrite::Change::RowId);
    }
    let unique =
        |index: &&coeval_store::IndexDef| index.name == name && index.uniqueness == Uniqueness::Constraint;
    if let Some(columns) = def.indexes.iter().find(unique).map(|index| index.columns.clone()) {
        release_unique_key(context, def, &columns, &what, behavior)?;
    }
    let mut changed = TableDef::clone(&**context.transaction.table_def(def.id)?);
    let count = |def: &TableDef| def.indexes.len() + def.checks.len() + def.foreign_keys.len();
    let before = count(&changed);
    comment::forget(&mut changed, name);
    changed.indexes.retain(|index| !unique(&index));
    changed.checks.retain(|check| check.name != name);
    changed.foreign_keys.retain(|key| key.name != name);
    if count(&changed) == before {
        let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", def.name.name);
        return Err(SqlError::new(SqlState::UndefinedObject, message));
    }
    put(context, changed)
}
