// SPDX-License-Identifier: Apache-2.0
//! DataFusion's rule that moves reads of fields of structs towards scans, for plans that have some.
//!
//! It copies all expressions of a plan, twice, before it finds that there is nothing to move, in each pass of the optimizer. Structs
//! are what enums and rows of a subquery are kept as; most plans have none.

use super::rewriting::has_concern_anywhere;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, ExpressionPlacement, LogicalPlan};
use datafusion::optimizer::extract_leaf_expressions::ExtractLeafExpressions;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct FieldReads(ExtractLeafExpressions);

impl OptimizerRule for FieldReads {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let has_any = has_concern_anywhere(&plan, is_moved)?;
        if has_any { self.0.rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
    }
}

/// Whether DataFusion would have a call computed further down. It asks the function; no other expression is moved.
fn is_moved(part: &Expr) -> bool {
    matches!(part, Expr::ScalarFunction(_)) && part.placement() == ExpressionPlacement::MoveTowardsLeafNodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions::core::expr_fn::get_field;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    #[test]
    fn reads_of_fields_are_found_wherever_they_stand() {
        let rows = || LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap();
        let plain = rows().filter((col("column1") + lit(1_i64)).gt(lit(1_i64))).unwrap().build().unwrap();
        assert!(!has_concern_anywhere(&plain, is_moved).unwrap());
        assert!(is_moved(&get_field(col("a"), "b")));
        assert!(!is_moved(&get_field(col("a"), "b").is_null()));
    }
}
