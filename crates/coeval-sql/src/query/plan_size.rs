// SPDX-License-Identifier: Apache-2.0
//! About what a logical plan takes in memory.
//!
//! It has little to do with the length of its text: a short one may name a view whose body has thousands of outputs.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What a column of a node's schema takes: the field, its name and marks, what qualifies it, its place in an index of names.
const FIELD_BYTES: usize = 256;

/// What an expression takes beside itself: the texts of names, the place in a list, a count of references.
const BESIDE_EXPRESSION_BYTES: usize = 64;

/// What the plan takes, subqueries included. Schemas that nodes share count for each of them. Costs a look at each expression.
pub(super) fn plan_bytes(plan: &LogicalPlan) -> usize {
    let mut bytes = 0_usize;
    // The walk itself never fails.
    let _ = plan.apply_with_subqueries(|node| {
        bytes += size_of::<LogicalPlan>() + node.schema().fields().len() * FIELD_BYTES;
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                let of_constant = match part {
                    Expr::Literal(constant, _) => constant.size(),
                    _ => 0,
                };
                bytes = bytes.saturating_add(size_of::<Expr>() + BESIDE_EXPRESSION_BYTES + of_constant);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    bytes
}
