// SPDX-License-Identifier: Apache-2.0
//! What depends on what: foreign keys and views on tables, defaults on sequences.

use super::lookup;
use crate::cancel;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::stored::{view_query, view_query_of};
use coeval_store::{CatalogChange, QualifiedName, SequenceDef, SequenceId, SpaceId, TableDef, ViewDef};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Whether what depends on a dropped object, or on a right that is taken back, goes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
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
        cancel::check()?;
        if view_query::relations(&*view_query_of(view)?).contains(&wanted) {
            found.push(Arc::clone(view));
        }
    }
    Ok(found)
}

/// What uses relations and sequences, found in one pass over all views or tables when it is first asked for.
///
/// It serves a statement that only drops: what was found may be gone by the time it is asked for, and is left out then;
/// nothing is missing. To look through all views and tables for each object that goes would take their square.
#[derive(Debug, Default)]
pub(super) struct Users {
    views: Option<ViewUsers>,
    sequences: Option<SequenceUsers>,
}

/// For each relation the views whose query names it.
type ViewUsers = HashMap<QualifiedName, Vec<QualifiedName>>;

#[derive(Debug, Default)]
struct SequenceUsers {
    /// The columns that take their values from it.
    fed: HashMap<SequenceId, Vec<(SpaceId, usize)>>,
    /// By its bare name the columns whose default names it, with the schema that it says.
    named: HashMap<String, Vec<(Option<String>, SpaceId, usize)>>,
}

impl Users {
    /// The views that depend on this relation, and the views that depend on those, nearest first.
    pub(super) fn all_views_on(
        &mut self,
        context: &StatementContext<'_>,
        name: &QualifiedName,
    ) -> Result<Vec<QualifiedName>, SqlError> {
        if self.views.is_none() {
            self.views = Some(view_users(context)?);
        }
        let (users, catalog) = (self.views.get_or_insert_default(), context.transaction.catalog());
        let mut seen = BTreeSet::new();
        let mut order = Vec::new();
        let mut waiting = vec![name.clone()];
        while let Some(next) = waiting.pop() {
            cancel::check()?;
            for view in users.get(&next).into_iter().flatten() {
                if catalog.view(view).is_some() && seen.insert(view) {
                    order.push(view.clone());
                    waiting.push(view.clone());
                }
            }
        }
        Ok(order)
    }

    fn sequences(&mut self, context: &StatementContext<'_>) -> Result<&SequenceUsers, SqlError> {
        if self.sequences.is_none() {
            self.sequences = Some(sequence_users(context)?);
        }
        Ok(self.sequences.get_or_insert_default())
    }

    /// The columns that take their values from this sequence: the table and the column's index.
    pub(super) fn columns_fed_by(
        &mut self,
        context: &StatementContext<'_>,
        sequence: &SequenceDef,
    ) -> Result<Vec<(Arc<TableDef>, usize)>, SqlError> {
        let fed = self.sequences(context)?.fed.get(&sequence.id).into_iter().flatten();
        let now = fed.filter_map(|&(table, place)| {
            let def = context.transaction.table_def(table).ok()?;
            (def.columns.get(place)?.sequence == Some(sequence.id)).then(|| (Arc::clone(def), place))
        });
        Ok(now.collect())
    }

    /// The columns whose default names this sequence in a `nextval` or its like.
    pub(super) fn defaults_naming(
        &mut self,
        context: &StatementContext<'_>,
        sequence: &SequenceDef,
    ) -> Result<Vec<(Arc<TableDef>, usize)>, SqlError> {
        let named = self.sequences(context)?.named.get(&sequence.name.name).into_iter().flatten();
        let meant =
            named.filter(|(schema, ..)| schema.as_ref().is_none_or(|schema| *schema == sequence.name.schema));
        let now = meant.filter_map(|&(_, table, place)| {
            let def = context.transaction.table_def(table).ok()?;
            def.columns.get(place)?.default.is_some().then(|| (Arc::clone(def), place))
        });
        Ok(now.collect())
    }
}

fn view_users(context: &StatementContext<'_>) -> Result<ViewUsers, SqlError> {
    let mut users = ViewUsers::new();
    for view in context.transaction.catalog().views() {
        cancel::check()?;
        for (schema, name) in view_query::relations(&*view_query_of(view)?) {
            // A view says the schema of everything but what is the system's own.
            let Some(schema) = schema else { continue };
            users.entry(QualifiedName { schema, name }).or_default().push(view.name.clone());
        }
    }
    Ok(users)
}

fn sequence_users(context: &StatementContext<'_>) -> Result<SequenceUsers, SqlError> {
    let mut users = SequenceUsers::default();
    for def in lookup::tables(context) {
        cancel::check()?;
        for (place, column) in def.columns.iter().enumerate() {
            if let Some(sequence) = column.sequence {
                users.fed.entry(sequence).or_default().push((def.id, place));
            }
        }
        for (place, column) in def.live_columns() {
            let Some(default) = &column.default else { continue };
            // One that names it twice uses it once.
            let names: BTreeSet<_> = super::expressions::named_sequences(default)?.into_iter().collect();
            for (schema, name) in names {
                users.named.entry(name).or_default().push((schema, def.id, place));
            }
        }
    }
    Ok(users)
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

/// The sequences that this table's columns own.
pub(super) fn owned_sequences(context: &StatementContext<'_>, def: &TableDef) -> Vec<Arc<SequenceDef>> {
    context.transaction.catalog().owned_sequences(def.id).cloned().collect()
}

/// Refuses a change that a foreign key of another constraint relies on, or takes the foreign keys away.
pub(super) fn release_unique_key(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    columns: &[usize],
    what: &str,
    behavior: Behavior,
) -> Result<(), SqlError> {
    let relying = foreign_keys_on(context, def, columns);
    if behavior == Behavior::Restrict && !relying.is_empty() {
        let details: Vec<String> = relying
            .iter()
            .map(|(child, key)| format!("constraint {key} on table {} depends on {what}", child.name))
            .collect();
        return Err(still_needed(what, &details));
    }
    for (child, key) in relying {
        drop_foreign_key(context, &child, &key)?;
    }
    Ok(())
}
