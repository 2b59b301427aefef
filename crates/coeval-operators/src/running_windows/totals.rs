// SPDX-License-Identifier: Apache-2.0
//! The totals of the rows of a batch: what an aggregate comes to from the partition's first row to each of them.

use super::calls::{Call, Kind};
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, NullBufferBuilder, PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// Sums of decimals below this have 38 digits. Whether others are errors, the aggregate knows.
const DECIMAL_LIMIT: u128 = 10_u128.pow(38);

/// Where the rows of a batch belong.
pub(super) struct Partitions<'a> {
    /// The rows of each partition, one behind the other.
    pub(super) rows: &'a [Range<usize>],
    /// If the first one goes on from the batch before: the total of its last row, of one row.
    pub(super) before: Option<&'a ArrayRef>,
}

impl Call {
    /// The totals of the rows with these values of the argument.
    ///
    /// # Errors
    /// Those of the aggregate, if a sum leaves its range.
    pub(super) fn totals(&self, values: &ArrayRef, partitions: &Partitions<'_>) -> Result<ArrayRef> {
        match self.kind {
            Kind::Count => Ok(counts(values, partitions)),
            Kind::Sum => self.sums(values, partitions),
            Kind::Least => self.extremes(values, partitions, Extreme::Least),
            Kind::Most => self.extremes(values, partitions, Extreme::Most),
        }
    }

    fn sums(&self, values: &ArrayRef, partitions: &Partitions<'_>) -> Result<ArrayRef> {
        match (values.data_type(), &self.ty) {
            (DataType::Int64, DataType::Int64) => {
                let numbers = values.as_primitive::<Int64Type>();
                self.folded::<Int64Type>(values, partitions, |sum, row| {
                    Ok(sum.unwrap_or(0).wrapping_add(numbers.value(row)))
                })
            }
            (DataType::Int64, DataType::Decimal128(..)) => {
                let numbers = values.as_primitive::<Int64Type>();
                self.wide_sums(values, partitions, |row| i128::from(numbers.value(row)))
            }
            (DataType::Decimal128(..), DataType::Decimal128(..)) => {
                let numbers = values.as_primitive::<Decimal128Type>();
                self.wide_sums(values, partitions, |row| numbers.value(row))
            }
            (DataType::Float64, DataType::Float64) => {
                let numbers = values.as_primitive::<Float64Type>();
                self.folded::<Float64Type>(values, partitions, |sum, row| {
                    let next = sum.unwrap_or(0.0) + numbers.value(row);
                    if next.is_finite() { Ok(next) } else { self.asked::<Float64Type>(sum, values, row) }
                })
            }
            (of, ty) => internal_err!("sums of {of} that are {ty} are not added by loops"),
        }
    }

    fn wide_sums(
        &self,
        values: &ArrayRef,
        partitions: &Partitions<'_>,
        value: impl Fn(usize) -> i128,
    ) -> Result<ArrayRef> {
        self.folded::<Decimal128Type>(values, partitions, |sum, row| {
            let next = sum.unwrap_or(0).checked_add(value(row));
            match next.filter(|next| next.unsigned_abs() < DECIMAL_LIMIT) {
                Some(next) => Ok(next),
                None => self.asked::<Decimal128Type>(sum, values, row),
            }
        })
    }

    /// What the aggregate makes of a sum and the value of a row.
    fn asked<R: ArrowPrimitiveType>(
        &self,
        sum: Option<R::Native>,
        values: &ArrayRef,
        row: usize,
    ) -> Result<R::Native> {
        let mut aggregate = self.function.create_accumulator()?;
        if let Some(sum) = sum {
            let state = PrimitiveArray::<R>::new(vec![sum].into(), None).with_data_type(self.ty.clone());
            aggregate.merge_batch(&[Arc::new(state) as ArrayRef])?;
        }
        aggregate.update_batch(&[values.slice(row, 1)])?;
        Ok(aggregate.evaluate()?.to_array()?.as_primitive::<R>().value(0))
    }

    fn extremes(&self, values: &ArrayRef, partitions: &Partitions<'_>, extreme: Extreme) -> Result<ArrayRef> {
        match &self.ty {
            DataType::Int16 => self.extremes_of::<Int16Type>(values, partitions, extreme),
            DataType::Int32 => self.extremes_of::<Int32Type>(values, partitions, extreme),
            DataType::Int64 => self.extremes_of::<Int64Type>(values, partitions, extreme),
            DataType::Date32 => self.extremes_of::<Date32Type>(values, partitions, extreme),
            DataType::Decimal128(..) => self.extremes_of::<Decimal128Type>(values, partitions, extreme),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.extremes_of::<TimestampMicrosecondType>(values, partitions, extreme)
            }
            ty => internal_err!("values of {ty} are not compared by loops"),
        }
    }

    fn extremes_of<T: ArrowPrimitiveType>(
        &self,
        values: &ArrayRef,
        partitions: &Partitions<'_>,
        extreme: Extreme,
    ) -> Result<ArrayRef> {
        let comparable = values.as_primitive::<T>();
        self.folded::<T>(values, partitions, |best, row| {
            let value = comparable.value(row);
            Ok(match (best, extreme) {
                (Some(best), Extreme::Least) if best <= value => best,
                (Some(best), Extreme::Most) if best >= value => best,
                _ => value,
            })
        })
    }

    /// The totals of all rows, each made of the one before and the row's value, if it has one: `None` before the first value.
    fn folded<R: ArrowPrimitiveType>(
        &self,
        values: &ArrayRef,
        partitions: &Partitions<'_>,
        mut next: impl FnMut(Option<R::Native>, usize) -> Result<R::Native>,
    ) -> Result<ArrayRef> {
        let is_there = presence(values);
        let before = partitions.before.map(|before| before.as_primitive::<R>());
        let mut total = before.and_then(|before| before.iter().next().flatten());
        let mut totals = Vec::with_capacity(values.len());
        let mut nulls = NullBufferBuilder::new(values.len());
        for (place, rows) in partitions.rows.iter().enumerate() {
            if place > 0 {
                total = None;
            }
            for row in rows.clone() {
                if is_there(row) {
                    total = Some(next(total, row)?);
                }
                totals.push(total.unwrap_or_default());
                nulls.append(total.is_some());
            }
        }
        let totals = PrimitiveArray::<R>::new(totals.into(), nulls.finish());
        Ok(Arc::new(totals.with_data_type(self.ty.clone())))
    }
}

#[derive(Clone, Copy, Debug)]
enum Extreme {
    Least,
    Most,
}

fn counts(values: &ArrayRef, partitions: &Partitions<'_>) -> ArrayRef {
    let is_there = presence(values);
    let mut count = partitions.before.map_or(0, |before| before.as_primitive::<Int64Type>().value(0));
    let mut counts = Vec::with_capacity(values.len());
    for (place, rows) in partitions.rows.iter().enumerate() {
        if place > 0 {
            count = 0;
        }
        for row in rows.clone() {
            count += i64::from(is_there(row));
            counts.push(count);
        }
    }
    Arc::new(Int64Array::from(counts))
}

/// Whether a row has a value.
fn presence(values: &ArrayRef) -> impl Fn(usize) -> bool {
    let nulls: Option<NullBuffer> = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    move |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
}
