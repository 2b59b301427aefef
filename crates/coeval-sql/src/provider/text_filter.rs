// SPDX-License-Identifier: Apache-2.0
//! A filter that reads one column of texts, which comes as codes: it is asked once for each text of a chunk, and for each row its answer
//! is looked up.
//!
//! A text may be there that no row has, so only filters that never fail are asked so.

use crate::guarded::is_condition;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt16Type};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// See the module.
pub(super) struct TextFilter {
    /// The column's place among those that are read.
    column: usize,
    /// Over a batch of that column alone.
    predicate: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// For the texts that were asked last.
    answers: Option<Answers>,
}

struct Answers {
    texts: ArrayRef,
    /// Which texts pass, and behind them whether NULL does.
    passing: BooleanBuffer,
}

impl TextFilter {
    /// The filter over columns of this schema, of which these are texts that come as codes; `None` if it is of another kind.
    pub(super) fn of(
        filter: &Arc<dyn PhysicalExpr>,
        source: &Schema,
        coded: &[usize],
    ) -> Result<Option<Self>> {
        let Some(column) = coded.iter().copied().find(|column| is_of_text(filter, *column)) else {
            return Ok(None);
        };
        let name = source.field(column).name();
        let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8View, true)]));
        let predicate = reassign_expr_columns(Arc::clone(filter), &schema)?;
        Ok(Some(Self { column, predicate, schema, answers: None }))
    }

    /// The rows that pass, among those whose bits are set, or of all.
    pub(super) fn passing(
        &mut self,
        rows: &RecordBatch,
        among: Option<&BooleanBuffer>,
    ) -> Result<BooleanBuffer> {
        let coded = rows.column(self.column).as_dictionary::<UInt16Type>();
        let (numbers, texts) = (coded.keys(), coded.values());
        let known = self.answers.take().filter(|answers| Arc::ptr_eq(&answers.texts, texts));
        let answers = match known {
            Some(known) => known,
            None => self.ask(texts)?,
        };
        let passes = |row: usize| answers.passing.value(usize::from(numbers.value(row)));
        let passing = match numbers.nulls() {
            None => BooleanBuffer::collect_bool(numbers.len(), passes),
            Some(there) => {
                let is_null_passing = answers.passing.value(texts.len());
                BooleanBuffer::collect_bool(numbers.len(), |row| match there.is_valid(row) {
                    true => passes(row),
                    false => is_null_passing,
                })
            }
        };
        self.answers = Some(answers);
        Ok(match among {
            Some(among) => &passing & among,
            None => passing,
        })
    }

    fn ask(&self, texts: &ArrayRef) -> Result<Answers> {
        let null = new_null_array(&DataType::Utf8View, 1);
        let all = concat(&[texts.as_ref(), null.as_ref()])?;
        let count = all.len();
        let asked = RecordBatch::try_new(Arc::clone(&self.schema), vec![all])?;
        let answers = self.predicate.evaluate(&asked)?.into_array(count)?;
        let answers = as_boolean_array(&answers)?;
        let passing = match answers.nulls() {
            None => answers.values().clone(),
            Some(known) => answers.values() & known.inner(),
        };
        Ok(Answers { texts: Arc::clone(texts), passing })
    }
}

/// Whether a filter is of the kind that can be asked of the texts of this column, and reads no other.
pub(super) fn is_of_text(filter: &Arc<dyn PhysicalExpr>, column: usize) -> bool {
    let columns = collect_columns(filter);
    let is_its_own = !columns.is_empty() && columns.iter().all(|read| read.index() == column);
    is_its_own && !filter.exists(|part| Ok(!never_fails(part))).unwrap_or(true)
}

fn never_fails(part: &Arc<dyn PhysicalExpr>) -> bool {
    part.downcast_ref::<BinaryExpr>().is_some_and(|binary| is_condition(*binary.op()))
        || part.is::<Column>()
        || part.is::<Literal>()
        || part.is::<NotExpr>()
        || part.is::<InListExpr>()
        || part.is::<IsNullExpr>()
        || part.is::<IsNotNullExpr>()
}

#[cfg(test)]
mod tests;
