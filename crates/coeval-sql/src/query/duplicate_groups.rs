// SPDX-License-Identifier: Apache-2.0
//! The same expression twice goes from GROUP BY, but nothing goes from ORDER BY.
//!
//! DataFusion drops a sort's key if it thinks that those before decide it, and takes the key of a table for one of whatever
//! is made of its rows: of groups above a join, and of rows beside the elements of their arrays. `ORDER BY id, element`
//! would lose `element`.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

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
        match plan {
            LogicalPlan::Aggregate(_) => self.0.rewrite(plan, config),
            plan => Ok(Transformed::no(plan)),
        }
    }
}
