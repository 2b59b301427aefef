// SPDX-License-Identifier: Apache-2.0
//! ALTER TABLE DROP COLUMN.

use super::changed_table::put;
use super::dependents::{self, Behavior, release_unique_key, still_needed};
use super::{expressions, generated_columns, index_keys, lookup, rewrite, view_columns};
use crate::context::StatementContext;
use crate::error::SqlError;
use coeval_store::{CatalogChange, SpaceId, TableDef};
use std::sync::Arc;

/// Drops the column with the indexes and constraints of the table that are about it; returns the table's
/// number, which is new if the column was in the primary key. The column keeps its number, and its slot in rows that are there.
///
/// # Errors
/// 42703 if it is not there; 2BP01 if a view or a foreign key of another table needs it and CASCADE was not
/// said.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    name: &str,
    behavior: Behavior,
) -> Result<SpaceId, SqlError> {
    let index = lookup::column(def, name)?;
    let what = format!("column {name} of table {}", def.name);
    release_views(context, def, name, &what, behavior)?;
    let indexes = index_keys::using(def, name)?;
    if !indexes.is_empty() {
        let mut without = def.clone();
        index_keys::retire(&mut without, &indexes);
        let id = put(context, without)?;
        let again = Arc::clone(context.transaction.table_def(id)?);
        return execute(context, &again, name, behavior);
    }
    if let Some(generated) = generated_columns::using(def, name)?.first() {
        if behavior == Behavior::Restrict {
            let detail = format!("column {generated} of table {} depends on {what}", def.name);
            return Err(still_needed(&what, &[detail]));
        }
        let id = execute(context, def, generated, behavior)?;
        let again = Arc::clone(context.transaction.table_def(id)?);
        return execute(context, &again, name, behavior);
    }
    let in_primary_key = def.has_declared_primary_key() && def.primary_key.contains(&index);
    let mut keys: Vec<Vec<usize>> = Vec::new();
    keys.extend(def.indexes.iter().filter(|key| key.columns.contains(&index)).map(|key| key.columns.clone()));
    if in_primary_key {
        keys.push(def.primary_key.clone());
    }
    for key in keys {
        release_unique_key(context, def, &key, &what, behavior)?;
    }
    let mut def = TableDef::clone(&**context.transaction.table_def(def.id)?);
    if in_primary_key {
        let id = rewrite::execute(context, &def, &rewrite::Change::RowId)?;
        let again = Arc::clone(context.transaction.table_def(id)?);
        return execute(context, &again, name, behavior);
    }
    let gone: Vec<SpaceId> =
        def.indexes.iter().filter(|key| key.columns.contains(&index)).map(|key| key.id).collect();
    index_keys::retire(&mut def, &gone);
    def.foreign_keys.retain(|key| !key.columns.contains(&index));
    let mut kept = Vec::new();
    for check in std::mem::take(&mut def.checks) {
        if !expressions::names_column(&expressions::parse(&check.expression)?, name) {
            kept.push(check);
        }
    }
    def.checks = kept;
    let owned = dependents::owned_sequences(context, &def).into_iter();
    for sequence in owned.filter(|sequence| sequence.owned_by == Some((def.id, index))) {
        context.transaction.change_catalog(CatalogChange::RemoveSequence(sequence.id))?;
    }
    def.drop_column(index);
    put(context, def)
}

/// Drops the views that use the column, or refuses if there are any.
fn release_views(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    column: &str,
    what: &str,
    behavior: Behavior,
) -> Result<(), SqlError> {
    let using = view_columns::views_using(context, &def.name, column)?;
    if using.is_empty() {
        return Ok(());
    }
    if behavior == Behavior::Restrict {
        let details: Vec<String> =
            using.iter().map(|view| format!("view {view} depends on {what}")).collect();
        return Err(still_needed(what, &details));
    }
    let mut users = dependents::Users::default();
    for view in using {
        super::drop::drop_views_on(context, &view, what, Behavior::Cascade, &[], &mut users)?;
        context.transaction.change_catalog(CatalogChange::RemoveView(view))?;
    }
    Ok(())
}
