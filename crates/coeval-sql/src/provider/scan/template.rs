// SPDX-License-Identifier: Apache-2.0
//! What a scan of rows was planned with, without the version of its table.

use super::{Scan, is_moving, parts_of};
use crate::provider::StatementSnapshot;
use crate::provider::answers::{Answers, AskedScan};
use crate::provider::prune::SourceColumn;
use crate::provider::scan_template::Template;
use arrow::datatypes::SchemaRef;
use coeval_store::SpaceId;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, PlanProperties};
use std::sync::{Arc, OnceLock};

/// See the module. Of the fields each is the scan's own.
pub(in crate::provider) struct RowScanTemplate {
    table: SpaceId,
    output: SchemaRef,
    source: SchemaRef,
    columns: Arc<[SourceColumn]>,
    filters: Vec<Arc<dyn PhysicalExpr>>,
    rows_max: Option<usize>,
    limit: Option<usize>,
    parts_max: usize,
    properties: Arc<PlanProperties>,
    statistics: Arc<OnceLock<Arc<Statistics>>>,
    answers: Arc<Answers>,
    asked: Option<AskedScan>,
}

impl Scan {
    /// What it was planned with; `None` if it has been told already what those above it look for.
    pub(in crate::provider) fn template(&self) -> Option<RowScanTemplate> {
        let is_told = self.filters.iter().any(is_moving) || !self.join_keys.is_empty();
        if is_told || !self.coded.is_empty() || !self.narrow.is_empty() {
            return None;
        }
        Some(RowScanTemplate {
            table: self.view.def().id,
            output: self.output.clone(),
            source: self.source.clone(),
            columns: Arc::clone(&self.columns),
            filters: self.filters.clone(),
            rows_max: self.rows_max,
            limit: self.limit,
            parts_max: self.parts_max,
            properties: Arc::clone(&self.properties),
            statistics: Arc::clone(&self.statistics),
            answers: Arc::clone(&self.answers),
            asked: self.asked.clone(),
        })
    }
}

impl Template for RowScanTemplate {
    fn scan(&self, snapshot: &StatementSnapshot) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(view) = snapshot.view(self.table).cloned() else {
            return internal_err!("a kept plan reads a table that the statement does not name");
        };
        // Not the number that there came to be: divided by that, there may be fewer again.
        let parts = parts_of(&view, self.parts_max, self.rows_max);
        if parts.len() != self.properties.output_partitioning().partition_count() {
            return internal_err!("a kept plan reads another version of a table");
        }
        Ok(Arc::new(Scan {
            view,
            output: self.output.clone(),
            source: self.source.clone(),
            columns: Arc::clone(&self.columns),
            coded: Arc::default(),
            narrow: Arc::default(),
            filters: self.filters.clone(),
            join_keys: Vec::new(),
            rows_max: self.rows_max,
            limit: self.limit,
            parts_max: self.parts_max,
            parts,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            statistics: Arc::clone(&self.statistics),
            answers: Arc::clone(&self.answers),
            asked: self.asked.clone(),
        }))
    }
}

#[cfg(test)]
mod tests;
