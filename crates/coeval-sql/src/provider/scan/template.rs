// SPDX-License-Identifier: Apache-2.0
//! A scan without the version of its table that it reads: what stands in its place in a plan that is kept for the next execution.
//!
//! It holds nothing of the version, so that memory and files of old versions are free when nobody reads them.

use super::{Scan, is_moving, parts_of};
use crate::provider::StatementSnapshot;
use crate::provider::answers::{Answers, AskedScan};
use crate::provider::prune::SourceColumn;
use arrow::datatypes::SchemaRef;
use coeval_operators::over_no_input;
use coeval_store::SpaceId;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// See the module. Of the fields each is the scan's own.
#[derive(Debug)]
struct ScanTemplate {
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

/// What stands for a scan in a plan that is kept. `None` if the node is no scan of a table of rows, or has been told already what those above
/// it look for.
pub(crate) fn template_of_scan(node: &dyn ExecutionPlan) -> Option<Arc<dyn ExecutionPlan>> {
    let scan = node.downcast_ref::<Scan>()?;
    let is_told = scan.filters.iter().any(is_moving) || !scan.join_keys.is_empty();
    if is_told || !scan.coded.is_empty() || !scan.narrow.is_empty() {
        return None;
    }
    Some(Arc::new(ScanTemplate {
        table: scan.view.def().id,
        output: scan.output.clone(),
        source: scan.source.clone(),
        columns: Arc::clone(&scan.columns),
        filters: scan.filters.clone(),
        rows_max: scan.rows_max,
        limit: scan.limit,
        parts_max: scan.parts_max,
        properties: Arc::clone(&scan.properties),
        statistics: Arc::clone(&scan.statistics),
        answers: Arc::clone(&scan.answers),
        asked: scan.asked.clone(),
    }))
}

/// The scan that a node stands for, of the version of its table in this snapshot, which is the one that it was planned for; `None` if it
/// stands for none.
///
/// # Errors
/// `XX000` if the snapshot has no such table, or another version of it: a bug.
pub(crate) fn scan_of_template(
    node: &dyn ExecutionPlan,
    snapshot: &StatementSnapshot,
) -> Option<Result<Arc<dyn ExecutionPlan>>> {
    let template = node.downcast_ref::<ScanTemplate>()?;
    Some(template.scan(snapshot).map(|scan| Arc::new(scan) as _))
}

impl ScanTemplate {
    fn scan(&self, snapshot: &StatementSnapshot) -> Result<Scan> {
        let Some(view) = snapshot.view(self.table).cloned() else {
            return internal_err!("a kept plan reads a table that the statement does not name");
        };
        // Not the number that there came to be: divided by that, there may be fewer again.
        let parts = parts_of(&view, self.parts_max, self.rows_max);
        if parts.len() != self.properties.output_partitioning().partition_count() {
            return internal_err!("a kept plan reads another version of a table");
        }
        Ok(Scan {
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
        })
    }
}

impl DisplayAs for ScanTemplate {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for ScanTemplate {
    fn name(&self) -> &'static str {
        "ScanTemplate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    over_no_input!();

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a kept plan is not run itself")
    }
}

#[cfg(test)]
mod tests;
