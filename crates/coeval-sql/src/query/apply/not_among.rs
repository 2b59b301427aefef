// SPDX-License-Identifier: Apache-2.0
//! `NOT IN` of a value that is the same for all rows, as a subquery that runs once.
//!
//! ```text
//! 9 NOT IN (SELECT v FROM s)
//!   -> (SELECT count(*) FROM (SELECT v FROM s WHERE (v = 9) IS NOT FALSE LIMIT 1)) = 0
//! ```
//! It is true if each row of the subquery is known to be another value. Where a NULL leaves that open this is false and not NULL, which is
//! the same for a condition.

use crate::query::dependencies::{depends_on, subquery_of};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit, scalar_subquery};
use std::sync::Arc;

/// What stands in the place of `value NOT IN (rows)` as a condition, of rows that depend on no row around them. `None` if the value may be
/// another one for another row, or has parts that are compared by themselves.
///
/// # Errors
/// What DataFusion finds wrong while it builds the plan.
pub(super) fn counted_once(value: &Expr, rows: &LogicalPlan) -> Result<Option<Expr>> {
    let columns = rows.schema().columns();
    let [column] = columns.as_slice() else { return Ok(None) };
    if rows.schema().field(0).data_type().is_nested() || !is_same_for_all(value)? {
        return Ok(None);
    }
    let is_equal = Expr::Column(column.clone()).eq(value.clone());
    let counted = LogicalPlanBuilder::from(rows.clone())
        .filter(is_equal.is_not_false())?
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), vec![count_udaf().call(vec![lit(1_i64)])])?
        .build()?;
    Ok(Some(scalar_subquery(Arc::new(counted)).eq(lit(0_i64))))
}

/// Whether a value is made of constants, parameters and what subqueries give that depend on no row.
fn is_same_for_all(value: &Expr) -> Result<bool> {
    let differs = value.exists(|part| {
        if matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..)) || part.is_volatile_node() {
            return Ok(true);
        }
        let Some(subquery) = subquery_of(part) else { return Ok(false) };
        let mut dependencies = Vec::new();
        depends_on(subquery, &mut dependencies)?;
        Ok(dependencies.iter().any(|one| matches!(one, Expr::OuterReferenceColumn(..))))
    })?;
    Ok(!differs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;
    use datafusion::functions::math::random;
    use datafusion::logical_expr::{BinaryExpr, Operator, col, out_ref_col};

    fn rows() -> LogicalPlan {
        LogicalPlanBuilder::values(vec![vec![lit(1_i64)], vec![lit(2_i64)]]).unwrap().build().unwrap()
    }

    #[test]
    fn a_value_that_is_the_same_for_all_rows_is_looked_for_once() {
        let counted = counted_once(&lit(9_i64), &rows()).unwrap();
        let Some(Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, .. })) = &counted else {
            panic!("{counted:?} is no comparison")
        };
        assert!(matches!(left.as_ref(), Expr::ScalarSubquery(_)));
    }

    #[test]
    fn a_value_that_may_be_another_one_for_another_row_is_left_alone() {
        let outer = out_ref_col(DataType::Int64, "o.x");
        for value in [col("x") + lit(1_i64), outer, random().call(Vec::new())] {
            assert_eq!(counted_once(&value, &rows()).unwrap(), None, "{value}");
        }
    }
}
