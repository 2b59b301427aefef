// SPDX-License-Identifier: Apache-2.0
//! The optimized plan of a query, kept for its next execution.
//!
//! Most of the time that planning takes goes into the rules for logical plans. What they make is free of any snapshot: tables are found
//! in it when the physical plan is made. So it can be used again, as long as the rules would make the same of it:
//!
//! - definitions and rights are as they were ([`PlannedQuery::is_current`](super::plan::PlannedQuery::is_current));
//! - settings are as they were, since constants are folded by the zone and other settings;
//! - no constant was made of something that changes from one statement to the next, as `now()` does;
//! - tables have about as many rows as they had: the order of joins was chosen by that. A plan for other sizes gives the same rows, later.

use crate::provider::StatementSnapshot;
use coeval_store::{SpaceId, TableDef};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use std::sync::Arc;

/// Below so many rows the order of joins matters little.
const FEW_ROWS: u64 = 10_000;

/// By what factor a table may grow or shrink before the order of joins is chosen anew.
const GROWTH_MAX: u64 = 2;

/// See the module.
pub(super) struct KeptPlan {
    plan: Arc<LogicalPlan>,
    /// Number of the settings that it was made with.
    settings: u64,
    /// How many rows its tables had.
    rows: Vec<(SpaceId, u64)>,
}

impl KeptPlan {
    /// Keeps the plan, which was made in this snapshot of all its tables.
    pub(super) fn new(
        plan: Arc<LogicalPlan>,
        settings: u64,
        tables: &[Arc<TableDef>],
        snapshot: &StatementSnapshot,
    ) -> Self {
        let rows = tables.iter().filter_map(|def| Some((def.id, snapshot.rows(def.id)?))).collect();
        Self { plan, settings, rows }
    }

    /// The plan, if it is what the rules would make with these settings in this snapshot, but for small changes of the tables' sizes.
    pub(super) fn for_snapshot(
        &self,
        settings: u64,
        snapshot: &StatementSnapshot,
    ) -> Option<Arc<LogicalPlan>> {
        let is_like_before = |(table, before): &(SpaceId, u64)| {
            snapshot.rows(*table).is_some_and(|now| are_alike(*before, now))
        };
        let is_usable = self.settings == settings && self.rows.iter().all(is_like_before);
        is_usable.then(|| Arc::clone(&self.plan))
    }
}

/// Whether a plan for so many rows is one for that many.
fn are_alike(before: u64, now: u64) -> bool {
    let (few, many) = (before.min(now), before.max(now));
    many <= FEW_ROWS || many / GROWTH_MAX <= few
}

/// Whether folding constants makes the same of the plan at each time: no function of it is constant within a statement only.
pub(super) fn is_timeless(plan: &LogicalPlan) -> bool {
    let mut is_timeless = true;
    let mut look = |part: &Expr| {
        let volatility = match part {
            Expr::ScalarFunction(function) => function.func.signature().volatility,
            Expr::AggregateFunction(function) => function.func.signature().volatility,
            Expr::WindowFunction(function) => function.fun.signature().volatility,
            _ => Volatility::Immutable,
        };
        is_timeless &= volatility != Volatility::Stable;
        Ok(if is_timeless { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    };
    let looked: Result<TreeNodeRecursion> =
        plan.apply_with_subqueries(|node| node.apply_expressions(|expression| expression.apply(&mut look)));
    looked.is_ok() && is_timeless
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions::datetime::now;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    #[test]
    fn tables_may_grow_a_little() {
        for (before, now, expected) in [
            (0, 0, true),
            (0, FEW_ROWS, true),
            (1, FEW_ROWS + 1, false),
            (1_000_000, 2_000_000, true),
            (1_000_000, 2_100_000, false),
            (2_100_000, 1_000_000, false),
        ] {
            assert_eq!(are_alike(before, now), expected, "{before} and {now}");
        }
    }

    /// To break it: compare no settings. Only what was prepared comes here with other ones: a text is planned anew then.
    #[test]
    fn a_plan_is_for_the_settings_that_it_was_made_with() {
        let plan = LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap().build().unwrap();
        let snapshot = StatementSnapshot::new([]);
        let kept = KeptPlan::new(Arc::new(plan), 7, &[], &snapshot);
        assert!(kept.for_snapshot(7, &snapshot).is_some());
        assert!(kept.for_snapshot(8, &snapshot).is_none());
    }

    #[test]
    fn what_the_clock_says_is_found_wherever_it_stands() {
        let rows = || LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap();
        let time = || now(&datafusion::config::ConfigOptions::default()).call(Vec::new());
        assert!(is_timeless(&rows().project([col("column1") + lit(1_i64)]).unwrap().build().unwrap()));
        assert!(!is_timeless(&rows().project([col("column1"), time()]).unwrap().build().unwrap()));
        let below = rows().project([time().alias("t")]).unwrap().project([lit(1_i64)]).unwrap();
        assert!(!is_timeless(&below.build().unwrap()));
    }
}
