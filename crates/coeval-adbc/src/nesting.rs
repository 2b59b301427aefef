// SPDX-License-Identifier: Apache-2.0
//! Arrays of lists and structs, and places in unions, as ADBC's metadata is nested.

use adbc_core::error::Result;
use arrow::array::{ArrayRef, ListArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use std::sync::Arc;

/// The fields of a struct's type.
pub(crate) fn fields_of(ty: &DataType) -> Fields {
    match ty {
        DataType::Struct(fields) => fields.clone(),
        _ => Fields::empty(),
    }
}

/// Structs of these columns.
///
/// # Errors
/// If they are not of the types of its fields.
pub(crate) fn structs(ty: &DataType, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
    Ok(Arc::new(StructArray::try_new(fields_of(ty), columns, None)?))
}

/// Lists of so many of the items each, one after the other; NULL where no number is given.
///
/// # Errors
/// If the lengths are not those of the items.
pub(crate) fn lists(lengths: &[Option<usize>], items: ArrayRef) -> Result<ArrayRef> {
    let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0)));
    let nulls: NullBuffer = lengths.iter().map(Option::is_some).collect();
    Ok(Arc::new(ListArray::try_new(item, offsets, items, Some(nulls))?))
}

/// Puts a value of a member of a dense union behind the others of that member: its place among them.
pub(crate) fn pushed<T>(values: &mut Vec<T>, value: T) -> i32 {
    values.push(value);
    i32::try_from(values.len()).unwrap_or(i32::MAX) - 1
}
