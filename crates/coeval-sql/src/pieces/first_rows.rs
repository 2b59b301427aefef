// SPDX-License-Identifier: Apache-2.0
//! Steps that give no more than so many rows: the first ones of an order, or any. Written down and read.
//!
//! Each node does with its own bricks what the whole does with all of them, and whoever asked takes the first of what has come. The
//! first `k` rows of all are among the first `k` of each node.

use super::codec::{Decoder, Encoder};
use super::wire::malformed;
use arrow::compute::SortOptions;
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

/// The first rows of a plan in this order, in one part.
fn first_rows(plan: Arc<dyn ExecutionPlan>, order: LexOrdering, rows: usize) -> Arc<dyn ExecutionPlan> {
    let is_divided = parts(plan.as_ref()) > 1;
    let sort = SortExec::new(order.clone(), plan).with_fetch(Some(rows)).with_preserve_partitioning(true);
    let sort: Arc<dyn ExecutionPlan> = Arc::new(sort);
    if is_divided { Arc::new(SortPreservingMergeExec::new(order, sort).with_fetch(Some(rows))) } else { sort }
}

impl Encoder<'_> {
    /// Writes a sort that gives the first rows; `None` if it gives all.
    pub(super) fn sort(&mut self, sort: &SortExec) -> Option<()> {
        self.out.number(sort.fetch()?);
        self.out.number(sort.expr().len());
        sort.expr().iter().try_for_each(|key| {
            self.out.byte(u8::from(key.options.descending));
            self.out.byte(u8::from(key.options.nulls_first));
            self.expression(&key.expr)
        })
    }
}

impl Decoder<'_> {
    /// Reads a sort that gives the first rows of these.
    pub(super) fn sort(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        let rows = self.from.number()?;
        let count = self.from.count()?;
        let mut keys = Vec::new();
        for _ in 0..count {
            let options = SortOptions { descending: self.flag()?, nulls_first: self.flag()? };
            keys.push(PhysicalSortExpr::new(self.expression(&schema)?, options));
        }
        let order = LexOrdering::new(keys).ok_or_else(|| malformed("a sort has no keys"))?;
        Ok(first_rows(input, order, rows))
    }

    /// Reads how many of these rows are wanted.
    pub(super) fn limit(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.from.number()?;
        Ok(any_rows(input, rows))
    }
}
