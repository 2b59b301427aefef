// SPDX-License-Identifier: Apache-2.0
//! Tables as DataFusion sees them: providers that find their rows in the statement's snapshot, and the scan.

mod answers;
mod batches;
mod brick_aggregate;
mod brick_hints;
mod bricks;
mod coded_columns;
mod dimensions;
mod extent;
mod gathered;
mod hinted_bricks;
mod join_keys;
mod membership;
mod narrow_columns;
mod narrow_scans;
mod passed;
mod prune;
mod request;
mod row_filter;
mod row_filters;
mod same_reads;
mod scan;
mod scan_metrics;
mod selectivity;
mod snapshot;
mod spread;
mod statistics;
mod steps;
mod table;
mod text_codes;
mod text_filter;

pub(crate) use answers::{Answers, Question};
pub(crate) use brick_aggregate::BEGIN_BRICK_AGGREGATES;
pub use bricks::BrickScan;
pub(crate) use dimensions::{Condition, conditions};
pub(crate) use join_keys::JOIN_KEYS;
pub(crate) use narrow_scans::NARROW_SCANS;
pub(crate) use passed::counting;
pub(crate) use same_reads::{is_scan, read_the_same};
pub(crate) use selectivity::{distinct_results, selectivity};
pub(crate) use snapshot::StatementSnapshot;
pub(crate) use spread::{BrickReader, SpreadScan};
pub(crate) use statistics::{UNKNOWN_DISTINCT, known_bounds, known_distinct_values};
pub use table::field_of_column;
pub(crate) use table::{CoevalTable, HiddenColumns, Keys};
pub(crate) use text_codes::TEXT_CODES;
