// SPDX-License-Identifier: Apache-2.0
//! DataFusion's rule for comparisons with all or any rows of a subquery, for plans that have some.
//!
//! It makes one schema of the inputs of each node and goes through all expressions before it finds that there is nothing to do, in each
//! pass of the optimizer. Of joins such a schema is a look at each column, and most plans have no such comparison.

use super::rewriting::has_concern_anywhere;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct SetComparisons(RewriteSetComparison);

impl OptimizerRule for SetComparisons {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let has_any = has_concern_anywhere(&plan, is_comparison)?;
        if has_any { self.0.rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
    }
}

const fn is_comparison(part: &Expr) -> bool {
    matches!(part, Expr::SetComparison(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::Spans;
    use datafusion::logical_expr::expr::{SetComparison, SetQuantifier};
    use datafusion::logical_expr::{LogicalPlanBuilder, Operator, Subquery, col, in_subquery, lit};
    use datafusion::optimizer::OptimizerContext;
    use std::sync::Arc;

    fn rows() -> LogicalPlanBuilder {
        LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap()
    }

    fn rewritten(plan: LogicalPlan) -> Transformed<LogicalPlan> {
        SetComparisons::default().rewrite(plan, &OptimizerContext::new()).unwrap()
    }

    #[test]
    fn comparisons_are_rewritten_wherever_they_stand() {
        let asked = Arc::new(rows().build().unwrap());
        let subquery = Subquery { subquery: asked, outer_ref_columns: Vec::new(), spans: Spans::new() };
        let column = Box::new(col("column1"));
        let comparison = SetComparison::new(column, subquery, Operator::Lt, SetQuantifier::All);
        let compared = rows().filter(Expr::SetComparison(comparison)).unwrap().build().unwrap();
        let within = rows().filter(in_subquery(col("column1"), Arc::new(compared.clone()))).unwrap();
        for plan in [compared, within.build().unwrap()] {
            let done = rewritten(plan);
            assert!(done.transformed);
            assert!(!has_concern_anywhere(&done.data, is_comparison).unwrap());
        }
    }

    #[test]
    fn a_plan_without_any_is_left_as_it_is() {
        let within = in_subquery(col("column1"), Arc::new(rows().build().unwrap()));
        let plan = rows().filter(within).unwrap().build().unwrap();
        let done = rewritten(plan.clone());
        assert!(!done.transformed);
        assert_eq!(done.data, plan);
    }
}
