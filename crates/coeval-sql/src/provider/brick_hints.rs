// SPDX-License-Identifier: Apache-2.0
//! What operators above a scan of bricks find out while they run.
//!
//! A join hands down which keys it looks for, a sort or an aggregate which rows can still be among its own. Answers are right without that,
//! so it is asked only to save work, and never where the first rows that come are wanted: some of them would be passed over. A brick
//! is asked when it is its turn, by the ranges of its dimensions and the least and greatest values of its metrics; then the rows of
//! those that are read are asked (`hinted_bricks.rs`). Whoever sums up rows at the bricks asks bricks alone.

use super::bricks::{BrickSource, chunk_stats};
use super::prune::{Pruner, SourceColumn};
use super::row_filter::Filter;
use super::scan::{is_moving, is_of_arrays, with_zeros};
use super::scan_keys::ScanKeys;
use arrow::datatypes::Schema;
use coeval_store::BrickView;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::{fmt_sql, snapshot_physical_expr};
use datafusion::physical_plan::PhysicalExpr;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// What is asked of a scan's columns.
#[derive(Clone)]
pub(super) struct BrickHints {
    /// The columns that go out of the scan.
    columns: Arc<[SourceColumn]>,
    /// Filters that change while the query runs.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// What joins look for.
    join_keys: Vec<ScanKeys>,
}

impl BrickHints {
    /// None, of a scan of which these columns go out.
    pub(super) fn none(columns: Vec<SourceColumn>) -> Self {
        Self { columns: columns.into(), filters: Vec::new(), join_keys: Vec::new() }
    }

    /// Whether nothing is asked.
    pub(super) fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.join_keys.is_empty()
    }

    /// The filters, over what goes out.
    pub(super) fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }

    /// The columns of each join's keys, by their places in what goes out.
    pub(super) fn join_keys(&self) -> &[ScanKeys] {
        &self.join_keys
    }

    /// The same with a filter more, over what goes out.
    ///
    /// # Errors
    /// If the filter is not over that.
    pub(super) fn with_filter(mut self, filter: Arc<dyn PhysicalExpr>, output: &Schema) -> Result<Self> {
        self.filters.push(with_zeros(filter, output)?);
        Ok(self)
    }

    /// The same with keys that a join looks for.
    pub(super) fn with_join_keys(mut self, keys: ScanKeys) -> Self {
        self.join_keys.push(keys);
        self
    }

    /// The same without these filters, as who made them is there no longer.
    pub(super) fn without(mut self, made: &[Arc<dyn PhysicalExpr>]) -> Self {
        let ids: Vec<u64> = made.iter().filter_map(|filter| filter.expression_id()).collect();
        let is_gone =
            |part: &Arc<dyn PhysicalExpr>| Ok(part.expression_id().is_some_and(|id| ids.contains(&id)));
        self.filters.retain(|filter| !filter.exists(is_gone).unwrap_or(false));
        self
    }

    /// Whether the same is asked by both.
    pub(super) fn ask_as(&self, other: &Self) -> bool {
        self.filters == other.filters && self.join_keys == other.join_keys
    }

    /// The places of the columns of which something is asked.
    pub(super) fn asked(&self) -> BTreeSet<usize> {
        let of_filters = self.filters.iter().flat_map(collect_columns).map(|column| column.index());
        let of_keys = self.join_keys.iter().flat_map(ScanKeys::columns).copied();
        of_filters.chain(of_keys).collect()
    }

    /// What rows are asked: first what joins on several columns look for.
    pub(super) fn of_rows(&self) -> Vec<Filter> {
        Filter::that_save_work(self.filters.clone(), &self.join_keys)
    }

    /// Whether a brick may have a row that somebody above has use for, as far as is known now.
    pub(super) fn may_match(&self, source: &BrickSource, brick: &BrickView) -> bool {
        if self.is_empty() {
            return true;
        }
        // A filter that cannot be looked at says nothing.
        let now = self.filters.iter().filter_map(|filter| snapshot_physical_expr(Arc::clone(filter)).ok());
        let now: Vec<_> = now.collect();
        let pruner = Pruner::of_all(&now, &self.columns);
        if pruner == Pruner::Unknown && self.join_keys.is_empty() {
            return true;
        }
        let asked = self.asked();
        let is_asked = |column: usize| asked.iter().any(|place| self.columns[*place].index == column);
        let stats = chunk_stats(&source.snapshot, &source.def, brick, is_asked);
        pruner.may_match(&stats) && self.join_keys.iter().all(|keys| keys.may_match(&stats, &self.columns))
    }

    /// The filters as EXPLAIN shows them.
    pub(super) fn show_filters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.filters.is_empty() {
            return Ok(());
        }
        let filters = self.filters.iter().map(|filter| fmt_sql(filter.as_ref()).to_string());
        write!(f, ", hints=[{}]", filters.collect::<Vec<_>>().join(", "))
    }
}

/// Whether a filter from above is one that a scan of bricks takes: it changes while the query runs, and is about columns of which DataFusion
/// compares the values as SQL does.
pub(super) fn is_hint(filter: &Arc<dyn PhysicalExpr>, output: &Schema) -> bool {
    is_moving(filter) && !is_of_arrays(filter, output) && !collect_columns(filter).is_empty()
}

#[cfg(test)]
mod tests;
