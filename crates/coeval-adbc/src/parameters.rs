// SPDX-License-Identifier: Apache-2.0
//! Arrow arrays as values of SQL, by the type that the statement wants.

use crate::errors::of_sql;
use adbc_core::error::Result;
use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use chrono_tz::Tz;
use coeval::{ColumnType, SqlError, SqlState, Value, ValueRef, format_value, parse_value, value_at};
use std::sync::Arc;

/// A value that its type cannot hold is an error, and never NULL.
const EXACTLY: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow::util::display::FormatOptions::new() };

/// The values of one parameter, row by row.
pub(crate) enum Cells {
    /// All of them are NULL.
    Nulls,
    /// An array of the Arrow type of the wanted type.
    Array(ArrayRef),
    /// Values that were read from texts.
    Values(Vec<Value>),
}

/// What a value is, as far as that says which types of SQL it can be one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Number,
    Boolean,
    Text,
    Bytes,
    Date,
    Time,
    Timestamp,
    Instant,
    Interval,
    List,
}

impl Cells {
    /// The values of an array as those of a type. `number` is the parameter's, from 1.
    ///
    /// # Errors
    /// `42804` for an Arrow type that does not stand for the type of SQL; the type's own, as `22003`, for a value that it cannot
    /// hold.
    pub(crate) fn new(array: &ArrayRef, ty: ColumnType, number: usize, zone: Tz) -> Result<Self> {
        let made = cells(array, ty, zone).map_err(|flaw| flaw.error(array.data_type(), ty, number));
        made.map_err(|error| of_sql(&error))
    }

    /// The value in this row.
    pub(crate) fn value(&self, row: usize) -> Value {
        match self {
            Self::Nulls => Value::Null,
            Self::Array(array) => value_at(array, row).to_owned(),
            Self::Values(values) => values[row].clone(),
        }
    }
}

/// What is wrong with a parameter.
enum Flaw {
    /// Its Arrow type does not stand for the type of SQL.
    Type,
    /// A value is none of the type.
    Value(SqlError),
}

impl<E: Into<SqlError>> From<E> for Flaw {
    fn from(error: E) -> Self {
        Self::Value(error.into())
    }
}

impl Flaw {
    fn error(self, given: &DataType, ty: ColumnType, number: usize) -> SqlError {
        match self {
            Self::Type => {
                let message =
                    format!("parameter ${number} is of type {ty}, for which Arrow's {given} does not stand");
                SqlError::new(SqlState::DatatypeMismatch, message)
                    .with_hint("Bind an array of another type, or cast the parameter in the statement.")
            }
            Self::Value(mut error) => {
                error.message.push_str(&format!(" (parameter ${number})"));
                error
            }
        }
    }
}

fn cells(array: &ArrayRef, ty: ColumnType, zone: Tz) -> std::result::Result<Cells, Flaw> {
    match array.data_type() {
        DataType::Null => Ok(Cells::Nulls),
        DataType::Dictionary(_, value) => cells(&cast(array, value)?, ty, zone),
        DataType::RunEndEncoded(_, values) => cells(&cast(array, values.data_type())?, ty, zone),
        given => match kind_of(given) {
            Some(Kind::Text) if ty != ColumnType::Text => parsed(array, ty, zone),
            Some(Kind::List) => list_cells(array, ty, zone),
            Some(kind) => convert(array, kind, ty, zone).map(Cells::Array),
            None => Err(Flaw::Type),
        },
    }
}

/// Values that are written as SQL writes them.
fn parsed(array: &ArrayRef, ty: ColumnType, zone: Tz) -> std::result::Result<Cells, Flaw> {
    let texts = cast(array, &DataType::Utf8View)?;
    let values = texts.as_string_view().iter().map(|text| match text {
        Some(text) => parse_value(text, ty, zone),
        None => Ok(Value::Null),
    });
    Ok(Cells::Values(values.collect::<std::result::Result<_, SqlError>>()?))
}

/// Arrays of SQL. Those whose elements are texts that stand for something else are read from the text of the whole.
fn list_cells(array: &ArrayRef, ty: ColumnType, zone: Tz) -> std::result::Result<Cells, Flaw> {
    let ColumnType::Array(element) = ty else { return Err(Flaw::Type) };
    let element = element.column_type();
    let item = match array.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item,
        _ => return Err(Flaw::Type),
    };
    let item = match item.data_type() {
        DataType::Dictionary(_, value) => value.as_ref(),
        other => other,
    };
    if matches!(item, DataType::Null) {
        return Ok(Cells::Array(cast_with_options(array, &ty.arrow(), &EXACTLY)?));
    }
    let kind = kind_of(item).ok_or(Flaw::Type)?;
    if kind == Kind::Text && element != ColumnType::Text {
        return parsed_lists(array, ty, zone);
    }
    if kind == Kind::List || !stands_for(kind, element) {
        return Err(Flaw::Type);
    }
    Ok(Cells::Array(exactly(array, &ty.arrow())?))
}

fn parsed_lists(array: &ArrayRef, ty: ColumnType, zone: Tz) -> std::result::Result<Cells, Flaw> {
    let texts = cast(array, &ColumnType::Array(text_element()?).arrow())?;
    let lists = texts.as_list::<i32>();
    let values = lists.iter().map(|list| match list {
        Some(list) => parse_value(&list_text(list.as_string_view()), ty, zone),
        None => Ok(Value::Null),
    });
    Ok(Cells::Values(values.collect::<std::result::Result<_, SqlError>>()?))
}

fn text_element() -> std::result::Result<coeval::ElementType, Flaw> {
    coeval::ElementType::of(ColumnType::Text).ok_or(Flaw::Type)
}

/// The text of an array: `{"1",NULL,"a\"b"}`.
fn list_text(items: &arrow::array::StringViewArray) -> String {
    let quoted = items.iter().map(|item| match item {
        Some(item) => format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\"")),
        None => "NULL".to_owned(),
    });
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

fn kind_of(ty: &DataType) -> Option<Kind> {
    Some(match ty {
        _ if ty.is_integer() => Kind::Integer,
        _ if ty.is_floating() || ty.is_decimal() => Kind::Number,
        DataType::Boolean => Kind::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Kind::Bytes
        }
        DataType::Date32 | DataType::Date64 => Kind::Date,
        DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
        DataType::Timestamp(_, None) => Kind::Timestamp,
        DataType::Timestamp(_, Some(_)) => Kind::Instant,
        DataType::Interval(_) | DataType::Duration(_) => Kind::Interval,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => Kind::List,
        _ => return None,
    })
}

/// Whether values of a kind are taken for those of a type.
fn stands_for(kind: Kind, ty: ColumnType) -> bool {
    let is_time_stamp = matches!(ty, ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz);
    match kind {
        Kind::Integer | Kind::Number => matches!(
            ty,
            ColumnType::SmallInt
                | ColumnType::Int
                | ColumnType::BigInt
                | ColumnType::Real
                | ColumnType::Double
                | ColumnType::Numeric { .. }
                | ColumnType::AnyNumeric
        ),
        Kind::Boolean => ty == ColumnType::Boolean,
        Kind::Text => ty == ColumnType::Text,
        Kind::Bytes => matches!(ty, ColumnType::Bytea | ColumnType::Uuid),
        Kind::Date | Kind::Timestamp | Kind::Instant => is_time_stamp,
        Kind::Time => ty == ColumnType::Time,
        Kind::Interval => ty == ColumnType::Interval,
        Kind::List => false,
    }
}

/// An array of the type's Arrow type.
fn convert(array: &ArrayRef, kind: Kind, ty: ColumnType, zone: Tz) -> std::result::Result<ArrayRef, Flaw> {
    if !stands_for(kind, ty) {
        return Err(Flaw::Type);
    }
    match (kind, ty) {
        (Kind::Date | Kind::Timestamp, ColumnType::TimestampTz) => {
            // A local time is one of the session's zone, as in SQL.
            let local = cast_with_options(array, &ColumnType::Timestamp.arrow(), &EXACTLY)?;
            let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some(zone.name().into()));
            let instants = cast_with_options(&local, &zoned, &EXACTLY)?;
            Ok(cast_with_options(&instants, &ty.arrow(), &EXACTLY)?)
        }
        (Kind::Instant, ColumnType::Timestamp | ColumnType::Date) => {
            let instants = cast_with_options(array, &ColumnType::TimestampTz.arrow(), &EXACTLY)?;
            let local = local_times(&instants, zone)?;
            if ty == ColumnType::Timestamp { Ok(local) } else { exactly(&local, &ty.arrow()) }
        }
        (Kind::Integer | Kind::Number, ColumnType::AnyNumeric) => numbers(array),
        _ => exactly(array, &ty.arrow()),
    }
}

/// Numbers as those of any number of digits that their texts are.
fn numbers(array: &ArrayRef) -> std::result::Result<ArrayRef, Flaw> {
    let texts = cast(array, &DataType::Utf8View)?;
    let read = |text: &str| parse_value(text, ColumnType::AnyNumeric, Tz::UTC);
    let numbers = texts.as_string_view().iter().map(|text| text.map(read).transpose());
    let numbers = numbers.collect::<std::result::Result<Vec<Option<Value>>, SqlError>>()?;
    let bytes = numbers.iter().map(|number| match number {
        Some(Value::Number(number)) => Some(number.borrow().as_bytes()),
        _ => None,
    });
    Ok(Arc::new(bytes.collect::<LargeBinaryArray>()))
}

/// The array as one of another type. Of a type that keeps less, as integers of floats, values that would change are refused.
fn exactly(array: &ArrayRef, ty: &DataType) -> std::result::Result<ArrayRef, Flaw> {
    let made = cast_with_options(array, ty, &EXACTLY)?;
    let given = array.data_type();
    let keeps_less = ty.is_integer() && !given.is_integer()
        || *ty == DataType::Date32 && matches!(given, DataType::Timestamp(..));
    if keeps_less {
        let back = cast(&made, given)?;
        if distinct(&back, array)?.true_count() > 0 {
            let message = format!("a value of Arrow's {given} is none of its {ty}");
            return Err(SqlError::new(SqlState::NumericValueOutOfRange, message).into());
        }
    }
    Ok(made)
}

/// Instants as the clocks of a zone show them.
fn local_times(instants: &ArrayRef, zone: Tz) -> std::result::Result<ArrayRef, Flaw> {
    let mut text = String::new();
    let mut times = Vec::with_capacity(instants.len());
    for row in 0..instants.len() {
        let instant = value_at(instants, row);
        if matches!(instant, ValueRef::Null) {
            times.push(None);
            continue;
        }
        text.clear();
        format_value(instant, ColumnType::TimestampTz, zone, &mut text);
        // What is read without a zone ignores the offset in the text.
        let local = parse_value(&text, ColumnType::Timestamp, zone)?;
        times.push(local.borrow().as_i64());
    }
    Ok(Arc::new(arrow::array::TimestampMicrosecondArray::from(times)))
}
