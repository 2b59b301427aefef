// SPDX-License-Identifier: Apache-2.0
//! The scans that can be told what joins look for.

use crate::provider::bricks::BrickScan;
use crate::provider::scan::Scan;
use crate::provider::scan_keys::ScanKeys;
use arrow::datatypes::Schema;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;

/// A scan of a table that this database has itself.
#[derive(Clone, Copy)]
pub(super) enum ToldScan<'p> {
    Rows(&'p Scan),
    Bricks(&'p BrickScan),
}

impl<'p> ToldScan<'p> {
    /// The node, if it is one.
    pub(super) fn of(node: &'p Arc<dyn ExecutionPlan>) -> Option<Self> {
        let of_rows = node.downcast_ref::<Scan>().map(Self::Rows);
        of_rows.or_else(|| node.downcast_ref::<BrickScan>().map(Self::Bricks))
    }

    /// Filters that have come to it, over its [source](Self::source).
    pub(super) fn filters(self) -> &'p [Arc<dyn PhysicalExpr>] {
        match self {
            Self::Rows(scan) => scan.filters(),
            Self::Bricks(scan) => scan.hints.filters(),
        }
    }

    /// The columns that rows are asked of.
    pub(super) fn source(self) -> &'p Schema {
        match self {
            Self::Rows(scan) => scan.source(),
            Self::Bricks(scan) => &scan.output,
        }
    }

    /// How many rows it is to read, if nothing is left out.
    pub(super) fn row_count(self) -> u64 {
        match self {
            Self::Rows(scan) => scan.row_count(),
            Self::Bricks(scan) => scan.row_count(),
        }
    }

    /// Whether it gives so many rows and no more, among which none may be dropped.
    pub(super) fn is_limited(self) -> bool {
        match self {
            Self::Rows(scan) => scan.is_limited(),
            Self::Bricks(scan) => scan.is_limited(),
        }
    }

    /// The same scan, which asks for these keys, too.
    pub(super) fn with_join_keys(self, keys: ScanKeys) -> Arc<dyn ExecutionPlan> {
        match self {
            Self::Rows(scan) => Arc::new(scan.with_join_keys(keys)),
            Self::Bricks(scan) => Arc::new(scan.with_join_keys(keys)),
        }
    }
}
