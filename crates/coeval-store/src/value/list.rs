// SPDX-License-Identifier: Apache-2.0
//! Arrays as values: one dimension, whose elements may be NULL.
//!
//! In rows and keys an array is the concatenation of its elements as nullable key components, so that comparing
//! the bytes compares the arrays as PostgreSQL does: element by element, NULL above all else, the shorter one
//! first. An interval's component says only how long it is; its months, days and nanoseconds stand behind it. Numbers without
//! digits of their type are kept without zeros at their ends.
//! In chunks an array is what Arrow calls a list.

use super::array_value::value_at;
use super::components::{KeyDamage, KeyReader, KeyWriter, Nullable};
use super::{IntervalValue, Value, ValueRef};
use crate::types::{ElementType, Physical};
use arrow::array::{Array, ListArray};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// An array, borrowed from a row or a chunk.
#[derive(Clone, Copy)]
pub enum ListRef<'a> {
    /// The bytes that rows have.
    Encoded(&'a [u8]),
    /// A cell of a column of arrays.
    Cell {
        /// The column.
        lists: &'a ListArray,
        /// Which of its rows; it is not NULL.
        row: usize,
    },
}

impl<'a> ListRef<'a> {
    /// The bytes that rows have of it. Those of a cell are made, in time linear in its size.
    #[must_use]
    pub fn encoded(self) -> Cow<'a, [u8]> {
        match self {
            Self::Encoded(bytes) => Cow::Borrowed(bytes),
            Self::Cell { lists, row } => {
                let (values, range) = cell(lists, row);
                let mut encoder = ListEncoder::default();
                range.for_each(|index| encoder.push(value_at(values, index)));
                Cow::Owned(encoder.finish().into_vec())
            }
        }
    }

    /// Calls `take` with each element, in order.
    ///
    /// # Panics
    /// If the bytes are not elements of this type: writers encode values of the column's type, readers of files
    /// check.
    pub fn for_each(self, element: ElementType, mut take: impl FnMut(ValueRef<'_>)) {
        match self {
            Self::Encoded(bytes) => {
                let mut reader = KeyReader::new(bytes);
                while !reader.rest().is_empty() {
                    let value = next_element(&mut reader, element.column_type().physical());
                    take(value.expect("an array of a row holds elements of its type").borrow());
                }
            }
            Self::Cell { lists, row } => {
                let (values, range) = cell(lists, row);
                range.for_each(|index| take(value_at(values, index)));
            }
        }
    }

    /// The elements, owned.
    ///
    /// # Panics
    /// As [`for_each`](Self::for_each).
    #[must_use]
    pub fn elements(self, element: ElementType) -> Vec<Value> {
        let mut elements = Vec::new();
        self.for_each(element, |value| elements.push(value.to_owned()));
        elements
    }
}

/// The elements of all rows of a column, and which of them are this row's.
fn cell(lists: &ListArray, row: usize) -> (&dyn Array, std::ops::Range<usize>) {
    let offsets = lists.value_offsets();
    let at = |offset: i32| usize::try_from(offset).expect("offsets of a list are not negative");
    (lists.values().as_ref(), at(offsets[row])..at(offsets[row + 1]))
}

/// The next element of an array's bytes.
fn next_element(reader: &mut KeyReader<'_>, physical: Physical) -> Result<Value, KeyDamage> {
    let value = reader.read(physical, Nullable::Yes)?;
    if !matches!(value, Value::Interval(_)) {
        return Ok(value);
    }
    let parts = reader.take::<16>()?;
    let part = |at: usize| i32::from_be_bytes([parts[at], parts[at + 1], parts[at + 2], parts[at + 3]]);
    let mut nanoseconds = [0; 8];
    nanoseconds.copy_from_slice(&parts[8..]);
    let nanoseconds = i64::from_be_bytes(nanoseconds);
    Ok(Value::Interval(IntervalValue { months: part(0), days: part(4), nanoseconds }))
}

/// Whether bytes are an array of elements of this type.
pub(crate) fn check_list(bytes: &[u8], element: ElementType) -> bool {
    let mut reader = KeyReader::new(bytes);
    while !reader.rest().is_empty() {
        if next_element(&mut reader, element.column_type().physical()).is_err() {
            return false;
        }
    }
    true
}

/// Writes an array element by element.
#[derive(Debug, Default)]
pub struct ListEncoder {
    bytes: KeyWriter,
}

impl ListEncoder {
    /// Appends an element, or NULL.
    ///
    /// # Panics
    /// If it is an array.
    pub fn push(&mut self, element: ValueRef<'_>) {
        assert!(!matches!(element, ValueRef::List(_)), "arrays have one dimension");
        self.bytes.push_nullable(element);
        if let ValueRef::Interval(interval) = element {
            self.bytes.push_raw(&interval.months.to_be_bytes());
            self.bytes.push_raw(&interval.days.to_be_bytes());
            self.bytes.push_raw(&interval.nanoseconds.to_be_bytes());
        }
    }

    /// How many bytes the elements so far take.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.as_slice().len()
    }

    /// The bytes of the array.
    #[must_use]
    pub fn finish(self) -> Box<[u8]> {
        self.bytes.as_slice().into()
    }

    /// The array as a value.
    #[must_use]
    pub fn value(self) -> Value {
        Value::List(self.finish())
    }
}

impl PartialEq for ListRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.encoded() == other.encoded()
    }
}

impl PartialOrd for ListRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.encoded().cmp(&other.encoded()))
    }
}

impl fmt::Debug for ListRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({:02x?})", self.encoded())
    }
}

#[cfg(test)]
mod tests;
