// SPDX-License-Identifier: Apache-2.0
//! DataFusion's rule that moves reads of fields of structs towards scans, for plans that have some.
//!
//! It copies all expressions of a plan, twice, before it finds that there is nothing to move, in each pass of the optimizer. Structs
//! are what enums and rows of a subquery are kept as; most plans have none.
//!
//! Where a subquery has a name and columns of two tables that are called alike, it moves a read between them and cannot tell the columns
//! apart any more. Then nothing is moved.

use super::rewriting::has_concern;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
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
        if !has_any(&plan)? {
            return Ok(Transformed::no(plan));
        }
        match self.0.rewrite(plan.clone(), config) {
            Err(DataFusionError::SchemaError(..)) => Ok(Transformed::no(plan)),
            moved => moved,
        }
    }
}

/// Whether a plan reads a field anywhere.
fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = has_concern(node, is_moved)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
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
        assert!(!has_any(&plain).unwrap());
        assert!(is_moved(&get_field(col("a"), "b")));
        assert!(!is_moved(&get_field(col("a"), "b").is_null()));
    }
}
