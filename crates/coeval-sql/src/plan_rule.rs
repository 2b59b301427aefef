// SPDX-License-Identifier: Apache-2.0
//! Rules for physical plans that are one function each, the nodes without which they have nothing to do, and the settings that switch some
//! of them off.
//!
//! Most of these rules go from the leaves of a plan up, and look at each node for one of a few kinds. To go through a plan like that, with
//! inputs copied and put together again, costs much more than to see that there is no such node, and most plans have none for most rules.

use crate::carried::Carry;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The function: of a plan and the options of its statement it makes a plan that gives the same rows.
type Rewriting = fn(Arc<dyn ExecutionPlan>, &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>>;

/// Whether a node is of a kind that a rule is about.
type Kind = fn(&dyn ExecutionPlan) -> bool;

/// A rule that does what one function does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanRule {
    name: &'static str,
    /// The nodes without which it changes nothing, if it does not look itself.
    about: Option<Kind>,
    /// The setting that switches it off, if there is one.
    setting: Option<&'static str>,
    rewriting: Rewriting,
}

impl PlanRule {
    /// A rule for all statements.
    pub(crate) const fn new(name: &'static str, rewriting: Rewriting) -> Self {
        Self { name, about: None, setting: None, rewriting }
    }

    /// The same, which changes nothing of a plan without a node of this kind.
    pub(crate) const fn about(self, kind: Kind) -> Self {
        Self { about: Some(kind), ..self }
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
        if self.about.is_some_and(|kind| !has_node(&plan, kind)) {
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

/// Whether a plan has a node of a kind.
pub(crate) fn has_node(plan: &Arc<dyn ExecutionPlan>, is_one: impl Fn(&dyn ExecutionPlan) -> bool) -> bool {
    let mut waiting = vec![plan];
    while let Some(node) = waiting.pop() {
        if is_one(node.as_ref()) {
            return true;
        }
        waiting.extend(node.children());
    }
    false
}

/// The settings whose rules a statement does without.
#[derive(Clone, Debug)]
pub(crate) struct SwitchedOff(pub(crate) Vec<&'static str>);

impl Carry for SwitchedOff {
    const NAME: &'static str = "coeval_switched_off";
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
    use datafusion::common::internal_err;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::coop::CooperativeExec;
    use datafusion::physical_plan::empty::EmptyExec;

    #[test]
    fn a_rule_runs_where_there_is_a_node_that_it_is_about() {
        const FAILING: PlanRule = PlanRule::new("coeval_fails", |_, _| internal_err!("it runs"));
        let options = ConfigOptions::default();
        let leaf: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let above: Arc<dyn ExecutionPlan> = Arc::new(CooperativeExec::new(leaf));
        assert!(FAILING.optimize(Arc::clone(&above), &options).is_err());
        let of_leaves = FAILING.about(|node| node.is::<EmptyExec>());
        assert!(of_leaves.optimize(Arc::clone(&above), &options).is_err());
        let of_others = FAILING.about(|node| node.is::<CoalescePartitionsExec>());
        assert!(Arc::ptr_eq(&of_others.optimize(Arc::clone(&above), &options).unwrap(), &above));
    }
}
