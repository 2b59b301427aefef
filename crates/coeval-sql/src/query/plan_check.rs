// SPDX-License-Identifier: Apache-2.0
//! The last look at a physical plan: each operator gets rows in the order, and divided in the way, that it needs.
//!
//! That is DataFusion's check, with one more answer. To see whether rows are in the order of a key, DataFusion asks each part of the key how its
//! values depend on those of its own parts, and where a part cannot tell, the whole key counts as one that rows have no order by:
//! `sqrt(n)`, as `n` may be negative; `abs(n - 1)`, `length(t) > 3`, as it is not known between which bounds the values of a function
//! are. Then rows that were sorted by the key a moment ago were refused. Here a key is in order, too, if it is the one that rows are
//! sorted by next.

use crate::stack::with_room;
use datafusion::config::{ConfigOptions, OptimizerOptions};
use datafusion::error::Result;
use datafusion::physical_expr::{ConstExpr, LexRequirement};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::{SanityCheckPlan, check_finiteness_requirements};
use datafusion::physical_plan::execution_plan::InvariantLevel;
use datafusion::physical_plan::{ChildSatisfactionOptions, ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct PlanCheck(SanityCheckPlan);

impl PlanCheck {
    /// In the place of a rule of DataFusion's; `None` if that is another one.
    pub(crate) fn instead_of(rule: &dyn PhysicalOptimizerRule) -> Option<Self> {
        let known = SanityCheckPlan::new();
        (known.name() == rule.name()).then_some(Self(known))
    }
}

impl PhysicalOptimizerRule for PlanCheck {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Err(refusal) = self.0.optimize(Arc::clone(&plan), options) else { return Ok(plan) };
        if is_sound(&plan, &options.optimizer)? { Ok(plan) } else { Err(refusal) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// What DataFusion's check asks of a plan and of all below it, with our answer to whether rows are in order.
fn is_sound(plan: &Arc<dyn ExecutionPlan>, options: &OptimizerOptions) -> Result<bool> {
    for input in plan.children() {
        if !with_room(|| is_sound(input, options))? {
            return Ok(false);
        }
    }
    check_finiteness_requirements(plan.as_ref(), options)?;
    let distributions = plan.input_distribution_requirements();
    for ((place, input), order) in plan.children().into_iter().enumerate().zip(plan.required_input_ordering())
    {
        if let Some(order) = order
            && !has_order(input, order.into_single())?
        {
            return Ok(false);
        }
        let subsets = ChildSatisfactionOptions::new().with_allow_subset(true);
        if !distributions.child_satisfaction(place, input.as_ref(), subsets)?.is_satisfied() {
            return Ok(false);
        }
    }
    plan.check_invariants(InvariantLevel::Executable)?;
    Ok(true)
}

/// Whether rows are in this order. Where keys before are equal, these count as constants.
fn has_order(rows: &Arc<dyn ExecutionPlan>, wanted: LexRequirement) -> Result<bool> {
    let mut known = rows.equivalence_properties().clone();
    for key in wanted {
        let is_next = known.oeq_class().iter().any(|order| {
            let next = order.iter().find(|sorted| known.is_expr_constant(&sorted.expr).is_none());
            next.is_some_and(|next| {
                next.expr.eq(&key.expr) && key.options.is_none_or(|options| options == next.options)
            })
        });
        if !is_next && !known.ordering_satisfy_requirement([key.clone()])? {
            return Ok(false);
        }
        known.add_constants([ConstExpr::from(key.expr)])?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, case, lit};
    use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::sorts::sort::SortExec;
    use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

    #[test]
    fn what_is_sorted_by_a_key_that_cannot_tell_its_order_is_in_order() {
        let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::Int32, true)]));
        let number: Arc<dyn PhysicalExpr> = Arc::new(Column::new("number", 0));
        let is_zero: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(Arc::clone(&number), Operator::Eq, lit(0_i32)));
        let chosen = case(None, vec![(is_zero, lit(1_i32))], Some(lit(2_i32))).unwrap();
        let computed: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(chosen, Operator::Gt, lit(1_i32)));
        let by = |keys: [&Arc<dyn PhysicalExpr>; 2]| -> LexOrdering {
            keys.map(|key| PhysicalSortExpr::new_default(Arc::clone(key))).into()
        };
        let rows: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema).with_partitions(2));
        let sorted = |keys| -> Arc<dyn ExecutionPlan> {
            Arc::new(SortExec::new(by(keys), Arc::clone(&rows)).with_preserve_partitioning(true))
        };
        let merged = |rows| -> Arc<dyn ExecutionPlan> {
            Arc::new(SortPreservingMergeExec::new(by([&computed, &number]), rows))
        };
        let (theirs, options) = (SanityCheckPlan::new(), ConfigOptions::default());
        let ours = PlanCheck::instead_of(&theirs).unwrap();
        let in_order = merged(sorted([&computed, &number]));
        assert!(theirs.optimize(Arc::clone(&in_order), &options).is_err(), "then ours is for nothing");
        assert!(ours.optimize(in_order, &options).is_ok());
        for others in [sorted([&number, &computed]), Arc::clone(&rows)] {
            assert!(ours.optimize(merged(others), &options).is_err());
        }
    }
}
