// SPDX-License-Identifier: Apache-2.0
//! What a join looks for in a column of whole numbers or dates, as a bit for each value.
//!
//! The filter that a join hands to the scan of its larger side compares each row's key with the least and the greatest key of its smaller
//! side, and then looks it up in the join's table. While these two are not far apart, the filter is asked once for each value between them,
//! and a row costs a look at one bit, in a table that is mostly in the processor's first cache. All values beyond are refused by
//! the comparisons.

use arrow::array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use coeval_operators::join_keys::{KeyBits, Numbers};
use coeval_operators::predicate::select;
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// So many values have bits at most: half a megabyte of them.
const VALUES_MAX: u64 = 1 << 22;

/// The filter is asked for so many values at a time.
const ASKED_VALUES: u64 = 8_192;

/// A filter of one column, and between which values that must be.
pub(super) struct Candidate {
    /// The filter as it is now, over that column alone.
    filter: Arc<dyn PhysicalExpr>,
    column: usize,
    ty: DataType,
    least: i64,
    most: i64,
}

impl Candidate {
    /// The filter as it is now, over a scan's columns; `None` if it has several, or they have another type, or its bounds are not known or
    /// too far apart.
    pub(super) fn of(filter: &Arc<dyn PhysicalExpr>, source: &Schema) -> Option<Self> {
        let mut columns = collect_columns(filter).into_iter();
        let (Some(column), None) = (columns.next(), columns.next()) else { return None };
        let ty = source.field(column.index()).data_type().clone();
        if !matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32) {
            return None;
        }
        let filter = snapshot_physical_expr(Arc::clone(filter)).ok()?;
        let (mut least, mut most) = (None, None);
        note_bounds(&filter, &mut least, &mut most);
        let (least, most) = (least?, most?);
        let filter = filter.transform(|part| {
            Ok(match part.downcast_ref::<Column>() {
                Some(column) => Transformed::yes(Arc::new(Column::new(column.name(), 0)) as _),
                None => Transformed::no(part),
            })
        });
        let candidate = Self { filter: filter.ok()?.data, column: column.index(), ty, least, most };
        (candidate.values() <= VALUES_MAX).then_some(candidate)
    }

    /// How many values it is to be asked for.
    pub(super) fn values(&self) -> u64 {
        if self.least > self.most { 0 } else { self.most.abs_diff(self.least).saturating_add(1) }
    }

    /// Asks it for each of them.
    ///
    /// # Errors
    /// Those of the filter.
    pub(super) fn membership(&self) -> Result<Membership> {
        let schema = Arc::new(Schema::new(vec![Field::new("value", self.ty.clone(), true)]));
        let mut bits = KeyBits::with_room(self.least, self.values());
        let mut place = 0;
        let mut begin = self.least;
        for _ in 0..self.values().div_ceil(ASKED_VALUES) {
            let end = begin.saturating_add(ASKED_VALUES as i64 - 1).min(self.most);
            let values: ArrayRef = Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(begin..=end));
            let values = match self.ty {
                DataType::Date32 => cast(&cast(&values, &DataType::Int32)?, &DataType::Date32)?,
                _ => cast(&values, &self.ty)?,
            };
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values])?;
            let answers = self.filter.evaluate(&batch)?.into_array(batch.num_rows())?;
            let answers = as_boolean_array(&answers)?;
            for row in 0..answers.len() {
                if answers.is_valid(row) && answers.value(row) {
                    bits.insert(place);
                }
                place += 1;
            }
            begin = end.saturating_add(1);
        }
        Ok(Membership { column: self.column, bits })
    }
}

/// Which values pass, all between the least and the greatest one that may.
pub(super) struct Membership {
    column: usize,
    bits: KeyBits,
}

impl Membership {
    /// The rows that pass, among those whose bits are set, or of all. NULL does not: it compares with nothing.
    pub(super) fn passing(&self, batch: &RecordBatch, among: Option<&BooleanBuffer>) -> BooleanBuffer {
        rows_in(batch.column(self.column), among, &self.bits)
    }
}

/// The rows whose values are in the set, among those whose bits are set, or of all. NULL is not; what is no number is let through.
pub(super) fn rows_in(values: &ArrayRef, among: Option<&BooleanBuffer>, bits: &KeyBits) -> BooleanBuffer {
    let passing = match Numbers::of(values) {
        Some(Numbers::Short(values)) => select(values, among, bits),
        Some(Numbers::Word(values)) => select(values, among, bits),
        Some(Numbers::Long(values)) => select(values, among, bits),
        None => return among.cloned().unwrap_or_else(|| BooleanBuffer::new_set(values.len())),
    };
    match values.nulls().map(NullBuffer::inner) {
        Some(known) => &passing & known,
        None => passing,
    }
}

/// Narrows the bounds by those that stand in a conjunction as `column >= a` and `column <= b`.
fn note_bounds(filter: &Arc<dyn PhysicalExpr>, least: &mut Option<i64>, most: &mut Option<i64>) {
    let Some(binary) = filter.downcast_ref::<BinaryExpr>() else { return };
    if *binary.op() == Operator::And {
        note_bounds(binary.left(), least, most);
        note_bounds(binary.right(), least, most);
        return;
    }
    let (Some(_), Some(literal)) =
        (binary.left().downcast_ref::<Column>(), binary.right().downcast_ref::<Literal>())
    else {
        return;
    };
    let value = match literal.value() {
        ScalarValue::Int16(Some(value)) => i64::from(*value),
        ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => i64::from(*value),
        ScalarValue::Int64(Some(value)) => *value,
        _ => return,
    };
    match binary.op() {
        Operator::GtEq => *least = Some(least.map_or(value, |known| known.max(value))),
        Operator::LtEq => *most = Some(most.map_or(value, |known| known.min(value))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Int32Array, StringViewArray};
    use datafusion::physical_expr::expressions::{in_list, lit};
    use datafusion::physical_expr_common::physical_expr::is_volatile;

    fn column() -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("n", 1))
    }

    fn both(
        left: Arc<dyn PhysicalExpr>,
        op: Operator,
        right: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    fn between(least: i32, most: i32) -> Arc<dyn PhysicalExpr> {
        let least = both(column(), Operator::GtEq, lit(least));
        both(least, Operator::And, both(column(), Operator::LtEq, lit(most)))
    }

    fn batch(values: Vec<Option<i32>>) -> RecordBatch {
        let texts: StringViewArray = values.iter().map(|_| Some("x")).collect();
        let columns: [(&str, ArrayRef); 2] =
            [("t", Arc::new(texts)), ("n", Arc::new(Int32Array::from(values)))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
    }

    #[test]
    fn a_bit_says_what_the_filter_says() {
        let extremes = [i32::MIN, i32::MIN + 1, -7, -1, 0, 1, 4, 5, 9_000, 20_000, i32::MAX - 1, i32::MAX];
        let rows = batch(extremes.iter().map(|value| Some(*value)).chain([None]).collect());
        let schema = rows.schema();
        for (least, most) in
            [(-7, 5), (0, 0), (1, 20_000), (i32::MAX - 2, i32::MAX), (i32::MIN, i32::MIN + 1)]
        {
            let list = [lit(-1), lit(1), lit(4), lit(9_000), lit(i32::MAX)].to_vec();
            let listed = in_list(column(), list, &false, &schema).unwrap();
            let filter = both(between(least, most), Operator::And, listed);
            assert!(!is_volatile(&filter));
            let candidate = Candidate::of(&filter, &schema).unwrap();
            assert_eq!(candidate.values(), u64::from(most.abs_diff(least)) + 1);
            let ours = candidate.membership().unwrap().passing(&rows, None);
            let theirs = filter.evaluate(&rows).unwrap().into_array(rows.num_rows()).unwrap();
            let theirs = as_boolean_array(&theirs).unwrap();
            let passes = |mask: &BooleanArray, row| mask.is_valid(row) && mask.value(row);
            for row in 0..rows.num_rows() {
                assert_eq!(ours.value(row), passes(theirs, row), "row {row} between {least} and {most}");
            }
            let others: BooleanBuffer = (0..rows.num_rows()).map(|row| row % 3 == 0).collect();
            let among_others = candidate.membership().unwrap().passing(&rows, Some(&others));
            assert_eq!(among_others, &ours & &others);
        }
    }

    #[test]
    fn what_has_no_bounds_or_several_columns_is_none() {
        let rows = batch(vec![Some(1)]);
        let schema = rows.schema();
        let of_text = both(Arc::new(Column::new("t", 0)), Operator::Eq, lit("x"));
        for filter in [
            both(column(), Operator::GtEq, lit(1)),
            both(between(1, 2), Operator::Or, between(3, 4)),
            both(between(1, 2), Operator::And, of_text),
            between(0, i32::MAX),
        ] {
            assert!(Candidate::of(&filter, &schema).is_none(), "{filter}");
        }
        // Nothing passes an empty range.
        let nothing = Candidate::of(&between(5, 1), &schema).unwrap().membership().unwrap();
        assert_eq!(nothing.passing(&rows, None).count_set_bits(), 0);
    }
}
