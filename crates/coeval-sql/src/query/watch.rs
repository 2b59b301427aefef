// SPDX-License-Identifier: Apache-2.0
//! Between the rules that make a plan better: whether the statement is to end.
//!
//! A statement with a list of a million values is optimized for seconds, by rules of DataFusion that do not know of
//! requests. So a rule that looks, and changes nothing, stands behind each of them.

use crate::cancel;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The rule that looks.
#[derive(Debug)]
pub(crate) struct Watch;

const NAME: &str = "coeval_watch";

impl OptimizerRule for Watch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        cancel::check()?;
        Ok(Transformed::no(plan))
    }
}

impl PhysicalOptimizerRule for Watch {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        cancel::check()?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        NAME
    }

    /// Not needed: it gives back the plan that it was given.
    fn schema_check(&self) -> bool {
        false
    }
}
