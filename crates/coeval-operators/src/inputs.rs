// SPDX-License-Identifier: Apache-2.0
//! What operators of a kind say of their inputs and expressions, which is the same for all of them.

use datafusion::physical_plan::aggregates::AggregateExec;

/// For an [`ExecutionPlan`](datafusion::physical_plan::ExecutionPlan) with one input, which is in this field, and no expressions. The
/// last part makes the operator over another input, of the operator as it is.
#[macro_export]
macro_rules! over_one_input {
    ($field:ident, |$operator:ident, $input:ident| $made:expr) => {
        fn children(&self) -> Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.$field]
        }

        $crate::without_expressions!();

        fn with_new_children(
            self: ::std::sync::Arc<Self>,
            mut children: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
        ) -> ::datafusion::error::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            let $operator = self;
            match children.pop() {
                Some($input) if children.is_empty() => Ok($made),
                _ => ::datafusion::common::internal_err!("{} has one input", $operator.name()),
            }
        }
    };
}

/// For an [`ExecutionPlan`](datafusion::physical_plan::ExecutionPlan) without inputs and expressions.
#[macro_export]
macro_rules! over_no_input {
    () => {
        fn children(&self) -> Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            Vec::new()
        }

        $crate::without_expressions!();

        fn with_new_children(
            self: ::std::sync::Arc<Self>,
            children: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
        ) -> ::datafusion::error::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            if children.is_empty() {
                return Ok(self);
            }
            ::datafusion::common::internal_err!("{} has no input", self.name())
        }
    };
}

/// For an [`ExecutionPlan`](datafusion::physical_plan::ExecutionPlan) in the place of the aggregate in this field. The last part makes a new
/// one, if it can, of the operator as it was and an aggregate with another input.
macro_rules! in_place_of_aggregate {
    ($field:ident, |$operator:ident, $aggregate:ident| $made:expr) => {
        fn properties(&self) -> &Arc<PlanProperties> {
            self.$field.properties()
        }

        fn input_distribution_requirements(&self) -> InputDistributionRequirements {
            self.$field.input_distribution_requirements()
        }

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            self.$field.children()
        }

        fn apply_expressions(
            &self,
            visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
        ) -> Result<TreeNodeRecursion> {
            self.$field.apply_expressions(visit)
        }

        fn with_new_children(
            self: Arc<Self>,
            children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            let aggregate = replace_children_if_necessary(Arc::new(self.$field.clone()), children)?;
            let Some($aggregate) = aggregate.downcast_ref::<AggregateExec>() else {
                return internal_err!("an aggregate with other input is one");
            };
            let $operator = self;
            Ok(match $made? {
                Some(made) => Arc::new(made),
                None => Arc::new($aggregate.clone()),
            })
        }

        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<::datafusion::physical_plan::statistics::ChildStats> {
            self.$field.child_stats_requests(partition)
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[Arc<::datafusion::common::Statistics>],
            args: &::datafusion::physical_plan::statistics::StatisticsArgs,
        ) -> Result<Arc<::datafusion::common::Statistics>> {
            self.$field.statistics_from_inputs(inputs, args)
        }
    };
}

pub(crate) use in_place_of_aggregate;

/// The groups and calls of an aggregate, as EXPLAIN shows them.
pub(crate) fn groups_and_calls(aggregate: &AggregateExec) -> String {
    let keys = aggregate.group_expr().expr().iter().map(|(key, name)| format!("{key} as {name}"));
    let keys: Vec<String> = keys.collect();
    let calls: Vec<&str> = aggregate.aggr_expr().iter().map(|call| call.name()).collect();
    format!("gby=[{}], aggr=[{}]", keys.join(", "), calls.join(", "))
}

/// The part of operators without expressions that no rule needs to look into.
#[doc(hidden)]
#[macro_export]
macro_rules! without_expressions {
    () => {
        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &::std::sync::Arc<dyn ::datafusion::physical_plan::PhysicalExpr>,
            ) -> ::datafusion::error::Result<
                ::datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> ::datafusion::error::Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(::datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}
