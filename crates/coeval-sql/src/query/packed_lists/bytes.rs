// SPDX-License-Identifier: Apache-2.0
//! An array as the bytes of one value.
//!
//! Elements of a fixed width are copied as they are, behind a byte that says whether a NULL is among them, and a byte for each that
//! says whether it is there in that case. Others are written as Arrow's rows. NULL is NULL.

use arrow::array::{
    Array, ArrayData, ArrayRef, BinaryArray, BinaryViewArray, BinaryViewBuilder, BooleanBufferBuilder,
    ListArray, make_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, internal_datafusion_err};
use std::sync::Arc;

/// How arrays with elements of a type are written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Format {
    element: FieldRef,
    /// Bytes of each element; `None` for those that have no fixed width.
    width: Option<usize>,
}

impl Format {
    /// The format for a type; `None` if it is no array, or one of elements that cannot be written.
    pub(super) fn of(ty: &DataType) -> Option<Self> {
        let DataType::List(element) = ty else { return None };
        let width = element.data_type().primitive_width();
        let is_writable = width.is_some() || RowConverter::supports_fields(&[SortField::new(ty.clone())]);
        is_writable.then(|| Self { element: Arc::clone(element), width })
    }

    fn rows(&self) -> Result<RowConverter> {
        Ok(RowConverter::new(vec![SortField::new(DataType::List(Arc::clone(&self.element)))])?)
    }

    /// Each array as a value.
    pub(super) fn packed(&self, lists: &ListArray) -> Result<ArrayRef> {
        let Some(width) = self.width else {
            let rows: BinaryArray =
                self.rows()?.convert_columns(&[Arc::new(lists.clone())])?.try_into_binary()?;
            let (offsets, values, _) = rows.into_parts();
            let rows = BinaryArray::try_new(offsets, values, lists.nulls().cloned())?;
            return Ok(cast(&rows, &DataType::BinaryView)?);
        };
        let elements = lists.values().to_data();
        let values = elements.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
        let first = elements.offset();
        let mut packed = BinaryViewBuilder::with_capacity(lists.len());
        let mut bytes = Vec::new();
        for row in 0..lists.len() {
            if lists.is_null(row) {
                packed.append_null();
                continue;
            }
            let offsets = lists.value_offsets();
            let places = offsets[row] as usize..offsets[row + 1] as usize;
            bytes.clear();
            match lists.values().nulls().filter(|nulls| places.clone().any(|place| nulls.is_null(place))) {
                Some(nulls) => {
                    bytes.push(1);
                    bytes.extend(places.clone().map(|place| u8::from(nulls.is_valid(place))));
                }
                None => bytes.push(0),
            }
            bytes.extend_from_slice(&values[(first + places.start) * width..(first + places.end) * width]);
            packed.try_append_value(&bytes)?;
        }
        Ok(Arc::new(packed.finish()))
    }

    /// The arrays of their values.
    pub(super) fn unpacked(&self, packed: &BinaryViewArray) -> Result<ArrayRef> {
        let Some(width) = self.width else {
            let converter = self.rows()?;
            let missing = converter.convert_columns(&[arrow::array::new_null_array(
                &DataType::List(Arc::clone(&self.element)),
                1,
            )])?;
            let parser = converter.parser();
            let rows = packed.iter().map(|value| value.map_or(missing.row(0), |bytes| parser.parse(bytes)));
            let mut columns = converter.convert_rows(rows)?;
            return columns.pop().ok_or_else(|| internal_datafusion_err!("rows of one column"));
        };
        let mut values: Vec<u8> = Vec::new();
        let mut lengths = Vec::with_capacity(packed.len());
        let mut valid = BooleanBufferBuilder::new(0);
        for value in packed.iter() {
            let Some((&has_nulls, bytes)) = value.and_then(<[u8]>::split_first) else {
                lengths.push(0);
                continue;
            };
            let length = bytes.len() / (width + usize::from(has_nulls));
            let bytes = match has_nulls {
                0 => {
                    valid.append_n(length, true);
                    bytes
                }
                _ => {
                    bytes[..length].iter().for_each(|is_valid| valid.append(*is_valid == 1));
                    &bytes[length..]
                }
            };
            values.extend_from_slice(bytes);
            lengths.push(length);
        }
        let elements = ArrayData::builder(self.element.data_type().clone())
            .len(valid.len())
            // The copy is aligned as its type needs it.
            .align_buffers(true)
            .add_buffer(Buffer::from_vec(values))
            .nulls(Some(NullBuffer::new(valid.finish())).filter(|nulls| nulls.null_count() > 0))
            .build()?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let lists = ListArray::try_new(
            Arc::clone(&self.element),
            offsets,
            make_array(elements),
            packed.nulls().cloned(),
        )?;
        Ok(Arc::new(lists))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Builder, ListBuilder, StringViewBuilder};

    fn assert_kept(lists: ListArray) {
        let format = Format::of(lists.data_type()).unwrap();
        for lists in [lists.slice(1, lists.len() - 1), lists] {
            let packed = format.packed(&lists).unwrap();
            let packed = packed.as_any().downcast_ref::<BinaryViewArray>().unwrap();
            let unpacked = format.unpacked(packed).unwrap();
            assert_eq!(unpacked.to_data(), ArrayRef::from(Arc::new(lists) as ArrayRef).to_data());
        }
    }

    #[test]
    fn arrays_come_back_as_they_went() {
        let mut numbers = ListBuilder::new(Int64Builder::new());
        numbers.append_value([Some(1), Some(i64::MIN)]);
        numbers.append_null();
        numbers.append_value([None, Some(7), None]);
        numbers.append_value(std::iter::empty::<Option<i64>>());
        numbers.append_value([Some(0)]);
        assert_kept(numbers.finish());

        let mut texts = ListBuilder::new(StringViewBuilder::new());
        texts.append_value([Some("a"), None, Some("a text that is longer than a view")]);
        texts.append_null();
        texts.append_value(std::iter::empty::<Option<&str>>());
        texts.append_value([Some("")]);
        assert_kept(texts.finish());
    }
}
