// SPDX-License-Identifier: Apache-2.0
//! Sums of pairs of integers, against the plainest code there is.

use super::super::folds::{Counting, Fold, Folds, Kind};
use super::super::pairs::Pairs;
use super::super::values::Values;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int16Array, Int32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Decimal128Type, Int64Type};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::slice;
use std::sync::Arc;

const GROUPS: usize = 5;

/// A column, and its values.
type Column = (ArrayRef, Vec<Option<i128>>);

fn shorts(random: &mut SmallRng, rows: usize) -> Column {
    let mut value = || random.random_bool(0.9).then(|| random.random_range(-9..9));
    let values: Vec<Option<i16>> = (0..rows).map(|_| value()).collect();
    let wide = values.iter().map(|value| value.map(i128::from)).collect();
    (Arc::new(Int16Array::from(values)), wide)
}

fn longs(random: &mut SmallRng, rows: usize) -> Column {
    let mut value = || match random.random_range(0..10) {
        0 => None,
        1 => Some(i32::MIN),
        2 => Some(i32::MAX),
        _ => Some(random.random_range(-100_000..100_000)),
    };
    let values: Vec<Option<i32>> = (0..rows).map(|_| value()).collect();
    let wide = values.iter().map(|value| value.map(i128::from)).collect();
    (Arc::new(Int32Array::from(values)), wide)
}

/// Of each group the number of pairs, and the sums of `y`, `x`, and of the products.
fn model(rows: &[(Option<i128>, Option<i128>, bool)], members: &[u32]) -> Vec<[i128; 6]> {
    let mut sums = vec![[0; 6]; GROUPS];
    for ((y, x, passes), group) in rows.iter().zip(members) {
        let (Some(y), Some(x), true) = (*y, *x, *passes) else { continue };
        let of_group = &mut sums[*group as usize];
        for (sum, part) in of_group.iter_mut().zip([1, y, x, y * y, x * x, y * x]) {
            *sum += part;
        }
    }
    sums
}

/// The same out of the columns of a state.
fn by_group(count: &ArrayRef, sums: &[ArrayRef]) -> Vec<[i128; 6]> {
    let words: Vec<_> = [count, &sums[0], &sums[1]].map(|part| part.as_primitive::<Int64Type>()).to_vec();
    let wides: Vec<_> = sums[2..].iter().map(|part| part.as_primitive::<Decimal128Type>()).collect();
    let of_group = |group: usize| {
        let [count, y, x] = [0, 1, 2].map(|part: usize| i128::from(words[part].value(group)));
        let [yy, xx, yx] = [0, 1, 2].map(|part: usize| wides[part].value(group));
        [count, y, x, yy, xx, yx]
    };
    (0..GROUPS).map(of_group).collect()
}

/// To break it: take the values that lie under a NULL, read over the filter, or mix up `y` and `x`.
#[test]
fn sums_of_pairs_are_those_of_each_one_by_one() {
    let mut random = SmallRng::seed_from_u64(11);
    let fold = Fold { kind: Kind::PairSums, state: 1 };
    for _ in 0..50 {
        let rows = random.random_range(0..300);
        let members: Vec<u32> = (0..rows).map(|_| random.random_range(0..GROUPS as u32)).collect();
        let passes: Vec<bool> = (0..rows).map(|_| random.random_bool(0.7)).collect();
        let columns = [shorts(&mut random, rows), longs(&mut random, rows)];
        for ((y, ys), (x, xs)) in columns.iter().flat_map(|y| columns.iter().map(move |x| (y, x))) {
            for filter in [None, Some(BooleanArray::from(passes.clone()))] {
                let nulls = NullBuffer::union(y.nulls(), x.nulls());
                let values = Values::Pairs(Pairs { y: Arc::clone(y), x: Arc::clone(x), nulls });
                let mut folds = Folds::new(&[Kind::Sum, Kind::PairSums], 1, Counting::FromTheStart);
                folds.begin(&members, GROUPS);
                let folded = (0, slice::from_ref(&fold));
                folds.add(folded, &members, Some(&values), filter.as_ref()).expect("integers");
                let sums = folds.pair_sums(&fold).expect("they are pairs");
                let passes = passes.iter().map(|passes| *passes || filter.is_none());
                let pairs = ys.iter().copied().zip(xs.iter().copied()).zip(passes);
                let expected: Vec<_> = pairs.map(|((y, x), passes)| (y, x, passes)).collect();
                assert_eq!(by_group(&folds.counts(Some(0)), &sums), model(&expected, &members));
            }
        }
    }
}
