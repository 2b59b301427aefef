// SPDX-License-Identifier: Apache-2.0
//! The conditions of a filter that have to hold together, and which rows of a batch pass all of them.

use super::Guarding;
use crate::predicate::{Conjunction, Predicate, bits_of, cheapest_first, operands, where_true};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::FilterBuilder;
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// If fewer rows than one in this many are left, they are taken out before a condition is evaluated.
const FEW: usize = 5;

/// What a filter asks.
#[derive(Debug)]
pub(super) struct Conditions {
    /// What is compared by loops, and cannot fail.
    compared: Arc<[Predicate]>,
    /// What DataFusion evaluates, as it is written.
    evaluated: Vec<Condition>,
}

impl Conditions {
    /// What this predicate asks, of rows with these columns; `None` if it is no more than one condition that DataFusion evaluates, or if
    /// one is volatile.
    pub(super) fn of(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema, guarded: Guarding) -> Option<Self> {
        if is_volatile(predicate) {
            return None;
        }
        let (mut compared, mut evaluated) = (Vec::new(), Vec::new());
        for part in operands(predicate, Operator::And) {
            match Predicate::of(part, schema) {
                Some(part) => compared.push(part),
                None => evaluated.push(Condition::of(guarded(Arc::clone(part)), schema)),
            }
        }
        if compared.is_empty() && evaluated.len() < 2 {
            return None;
        }
        Some(Self { compared: cheapest_first(compared), evaluated })
    }
}

/// What DataFusion evaluates.
#[derive(Debug)]
struct Condition {
    asked: Arc<dyn PhysicalExpr>,
    /// Of each column of the rows whether the condition looks at it.
    looks_at: Vec<bool>,
}

impl Condition {
    fn of(asked: Arc<dyn PhysicalExpr>, schema: &Schema) -> Self {
        let mut looks_at = vec![false; schema.fields().len()];
        for column in collect_columns(&asked) {
            if let Some(looks) = looks_at.get_mut(column.index()) {
                *looks = true;
            }
        }
        Self { asked, looks_at }
    }

    /// Which of the rows that are left pass.
    ///
    /// # Errors
    /// If the evaluation of one of these rows fails; others do not count.
    fn passing(&self, rows: &RecordBatch, left: &BooleanBuffer) -> Result<BooleanBuffer> {
        let open = left.count_set_bits();
        if open * FEW >= rows.num_rows() {
            match self.answers(rows) {
                Ok(answers) => return Ok(&answers & left),
                // By a row that is left out, maybe.
                Err(_) if open < rows.num_rows() => {}
                Err(error) => return Err(error),
            }
        }
        let answers = self.answers(&self.taken_out(rows, left, open)?)?;
        let passing = left.set_indices().zip(&answers).filter(|(_, passes)| *passes);
        Ok(bits_of(passing.map(|(row, _)| row), rows.num_rows()))
    }

    fn answers(&self, rows: &RecordBatch) -> Result<BooleanBuffer> {
        Ok(match self.asked.evaluate(rows)? {
            ColumnarValue::Array(answers) => where_true(as_boolean_array(&answers)?),
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => {
                BooleanBuffer::new_set(rows.num_rows())
            }
            ColumnarValue::Scalar(_) => BooleanBuffer::new_unset(rows.num_rows()),
        })
    }

    /// The rows that are left, which are so many. Only the columns that the condition looks at are these rows'; the others, which have to
    /// be there, are as long, and cost nothing.
    fn taken_out(&self, rows: &RecordBatch, left: &BooleanBuffer, open: usize) -> Result<RecordBatch> {
        let mut filter = FilterBuilder::new(&BooleanArray::new(left.clone(), None));
        if self.looks_at.iter().filter(|looks| **looks).count() > 1 {
            filter = filter.optimize();
        }
        let filter = filter.build();
        let columns = rows.columns().iter().zip(&self.looks_at).map(|(column, looks)| {
            if *looks { filter.filter(column.as_ref()) } else { Ok(column.slice(0, open)) }
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(open));
        Ok(RecordBatch::try_new_with_options(rows.schema(), columns, &options)?)
    }
}

/// The conditions in the order in which one stream asks them.
pub(super) struct Steps {
    conditions: Arc<Conditions>,
    compared: Conjunction,
    /// The places of those that DataFusion evaluates.
    evaluated: Vec<usize>,
}

impl Steps {
    pub(super) fn new(conditions: Arc<Conditions>) -> Self {
        let compared = Conjunction::new(Arc::clone(&conditions.compared));
        let evaluated = (0..conditions.evaluated.len()).collect();
        Self { conditions, compared, evaluated }
    }

    /// The rows that pass all conditions.
    ///
    /// # Errors
    /// If the evaluation of a condition fails by a row that no other condition leaves out.
    pub(super) fn passing(&mut self, rows: &RecordBatch) -> Result<BooleanBuffer> {
        let left = self.compared.passing(rows, None);
        self.with_evaluated(rows, left)
    }

    /// Those of the rows that are left that pass what DataFusion evaluates.
    fn with_evaluated(&mut self, rows: &RecordBatch, mut left: BooleanBuffer) -> Result<BooleanBuffer> {
        let (mut passed, mut deferred) = (0, 0);
        while passed < self.evaluated.len() && left.has_true() {
            match self.conditions.evaluated[self.evaluated[passed]].passing(rows, &left) {
                Ok(passing) => {
                    left = passing;
                    (passed, deferred) = (passed + 1, 0);
                }
                // By a row, maybe, that those behind leave out.
                Err(_) if passed + deferred + 1 < self.evaluated.len() => {
                    deferred += 1;
                    self.evaluated[passed..].rotate_left(1);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }
}
