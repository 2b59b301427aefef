// SPDX-License-Identifier: Apache-2.0
//! Puts the operator that groups by codes into plans, and has rows come to it in no order.

use crate::carried::Carry;
use coeval_operators::coded_groups::with_coded_groups;
use coeval_operators::unordered::with_unordered_groups;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The statement does without the rule: `coeval.coded_groups` is off.
#[derive(Clone, Debug)]
pub(super) struct WithoutCodedGroups;

impl Carry for WithoutCodedGroups {
    const NAME: &'static str = "coeval_without_coded_groups";
}

/// The rule. Behind those that divide aggregates into steps, and the one that begins them at bricks.
#[derive(Debug)]
pub(crate) struct CodedGroups;

impl PhysicalOptimizerRule for CodedGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if WithoutCodedGroups::carried_by(options).is_some() {
            return Ok(plan);
        }
        with_coded_groups(plan)
    }

    fn name(&self) -> &'static str {
        "coeval_coded_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rule that comes first of all: rows that are in the order of some of the columns they are grouped by are grouped as if they were not.
#[derive(Debug)]
pub(crate) struct UnorderedGroups;

impl PhysicalOptimizerRule for UnorderedGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if WithoutCodedGroups::carried_by(options).is_some() {
            return Ok(plan);
        }
        with_unordered_groups(plan)
    }

    fn name(&self) -> &'static str {
        "coeval_unordered_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
