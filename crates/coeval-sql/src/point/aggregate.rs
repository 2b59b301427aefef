// SPDX-License-Identifier: Apache-2.0
//! Aggregates over the rows of a point statement.

use crate::error::{SqlError, SqlState};
use crate::scalar::{
    AggregateCall, AggregateFunction, DistinctInput, Inputs, Scalar, compare_values, power_of_ten,
};
use crate::types::float_overflow;
use crate::types::numeric::divide;
use coeval_store::{ColumnType, Key, KeyWriter, Value, ValueRef};
use std::collections::{HashMap, HashSet};

/// What a query over groups computes.
#[derive(Clone, Debug)]
pub(super) struct Grouping {
    /// Rows with equal values of these are one group; without any, all rows are one.
    pub(super) keys: Vec<Scalar>,
    pub(super) calls: Vec<AggregateCall>,
    /// A condition on groups, over keys and results.
    pub(super) having: Option<Scalar>,
}

/// The groups seen so far.
pub(super) struct Groups<'p> {
    grouping: &'p Grouping,
    places: HashMap<Key, usize>,
    groups: Vec<Group>,
}

struct Group {
    keys: Vec<Value>,
    accumulators: Vec<Accumulator>,
}

impl<'p> Groups<'p> {
    pub(super) fn new(grouping: &'p Grouping) -> Self {
        let mut groups = Self { grouping, places: HashMap::new(), groups: Vec::new() };
        if grouping.keys.is_empty() {
            groups.add_group(Vec::new());
        }
        groups
    }

    fn add_group(&mut self, keys: Vec<Value>) -> usize {
        let accumulators = self.grouping.calls.iter().map(Accumulator::new).collect();
        self.groups.push(Group { keys, accumulators });
        self.groups.len() - 1
    }

    /// Takes in a row.
    pub(super) fn add(&mut self, inputs: Inputs<'_>) -> Result<(), SqlError> {
        let place = if self.grouping.keys.is_empty() { 0 } else { self.place_of(inputs)? };
        for (call, accumulator) in self.grouping.calls.iter().zip(&mut self.groups[place].accumulators) {
            if let Some(filter) = &call.filter
                && !filter.holds(inputs)?
            {
                continue;
            }
            match &call.input {
                None => accumulator.count(),
                Some(input) => accumulator.add(input.eval(inputs)?.value())?,
            }
        }
        Ok(())
    }

    fn place_of(&mut self, inputs: Inputs<'_>) -> Result<usize, SqlError> {
        let mut writer = KeyWriter::new();
        let mut keys = Vec::with_capacity(self.grouping.keys.len());
        for key in &self.grouping.keys {
            let value = key.eval(inputs)?.into_value();
            writer.push_nullable(value.borrow());
            keys.push(value);
        }
        let key = writer.finish();
        if let Some(&place) = self.places.get(&key) {
            return Ok(place);
        }
        let place = self.add_group(keys);
        self.places.insert(key, place);
        Ok(place)
    }

    /// Each group as a row: its keys, then its results.
    pub(super) fn finish(self) -> Result<Vec<Vec<Value>>, SqlError> {
        let mut rows = Vec::with_capacity(self.groups.len());
        for group in self.groups {
            let mut row = group.keys;
            for accumulator in group.accumulators {
                row.push(accumulator.finish()?);
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

/// One aggregate of one group.
struct Accumulator {
    state: State,
    /// The inputs seen, if equal ones count once.
    seen: Option<HashSet<Key>>,
}

enum State {
    Count(i64),
    /// The sum of integers; wide enough for any number of them.
    Integers {
        sum: i128,
        count: i64,
    },
    Decimals {
        sum: i128,
        count: i64,
    },
    Floats {
        sum: f64,
        count: i64,
    },
    /// The mean of exact numbers has this many digits more than they.
    ExactMean {
        sum: i128,
        count: i64,
        shift: i32,
    },
    FloatMean {
        sum: f64,
        count: i64,
    },
    Least(Value),
    Greatest(Value),
}

impl Accumulator {
    fn new(call: &AggregateCall) -> Self {
        let (is_decimal, input_scale) = match call.input.as_ref().map(Scalar::ty) {
            Some(ColumnType::Numeric { scale, .. }) => (true, scale),
            _ => (false, 0),
        };
        let state = match call.function {
            AggregateFunction::Count => State::Count(0),
            AggregateFunction::Min => State::Least(Value::Null),
            AggregateFunction::Max => State::Greatest(Value::Null),
            AggregateFunction::Sum if is_decimal => State::Decimals { sum: 0, count: 0 },
            AggregateFunction::Sum if call.ty == ColumnType::Double => State::Floats { sum: 0.0, count: 0 },
            AggregateFunction::Sum if call.ty == ColumnType::BigInt => State::Integers { sum: 0, count: 0 },
            AggregateFunction::Sum => State::Decimals { sum: 0, count: 0 },
            AggregateFunction::Average => match call.ty {
                ColumnType::Numeric { scale, .. } => {
                    State::ExactMean { sum: 0, count: 0, shift: i32::from(scale - input_scale) }
                }
                _ => State::FloatMean { sum: 0.0, count: 0 },
            },
        };
        let seen = (call.distinct == DistinctInput::Once).then(HashSet::new);
        Self { state, seen }
    }

    /// Counts a row without looking at it.
    fn count(&mut self) {
        if let State::Count(count) = &mut self.state {
            *count += 1;
        }
    }

    fn add(&mut self, value: ValueRef<'_>) -> Result<(), SqlError> {
        if value.is_null() {
            return Ok(());
        }
        if let Some(seen) = &mut self.seen {
            let mut writer = KeyWriter::new();
            writer.push(value);
            if !seen.insert(writer.finish()) {
                return Ok(());
            }
        }
        match &mut self.state {
            State::Count(count) => *count += 1,
            State::Integers { sum, count } => {
                *sum += i128::from(integer(value));
                *count += 1;
            }
            State::Decimals { sum, count } | State::ExactMean { sum, count, .. } => {
                let value = value.as_decimal().unwrap_or_else(|| i128::from(integer(value)));
                *sum = sum.checked_add(value).ok_or_else(overflow)?;
                *count += 1;
            }
            State::Floats { sum, count } | State::FloatMean { sum, count } => {
                *sum = added(*sum, float(value))?;
                *count += 1;
            }
            State::Least(least) => {
                if least.borrow().is_null() || compare_values(value, least.borrow()).is_lt() {
                    *least = value.to_owned();
                }
            }
            State::Greatest(greatest) => {
                if greatest.borrow().is_null() || compare_values(value, greatest.borrow()).is_gt() {
                    *greatest = value.to_owned();
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Value, SqlError> {
        Ok(match self.state {
            State::Count(count) => Value::Int64(count),
            State::Least(value) | State::Greatest(value) => value,
            State::Integers { count: 0, .. }
            | State::Decimals { count: 0, .. }
            | State::Floats { count: 0, .. }
            | State::ExactMean { count: 0, .. }
            | State::FloatMean { count: 0, .. } => Value::Null,
            State::Integers { sum, .. } => {
                let out_of_range = |_| SqlError::new(SqlState::NumericValueOutOfRange, "bigint out of range");
                Value::Int64(i64::try_from(sum).map_err(out_of_range)?)
            }
            State::Decimals { sum, .. } => Value::Decimal(within(sum)?),
            State::Floats { sum, .. } => Value::Float64(sum),
            State::ExactMean { sum, count, shift } => {
                Value::Decimal(divide(within(sum)?, i128::from(count), shift)?)
            }
            State::FloatMean { sum, count } => Value::Float64(sum / count as f64),
        })
    }
}

fn integer(value: ValueRef<'_>) -> i64 {
    value.as_i64().expect("integers are summed as integers")
}

fn float(value: ValueRef<'_>) -> f64 {
    match value {
        ValueRef::Float64(v) => v,
        ValueRef::Float32(v) => f64::from(v),
        other => integer(other) as f64,
    }
}

/// The sum of two floats, which has overflowed if it is infinite and neither of them is.
fn added(sum: f64, value: f64) -> Result<f64, SqlError> {
    let added = sum + value;
    if added.is_infinite() && sum.is_finite() && value.is_finite() {
        return Err(float_overflow());
    }
    Ok(added)
}

fn within(value: i128) -> Result<i128, SqlError> {
    let limit = power_of_ten(38).expect("38 digits fit");
    if value > -limit && value < limit { Ok(value) } else { Err(overflow()) }
}

fn overflow() -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, "value overflows numeric format")
}
