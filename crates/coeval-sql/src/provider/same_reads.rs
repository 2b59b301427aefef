// SPDX-License-Identifier: Apache-2.0
//! Whether two scans of a statement read the same.

use super::bricks::BrickScan;
use super::scan::Scan;
use datafusion::physical_plan::ExecutionPlan;

/// Whether a node reads a table that this database has itself.
pub(crate) fn is_scan(node: &dyn ExecutionPlan) -> bool {
    node.is::<Scan>() || node.is::<BrickScan>()
}

/// Whether two such nodes of one statement give the same rows, divided in the same way.
pub(crate) fn read_the_same(one: &dyn ExecutionPlan, other: &dyn ExecutionPlan) -> bool {
    match (one.downcast_ref::<Scan>(), other.downcast_ref::<Scan>()) {
        (Some(one), Some(other)) => one.reads_as(other),
        (None, None) => match (one.downcast_ref::<BrickScan>(), other.downcast_ref::<BrickScan>()) {
            (Some(one), Some(other)) => one.reads_as(other),
            _ => false,
        },
        _ => false,
    }
}
