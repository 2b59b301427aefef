// SPDX-License-Identifier: Apache-2.0
//! Parameter values, brought to the types that a statement's parameters have.

use crate::error::{SqlError, SqlState};
use crate::types;
use chrono_tz::Tz;
use coeval_store::{ColumnType, Physical, Value, kept_zoned_time};
use std::borrow::Cow;

/// The values, each of its parameter's physical type. Allocates only if one has to be cast.
///
/// # Errors
/// What the cast says; `42804` if there is none.
pub(super) fn bind<'v>(
    values: &'v [Value],
    types: &[ColumnType],
    zone: Tz,
) -> Result<Cow<'v, [Value]>, SqlError> {
    if values.iter().zip(types).all(|(value, ty)| fits(value, *ty)) {
        return Ok(Cow::Borrowed(values));
    }
    let cast = values.iter().zip(types).enumerate().map(|(place, (value, &ty))| {
        if fits(value, ty) {
            return Ok(value.clone());
        }
        let Some(from) = natural_type(value) else {
            let message = format!("parameter ${} is of type {ty} but its value is a decimal", place + 1);
            return Err(SqlError::new(SqlState::DatatypeMismatch, message));
        };
        types::assign(value.clone(), from, ty, zone)
    });
    cast.collect::<Result<Vec<_>, _>>().map(Cow::Owned)
}

#[inline]
fn fits(value: &Value, ty: ColumnType) -> bool {
    if let (Value::Bytes(bytes), ColumnType::TimeTz) = (value, ty) {
        return bytes.len() == kept_zoned_time(0, 0).len();
    }
    matches!(
        (value, ty.physical()),
        (Value::Null, _)
            | (Value::Boolean(_), Physical::Boolean)
            | (Value::Int16(_), Physical::Int16)
            | (Value::Int32(_), Physical::Int32)
            | (Value::Int64(_), Physical::Int64)
            | (Value::Float32(_), Physical::Float32)
            | (Value::Float64(_), Physical::Float64)
            | (Value::Decimal(_), Physical::DecimalShort | Physical::DecimalLong)
            | (Value::Number(_), Physical::Number)
            | (Value::Text(_), Physical::Text)
            | (Value::Bytes(_), Physical::Bytes)
            | (Value::Interval(_), Physical::Interval)
            | (Value::Uuid(_), Physical::Uuid)
            | (Value::List(_), Physical::List(_))
    )
}

/// The type that a value says it has by itself; a decimal does not say its scale.
fn natural_type(value: &Value) -> Option<ColumnType> {
    Some(match value {
        Value::Null | Value::Text(_) => ColumnType::Text,
        Value::Boolean(_) => ColumnType::Boolean,
        Value::Int16(_) => ColumnType::SmallInt,
        Value::Int32(_) => ColumnType::Int,
        Value::Int64(_) => ColumnType::BigInt,
        Value::Float32(_) => ColumnType::Real,
        Value::Float64(_) => ColumnType::Double,
        Value::Number(_) => ColumnType::AnyNumeric,
        Value::Bytes(_) => ColumnType::Bytea,
        Value::Interval(_) => ColumnType::Interval,
        Value::Uuid(_) => ColumnType::Uuid,
        Value::Decimal(_) | Value::List(_) => return None,
    })
}
