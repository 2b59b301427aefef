// SPDX-License-Identifier: Apache-2.0
//! Sums of pairs of integers, of which correlations, covariances and regressions are made.

use super::plan::SQUARES;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Int16Type, Int32Type, Int64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// Of each row of a batch a pair of integers; none where one of the two is NULL.
pub(super) struct Pairs {
    y: ArrayRef,
    x: ArrayRef,
    pub(super) nulls: Option<NullBuffer>,
}

impl Pairs {
    /// Those of two expressions.
    pub(super) fn of(
        y: &Arc<dyn PhysicalExpr>,
        x: &Arc<dyn PhysicalExpr>,
        batch: &RecordBatch,
    ) -> Result<Self> {
        let [y, x] = [y, x].map(|one| one.evaluate(batch)?.into_array(batch.num_rows()));
        let (y, x) = (y?, x?);
        let nulls = NullBuffer::union(y.nulls(), x.nulls());
        Ok(Self { y, x, nulls })
    }
}

/// What is known of a group's pairs, but for their number. A line of a core's cache, so that a pair takes one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct PairSums {
    y: i64,
    x: i64,
    yy: i128,
    xx: i128,
    yx: i128,
}

const _: () = assert!(size_of::<PairSums>() == 64);

impl PairSums {
    /// Of numbers of 32 bits, whose products have 64.
    #[inline]
    fn add(&mut self, y: i64, x: i64) {
        self.y = self.y.wrapping_add(y);
        self.x = self.x.wrapping_add(x);
        self.yy = self.yy.wrapping_add(i128::from(y * y));
        self.xx = self.xx.wrapping_add(i128::from(x * x));
        self.yx = self.yx.wrapping_add(i128::from(y * x));
    }
}

/// Adds pairs to the sums of their rows' groups: those that are there.
///
/// # Errors
/// If they are no integers of 32 bits: a bug.
pub(super) fn add(
    pairs: &Pairs,
    members: &[u32],
    there: Option<&NullBuffer>,
    sums: &mut [PairSums],
) -> Result<()> {
    macro_rules! add {
        ($y:ty, $x:ty) => {
            add_each(pairs.y.as_primitive::<$y>(), pairs.x.as_primitive::<$x>(), members, there, sums)
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

fn add_each<Y, X>(
    y: &PrimitiveArray<Y>,
    x: &PrimitiveArray<X>,
    members: &[u32],
    there: Option<&NullBuffer>,
    sums: &mut [PairSums],
) where
    Y: ArrowPrimitiveType<Native: Into<i64>>,
    X: ArrowPrimitiveType<Native: Into<i64>>,
{
    let (y, x) = (y.values(), x.values());
    match there {
        None => {
            let pairs = y.iter().zip(x.iter());
            let rows = members.iter().zip(pairs);
            rows.for_each(|(group, (y, x))| sums[*group as usize].add((*y).into(), (*x).into()));
        }
        Some(there) => {
            let rows = there.valid_indices();
            rows.for_each(|row| sums[members[row] as usize].add(y[row].into(), x[row].into()));
        }
    }
}

/// The sums of each group, in the order in which states have them.
pub(super) fn columns(sums: &[PairSums]) -> Vec<ArrayRef> {
    let words = |part: fn(&PairSums) -> i64| -> ArrayRef {
        Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(sums.iter().map(part)))
    };
    let wides = |part: fn(&PairSums) -> i128| -> ArrayRef {
        let values = PrimitiveArray::<Decimal128Type>::from_iter_values(sums.iter().map(part));
        Arc::new(values.with_data_type(SQUARES))
    };
    vec![
        words(|sums| sums.y),
        words(|sums| sums.x),
        wides(|sums| sums.yy),
        wides(|sums| sums.xx),
        wides(|sums| sums.yx),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int16Array, Int32Array};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    const GROUPS: usize = 5;

    fn small(random: &mut SmallRng) -> Option<i16> {
        random.random_bool(0.9).then(|| random.random_range(-9..9))
    }

    fn any(random: &mut SmallRng) -> Option<i32> {
        let far = [i32::MIN, i32::MAX, 0][random.random_range(0..3)];
        random.random_bool(0.9).then(|| if random.random_bool(0.2) { far } else { random.random() })
    }

    /// Sums by the plainest code there is.
    fn model(pairs: &[(Option<i64>, Option<i64>)], members: &[u32]) -> Vec<PairSums> {
        let mut sums = vec![PairSums::default(); GROUPS];
        for (pair, group) in pairs.iter().zip(members) {
            let (Some(y), Some(x)) = *pair else { continue };
            let sums = &mut sums[*group as usize];
            (sums.y, sums.x) = (sums.y + y, sums.x + x);
            let (y, x) = (i128::from(y), i128::from(x));
            (sums.yy, sums.xx, sums.yx) = (sums.yy + y * y, sums.xx + x * x, sums.yx + y * x);
        }
        sums
    }

    /// To break it: take the values that lie under a NULL, or mix up `y` and `x`.
    #[test]
    fn sums_of_pairs_are_those_of_each_one_by_one() {
        let mut random = SmallRng::seed_from_u64(11);
        for _ in 0..50 {
            let rows = random.random_range(0..300);
            let members: Vec<u32> = (0..rows).map(|_| random.random_range(0..GROUPS as u32)).collect();
            let shorts: Vec<Option<i16>> = (0..rows).map(|_| small(&mut random)).collect();
            let longs: Vec<Option<i32>> = (0..rows).map(|_| any(&mut random)).collect();
            let columns: [(ArrayRef, Vec<Option<i64>>); 2] = [
                (
                    Arc::new(Int16Array::from(shorts.clone())),
                    shorts.iter().map(|one| one.map(i64::from)).collect(),
                ),
                (
                    Arc::new(Int32Array::from(longs.clone())),
                    longs.iter().map(|one| one.map(i64::from)).collect(),
                ),
            ];
            for ((y, ys), (x, xs)) in columns.iter().flat_map(|y| columns.iter().map(move |x| (y, x))) {
                let nulls = NullBuffer::union(y.nulls(), x.nulls());
                let pairs = Pairs { y: Arc::clone(y), x: Arc::clone(x), nulls };
                let mut found = vec![PairSums::default(); GROUPS];
                add(&pairs, &members, pairs.nulls.as_ref(), &mut found).expect("small integers");
                let expected: Vec<_> = ys.iter().copied().zip(xs.iter().copied()).collect();
                assert_eq!(found, model(&expected, &members));
            }
        }
    }
}
