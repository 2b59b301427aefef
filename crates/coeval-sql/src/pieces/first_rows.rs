// SPDX-License-Identifier: Apache-2.0
//! Steps that give rows in an order, all or the first ones, and those that give no more than so many of any. Written down and read.
//!
//! Each node does with its own bricks what the whole does with all of them. Of first rows, whoever asked takes the first of what has come:
//! the first `k` rows of all are among the first `k` of each node. All rows in an order come from each node as one sequence, and these are
//! merged.

use super::codec::{Decoder, Encoder};
use super::wire::malformed;
use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use std::sync::Arc;

/// Into how many parts the rows of a plan are divided.
pub(super) fn parts(plan: &dyn ExecutionPlan) -> usize {
    plan.properties().output_partitioning().partition_count()
}

/// So many rows of a plan, in one part, or fewer if there are no more.
pub(super) fn any_rows(plan: Arc<dyn ExecutionPlan>, rows: usize) -> Arc<dyn ExecutionPlan> {
    if parts(plan.as_ref()) > 1 {
        Arc::new(CoalescePartitionsExec::new(plan).with_fetch(Some(rows)))
    } else {
        Arc::new(LocalLimitExec::new(plan, rows))
    }
}

/// The rows of a plan in this order, all or the first ones, in one part.
pub(super) fn in_order(
    plan: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    first: Option<usize>,
) -> Arc<dyn ExecutionPlan> {
    let is_divided = parts(plan.as_ref()) > 1;
    let sort = SortExec::new(order.clone(), plan).with_fetch(first).with_preserve_partitioning(true);
    let sort: Arc<dyn ExecutionPlan> = Arc::new(sort);
    // If a node fails, the same is done with other bricks, which may be in more parts: all rows are one sequence then, too.
    if is_divided || first.is_none() {
        Arc::new(SortPreservingMergeExec::new(order, sort).with_fetch(first))
    } else {
        sort
    }
}

/// Pieces whose rows are in this order, in the place of what came in so many parts.
pub(super) fn merged(
    pieces: Arc<dyn ExecutionPlan>,
    order: &LexOrdering,
    count: usize,
) -> Arc<dyn ExecutionPlan> {
    if count == 1 && parts(pieces.as_ref()) > 1 {
        Arc::new(SortPreservingMergeExec::new(order.clone(), pieces))
    } else {
        pieces
    }
}

impl Encoder<'_> {
    /// Writes a sort.
    pub(super) fn sort(&mut self, sort: &SortExec) -> Option<()> {
        self.out.byte(u8::from(sort.fetch().is_some()));
        if let Some(rows) = sort.fetch() {
            self.out.number(rows);
        }
        self.order(sort.expr())
    }

    /// Writes by what rows are compared one behind the other.
    pub(super) fn order(&mut self, keys: &[PhysicalSortExpr]) -> Option<()> {
        self.out.number(keys.len());
        keys.iter().try_for_each(|key| self.sort_key(key))
    }

    /// Writes what rows are compared by.
    pub(super) fn sort_key(&mut self, key: &PhysicalSortExpr) -> Option<()> {
        self.out.byte(u8::from(key.options.descending));
        self.out.byte(u8::from(key.options.nulls_first));
        self.expression(&key.expr)
    }
}

impl Decoder<'_> {
    /// Reads a sort of these rows.
    pub(super) fn sort(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let (order, first) = self.sort_wanted(&input)?;
        Ok(in_order(input, order, first))
    }

    /// Reads a sort of each part of these rows by itself.
    pub(super) fn sort_of_parts(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let (order, first) = self.sort_wanted(&input)?;
        let sort = SortExec::new(order, input).with_fetch(first).with_preserve_partitioning(true);
        Ok(Arc::new(sort))
    }

    /// In which order, and how many.
    fn sort_wanted(&mut self, input: &Arc<dyn ExecutionPlan>) -> Result<(LexOrdering, Option<usize>)> {
        let first = if self.flag()? { Some(self.from.number()?) } else { None };
        let order = self.order(&input.schema())?;
        Ok((order.ok_or_else(|| malformed("a sort has no keys"))?, first))
    }

    /// Reads by what rows with these columns are compared one behind the other; nothing, if they are in no order.
    pub(super) fn order(&mut self, schema: &Schema) -> Result<Option<LexOrdering>> {
        let count = self.from.count()?;
        let keys: Vec<_> = (0..count).map(|_| self.sort_key(schema)).collect::<Result<_>>()?;
        Ok(LexOrdering::new(keys))
    }

    /// Reads what rows with these columns are compared by.
    pub(super) fn sort_key(&mut self, schema: &Schema) -> Result<PhysicalSortExpr> {
        let options = SortOptions { descending: self.flag()?, nulls_first: self.flag()? };
        Ok(PhysicalSortExpr::new(self.expression(schema)?, options))
    }

    /// Reads how many of these rows are wanted.
    pub(super) fn limit(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.from.number()?;
        Ok(any_rows(input, rows))
    }
}
