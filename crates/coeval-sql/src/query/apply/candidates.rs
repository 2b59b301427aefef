// SPDX-License-Identifier: Apache-2.0
//! The rows of a subquery that values are compared with: `IN`, `= ANY`, `< ALL` and their like.
//!
//! | | true | unknown | false |
//! |---|---|---|---|
//! | `x op ANY (rows)`, and `IN` as `= ANY` | some comparison is true | else, some is unknown | else |
//! | `x op ALL (rows)` | else | else, some is unknown | some comparison is false |

use crate::cancel;
use crate::query::typing::{no_operator, written};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::expr::SetQuantifier;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr_common::datum::apply_cmp;
use std::collections::HashSet;

/// What is looked up is counted, and the statement looked at, in steps of so many bytes.
const STEP_BYTES: usize = 64 << 10;

/// The only column of a subquery's rows.
pub(super) struct Candidates {
    operator: Operator,
    quantifier: SetQuantifier,
    /// In the type in which they are compared.
    values: ArrayRef,
    /// The same without NULL, where to compare means to look up.
    known: Option<HashSet<ScalarValue>>,
}

impl Candidates {
    /// Those of a subquery's rows, whose column is of type `own`, for values of type `other`. What it takes to look them up is added
    /// to `kept`.
    ///
    /// # Errors
    /// `42883` if values of the two types cannot be compared; `53200`.
    pub(super) fn new(
        (operator, quantifier): (Operator, SetQuantifier),
        batches: &[RecordBatch],
        own: &DataType,
        other: &DataType,
        kept: &MemoryReservation,
    ) -> Result<Self> {
        let ty =
            comparison_coercion(other, own).ok_or_else(|| no_operator(other, &written(operator), own))?;
        let parts: Vec<ArrayRef> =
            batches.iter().map(|batch| cast(batch.column(0), &ty)).collect::<Result<_, ArrowError>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let values = if parts.is_empty() { arrow::array::new_empty_array(&ty) } else { concat(&parts)? };
        // Zeros of both signs are equal and have different hashes.
        let is_lookup = operator == Operator::Eq && quantifier == SetQuantifier::Any && !ty.is_floating();
        let known = if is_lookup { Some(looked_up(&values, kept)?) } else { None };
        Ok(Self { operator, quantifier, values, known })
    }

    /// The answer for one value.
    ///
    /// # Errors
    /// If the value is not of the type that was told.
    pub(super) fn compared(&self, value: &ScalarValue) -> Result<ScalarValue> {
        let value = value.cast_to(self.values.data_type())?;
        let answer = match &self.known {
            // Beside no rows at all even NULL is not among them.
            Some(_) if value.is_null() => self.values.is_empty().then_some(false),
            Some(known) if known.contains(&value) => Some(true),
            Some(_) => (self.values.null_count() == 0).then_some(false),
            None => self.compared_one_by_one(value)?,
        };
        Ok(ScalarValue::Boolean(answer))
    }

    fn compared_one_by_one(&self, value: ScalarValue) -> Result<Option<bool>> {
        let values = ColumnarValue::Array(self.values.clone());
        let rows = self.values.len();
        let compared = apply_cmp(self.operator, &ColumnarValue::Scalar(value), &values)?.to_array(rows)?;
        let compared = BooleanArray::from(compared.to_data());
        let is_unknown = compared.null_count() > 0;
        // What one comparison decides for all.
        let deciding = self.quantifier == SetQuantifier::Any;
        let is_decided = compared.iter().flatten().any(|one| one == deciding);
        Ok(if is_decided { Some(deciding) } else { (!is_unknown).then_some(!deciding) })
    }
}

/// The values but for NULL, each once. A table of them is half empty at times.
fn looked_up(values: &ArrayRef, kept: &MemoryReservation) -> Result<HashSet<ScalarValue>> {
    let (mut known, mut uncounted) = (HashSet::new(), 0);
    for row in (0..values.len()).filter(|&row| values.is_valid(row)) {
        let value = ScalarValue::try_from_array(values, row)?;
        let bytes = value.size().saturating_mul(2);
        if known.insert(value) {
            uncounted += bytes;
        }
        if uncounted >= STEP_BYTES {
            cancel::check()?;
            kept.try_grow(std::mem::take(&mut uncounted))?;
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;
    use arrow::datatypes::{Field, Schema};
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use std::sync::Arc;

    fn answers(operator: Operator, quantifier: SetQuantifier, rows: &[Option<i32>]) -> Vec<Option<bool>> {
        let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Int32, true)]));
        let column = Arc::new(Int32Array::from(rows.to_vec()));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        let wanted = ScalarValue::Decimal128(None, 3, 1).data_type();
        let memory: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let kept = MemoryConsumer::new("a test").register(&memory);
        let question = (operator, quantifier);
        let all = Candidates::new(question, &[batch], &DataType::Int32, &wanted, &kept).unwrap();
        let values = [Some(20), Some(25), None].map(|value| ScalarValue::Decimal128(value, 3, 1));
        let answer = |value| match all.compared(value).unwrap() {
            ScalarValue::Boolean(answer) => answer,
            other => panic!("{other} is no answer"),
        };
        values.iter().map(answer).collect()
    }

    #[test]
    fn null_is_unknown_unless_another_row_decides() {
        let (any, all) = (SetQuantifier::Any, SetQuantifier::All);
        let (yes, no) = (Some(true), Some(false));
        let without = [Some(1), Some(2)];
        let with_null = [Some(1), None, Some(2)];
        assert_eq!(answers(Operator::Eq, any, &without), [yes, no, None]);
        assert_eq!(answers(Operator::Eq, any, &with_null), [yes, None, None]);
        assert_eq!(answers(Operator::Eq, any, &[]), [no, no, no]);
        assert_eq!(answers(Operator::Gt, all, &without), [no, yes, None]);
        assert_eq!(answers(Operator::Gt, all, &with_null), [no, None, None]);
        assert_eq!(answers(Operator::Gt, all, &[]), [yes, yes, yes]);
    }
}
