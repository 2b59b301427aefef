// SPDX-License-Identifier: Apache-2.0
//! States of the plainest aggregates: an array of 64 or 128 bits for each, with a place for each group.
//!
//! One array counts the rows of each group. Each value that is folded has one more, for the rows that do not count, because it is NULL
//! or a FILTER leaves them out: it is only touched for those. So `count` of a column costs nothing beside `sum`, and without NULLs
//! nothing at all.

use super::pairs::{self, PairSums};
use super::values::Values;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use datafusion::common::{Result, internal_err};
use std::sync::Arc;

/// One state of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    pub(super) kind: Kind,
    /// Which array it is in.
    pub(super) state: usize,
}

/// What becomes of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of integers, modulo 2^64.
    Sum,
    /// Of integers, as a decimal.
    WideSum,
    /// Of the squares of integers, as a decimal.
    SquareSum,
    /// Of decimals that are far from 128 bits.
    DecimalSum,
    /// Of longer ones that have 64 bits all the same, whose sum cannot overflow. The others of them are not added here.
    NarrowSum,
    FloatSum,
    Least,
    Most,
    LeastDecimal,
    MostDecimal,
    /// Of pairs of integers, all that is made of them.
    PairSums,
}

impl Kind {
    /// What a call of this name is, for arguments and states of these types; `None`: nothing that is folded here.
    pub(super) fn of(function: &str, argument: &DataType, state: &DataType) -> Option<Self> {
        /// Sums of values with more digits are checked as they grow, by functions of the SQL layer.
        const DIGITS_MAX: u8 = 28;
        let is_whole = matches!(
            argument,
            DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Date32
                | DataType::Timestamp(TimeUnit::Microsecond, _)
        );
        match (function, argument, state) {
            ("sum", DataType::Int64, DataType::Int64) => Some(Self::Sum),
            ("sum", DataType::Int64, DataType::Decimal128(_, 0)) => Some(Self::WideSum),
            ("sum", DataType::Decimal128(digits, scale), DataType::Decimal128(_, of_state))
                if scale == of_state =>
            {
                Some(if *digits <= DIGITS_MAX { Self::DecimalSum } else { Self::NarrowSum })
            }
            ("sum", DataType::Float64, DataType::Float64) => Some(Self::FloatSum),
            ("min", _, _) if is_whole && argument == state => Some(Self::Least),
            ("max", _, _) if is_whole && argument == state => Some(Self::Most),
            ("min", DataType::Decimal128(..), _) if argument == state => Some(Self::LeastDecimal),
            ("max", DataType::Decimal128(..), _) if argument == state => Some(Self::MostDecimal),
            _ => None,
        }
    }

    /// The states of no groups.
    fn states(self) -> States {
        match self {
            Self::Sum => States::Words(Vec::new(), 0),
            Self::Least => States::Words(Vec::new(), i64::MAX),
            Self::Most => States::Words(Vec::new(), i64::MIN),
            Self::FloatSum => States::Reals(Vec::new()),
            Self::WideSum | Self::SquareSum | Self::DecimalSum | Self::NarrowSum => {
                States::Wides(Vec::new(), 0)
            }
            Self::LeastDecimal => States::Wides(Vec::new(), i128::MAX),
            Self::MostDecimal => States::Wides(Vec::new(), i128::MIN),
            Self::PairSums => States::Pairs(Vec::new()),
        }
    }
}

/// One state of each group, and what it is of a group without values.
enum States {
    Words(Vec<i64>, i64),
    Reals(Vec<f64>),
    Wides(Vec<i128>, i128),
    Pairs(Vec<PairSums>),
}

impl States {
    fn grow(&mut self, groups: usize) {
        match self {
            Self::Words(states, blank) => states.resize(groups, *blank),
            Self::Reals(states) => states.resize(groups, 0.0),
            Self::Wides(states, blank) => states.resize(groups, *blank),
            Self::Pairs(states) => states.resize(groups, PairSums::default()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Words(states, _) => states.capacity() * size_of::<i64>(),
            Self::Reals(states) => states.capacity() * size_of::<f64>(),
            Self::Wides(states, _) => states.capacity() * size_of::<i128>(),
            Self::Pairs(states) => states.capacity() * size_of::<PairSums>(),
        }
    }
}

/// All states.
pub(super) struct Folds {
    /// How many rows each group has.
    rows: Vec<u64>,
    /// Of each input how many rows of each group have no value; of the groups that there were when one was missing last.
    missing: Vec<Vec<u64>>,
    states: Vec<States>,
}

impl Folds {
    /// For the kinds of all states, and so many inputs.
    pub(super) fn new(kinds: &[Kind], inputs: usize) -> Self {
        let states = kinds.iter().map(|kind| kind.states()).collect();
        Self { rows: Vec::new(), missing: vec![Vec::new(); inputs], states }
    }

    /// Counts the rows of a batch, of which each is of one of `groups` groups.
    pub(super) fn count_rows(&mut self, members: &[u32], groups: usize) {
        if groups > self.rows.len() {
            self.rows.resize(groups, 0);
            self.states.iter_mut().for_each(|states| states.grow(groups));
        }
        for group in members {
            self.rows[*group as usize] += 1;
        }
    }

    /// Adds the values of an input to the groups of their rows: those of which `passes` says nothing else.
    ///
    /// # Errors
    /// If a sum of floats is infinite though no value is, or a fold is not of values of this type: a bug.
    pub(super) fn add(
        &mut self,
        (input, folds): (usize, &[Fold]),
        members: &[u32],
        values: Option<&Values>,
        passes: Option<&BooleanArray>,
    ) -> Result<()> {
        let nulls = values.and_then(Values::nulls).filter(|nulls| nulls.null_count() > 0);
        let passing = passes.map(|passes| NullBuffer::new(passes.values().clone()));
        let there = NullBuffer::union(nulls, passing.as_ref());
        if let Some(there) = &there {
            let missing = &mut self.missing[input];
            missing.resize(self.rows.len(), 0);
            (!there.inner()).set_indices().for_each(|row| missing[members[row] as usize] += 1);
        }
        let Some(values) = values else { return Ok(()) };
        let rows = Rows { members, there: there.as_ref() };
        folds.iter().try_for_each(|fold| rows.fold(fold.kind, values, &mut self.states[fold.state]))
    }

    /// How many values of an input each group has; without one, how many rows.
    fn values(&self, input: Option<usize>) -> Vec<i64> {
        let mut values: Vec<i64> = self.rows.iter().map(|rows| rows.cast_signed()).collect();
        if let Some(input) = input {
            let missing = values.iter_mut().zip(&self.missing[input]);
            missing.for_each(|(value, missing)| *value -= missing.cast_signed());
        }
        values
    }

    /// How many values there are, group by group.
    pub(super) fn counts(&self, input: Option<usize>) -> ArrayRef {
        Arc::new(PrimitiveArray::<Int64Type>::from(self.values(input)))
    }

    /// Which groups have a value of this input; `None`: all.
    fn there(&self, input: usize) -> Option<NullBuffer> {
        let there: NullBuffer =
            self.values(Some(input)).iter().map(|count| *count > 0).collect::<Vec<bool>>().into();
        Some(there).filter(|there| there.null_count() > 0)
    }

    /// Sums of decimals, group by group, with NULL just where the input has no value.
    pub(super) fn with_nulls(&self, sums: &ArrayRef, input: usize) -> ArrayRef {
        let values = sums.as_primitive::<Decimal128Type>().values();
        made::<Decimal128Type>(values.iter().copied(), self.there(input), sums.data_type())
    }

    /// A state, group by group; NULL where the input has no value.
    pub(super) fn state(&self, fold: &Fold, input: usize, ty: &DataType) -> Result<ArrayRef> {
        let there = self.there(input);
        macro_rules! integers {
            ($kind:ty, $states:expr) => {{
                #[allow(
                    clippy::allow_attributes,
                    clippy::cast_possible_truncation,
                    reason = "it was such a value, or is NULL"
                )]
                let values = $states.iter().map(|state| *state as <$kind as ArrowPrimitiveType>::Native);
                made::<$kind>(values, there, ty)
            }};
        }
        Ok(match (&self.states[fold.state], ty) {
            (States::Words(states, _), DataType::Int16) => integers!(Int16Type, states),
            (States::Words(states, _), DataType::Int32) => integers!(Int32Type, states),
            (States::Words(states, _), DataType::Int64) => integers!(Int64Type, states),
            (States::Words(states, _), DataType::Date32) => integers!(Date32Type, states),
            (States::Words(states, _), DataType::Timestamp(TimeUnit::Microsecond, _)) => {
                integers!(TimestampMicrosecondType, states)
            }
            (States::Reals(states), DataType::Float64) => {
                made::<Float64Type>(states.iter().copied(), there, ty)
            }
            (States::Wides(states, _), DataType::Decimal128(..)) => {
                made::<Decimal128Type>(states.iter().copied(), there, ty)
            }
            (_, other) => return internal_err!("{:?} as {other}", fold.kind),
        })
    }

    /// The sums of pairs, group by group.
    pub(super) fn pair_sums(&self, fold: &Fold) -> Result<Vec<ArrayRef>> {
        match &self.states[fold.state] {
            States::Pairs(sums) => Ok(pairs::columns(sums)),
            _ => internal_err!("{:?} as sums of pairs", fold.kind),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let counts = std::iter::once(&self.rows)
            .chain(&self.missing)
            .map(|counts| counts.capacity() * size_of::<u64>());
        counts.sum::<usize>() + self.states.iter().map(States::bytes).sum::<usize>()
    }
}

/// The groups of a batch's rows, and which rows have a value.
struct Rows<'a> {
    members: &'a [u32],
    there: Option<&'a NullBuffer>,
}

impl Rows<'_> {
    fn fold(&self, kind: Kind, values: &Values, states: &mut States) -> Result<()> {
        match values {
            Values::Pairs(pairs) => match states {
                States::Pairs(sums) => pairs::add(pairs, self.members, self.there, sums),
                _ => internal_err!("{kind:?} of pairs"),
            },
            Values::Narrow(narrow) => self.fold_narrow(kind, &narrow.values, states),
            Values::Array(_) if kind == Kind::NarrowSum => Ok(()),
            Values::Array(array) => self.fold_array(kind, array, states),
        }
    }

    /// Decimals of 64 bits.
    fn fold_narrow(&self, kind: Kind, values: &[i64], states: &mut States) -> Result<()> {
        let States::Wides(states, _) = states else { return internal_err!("{kind:?} of decimals") };
        match kind {
            Kind::LeastDecimal => {
                self.each(values, states, |state, value| *state = i128::from(value).min(*state));
            }
            Kind::MostDecimal => {
                self.each(values, states, |state, value| *state = i128::from(value).max(*state));
            }
            _ => self.each(values, states, |state, value| *state = state.wrapping_add(i128::from(value))),
        }
        Ok(())
    }

    fn fold_array(&self, kind: Kind, values: &ArrayRef, states: &mut States) -> Result<()> {
        macro_rules! integers {
            ($kind:ty) => {{
                let values = values.as_primitive::<$kind>().values();
                match (kind, states) {
                    (Kind::Sum, States::Words(states, _)) => {
                        self.each(values, states, |state, value| {
                            *state = state.wrapping_add(i64::from(value))
                        });
                    }
                    (Kind::WideSum, States::Wides(states, _)) => {
                        self.each(values, states, |state, value| {
                            *state = state.wrapping_add(i128::from(value))
                        });
                    }
                    (Kind::SquareSum, States::Wides(states, _)) => {
                        self.each(values, states, |state, value| {
                            *state = state.wrapping_add(i128::from(value) * i128::from(value))
                        });
                    }
                    (Kind::Least, States::Words(states, _)) => {
                        self.each(values, states, |state, value| *state = i64::from(value).min(*state));
                    }
                    (Kind::Most, States::Words(states, _)) => {
                        self.each(values, states, |state, value| *state = i64::from(value).max(*state));
                    }
                    _ => return internal_err!("{kind:?} of integers"),
                }
            }};
        }
        match values.data_type() {
            DataType::Int16 => integers!(Int16Type),
            DataType::Int32 => integers!(Int32Type),
            DataType::Int64 => integers!(Int64Type),
            DataType::Date32 => integers!(Date32Type),
            DataType::Timestamp(TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType),
            DataType::Float64 => {
                let States::Reals(states) = states else { return internal_err!("{kind:?} of floats") };
                let values = values.as_primitive::<Float64Type>().values();
                let mut overflows = false;
                self.each(values, states, |state: &mut f64, value: f64| {
                    let sum = *state + value;
                    overflows |= sum.is_infinite() && state.is_finite() && value.is_finite();
                    *state = sum;
                });
                if overflows {
                    return Err(ArrowError::ArithmeticOverflow("a sum of floats".to_owned()).into());
                }
            }
            DataType::Decimal128(..) => {
                let States::Wides(states, _) = states else { return internal_err!("{kind:?} of decimals") };
                let values = values.as_primitive::<Decimal128Type>().values();
                match kind {
                    Kind::LeastDecimal => {
                        self.each(values, states, |state, value| *state = value.min(*state))
                    }
                    Kind::MostDecimal => self.each(values, states, |state, value| *state = value.max(*state)),
                    _ => self.each(values, states, |state, value| *state = state.wrapping_add(value)),
                }
            }
            other => return internal_err!("{kind:?} of {other}"),
        }
        Ok(())
    }

    /// Does `change` to the state of each row's group with its value, where there is one.
    #[inline]
    fn each<S, T: Copy>(&self, values: &[T], states: &mut [S], mut change: impl FnMut(&mut S, T)) {
        match self.there {
            None => {
                let rows = self.members.iter().zip(values);
                rows.for_each(|(group, value)| change(&mut states[*group as usize], *value));
            }
            Some(there) => {
                let rows = there.valid_indices();
                rows.for_each(|row| change(&mut states[self.members[row] as usize], values[row]));
            }
        }
    }
}

fn made<T: ArrowPrimitiveType>(
    values: impl Iterator<Item = T::Native>,
    there: Option<NullBuffer>,
    ty: &DataType,
) -> ArrayRef {
    let values = PrimitiveArray::<T>::new(values.collect::<Vec<_>>().into(), there);
    Arc::new(values.with_data_type(ty.clone()))
}
