// SPDX-License-Identifier: Apache-2.0
//! What is the same in every PostgreSQL database: types, functions, operators, casts, collations.
//!
//! The rows are those that `datafusion-pg-catalog` carries, fitted to the columns and types that PostgreSQL 15
//! gives the relations: arrays there are text, columns of later versions are left out, missing ones are NULL or
//! zero.

use super::relations::{Column, Relation, RelationKind};
use crate::error::SqlError;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion_pg_catalog::pg_catalog::{ArrowTable, PgCatalogStaticTables};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

/// The library's tables. They are decoded from memory: that they are well formed is tested.
static TABLES: LazyLock<Result<PgCatalogStaticTables, String>> =
    LazyLock::new(|| PgCatalogStaticTables::try_new().map_err(|error| error.to_string()));

/// The fixed rows of a relation; none if it has none.
///
/// # Errors
/// If the library's tables do not fit: a bug.
pub(super) fn batches(relation: &'static Relation) -> Result<Vec<RecordBatch>, SqlError> {
    /// # Locking
    /// Held while one relation's rows are fitted; nothing else is locked meanwhile.
    static FITTED: Mutex<Option<HashMap<&'static str, Vec<RecordBatch>>>> = Mutex::new(None);
    let Some(table) = table(relation.name)? else { return Ok(Vec::new()) };
    let mut fitted = FITTED.lock();
    let fitted = fitted.get_or_insert_default();
    if let Some(batches) = fitted.get(relation.name) {
        return Ok(batches.clone());
    }
    let batches = table.data().iter().map(|batch| fit(relation, batch)).collect::<Result<Vec<_>, _>>()?;
    fitted.insert(relation.name, batches.clone());
    Ok(batches)
}

fn table(name: &str) -> Result<Option<&'static Arc<ArrowTable>>, SqlError> {
    let tables = TABLES.as_ref().map_err(SqlError::internal)?;
    Ok(Some(match name {
        "pg_aggregate" => &tables.pg_aggregate,
        "pg_am" => &tables.pg_am,
        "pg_amop" => &tables.pg_amop,
        "pg_amproc" => &tables.pg_amproc,
        "pg_cast" => &tables.pg_cast,
        "pg_collation" => &tables.pg_collation,
        "pg_conversion" => &tables.pg_conversion,
        "pg_language" => &tables.pg_language,
        "pg_opclass" => &tables.pg_opclass,
        "pg_operator" => &tables.pg_operator,
        "pg_opfamily" => &tables.pg_opfamily,
        "pg_proc" => &tables.pg_proc,
        "pg_range" => &tables.pg_range,
        "pg_tablespace" => &tables.pg_tablespace,
        "pg_ts_config" => &tables.pg_ts_config,
        "pg_ts_dict" => &tables.pg_ts_dict,
        "pg_ts_parser" => &tables.pg_ts_parser,
        "pg_ts_template" => &tables.pg_ts_template,
        "pg_type" => &tables.pg_type,
        _ => return Ok(None),
    }))
}

/// The words that `pg_get_keywords` lists: word, category, description.
///
/// # Errors
/// If the library's tables do not fit: a bug.
pub(super) fn keywords() -> Result<&'static [RecordBatch], SqlError> {
    let tables = TABLES.as_ref().map_err(SqlError::internal)?;
    Ok(tables.pg_get_keywords.data())
}

/// The keywords that are special somewhere.
pub(super) fn special_keywords() -> HashSet<String> {
    let mut special = HashSet::new();
    for batch in keywords().unwrap_or_default() {
        let (words, categories) = (batch.column(0), batch.column(1));
        let (words, categories) = (words.as_string::<i32>(), categories.as_string::<i32>());
        let both = words.iter().zip(categories.iter());
        special.extend(
            both.filter(|(_, category)| *category != Some("U"))
                .filter_map(|(word, _)| word)
                .map(str::to_owned),
        );
    }
    special
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
