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
    batch.columns().iter().map(bytes_of_array).sum()
}

/// The same of a column. Arrow does not count texts that stand beside their views, and counts all elements of the lists of a larger column.
fn bytes_of_array(array: &ArrayRef) -> Result<usize, ArrowError> {
    let bytes_of_nulls = || array.nulls().map_or(0, |_| array.len().div_ceil(8));
    match array.data_type() {
        DataType::Utf8View => Ok(slots(array)? + array.as_string_view().total_buffer_bytes_used()),
        DataType::BinaryView => Ok(slots(array)? + array.as_binary_view().total_buffer_bytes_used()),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            let (first, last) = (offsets[0] as usize, offsets[lists.len()] as usize);
            let elements = bytes_of_array(&lists.values().slice(first, last - first))?;
            Ok(size_of_val(offsets) + bytes_of_nulls() + elements)
        }
        DataType::Struct(_) => {
            let fields = array.as_struct().columns().iter().map(bytes_of_array);
            Ok(bytes_of_nulls() + fields.sum::<Result<usize, ArrowError>>()?)
        }
        _ => slots(array),
    }
}

/// As Arrow counts it.
fn slots(array: &ArrayRef) -> Result<usize, ArrowError> {
    array.to_data().get_slice_memory_size()
}

#[cfg(test)]
mod tests {
    use super::bytes_of;
    use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringViewArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;
    use std::sync::Arc;

    const TEXT_BYTES: usize = 1000;

    fn bytes(column: ArrayRef) -> usize {
        bytes_of(&RecordBatch::try_from_iter([("c", column)]).unwrap()).unwrap()
    }

    /// So many long texts.
    fn texts(count: usize) -> ArrayRef {
        Arc::new(std::iter::repeat_n(Some("t".repeat(TEXT_BYTES)), count).collect::<StringViewArray>())
    }

    /// The elements in lists of ten.
    fn lists(elements: ArrayRef) -> ArrayRef {
        let field = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(10, elements.len() / 10));
        Arc::new(ListArray::new(field, offsets, elements, None))
    }

    #[test]
    fn texts_count_wherever_they_stand() {
        let field = Arc::new(Field::new("f", texts(1).data_type().clone(), true));
        let in_struct: ArrayRef = Arc::new(StructArray::from(vec![(field, texts(100))]));
        for column in [texts(100), lists(texts(100)), in_struct] {
            let counted = bytes(Arc::clone(&column));
            let are_all = (100 * TEXT_BYTES..110 * TEXT_BYTES).contains(&counted);
            assert!(are_all, "{counted} of {}", column.data_type());
        }
    }

    #[test]
    fn of_a_part_it_is_the_part() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        for whole in [lists(Arc::clone(&numbers)), lists(texts(1000)), numbers] {
            let rows = whole.len();
            let parts = (0..10).map(|part| bytes(whole.slice(part * rows / 10, rows / 10))).sum::<usize>();
            assert!(parts <= bytes(Arc::clone(&whole)) + 100, "{parts} of {}", whole.data_type());
        }
    }
}
