// SPDX-License-Identifier: Apache-2.0
//! Rows whose texts come as numbers of the texts of a dictionary, and whose decimals come as 64-bit integers, though the operator was
//! planned for the texts themselves and for decimals of 128 bits.
//!
//! What the operator gives does not tell how rows came: its aggregate stays as it was planned. Who is left the rest of the rows gets them
//! as they were planned, too.

use crate::narrow_decimals::{planned_schema, wide};
use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, RecordBatchOptions, UInt16Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef, UInt16Type};
use arrow::error::ArrowError;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use std::sync::Arc;

/// Of each row the number of a text.
pub(super) type CodedTexts = DictionaryArray<UInt16Type>;

/// The columns of its input that are texts, and that an aggregate groups by as they are and reads for nothing else.
pub(super) fn grouped_texts(aggregate: &AggregateExec) -> Vec<usize> {
    let keys = || aggregate.group_expr().expr().iter().map(|(key, _)| key);
    let calls = aggregate.aggr_expr();
    let arguments = calls.iter().flat_map(|call| call.expressions());
    let orders = calls.iter().flat_map(|call| call.order_bys()).map(|by| Arc::clone(&by.expr));
    let filters = aggregate.filter_expr().iter().flatten().cloned();
    let computed = keys().filter(|key| column_of(key).is_none()).cloned();
    let expressions = arguments.chain(orders).chain(filters).chain(computed);
    let read: Vec<Column> = expressions.flat_map(|expression| collect_columns(&expression)).collect();
    let schema = aggregate.input().schema();
    let mut grouped: Vec<usize> = keys().filter_map(column_of).collect();
    grouped.retain(|index| {
        let is_text = *schema.field(*index).data_type() == DataType::Utf8View;
        is_text && read.iter().all(|column| column.index() != *index)
    });
    grouped
}

fn column_of(key: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    key.downcast_ref::<Column>().map(Column::index)
}

/// The schema that an aggregate's rows were planned with: with texts in the place of numbers of texts in what it groups by, and decimals of
/// 128 bits in the place of 64-bit integers; `None` if it is theirs. Dictionaries have no codes, so that whoever groups by one was planned for
/// its texts.
pub(super) fn schema_as_planned(rows: &SchemaRef, aggregate: &AggregateExec) -> Option<SchemaRef> {
    let planned = planned_schema(rows);
    let mut is_other = planned.is_some();
    let mut fields: Vec<FieldRef> = planned.as_ref().unwrap_or(rows).fields().iter().cloned().collect();
    for index in aggregate.group_expr().expr().iter().filter_map(|(key, _)| column_of(key)) {
        if let DataType::Dictionary(_, texts) = rows.field(index).data_type() {
            is_other = true;
            fields[index] = Arc::new(rows.field(index).clone().with_data_type(texts.as_ref().clone()));
        }
    }
    is_other.then(|| Arc::new(Schema::new_with_metadata(fields, rows.metadata().clone())))
}

/// The rows with texts and decimals of 128 bits where this schema has them and others have come.
pub(super) fn as_planned(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |(column, field): (&ArrayRef, &FieldRef)| {
        let is_expected = column.data_type() == field.data_type();
        match column.as_dictionary_opt::<UInt16Type>().filter(|_| !is_expected) {
            Some(coded) => text_of_each_row(coded),
            None => Ok(wide(column)),
        }
    };
    let columns = rows.columns().iter().zip(schema.fields()).map(column);
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The text of each row.
pub(super) fn text_of_each_row(coded: &CodedTexts) -> Result<ArrayRef, ArrowError> {
    let numbers = coded.keys();
    match numbers.values().first() {
        Some(first) if ascend_by_one(numbers) => Ok(coded.values().slice(usize::from(*first), numbers.len())),
        _ => take(coded.values(), numbers, None),
    }
}

/// Whether numbers are those of texts that follow one another: each row has a text of its own.
pub(super) fn ascend_by_one(numbers: &UInt16Array) -> bool {
    let follows = |pair: &[u16]| pair[0].checked_add(1) == Some(pair[1]);
    numbers.null_count() == 0 && numbers.values().windows(2).all(follows)
}
