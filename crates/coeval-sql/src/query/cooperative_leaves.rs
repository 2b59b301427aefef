// SPDX-License-Identifier: Apache-2.0
//! Leaves that give other tasks a turn: what DataFusion's rule does, with less made anew.
//!
//! The rule puts an operator above each leaf that would go on for as long as it has rows. What that says of its rows is what the leaf says,
//! but it does not say so by the same properties. So DataFusion finds out again for each operator up to the root in which order its rows
//! are, which of its columns are equal and how it is divided, and comes to the same. Here operators are told that nothing of this has
//! changed.
//!
//! One property may change: an operator that gathers the rows of a single input is as cooperative as that. Nobody asks it behind this
//! rule, and the rule itself asks it of leaves and of operators that work ahead of who reads them, which this is not.
//!
//! A hash join does not believe it and finds out again for itself; what is above it need not.

use crate::stack::with_room;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_coop::EnsureCooperative;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{EvaluationType, SchedulingType};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

/// The rule.
#[derive(Debug)]
pub(crate) struct CooperativeLeaves(EnsureCooperative);

impl CooperativeLeaves {
    /// In the place of a rule of DataFusion's; `None` if that is another one.
    pub(crate) fn instead_of(rule: &dyn PhysicalOptimizerRule) -> Option<Self> {
        let known = EnsureCooperative::new();
        (known.name() == rule.name()).then_some(Self(known))
    }
}

impl PhysicalOptimizerRule for CooperativeLeaves {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(cooperative(&plan, Above::Selfish)?.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether an operator of the same task above gives others a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    Cooperative,
    Selfish,
}

/// The plan, of which each part gives others a turn; `None` if it does so already.
fn cooperative(plan: &Arc<dyn ExecutionPlan>, above: Above) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let properties = plan.properties();
    let is_cooperative = properties.scheduling_type == SchedulingType::Cooperative;
    let works_ahead = properties.evaluation_type == EvaluationType::Eager;
    // What works ahead is a task of its own.
    let is_below_one = is_cooperative || above == Above::Cooperative && !works_ahead;
    let below = if is_below_one { Above::Cooperative } else { Above::Selfish };
    let mut is_changed = false;
    let inputs = plan.children().into_iter().map(|input| {
        let changed = with_room(|| cooperative(input, below))?;
        is_changed |= changed.is_some();
        Ok(changed.unwrap_or_else(|| Arc::clone(input)))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let goes_on = (inputs.is_empty() || works_ahead) && !is_cooperative && above == Above::Selfish;
    let mut changed = None;
    if is_changed {
        let keeping = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        changed = Some(Arc::clone(plan).replace_children(inputs, keeping)?);
    }
    if goes_on {
        let input = changed.unwrap_or_else(|| Arc::clone(plan));
        changed = Some(Arc::new(CooperativeExec::new(input)));
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use coeval_operators::over_no_input;
    use datafusion::common::internal_err;
    use datafusion::execution::{SendableRecordBatchStream, TaskContext};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
    use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr};
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
    use datafusion::physical_plan::filter::FilterExec;
    use datafusion::physical_plan::joins::CrossJoinExec;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::sorts::sort::SortExec;
    use datafusion::physical_plan::union::UnionExec;
    use datafusion::physical_plan::{
        DisplayAs, DisplayFormatType, Partitioning, PlanProperties, displayable,
    };
    use std::fmt;

    /// A leaf that does not cooperate, as scans of tables.
    #[derive(Debug)]
    struct Leaf(Arc<PlanProperties>);

    impl DisplayAs for Leaf {
        fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.name())
        }
    }

    impl ExecutionPlan for Leaf {
        fn name(&self) -> &'static str {
            "Leaf"
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            &self.0
        }

        over_no_input!();

        fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
            internal_err!("it has no rows")
        }
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]))
    }

    fn leaf(partitions: usize) -> Arc<dyn ExecutionPlan> {
        Arc::new(Leaf(Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ))))
    }

    /// A leaf that does.
    fn empty() -> Arc<dyn ExecutionPlan> {
        Arc::new(EmptyExec::new(schema()))
    }

    fn filtered(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let condition = BinaryExpr::new(Arc::new(Column::new("a", 0)), Operator::Gt, lit(1_i64));
        Arc::new(FilterExec::try_new(Arc::new(condition), input).unwrap())
    }

    fn sorted(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let order = PhysicalSortExpr::new_default(Arc::new(Column::new("a", 0)));
        Arc::new(SortExec::new([order].into(), input))
    }

    fn gathered(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(CoalescePartitionsExec::new(input))
    }

    fn divided(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(RepartitionExec::try_new(input, Partitioning::RoundRobinBatch(2)).unwrap())
    }

    #[test]
    fn plans_are_those_that_datafusion_makes() {
        let joined: Arc<dyn ExecutionPlan> = Arc::new(CrossJoinExec::new(gathered(leaf(2)), leaf(1)));
        let plans = [
            leaf(1),
            sorted(filtered(leaf(1))),
            gathered(filtered(leaf(2))),
            gathered(filtered(leaf(1))),
            sorted(gathered(gathered(leaf(1)))),
            gathered(filtered(divided(filtered(leaf(1))))),
            filtered(joined),
            UnionExec::try_new(vec![filtered(leaf(1)), empty(), leaf(2)]).unwrap(),
        ];
        let (options, theirs) = (ConfigOptions::default(), EnsureCooperative::new());
        let ours = CooperativeLeaves::instead_of(&theirs).unwrap();
        let shown = |plan: Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
        for plan in plans {
            let expected = shown(theirs.optimize(Arc::clone(&plan), &options).unwrap());
            assert_eq!(shown(ours.optimize(plan, &options).unwrap()), expected);
        }
    }

    /// To break it: replace inputs as if their properties had changed.
    #[test]
    fn properties_above_are_not_found_out_again() {
        let plan = sorted(filtered(leaf(1)));
        let rule = CooperativeLeaves::instead_of(&EnsureCooperative::new()).unwrap();
        let cooperative = rule.optimize(Arc::clone(&plan), &ConfigOptions::default()).unwrap();
        assert!(!Arc::ptr_eq(&plan, &cooperative));
        assert!(Arc::ptr_eq(plan.properties(), cooperative.properties()));
    }
}
