// SPDX-License-Identifier: Apache-2.0
//! Batches of results as other programs know Arrow: enums as dictionaries, documents and identifiers with the names of Arrow's
//! extension types. Everything else goes out as it is, without a copy, unless the program wants no views.

mod row_column;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, ListArray, RecordBatch, RecordBatchOptions,
    StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use coeval_sql::{column_type_of_field, text_without_zone};
use coeval_store::log::Lsn;
use coeval_store::{ColumnType, ElementType, EnumType, ValueRef, place_of, value_at};
pub use row_column::RowColumn;
use std::sync::Arc;

const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// The Arrow types of texts and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextForm {
    /// `utf8_view` and `binary_view`, as queries have them: nothing is copied.
    #[default]
    Views,
    /// `utf8` and `binary`, which older programs know as well.
    Offsets,
}

/// Makes batches of results, of one schema, what other programs know: enums become dictionaries, documents and identifiers have the
/// names of Arrow's extension types, and texts and bytes have one form each, whatever the query had them in.
#[derive(Debug)]
pub struct Exporter {
    schema: SchemaRef,
    /// Of the columns that are enums, or arrays of them.
    labels: Vec<Option<Labels>>,
}

/// The labels of an enum, in its order, and the numbers by which rows keep them, which are not one after the other.
#[derive(Debug)]
struct Labels {
    places: Vec<i64>,
    names: ArrayRef,
}

impl Labels {
    fn of(ty: EnumType) -> Self {
        let labels = &ty.def().labels;
        let names: StringArray = labels.iter().map(|label| Some(&label.name)).collect();
        let places = labels.iter().map(|label| label.place).collect();
        Self { places, names: Arc::new(names) }
    }

    /// The type of columns that have them.
    fn coded() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }
}

impl Exporter {
    /// For batches of this schema.
    #[must_use]
    pub fn new(schema: &Schema, form: TextForm) -> Self {
        let exported = schema.fields().iter().map(|field| exported(field, form));
        let (fields, labels): (Vec<_>, Vec<_>) = exported.unzip();
        Self { schema: Arc::new(Schema::new(fields)), labels }
    }

    /// The columns that go out.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch as it goes out.
    ///
    /// # Errors
    /// If its columns are not those of the schema.
    pub fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(&self.labels).zip(self.schema.fields());
        let columns =
            columns.map(|((column, labels), field)| converted(column, labels.as_ref(), field.data_type()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

fn exported(field: &Field, form: TextForm) -> (Field, Option<Labels>) {
    let plain = |ty: DataType| Field::new(field.name(), ty, true);
    let formed = plain(formed(field.data_type(), form));
    let of_extension = |name: &str| {
        let marks = [(EXTENSION_NAME, name), (EXTENSION_METADATA, "")];
        let marks = marks.map(|(key, value)| (key.to_owned(), value.to_owned()));
        formed.clone().with_metadata(marks.into())
    };
    match column_type_of_field(field) {
        Some(ColumnType::Enum(ty)) => (plain(Labels::coded()), Some(Labels::of(ty))),
        Some(ColumnType::Array(ElementType::Enum(ty))) => {
            (plain(list_of(Labels::coded())), Some(Labels::of(ty)))
        }
        Some(ColumnType::Json | ColumnType::Jsonb) => (of_extension("arrow.json"), None),
        Some(ColumnType::Uuid) => (of_extension("arrow.uuid"), None),
        // Its eight bytes would say nothing to other programs.
        Some(ColumnType::PgLsn) => (plain(self::formed(&DataType::Utf8, form)), None),
        // Arrow has no type of as many digits, and none of bit strings and of times with a zone.
        Some(ColumnType::AnyNumeric | ColumnType::Bit(_) | ColumnType::Varbit(_) | ColumnType::TimeTz) => {
            (plain(self::formed(&DataType::Utf8, form)), None)
        }
        Some(ColumnType::Array(
            ElementType::PgLsn
            | ElementType::AnyNumeric
            | ElementType::Bit(_)
            | ElementType::Varbit(_)
            | ElementType::TimeTz,
        )) => (plain(list_of(self::formed(&DataType::Utf8, form))), None),
        _ => (formed, None),
    }
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// A column, or the elements of one, as they go out.
fn converted(column: &ArrayRef, labels: Option<&Labels>, ty: &DataType) -> Result<ArrayRef, ArrowError> {
    match (column.data_type(), ty, labels) {
        (from, to, _) if from == to => Ok(Arc::clone(column)),
        (DataType::List(_), DataType::List(item), _) => {
            let lists = column.as_list::<i32>();
            let values = converted(lists.values(), labels, item.data_type())?;
            let (offsets, valid) = (lists.offsets().clone(), lists.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, valid)?))
        }
        (DataType::Struct(_), _, Some(labels)) => labelled(column, labels),
        (from, _, _) if *from == ColumnType::PgLsn.arrow() => cast(&places(column), ty),
        (from, _, _) if *from == ColumnType::AnyNumeric.arrow() => cast(&numbers(column), ty),
        (from, to, _) if *from == ColumnType::Bit(None).arrow() && to.is_string() => {
            cast(&written(column, ColumnType::Bit(None)), to)
        }
        (from, _, _) if *from == ColumnType::TimeTz.arrow() => cast(&written(column, ColumnType::TimeTz), ty),
        _ => cast(column, ty),
    }
}

/// The same type for all texts, and for all bytes, whatever the query had them as. A column of which only NULL is known is a
/// text, as in PostgreSQL.
fn formed(ty: &DataType, form: TextForm) -> DataType {
    match ty {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match form {
            TextForm::Views => DataType::Utf8View,
            TextForm::Offsets => DataType::Utf8,
        },
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => match form {
            TextForm::Views => DataType::BinaryView,
            TextForm::Offsets => DataType::Binary,
        },
        DataType::List(item) => {
            let element = item.as_ref().clone().with_data_type(formed(item.data_type(), form));
            DataType::List(Arc::new(element))
        }
        other => other.clone(),
    }
}

/// Places in a log as PostgreSQL writes them.
fn places(column: &ArrayRef) -> StringArray {
    let text = |row| value_at(column, row).as_i64().map(|kept| Lsn::new(place_of(kept)).to_wal_text());
    (0..column.len()).map(text).collect()
}

/// Numbers of any number of digits as PostgreSQL writes them.
fn numbers(column: &ArrayRef) -> StringArray {
    let text = |row| match value_at(column, row) {
        ValueRef::Number(number) => Some(number.to_string()),
        _ => None,
    };
    (0..column.len()).map(text).collect()
}

/// Values of a type as PostgreSQL writes them, in which no session's time zone has a part.
fn written(column: &ArrayRef, ty: ColumnType) -> StringArray {
    let text = |row| match value_at(column, row) {
        ValueRef::Null => None,
        value => Some(text_without_zone(value, ty)),
    };
    (0..column.len()).map(text).collect()
}

fn labelled(column: &ArrayRef, labels: &Labels) -> Result<ArrayRef, ArrowError> {
    let column = column.as_struct();
    let places = column.column(0).as_primitive::<Int64Type>();
    let code = |place: i64| {
        let index = labels.places.binary_search(&place).ok();
        let code = index.and_then(|index| i32::try_from(index).ok());
        code.ok_or_else(|| ArrowError::ComputeError(format!("an enum has no label at {place}")))
    };
    let codes = places.iter().map(|place| place.map(code).transpose()).collect::<Result<Int32Array, _>>()?;
    Ok(Arc::new(DictionaryArray::try_new(codes, Arc::clone(&labels.names))?))
}

#[cfg(test)]
mod tests;
