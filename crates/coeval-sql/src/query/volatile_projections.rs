// SPDX-License-Identifier: Apache-2.0
//! Projections pushed down, but none that computes something else each time.
//!
//! DataFusion's rule puts a projection that has fewer columns than its input below a filter or a sort whose columns it hands on. There it
//! sees other rows, or the same in another order:
//!
//! ```text
//! SELECT b, c + d + nextval('s') FROM t WHERE b % 2 = 0
//! SELECT b, c + d + nextval('s') FROM t ORDER BY b
//! ```
//! The first query would draw numbers for rows that the filter drops, the second in the order of the table. So the rule is let loose on
//! those parts of a plan in which no projection is of that kind; the others stay as they are.

use crate::plan_rule::has_node;
use crate::stack::with_room;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// DataFusion's rule where it changes nothing but the cost.
#[derive(Debug)]
pub(crate) struct VolatileProjections(ProjectionPushdown);

impl VolatileProjections {
    /// In the place of a rule of DataFusion's; `None` if that is another one.
    pub(crate) fn instead_of(rule: &dyn PhysicalOptimizerRule) -> Option<Self> {
        let known = ProjectionPushdown::new();
        (known.name() == rule.name()).then_some(Self(known))
    }

    fn pushed(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_node(&plan, is_computed_anew) {
            return self.0.optimize(plan, config);
        }
        let children = plan.children().into_iter().cloned();
        let children =
            children.map(|child| with_room(|| self.pushed(child, config))).collect::<Result<_>>()?;
        replace_children_if_necessary(plan, children)
    }
}

impl PhysicalOptimizerRule for VolatileProjections {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.pushed(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether a node is a projection that computes something else each time.
fn is_computed_anew(node: &dyn ExecutionPlan) -> bool {
    node.downcast_ref::<ProjectionExec>()
        .is_some_and(|projection| projection.expr().iter().any(|output| is_volatile(&output.expr)))
}
