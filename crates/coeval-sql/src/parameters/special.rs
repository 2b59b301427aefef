// SPDX-License-Identifier: Apache-2.0
//! Parameters of types that no value has by itself: arrays, which are handed over as texts, and object ids.

use super::in_plan::index_in_plan;
use crate::guarded::is_comparison;
use crate::types::{ParameterType, column_type_of_arrow};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan};

/// For each parameter its type, if the plan reads it as an array or compares it with object ids. Whether an expression over the
/// outputs of a plan is an object id is asked.
pub(crate) fn special_types(
    plan: &LogicalPlan,
    count: usize,
    is_object_id: impl Fn(&Expr, &LogicalPlan) -> bool,
) -> Vec<Option<ParameterType>> {
    let mut found = vec![None; count];
    let mut note = |index: usize, ty| {
        if let Some(known) = found.get_mut(index) {
            *known = Some(ty);
        }
    };
    // The walk itself never fails.
    let _ = plan.apply_with_subqueries(|node| {
        let mut schema = DFSchema::empty();
        for input in node.inputs() {
            schema.merge(input.schema());
        }
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Some((index, ty)) = list_type(part, &schema) {
                    note(index, ty);
                }
                for (index, other) in compared_parameters(part) {
                    if node.inputs().into_iter().any(|input| is_object_id(other, input)) {
                        note(index, ParameterType::ObjectId);
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    found
}

/// Whether the arguments of a cast to an array name object ids as its elements.
pub(crate) fn are_object_ids(arguments: &[Expr]) -> bool {
    let named = |scalar: &ScalarValue| scalar.try_as_str().flatten() == Some("oid");
    matches!(arguments, [_, Expr::Literal(scalar, _)] if named(scalar))
}

/// The parameter that a function reads as an array, with its type.
fn list_type(expression: &Expr, schema: &DFSchema) -> Option<(usize, ParameterType)> {
    let Expr::ScalarFunction(function) = expression else { return None };
    if !matches!(function.name(), "coeval_array" | "coeval_array_like") {
        return None;
    }
    let index = index_below_casts(function.args.first()?)?;
    if are_object_ids(&function.args) {
        return Some((index, ParameterType::ObjectIds));
    }
    let DataType::List(element) = expression.get_type(schema).ok()? else { return None };
    Some((index, ParameterType::List(column_type_of_arrow(element.data_type())?)))
}

/// The parameters that an expression compares, each with what it is compared with.
fn compared_parameters(expression: &Expr) -> Vec<(usize, &Expr)> {
    let pairs: Vec<(&Expr, &Expr)> = match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            vec![(left.as_ref(), right.as_ref())]
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            vec![(expr.as_ref(), low.as_ref()), (expr.as_ref(), high.as_ref())]
        }
        Expr::InList(InList { expr, list, .. }) => {
            list.iter().map(|member| (expr.as_ref(), member)).collect()
        }
        _ => Vec::new(),
    };
    let parameters = pairs.into_iter().filter_map(|(left, right)| {
        match (index_below_casts(left), index_below_casts(right)) {
            (Some(index), None) => Some((index, right)),
            (None, Some(index)) => Some((index, left)),
            _ => None,
        }
    });
    parameters.collect()
}

/// The index of the parameter that an expression is, cast or not.
fn index_below_casts(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Cast(cast) => index_below_casts(&cast.expr),
        Expr::Alias(alias) => index_below_casts(&alias.expr),
        other => index_in_plan(other),
    }
}
