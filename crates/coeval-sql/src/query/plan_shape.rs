// SPDX-License-Identifier: Apache-2.0
//! What a plan does, whatever the constants in it are: its nodes, which tables they read, and how and in which order they join them.
//!
//! Two plans of one query that have the same shape do the same work for the same rows.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, TableReference};
use datafusion::logical_expr::LogicalPlan;
use std::mem::{Discriminant, discriminant};

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape(Vec<Node>);

/// A node of a plan. Each stands before its subqueries and inputs, so that the numbers of these tell what stands below which.
#[derive(Debug, PartialEq, Eq)]
struct Node {
    kind: Discriminant<LogicalPlan>,
    inputs: usize,
    columns: usize,
    work: Work,
}

/// What else decides how much a node has to do.
#[derive(Debug, PartialEq, Eq)]
enum Work {
    Scan { table: TableReference, filters: usize, has_limit: bool },
    Join { kind: JoinType, keys: usize, has_condition: bool },
    Sort { has_limit: bool },
    Other,
}

impl Shape {
    pub(super) fn of(plan: &LogicalPlan) -> Self {
        let mut nodes = Vec::new();
        // The walk itself never fails.
        let _ = plan.apply_with_subqueries(|node| {
            nodes.push(Node::of(node));
            Ok(TreeNodeRecursion::Continue)
        });
        Self(nodes)
    }
}

impl Node {
    fn of(node: &LogicalPlan) -> Self {
        let work = match node {
            LogicalPlan::TableScan(scan) => Work::Scan {
                table: scan.table_name.clone(),
                filters: scan.filters.len(),
                has_limit: scan.fetch.is_some(),
            },
            LogicalPlan::Join(join) => {
                Work::Join { kind: join.join_type, keys: join.on.len(), has_condition: join.filter.is_some() }
            }
            LogicalPlan::Sort(sort) => Work::Sort { has_limit: sort.fetch.is_some() },
            _ => Work::Other,
        };
        let (inputs, columns) = (node.inputs().len(), node.schema().fields().len());
        Self { kind: discriminant(node), inputs, columns, work }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    fn numbers(name: &str) -> LogicalPlanBuilder {
        LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap().alias(name).unwrap()
    }

    fn filtered(constant: i64) -> Shape {
        Shape::of(&numbers("a").filter(col("column1").gt(lit(constant))).unwrap().build().unwrap())
    }

    #[test]
    fn constants_are_no_part_of_it_and_nodes_are() {
        assert_eq!(filtered(1), filtered(2));
        assert_ne!(filtered(1), Shape::of(&numbers("a").build().unwrap()));
    }

    #[test]
    fn a_limit_of_a_sort_and_the_kind_of_a_join_are_parts_of_it() {
        let sorted = |limit| {
            let order = [col("column1").sort(true, false)];
            Shape::of(&numbers("a").sort_with_limit(order, limit).unwrap().build().unwrap())
        };
        assert_ne!(sorted(None), sorted(Some(3)));
        assert_eq!(sorted(Some(2)), sorted(Some(3)));
        let joined = |kind| {
            let other = numbers("b").build().unwrap();
            let keys = (vec!["a.column1"], vec!["b.column1"]);
            Shape::of(&numbers("a").join(other, kind, keys, None).unwrap().build().unwrap())
        };
        assert_ne!(joined(JoinType::Inner), joined(JoinType::Left));
    }
}
