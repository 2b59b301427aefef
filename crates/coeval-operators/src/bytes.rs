// SPDX-License-Identifier: Apache-2.0
//! The memory of batches that an operator keeps.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// What the rows of a batch take; of columns that are parts of larger ones it is the part.
///
/// # Errors
///
/// None for the types that there are.
pub(crate) fn bytes_of(batch: &RecordBatch) -> Result<usize, ArrowError> {
    let of_column = |column: &ArrayRef| Ok(column.to_data().get_slice_memory_size()? + beside(column));
    batch.columns().iter().map(of_column).sum()
}

/// Texts that stand beside their views, which Arrow does not count.
fn beside(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    }
}
