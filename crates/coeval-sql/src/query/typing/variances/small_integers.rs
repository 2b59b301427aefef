// SPDX-License-Identifier: Apache-2.0
//! Variances and deviations of `smallint` and `integer`.
//!
//! The sum of as many of them as there are in any table has 64 bits, and that of their squares 128. So what is known of a group takes a third
//! of what it takes of numbers of any length, and two of its three parts are those of `count` and `sum`. The operator that groups by codes
//! makes all three by itself (`coeval-operators`, `coded_groups/plan.rs`).

use super::super::kept_rows::KeptRows;
use super::{SCALE, Spread, Sums};
use crate::error::SqlError;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int16Type, Int32Type, Int64Type,
    i256,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// The type of a sum of squares.
const SQUARES: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// Whether the values of an aggregate with these arguments are such integers.
pub(super) fn are_of(arguments: &[FieldRef]) -> bool {
    arguments.first().is_some_and(|field| matches!(field.data_type(), DataType::Int16 | DataType::Int32))
}

/// The parts of what is known of values.
pub(super) fn state_fields() -> Vec<FieldRef> {
    let field = |name, ty| Arc::new(Field::new(name, ty, true));
    vec![field("count", DataType::Int64), field("sum", DataType::Int64), field("squares", SQUARES)]
}

/// The aggregate of all values.
pub(super) fn of_all(spread: Spread) -> Box<dyn Accumulator> {
    Box::new(All { spread, sums: SmallSums::default() })
}

/// The same of each group.
pub(super) fn of_groups(spread: Spread) -> Box<dyn GroupsAccumulator> {
    Box::new(Groups { spread, groups: Vec::new() })
}

/// What is known of values.
#[derive(Clone, Copy, Debug, Default)]
struct SmallSums {
    count: i64,
    sum: i64,
    squares: i128,
}

impl SmallSums {
    #[inline]
    fn add(&mut self, value: i64) {
        self.merge(&Self { count: 1, sum: value, squares: i128::from(value) * i128::from(value) });
    }

    #[inline]
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares = self.squares.wrapping_add(other.squares);
    }

    /// The same without values that are among these.
    fn without(&self, others: &Self) -> Self {
        Self {
            count: self.count - others.count,
            sum: self.sum.wrapping_sub(others.sum),
            squares: self.squares.wrapping_sub(others.squares),
        }
    }

    /// The variance or deviation in units of its scale; `None` of too few values.
    fn outcome(&self, spread: Spread) -> Result<Option<i128>> {
        let (sum, squares) = (i256::from_i128(i128::from(self.sum)), i256::from_i128(self.squares));
        Sums { spread, scale: 0, count: self.count.cast_unsigned(), sum, squares }.outcome()
    }
}

/// Does something with each value and the number of its row.
///
/// # Errors
/// If these are other values: a bug.
fn each_value(values: &ArrayRef, change: impl FnMut(usize, i64)) -> Result<()> {
    match values.data_type() {
        DataType::Int16 => each_of(values.as_primitive::<Int16Type>(), change),
        DataType::Int32 => each_of(values.as_primitive::<Int32Type>(), change),
        other => return Err(SqlError::internal(format!("{other} is no small integer")).into()),
    }
    Ok(())
}

fn each_of<T: ArrowPrimitiveType<Native: Into<i64>>>(
    values: &PrimitiveArray<T>,
    mut change: impl FnMut(usize, i64),
) {
    match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => values.values().iter().enumerate().for_each(|(row, value)| change(row, (*value).into())),
        Some(nulls) => nulls.valid_indices().for_each(|row| change(row, values.value(row).into())),
    }
}

#[derive(Debug)]
struct All {
    spread: Spread,
    sums: SmallSums,
}

impl Accumulator for All {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_value(&values[0], |_, value| self.sums.add(value))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut gone = SmallSums::default();
        each_value(&values[0], |_, value| gone.add(value))?;
        self.sums = self.sums.without(&gone);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = States::of(states)?;
        (0..states.counts.len()).for_each(|row| self.sums.merge(&states.sums(row)));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let SmallSums { count, sum, squares } = self.sums;
        Ok(vec![
            ScalarValue::Int64(Some(count)),
            ScalarValue::Int64(Some(sum)),
            ScalarValue::Decimal128(Some(squares), DECIMAL128_MAX_PRECISION, 0),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let outcome = self.sums.outcome(self.spread)?;
        Ok(ScalarValue::Decimal128(outcome, DECIMAL128_MAX_PRECISION, SCALE as i8))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[derive(Debug)]
struct Groups {
    spread: Spread,
    groups: Vec<SmallSums>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize(total, SmallSums::default());
        let kept_rows = KeptRows::of(filter);
        each_value(&values[0], |row, value| {
            if kept_rows.has(row) {
                self.groups[groups[row]].add(value);
            }
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize(total, SmallSums::default());
        let states = States::of(states)?;
        let rows = groups.iter().enumerate();
        rows.for_each(|(row, &group)| self.groups[group].merge(&states.sums(row)));
        Ok(())
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = emit_to.take_needed(&mut self.groups);
        let counts = PrimitiveArray::<Int64Type>::from_iter_values(groups.iter().map(|sums| sums.count));
        let sums = PrimitiveArray::<Int64Type>::from_iter_values(groups.iter().map(|sums| sums.sum));
        let squares =
            PrimitiveArray::<Decimal128Type>::from_iter_values(groups.iter().map(|sums| sums.squares));
        Ok(vec![Arc::new(counts), Arc::new(sums), Arc::new(squares.with_data_type(SQUARES))])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let outcomes = groups.iter().map(|sums| sums.outcome(self.spread));
        let outcomes = outcomes.collect::<Result<PrimitiveArray<Decimal128Type>>>()?;
        Ok(Arc::new(outcomes.with_precision_and_scale(DECIMAL128_MAX_PRECISION, SCALE as i8)?))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut each = Self { spread: self.spread, groups: Vec::new() };
        each.update_batch(values, &rows, filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.capacity() * size_of::<SmallSums>()
    }
}

/// What is known of several groups.
struct States<'s> {
    counts: &'s PrimitiveArray<Int64Type>,
    sums: &'s PrimitiveArray<Int64Type>,
    squares: &'s PrimitiveArray<Decimal128Type>,
}

impl<'s> States<'s> {
    fn of(states: &'s [ArrayRef]) -> Result<Self> {
        let [counts, sums, squares] = states else {
            return Err(SqlError::internal("the state of a variance has three parts").into());
        };
        let (counts, sums) = (counts.as_primitive(), sums.as_primitive());
        Ok(Self { counts, sums, squares: squares.as_primitive() })
    }

    /// Those of one group. Where it has no values, the sums may be NULL.
    fn sums(&self, row: usize) -> SmallSums {
        match self.counts.value(row) {
            0 => SmallSums::default(),
            count => SmallSums { count, sum: self.sums.value(row), squares: self.squares.value(row) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::ops::Range;

    /// The row of a group: its value, and whether a filter leaves it.
    type Row = (usize, Option<i32>, bool);

    fn random_row(random: &mut StdRng, groups: usize) -> Row {
        let value = match random.random_range(0..5) {
            0 => None,
            1 => Some([i32::MIN, i32::MAX][random.random_range(0..2)]),
            _ => Some(random.random_range(-1_000..1_000)),
        };
        (random.random_range(0..groups), value, random.random_bool(0.8))
    }

    fn array(values: impl Iterator<Item = Option<i32>>) -> ArrayRef {
        Arc::new(values.collect::<PrimitiveArray<Int32Type>>())
    }

    /// What numbers of any length give for the rows of a group that the filter leaves.
    fn wide(rows: &[Row], group: usize, spread: Spread) -> Option<i128> {
        let own = rows.iter().filter(|row| row.0 == group && row.2).map(|row| row.1);
        let mut sums = Sums { spread, scale: 0, count: 0, sum: i256::ZERO, squares: i256::ZERO };
        sums.update_batch(&[array(own)]).unwrap();
        sums.outcome().unwrap()
    }

    /// Some rows at once, some as states of others. Break: let a group begin with something, or read over the filter.
    #[test]
    fn groups_have_what_numbers_of_any_length_give() {
        let mut random = StdRng::seed_from_u64(22);
        for spread in Spread::EACH {
            let rows: Vec<Row> = (0..500).map(|_| random_row(&mut random, 12)).collect();
            let mut grouped = Groups { spread, groups: Vec::new() };
            for (part, are_states) in rows.chunks(250).zip([false, true]) {
                let values = [array(part.iter().map(|row| row.1))];
                let groups: Vec<usize> = part.iter().map(|row| row.0).collect();
                let filter: BooleanArray = part.iter().map(|row| Some(row.2)).collect();
                if are_states {
                    let states = grouped.convert_to_state(&values, Some(&filter)).unwrap();
                    grouped.merge_batch(&states, &groups, 13).unwrap();
                } else {
                    grouped.update_batch(&values, &groups, Some(&filter), 13).unwrap();
                }
            }
            let found = grouped.evaluate(EmitTo::All).unwrap();
            let found: Vec<Option<i128>> = found.as_primitive::<Decimal128Type>().iter().collect();
            let expected: Vec<Option<i128>> = (0..13).map(|group| wide(&rows, group, spread)).collect();
            assert_eq!(found, expected, "{spread:?}");
        }
    }

    #[test]
    fn values_that_leave_a_frame_are_gone() {
        let values = |range: Range<i16>| -> ArrayRef {
            let values = range.map(|value| (value % 3 != 0).then_some(value * 999));
            Arc::new(values.collect::<PrimitiveArray<Int16Type>>())
        };
        for spread in Spread::EACH {
            let mut frame = of_all(spread);
            frame.update_batch(&[values(-20..30)]).unwrap();
            frame.retract_batch(&[values(-20..10)]).unwrap();
            let mut rest = of_all(spread);
            rest.update_batch(&[values(10..30)]).unwrap();
            assert_eq!(frame.evaluate().unwrap(), rest.evaluate().unwrap(), "{spread:?}");
        }
    }
}
