// SPDX-License-Identifier: Apache-2.0
//! Numbers in the order of a column's values, NULLs and direction included.

use super::best::FREE;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Schema, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use std::fmt;
use std::sync::Arc;

/// NULLs that come last: before free places.
const LAST: i128 = FREE - 1;

/// NULLs that come first.
const FIRST: i128 = i128::MIN;

/// Bytes of a text that a key has.
const PREFIX_BYTES: usize = 15;

/// What rows are compared by: the first column of an order.
#[derive(Clone, Debug)]
pub(super) struct OrderKey {
    expression: Arc<dyn PhysicalExpr>,
    options: SortOptions,
    is_exact: bool,
}

impl fmt::Display for OrderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.expression, if self.options.descending { " DESC" } else { "" })
    }
}

impl OrderKey {
    /// `None` if the type has no keys, or the expression gives something else each time.
    pub(super) fn of(first: &PhysicalSortExpr, schema: &Schema) -> Option<Self> {
        let kind = first.expr.data_type(schema).ok().filter(|_| !is_volatile(&first.expr))?;
        let is_exact = match kind {
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => false,
            DataType::Boolean
            | DataType::Date32
            | DataType::Date64
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Timestamp(TimeUnit::Microsecond, _)
            | DataType::Decimal128(..)
            | DataType::Float32
            | DataType::Float64 => true,
            ref integer if integer.is_integer() => true,
            _ => return None,
        };
        Some(Self { expression: Arc::clone(&first.expr), options: first.options, is_exact })
    }

    /// Whether rows with equal keys have equal values.
    pub(super) fn is_exact(&self) -> bool {
        self.is_exact
    }

    pub(super) fn expression(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expression
    }

    /// What it was made of.
    pub(super) fn sort_expression(&self) -> PhysicalSortExpr {
        PhysicalSortExpr::new(Arc::clone(&self.expression), self.options)
    }

    /// The keys of a batch.
    pub(super) fn keys(&self, batch: &RecordBatch, keys: &mut Vec<i128>) -> Result<()> {
        let array = self.expression.evaluate(batch)?.into_array(batch.num_rows())?;
        keys.clear();
        add_values(&array, keys)?;
        if self.options.descending {
            keys.iter_mut().for_each(|key| *key = !*key);
        }
        // Beyond all decimals: places for NULLs stay free.
        keys.iter_mut().for_each(|key| *key = (*key).clamp(FIRST + 1, LAST - 1));
        if let Some(nulls) = array.logical_nulls() {
            let null = if self.options.nulls_first { FIRST } else { LAST };
            (0..array.len()).filter(|&row| nulls.is_null(row)).for_each(|row| keys[row] = null);
        }
        Ok(())
    }
}

/// The values as numbers, ascending; anything for NULLs.
fn add_values(array: &ArrayRef, keys: &mut Vec<i128>) -> Result<()> {
    macro_rules! integers {
        ($kind:ty) => {
            keys.extend(array.as_primitive::<$kind>().values().iter().map(|&value| i128::from(value)))
        };
    }
    match array.data_type() {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Date32 => integers!(Date32Type),
        DataType::Date64 => integers!(Date64Type),
        DataType::Time64(TimeUnit::Microsecond) => integers!(Time64MicrosecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType),
        DataType::Decimal128(..) => integers!(Decimal128Type),
        DataType::Float32 => keys.extend(
            array.as_primitive::<Float32Type>().values().iter().map(|&value| of_float(f64::from(value))),
        ),
        DataType::Float64 => {
            keys.extend(array.as_primitive::<Float64Type>().values().iter().map(|&value| of_float(value)));
        }
        DataType::Boolean => keys.extend(array.as_boolean().values().iter().map(i128::from)),
        DataType::Utf8 => keys.extend(array.as_string::<i32>().iter().map(of_text)),
        DataType::LargeUtf8 => keys.extend(array.as_string::<i64>().iter().map(of_text)),
        DataType::Utf8View => keys.extend(array.as_string_view().iter().map(of_text)),
        DataType::Binary => keys.extend(array.as_binary::<i32>().iter().map(of_bytes)),
        DataType::LargeBinary => keys.extend(array.as_binary::<i64>().iter().map(of_bytes)),
        DataType::BinaryView => keys.extend(array.as_binary_view().iter().map(of_bytes)),
        other => return internal_err!("an order by {other} has no keys"),
    }
    Ok(())
}

/// In the total order of floats, as sorts have it.
fn of_float(value: f64) -> i128 {
    let bits = value.to_bits().cast_signed();
    i128::from(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
}

fn of_text(text: Option<&str>) -> i128 {
    of_bytes(text.map(str::as_bytes))
}

/// The first bytes, zeros behind a shorter one: texts that differ there alone have equal keys.
fn of_bytes(bytes: Option<&[u8]>) -> i128 {
    let bytes = bytes.unwrap_or_default();
    let mut prefix = [0; 16];
    let length = bytes.len().min(PREFIX_BYTES);
    prefix[1..=length].copy_from_slice(&bytes[..length]);
    i128::from_be_bytes(prefix)
}
