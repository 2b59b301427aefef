// SPDX-License-Identifier: Apache-2.0
//! Batches of results as other programs know Arrow: enums as dictionaries, documents and identifiers with the names of Arrow's
//! extension types. Everything else goes out as it is, without a copy.

use arrow::array::{ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use coeval::{ColumnType, column_type_of_field};
use std::sync::Arc;

const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// How the batches of one schema go out.
pub(crate) struct Exporter {
    schema: SchemaRef,
    /// Of the columns that are enums.
    labels: Vec<Option<Labels>>,
}

/// The labels of an enum, in its order, and the numbers by which rows keep them, which are not one after the other.
struct Labels {
    places: Vec<i64>,
    names: ArrayRef,
}

impl Exporter {
    pub(crate) fn new(schema: &Schema) -> Self {
        let exported = schema.fields().iter().map(|field| exported(field));
        let (fields, labels): (Vec<_>, Vec<_>) = exported.unzip();
        Self { schema: Arc::new(Schema::new(fields)), labels }
    }

    /// The columns that go out.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch as it goes out.
    ///
    /// # Errors
    /// If its columns are not those of the schema.
    pub(crate) fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(&self.labels).map(|(column, labels)| match labels {
            Some(labels) => labelled(column, labels),
            None => Ok(Arc::clone(column)),
        });
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

fn exported(field: &Field) -> (Field, Option<Labels>) {
    let plain = |ty: DataType| Field::new(field.name(), ty, true);
    let of_extension = |name: &str| {
        let marks = [(EXTENSION_NAME, name), (EXTENSION_METADATA, "")];
        let marks = marks.map(|(key, value)| (key.to_owned(), value.to_owned()));
        plain(field.data_type().clone()).with_metadata(marks.into())
    };
    match column_type_of_field(field) {
        Some(ColumnType::Enum(ty)) => {
            let labels = &ty.def().labels;
            let names: StringArray = labels.iter().map(|label| Some(&label.name)).collect();
            let places = labels.iter().map(|label| label.place).collect();
            let codes = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            (plain(codes), Some(Labels { places, names: Arc::new(names) }))
        }
        Some(ColumnType::Json | ColumnType::Jsonb) => (of_extension("arrow.json"), None),
        Some(ColumnType::Uuid) => (of_extension("arrow.uuid"), None),
        _ => (plain(field.data_type().clone()), None),
    }
}

fn labelled(column: &ArrayRef, labels: &Labels) -> Result<ArrayRef, ArrowError> {
    let places = column.as_struct().column(0).as_primitive::<Int64Type>();
    let code = |place: i64| {
        let index = labels.places.binary_search(&place).ok();
        let code = index.and_then(|index| i32::try_from(index).ok());
        code.ok_or_else(|| ArrowError::ComputeError(format!("an enum has no label at {place}")))
    };
    let codes = places.iter().map(|place| place.map(code).transpose()).collect::<Result<Int32Array, _>>()?;
    Ok(Arc::new(DictionaryArray::try_new(codes, Arc::clone(&labels.names))?))
}
