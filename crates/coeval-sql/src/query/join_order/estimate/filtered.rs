// SPDX-License-Identifier: Apache-2.0
//! What the filters of a relation say of one of its columns.
//!
//! How many rows pass does not tell which. Of the days of two centuries, `year = 2001` leaves one in two hundred. Of the days of those five
//! years in which something was sold it leaves one in five, and of the years a single one.

use super::{Relation, scan_of};
use crate::provider::Question;
use crate::stack::with_room;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};
use datafusion::optimizer::OptimizerConfig;

impl Relation {
    /// Of the rows that pass all filters of this relation, which are those within `plan` and these over it, the share in which a column of
    /// whole numbers lies within these bounds, by its sample. `None` if there is no filter, or they cannot be tried.
    pub(in crate::query) fn share_between(
        &self,
        plan: &LogicalPlan,
        filters: &[Expr],
        column: &Column,
        (min, max): (i64, i64),
        config: &dyn OptimizerConfig,
    ) -> Option<f64> {
        let table = self.table.as_ref()?;
        let mut filters = unnormalize_cols(all_filters(plan, filters));
        if filters.is_empty() {
            return None;
        }
        let schema = DFSchema::try_from(scan_of(plan)?.source.schema()).ok()?;
        let ty = schema.field_with_unqualified_name(&column.name).ok()?.data_type();
        let bound = |bound: i64| ScalarValue::Int64(Some(bound)).cast_to(ty).ok().map(lit);
        let share = |filters: &[Expr]| {
            let asked = Question::Share(filters.to_vec());
            table.answers.of(table.view.def().id, asked, || {
                let filters: Vec<&Expr> = filters.iter().collect();
                table.passing(&filters, &schema, &table.all_columns, config)
            })
        };
        let passing = share(&filters).filter(|passing| *passing > 0.0)?;
        let own = Expr::Column(Column::new_unqualified(column.name.clone()));
        filters.push(own.between(bound(min)?, bound(max)?));
        Some(share(&filters)? / passing)
    }
}

/// How many values of a column the filters of its relation name, which are those within `plan` and these over it. `None` if they let others
/// through.
pub(in crate::query) fn named_values(plan: &LogicalPlan, filters: &[Expr], column: &Column) -> Option<f64> {
    let filters = all_filters(plan, filters);
    filters.iter().filter_map(|filter| named_by(filter, &column.name)).reduce(f64::min)
}

/// Those that one condition names.
fn named_by(condition: &Expr, column: &str) -> Option<f64> {
    let is_column = |side: &Expr| matches!(side, Expr::Column(named) if named.name == column);
    let is_fixed = |side: &Expr| side.column_refs().is_empty() && !side.is_volatile();
    let named = |side: &Expr| with_room(|| named_by(side, column));
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Eq => {
                let is_named = (is_column(left) && is_fixed(right)) || (is_column(right) && is_fixed(left));
                is_named.then_some(1.0)
            }
            Operator::Or => Some(named(left)? + named(right)?),
            Operator::And => [named(left), named(right)].into_iter().flatten().reduce(f64::min),
            _ => None,
        },
        Expr::InList(InList { expr, list, negated: false }) if is_column(expr) => {
            list.iter().all(is_fixed).then_some(list.len() as f64)
        }
        _ => None,
    }
}

/// All filters of a relation: these, and those within its plan. A table has each name of a column once.
fn all_filters(plan: &LogicalPlan, filters: &[Expr]) -> Vec<Expr> {
    let mut all = filters.to_vec();
    let mut below = plan;
    loop {
        below = match below {
            LogicalPlan::SubqueryAlias(alias) => alias.input.as_ref(),
            LogicalPlan::Filter(filter) => {
                all.extend(split_conjunction_owned(filter.predicate.clone()));
                filter.input.as_ref()
            }
            LogicalPlan::TableScan(scan) => {
                all.extend(scan.filters.iter().cloned());
                return all;
            }
            _ => return all,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{LogicalPlanBuilder, col};

    #[test]
    fn filters_that_name_values_let_no_others_through() {
        let day = Column::from_name("day");
        let plan = LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap().build().unwrap();
        let named = |filter: Expr| named_values(&plan, &[filter], &day);
        let is = |value: i64| col("day").eq(lit(value));
        assert_eq!(named(is(3)), Some(1.0));
        assert_eq!(named(lit(3_i64).eq(col("t.day"))), Some(1.0));
        assert_eq!(named(is(3).or(is(4)).and(col("x").gt(lit(0_i64)))), Some(2.0));
        assert_eq!(named(is(3).or(is(4)).and(is(4))), Some(1.0));
        assert_eq!(named(col("day").in_list(vec![lit(1_i64), lit(2_i64), lit(3_i64)], false)), Some(3.0));
        for more in [
            is(3).or(col("x").eq(lit(4_i64))),
            col("day").in_list(vec![lit(1_i64)], true),
            col("day").eq(col("x")),
            col("day").gt(lit(1_i64)),
            col("x").eq(lit(1_i64)),
        ] {
            assert_eq!(named(more.clone()), None, "{more}");
        }
    }
}
