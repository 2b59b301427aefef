// SPDX-License-Identifier: Apache-2.0
//! Rules for physical plans that are one function each, and the settings that switch some of them off.

use crate::carried::Carry;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The function: of a plan and the options of its statement it makes a plan that gives the same rows.
type Rewriting = fn(Arc<dyn ExecutionPlan>, &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>>;

/// A rule that does what one function does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanRule {
    name: &'static str,
    /// The setting that switches it off, if there is one.
    setting: Option<&'static str>,
    rewriting: Rewriting,
}

impl PlanRule {
    /// A rule for all statements.
    pub(crate) const fn new(name: &'static str, rewriting: Rewriting) -> Self {
        Self { name, setting: None, rewriting }
    }

    /// The same for statements of sessions in which this setting is on.
    pub(crate) const fn switched_by(self, setting: &'static str) -> Self {
        Self { setting: Some(setting), ..self }
    }
}

impl PhysicalOptimizerRule for PlanRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let off = SwitchedOff::carried_by(options);
        if off.zip(self.setting).is_some_and(|(off, setting)| off.0.contains(&setting)) {
            return Ok(plan);
        }
        (self.rewriting)(plan, options)
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The settings whose rules a statement does without.
#[derive(Clone, Debug)]
pub(crate) struct SwitchedOff(pub(crate) Vec<&'static str>);

impl Carry for SwitchedOff {
    const NAME: &'static str = "coeval_switched_off";
}
