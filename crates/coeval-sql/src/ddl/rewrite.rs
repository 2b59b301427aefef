// SPDX-License-Identifier: Apache-2.0
//! Changes of a table that write its rows anew: another primary key, another type of a column.
//!
//! The rows go into a new table, with new numbers for itself and its indexes, that takes over the name, the
//! constraints, the sequences and the foreign keys of others. Dropped columns stay behind.

use super::columns::{self, Place};
use super::{dependents, expressions, validate};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::sequences;
use crate::stored::view_query::quoted;
use crate::types::{CastContext, assign_array, has_cast, type_name};
use crate::values;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, new_null_array};
use arrow::datatypes::{Field, Schema};
use coeval_store::{
    CatalogChange, ColumnDef, ColumnGrants, ColumnState, ColumnType, DomainDef, ForeignKeyDef, IndexDef,
    SequenceDef, SpaceId, StoreError, TableDef,
};
use std::sync::Arc;

/// What changes.
pub(super) enum Change {
    /// The primary key is now these columns.
    PrimaryKey {
        /// By their index in the old definition.
        columns: Vec<usize>,
        /// The constraint's name.
        name: String,
    },
    /// There is no primary key any more; a hidden row id stands in.
    RowId,
    /// A column has another type.
    Type {
        /// By its index in the old definition.
        column: usize,
        /// The new type.
        ty: ColumnType,
        /// The digits of seconds that it is declared with.
        second_digits: Option<u8>,
        /// The domain that it is declared of.
        domain: Option<Box<DomainDef>>,
        /// `USING` as SQL text.
        using: Option<String>,
    },
}

/// Where the new table's columns come from.
struct Mapping {
    /// For each column of the old definition its place in the new one.
    places: Vec<Option<usize>>,
    columns: Vec<ColumnDef>,
}

impl Mapping {
    fn place(&self, old: usize) -> Result<usize, SqlError> {
        self.places[old].ok_or_else(|| SqlError::internal("a column that a key needs was left behind"))
    }

    /// What was granted on columns that go along.
    fn column_grants(&self, old: &[ColumnGrants]) -> Vec<ColumnGrants> {
        let moved = |granted: &ColumnGrants| {
            let column = self.places[granted.column]?;
            Some(ColumnGrants { column, grants: granted.grants.clone() })
        };
        old.iter().filter_map(moved).collect()
    }

    fn places(&self, old: &[usize]) -> Result<Vec<usize>, SqlError> {
        old.iter().map(|&column| self.place(column)).collect()
    }
}

/// Writes the table anew; returns its new number.
///
/// # Errors
/// 23505 if the new key has two owners, what casting the values answers, 0A000 where a foreign key stands in
/// the way and for a brick table.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    change: &Change,
) -> Result<SpaceId, SqlError> {
    if def.bricks.is_some() {
        let what = "a change that writes its rows anew".to_owned();
        return Err(StoreError::BrickDefinition { table: Box::new(def.name.clone()), what }.into());
    }
    let id = context.engine.store().new_space_id();
    if let Change::Type { column, ty, using, .. } = change {
        refuse_type(def, *column, *ty, using.as_deref())?;
        refuse_in_foreign_keys(context, def, *column, *ty)?;
    }
    let mapping = map_columns(def, change);
    let mut mapping = mapping;
    let row_id = match change {
        Change::RowId => Some(add_row_id(context, def, id, &mut mapping)?),
        Change::PrimaryKey { .. } | Change::Type { .. } => None,
    };
    let new = new_definition(context, def, change, id, &mapping)?;
    let batches = read_rows(context, def, change, &new)?;
    let owned = dependents::owned_sequences(context, def);
    let children = dependents::children(context, def)?;
    context.transaction.change_catalog(CatalogChange::RemoveTable(def.id))?;
    if let Some(sequence) = row_id {
        context.transaction.change_catalog(CatalogChange::PutSequence(sequence))?;
    }
    // The rows satisfy the checks and foreign keys already, so these come back when the rows are in.
    let mut bare = new.clone();
    bare.checks.clear();
    bare.foreign_keys.clear();
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(bare)))?;
    context.transaction.bulk_insert(id, &batches)?;
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(new)))?;
    hand_over_sequences(context, def, owned, id, &mapping)?;
    for (child, _) in children {
        hand_over_foreign_keys(context, &child, def.id, id, &mapping)?;
    }
    Ok(id)
}

/// Without the user's word for how, values become what an assignment makes of them.
fn refuse_type(def: &TableDef, column: usize, ty: ColumnType, using: Option<&str>) -> Result<(), SqlError> {
    let column = &def.columns[column];
    if column.identity.is_some() && !matches!(ty, ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt)
    {
        let message = "identity column type must be smallint, integer, or bigint";
        return Err(SqlError::new(SqlState::InvalidParameterValue, message));
    }
    if using.is_none() && !has_cast(column.ty, ty, CastContext::Assignment) {
        let (name, to) = (&column.name, type_name(ty));
        let message = format!("column \"{name}\" cannot be cast automatically to type {to}");
        return Err(SqlError::new(SqlState::DatatypeMismatch, message)
            .with_hint(format!("You might need to specify \"USING {name}::{ty}\".")));
    }
    Ok(())
}

/// Both sides of a foreign key keep their values alike.
fn refuse_in_foreign_keys(
    context: &StatementContext<'_>,
    def: &TableDef,
    column: usize,
    ty: ColumnType,
) -> Result<(), SqlError> {
    if expressions::same_key_bytes(def.columns[column].ty, ty) {
        return Ok(());
    }
    let own = def.foreign_keys.iter().any(|key| key.columns.contains(&column));
    let others = dependents::children(context, def)?.into_iter().any(|(child, _)| {
        let mut keys = child.foreign_keys.iter().filter(|key| key.parent == def.id);
        keys.any(|key| key.parent_columns.contains(&column))
    });
    if own || others {
        let name = &def.columns[column].name;
        return Err(SqlError::unsupported(format!(
            "changing the type of column \"{name}\" of a foreign key"
        )));
    }
    Ok(())
}

/// The columns that go along, with their new places.
fn map_columns(def: &TableDef, change: &Change) -> Mapping {
    let mut mapping = Mapping { places: Vec::new(), columns: Vec::new() };
    for (index, column) in def.columns.iter().enumerate() {
        let stays = match (column.state, change) {
            (ColumnState::Dropped { .. } | ColumnState::Retired { .. }, _)
            | (ColumnState::Hidden, Change::PrimaryKey { .. }) => false,
            (ColumnState::Live | ColumnState::Hidden | ColumnState::Computed, _) => true,
        };
        mapping.places.push(stays.then_some(mapping.columns.len()));
        if stays {
            let mut column = ColumnDef { missing: None, ..column.clone() };
            match change {
                Change::Type { column: changed, ty, second_digits, domain, .. } if *changed == index => {
                    (column.ty, column.second_digits) = (*ty, *second_digits);
                    column.domain.clone_from(domain);
                }
                Change::PrimaryKey { .. } | Change::RowId | Change::Type { .. } => {}
            }
            mapping.columns.push(column);
        }
    }
    mapping
}

fn add_row_id(
    context: &StatementContext<'_>,
    def: &TableDef,
    id: SpaceId,
    mapping: &mut Mapping,
) -> Result<SequenceDef, SqlError> {
    let place = Place { table: id, name: &def.name, index: mapping.columns.len() };
    let (column, sequence) = columns::row_id(context, &place)?;
    mapping.columns.push(column);
    Ok(sequence)
}

fn new_definition(
    context: &StatementContext<'_>,
    def: &TableDef,
    change: &Change,
    id: SpaceId,
    mapping: &Mapping,
) -> Result<TableDef, SqlError> {
    let (key, key_name) = match change {
        Change::PrimaryKey { columns, name } => (mapping.places(columns)?, name.clone()),
        Change::RowId => (vec![mapping.columns.len() - 1], def.primary_key_name.clone()),
        Change::Type { .. } => (mapping.places(&def.primary_key)?, def.primary_key_name.clone()),
    };
    let mut new = TableDef::new(id, def.name.clone(), mapping.columns.clone(), key);
    new.primary_key_name = key_name;
    for index in &def.indexes {
        let id = context.engine.store().new_space_id();
        new.indexes.push(IndexDef { id, columns: mapping.places(&index.columns)?, ..index.clone() });
    }
    for key in &def.foreign_keys {
        let own = key.parent == def.id;
        let parent_columns =
            if own { mapping.places(&key.parent_columns)? } else { key.parent_columns.clone() };
        let parent = if own { id } else { key.parent };
        let columns = mapping.places(&key.columns)?;
        new.foreign_keys.push(ForeignKeyDef { columns, parent, parent_columns, ..key.clone() });
    }
    new.checks.clone_from(&def.checks);
    new.access.clone_from(&def.access);
    new.access.columns = mapping.column_grants(&def.access.columns);
    new.comment.clone_from(&def.comment);
    new.constraint_comments.clone_from(&def.constraint_comments);
    new.index_comments.clone_from(&def.index_comments);
    Ok(new)
}

/// The rows of the old table as rows of the new one; hidden row ids are given anew.
fn read_rows(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    change: &Change,
    new: &TableDef,
) -> Result<Vec<RecordBatch>, SqlError> {
    let live: Vec<String> = def
        .live_columns()
        .map(|(index, column)| match change {
            Change::Type { column: changed, using: Some(using), .. } if *changed == index => {
                format!("({using})")
            }
            Change::PrimaryKey { .. } | Change::RowId | Change::Type { .. } => {
                quoted(&column.name).to_string()
            }
        })
        .collect();
    let rows =
        values::collect(context, &format!("SELECT {} FROM {}", live.join(", "), validate::relation(def)))?;
    let fields: Vec<Field> =
        new.columns.iter().map(|column| Field::new(&column.name, column.ty.arrow(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let zone = context.settings.zone();
    let hidden = new.columns.iter().find(|column| column.state == ColumnState::Hidden);
    let sequence = hidden_sequence(context, def, new, hidden)?;
    let mut batches = Vec::with_capacity(rows.batches.len());
    for batch in rows.batches.iter().filter(|batch| batch.num_rows() > 0) {
        let mut given = batch.columns().iter();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(new.columns.len());
        for column in &new.columns {
            if column.state == ColumnState::Hidden {
                columns.push(row_ids(context, sequence.as_deref(), batch.num_rows())?);
            } else if column.state == ColumnState::Computed {
                // The load computes it.
                columns.push(new_null_array(&column.ty.arrow(), batch.num_rows()));
            } else {
                let array = given.next().ok_or_else(|| SqlError::internal("a column is missing"))?;
                columns.push(assign_array(array, column.ty, zone)?);
            }
        }
        batches.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
    }
    Ok(batches)
}

/// The sequence of the hidden row id: the old table's, or the one that is about to be made.
fn hidden_sequence(
    context: &StatementContext<'_>,
    def: &TableDef,
    new: &TableDef,
    hidden: Option<&ColumnDef>,
) -> Result<Option<Arc<SequenceDef>>, SqlError> {
    let Some(id) = hidden.and_then(|column| column.sequence) else { return Ok(None) };
    if def.columns.iter().any(|column| column.sequence == Some(id)) {
        return sequences::by_id(context, id).map(Some);
    }
    let place = Place { table: new.id, name: &new.name, index: new.columns.len() - 1 };
    let (_, sequence) = columns::row_id(context, &place)?;
    Ok(Some(Arc::new(SequenceDef { id, ..sequence })))
}

fn row_ids(
    context: &StatementContext<'_>,
    sequence: Option<&SequenceDef>,
    count: usize,
) -> Result<ArrayRef, SqlError> {
    let sequence = sequence.ok_or_else(|| SqlError::internal("a hidden row id has a sequence"))?;
    let store = context.engine.store();
    let values: Result<Vec<i64>, _> = (0..count).map(|_| store.next_value(sequence)).collect();
    Ok(Arc::new(Int64Array::from(values?)))
}

/// Sequences of the old table's columns now belong to the new table's.
fn hand_over_sequences(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    owned: Vec<Arc<SequenceDef>>,
    id: SpaceId,
    mapping: &Mapping,
) -> Result<(), SqlError> {
    for sequence in owned {
        let place = sequence.owned_by.and_then(|(_, column)| mapping.places[column]);
        let change = match place {
            Some(place) => CatalogChange::PutSequence(SequenceDef {
                owned_by: Some((id, place)),
                ..SequenceDef::clone(&sequence)
            }),
            None => CatalogChange::RemoveSequence(sequence.id),
        };
        debug_assert!(sequence.owned_by.is_some_and(|(table, _)| table == def.id), "owned by the old table");
        context.transaction.change_catalog(change)?;
    }
    Ok(())
}

/// Foreign keys of another table that referred to the old table now refer to the new one.
fn hand_over_foreign_keys(
    context: &mut StatementContext<'_>,
    child: &TableDef,
    old: SpaceId,
    new: SpaceId,
    mapping: &Mapping,
) -> Result<(), SqlError> {
    let mut changed = TableDef::clone(&**context.transaction.table_def(child.id)?);
    for key in changed.foreign_keys.iter_mut().filter(|key| key.parent == old) {
        key.parent = new;
        key.parent_columns = mapping.places(&key.parent_columns)?;
    }
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(changed)))?;
    Ok(())
}
