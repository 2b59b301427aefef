// SPDX-License-Identifier: Apache-2.0
//! The same expression twice goes from GROUP BY, but nothing goes from ORDER BY.
//!
//! DataFusion drops a sort's key if it thinks that those before decide it, and takes the key of a table for one of whatever
//! is made of its rows: of groups above a join, and of rows beside the elements of their arrays. `ORDER BY id, element`
//! would lose `element`.
//!
//! And it makes each aggregate and its schema anew, in each pass of the optimizer, whether or not something is there twice. Most have
//! nothing twice, and are left as they are.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashSet;

/// DataFusion's rule that drops what is there twice, for groups alone.
#[derive(Debug, Default)]
pub(crate) struct DuplicateGroups(EliminateDuplicatedExpr);

impl OptimizerRule for DuplicateGroups {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let has_any = match &plan {
            LogicalPlan::Aggregate(aggregate) => has_duplicate(&aggregate.group_expr),
            _ => false,
        };
        if has_any { self.0.rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
    }
}

/// Whether one of these is there twice.
fn has_duplicate(groups: &[Expr]) -> bool {
    let mut seen = HashSet::with_capacity(groups.len());
    !groups.iter().all(|group| seen.insert(group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions_aggregate::expr_fn::max;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};
    use datafusion::optimizer::OptimizerContext;
    use std::sync::Arc;

    #[test]
    fn a_duplicate_is_found() {
        assert!(has_duplicate(&[col("a"), col("b"), col("a")]));
        assert!(!has_duplicate(&[col("a"), col("b"), col("t.a")]));
    }

    #[test]
    fn groups_that_are_there_once_keep_their_schema() {
        let rows = LogicalPlanBuilder::values(vec![vec![lit(1_i64), lit(2_i64)]]).unwrap();
        let groups = rows.aggregate([col("column1")], [max(col("column2"))]).unwrap().build().unwrap();
        let schema = Arc::clone(groups.schema());
        let done = DuplicateGroups::default().rewrite(groups, &OptimizerContext::new()).unwrap();
        assert!(!done.transformed);
        assert!(Arc::ptr_eq(done.data.schema(), &schema));
    }
}
