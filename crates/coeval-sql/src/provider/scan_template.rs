// SPDX-License-Identifier: Apache-2.0
//! A scan without the version of its table that it reads: what stands in its place in a plan that is kept for the next execution.
//!
//! It holds nothing of the version, so that memory and files of old versions are free when nobody reads them.

use super::bricks::BrickScan;
use super::scan::Scan;
use super::snapshot::StatementSnapshot;
use coeval_operators::over_no_input;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use std::fmt;
use std::sync::Arc;

/// What a scan was planned with.
pub(super) trait Template: Send + Sync {
    /// The scan, of the version of its table in this snapshot, which is the one that it was planned for.
    ///
    /// # Errors
    /// `XX000` if the snapshot has no such table, or another version of it: a bug.
    fn scan(&self, snapshot: &StatementSnapshot) -> Result<Arc<dyn ExecutionPlan>>;
}

/// See the module.
struct ScanTemplate {
    template: Box<dyn Template>,
    properties: Arc<PlanProperties>,
}

/// What stands for a scan in a plan that is kept. `None` if the node is no scan of a table of this database, or has been told already what
/// those above it look for.
pub(crate) fn template_of_scan(node: &dyn ExecutionPlan) -> Option<Arc<dyn ExecutionPlan>> {
    let template: Box<dyn Template> = match node.downcast_ref::<Scan>() {
        Some(scan) => Box::new(scan.template()?),
        None => Box::new(node.downcast_ref::<BrickScan>()?.template()?),
    };
    Some(Arc::new(ScanTemplate { template, properties: Arc::clone(node.properties()) }))
}

/// The scan that a node stands for, of the version of its table in this snapshot, which is the one that it was planned for; `None` if it
/// stands for none.
///
/// # Errors
/// As [`Template::scan`].
pub(crate) fn scan_of_template(
    node: &dyn ExecutionPlan,
    snapshot: &StatementSnapshot,
) -> Option<Result<Arc<dyn ExecutionPlan>>> {
    Some(node.downcast_ref::<ScanTemplate>()?.template.scan(snapshot))
}

impl fmt::Debug for ScanTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
