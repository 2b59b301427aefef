// SPDX-License-Identifier: Apache-2.0
//! The strings of a load that are in no dictionary yet: all of its good rows' are entered, or none.
//!
//! A row whose strings do not all fit brings none of them. To know that, the dictionaries of all columns are held
//! while the rows with new strings are gone through, in the order of the load; concurrent loads take turns here, and
//! find what others have entered meanwhile. If more rows turn out to be bad than may be, everything is taken back: so
//! a refused load uses up nothing of a dimension's cardinality.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

use crate::declaration::Column;
use crate::dictionaries::Dictionaries;
use crate::dictionary::Entering;
use crate::load::{LoadError, RejectReason};
use crate::rejections::Rejections;
use crate::schema::BrickSchema;

/// The strings of one column of one batch, as far as they had codes.
pub(crate) struct EncodedColumn {
    pub(crate) column: usize,
    /// 0 for NULLs, and for strings without a code.
    pub(crate) codes: Vec<u32>,
    /// The rows of strings that have no code yet, ascending.
    pub(crate) unknown: Vec<usize>,
}

/// A batch of a load and the strings of its columns.
pub(crate) struct EncodedBatch<'a> {
    pub(crate) batch: &'a RecordBatch,
    /// Its first row's place in the load.
    pub(crate) first_row: usize,
    /// In the order of the columns.
    pub(crate) columns: Vec<EncodedColumn>,
}

/// Enters the new strings of a load's good rows and puts their codes in place.
///
/// # Errors
/// If more rows are bad than may be; the dictionaries are as they were then.
pub(crate) fn enter_new_strings(
    schema: &BrickSchema,
    dictionaries: &Dictionaries,
    batches: &mut [EncodedBatch<'_>],
    rejections: &mut Rejections,
) -> Result<(), LoadError> {
    let mut columns: Vec<usize> = Vec::new();
    for column in batches.iter().flat_map(|batch| &batch.columns) {
        if !column.unknown.is_empty() && !columns.contains(&column.column) {
            columns.push(column.column);
        }
    }
    if columns.is_empty() {
        return Ok(());
    }
    // The order in which everybody takes the locks.
    columns.sort_unstable();
    let dictionary = |column: &usize| dictionaries.get(*column).expect("the column has strings");
    let mut entering: Vec<(usize, Entering<'_, '_>)> =
        columns.iter().map(|column| (*column, dictionary(column).enter())).collect();
    for batch in batches {
        enter_batch(schema, &mut entering, batch, rejections)?;
    }
    entering.into_iter().for_each(|(_, entering)| entering.keep());
    Ok(())
}

fn enter_batch<'a>(
    schema: &BrickSchema,
    entering: &mut [(usize, Entering<'_, 'a>)],
    batch: &mut EncodedBatch<'a>,
    rejections: &mut Rejections,
) -> Result<(), LoadError> {
    let arrays = batch.batch.columns();
    let mut rows: Vec<usize> = batch.columns.iter().flat_map(|column| &column.unknown).copied().collect();
    rows.sort_unstable();
    rows.dedup();
    let mut next = vec![0; batch.columns.len()];
    for row in rows {
        // The row's new strings: the column's place among those of the batch, and among those that enter.
        let mut fresh: Vec<(usize, usize)> = Vec::new();
        for (place, column) in batch.columns.iter_mut().enumerate() {
            if column.unknown.get(next[place]) != Some(&row) {
                continue;
            }
            next[place] += 1;
            let at = entering.iter().position(|(entered, _)| *entered == column.column);
            let at = at.expect("columns with new strings are entered");
            match entering[at].1.code(string_at(&arrays[column.column], row)) {
                Some(code) => column.codes[row] = code,
                None => fresh.push((place, at)),
            }
        }
        let full = fresh.iter().find(|(_, at)| !entering[*at].1.has_room());
        if let Some((_, at)) = full {
            let column = entering[*at].0;
            let value = string_at(&arrays[column], row);
            rejections.add(batch.first_row + row, || too_many(&schema.columns()[column], value))?;
            continue;
        }
        for (place, at) in fresh {
            let column = &mut batch.columns[place];
            column.codes[row] = entering[at].1.add(string_at(&arrays[column.column], row));
        }
    }
    Ok(())
}

fn too_many(column: &Column, value: &str) -> RejectReason {
    let cardinality = match column {
        Column::Dimension(dimension) => dimension.cardinality,
        Column::Metric(_) => u64::from(u32::MAX),
    };
    RejectReason::TooManyStrings { column: column.name().to_owned(), value: value.to_owned(), cardinality }
}

/// A row's string; it has one.
fn string_at(array: &ArrayRef, row: usize) -> &str {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        DataType::Utf8View => array.as_string_view().value(row),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            assert!(dictionary.keys().is_valid(row), "a NULL is no new string");
            string_at(dictionary.values(), key_at(dictionary.keys(), row))
        }
        other => unreachable!("{other} was refused as a string column"),
    }
}

/// A key of a dictionary array.
fn key_at(keys: &dyn Array, row: usize) -> usize {
    let data = keys.to_data();
    let key = match data.data_type() {
        DataType::Int8 => i64::from(data.buffer::<i8>(0)[row]),
        DataType::UInt8 => i64::from(data.buffer::<u8>(0)[row]),
        DataType::Int16 => i64::from(data.buffer::<i16>(0)[row]),
        DataType::UInt16 => i64::from(data.buffer::<u16>(0)[row]),
        DataType::Int32 => i64::from(data.buffer::<i32>(0)[row]),
        DataType::UInt32 => i64::from(data.buffer::<u32>(0)[row]),
        DataType::Int64 => data.buffer::<i64>(0)[row],
        DataType::UInt64 => data.buffer::<u64>(0)[row] as i64,
        other => unreachable!("{other} is no type of keys"),
    };
    usize::try_from(key).expect("valid keys are places among the values")
}
