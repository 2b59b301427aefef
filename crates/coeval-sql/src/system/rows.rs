// SPDX-License-Identifier: Apache-2.0
//! Collects the rows of a system table.

use crate::error::SqlError;
use arrow::array::{ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::ObjectRef;
use coeval_store::{ColumnBuilder, ColumnType, QualifiedName, TableDef, Transaction, ValueRef};
use datafusion::catalog::{MemTable, TableProvider};
use std::sync::Arc;

/// The columns of a system table and its rows so far.
pub(super) struct Rows {
    columns: Vec<(&'static str, ColumnType)>,
    builders: Vec<ColumnBuilder>,
}

impl Rows {
    /// No rows yet. Columns that stand next to each other and are of one type are named together, with blanks between their names.
    pub(super) fn new(columns: &[(ColumnType, &'static str)]) -> Self {
        let columns = columns.iter().flat_map(|&(ty, names)| names.split(' ').map(move |name| (name, ty)));
        let columns: Vec<(&'static str, ColumnType)> = columns.collect();
        let builders = columns.iter().map(|(_, ty)| ColumnBuilder::new(*ty, 0)).collect();
        Self { columns, builders }
    }

    /// Appends a row.
    pub(super) fn push<const N: usize>(&mut self, row: [ValueRef<'_>; N]) {
        assert_eq!(N, self.builders.len(), "a row has a value for each column");
        for (builder, value) in self.builders.iter_mut().zip(row) {
            builder.push(value);
        }
    }

    /// The table with these columns: those that were not filled are NULL, and those that name the database give this
    /// name.
    ///
    /// # Errors
    /// If a column was filled with something else than its type: a bug.
    pub(super) fn into_provider_of(
        mut self,
        schema: SchemaRef,
        database: &str,
    ) -> Result<Arc<dyn TableProvider>, SqlError> {
        let filled: Vec<ArrayRef> = self.builders.iter_mut().map(ColumnBuilder::finish).collect();
        let count = filled.first().map_or(0, |array| array.len());
        let array = |field: &Arc<Field>| match self.columns.iter().position(|(name, _)| name == field.name())
        {
            Some(_) if names_the_database(field.name()) => {
                let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..count).map(|_| database)));
                Ok(cast(&names, field.data_type())?)
            }
            Some(place) => Ok(cast(&filled[place], field.data_type())?),
            None => Ok(new_null_array(field.data_type(), count)),
        };
        let arrays = schema.fields().iter().map(array).collect::<Result<Vec<_>, SqlError>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }

    /// The table.
    pub(super) fn into_provider(self) -> Arc<dyn TableProvider> {
        let batch = self.into_batch();
        let table =
            MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("the batch has the table's schema");
        Arc::new(table)
    }

    /// The rows in one batch.
    pub(super) fn into_batch(mut self) -> RecordBatch {
        let fields: Vec<Field> =
            self.columns.iter().map(|(name, ty)| Field::new(*name, ty.arrow(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let arrays = self.builders.iter_mut().map(ColumnBuilder::finish).collect();
        RecordBatch::try_new(schema, arrays)
            .expect("builders make columns of the declared types and of one length")
    }
}

/// Whether a column of the standard's views says which database something is in: all is in the one there is.
fn names_the_database(column: &str) -> bool {
    column == "catalog_name" || column.ends_with("_catalog")
}

/// A text value.
pub(super) fn text(value: &str) -> ValueRef<'_> {
    ValueRef::Text(value)
}

/// The standard's `yes_or_no`.
pub(super) fn yes_or_no(holds: impl Into<YesOrNo>) -> ValueRef<'static> {
    ValueRef::Text(match holds.into() {
        YesOrNo::Yes => "YES",
        YesOrNo::No => "NO",
    })
}

/// A truth value as the standard's views spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum YesOrNo {
    /// True.
    Yes,
    /// False.
    No,
}

impl From<bool> for YesOrNo {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// A count as `bigint`.
pub(super) fn count(value: impl TryInto<i64>) -> ValueRef<'static> {
    value.try_into().map_or(ValueRef::Null, ValueRef::Int64)
}

/// An `integer` that may be unknown.
pub(super) fn integer(value: Option<i32>) -> ValueRef<'static> {
    value.map_or(ValueRef::Null, ValueRef::Int32)
}

/// The tables of the snapshot with their names, by name.
pub(super) fn table_defs(transaction: &Transaction) -> Vec<(QualifiedName, Arc<TableDef>)> {
    transaction.note_definitions();
    let names = transaction.catalog().names();
    let defs = names.filter_map(|(name, object)| match object {
        ObjectRef::Table(id) => transaction.table_def(id).ok().map(|def| (name.clone(), Arc::clone(def))),
        ObjectRef::Index(..) | ObjectRef::View | ObjectRef::Sequence(_) => None,
    });
    defs.collect()
}
