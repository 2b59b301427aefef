// SPDX-License-Identifier: Apache-2.0
//! What depends on what: foreign keys and views on tables, defaults on sequences.

use super::lookup;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::stored::{view_query, view_query_of};
use coeval_store::{CatalogChange, QualifiedName, SequenceDef, TableDef, ViewDef};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whether what depends on a dropped object goes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behavior {
    /// It goes.
    Cascade,
    /// Its being there is an error.
    Restrict,
}

/// `cannot drop x because other objects depend on it` (2BP01).
pub(super) fn still_needed(what: &str, details: &[String]) -> SqlError {
    let message = format!("cannot drop {what} because other objects depend on it");
    SqlError::new(SqlState::DependentObjectsStillExist, message)
        .with_detail(details.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// The views whose query names this relation.
pub(super) fn views_on(
    context: &StatementContext<'_>,
    name: &QualifiedName,
) -> Result<Vec<Arc<ViewDef>>, SqlError> {
    let wanted = (Some(name.schema.clone()), name.name.clone());
    let mut found = Vec::new();
    for view in context.transaction.catalog().views() {
        if view_query::relations(&*view_query_of(view)?).contains(&wanted) {
            found.push(Arc::clone(view));
        }
    }
    Ok(found)
}

/// The views that depend on this relation, and the views that depend on those, nearest first.
pub(super) fn all_views_on(
    context: &StatementContext<'_>,
    name: &QualifiedName,
) -> Result<Vec<QualifiedName>, SqlError> {
    let mut seen = BTreeSet::new();
    let mut order = Vec::new();
    let mut waiting = vec![name.clone()];
    while let Some(next) = waiting.pop() {
        for view in views_on(context, &next)? {
            if seen.insert(view.name.clone()) {
                order.push(view.name.clone());
                waiting.push(view.name.clone());
            }
        }
    }
    Ok(order)
}

/// The foreign keys of other tables that refer to this table: the child and the constraint's name.
pub(super) fn children(
    context: &StatementContext<'_>,
    parent: &TableDef,
) -> Result<Vec<(Arc<TableDef>, String)>, SqlError> {
    let ids: Vec<_> =
        context.transaction.catalog().children(parent.id).filter(|&id| id != parent.id).collect();
    let mut found = Vec::new();
    for id in ids {
        let child = Arc::clone(context.transaction.table_def(id)?);
        let keys = child.foreign_keys.iter().filter(|key| key.parent == parent.id);
        let named: Vec<String> = keys.map(|key| key.name.clone()).collect();
        found.extend(named.into_iter().map(|name| (Arc::clone(&child), name)));
    }
    Ok(found)
}

/// The foreign keys, of any table, that rely on this unique key of the table.
pub(super) fn foreign_keys_on(
    context: &StatementContext<'_>,
    parent: &TableDef,
    columns: &[usize],
) -> Vec<(Arc<TableDef>, String)> {
    // Another unique key of the same columns in the same order serves as well.
    let keys = parent.indexes.iter().filter(|index| index.uniqueness.is_unique() && index.columns == columns);
    if keys.count() + usize::from(parent.primary_key == columns) > 1 {
        return Vec::new();
    }
    let tables = lookup::tables(context).into_iter();
    let relying = tables.flat_map(|child| {
        let keys = child.foreign_keys.iter();
        let keys = keys.filter(|key| key.parent == parent.id && key.parent_columns == columns);
        let named: Vec<String> = keys.map(|key| key.name.clone()).collect();
        named.into_iter().map(move |name| (Arc::clone(&child), name))
    });
    relying.collect()
}

/// Takes a foreign key away from its table.
pub(super) fn drop_foreign_key(
    context: &mut StatementContext<'_>,
    child: &TableDef,
    name: &str,
) -> Result<(), SqlError> {
    // The child may have lost another key since it was looked up.
    let mut def = TableDef::clone(&**context.transaction.table_def(child.id)?);
    def.foreign_keys.retain(|key| key.name != name);
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(def)))?;
    Ok(())
}

/// The columns that take their values from this sequence: the table and the column's index.
pub(super) fn columns_fed_by(
    context: &StatementContext<'_>,
    sequence: &SequenceDef,
) -> Vec<(Arc<TableDef>, usize)> {
    let tables = lookup::tables(context).into_iter();
    let fed = tables.flat_map(|def| {
        let columns = def.columns.iter().enumerate();
        let fed = columns.filter(|(_, column)| column.sequence == Some(sequence.id));
        let places: Vec<usize> = fed.map(|(place, _)| place).collect();
        places.into_iter().map(move |place| (Arc::clone(&def), place))
    });
    fed.collect()
}

/// The columns whose default names this sequence in a `nextval` or its like.
pub(super) fn defaults_naming(
    context: &StatementContext<'_>,
    sequence: &SequenceDef,
) -> Result<Vec<(Arc<TableDef>, usize)>, SqlError> {
    let mut found = Vec::new();
    for def in lookup::tables(context) {
        for (place, column) in def.live_columns() {
            if let Some(default) = &column.default
                && super::expressions::named_sequences(default)?.iter().any(|(schema, name)| {
                    *name == sequence.name.name
                        && schema.as_ref().is_none_or(|schema| *schema == sequence.name.schema)
                })
            {
                found.push((Arc::clone(&def), place));
            }
        }
    }
    Ok(found)
}

/// The sequences that this table's columns own.
pub(super) fn owned_sequences(context: &StatementContext<'_>, def: &TableDef) -> Vec<Arc<SequenceDef>> {
    context.transaction.catalog().owned_sequences(def.id).cloned().collect()
}
