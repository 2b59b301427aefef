// SPDX-License-Identifier: Apache-2.0
//! A value during evaluation: borrowed where it can be, owned where an expression made it.

use coeval_store::{AnyNumber, ListRef, Value, ValueRef};

/// A value during evaluation.
#[derive(Clone, Debug)]
pub(crate) enum Datum<'a> {
    /// A value of a row, a parameter or a constant, or one that needs no memory of its own.
    Borrowed(ValueRef<'a>),
    /// Text that an expression made.
    Text(Box<str>),
    /// Bytes that an expression made.
    Bytes(Box<[u8]>),
    /// An array that an expression made.
    List(Box<[u8]>),
    /// A number of any number of digits that an expression made.
    Number(AnyNumber),
}

impl<'a> Datum<'a> {
    /// SQL NULL.
    pub(crate) const NULL: Self = Self::Borrowed(ValueRef::Null);

    /// The value itself.
    #[must_use]
    #[inline]
    pub(crate) fn value(&self) -> ValueRef<'_> {
        match self {
            Self::Borrowed(value) => *value,
            Self::Text(text) => ValueRef::Text(text),
            Self::Bytes(bytes) => ValueRef::Bytes(bytes),
            Self::List(bytes) => ValueRef::List(ListRef::Encoded(bytes)),
            Self::Number(number) => ValueRef::Number(number.borrow()),
        }
    }

    /// The value, owned; copies only what was borrowed.
    #[must_use]
    #[inline]
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Borrowed(value) => value.to_owned(),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::List(bytes) => Value::List(bytes),
            Self::Number(number) => Value::Number(number),
        }
    }

    /// Whether it is SQL NULL.
    #[must_use]
    #[inline]
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Borrowed(ValueRef::Null))
    }

    /// A truth value; `None` for NULL.
    #[inline]
    pub(crate) fn truth(&self) -> Option<bool> {
        if let Self::Borrowed(ValueRef::Boolean(truth)) = self { Some(*truth) } else { None }
    }

    /// A truth value as a datum.
    #[inline]
    pub(crate) fn of_truth(truth: Option<bool>) -> Self {
        Self::Borrowed(truth.map_or(ValueRef::Null, ValueRef::Boolean))
    }
}

impl From<Value> for Datum<'_> {
    #[inline]
    fn from(value: Value) -> Self {
        Self::Borrowed(match value {
            Value::Text(text) => return Self::Text(text),
            Value::Bytes(bytes) => return Self::Bytes(bytes),
            Value::List(bytes) => return Self::List(bytes),
            Value::Number(number) => return Self::Number(number),
            Value::Null => ValueRef::Null,
            Value::Boolean(v) => ValueRef::Boolean(v),
            Value::Int16(v) => ValueRef::Int16(v),
            Value::Int32(v) => ValueRef::Int32(v),
            Value::Int64(v) => ValueRef::Int64(v),
            Value::Float32(v) => ValueRef::Float32(v),
            Value::Float64(v) => ValueRef::Float64(v),
            Value::Decimal(v) => ValueRef::Decimal(v),
            Value::Interval(v) => ValueRef::Interval(v),
            Value::Uuid(v) => ValueRef::Uuid(v),
        })
    }
}

impl<'a> From<ValueRef<'a>> for Datum<'a> {
    #[inline]
    fn from(value: ValueRef<'a>) -> Self {
        Self::Borrowed(value)
    }
}
