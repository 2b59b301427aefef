// SPDX-License-Identifier: Apache-2.0
//! How many rows the scans of a plan have come by while it runs.

use super::brick_aggregate::BrickAggregate;
use super::bricks::BrickScan;
use super::scan::{CountedScan, Scan};
use crate::progress::{Counting, QueryProgress, RowWork};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

impl CountedScan {
    fn now(&self) -> QueryProgress {
        let metrics = self.metrics.clone_inner();
        let count = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64);
        let passed_over = count("chunks_pruned").saturating_mul(self.rows_per_chunk);
        let passed_over = count("rows_passed_over").saturating_add(passed_over);
        let passed = count("rows_scanned").saturating_add(passed_over);
        QueryProgress { work: RowWork::Reading, passed: passed.min(self.rows), rows: self.rows }
    }
}

/// What counts the rows that the scans of a plan come by; `None` if it has none.
pub(crate) fn counting(plan: &Arc<dyn ExecutionPlan>) -> Option<Counting> {
    let mut scans = Vec::new();
    let mut waiting = vec![plan];
    while let Some(node) = waiting.pop() {
        scans.extend(node.downcast_ref::<Scan>().map(Scan::counted));
        scans.extend(node.downcast_ref::<BrickScan>().map(BrickScan::counted));
        scans.extend(node.downcast_ref::<BrickAggregate>().map(BrickAggregate::counted));
        waiting.extend(node.children());
    }
    if scans.is_empty() {
        return None;
    }
    Some(Arc::new(move || {
        scans.iter().map(CountedScan::now).fold(QueryProgress::default(), |sum, scan| QueryProgress {
            work: RowWork::Reading,
            passed: sum.passed + scan.passed,
            rows: sum.rows + scan.rows,
        })
    }))
}
