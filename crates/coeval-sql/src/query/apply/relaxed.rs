// SPDX-License-Identifier: Apache-2.0
//! A subquery without its conditions on the row around it: if that has no rows, it has none for any row.
//!
//! `pg_dump` asks of each of three thousand functions whether `pg_depend`, `pg_cast` and `pg_transform` say something of it, which
//! are ten thousand subqueries; once is enough, where nothing is said of any function.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use std::sync::Arc;

/// The plan without what depends on the rows around it, which has all rows that it has for any of them. `None` if it is more than
/// a look at tables in memory, which the catalog's are: of others, to read all rows once may take longer than to look for some
/// many times.
///
/// # Errors
/// What DataFusion finds wrong while it rebuilds the plan.
pub(super) fn relaxed(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    // What is selected does not say how many rows there are.
    let mut rows = plan;
    while let LogicalPlan::Projection(selected) = rows {
        rows = selected.input.as_ref();
    }
    if rows.exists(|node| Ok(!is_plain(node)))? {
        return Ok(None);
    }
    let relaxed = rows.clone().transform_up(|node| match node {
        LogicalPlan::Filter(filter) => without_conditions(filter).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(Some(relaxed.data))
}

/// What is filtered, by the conditions alone that are about it.
fn without_conditions(filter: Filter) -> Result<LogicalPlan> {
    let kept = split_conjunction_owned(filter.predicate);
    match conjunction(kept.into_iter().filter(|condition| !depends(condition))) {
        Some(predicate) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)),
        None => Ok(Arc::unwrap_or_clone(filter.input)),
    }
}

fn is_plain(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => true,
        LogicalPlan::TableScan(scan) => {
            source_as_provider(&scan.source).is_ok_and(|table| table.downcast_ref::<MemTable>().is_some())
        }
        _ => false,
    }
}

/// Whether a condition is one on the row around, on a parameter or on other subqueries, or gives something else each time.
fn depends(condition: &Expr) -> bool {
    let is_beyond = |part: &Expr| {
        matches!(
            part,
            Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ) || part.is_volatile_node()
    };
    // Nothing in the visit fails.
    condition.exists(|part| Ok(is_beyond(part))).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::datasource::provider_as_source;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit, out_ref_col};

    fn scanned() -> LogicalPlanBuilder {
        let fields = vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Int32, true)];
        let table = MemTable::try_new(Arc::new(Schema::new(fields)), vec![Vec::new()]).unwrap();
        LogicalPlanBuilder::scan("t", provider_as_source(Arc::new(table)), None).unwrap()
    }

    #[test]
    fn only_what_is_said_of_the_table_alone_is_left() {
        let outer = col("a").eq(out_ref_col(DataType::Int32, "o.x"));
        let both = scanned().filter(outer.clone().and(col("b").gt(lit(1)))).unwrap();
        let plan = both.project([col("a")]).unwrap().build().unwrap();
        let expected = scanned().filter(col("b").gt(lit(1))).unwrap().build().unwrap();
        assert_eq!(relaxed(&plan).unwrap(), Some(expected));
        let plan = scanned().filter(outer).unwrap().build().unwrap();
        assert_eq!(relaxed(&plan).unwrap(), Some(scanned().build().unwrap()));
    }

    #[test]
    fn what_counts_or_cuts_rows_is_left_alone() {
        let outer = col("a").eq(out_ref_col(DataType::Int32, "o.x"));
        let cut = scanned().filter(outer).unwrap().limit(0, Some(1)).unwrap().build().unwrap();
        assert_eq!(relaxed(&cut).unwrap(), None);
    }
}
