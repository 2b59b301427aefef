// SPDX-License-Identifier: Apache-2.0
//! States of the plainest aggregates: 64 or 128 bits for each, side by side in the record of each group.
//!
//! The first of a record counts the rows of its group. Each value that is folded has an array beside, for the rows that do not count,
//! because it is NULL or a FILTER leaves them out: it is only touched for those. So `count` of a column costs nothing beside `sum`, and
//! without NULLs nothing at all. Where no number of rows is asked for, rows are counted from the first batch on in which a value is missing:
//! until then each group has a value of each kind.

use super::pairs::{self, PairSums, Pairs};
use super::records::{Records, State};
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
    /// Which of all states it is.
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

    /// Its place in records, which is made there.
    fn place(self, records: &mut Records) -> usize {
        match self {
            Self::Sum => records.place(0_i64),
            Self::Least => records.place(i64::MAX),
            Self::Most => records.place(i64::MIN),
            Self::FloatSum => records.place(0.0_f64),
            Self::WideSum | Self::SquareSum | Self::DecimalSum | Self::NarrowSum => records.place(0_i128),
            Self::LeastDecimal => records.place(i128::MAX),
            Self::MostDecimal => records.place(i128::MIN),
            Self::PairSums => records.place(PairSums::default()),
        }
    }
}

/// From when on rows are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    FromTheStart,
    OnceOneIsMissing,
}

/// All states.
pub(super) struct Folds {
    /// How many rows each group has, and its states.
    records: Records,
    /// Whether rows are counted by now.
    is_counting: bool,
    /// How many groups there were before the last batch.
    groups_before: usize,
    /// Where in a record each state is.
    places: Vec<usize>,
    /// Of each input how many rows of each group have no value; of the groups that there were when one was missing last.
    missing: Vec<Vec<u64>>,
}

/// The place of the number of rows in a record.
const ROWS: usize = 0;

impl Folds {
    /// For the kinds of all states, and so many inputs.
    pub(super) fn new(kinds: &[Kind], inputs: usize, counting: Counting) -> Self {
        let mut records = Records::of(0_u64);
        let places = kinds.iter().map(|kind| kind.place(&mut records)).collect();
        let is_counting = counting == Counting::FromTheStart;
        Self { records, is_counting, groups_before: 0, places, missing: vec![Vec::new(); inputs] }
    }

    /// Makes room for the groups of a batch, each of whose rows is of one of `groups` groups, and counts the rows if need be.
    pub(super) fn begin(&mut self, members: &[u32], groups: usize) {
        self.groups_before = self.records.len();
        self.records.grow(groups);
        if self.is_counting {
            self.count_rows(members);
        }
    }

    /// Counts from this batch on. Of groups from before it is known that they have a value of each input: for them that is the first row.
    fn start_counting(&mut self, members: &[u32]) {
        let known = (0..).take(self.groups_before).map(|group| (group, ()));
        self.records.change(ROWS, known, |rows: &mut u64, ()| *rows = 1);
        self.is_counting = true;
        self.count_rows(members);
    }

    fn count_rows(&mut self, members: &[u32]) {
        let rows = members.iter().map(|group| (*group, ()));
        self.records.change(ROWS, rows, |rows: &mut u64, ()| *rows += 1);
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
            if !self.is_counting {
                self.start_counting(members);
            }
            let missing = &mut self.missing[input];
            missing.resize(self.records.len(), 0);
            (!there.inner()).set_indices().for_each(|row| missing[members[row] as usize] += 1);
        }
        let Some(values) = values else { return Ok(()) };
        let rows = Rows { members, there: there.as_ref() };
        folds.iter().try_for_each(|fold| {
            let mut states = States { records: &mut self.records, place: self.places[fold.state] };
            rows.fold(fold.kind, values, &mut states)
        })
    }

    /// How many values of an input each group has; without one, how many rows. Where not all rows were counted, at least one for each group
    /// that has any.
    fn values(&self, input: Option<usize>) -> Vec<i64> {
        let mut values: Vec<i64> = self.records.states::<u64>(ROWS).map(u64::cast_signed).collect();
        if let Some(input) = input {
            let missing = values.iter_mut().zip(&self.missing[input]);
            missing.for_each(|(value, missing)| *value -= missing.cast_signed());
        }
        values
    }

    /// How many values there are, group by group, if rows are counted from the start.
    pub(super) fn counts(&self, input: Option<usize>) -> ArrayRef {
        Arc::new(PrimitiveArray::<Int64Type>::from(self.values(input)))
    }

    /// Which groups have a value of this input; `None`: all.
    fn there(&self, input: usize) -> Option<NullBuffer> {
        if !self.is_counting {
            return None;
        }
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
        let (there, place) = (self.there(input), self.places[fold.state]);
        macro_rules! integers {
            ($kind:ty) => {{
                #[allow(
                    clippy::allow_attributes,
                    clippy::cast_possible_truncation,
                    reason = "it was such a value, or is NULL"
                )]
                let values = self
                    .records
                    .states::<i64>(place)
                    .map(|state| state as <$kind as ArrowPrimitiveType>::Native);
                made::<$kind>(values, there, ty)
            }};
        }
        Ok(match (fold.kind, ty) {
            (Kind::Sum | Kind::Least | Kind::Most, ty) => match ty {
                DataType::Int16 => integers!(Int16Type),
                DataType::Int32 => integers!(Int32Type),
                DataType::Int64 => integers!(Int64Type),
                DataType::Date32 => integers!(Date32Type),
                DataType::Timestamp(TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType),
                other => return internal_err!("{:?} as {other}", fold.kind),
            },
            (Kind::FloatSum, DataType::Float64) => {
                made::<Float64Type>(self.records.states::<f64>(place), there, ty)
            }
            (
                Kind::WideSum
                | Kind::SquareSum
                | Kind::DecimalSum
                | Kind::NarrowSum
                | Kind::LeastDecimal
                | Kind::MostDecimal,
                DataType::Decimal128(..),
            ) => made::<Decimal128Type>(self.records.states::<i128>(place), there, ty),
            (_, other) => return internal_err!("{:?} as {other}", fold.kind),
        })
    }

    /// The sums of pairs, group by group.
    pub(super) fn pair_sums(&self, fold: &Fold) -> Result<Vec<ArrayRef>> {
        if fold.kind != Kind::PairSums {
            return internal_err!("{:?} as sums of pairs", fold.kind);
        }
        Ok(pairs::columns(&self.records.states(self.places[fold.state]).collect::<Vec<_>>()))
    }

    pub(super) fn bytes(&self) -> usize {
        let missing = self.missing.iter().map(|counts| counts.capacity() * size_of::<u64>());
        self.records.bytes() + missing.sum::<usize>()
    }
}

/// The states of one fold.
struct States<'a> {
    records: &'a mut Records,
    place: usize,
}

/// The groups of a batch's rows, and which rows have a value.
struct Rows<'a> {
    members: &'a [u32],
    there: Option<&'a NullBuffer>,
}

impl Rows<'_> {
    fn fold(&self, kind: Kind, values: &Values, states: &mut States<'_>) -> Result<()> {
        match values {
            Values::Pairs(pairs) => self.fold_pairs(kind, pairs, states),
            Values::Narrow(narrow) => self.fold_decimals(kind, &narrow.values, states),
            Values::Array(_) if kind == Kind::NarrowSum => Ok(()),
            Values::Array(array) => self.fold_array(kind, array, states),
        }
    }

    fn fold_pairs(&self, kind: Kind, pairs: &Pairs, states: &mut States<'_>) -> Result<()> {
        if kind != Kind::PairSums {
            return internal_err!("{kind:?} of pairs");
        }
        macro_rules! add {
            ($y:ty, $x:ty) => {
                self.each_pair(
                    pairs.y.as_primitive::<$y>().values(),
                    pairs.x.as_primitive::<$x>().values(),
                    states,
                )
            };
        }
        match (pairs.y.data_type(), pairs.x.data_type()) {
            (DataType::Int16, DataType::Int16) => add!(Int16Type, Int16Type),
            (DataType::Int16, DataType::Int32) => add!(Int16Type, Int32Type),
            (DataType::Int32, DataType::Int16) => add!(Int32Type, Int16Type),
            (DataType::Int32, DataType::Int32) => add!(Int32Type, Int32Type),
            (y, x) => return internal_err!("sums of pairs of {y} and {x}"),
        }
        Ok(())
    }

    /// Decimals of 64 or 128 bits.
    fn fold_decimals<T>(&self, kind: Kind, values: &[T], states: &mut States<'_>) -> Result<()>
    where
        T: Copy + Into<i128>,
    {
        match kind {
            Kind::LeastDecimal => {
                self.each(values, states, |state: &mut i128, value: T| *state = (*state).min(value.into()));
            }
            Kind::MostDecimal => {
                self.each(values, states, |state: &mut i128, value: T| *state = (*state).max(value.into()));
            }
            Kind::DecimalSum | Kind::NarrowSum => {
                self.each(values, states, |state: &mut i128, value: T| {
                    *state = state.wrapping_add(value.into());
                });
            }
            _ => return internal_err!("{kind:?} of decimals"),
        }
        Ok(())
    }

    fn fold_array(&self, kind: Kind, values: &ArrayRef, states: &mut States<'_>) -> Result<()> {
        macro_rules! integers {
            ($kind:ty) => {{
                let values = values.as_primitive::<$kind>().values();
                match kind {
                    Kind::Sum => {
                        self.each(values, states, |state: &mut i64, value| {
                            *state = state.wrapping_add(i64::from(value))
                        });
                    }
                    Kind::WideSum => {
                        self.each(values, states, |state: &mut i128, value| {
                            *state = state.wrapping_add(i128::from(value))
                        });
                    }
                    Kind::SquareSum => {
                        self.each(values, states, |state: &mut i128, value| {
                            *state = state.wrapping_add(i128::from(value) * i128::from(value))
                        });
                    }
                    Kind::Least => {
                        self.each(values, states, |state: &mut i64, value| {
                            *state = i64::from(value).min(*state)
                        });
                    }
                    Kind::Most => {
                        self.each(values, states, |state: &mut i64, value| {
                            *state = i64::from(value).max(*state)
                        });
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
            DataType::Float64 if kind == Kind::FloatSum => {
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
                let values = values.as_primitive::<Decimal128Type>().values();
                self.fold_decimals(kind, values, states)?;
            }
            other => return internal_err!("{kind:?} of {other}"),
        }
        Ok(())
    }

    /// Does `change` to the state of each row's group with its value, where there is one.
    #[inline]
    fn each<S: State, T: Copy>(&self, values: &[T], states: &mut States<'_>, change: impl FnMut(&mut S, T)) {
        match self.there {
            None => {
                let rows = self.members.iter().copied().zip(values.iter().copied());
                states.records.change(states.place, rows, change);
            }
            Some(there) => {
                let rows = there.valid_indices().map(|row| (self.members[row], values[row]));
                states.records.change(states.place, rows, change);
            }
        }
    }

    /// The same with pairs, which are added.
    #[inline]
    fn each_pair<Y, X>(&self, y: &[Y], x: &[X], states: &mut States<'_>)
    where
        Y: Copy + Into<i64>,
        X: Copy + Into<i64>,
    {
        let add = |sums: &mut PairSums, (y, x): (Y, X)| sums.add(y.into(), x.into());
        match self.there {
            None => {
                let pairs = y.iter().copied().zip(x.iter().copied());
                states.records.change(states.place, self.members.iter().copied().zip(pairs), add);
            }
            Some(there) => {
                let rows = there.valid_indices().map(|row| (self.members[row], (y[row], x[row])));
                states.records.change(states.place, rows, add);
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
