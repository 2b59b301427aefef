// SPDX-License-Identifier: Apache-2.0
//! DataFusion's rule that simplifies expressions, for nodes that compute something.
//!
//! At each node it makes one schema of its inputs, or of all columns of a table, and writes down the names of all expressions before and
//! after, in each pass of the optimizer. A good part of a plan's nodes only pick columns or join by them, and most tables are read without
//! conditions of their own. There is nothing to be simplified in that.

use super::rewriting::has_concern;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct Simplifications(SimplifyExpressions);

impl OptimizerRule for Simplifications {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if has_concern(&plan, may_be_simplified)? {
            self.0.rewrite(plan, config)
        } else {
            Ok(Transformed::no(plan))
        }
    }
}

/// Whether a part of an expression is more than a column, maybe under another name, or a constant. The rule takes the name off a constant,
/// and puts it on again.
fn may_be_simplified(part: &Expr) -> bool {
    match part {
        Expr::Column(_) | Expr::Literal(..) => false,
        Expr::Alias(alias) => !matches!(alias.expr.as_ref(), Expr::Column(_)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::tree_node::TreeNode;
    use datafusion::functions_aggregate::expr_fn::max;
    use datafusion::logical_expr::{JoinType, LogicalPlanBuilder, col, lit, table_scan};
    use datafusion::optimizer::OptimizerContext;

    fn scan(name: &str) -> LogicalPlanBuilder {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        table_scan(Some(name), &Schema::new(vec![field("a"), field("b")]), None).unwrap()
    }

    fn simplified(plan: LogicalPlan, rule: &dyn OptimizerRule) -> Transformed<LogicalPlan> {
        plan.transform_up(|node| rule.rewrite(node, &OptimizerContext::new())).unwrap()
    }

    #[test]
    fn what_is_not_looked_at_is_what_the_rule_leaves_as_it_is() {
        let (other, keys) = (scan("t").build().unwrap(), (vec!["s.a"], vec!["t.b"]));
        let joined = scan("s").join(other, JoinType::Left, keys, None).unwrap();
        let picked = joined.project([col("s.b"), col("t.a").alias("c"), lit(1_i64)]).unwrap();
        let groups = picked.clone().aggregate([col("c")], Vec::<Expr>::new()).unwrap();
        let values = LogicalPlanBuilder::values(vec![vec![lit(1_i64)], vec![lit(2_i64)]]).unwrap();
        let sorted = picked.sort([col("c").sort(true, false)]).unwrap().limit(1, Some(3)).unwrap();
        for plan in [groups, values, sorted] {
            let plan = plan.build().unwrap();
            let by_rule = simplified(plan.clone(), &SimplifyExpressions::new());
            assert!(!by_rule.transformed);
            assert_eq!(by_rule.data, plan);
            assert!(!simplified(plan, &Simplifications::default()).transformed);
        }
    }

    #[test]
    fn all_else_is_simplified() {
        let two = || lit(1_i64) + lit(1_i64);
        let filtered = scan("s").filter(col("a").gt(two())).unwrap();
        let groups = scan("s").aggregate([col("b")], [max(col("a") + two())]).unwrap();
        let named = scan("s").project([two().alias("c")]).unwrap();
        for plan in [filtered, groups, named] {
            let plan = plan.build().unwrap();
            let done = simplified(plan.clone(), &Simplifications::default());
            assert!(done.transformed);
            assert_eq!(done.data, simplified(plan, &SimplifyExpressions::new()).data);
        }
    }
}
