// SPDX-License-Identifier: Apache-2.0
//! Keys of joins that stand in filters: DataFusion's `EliminateCrossJoin`, where it may find some.
//!
//! The rule takes each cluster of joins apart and makes a chain of it, again at each join of the chain, whether or not there is a
//! key to be found: for twenty tables that costs more than to order them. A cluster that is ordered finds keys by itself, except
//! those that all branches of an OR have: `(a.x = b.y AND a.z = 1) OR (a.x = b.y AND a.z = 2)`.

use crate::stack::with_room;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, JoinType, LogicalPlan, Operator};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// A cluster with the keys that all branches of an OR have.
pub(super) fn out_of_branches(
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let has_any = match &plan {
        LogicalPlan::Filter(filter) => has_key_in_branches(&filter.predicate),
        _ => false,
    };
    if has_any { EliminateCrossJoin::new().rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
}

/// A cluster that is not ordered, with all keys that its filter has, and with as few cross joins as its keys allow.
pub(super) fn out_of_filters(
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let may_have_any = match &plan {
        LogicalPlan::Filter(filter) => {
            !keys_of(&filter.predicate).is_empty() || has_cross_join_of_joins(&filter.input)
        }
        plan => has_cross_join_of_joins(plan),
    };
    if may_have_any { EliminateCrossJoin::new().rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
}

/// Whether another order of the same joins may need fewer cross joins.
fn has_cross_join_of_joins(plan: &LogicalPlan) -> bool {
    let Some(join) = inner_join(plan) else { return false };
    let sides = [join.left.as_ref(), join.right.as_ref()];
    (join.on.is_empty() && sides.into_iter().any(|side| inner_join(side).is_some()))
        || sides.into_iter().any(|side| with_room(|| has_cross_join_of_joins(side)))
}

fn inner_join(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => Some(join),
        _ => None,
    }
}

/// Whether a condition has an OR all of whose branches have a key in common.
fn has_key_in_branches(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            with_room(|| has_key_in_branches(left) || has_key_in_branches(right))
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => !keys_of(condition).is_empty(),
        _ => false,
    }
}

/// Two expressions with columns that a condition equates.
type Key<'e> = (&'e Expr, &'e Expr);

/// The keys of a condition.
fn keys_of(condition: &Expr) -> Vec<Key<'_>> {
    let mut keys = Vec::new();
    add_keys(condition, &mut keys);
    keys
}

fn add_keys<'e>(condition: &'e Expr, keys: &mut Vec<Key<'e>>) {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return };
    match op {
        Operator::Eq if left.any_column_refs() && right.any_column_refs() => {
            keys.push((left.as_ref(), right.as_ref()));
        }
        Operator::And => with_room(|| {
            add_keys(left, keys);
            add_keys(right, keys);
        }),
        Operator::Or => with_room(|| {
            let of_left = keys_of(left);
            // Most branches have none.
            let of_right = if of_left.is_empty() { Vec::new() } else { keys_of(right) };
            let is_common = |key: &Key<'e>| of_right.contains(key) || of_right.contains(&(key.1, key.0));
            keys.extend(of_left.into_iter().filter(is_common));
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn a_key_is_common_to_all_branches_or_none() {
        let key = || col("a.x").eq(col("b.y"));
        let (one, two) = (col("a.z").eq(lit(1)), col("a.z").eq(lit(2)));
        let turned = col("b.y").eq(col("a.x"));
        assert!(has_key_in_branches(&key().and(one.clone()).or(turned.and(two.clone()))));
        assert!(has_key_in_branches(&one.clone().and(key().or(key().and(two.clone())))));
        assert!(!has_key_in_branches(&key().and(one.clone().or(two.clone()))));
        assert!(!has_key_in_branches(&key().and(one).or(two)));
    }

    #[test]
    fn what_equates_a_column_with_a_constant_is_no_key() {
        assert!(keys_of(&col("a.x").eq(lit(1))).is_empty());
        assert_eq!(keys_of(&col("a.x").eq(col("b.y")).and(col("a.x").eq(lit(1)))).len(), 1);
    }
}
