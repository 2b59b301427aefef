// SPDX-License-Identifier: Apache-2.0
//! Which side of a join is built: DataFusion's rule, with estimates that are made once.
//!
//! The rule goes from the leaves up and asks at each join up to four times what its sides give. Each time all below is estimated
//! anew, and for some operators once more what is below them, by their own means: that grows with the cube of a plan's depth. So each
//! run of the rule has estimates of its own, which keep what they have found ([`kept`]). A plan without joins is not looked through.

mod kept;

use super::join_rows::JoinRows;
use crate::plan_rule::has_node;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_optimizer::{ConfigOnlyContext, PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::operator_statistics::StatisticsRegistry;
use kept::KeptEstimates;
pub(super) use kept::KeptStatistics;
use std::sync::Arc;

/// DataFusion's rule with such estimates.
#[derive(Debug)]
pub(crate) struct JoinSides(JoinSelection);

impl JoinSides {
    /// In the place of a rule of DataFusion's; `None` if that is another one.
    pub(crate) fn instead_of(rule: &dyn PhysicalOptimizerRule) -> Option<Self> {
        let known = JoinSelection::new();
        (known.name() == rule.name()).then_some(Self(known))
    }
}

impl PhysicalOptimizerRule for JoinSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.optimize_with_context(plan, &ConfigOnlyContext::new(config))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_node(&plan, has_sides) {
            return Ok(plan);
        }
        // Estimates are kept by the places of operators in memory: those of the plan stay there meanwhile.
        let _before = Arc::clone(&plan);
        let estimating = Estimating { config: context.config_options(), estimates: estimates() };
        self.0.optimize_with_context(plan, &estimating)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether a node is a join whose sides DataFusion's rule chooses.
fn has_sides(node: &dyn ExecutionPlan) -> bool {
    node.is::<CrossJoinExec>() || node.is::<HashJoinExec>() || node.is::<NestedLoopJoinExec>()
}

/// What the rule is run in.
struct Estimating<'c> {
    config: &'c ConfigOptions,
    estimates: StatisticsRegistry,
}

impl PhysicalOptimizerContext for Estimating<'_> {
    fn config_options(&self) -> &ConfigOptions {
        self.config
    }

    fn statistics_registry(&self) -> Option<&StatisticsRegistry> {
        Some(&self.estimates)
    }
}

/// DataFusion's estimates, with ours for hash joins, each made once. They are for one run over one plan.
fn estimates() -> StatisticsRegistry {
    let mut each = StatisticsRegistry::default_with_builtin_providers();
    each.register(Arc::new(JoinRows::default()));
    StatisticsRegistry::with_providers(vec![Arc::new(KeptEstimates::of(each))])
}
