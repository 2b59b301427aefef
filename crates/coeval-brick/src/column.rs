// SPDX-License-Identifier: Apache-2.0
//! Values of a column: as a load brings them, and as a block of a brick holds them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayData, ArrayRef, BooleanArray, DictionaryArray, StringArray, UInt32Array, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;

use crate::bits::RowBits;
use crate::declaration::{Nulls, Storage};
use crate::fixed_buffer::{FixedBuffer, FixedBufferWriter, fixed_buffer};
use crate::statistics::ColumnStatistics;

/// The bytes of a dictionary code.
pub(crate) const CODE_BYTES: usize = size_of::<u32>();

/// The rows of a large brick's blocks: long enough that a block's own cost vanishes, short enough that the unused
/// end of the last one, and what a zone map covers, stay small.
pub(crate) const BLOCK_ROWS_MAX: usize = 1 << 16;

/// The values of some rows, wherever they are.
#[derive(Clone, Debug)]
pub(crate) struct ColumnValues {
    pub(crate) values: Values,
    /// Set for the rows that are NULL.
    pub(crate) nulls: Option<BooleanBuffer>,
}

/// See [`ColumnValues`].
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// So many bytes for each row.
    Bytes(usize, Buffer),
    /// A bit for each row.
    Bits(BooleanBuffer),
}

impl ColumnValues {
    /// These values as an Arrow array of `data_type`. Strings need the column's `dictionary`.
    pub(crate) fn to_array(
        &self,
        data_type: &DataType,
        rows: usize,
        dictionary: Option<&Arc<StringArray>>,
    ) -> ArrayRef {
        let nulls = self.nulls.as_ref().map(|nulls| NullBuffer::new(!nulls));
        match (&self.values, dictionary) {
            (Values::Bits(bits), _) => Arc::new(BooleanArray::new(bits.clone(), nulls)),
            (Values::Bytes(_, codes), Some(dictionary)) => {
                let codes = UInt32Array::new(ScalarBuffer::new(codes.clone(), 0, rows), nulls);
                let values = Arc::clone(dictionary) as ArrayRef;
                Arc::new(
                    DictionaryArray::try_new(codes, values)
                        .expect("each code has been entered before its row"),
                )
            }
            (Values::Bytes(_, bytes), None) => {
                let data =
                    ArrayData::builder(data_type.clone()).len(rows).add_buffer(bytes.clone()).nulls(nulls);
                make_array(data.build().expect("the bytes are those of so many values of the type"))
            }
        }
    }

    /// What is known of these values.
    pub(crate) fn statistics(&self, data_type: &DataType, rows: usize) -> ColumnStatistics {
        match &self.values {
            Values::Bytes(_, bytes) => {
                ColumnStatistics::of_values(data_type, bytes, rows, self.nulls.as_ref())
            }
            Values::Bits(_) => ColumnStatistics::of_nulls(rows, self.nulls.as_ref()),
        }
    }
}

/// A column of a block, for readers.
pub(crate) struct StoredColumn {
    values: StoredValues,
    nulls: Option<RowBits>,
}

enum StoredValues {
    Bytes(usize, FixedBuffer),
    Bits(RowBits),
}

impl StoredColumn {
    /// An empty column for `capacity` rows, and its writer if it has one of its own.
    pub(crate) fn new(storage: Storage, nulls: Nulls, capacity: usize) -> (Self, Option<FixedBufferWriter>) {
        let nulls = (nulls == Nulls::Allowed).then(|| RowBits::new(capacity));
        let bytes = |width: usize| {
            let (writer, buffer) = fixed_buffer(width * capacity);
            (StoredValues::Bytes(width, buffer), Some(writer))
        };
        let (values, writer) = match storage {
            Storage::Fixed(width) => bytes(width),
            Storage::Code => bytes(CODE_BYTES),
            Storage::Bit => (StoredValues::Bits(RowBits::new(capacity)), None),
        };
        (Self { values, nulls }, writer)
    }

    /// Appends the values of the rows `from` of `source`; the column has `rows` so far. Called by the block's
    /// writer only, before it publishes the rows.
    pub(crate) fn append(
        &self,
        writer: &mut Option<FixedBufferWriter>,
        rows: usize,
        source: &ColumnValues,
        from: Range<usize>,
    ) {
        match (&self.values, &source.values, writer) {
            (StoredValues::Bytes(width, _), Values::Bytes(source_width, bytes), Some(writer)) => {
                assert_eq!(width, source_width, "values of one column have one width");
                writer.append(&bytes[from.start * width..from.end * width]);
            }
            (StoredValues::Bits(bits), Values::Bits(source), None) => {
                bits.set(rows, &source.slice(from.start, from.len()))
            }
            _ => unreachable!("a load is laid out as the schema says"),
        }
        if let Some(nulls) = &source.nulls {
            let nulls = nulls.slice(from.start, from.len());
            match &self.nulls {
                Some(stored) => stored.set(rows, &nulls),
                None => assert_eq!(nulls.count_set_bits(), 0, "a column without NULLs gets none"),
            }
        }
    }

    /// The values of `rows`, all of which are published.
    pub(crate) fn read(&self, rows: Range<usize>) -> ColumnValues {
        let nulls = self.nulls.as_ref().filter(|nulls| nulls.any()).map(|nulls| nulls.read(rows.clone()));
        let nulls = nulls.filter(|nulls| nulls.count_set_bits() > 0);
        let values = match &self.values {
            StoredValues::Bytes(width, buffer) => {
                Values::Bytes(*width, buffer.slice(rows.start * width..rows.end * width))
            }
            StoredValues::Bits(bits) => Values::Bits(bits.read(rows)),
        };
        ColumnValues { values, nulls }
    }

    /// The bytes for each row.
    pub(crate) fn bytes_for(&self, rows: usize) -> usize {
        match &self.values {
            StoredValues::Bytes(width, _) => width * rows,
            StoredValues::Bits(_) => rows.div_ceil(8),
        }
    }

    /// The bytes of the null bits, by capacity.
    pub(crate) fn null_bytes(&self) -> usize {
        self.nulls.as_ref().map_or(0, RowBits::bytes)
    }
}
