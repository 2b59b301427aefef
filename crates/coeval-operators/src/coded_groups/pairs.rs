// SPDX-License-Identifier: Apache-2.0
//! Sums of pairs of integers, of which correlations, covariances and regressions are made.

use super::records::State;
use arrow::array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Int64Type};
use datafusion::error::Result;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// The type of a sum of squares, and of products.
pub(super) const SQUARES: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// Of each row of a batch a pair of integers; none where one of the two is NULL.
pub(super) struct Pairs {
    pub(super) y: ArrayRef,
    pub(super) x: ArrayRef,
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

/// What is known of a group's pairs, but for their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PairSums {
    y: i64,
    x: i64,
    yy: i128,
    xx: i128,
    yx: i128,
}

impl PairSums {
    /// Of numbers of 32 bits, whose products have 64.
    #[inline]
    pub(super) fn add(&mut self, y: i64, x: i64) {
        self.y = self.y.wrapping_add(y);
        self.x = self.x.wrapping_add(x);
        self.yy = self.yy.wrapping_add(i128::from(y * y));
        self.xx = self.xx.wrapping_add(i128::from(x * x));
        self.yx = self.yx.wrapping_add(i128::from(y * x));
    }
}

impl State for PairSums {
    const WORDS: usize = 8;

    #[inline]
    fn read(words: &[u64]) -> Self {
        let [y, x] = [i64::read(&words[0..1]), i64::read(&words[1..2])];
        let [yy, xx, yx] = [i128::read(&words[2..4]), i128::read(&words[4..6]), i128::read(&words[6..8])];
        Self { y, x, yy, xx, yx }
    }

    #[inline]
    fn write(self, words: &mut [u64]) {
        self.y.write(&mut words[0..1]);
        self.x.write(&mut words[1..2]);
        self.yy.write(&mut words[2..4]);
        self.xx.write(&mut words[4..6]);
        self.yx.write(&mut words[6..8]);
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
