// SPDX-License-Identifier: Apache-2.0
//! Subqueries in the ON of an inner join, which DataFusion does not plan there: they move to WHERE.

use crate::query::has_subquery;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, Select, Value,
};

/// Moves what holds a subquery from the ON of inner joins to WHERE. That is the same unless a join behind fills up rows
/// that the condition was to leave out, as RIGHT and FULL joins do.
pub(super) fn lift_subqueries(select: &mut Select) {
    let mut lifted = Vec::new();
    for joins in select.from.iter_mut().map(|table| &mut table.joins) {
        let filling = joins.iter().rposition(fills_up).map_or(0, |place| place + 1);
        for join in &mut joins[filling..] {
            if let JoinOperator::Join(JoinConstraint::On(condition))
            | JoinOperator::Inner(JoinConstraint::On(condition)) = &mut join.join_operator
            {
                lift(condition, &mut lifted);
            }
        }
    }
    for condition in lifted {
        select.selection = Some(match select.selection.take() {
            Some(selection) => and(selection, condition),
            None => condition,
        });
    }
}

/// Whether a join gives rows of its right side that met none of the left.
fn fills_up(join: &Join) -> bool {
    !matches!(
        join.join_operator,
        JoinOperator::Join(_)
            | JoinOperator::Inner(_)
            | JoinOperator::Left(_)
            | JoinOperator::LeftOuter(_)
            | JoinOperator::CrossJoin(_)
    )
}

fn lift(condition: &mut Expr, lifted: &mut Vec<Expr>) {
    let is_true = || Expr::Value(Value::Boolean(true).into());
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            lift(left, lifted);
            lift(right, lifted);
        }
        Expr::Nested(inner) => lift(inner, lifted),
        part if has_subquery(part) => lifted.push(std::mem::replace(part, is_true())),
        _ => {}
    }
}

fn and(left: Expr, right: Expr) -> Expr {
    let nested = |side| Box::new(Expr::Nested(Box::new(side)));
    Expr::BinaryOp { left: nested(left), op: BinaryOperator::And, right: nested(right) }
}
