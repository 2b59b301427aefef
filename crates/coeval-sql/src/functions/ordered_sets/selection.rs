// SPDX-License-Identifier: Apache-2.0
//! Which of the values of a set are at certain ranks of its order, and which one is the most frequent, without sorting them.
//!
//! Each value has a key that compares as the value does in ORDER BY:
//!
//! | values | keys |
//! |---|---|
//! | integers, truth values, dates, times | 64-bit integers |
//! | floats | 64-bit integers in their order: both zeros are one, NaN is above all others |
//! | `numeric`, intervals by their lengths | 128-bit integers |
//! | texts and bytes | themselves |
//! | `jsonb` | texts in the order of documents |
//! | all others (uuids, enums, places in a log, `numeric` without digits) | Arrow's rows of bytes |
//!
//! A rank is found by quickselect, in a time that grows with the number of values; several ranks share what the one before has
//! divided, and many of them are found by sorting after all. The most frequent value is found by counting in a hash table.

use crate::allowance::Meter;
use crate::error::SqlError;
use crate::types::json::{Part, order_key};
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, StringViewArray};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNanoType};
use arrow::row::{RowConverter, Rows, SortField};
use coeval_store::IntervalValue;
use datafusion::common::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

/// Where a value is among those of all sets.
pub(super) type Place = u32;

/// A value of a set by the number of others that are before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    /// Which set it is.
    pub(super) set: usize,
    /// Below the number of its values.
    pub(super) rank: usize,
}

/// Which end of the order is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

/// What texts are, which tells their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Texts {
    Plain,
    Documents,
}

/// From so many ranks of one set on its values are sorted: each selection looks at what is left of them, a sort at all of them about
/// as often as a list of some thousands can be halved.
const SELECTIONS_MAX: usize = 12;

/// The order of the values of all sets. None of them is NULL.
pub(super) struct Order<'m> {
    keys: Keys,
    keys_bytes: usize,
    direction: Direction,
    meter: &'m Meter,
}

enum Keys {
    Narrow(ScalarBuffer<i64>),
    Wide(ScalarBuffer<i128>),
    Texts(StringViewArray),
    Bytes(BinaryViewArray),
    Rows(Rows),
}

impl<'m> Order<'m> {
    /// The order of these values.
    ///
    /// # Errors
    /// If there is no memory for the keys, or the statement was told to end.
    pub(super) fn of(
        values: &ArrayRef,
        texts: Texts,
        direction: Direction,
        meter: &'m Meter,
    ) -> Result<Self, SqlError> {
        let keys_bytes = bytes_of_keys(values, texts);
        meter.workspace(keys_bytes)?;
        Ok(Self { keys: Keys::of(values, texts)?, keys_bytes, direction, meter })
    }

    /// The places of the values at these ranks, those of a set one behind the other.
    ///
    /// # Errors
    /// If there is no memory to select in, or the statement was told to end.
    pub(super) fn at_ranks(&self, sets: &[Range<usize>], wanted: &[Rank]) -> Result<Vec<Place>, SqlError> {
        match &self.keys {
            Keys::Narrow(keys) => self.selected(|place| keys[place], sets, wanted),
            Keys::Wide(keys) => self.selected(|place| keys[place], sets, wanted),
            Keys::Texts(keys) => self.selected(|place| keys.value(place), sets, wanted),
            Keys::Bytes(keys) => self.selected(|place| keys.value(place), sets, wanted),
            Keys::Rows(keys) => self.selected(|place| keys.row(place).data(), sets, wanted),
        }
    }

    /// The place of the most frequent value of each set, of several the first in the order; `None` of an empty set.
    ///
    /// # Errors
    /// If there is no memory to count in, or the statement was told to end.
    pub(super) fn most_frequent(&self, sets: &[Range<usize>]) -> Result<Vec<Option<Place>>, SqlError> {
        match &self.keys {
            Keys::Narrow(keys) => self.counted(|place| keys[place], sets),
            Keys::Wide(keys) => self.counted(|place| keys[place], sets),
            Keys::Texts(keys) => self.counted(|place| keys.value(place), sets),
            Keys::Bytes(keys) => self.counted(|place| keys.value(place), sets),
            Keys::Rows(keys) => self.counted(|place| keys.row(place).data(), sets),
        }
    }

    fn selected<K: Ord + Copy>(
        &self,
        key: impl Fn(usize) -> K,
        sets: &[Range<usize>],
        wanted: &[Rank],
    ) -> Result<Vec<Place>, SqlError> {
        let mut places = Vec::with_capacity(wanted.len());
        let mut keyed: Vec<(K, Place)> = Vec::new();
        for of_set in wanted.chunk_by(|one, next| one.set == next.set) {
            let set = sets[of_set[0].set].clone();
            let ascending = |rank: usize| match self.direction {
                Direction::Ascending => rank,
                Direction::Descending => set.len() - 1 - rank,
            };
            self.meter.workspace(self.keys_bytes + set.len() * size_of::<(K, Place)>())?;
            keyed.clear();
            keyed.reserve_exact(set.len());
            keyed.extend(set.clone().map(|place| (key(place), place as Place)));
            let mut ranks: Vec<usize> = of_set.iter().map(|wanted| ascending(wanted.rank)).collect();
            ranks.sort_unstable();
            put_in_place(&mut keyed, &ranks);
            places.extend(of_set.iter().map(|wanted| keyed[ascending(wanted.rank)].1));
        }
        Ok(places)
    }

    fn counted<K: Ord + Copy + Hash>(
        &self,
        key: impl Fn(usize) -> K,
        sets: &[Range<usize>],
    ) -> Result<Vec<Option<Place>>, SqlError> {
        sets.iter().map(|set| self.most_frequent_in(&key, set.clone())).collect()
    }

    fn most_frequent_in<K: Ord + Copy + Hash>(
        &self,
        key: impl Fn(usize) -> K,
        set: Range<usize>,
    ) -> Result<Option<Place>, SqlError> {
        // How often each key is there, and where it was found first.
        let mut counts: HashMap<K, (u32, Place)> = HashMap::default();
        for place in set {
            self.meter.step()?;
            if counts.len() == counts.capacity() {
                self.meter.workspace(self.keys_bytes + grown_bytes(&counts))?;
            }
            counts.entry(key(place)).or_insert((0, place as Place)).0 += 1;
        }
        let earlier = |one: K, other: K| match self.direction {
            Direction::Ascending => other.cmp(&one),
            Direction::Descending => one.cmp(&other),
        };
        let best = counts.iter().max_by(|(one, one_found), (other, other_found)| {
            one_found.0.cmp(&other_found.0).then_with(|| earlier(**one, **other))
        });
        Ok(best.map(|(_, (_, place))| *place))
    }
}

/// What the keys of these values take, about: no copies are made of some.
fn bytes_of_keys(values: &ArrayRef, texts: Texts) -> usize {
    /// Rows of uuids, of enums and their like, with the places where they begin.
    const ROW_BYTES: usize = 64;
    let count = values.len();
    match values.data_type() {
        DataType::Decimal128(..) | DataType::BinaryView => 0,
        DataType::Interval(_) => count * size_of::<i128>(),
        // The keys of documents have a character of up to two bytes for each of theirs.
        DataType::Utf8View => match texts {
            Texts::Plain => 0,
            Texts::Documents => 2 * values.as_string_view().total_buffer_bytes_used() + count * ROW_BYTES,
        },
        DataType::FixedSizeBinary(_) | DataType::Struct(_) => count * ROW_BYTES,
        _ => count * size_of::<i64>(),
    }
}

/// What a full table and the one that takes its place have together: of that one an eighth is empty at least, and a byte
/// goes with each entry.
fn grown_bytes<K, V>(full: &HashMap<K, V>) -> usize {
    let entries = (full.capacity() + 1).next_power_of_two() * 2;
    (entries + entries / 2) * (size_of::<(K, V)>() + 1)
}

/// Orders so much that at each of these ranks is what would be there if all were in order. The ranks ascend.
fn put_in_place<K: Ord + Copy>(keyed: &mut [(K, Place)], ranks: &[usize]) {
    if ranks.len() > SELECTIONS_MAX {
        keyed.sort_unstable_by_key(|(key, _)| *key);
        return;
    }
    // What is before it stays where it is, and is not above what is behind.
    let mut from = 0;
    for &rank in ranks {
        if rank >= from {
            keyed[from..].select_nth_unstable_by_key(rank - from, |(key, _)| *key);
            from = rank + 1;
        }
    }
}

impl Keys {
    fn of(values: &ArrayRef, texts: Texts) -> Result<Self, SqlError> {
        Ok(match (values.data_type(), texts) {
            (
                DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Boolean
                | DataType::Date32
                | DataType::Time64(_)
                | DataType::Timestamp(..),
                _,
            ) => {
                let numbers = cast(values, &DataType::Int64)?;
                Self::Narrow(numbers.as_primitive::<Int64Type>().values().clone())
            }
            (DataType::Float32 | DataType::Float64, _) => {
                let numbers = cast(values, &DataType::Float64)?;
                let numbers = numbers.as_primitive::<Float64Type>().values();
                Self::Narrow(numbers.iter().map(|number| key_of_float(*number)).collect())
            }
            (DataType::Decimal128(..), _) => {
                Self::Wide(values.as_primitive::<Decimal128Type>().values().clone())
            }
            (DataType::Interval(_), _) => {
                let intervals = values.as_primitive::<IntervalMonthDayNanoType>().values().iter();
                let parts = intervals.map(|value| IntervalValue {
                    months: value.months,
                    days: value.days,
                    nanoseconds: value.nanoseconds,
                });
                Self::Wide(parts.map(IntervalValue::ordering).collect())
            }
            (DataType::Utf8View, Texts::Plain) => Self::Texts(values.as_string_view().clone()),
            (DataType::Utf8View, Texts::Documents) => {
                let documents = values.as_string_view().iter();
                let keys = documents.map(|text| text.map(|text| order_key(Part::of(text))));
                Self::Texts(keys.collect())
            }
            (DataType::BinaryView, _) => Self::Bytes(values.as_binary_view().clone()),
            (other, _) => {
                let rows = RowConverter::new(vec![SortField::new(other.clone())])?;
                Self::Rows(rows.convert_columns(&[Arc::clone(values)])?)
            }
        })
    }
}

/// Integers in the order of floats.
fn key_of_float(number: f64) -> i64 {
    if number.is_nan() {
        return i64::MAX;
    }
    // A negative zero becomes a positive one.
    let bits = (number + 0.0).to_bits().cast_signed();
    // Of negative numbers more bits are less.
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

#[cfg(test)]
mod tests;
