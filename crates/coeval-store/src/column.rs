// SPDX-License-Identifier: Apache-2.0
//! Columns of chunks: what they keep of an Arrow array, and building arrays value by value.

use crate::enum_type::EnumType;
use crate::types::{ColumnType, ElementType, Physical};
use crate::value::{
    KeyReader, ListRef, Nullable, PLACE_SIZE, UUID_SIZE, Value, ValueRef, ZONED_TIME_SIZE, place_of,
};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BinaryViewBuilder, BooleanBuilder,
    FixedSizeBinaryBuilder, Int64Array, LargeBinaryArray, LargeBinaryBuilder, ListArray, NullArray,
    NullBufferBuilder, PrimitiveBuilder, StringViewBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use std::sync::Arc;

/// The array without what its buffers hold beside its own values: views of a part of a batch keep all of it.
pub(crate) fn compact(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::Binary => Arc::new(array.as_binary::<i32>().iter().collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(array.as_binary::<i64>().iter().collect::<LargeBinaryArray>()),
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let values = compact(Arc::clone(lists.values()));
            Arc::new(ListArray::new(
                Arc::clone(item),
                lists.offsets().clone(),
                values,
                lists.nulls().cloned(),
            ))
        }
        _ => array,
    }
}

/// The bytes of an array's own values, whatever else its buffers hold.
pub(crate) fn slice_bytes(array: &dyn Array) -> usize {
    const VIEW: usize = size_of::<u128>();
    match array.data_type() {
        DataType::Utf8View => array.len() * VIEW + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => array.len() * VIEW + array.as_binary_view().total_buffer_bytes_used(),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let (first, end) =
                (lists.value_offsets()[0] as usize, lists.value_offsets()[lists.len()] as usize);
            size_of_val(lists.value_offsets()) + slice_bytes(&lists.values().slice(first, end - first))
        }
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
    }
}

/// A column of a chunk as queries see it: enums of this type where chunks have integers. Copies nothing.
///
/// # Panics
/// If the array is of no column of this type.
pub(crate) fn shown(array: ArrayRef, ty: ColumnType) -> ArrayRef {
    match ty {
        ColumnType::Enum(ty) => enums(ty, array.as_primitive::<Int64Type>().clone()),
        ColumnType::Array(ElementType::Enum(ty)) => {
            let lists = array.as_list::<i32>();
            let values = enums(ty, lists.values().as_primitive::<Int64Type>().clone());
            let item = Arc::new(Field::new_list_field(ty.arrow(), true));
            Arc::new(ListArray::new(item, lists.offsets().clone(), values, lists.nulls().cloned()))
        }
        _ => array,
    }
}

fn enums(ty: EnumType, places: Int64Array) -> ArrayRef {
    let valid = places.nulls().cloned();
    Arc::new(StructArray::new(ty.fields(), vec![Arc::new(places)], valid))
}

/// A column of a query as chunks keep it, the reverse of [`shown`].
pub(crate) fn stored(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Struct(_) => {
            let places = array.as_struct().column(0).as_primitive::<Int64Type>();
            let valid = NullBuffer::union(array.nulls(), places.nulls());
            Arc::new(Int64Array::new(places.values().clone(), valid))
        }
        DataType::List(item) if matches!(item.data_type(), DataType::Struct(_)) => {
            let lists = array.as_list::<i32>();
            let values = stored(lists.values());
            let item = Arc::new(Field::new_list_field(DataType::Int64, true));
            Arc::new(ListArray::new(item, lists.offsets().clone(), values, lists.nulls().cloned()))
        }
        _ => Arc::clone(array),
    }
}

/// Builds one column's array value by value.
#[derive(Debug)]
pub struct ColumnBuilder {
    ty: ColumnType,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Boolean(BooleanBuilder),
    Int16(PrimitiveBuilder<Int16Type>),
    Int32(PrimitiveBuilder<Int32Type>),
    Int64(PrimitiveBuilder<Int64Type>),
    Float32(PrimitiveBuilder<Float32Type>),
    Float64(PrimitiveBuilder<Float64Type>),
    Decimal(PrimitiveBuilder<Decimal128Type>),
    Number(LargeBinaryBuilder),
    Text(StringViewBuilder),
    Bytes(BinaryViewBuilder),
    Bits(BinaryBuilder),
    Date(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time64MicrosecondType>),
    ZonedTime(FixedSizeBinaryBuilder),
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>),
    Interval(PrimitiveBuilder<IntervalMonthDayNanoType>),
    Uuid(FixedSizeBinaryBuilder),
    Place(FixedSizeBinaryBuilder),
    Enum(EnumType, PrimitiveBuilder<Int64Type>),
    List(ListBuilder),
}

/// Arrays: the elements of all rows, and where those of each row end.
#[derive(Debug)]
struct ListBuilder {
    element: ElementType,
    values: Box<ColumnBuilder>,
    count: usize,
    lengths: Vec<usize>,
    valid: NullBufferBuilder,
}

impl ListBuilder {
    fn new(element: ElementType, capacity: usize) -> Self {
        Self {
            element,
            values: Box::new(ColumnBuilder::new(element.column_type(), capacity)),
            count: 0,
            lengths: Vec::with_capacity(capacity),
            valid: NullBufferBuilder::new(capacity),
        }
    }

    fn push(&mut self, list: ListRef<'_>) {
        let before = self.count;
        list.for_each(self.element, |value| {
            self.values.push(value);
            self.count += 1;
        });
        self.lengths.push(self.count - before);
        self.valid.append_non_null();
    }

    fn push_null(&mut self) {
        self.lengths.push(0);
        self.valid.append_null();
    }

    fn finish(&mut self) -> ListArray {
        let field = Arc::new(Field::new_list_field(self.element.column_type().arrow(), true));
        let offsets = OffsetBuffer::from_lengths(std::mem::take(&mut self.lengths));
        self.count = 0;
        ListArray::new(field, offsets, self.values.finish(), self.valid.finish())
    }
}

impl ColumnBuilder {
    /// A builder for columns of this type, with room for `capacity` values.
    #[must_use]
    pub fn new(ty: ColumnType, capacity: usize) -> Self {
        let inner = match ty {
            ColumnType::SmallInt => Inner::Int16(PrimitiveBuilder::with_capacity(capacity)),
            ColumnType::Int => Inner::Int32(PrimitiveBuilder::with_capacity(capacity)),
            ColumnType::BigInt => Inner::Int64(PrimitiveBuilder::with_capacity(capacity)),
            ColumnType::Real => Inner::Float32(PrimitiveBuilder::with_capacity(capacity)),
            ColumnType::Double => Inner::Float64(PrimitiveBuilder::with_capacity(capacity)),
            ColumnType::Numeric { .. } => {
                Inner::Decimal(PrimitiveBuilder::with_capacity(capacity).with_data_type(ty.arrow()))
            }
            ColumnType::AnyNumeric => Inner::Number(LargeBinaryBuilder::with_capacity(capacity, 0)),
            ColumnType::Boolean => Inner::Boolean(BooleanBuilder::with_capacity(capacity)),
            ColumnType::Text
            | ColumnType::Varchar(_)
            | ColumnType::Char(_)
            | ColumnType::Json
            | ColumnType::Jsonb => Inner::Text(StringViewBuilder::with_capacity(capacity)),
            ColumnType::Bytea => Inner::Bytes(BinaryViewBuilder::with_capacity(capacity)),
            ColumnType::Bit(_) | ColumnType::Varbit(_) => {
                Inner::Bits(BinaryBuilder::with_capacity(capacity, 0))
            }
            ColumnType::Date => Inner::Date(PrimitiveBuilder::with_capacity(capacity)),
            ColumnType::Time => Inner::Time(PrimitiveBuilder::with_capacity(capacity)),
            ColumnType::TimeTz => {
                Inner::ZonedTime(FixedSizeBinaryBuilder::with_capacity(capacity, ZONED_TIME_SIZE))
            }
            ColumnType::Timestamp | ColumnType::TimestampTz => {
                Inner::Timestamp(PrimitiveBuilder::with_capacity(capacity).with_data_type(ty.arrow()))
            }
            ColumnType::Interval => Inner::Interval(PrimitiveBuilder::with_capacity(capacity)),
            ColumnType::Uuid => Inner::Uuid(FixedSizeBinaryBuilder::with_capacity(capacity, UUID_SIZE)),
            ColumnType::PgLsn => Inner::Place(FixedSizeBinaryBuilder::with_capacity(capacity, PLACE_SIZE)),
            ColumnType::Enum(ty) => Inner::Enum(ty, PrimitiveBuilder::with_capacity(capacity)),
            ColumnType::Array(element) => Inner::List(ListBuilder::new(element, capacity)),
        };
        Self { ty, inner }
    }

    /// Appends a value of the column's physical type, or NULL.
    ///
    /// # Panics
    /// If the value is of another type: rows and columns of one table agree.
    #[inline]
    pub fn push(&mut self, value: ValueRef<'_>) {
        match (&mut self.inner, value) {
            (Inner::Boolean(b), ValueRef::Boolean(v)) => b.append_value(v),
            (Inner::Int16(b), ValueRef::Int16(v)) => b.append_value(v),
            (Inner::Int32(b), ValueRef::Int32(v)) => b.append_value(v),
            (Inner::Int64(b), ValueRef::Int64(v)) => b.append_value(v),
            // Arrow orders NaNs by their bits. To keys they are one, so they are one in columns, too.
            (Inner::Float32(b), ValueRef::Float32(v)) => {
                b.append_value(if v.is_nan() { f32::NAN } else { v })
            }
            (Inner::Float64(b), ValueRef::Float64(v)) => {
                b.append_value(if v.is_nan() { f64::NAN } else { v })
            }
            (Inner::Decimal(b), ValueRef::Decimal(v)) => b.append_value(v),
            (Inner::Number(b), ValueRef::Number(v)) => b.append_value(v.as_bytes()),
            (Inner::Text(b), ValueRef::Text(v)) => b.append_value(v),
            (Inner::Bytes(b), ValueRef::Bytes(v)) => b.append_value(v),
            (Inner::Bits(b), ValueRef::Bytes(v)) => b.append_value(v),
            (Inner::Date(b), ValueRef::Int32(v)) => b.append_value(v),
            (Inner::Time(b), ValueRef::Int64(v)) => b.append_value(v),
            (Inner::ZonedTime(b), ValueRef::Bytes(v)) => {
                b.append_value(v).expect("a time with a zone has twelve bytes");
            }
            (Inner::Timestamp(b), ValueRef::Int64(v)) => b.append_value(v),
            (Inner::Interval(b), ValueRef::Interval(v)) => {
                b.append_value(IntervalMonthDayNano::new(v.months, v.days, v.nanoseconds));
            }
            (Inner::Uuid(b), ValueRef::Uuid(v)) => {
                b.append_value(v).expect("a uuid has sixteen bytes");
            }
            (Inner::Place(b), ValueRef::Int64(v)) => {
                b.append_value(place_of(v).to_be_bytes()).expect("a place has eight bytes");
            }
            (Inner::Enum(_, b), ValueRef::Int64(v)) => b.append_value(v),
            (Inner::List(b), ValueRef::List(v)) => b.push(v),
            (_, ValueRef::Null) => self.push_null(),
            (_, other) => panic!("{other:?} does not go into a column of type {}", self.ty),
        }
    }

    /// Appends integers that the column's type can hold, NULL where they are not valid. Cheaper than one by one.
    ///
    /// # Panics
    /// If the column is not of integers, there are not as many of `valid`, or one is out of the type's range.
    pub fn push_integers(&mut self, values: &[i64], valid: &[bool]) {
        const FITS: &str = "the value fits the column's type";
        assert_eq!(values.len(), valid.len(), "each value is valid or not");
        let pairs = || values.iter().zip(valid).map(|(&value, &is_valid)| is_valid.then_some(value));
        match &mut self.inner {
            Inner::Int16(b) => b.extend(pairs().map(|v| v.map(|v| i16::try_from(v).expect(FITS)))),
            Inner::Int32(b) => b.extend(pairs().map(|v| v.map(|v| i32::try_from(v).expect(FITS)))),
            Inner::Int64(b) => b.append_values(values, valid),
            _ => panic!("integers do not go into a column of type {}", self.ty),
        }
    }

    fn push_null(&mut self) {
        match &mut self.inner {
            Inner::Boolean(b) => b.append_null(),
            Inner::Int16(b) => b.append_null(),
            Inner::Int32(b) => b.append_null(),
            Inner::Int64(b) => b.append_null(),
            Inner::Float32(b) => b.append_null(),
            Inner::Float64(b) => b.append_null(),
            Inner::Decimal(b) => b.append_null(),
            Inner::Number(b) => b.append_null(),
            Inner::Text(b) => b.append_null(),
            Inner::Bytes(b) => b.append_null(),
            Inner::Bits(b) => b.append_null(),
            Inner::Date(b) => b.append_null(),
            Inner::Time(b) => b.append_null(),
            Inner::Timestamp(b) => b.append_null(),
            Inner::Interval(b) => b.append_null(),
            Inner::Uuid(b) | Inner::Place(b) | Inner::ZonedTime(b) => b.append_null(),
            Inner::Enum(_, b) => b.append_null(),
            Inner::List(b) => b.push_null(),
        }
    }

    /// The array, and the builder empty again.
    pub fn finish(&mut self) -> ArrayRef {
        match &mut self.inner {
            Inner::Boolean(b) => Arc::new(b.finish()),
            Inner::Int16(b) => Arc::new(b.finish()),
            Inner::Int32(b) => Arc::new(b.finish()),
            Inner::Int64(b) => Arc::new(b.finish()),
            Inner::Float32(b) => Arc::new(b.finish()),
            Inner::Float64(b) => Arc::new(b.finish()),
            Inner::Decimal(b) => Arc::new(b.finish()),
            Inner::Number(b) => Arc::new(b.finish()),
            Inner::Text(b) => Arc::new(b.finish()),
            Inner::Bytes(b) => Arc::new(b.finish()),
            Inner::Bits(b) => Arc::new(b.finish()),
            Inner::Date(b) => Arc::new(b.finish()),
            Inner::Time(b) => Arc::new(b.finish()),
            Inner::Timestamp(b) => Arc::new(b.finish()),
            Inner::Interval(b) => Arc::new(b.finish()),
            Inner::Uuid(b) | Inner::Place(b) | Inner::ZonedTime(b) => Arc::new(b.finish()),
            Inner::Enum(ty, b) => enums(*ty, b.finish()),
            Inner::List(b) => Arc::new(b.finish()),
        }
    }
}

/// An array of `length` times the same value.
#[must_use]
pub fn constant_column(ty: ColumnType, value: &Value, length: usize) -> ArrayRef {
    let mut builder = ColumnBuilder::new(ty, length);
    for _ in 0..length {
        builder.push(value.borrow());
    }
    builder.finish()
}

/// So many values of a column that was dropped before their chunk was written: they take no room.
#[must_use]
pub(crate) fn dropped_column(length: usize) -> ArrayRef {
    Arc::new(NullArray::new(length))
}

/// The stored `missing` value of an added column, read back.
///
/// # Panics
/// If the definition holds bytes that are not a key component of its type: definitions are checked when they
/// are read from outside.
#[must_use]
pub fn missing_value(missing: Option<&[u8]>, physical: Physical) -> Value {
    missing.map_or(Value::Null, |bytes| {
        KeyReader::new(bytes).read(physical, Nullable::No).expect("a definition's missing value reads back")
    })
}
