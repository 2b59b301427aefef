// SPDX-License-Identifier: Apache-2.0
//! Puts the expressions that compute decimals by 64-bit integers into plans.

use crate::carried::Carry;
use coeval_operators::narrow_decimals::with_narrow_decimals;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The statement does without the rule: `coeval.narrow_decimals` is off.
#[derive(Clone, Debug)]
pub(super) struct WithoutNarrowDecimals;

impl Carry for WithoutNarrowDecimals {
    const NAME: &'static str = "coeval_without_narrow_decimals";
}

/// The rule. Behind those that write parts of a plan down for other nodes or look for operators in its expressions, and before the one
/// that groups by codes, which asks the expressions for integers.
#[derive(Debug)]
pub(crate) struct NarrowDecimals;

impl PhysicalOptimizerRule for NarrowDecimals {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if WithoutNarrowDecimals::carried_by(options).is_some() {
            return Ok(plan);
        }
        with_narrow_decimals(plan)
    }

    fn name(&self) -> &'static str {
        "coeval_narrow_decimals"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
