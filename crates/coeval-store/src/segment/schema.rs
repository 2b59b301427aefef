// SPDX-License-Identifier: Apache-2.0
//! The columns of a segment file, as its footer states them.
//!
//! Arrow's own way from a footer to a schema panics where a footer is one that Arrow's writer does not make, though all its
//! offsets are right. So the types that segments have are read here, and any other is damage.

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use arrow::ipc;

/// A list holds no lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Column,
    InList,
}

/// The schema of the keys and columns of a file.
///
/// # Errors
/// What is wrong with it.
pub(super) fn schema_of(schema: ipc::Schema<'_>) -> Result<Schema, String> {
    let fields = schema.fields().ok_or("the schema has no columns")?;
    if schema.endianness() != ipc::Endianness::Little {
        return Err("the schema has another order of bytes".to_owned());
    }
    fields.iter().map(|field| field_of(field, Place::Column)).collect::<Result<Vec<_>, _>>().map(Schema::new)
}

fn field_of(field: ipc::Field<'_>, place: Place) -> Result<Field, String> {
    let name = field.name().unwrap_or_default();
    let ty =
        type_of(field, place).ok_or_else(|| format!("column \"{name}\" has a type that no column has"))?;
    Ok(Field::new(name, ty, field.nullable()))
}

fn type_of(field: ipc::Field<'_>, place: Place) -> Option<DataType> {
    if field.dictionary().is_some() {
        return None;
    }
    Some(match field.type_type() {
        ipc::Type::Null if place == Place::Column => DataType::Null,
        ipc::Type::Bool => DataType::Boolean,
        ipc::Type::Int => {
            let int = field.type_as_int().filter(ipc::Int::is_signed)?;
            match int.bitWidth() {
                16 => DataType::Int16,
                32 => DataType::Int32,
                64 => DataType::Int64,
                _ => return None,
            }
        }
        ipc::Type::FloatingPoint => match field.type_as_floating_point()?.precision() {
            ipc::Precision::SINGLE => DataType::Float32,
            ipc::Precision::DOUBLE => DataType::Float64,
            _ => return None,
        },
        ipc::Type::Decimal => {
            let decimal = field.type_as_decimal().filter(|decimal| decimal.bitWidth() == 128)?;
            DataType::Decimal128(decimal.precision().try_into().ok()?, decimal.scale().try_into().ok()?)
        }
        ipc::Type::Utf8View => DataType::Utf8View,
        ipc::Type::BinaryView => DataType::BinaryView,
        ipc::Type::Binary => DataType::Binary,
        ipc::Type::LargeBinary => DataType::LargeBinary,
        ipc::Type::FixedSizeBinary => {
            let width = field.type_as_fixed_size_binary()?.byteWidth();
            DataType::FixedSizeBinary(Some(width).filter(|&width| width >= 0)?)
        }
        ipc::Type::Date if field.type_as_date()?.unit() == ipc::DateUnit::DAY => DataType::Date32,
        ipc::Type::Time => {
            let time = field.type_as_time().filter(|time| time.unit() == ipc::TimeUnit::MICROSECOND)?;
            Some(DataType::Time64(TimeUnit::Microsecond)).filter(|_| time.bitWidth() == 64)?
        }
        ipc::Type::Timestamp => {
            let timestamp = field
                .type_as_timestamp()
                .filter(|timestamp| timestamp.unit() == ipc::TimeUnit::MICROSECOND)?;
            DataType::Timestamp(TimeUnit::Microsecond, timestamp.timezone().map(Into::into))
        }
        ipc::Type::Interval if field.type_as_interval()?.unit() == ipc::IntervalUnit::MONTH_DAY_NANO => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        ipc::Type::List if place == Place::Column => {
            let children = field.children().filter(|children| children.len() == 1)?;
            DataType::List(field_of(children.get(0), Place::InList).ok()?.into())
        }
        _ => return None,
    })
}
