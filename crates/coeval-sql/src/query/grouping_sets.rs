// SPDX-License-Identifier: Apache-2.0
//! Puts the operator that makes grouping sets of the finest groups into plans.

use crate::carried::Carry;
use coeval_operators::grouping_sets::with_grouping_sets;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The statement does without the rule: `coeval.grouping_sets` is off.
#[derive(Clone, Debug)]
pub(super) struct WithoutGroupingSets;

impl Carry for WithoutGroupingSets {
    const NAME: &'static str = "coeval_without_grouping_sets";
}

/// The rule. Behind those that divide aggregates into steps, and before those that make the first step quicker, at bricks or by codes.
#[derive(Debug)]
pub(crate) struct GroupingSets;

impl PhysicalOptimizerRule for GroupingSets {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if WithoutGroupingSets::carried_by(options).is_some() {
            return Ok(plan);
        }
        with_grouping_sets(plan)
    }

    fn name(&self) -> &'static str {
        "coeval_grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
