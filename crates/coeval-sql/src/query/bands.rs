// SPDX-License-Identifier: Apache-2.0
//! Joins of numbers that are close to each other, by hash.
//!
//! `ON t.a BETWEEN g.k AND g.k + 9` has no equation, so all pairs of rows would be looked at. But numbers that are less than ten apart
//! are in the same interval of ten numbers, or in neighbouring ones. So one side has the number of its interval, the other one each of
//! its rows twice, with the number of the interval in which the band begins and with the next one:
//!
//! ```text
//! t JOIN g ON t.a >= g.k AND t.a <= g.k + 9
//!   -> (t, floor(a / 10) AS i) JOIN (g x {0, 1}, floor(k / 10) + step AS i) ON i = i AND t.a >= g.k AND t.a <= g.k + 9
//! ```
//! A row of `t` is in one interval, so it meets a row of `g` once at most; the conditions themselves stay. The numbers are of 32 bits at
//! most and are computed in 64, where all of them fit.
//!
//! Only inner joins: of an outer one a row that is doubled could be filled up though it has a partner.

use super::checked_operators;
use super::join_order::Relation;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    binary_expr, cast, lit,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Fewer pairs are looked at as they are.
const PAIRS_MIN: f64 = 1_000_000.0;

/// What is added to a column at most: more makes no band of numbers of 32 bits.
const OFFSET_MAX: i64 = 1 << 33;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BandJoins;

impl OptimizerRule for BandJoins {
    fn name(&self) -> &'static str {
        "coeval_band_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
        match by_intervals(join, config)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// `left` is between `right + least` and `right + greatest`.
struct Band {
    left: Column,
    right: Column,
    least: i64,
    greatest: i64,
}

impl Band {
    /// The band that the conditions of a join leave.
    fn of(filter: &Expr, join: &Join) -> Result<Option<Self>> {
        let bounds: Vec<Bound> = split_conjunction(filter)
            .into_iter()
            .filter_map(|condition| Bound::of(condition, join))
            .collect();
        for Bound { left, right, .. } in &bounds {
            let (mut least, mut greatest): (Option<i64>, Option<i64>) = (None, None);
            for bound in bounds.iter().filter(|bound| bound.left == *left && bound.right == *right) {
                if bound.is_lower {
                    least = least.max(Some(bound.offset));
                } else {
                    greatest = Some(greatest.map_or(bound.offset, |known| known.min(bound.offset)));
                }
            }
            let (Some(least), Some(greatest)) = (least, greatest) else { continue };
            let is_small = |column: &Column, side: &LogicalPlan| -> Result<bool> {
                let ty = Expr::Column(column.clone()).get_type(side.schema())?;
                Ok(matches!(ty, DataType::Int16 | DataType::Int32))
            };
            if least <= greatest && is_small(left, &join.left)? && is_small(right, &join.right)? {
                return Ok(Some(Self { left: left.clone(), right: right.clone(), least, greatest }));
            }
        }
        Ok(None)
    }

    /// How many numbers it has.
    fn width(&self) -> i64 {
        self.greatest - self.least + 1
    }
}

/// `left >= right + offset`, or `left <= right + offset`; what excludes the bound itself counts as if it did not.
struct Bound {
    left: Column,
    right: Column,
    offset: i64,
    is_lower: bool,
}

impl Bound {
    fn of(condition: &Expr, join: &Join) -> Option<Self> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
        let is_lower = match op {
            Operator::Gt | Operator::GtEq => true,
            Operator::Lt | Operator::LtEq => false,
            _ => return None,
        };
        let ((first, before), (second, behind)) = (shifted(left)?, shifted(right)?);
        let offset =
            behind.checked_sub(before).filter(|offset| (-OFFSET_MAX..=OFFSET_MAX).contains(offset))?;
        let (of_left, of_right) = (join.left.schema(), join.right.schema());
        if of_left.has_column(first) && of_right.has_column(second) {
            return Some(Self { left: first.clone(), right: second.clone(), offset, is_lower });
        }
        if of_right.has_column(first) && of_left.has_column(second) {
            let (left, right) = (second.clone(), first.clone());
            return Some(Self { left, right, offset: -offset, is_lower: !is_lower });
        }
        None
    }
}

/// The column that an expression is, and what is added to it.
fn shifted(expression: &Expr) -> Option<(&Column, i64)> {
    if let Expr::Column(column) = expression {
        return Some((column, 0));
    }
    let Expr::ScalarFunction(call) = expression else { return None };
    match (checked_operators(&call.func)?, call.args.as_slice()) {
        ([Operator::Plus], [Expr::Column(column), other] | [other, Expr::Column(column)]) => {
            Some((column, integer(other)?))
        }
        ([Operator::Minus], [Expr::Column(column), other]) => Some((column, integer(other)?.checked_neg()?)),
        _ => None,
    }
}

fn integer(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::Literal(ScalarValue::Int16(value), _) => value.map(i64::from),
        Expr::Literal(ScalarValue::Int32(value), _) => value.map(i64::from),
        Expr::Literal(ScalarValue::Int64(value), _) => *value,
        _ => None,
    }
}

fn by_intervals(join: &Join, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let filter = join.filter.as_ref().filter(|_| join.join_type == JoinType::Inner && join.on.is_empty());
    let Some(filter) = filter else { return Ok(None) };
    let Some(band) = Band::of(filter, join)? else { return Ok(None) };
    let rows = |side: &LogicalPlan| Relation::of(side, &[], config).rows;
    let (left_rows, right_rows) = (rows(&join.left), rows(&join.right));
    if left_rows * right_rows < PAIRS_MIN {
        return Ok(None);
    }
    let name = || config.alias_generator().next("coeval_interval");
    let (left_name, right_name, step) = (name(), name(), name());
    let left = Numbered { side: &join.left, column: &band.left, width: band.width(), name: &left_name };
    let right = Numbered { side: &join.right, column: &band.right, width: band.width(), name: &right_name };
    // The right column is between the left one less the greatest offset, and the left one less the least.
    let (left, right) = if right_rows <= left_rows {
        (left.once()?, right.twice(band.least, &step)?)
    } else {
        (left.twice(-band.greatest, &step)?, right.once()?)
    };
    let on = vec![(named(&left_name), named(&right_name))];
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        Some(filter.clone()),
        JoinType::Inner,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let outputs = join.schema.columns().into_iter().map(Expr::Column).collect();
    Ok(Some(LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(LogicalPlan::Join(joined)))?)))
}

fn named(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}

/// A side whose rows are to have the number of an interval, under this name.
struct Numbered<'s> {
    side: &'s Arc<LogicalPlan>,
    column: &'s Column,
    width: i64,
    name: &'s str,
}

impl Numbered<'_> {
    /// With that of the column.
    fn once(&self) -> Result<LogicalPlan> {
        self.over(Arc::clone(self.side), self.interval(0))
    }

    /// With that of the column and an offset, and with the next one; `step` names which of the two it is.
    fn twice(&self, offset: i64, step: &str) -> Result<LogicalPlan> {
        let steps = LogicalPlanBuilder::values(vec![vec![lit(0_i64)], vec![lit(1_i64)]])?.build()?;
        let number = steps.schema().columns().into_iter().map(|column| Expr::Column(column).alias(step));
        let steps = Projection::try_new(number.collect(), Arc::new(steps))?;
        let both = LogicalPlanBuilder::new_from_arc(Arc::clone(self.side))
            .cross_join(LogicalPlan::Projection(steps))?
            .build()?;
        self.over(Arc::new(both), binary_expr(self.interval(offset), Operator::Plus, named(step)))
    }

    fn over(&self, plan: Arc<LogicalPlan>, interval: Expr) -> Result<LogicalPlan> {
        let columns = self.side.schema().columns().into_iter().map(Expr::Column);
        let outputs = columns.chain([interval.alias(self.name)]).collect();
        Projection::try_new(outputs, plan).map(LogicalPlan::Projection)
    }

    /// The number of the interval, which is one less below zero, where division rounds up.
    fn interval(&self, offset: i64) -> Expr {
        let number = cast(Expr::Column(self.column.clone()), DataType::Int64);
        let number = if offset == 0 { number } else { binary_expr(number, Operator::Plus, lit(offset)) };
        let whole = binary_expr(number.clone(), Operator::Divide, lit(self.width));
        let rest = binary_expr(number, Operator::Modulo, lit(self.width));
        binary_expr(whole, Operator::Minus, cast(rest.lt(lit(0_i64)), DataType::Int64))
    }
}

#[cfg(test)]
mod tests;
