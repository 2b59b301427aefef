// SPDX-License-Identifier: Apache-2.0
//! How many rows a hash join gives, for the rule that decides which side of a join is built.
//!
//! DataFusion takes a join by several columns for one by the most selective of them, so that a join by a whole key seems
//! to give many times its rows, and the next join builds the larger side. Its registry of estimates has a provider that
//! multiplies the columns' distinct values, but takes a key that is an expression for no condition at all. This one
//! multiplies, never beyond the rows there are, and assumes of what it does not know what the order of joins assumes.

use super::join_sides::KeptStatistics;
use crate::provider::UNKNOWN_DISTINCT;
use datafusion::common::stats::Precision;
use datafusion::common::{JoinType, Result, Statistics};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::operator_statistics::{
    ExtendedStatistics, StatisticsProvider, StatisticsResult,
};
use std::sync::Arc;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct JoinRows {
    /// Bytes, and bounds of columns, are as DataFusion has them.
    others: KeptStatistics,
}

impl StatisticsProvider for JoinRows {
    fn compute_statistics(
        &self,
        plan: &dyn ExecutionPlan,
        child_stats: &[ExtendedStatistics],
    ) -> Result<StatisticsResult> {
        let (Some(join), [left, right]) = (plan.downcast_ref::<HashJoinExec>(), child_stats) else {
            return Ok(StatisticsResult::Delegate);
        };
        let (left, right) = (left.base(), right.base());
        let (Some(&left_rows), Some(&right_rows)) = (left.num_rows.get_value(), right.num_rows.get_value())
        else {
            return Ok(StatisticsResult::Delegate);
        };
        let of_left = distinct_keys(join.on().iter().map(|(key, _)| key), left, left_rows);
        let of_right = distinct_keys(join.on().iter().map(|(_, key)| key), right, right_rows);
        let distinct = of_left.max(of_right);
        let met = left_rows.saturating_mul(right_rows) / distinct.max(1);
        let rows = match join.join_type() {
            JoinType::Inner => met,
            JoinType::Left => met.max(left_rows),
            JoinType::Right => met.max(right_rows),
            JoinType::LeftSemi => met.min(left_rows),
            JoinType::RightSemi => met.min(right_rows),
            JoinType::Full
            | JoinType::LeftAnti
            | JoinType::RightAnti
            | JoinType::LeftMark
            | JoinType::RightMark => return Ok(StatisticsResult::Delegate),
        };
        let mut base = Arc::unwrap_or_clone(self.others.of(plan)?);
        if let (Some(&before), Some(&bytes)) = (base.num_rows.get_value(), base.total_byte_size.get_value()) {
            let row_bytes = bytes / before.max(1);
            base.total_byte_size = Precision::Inexact(rows.saturating_mul(row_bytes));
        }
        base.num_rows = Precision::Inexact(rows);
        Ok(StatisticsResult::Computed(ExtendedStatistics::new(base)))
    }
}

/// Distinct values of all of these keys together.
fn distinct_keys<'k>(
    keys: impl Iterator<Item = &'k PhysicalExprRef>,
    statistics: &Statistics,
    rows: usize,
) -> usize {
    let distinct = |key: &PhysicalExprRef| {
        let column = key.downcast_ref::<Column>();
        let known = column.and_then(|column| statistics.column_statistics.get(column.index()));
        let known = known.and_then(|known| known.distinct_count.get_value().copied());
        known.unwrap_or(UNKNOWN_DISTINCT as usize).max(1)
    };
    keys.map(distinct).fold(1, usize::saturating_mul).min(rows)
}
