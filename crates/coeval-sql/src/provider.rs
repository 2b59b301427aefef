// SPDX-License-Identifier: Apache-2.0
//! Tables as DataFusion sees them: providers that find their rows in the statement's snapshot, and the scan.

mod batches;
mod extent;
mod prune;
mod scan;
mod selectivity;
mod snapshot;
mod statistics;
mod table;

pub(crate) use selectivity::selectivity;
pub(crate) use snapshot::StatementSnapshot;
pub(crate) use table::{CoevalTable, HiddenColumns};
