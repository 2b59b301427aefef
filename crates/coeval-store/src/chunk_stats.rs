// SPDX-License-Identifier: Apache-2.0
//! What is known of a chunk without reading it: how many rows, and of each column its bounds and how many NULLs.

use crate::value::Value;
use arrow::array::{Array, AsArray};
use arrow::compute::kernels::aggregate;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};

/// Smallest and greatest value of a column in a chunk, and how many NULLs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStats {
    /// The least value; `None` if unknown or all are NULL.
    pub min: Option<Value>,
    /// The greatest value; `None` if unknown or all are NULL.
    pub max: Option<Value>,
    /// How many values are NULL.
    pub null_count: u64,
}

/// What is known of a chunk without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkStats {
    /// How many rows.
    pub rows: usize,
    /// Per column, in the table's column order; shorter if columns were added later.
    pub columns: Vec<ColumnStats>,
}

/// Longest text kept as a minimum or maximum: enough to prune by, bounded in the manifest.
const STATS_TEXT_MAX: usize = 64;

/// What is known of a column with these values.
pub(crate) fn column_stats(array: &dyn Array) -> ColumnStats {
    macro_rules! primitive {
        ($type:ty, $variant:ident) => {{
            let array = array.as_primitive::<$type>();
            (aggregate::min(array).map(Value::$variant), aggregate::max(array).map(Value::$variant))
        }};
    }
    let (min, max) = match array.data_type() {
        DataType::Int16 => primitive!(Int16Type, Int16),
        DataType::Int32 => primitive!(Int32Type, Int32),
        DataType::Int64 => primitive!(Int64Type, Int64),
        DataType::Float32 => primitive!(Float32Type, Float32),
        DataType::Float64 => primitive!(Float64Type, Float64),
        DataType::Decimal128(_, _) => primitive!(Decimal128Type, Decimal),
        DataType::Date32 => primitive!(Date32Type, Int32),
        DataType::Time64(_) => primitive!(Time64MicrosecondType, Int64),
        DataType::Timestamp(_, _) => primitive!(TimestampMicrosecondType, Int64),
        DataType::Boolean => {
            let array = array.as_boolean();
            (
                aggregate::min_boolean(array).map(Value::Boolean),
                aggregate::max_boolean(array).map(Value::Boolean),
            )
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            let short = |text: &str| (text.len() <= STATS_TEXT_MAX).then(|| Value::from(text));
            (
                aggregate::min_string_view(array).and_then(short),
                aggregate::max_string_view(array).and_then(short),
            )
        }
        _ => (None, None),
    };
    ColumnStats { min, max, null_count: array.logical_null_count() as u64 }
}
