// SPDX-License-Identifier: Apache-2.0
//! Which rows of a block count.

use super::super::row_filters::plain_mask;
use super::Conjunct;
use crate::guarded::guarded;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::Schema;
use coeval_operators::predicate::Predicate;
use coeval_store::{BrickView, Coverage};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::physical_expr::conjunction;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// What the rows of one brick must satisfy.
pub(super) struct Filter {
    compared: Option<Predicate>,
    /// The rest, which DataFusion evaluates.
    rest: Option<Arc<dyn PhysicalExpr>>,
}

impl Filter {
    /// Leaves out what all rows of the brick satisfy by their dimensions. `None` if nothing is left.
    pub(super) fn of(conjuncts: &[Conjunct], scanned: &Schema, brick: &BrickView) -> Option<Self> {
        let holds = |conjunct: &Conjunct| {
            let coverage = conjunct.selected.as_ref().map(|selected| selected.coverage(brick.id()));
            coverage == Some(Coverage::Whole)
        };
        let (mut compared, mut rest) = (Vec::new(), Vec::new());
        for conjunct in conjuncts.iter().filter(|conjunct| !holds(conjunct)) {
            match Predicate::of(&conjunct.predicate, scanned) {
                Some(predicate) => compared.push(predicate),
                None => rest.push(Arc::clone(&conjunct.predicate)),
            }
        }
        let rest = (!rest.is_empty()).then(|| guarded(conjunction(rest)));
        let compared = (!compared.is_empty()).then(|| Predicate::all(compared));
        (rest.is_some() || compared.is_some()).then_some(Self { compared, rest })
    }

    /// For each row whether it counts: NULL counts as false.
    ///
    /// # Errors
    /// If the evaluation of a part fails. What the comparisons leave out is not evaluated, so they can guard the rest:
    /// `b <> 0 AND 10 / b > 5`.
    pub(super) fn mask(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let compared = self.compared.as_ref().map(|predicate| predicate.passing(rows, None));
        let compared = compared.map(|bits| BooleanArray::new(bits, None));
        let Some(rest) = &self.rest else {
            return Ok(compared.expect("there are comparisons or a rest"));
        };
        let answers = match &compared {
            Some(compared) => rest.evaluate_selection(rows, compared)?,
            None => rest.evaluate(rows)?,
        };
        Ok(plain_mask(as_boolean_array(&answers.into_array(rows.num_rows())?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    fn rows() -> RecordBatch {
        let numbers = (0..150_i64).map(|row| (row % 5 != 3).then_some(row * 37 % 11 - 5));
        let numbers: ArrayRef = Arc::new(numbers.collect::<Int64Array>());
        RecordBatch::try_from_iter_with_nullable([("long", numbers, true)]).expect("the column is there")
    }

    fn evaluated(predicate: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> BooleanArray {
        let answers = predicate.evaluate(rows).and_then(|answers| answers.into_array(rows.num_rows()));
        let answers = answers.expect("it can be evaluated");
        plain_mask(as_boolean_array(&answers).expect("a condition is true or false"))
    }

    #[test]
    fn a_filter_is_the_conjunction_of_comparisons_and_the_rest() {
        let rows = rows();
        let schema = rows.schema();
        let column = |name| col(name, &schema).expect("there is the column");
        let long = binary(column("long"), Operator::Gt, lit(-3_i64), &schema).expect("types are the same");
        let sum =
            binary(column("long"), Operator::Plus, column("long"), &schema).expect("types are the same");
        let even = binary(sum, Operator::Lt, lit(4_i64), &schema).expect("types are the same");
        let whole = evaluated(&conjunction([Arc::clone(&long), Arc::clone(&even)]), &rows);
        let compared = || Predicate::of(&long, &schema);
        assert!(compared().is_some() && Predicate::of(&even, &schema).is_none());
        let both = Filter { compared: compared(), rest: Some(Arc::clone(&even)) };
        assert_eq!(both.mask(&rows).expect("it can be evaluated"), whole);
        let first = Filter { compared: compared(), rest: None };
        assert_eq!(first.mask(&rows).expect("it can be evaluated"), evaluated(&long, &rows));
        let second = Filter { compared: None, rest: Some(Arc::clone(&even)) };
        assert_eq!(second.mask(&rows).expect("it can be evaluated"), evaluated(&even, &rows));
    }
}
