// SPDX-License-Identifier: Apache-2.0
//! What is the same in every PostgreSQL database: types, functions, operators, casts, collations.
//!
//! The rows are those that `datafusion-pg-catalog` carries, fitted to the columns and types that PostgreSQL 15
//! gives the relations: arrays there are text, columns of later versions are left out, missing ones are NULL or
//! zero.

use crate::error::SqlError;
use crate::relations::{Column, Relation, RelationKind, library_table};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The fixed rows of a relation; none if it has none.
///
/// # Errors
/// If the library's tables do not fit: a bug.
pub(super) fn batches(relation: &'static Relation) -> Result<Vec<RecordBatch>, SqlError> {
    /// # Locking
    /// Held while one relation's rows are fitted; nothing else is locked meanwhile.
    static FITTED: Mutex<Option<HashMap<&'static str, Vec<RecordBatch>>>> = Mutex::new(None);
    let Some(table) = library_table(relation.name)? else { return Ok(Vec::new()) };
    let mut fitted = FITTED.lock();
    let fitted = fitted.get_or_insert_default();
    if let Some(batches) = fitted.get(relation.name) {
        return Ok(batches.clone());
    }
    let batches = table.data().iter().map(|batch| fit(relation, batch)).collect::<Result<Vec<_>, _>>()?;
    fitted.insert(relation.name, batches.clone());
    Ok(batches)
}

fn fit(relation: &Relation, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
    let batch = &kept_rows(relation, batch)?;
    let arrays: Vec<ArrayRef> = relation
        .columns
        .iter()
        .map(|column| match batch.column_by_name(column.name) {
            // Nobody has been granted anything on what is the same in every database.
            _ if column.type_name == "_aclitem" => Ok(new_null_array(&column.arrow(), batch.num_rows())),
            Some(array) => fit_array(column, array),
            None => missing(relation, column, batch.num_rows()),
        })
        .collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(relation.arrow(), arrays, &options)?)
}

/// The rows but those of types that belong to the exporting database's own relations.
fn kept_rows(relation: &Relation, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
    let Some(relations) = batch.column_by_name("typrelid").filter(|_| relation.name == "pg_type") else {
        return Ok(batch.clone());
    };
    let names = cast(batch.column_by_name("typname").unwrap_or(relations), &DataType::Utf8)?;
    let relations = relations.as_primitive::<arrow::datatypes::Int32Type>();
    let names = names.as_string::<i32>();
    let is_row_type = |row: usize| relations.value(row) != 0 || names.value(row).starts_with("_pg_");
    let keep: arrow::array::BooleanArray = (0..batch.num_rows()).map(|row| Some(!is_row_type(row))).collect();
    Ok(arrow::compute::filter_record_batch(batch, &keep)?)
}

fn missing(relation: &Relation, column: &Column, rows: usize) -> Result<ArrayRef, SqlError> {
    let ty = column.arrow();
    if relation.kind == RelationKind::View || !column.is_never_null() {
        return Ok(new_null_array(&ty, rows));
    }
    Ok(ScalarValue::new_default(&ty)?.to_array_of_size(rows)?)
}

/// The column as the type it has here; texts that stand for arrays are read.
fn fit_array(column: &Column, array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let ty = column.arrow();
    if let (DataType::List(element), DataType::Utf8) = (&ty, array.data_type()) {
        let texts = array.as_string::<i32>();
        // The library writes arrays in brackets, with names in quotes.
        let braced = |text: &str| match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            Some(inner) => format!("{{{}}}", inner.replace('\'', "\"").replace(", ", ",")),
            None => text.to_owned(),
        };
        let lists = texts.iter().map(|text| {
            super::functions::array_of_text(
                text.map(braced).as_deref(),
                element.data_type(),
                chrono_tz::Tz::UTC,
            )
        });
        return Ok(ScalarValue::iter_to_array(lists.collect::<Result<Vec<_>, _>>()?)?);
    }
    Ok(cast(array, &ty)?)
}

#[cfg(test)]
mod tests;
