// SPDX-License-Identifier: Apache-2.0
//! `corr`, `covar_...` and `regr_...` of pairs of `smallint` and `integer`.
//!
//! The sums of such numbers, of their squares and of their products are exact, in 64 and 128 bits. So nothing is divided and rounded for each
//! pair, as it is for [floats](super): the distances from the means are found once all pairs are there, and rounded once. Results do
//! not depend on the order of rows, and differ from PostgreSQL's, which computes them of floats, in the last digits at most; frames that move
//! take pairs away again. The operator that groups by codes makes the sums by itself (`coeval-operators`, `coded_groups/pairs.rs`).

use super::super::float_moments::Moments;
use super::super::kept_rows::KeptRows;
use super::{Regression, Sums};
use crate::error::SqlError;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// The type of sums of squares and of products.
const PRODUCTS: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// Whether pairs of this type, and of another one of which this is true, are such.
pub(super) fn is_small(ty: &DataType) -> bool {
    matches!(ty, DataType::Int16 | DataType::Int32)
}

/// Whether an aggregate with these arguments is of such pairs.
pub(super) fn are_of(arguments: &[FieldRef]) -> bool {
    arguments.len() == 2 && arguments.iter().all(|field| is_small(field.data_type()))
}

/// The parts of what is known of pairs.
pub(super) fn state_fields() -> Vec<FieldRef> {
    let field = |(name, ty)| Arc::new(Field::new(name, ty, true));
    let words = ["count", "y", "x"].map(|name| (name, DataType::Int64));
    let wides = ["yy", "xx", "yx"].map(|name| (name, PRODUCTS));
    words.into_iter().chain(wides).map(field).collect()
}

/// The aggregate of all pairs, or of those in a frame that moves.
pub(super) fn of_all(wanted: Regression) -> Box<dyn Accumulator> {
    Box::new(All { wanted, sums: PairSums::default() })
}

/// The same of each group.
pub(super) fn of_groups(wanted: Regression) -> Box<dyn GroupsAccumulator> {
    Box::new(Groups { wanted, groups: Vec::new() })
}

/// What is known of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PairSums {
    count: i64,
    y: i64,
    x: i64,
    yy: i128,
    xx: i128,
    yx: i128,
}

impl PairSums {
    /// Of one pair.
    fn of(y: i64, x: i64) -> Self {
        let product = |one: i64, other: i64| i128::from(one) * i128::from(other);
        Self { count: 1, y, x, yy: product(y, y), xx: product(x, x), yx: product(y, x) }
    }

    fn add(&mut self, y: i64, x: i64) {
        self.merge(&Self::of(y, x));
    }

    fn merge(&mut self, other: &Self) {
        *self = Self {
            count: self.count + other.count,
            y: self.y.wrapping_add(other.y),
            x: self.x.wrapping_add(other.x),
            yy: self.yy.wrapping_add(other.yy),
            xx: self.xx.wrapping_add(other.xx),
            yx: self.yx.wrapping_add(other.yx),
        };
    }

    /// The same without pairs that are among these.
    fn without(&self, others: &Self) -> Self {
        Self {
            count: self.count - others.count,
            y: self.y.wrapping_sub(others.y),
            x: self.x.wrapping_sub(others.x),
            yy: self.yy.wrapping_sub(others.yy),
            xx: self.xx.wrapping_sub(others.xx),
            yx: self.yx.wrapping_sub(others.yx),
        }
    }

    /// The sums that results are made of.
    fn sums(&self) -> Sums {
        let Self { count, y, x, yy, xx, yx } = *self;
        if count == 0 {
            return Sums::default();
        }
        Sums {
            count: count as f64,
            x: x as f64,
            xx: of_distances(count, xx, (x, x)),
            y: y as f64,
            yy: of_distances(count, yy, (y, y)),
            xy: of_distances(count, yx, (y, x)),
        }
    }
}

/// The sum of the products of the distances from the means, of so many pairs that have this sum of products and these sums.
///
/// That is `(count * products - y * x) / count`, which may take more than 128 bits. So all distances are first taken from the whole numbers just
/// below the means, which leaves sums that are less than the count.
fn of_distances(count: i64, products: i128, (y, x): (i64, i64)) -> f64 {
    let [y_mean, x_mean] = [y, x].map(|sum| i128::from(sum.div_euclid(count)));
    let [y_rest, x_rest] = [y, x].map(|sum| i128::from(sum.rem_euclid(count)));
    let products = products - y_mean * x_rest - x_mean * i128::from(y);
    let rests = y_rest * x_rest;
    let exact = products.checked_mul(i128::from(count)).and_then(|all| all.checked_sub(rests));
    match exact {
        Some(exact) => exact as f64 / count as f64,
        // Of a number as large as that the rest takes next to nothing away.
        None => products as f64 - rests as f64 / count as f64,
    }
}

/// Does something with each pair and the number of its row. Of a pair with a NULL nothing is known.
///
/// # Errors
/// If these are no pairs of integers: a bug.
fn each_pair(columns: &[ArrayRef], mut change: impl FnMut(usize, i64, i64)) -> Result<()> {
    let [y, x] = columns else {
        return Err(SqlError::internal("a pair has two parts").into());
    };
    let (y, x) = (cast(y, &DataType::Int64)?, cast(x, &DataType::Int64)?);
    let (y, x) = (y.as_primitive::<Int64Type>(), x.as_primitive::<Int64Type>());
    let mut each = |row: usize| change(row, y.value(row), x.value(row));
    match NullBuffer::union(y.nulls(), x.nulls()) {
        None => (0..y.len()).for_each(&mut each),
        Some(there) => there.valid_indices().for_each(&mut each),
    }
    Ok(())
}

#[derive(Debug)]
struct All {
    wanted: Regression,
    sums: PairSums,
}

impl Accumulator for All {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        each_pair(columns, |_, y, x| self.sums.add(y, x))
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let mut gone = PairSums::default();
        each_pair(columns, |_, y, x| gone.add(y, x))?;
        self.sums = self.sums.without(&gone);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = States::of(states)?;
        (0..states.words[0].len()).for_each(|row| self.sums.merge(&states.sums(row)));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let PairSums { count, y, x, yy, xx, yx } = self.sums;
        let words = [count, y, x].map(|word| ScalarValue::Int64(Some(word)));
        let wides = [yy, xx, yx].map(|wide| ScalarValue::Decimal128(Some(wide), DECIMAL128_MAX_PRECISION, 0));
        Ok(words.into_iter().chain(wides).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.sums.sums().outcome(self.wanted))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[derive(Debug)]
struct Groups {
    wanted: Regression,
    groups: Vec<PairSums>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize(total, PairSums::default());
        let kept_rows = KeptRows::of(filter);
        each_pair(columns, |row, y, x| {
            if kept_rows.has(row) {
                self.groups[groups[row]].add(y, x);
            }
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize(total, PairSums::default());
        let states = States::of(states)?;
        let rows = groups.iter().enumerate();
        rows.for_each(|(row, &group)| self.groups[group].merge(&states.sums(row)));
        Ok(())
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = emit_to.take_needed(&mut self.groups);
        let words = |part: fn(&PairSums) -> i64| -> ArrayRef {
            Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(groups.iter().map(part)))
        };
        let wides = |part: fn(&PairSums) -> i128| -> ArrayRef {
            let values = PrimitiveArray::<Decimal128Type>::from_iter_values(groups.iter().map(part));
            Arc::new(values.with_data_type(PRODUCTS))
        };
        Ok(vec![
            words(|sums| sums.count),
            words(|sums| sums.y),
            words(|sums| sums.x),
            wides(|sums| sums.yy),
            wides(|sums| sums.xx),
            wides(|sums| sums.yx),
        ])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let sums: Vec<Sums> = groups.iter().map(PairSums::sums).collect();
        Ok(Sums::outcomes(&sums, self.wanted))
    }

    fn convert_to_state(&self, columns: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..columns[0].len()).collect();
        let mut each = Self { wanted: self.wanted, groups: Vec::new() };
        each.update_batch(columns, &rows, filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.capacity() * size_of::<PairSums>()
    }
}

/// What is known of several groups.
struct States<'s> {
    /// The counts, and the sums of `y` and `x`.
    words: [&'s PrimitiveArray<Int64Type>; 3],
    /// The sums of squares, and of products.
    wides: [&'s PrimitiveArray<Decimal128Type>; 3],
}

impl<'s> States<'s> {
    fn of(states: &'s [ArrayRef]) -> Result<Self> {
        let [count, y, x, yy, xx, yx] = states else {
            return Err(SqlError::internal("the state of pairs has six parts").into());
        };
        let words = [count, y, x].map(|part| part.as_primitive::<Int64Type>());
        let wides = [yy, xx, yx].map(|part| part.as_primitive::<Decimal128Type>());
        Ok(Self { words, wides })
    }

    fn sums(&self, row: usize) -> PairSums {
        let [count, y, x] = self.words.map(|part| part.value(row));
        let [yy, xx, yx] = self.wides.map(|part| part.value(row));
        PairSums { count, y, x, yy, xx, yx }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int16Array, Int32Array};
    use arrow::datatypes::{Float64Type, i256};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// A group, a pair, and whether a filter leaves it.
    type Row = (usize, Option<i32>, Option<i16>, bool);

    fn random_row(random: &mut StdRng, groups: usize) -> Row {
        let y = match random.random_range(0..6) {
            0 => None,
            1 => Some([i32::MIN, i32::MAX][random.random_range(0..2)]),
            _ => Some(random.random_range(-1_000..1_000)),
        };
        let x = random.random_bool(0.9).then(|| random.random_range(-9..9));
        (random.random_range(0..groups), y, x, random.random_bool(0.8))
    }

    fn columns(rows: &[Row]) -> [ArrayRef; 2] {
        let y: Int32Array = rows.iter().map(|row| row.1).collect();
        let x: Int16Array = rows.iter().map(|row| row.2).collect();
        [Arc::new(y), Arc::new(x)]
    }

    /// What is computed of floats, step by step.
    fn of_floats(rows: &[Row], group: usize) -> Sums {
        let own = rows.iter().filter(|row| row.0 == group && row.3);
        let pairs = own.filter_map(|row| Some((f64::from(row.1?), f64::from(row.2?))));
        Sums::of(pairs).expect("nothing overflows")
    }

    fn are_close(found: Option<f64>, expected: Option<f64>) -> bool {
        match (found, expected) {
            (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
            (None, None) => true,
            _ => false,
        }
    }

    /// Some rows at once, some as states of others. Break: let a group begin with something, read over the filter, mix up `y` and `x`.
    #[test]
    fn groups_have_what_floats_give() {
        let mut random = StdRng::seed_from_u64(5);
        let rows: Vec<Row> = (0..900).map(|_| random_row(&mut random, 12)).collect();
        for wanted in super::super::ALL.map(|(regression, _)| regression) {
            let mut grouped = Groups { wanted, groups: Vec::new() };
            for (part, are_states) in rows.chunks(450).zip([false, true]) {
                let groups: Vec<usize> = part.iter().map(|row| row.0).collect();
                let filter: BooleanArray = part.iter().map(|row| Some(row.3)).collect();
                if are_states {
                    let states = grouped.convert_to_state(&columns(part), Some(&filter)).unwrap();
                    grouped.merge_batch(&states, &groups, 13).unwrap();
                } else {
                    grouped.update_batch(&columns(part), &groups, Some(&filter), 13).unwrap();
                }
            }
            let found = cast(&grouped.evaluate(EmitTo::All).unwrap(), &DataType::Float64).unwrap();
            let found: &Float64Array = found.as_primitive::<Float64Type>();
            for (group, found) in found.iter().enumerate() {
                let expected = of_floats(&rows, group).result(wanted);
                assert!(are_close(found, expected), "{wanted:?} of {group}: {found:?}, {expected:?}");
            }
        }
    }

    /// Break: forget the rest of one of the sums, or divide towards zero.
    #[test]
    fn distances_from_the_means_are_exact() {
        let mut random = StdRng::seed_from_u64(6);
        for _ in 0..2_000 {
            let range = 1_i64 << random.random_range(1..32_i64);
            let pairs: Vec<(i64, i64)> = (0..random.random_range(1..20))
                .map(|_| (random.random_range(-range..range), random.random_range(-range..range)))
                .collect();
            let mut sums = PairSums::default();
            pairs.iter().for_each(|(y, x)| sums.add(*y, *x));
            let exact = |products: i128, y: i64, x: i64| {
                let all = i128::from(sums.count) * products - i128::from(y) * i128::from(x);
                all as f64 / sums.count as f64
            };
            let found = sums.sums();
            assert_eq!(found.xx, exact(sums.xx, sums.x, sums.x), "{pairs:?}");
            assert_eq!(found.yy, exact(sums.yy, sums.y, sums.y), "{pairs:?}");
            assert_eq!(found.xy, exact(sums.yx, sums.y, sums.x), "{pairs:?}");
        }
    }

    /// Of more rows than any table has, whose products of counts and sums have more than 128 bits.
    #[test]
    fn sums_of_very_many_pairs_are_those_of_256_bits() {
        let (count, y, x) = (3_i64 << 38, (7_i64 << 60) + 5, -(5_i64 << 60) - 11);
        let products = i128::from(i64::MAX) * i128::from(count) / 3;
        let [wide_count, wide_y, wide_x] = [count, y, x].map(|part| i256::from_i128(i128::from(part)));
        let exact = i256::from_i128(products) * wide_count - wide_y * wide_x;
        let quotient = exact / wide_count;
        let expected = quotient.to_i128().expect("the quotient is small") as f64;
        let found = of_distances(count, products, (y, x));
        assert!((found - expected).abs() <= expected.abs() * 1e-15, "{found} {expected}");
    }

    #[test]
    fn pairs_that_leave_a_frame_are_gone() {
        let mut random = StdRng::seed_from_u64(7);
        let rows: Vec<Row> = (0..60).map(|_| random_row(&mut random, 1)).collect();
        for wanted in super::super::ALL.map(|(regression, _)| regression) {
            let mut frame = of_all(wanted);
            frame.update_batch(&columns(&rows)).unwrap();
            frame.retract_batch(&columns(&rows[..40])).unwrap();
            let mut rest = of_all(wanted);
            rest.update_batch(&columns(&rows[40..])).unwrap();
            assert_eq!(frame.evaluate().unwrap(), rest.evaluate().unwrap(), "{wanted:?}");
        }
    }
}
