// SPDX-License-Identifier: Apache-2.0
//! Conditions go down, unless they would become too large or would do something else there.
//!
//! DataFusion's rule puts a condition below the query that computes its columns, and what computes them in their places. A column that
//! is named three times there is three columns then:
//!
//! ```text
//! FROM (SELECT c + c - c AS c FROM (SELECT c + c - c AS c FROM ... ) x) y WHERE c = 1
//! ```
//! Of twenty such queries within each other that is an expression of thousands of millions of parts. Where a condition would grow by too
//! many of them, it stays where it is. The rule makes one condition of those right above each other, as one behind HAVING, and puts that down
//! at once, so they are counted together.
//!
//! What names no column is the same for all rows. It is computed as soon as it is met, and where it does not hold there are no rows. Most of
//! them come about on the way down, where a query of several parts gives each of them a constant:
//!
//! ```text
//! FROM (SELECT 'store' AS sold_in, ... UNION ALL SELECT 'web', ...) x WHERE sold_in = 'web'
//! ```
//! Three kinds of parts stay where they are, though DataFusion's rule takes them down:
//!
//! - what names no column and cannot be computed yet, above aggregates that give a row for no rows: `count(*)` of nothing is a row, and the
//!   condition would have dropped it;
//! - what names a column that is computed anew each time, as `nextval('s')` that is grouped by: below, it would be computed once more, and have
//!   another value. DataFusion's rule sees that of a projection, if it is not within a subquery;
//! - what is volatile, above all that makes other rows of those below it: `HAVING random() < 0.5` drops groups, and no rows of theirs. Above a
//!   join that is so of what names no column, `FROM a, b WHERE random() < 0.5`, which drops pairs; what names columns of one side is asked of
//!   the rows of that side, in PostgreSQL too. A part of the condition of an inner join comes above it for that.

use super::dependencies::subquery_of;
use super::rewriting::has_concern_anywhere;
use super::substitution::grow_too_large;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, EmptyRelation, Expr, Filter, Join, JoinType, LogicalPlan, Projection,
};
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rule, for conditions that stay small and say the same below.
#[derive(Debug, Default)]
pub(crate) struct SmallFilters(PushDownFilter);

impl OptimizerRule for SmallFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let plan = match plan {
            LogicalPlan::Join(join) => asked_of_pairs(join)?,
            plan => Transformed::no(plan),
        };
        let has_moved = plan.transformed;
        let LogicalPlan::Filter(filter) = plan.data else { return self.0.rewrite(plan.data, config) };
        if becomes_too_large(&filter)? {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let are_several = matches!(filter.input.as_ref(), LogicalPlan::Filter(_));
        let filter = with_those_below(filter)?;
        let are_volatile = gives_volatile(&filter.input)?;
        let needs_a_look = |part: &Expr| are_volatile || names_no_column(part) || part.is_volatile();
        let mut rewritten = if split_conjunction(&filter.predicate).into_iter().any(needs_a_look) {
            self.put_down_by_parts(filter, config)?
        } else {
            self.0.rewrite(LogicalPlan::Filter(filter), config)?
        };
        rewritten.transformed |= are_several || has_moved;
        Ok(rewritten)
    }
}

impl SmallFilters {
    /// The plan below a condition of which a part names no column, or is volatile or may name what is: without rows, or with what may go down
    /// put down.
    fn put_down_by_parts(
        &self,
        filter: Filter,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let schema = Arc::clone(filter.input.schema());
        let (mut held, mut down) = (Vec::new(), Vec::new());
        let parts = split_conjunction_owned(filter.predicate);
        let count = parts.len();
        for part in parts {
            match constant(&part, config)? {
                Some(true) => {}
                Some(false) => {
                    let empty = EmptyRelation { produce_one_row: false, schema };
                    return Ok(Transformed::yes(LogicalPlan::EmptyRelation(empty)));
                }
                None if stays_above(&part, &filter.input)? => held.push(part),
                None => down.push(part),
            }
        }
        let changed = held.len() + down.len() < count;
        let mut rewritten = match conjunction(down) {
            Some(down) => {
                self.0.rewrite(LogicalPlan::Filter(Filter::try_new(down, filter.input)?), config)?
            }
            // What has no condition any more is the next to be looked at: the rule goes on below it.
            None if held.is_empty() => self.rewrite(Arc::unwrap_or_clone(filter.input), config)?,
            None => Transformed::no(Arc::unwrap_or_clone(filter.input)),
        };
        rewritten.transformed |= changed;
        let Some(held) = conjunction(held) else { return Ok(rewritten) };
        rewritten
            .map_data(|plan| match plan {
                LogicalPlan::Filter(left) => Filter::try_new(left.predicate.and(held), left.input),
                other => Filter::try_new(held, Arc::new(other)),
            })?
            .map_data(|filter| Ok(LogicalPlan::Filter(filter)))
    }
}

/// Whether an expression is the same for all rows of its input. What it names of a query around it is, too.
fn names_no_column(expression: &Expr) -> bool {
    let mut found = false;
    // Nothing fails in it.
    let _ = expression.apply(|part| {
        found = matches!(part, Expr::Column(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    !found
}

/// Whether a condition holds for all rows or, as where it is NULL, for none; `None` if that is not known before the query runs.
fn constant(condition: &Expr, config: &dyn OptimizerConfig) -> Result<Option<bool>> {
    if !names_no_column(condition) {
        return Ok(None);
    }
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(DFSchema::empty()))
        .with_config_options(config.options())
        .with_query_execution_start_time(config.query_execution_start_time())
        .build();
    Ok(match ExprSimplifier::new(context).simplify(condition.clone())? {
        Expr::Literal(ScalarValue::Boolean(holds), _) => Some(holds == Some(true)),
        Expr::Literal(ScalarValue::Null, _) => Some(false),
        _ => None,
    })
}

/// A join with those parts of its condition above it that are asked of each pair of rows, if it gives no others.
fn asked_of_pairs(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let has_any = |filter: &Expr| split_conjunction(filter).into_iter().any(is_of_pairs);
    if join.join_type != JoinType::Inner || !join.filter.as_ref().is_some_and(has_any) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let parts = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let (above, own): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(is_of_pairs);
    join.filter = conjunction(own);
    let joined = LogicalPlan::Join(join);
    Ok(match conjunction(above) {
        Some(above) => Transformed::yes(LogicalPlan::Filter(Filter::try_new(above, Arc::new(joined))?)),
        None => Transformed::no(joined),
    })
}

/// Whether a part of a condition above a join is another one for each pair of rows, and not for each row of a side.
fn is_of_pairs(part: &Expr) -> bool {
    part.is_volatile() && names_no_column(part)
}

/// A condition and those right below it as one, which come first in it.
fn with_those_below(filter: Filter) -> Result<Filter> {
    let Filter { mut predicate, mut input, .. } = filter;
    while let LogicalPlan::Filter(below) = input.as_ref() {
        predicate = below.predicate.clone().and(predicate);
        input = Arc::clone(&below.input);
    }
    Filter::try_new(predicate, input)
}

/// Whether a part of a condition says something else below what it is about.
fn stays_above(part: &Expr, input: &LogicalPlan) -> Result<bool> {
    Ok(match input {
        LogicalPlan::Aggregate(aggregate) => {
            part.is_volatile()
                || (gives_row_for_no_rows(aggregate) && names_no_column(part))
                || (!names_no_column(part) && gives_volatile(input)?)
        }
        LogicalPlan::Projection(projection) => {
            let place = |column: &Column| projection.schema.maybe_index_of_column(column);
            let named = part.column_refs().into_iter().filter_map(place);
            is_any_computed_anew(named.map(|place| &projection.expr[place]))?
        }
        LogicalPlan::Distinct(_) | LogicalPlan::Window(_) | LogicalPlan::Unnest(_) => part.is_volatile(),
        LogicalPlan::Join(_) => is_of_pairs(part),
        _ => false,
    })
}

/// Whether a plan computes something by its expressions that is something else each time, and that a condition above may name.
fn gives_volatile(plan: &LogicalPlan) -> Result<bool> {
    let computed = match plan {
        LogicalPlan::Projection(projection) => &projection.expr,
        LogicalPlan::Aggregate(aggregate) => &aggregate.group_expr,
        _ => return Ok(false),
    };
    is_any_computed_anew(computed.iter())
}

/// Whether any of these expressions gives something else each time, by itself or by a subquery in it.
fn is_any_computed_anew<'e>(mut expressions: impl Iterator<Item = &'e Expr>) -> Result<bool> {
    let is_volatile = |part: &Expr| match subquery_of(part) {
        Some(subquery) => has_concern_anywhere(subquery, Expr::is_volatile_node),
        None => Ok(part.is_volatile_node()),
    };
    expressions.try_fold(false, |found, expression| Ok(found || expression.exists(is_volatile)?))
}

/// Whether an aggregate has a row where its input has none: one without groups, or with grouping sets of which one is empty.
fn gives_row_for_no_rows(aggregate: &Aggregate) -> bool {
    matches!(aggregate.group_expr.as_slice(), [] | [Expr::GroupingSet(_), ..])
}

/// DataFusion's rule that takes out what has no rows, where there is any such thing.
///
/// What is left of a union is one of its inputs, whose columns are known by their places. DataFusion's rule looks for the union's names in it,
/// finds none where an input that is no projection (`SELECT DISTINCT`, `VALUES`, one with LIMIT) has others, and takes one column for another
/// where it has the same names in other places.
#[derive(Debug, Default)]
pub(crate) struct WithoutRows(PropagateEmptyRelation);

impl OptimizerRule for WithoutRows {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found = has_no_rows(node);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !found {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| match only_input_with_rows(&node) {
            Some((input, schema)) => under_names(input, schema).map(Transformed::yes),
            None => self.0.rewrite(node, config),
        })
    }
}

const fn has_no_rows(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, .. }))
}

/// The one input of a union that may have rows, and the columns of the union; `None` if there is none or more than one.
fn only_input_with_rows(plan: &LogicalPlan) -> Option<(&Arc<LogicalPlan>, &DFSchemaRef)> {
    let LogicalPlan::Union(union) = plan else { return None };
    let mut with_rows = union.inputs.iter().filter(|input| !has_no_rows(input));
    let only = with_rows.next()?;
    with_rows.next().is_none().then_some((only, &union.schema))
}

/// The rows of a plan with their columns, place by place, as this schema has them.
fn under_names(input: &Arc<LogicalPlan>, schema: &DFSchemaRef) -> Result<LogicalPlan> {
    if input.schema() == schema {
        return Ok(LogicalPlan::clone(input));
    }
    let columns = input.schema().columns().into_iter().zip(schema.columns());
    let columns = columns.map(|(own, wanted)| match own == wanted {
        true => Expr::Column(own),
        false => Expr::Column(own).alias_qualified(wanted.relation, wanted.name),
    });
    let columns = columns.collect();
    let projection = Projection::try_new_with_schema(columns, Arc::clone(input), Arc::clone(schema))?;
    Ok(LogicalPlan::Projection(projection))
}

/// Whether a condition, with those right below it, would become too large below what they are about.
fn becomes_too_large(filter: &Filter) -> Result<bool> {
    let (mut conditions, mut input) = (vec![&filter.predicate], filter.input.as_ref());
    while let LogicalPlan::Filter(below) = input {
        conditions.push(&below.predicate);
        input = below.input.as_ref();
    }
    let computed = match input {
        LogicalPlan::Projection(projection) => &projection.expr,
        LogicalPlan::Aggregate(aggregate) => &aggregate.group_expr,
        _ => return Ok(false),
    };
    let value_of = |column: &Column| computed.get(input.schema().maybe_index_of_column(column)?);
    grow_too_large(&conditions, value_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions_aggregate::expr_fn::max;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, ident, lit};
    use datafusion::optimizer::OptimizerContext;

    #[test]
    fn conditions_right_above_each_other_are_counted_together() {
        let rows = LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap();
        let computed = rows.project([(col("column1") + lit(1_i64)).alias("a")]).unwrap();
        let long = |least: i64| conjunction((0..150).map(|n| col("a").not_eq(lit(least + n)))).unwrap();
        let one = computed.filter(long(0)).unwrap();
        let both = one.clone().filter(long(1_000)).unwrap().build().unwrap();
        let goes_down = |plan| {
            let rewritten = SmallFilters::default().rewrite(plan, &OptimizerContext::new()).unwrap();
            matches!(rewritten.data, LogicalPlan::Projection(_))
        };
        assert!(goes_down(one.build().unwrap()));
        assert!(!goes_down(both));
    }

    fn put_down(plan: LogicalPlan) -> String {
        let config = OptimizerContext::new();
        let down = plan.transform_down(|node| SmallFilters::default().rewrite(node, &config)).unwrap().data;
        WithoutRows::default().rewrite(down, &config).unwrap().data.display_indent().to_string()
    }

    #[test]
    fn parts_of_a_union_that_are_not_asked_for_are_taken_out() {
        let rows = || LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap();
        let part = |name: &str| rows().project([col("column1"), lit(name).alias("sold_in")]).unwrap();
        let all = part("store").union(part("web").build().unwrap()).unwrap();
        let asked = all.filter(col("sold_in").eq(lit("web")).and(col("column1").gt(lit(0_i64)))).unwrap();
        let plan = put_down(asked.build().unwrap());
        assert!(plan.contains("web") && !plan.contains("store") && !plan.contains("Union"), "{plan}");
        assert!(plan.contains("Filter: column1 > Int64(0)"), "{plan}");
    }

    #[test]
    fn what_is_left_of_a_union_has_its_columns_by_their_places() {
        let part = |first: &str, second: &str, sold_in: &str| {
            let rows = LogicalPlanBuilder::values(vec![vec![lit(1_i64), lit(2_i64)]]).unwrap();
            let columns = [col("column1").alias(first), col("column2").alias(second)];
            rows.project(columns.into_iter().chain([lit(sold_in).alias("sold_in")])).unwrap()
        };
        let web = part("b", "a", "web").limit(0, Some(1)).unwrap().build().unwrap();
        let all = part("a", "b", "store").union(web).unwrap();
        let plan = put_down(all.filter(col("sold_in").eq(lit("web"))).unwrap().build().unwrap());
        assert!(plan.starts_with("Projection: b AS a, a AS b, sold_in\n  Filter"), "{plan}");
    }

    #[test]
    fn what_names_no_column_stays_above_an_aggregate_that_gives_a_row_for_no_rows() {
        let rows = || LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap();
        let unknown = datafusion::logical_expr::placeholder("$1").eq(lit(1_i64));
        let least = ident("max(column1)").gt(lit(0_i64));
        let whole = rows().aggregate(Vec::<Expr>::new(), [max(col("column1"))]).unwrap();
        let each = whole.clone().filter(unknown.clone()).unwrap().filter(least.clone()).unwrap();
        let plan = put_down(whole.filter(unknown.clone().and(least)).unwrap().build().unwrap());
        assert!(plan.starts_with("Filter: max(column1) > Int64(0) AND $1 = Int64(1)\n  Aggregate"), "{plan}");
        assert_eq!(put_down(each.build().unwrap()), plan);
        let grouped = rows().aggregate([col("column1")], Vec::<Expr>::new()).unwrap();
        let plan = put_down(grouped.filter(unknown).unwrap().build().unwrap());
        assert!(plan.starts_with("Aggregate"), "{plan}");
    }
}
