// SPDX-License-Identifier: Apache-2.0
//! Values that are missing in later batches, where nobody asks how many rows there are.

use super::super::folds::{Counting, Fold, Folds, Kind};
use super::super::values::Values;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use std::slice;
use std::sync::Arc;

fn add(folds: &mut Folds, input: usize, members: &[u32], values: &[Option<i64>], passes: Option<&[bool]>) {
    let fold = Fold { kind: Kind::Sum, state: input };
    let values = Values::Array(Arc::new(Int64Array::from(values.to_vec())) as ArrayRef);
    let passes = passes.map(|passes| BooleanArray::from(passes.to_vec()));
    let folded = (input, slice::from_ref(&fold));
    folds.add(folded, members, Some(&values), passes.as_ref()).expect("sums of integers");
}

fn sums(folds: &Folds, input: usize) -> Vec<Option<i64>> {
    let fold = Fold { kind: Kind::Sum, state: input };
    let sums = folds.state(&fold, input, &DataType::Int64).expect("sums of integers");
    assert_eq!(sums.data_type(), &DataType::Int64);
    sums.as_primitive::<Int64Type>().iter().collect()
}

/// To break it: take groups from before the first missing value for groups without rows, or count none of that batch.
#[test]
fn groups_from_before_have_their_values_and_later_ones_only_if_there_is_one() {
    let mut folds = Folds::new(&[Kind::Sum, Kind::Sum], 2, Counting::OnceOneIsMissing);
    folds.begin(&[0, 1, 0], 2);
    add(&mut folds, 0, &[0, 1, 0], &[Some(1), Some(2), Some(3)], None);
    add(&mut folds, 1, &[0, 1, 0], &[Some(10), Some(20), Some(30)], None);
    assert_eq!((sums(&folds, 0), sums(&folds, 1)), (vec![Some(4), Some(2)], vec![Some(40), Some(20)]));
    // The second input has all of its values.
    let members = [1, 2, 3, 3, 1];
    folds.begin(&members, 4);
    add(&mut folds, 0, &members, &[None, None, Some(5), None, None], None);
    add(&mut folds, 1, &members, &[Some(1); 5], None);
    assert_eq!(sums(&folds, 0), [Some(4), Some(2), None, Some(5)]);
    assert_eq!(sums(&folds, 1), [Some(40), Some(22), Some(1), Some(2)]);
    // A filter leaves out rows of the second one.
    folds.begin(&[4, 5, 0], 6);
    add(&mut folds, 0, &[4, 5, 0], &[Some(6), None, Some(1)], None);
    add(&mut folds, 1, &[4, 5, 0], &[Some(7); 3], Some(&[false, true, false]));
    assert_eq!(sums(&folds, 0), [Some(5), Some(2), None, Some(5), Some(6), None]);
    assert_eq!(sums(&folds, 1), [Some(40), Some(22), Some(1), Some(2), None, Some(7)]);
}
