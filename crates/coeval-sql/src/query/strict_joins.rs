// SPDX-License-Identifier: Apache-2.0
//! Outer joins whose rows without a partner are dropped above are inner ones.
//!
//! ```text
//! FROM sales LEFT JOIN returns ON ... JOIN reasons ON reasons.id = returns.reason
//! ```
//! A sale without a return has NULL for its reason, which equals nothing. DataFusion sees that in a condition right above the outer join,
//! and not through the join between them. An inner join may then be put into any order with others, and tells the scans of both its sides
//! what it looks for.
//!
//! From the root of a plan down goes a list of columns of which NULL leaves nothing: those that conditions and keys of joins compare. An outer
//! join that adds rows with NULL for one of them adds nothing.

use crate::stack::with_room;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, Operator};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// See the module. Before the order of joins is looked for.
#[derive(Debug)]
pub(crate) struct StrictJoins;

impl OptimizerRule for StrictJoins {
    fn name(&self) -> &'static str {
        "coeval_strict_joins"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if has_outer_join(&plan)? { stricter(plan, &[]) } else { Ok(Transformed::no(plan)) }
    }
}

fn has_outer_join(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found = matches!(node, LogicalPlan::Join(join) if is_outer(join.join_type));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_outer(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Left | JoinType::Right | JoinType::Full)
}

/// The plan of which rows with NULL in one of these columns are dropped above, with stricter joins.
fn stricter(plan: LogicalPlan, needed: &[Column]) -> Result<Transformed<LogicalPlan>> {
    with_room(|| match plan {
        LogicalPlan::Join(join) => stricter_join(join, needed),
        LogicalPlan::Filter(filter) => {
            let mut needed = needed.to_vec();
            needed.extend(compared(&filter.predicate));
            LogicalPlan::Filter(filter).map_children(|input| stricter(input, &needed))
        }
        LogicalPlan::Projection(projection) => {
            let of_input = |column: &Column| {
                let place = projection.schema.maybe_index_of_column(column)?;
                column_of(&projection.expr[place]).cloned()
            };
            let needed: Vec<Column> = needed.iter().filter_map(of_input).collect();
            LogicalPlan::Projection(projection).map_children(|input| stricter(input, &needed))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let of_input = |column: &Column| {
                let place = alias.schema.maybe_index_of_column(column)?;
                Some(Column::from(alias.input.schema().qualified_field(place)))
            };
            let needed: Vec<Column> = needed.iter().filter_map(of_input).collect();
            LogicalPlan::SubqueryAlias(alias).map_children(|input| stricter(input, &needed))
        }
        other => other.map_children(|input| stricter(input, &[])),
    })
}

fn stricter_join(join: Join, needed: &[Column]) -> Result<Transformed<LogicalPlan>> {
    let (mut of_left, mut of_right) = sides(&join, needed);
    let join_type = match (join.join_type, of_left.is_empty(), of_right.is_empty()) {
        (JoinType::Left, _, false) | (JoinType::Right, false, _) | (JoinType::Full, false, false) => {
            JoinType::Inner
        }
        (JoinType::Full, false, true) => JoinType::Left,
        (JoinType::Full, true, false) => JoinType::Right,
        (as_it_is, _, _) => as_it_is,
    };
    // The side of which each row comes out, with a partner or without, loses none by the join's own condition.
    let loses_left =
        !matches!(join_type, JoinType::Left | JoinType::Full | JoinType::LeftAnti | JoinType::LeftMark);
    let loses_right =
        !matches!(join_type, JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark);
    if loses_left {
        of_left.extend(own_conditions(&join, &join.left, |(left, _)| left));
    }
    // Of what `NOT IN` looks among, a NULL decides.
    if loses_right && !join.null_aware {
        of_right.extend(own_conditions(&join, &join.right, |(_, right)| right));
    }
    let is_stricter = join_type != join.join_type;
    let left = stricter(Arc::unwrap_or_clone(join.left), &of_left)?;
    let right = stricter(Arc::unwrap_or_clone(join.right), &of_right)?;
    let transformed = is_stricter || left.transformed || right.transformed;
    let (left, right) = (Arc::new(left.data), Arc::new(right.data));
    let plan = LogicalPlan::Join(Join { left, right, join_type, ..join });
    Ok(if transformed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

/// Which of the columns of a join come from its left side, and which from its right one.
fn sides(join: &Join, columns: &[Column]) -> (Vec<Column>, Vec<Column>) {
    let width = match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => 0,
        _ => join.left.schema().fields().len(),
    };
    let place = |column: &Column| join.schema.maybe_index_of_column(column);
    let (left, right): (Vec<_>, Vec<_>) = columns
        .iter()
        .filter_map(|column| Some((place(column)?, column.clone())))
        .partition(|(place, _)| *place < width);
    let of_input = |column: &Column, input: &DFSchema| input.has_column(column);
    let left =
        left.into_iter().map(|(_, column)| column).filter(|column| of_input(column, join.left.schema()));
    let right =
        right.into_iter().map(|(_, column)| column).filter(|column| of_input(column, join.right.schema()));
    (left.collect(), right.collect())
}

/// The columns of one side that the condition of a join compares: where one of them is NULL, two rows are no partners.
fn own_conditions(join: &Join, input: &LogicalPlan, key: impl Fn(&(Expr, Expr)) -> &Expr) -> Vec<Column> {
    let mut columns = Vec::new();
    if join.null_equality == NullEquality::NullEqualsNothing {
        columns.extend(join.on.iter().filter_map(|keys| column_of(key(keys))).cloned());
    }
    // Without the name of its table a column of a condition may be one of the other side.
    let is_of_input = |column: &Column| {
        let table = column.relation.as_ref();
        table.is_some_and(|table| input.schema().has_column_with_qualified_name(table, &column.name))
    };
    columns.extend(join.filter.iter().flat_map(compared).filter(is_of_input));
    columns
}

/// Columns with NULL in which a condition does not hold.
fn compared(condition: &Expr) -> Vec<Column> {
    let mut columns = Vec::new();
    for part in split_conjunction(condition) {
        match part {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
                columns.extend([left, right].into_iter().filter_map(|side| column_of(side)).cloned());
            }
            Expr::IsNotNull(value) => columns.extend(column_of(value).cloned()),
            _ => {}
        }
    }
    columns
}

/// Whether an operator compares two values, and tells nothing of NULL.
fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The column that an expression is, under whatever name or of whatever type.
fn column_of(expression: &Expr) -> Option<&Column> {
    match expression {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => column_of(&alias.expr),
        Expr::Cast(cast) => column_of(&cast.expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{LogicalPlanBuilder, binary_expr, col, lit};
    use datafusion::optimizer::OptimizerContext;

    fn table(name: &str) -> LogicalPlanBuilder {
        let rows = LogicalPlanBuilder::values(vec![vec![lit(1_i64), lit(2_i64)]]).unwrap();
        let columns = [col("column1").alias("k"), col("column2").alias("v")];
        rows.project(columns).unwrap().alias(name).unwrap()
    }

    /// The joins of a plan behind the rule, from the root.
    fn joins(plan: LogicalPlanBuilder) -> Vec<JoinType> {
        let plan = StrictJoins.rewrite(plan.build().unwrap(), &OptimizerContext::new()).unwrap().data;
        let mut found = Vec::new();
        plan.apply(|node| {
            if let LogicalPlan::Join(join) = node {
                found.push(join.join_type);
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        found
    }

    fn joined(left: LogicalPlanBuilder, kind: JoinType, right: &str, on: &str) -> LogicalPlanBuilder {
        let right_key = format!("{right}.k");
        left.join(table(right).build().unwrap(), kind, (vec![on], vec![right_key.as_str()]), None).unwrap()
    }

    #[test]
    fn what_a_join_above_compares_makes_a_join_below_inner() {
        use JoinType::{Full, Inner, Left, LeftAnti, LeftSemi, Right};
        let outer = |kind| joined(table("a"), kind, "b", "a.k");
        let above = |below, kind, on| joins(joined(outer(below), kind, "c", on));
        assert_eq!(above(Left, Inner, "b.v"), [Inner, Inner]);
        assert_eq!(above(Left, LeftSemi, "b.v"), [LeftSemi, Inner]);
        assert_eq!(above(Left, Right, "b.v"), [Right, Inner]);
        assert_eq!(above(Left, Left, "b.v"), [Left, Left]);
        assert_eq!(above(Left, LeftAnti, "b.v"), [LeftAnti, Left]);
        assert_eq!(above(Left, Full, "b.v"), [Full, Left]);
        assert_eq!(above(Left, Inner, "a.v"), [Inner, Left]);
        assert_eq!(above(Right, Inner, "a.v"), [Inner, Inner]);
        assert_eq!(above(Full, Inner, "a.v"), [Inner, Left]);
        assert_eq!(above(Full, Inner, "b.v"), [Inner, Right]);
        let both = outer(Full).filter(col("a.v").lt(col("b.v"))).unwrap();
        assert_eq!(joins(both), [Inner]);
    }

    #[test]
    fn conditions_reach_joins_below_names_and_casts_and_not_below_what_gives_rows_for_null() {
        use JoinType::{Inner, Left};
        let outer = || joined(table("a"), Left, "b", "a.k");
        let named = outer().project([col("a.k"), col("b.v").alias("w")]).unwrap().alias("q").unwrap();
        assert_eq!(joins(joined(named, Inner, "c", "q.w")), [Inner, Inner]);
        let known = outer().filter(col("b.v").is_not_null()).unwrap();
        assert_eq!(joins(known), [Inner]);
        let either = outer().filter(col("b.v").gt(lit(1_i64)).or(col("a.v").gt(lit(1_i64)))).unwrap();
        assert_eq!(joins(either), [Left]);
        let same = binary_expr(col("b.v"), Operator::IsNotDistinctFrom, col("a.v"));
        assert_eq!(joins(outer().filter(same).unwrap()), [Left]);
        let counted = outer().aggregate([col("b.v")], Vec::<Expr>::new()).unwrap();
        assert_eq!(joins(counted.filter(col("b.v").gt(lit(1_i64))).unwrap()), [Left]);
    }
}
