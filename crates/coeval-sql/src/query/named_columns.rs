// SPDX-License-Identifier: Apache-2.0
//! Columns that no expression of a query names, left out of its scans before it is analyzed.
//!
//! DataFusion leaves out what nobody needs at the end of each pass of its optimizer. Until then a join of ten tables has the columns of all of
//! them, hundreds where a query names twenty, and the schema of each join below it has its part of them. These schemas are made anew when
//! types are made to fit, when arithmetic is checked, and by each rule of the first pass that moves conditions or joins. To leave out before
//! all that what is not named anywhere takes a look at each expression.
//!
//! A column goes if no expression in the whole query has its name, whatever table it is of, and if the rows of its scan become others before
//! anybody reads them as they are:
//!
//! | operator | its inputs |
//! |---|---|
//! | projection, aggregate | are asked for what they name |
//! | filter, sort, limit, alias, window, join | are asked for what it is asked for |
//! | any other, and the end of a query or subquery | are asked for all |
//!
//! Recursive queries stay as they are: both terms and the table that they share have the same columns.

use crate::stack::with_room;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, TableScanBuilder};
use datafusion::optimizer::AnalyzerRule;
use std::collections::HashSet;

/// The rule, for queries with joins. It comes first.
#[derive(Debug)]
pub(crate) struct NamedColumns;

impl AnalyzerRule for NamedColumns {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // There is little to gain in others, which may be over soon.
        if !plan.exists(|node| Ok(matches!(node, LogicalPlan::Join(_))))? {
            return Ok(plan);
        }
        let names = names_in(&plan)?;
        narrowed(plan, Asked::All, &names).map(|done| done.data)
    }

    fn name(&self) -> &'static str {
        "coeval_named_columns"
    }
}

/// The columns of its rows that a node is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Each in its place.
    All,
    /// By name.
    Named,
}

/// The names of columns in all expressions, of whatever they are columns.
fn names_in(plan: &LogicalPlan) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = part
                    && !names.contains(&column.name)
                {
                    names.insert(column.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(names)
}

/// The plan whose scans are without columns that have none of these names and that nobody asks for.
fn narrowed(plan: LogicalPlan, asked: Asked, names: &HashSet<String>) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::TableScan(scan) => return narrowed_scan(scan, asked, names),
        LogicalPlan::RecursiveQuery(_) => return Ok(Transformed::no(plan)),
        plan => plan,
    };
    let (below, has_columns_of_inputs) = match &plan {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => (Asked::Named, false),
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => (asked, false),
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Window(_) | LogicalPlan::Join(_) => (asked, true),
        _ => (Asked::All, false),
    };
    with_room(|| {
        let in_inputs = |plan: LogicalPlan| plan.map_children(|input| narrowed(input, below, names));
        let done =
            plan.map_subqueries(|query| narrowed(query, Asked::All, names))?.transform_sibling(in_inputs)?;
        // All others give what they gave, or what their input gives.
        let has_others = done.transformed && has_columns_of_inputs && below == Asked::Named;
        if has_others { done.map_data(LogicalPlan::recompute_schema) } else { Ok(done) }
    })
}

/// The same of a scan.
fn narrowed_scan(scan: TableScan, asked: Asked, names: &HashSet<String>) -> Result<Transformed<LogicalPlan>> {
    if asked == Asked::All || scan.projection.is_some() {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    }
    let schema = scan.source.schema();
    let fields = schema.fields();
    let mut named: Vec<usize> =
        (0..fields.len()).filter(|place| names.contains(fields[*place].name())).collect();
    if named.is_empty() && !fields.is_empty() {
        // Its rows are counted, or only have to be there. That they need no column at all is found out later.
        named.push(0);
    }
    if named.len() == fields.len() {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    }
    let scan = TableScanBuilder::from(scan).with_projection(Some(named)).build()?;
    Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::functions_aggregate::expr_fn::count;
    use datafusion::logical_expr::{
        JoinType, LogicalPlanBuilder, col, exists, lit, out_ref_col, scalar_subquery, table_scan,
    };
    use std::sync::Arc;

    fn scan(name: &str) -> LogicalPlanBuilder {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let fields = ["a", "b", "c", "d"].into_iter().map(field).collect::<Vec<_>>();
        table_scan(Some(name), &Schema::new(fields), None).unwrap()
    }

    /// `s JOIN t ON s.a = t.b`
    fn joined() -> LogicalPlanBuilder {
        let (other, keys) = (scan("t").build().unwrap(), (vec!["s.a"], vec!["t.b"]));
        scan("s").join(other, JoinType::Left, keys, None).unwrap()
    }

    /// The plan with the columns that it names, and how many columns each scan of it gives, those in subqueries too.
    fn widths(plan: &LogicalPlan) -> (LogicalPlan, Vec<usize>) {
        let done = NamedColumns.analyze(plan.clone(), &ConfigOptions::default()).unwrap();
        assert_eq!(done.schema(), plan.schema());
        let mut widths = Vec::new();
        done.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                widths.push(scan.projected_schema.fields().len());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        (done, widths)
    }

    #[test]
    fn joins_have_the_columns_that_are_named() {
        let renamed = scan("u").alias("x").unwrap().build().unwrap();
        let all = joined().join(renamed, JoinType::Inner, (vec!["s.a"], vec!["x.a"]), None).unwrap();
        let filtered = all.filter(col("t.c").gt(lit(1_i64))).unwrap();
        let plan = filtered.project([lit(1_i64)]).unwrap().build().unwrap();
        let (done, found) = widths(&plan);
        assert_eq!(found, [3, 3, 3]);
        assert_eq!(done.inputs()[0].schema().fields().len(), 9);
        let one = scan("s").project([col("a")]).unwrap().build().unwrap();
        assert_eq!(widths(&one).1, [4]);
    }

    #[test]
    fn rows_that_are_handed_on_as_they_are_keep_all_columns() {
        let plan = joined().sort([col("s.a").sort(true, false)]).unwrap().build().unwrap();
        assert_eq!(widths(&plan).1, [4, 4]);
        let distinct = joined().distinct().unwrap().project([col("s.a")]).unwrap().build().unwrap();
        assert_eq!(widths(&distinct).1, [4, 4]);
    }

    #[test]
    fn a_column_that_a_subquery_names_stays() {
        let outer = out_ref_col(DataType::Int64, "s.d");
        let within = scan("u").filter(col("u.c").eq(outer)).unwrap();
        let within = within.project([lit(1_i64)]).unwrap().build().unwrap();
        let plan = joined().filter(exists(Arc::new(within))).unwrap().project([col("t.b")]).unwrap();
        // `a` and `b` of the join, `c` and `d` of the subquery.
        assert_eq!(widths(&plan.build().unwrap()).1, [4, 4, 4]);
        let whole = scalar_subquery(Arc::new(scan("u").build().unwrap()));
        let plan = joined().project([whole.alias("x")]).unwrap().build();
        assert_eq!(widths(&plan.unwrap()).1, [4, 2, 2]);
    }

    #[test]
    fn rows_of_which_nothing_is_named_keep_a_column() {
        let other = scan("t").build().unwrap();
        let pairs = scan("s").cross_join(other).unwrap();
        let counted = pairs.aggregate(Vec::<Expr>::new(), [count(lit(1_i64))]).unwrap().build().unwrap();
        assert_eq!(widths(&counted).1, [1, 1]);
    }
}
