// SPDX-License-Identifier: Apache-2.0
//! What operators without expressions of their own say of their inputs, which is the same for all of them.

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

/// The part of both that no rule needs to look into.
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
