// SPDX-License-Identifier: Apache-2.0
//! Values and DataFusion's scalars.

use crate::error::SqlError;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use coeval_store::{ColumnBuilder, ColumnType, Value, place_of, value_at};
use datafusion::common::ScalarValue;

/// The scalar of this type with this value.
///
/// # Errors
/// If the value is not of the type's physical kind.
pub(crate) fn scalar_of(value: &Value, ty: ColumnType) -> Result<ScalarValue, SqlError> {
    let arrow = ty.arrow();
    let mismatch = || SqlError::internal(format!("a value of another kind where {ty} was expected"));
    Ok(match (value, arrow) {
        (Value::Null, arrow) => ScalarValue::try_from(&arrow)?,
        (Value::Boolean(v), DataType::Boolean) => ScalarValue::Boolean(Some(*v)),
        (Value::Int16(v), DataType::Int16) => ScalarValue::Int16(Some(*v)),
        (Value::Int32(v), DataType::Int32) => ScalarValue::Int32(Some(*v)),
        (Value::Int32(v), DataType::Date32) => ScalarValue::Date32(Some(*v)),
        (Value::Int64(v), DataType::Int64) => ScalarValue::Int64(Some(*v)),
        (Value::Int64(v), DataType::Time64(_)) => ScalarValue::Time64Microsecond(Some(*v)),
        (Value::Int64(v), DataType::Timestamp(_, zone)) => ScalarValue::TimestampMicrosecond(Some(*v), zone),
        (Value::Float32(v), DataType::Float32) => ScalarValue::Float32(Some(*v)),
        (Value::Float64(v), DataType::Float64) => ScalarValue::Float64(Some(*v)),
        (Value::Decimal(v), DataType::Decimal128(precision, scale)) => {
            ScalarValue::Decimal128(Some(*v), precision, scale)
        }
        (Value::Number(v), DataType::LargeBinary) => {
            ScalarValue::LargeBinary(Some(v.borrow().as_bytes().to_vec()))
        }
        (Value::Text(v), DataType::Utf8View) => ScalarValue::Utf8View(Some(v.to_string())),
        (Value::Bytes(v), DataType::BinaryView) => ScalarValue::BinaryView(Some(v.to_vec())),
        (Value::Bytes(v), DataType::Binary) => ScalarValue::Binary(Some(v.to_vec())),
        (Value::Interval(v), DataType::Interval(_)) => ScalarValue::IntervalMonthDayNano(Some(
            IntervalMonthDayNano::new(v.months, v.days, v.nanoseconds),
        )),
        (Value::Int64(v), DataType::FixedSizeBinary(size)) => {
            ScalarValue::FixedSizeBinary(size, Some(place_of(*v).to_be_bytes().to_vec()))
        }
        (Value::Bytes(v), DataType::FixedSizeBinary(size)) => {
            ScalarValue::FixedSizeBinary(size, Some(v.to_vec()))
        }
        (Value::Uuid(v), DataType::FixedSizeBinary(size)) => {
            ScalarValue::FixedSizeBinary(size, Some(v.to_vec()))
        }
        (Value::List(_), DataType::List(_)) | (Value::Int64(_), DataType::Struct(_)) => {
            let mut builder = ColumnBuilder::new(ty, 1);
            builder.push(value.borrow());
            ScalarValue::try_from_array(&builder.finish(), 0)?
        }
        _ => return Err(mismatch()),
    })
}

/// The value of a scalar, cast to this type.
///
/// # Errors
/// If the scalar cannot be cast.
pub(crate) fn value_of_scalar(scalar: &ScalarValue, ty: ColumnType) -> Result<Value, SqlError> {
    if scalar.is_null() {
        return Ok(Value::Null);
    }
    if scalar.data_type() == DataType::LargeBinary || ty == ColumnType::AnyNumeric {
        let array = super::assign::assign_array(&scalar.to_array()?, ty, chrono_tz::Tz::UTC)?;
        return Ok(value_at(&array, 0).to_owned());
    }
    let array: ArrayRef = scalar.cast_to(&ty.arrow())?.to_array()?;
    Ok(value_at(&array, 0).to_owned())
}
