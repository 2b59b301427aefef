// SPDX-License-Identifier: Apache-2.0
//! Filters pushed down, but not where columns of one name would be taken for each other, or what they name would be computed once more.
//!
//! DataFusion's rule hands a filter from operator to operator, and most of them find its columns in their input by name:
//! of two columns of one name, the first. Where a join gives both `a.id` and `b.id`, a filter on the second falls on the
//! first, and rows are lost without an error. It is known there (issue 25244, with 25262 to 25264 and 25296) and mended in
//! the version behind ours (pull request 25259); with that version what looks for such names can go.
//!
//! Until then the rule is let loose on those parts of a plan in which no filter names a column whose name is there twice.
//! In the others filters stay where they are, which is right and slower. So they do where what computes their columns would make them
//! too large: of twenty queries within each other that each name a column of the one within them three times, a filter would have
//! thousands of millions of columns.
//!
//! A filter that names what a projection computes anew for each row, as `FROM (SELECT nextval('s') AS n FROM t) x WHERE n > 0`, stays above
//! it, too. DataFusion's rule puts what computes its columns into it, and below the projection it would draw numbers of its own.
//!
//! A filter that an aggregate without groups makes of the least and the greatest values that it has seen is left out where one of its calls
//! needs rows that the filter refuses, or the aggregate is run several times (see [`would_lose_rows`]).
//!
//! In a plan without a node that makes filters there is nothing to hand down, and the rule, which looks at each node for each of its
//! inputs, is left out: most of the time before exchanges are put in, as the scans of tables of rows have taken the filters then.

use crate::plan_rule::has_node;
use crate::stack::with_room;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPhase;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::collections::HashMap;
use std::sync::Arc;

/// Filters that come to an operator name its columns so many times at most.
const TIMES_MAX: usize = 50_000;

/// Names of columns, and how many times filters name them.
type Names = HashMap<String, usize>;

/// DataFusion's rule where names are clear.
#[derive(Debug)]
pub(crate) struct ClearPushdown {
    rule: FilterPushdown,
    phase: FilterPushdownPhase,
}

impl ClearPushdown {
    /// In the place of a rule of DataFusion's; `None` if that is another one.
    pub(crate) fn instead_of(rule: &dyn PhysicalOptimizerRule) -> Option<Self> {
        let known = [
            (FilterPushdown::new(), FilterPushdownPhase::Pre),
            (FilterPushdown::new_post_optimization(), FilterPushdownPhase::Post),
        ];
        let found = known.into_iter().find(|(known, _)| known.name() == rule.name());
        found.map(|(rule, phase)| Self { rule, phase })
    }

    fn pushed(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if is_clear(&plan) {
            return self.rule.optimize(plan, config);
        }
        let children = plan.children().into_iter().cloned();
        let children = children.map(|child| self.pushed(child, config)).collect::<Result<_>>()?;
        replace_children_if_necessary(plan, children)
    }
}

impl PhysicalOptimizerRule for ClearPushdown {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let has_work = match self.phase {
            FilterPushdownPhase::Pre => has_node(&plan, |node| node.is::<FilterExec>()),
            FilterPushdownPhase::Post => has_node(&plan, may_move_filters),
        };
        if !has_work {
            return Ok(plan);
        }
        if !has_node(&plan, would_lose_rows) {
            return self.pushed(plan, config);
        }
        let mut config = config.clone();
        config.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        self.pushed(plan, &config)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// Whether a node may hand down a filter that moves while the query runs.
fn may_move_filters(node: &dyn ExecutionPlan) -> bool {
    node.is::<AggregateExec>() || node.is::<HashJoinExec>() || node.is::<SortExec>()
}

/// Whether a filter of an aggregate would keep rows from some of its calls that these need. A row passes by what one of the calls asks of it,
/// and those ask nothing that are of no column as it is (DataFusion's issue 24816), or that have seen no value yet. Calls of one column
/// without FILTER have all seen a value, or none has. Intervals are compared by months first in such a filter, and by their length in calls.
///
/// A recursive query runs the same plan for each step, and the filter has in the second one what the aggregate saw in the first, which
/// no row is beyond.
fn would_lose_rows(node: &dyn ExecutionPlan) -> bool {
    if node.is::<RecursiveQueryExec>() {
        return true;
    }
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return false };
    let [first, others @ ..] = aggregate.aggr_expr() else { return false };
    if aggregate.dynamic_expressions_produced().is_empty() {
        return false;
    }
    if matches!(first.field().data_type(), DataType::Interval(_)) {
        return true;
    }
    let column = |call: &AggregateFunctionExpr| match call.expressions().as_slice() {
        [argument] => argument.downcast_ref::<Column>().cloned(),
        _ => None,
    };
    let first = column(first);
    let are_of_one_column = first.is_some() && others.iter().all(|other| column(other) == first);
    let has_filters = aggregate.filter_expr().iter().any(Option::is_some);
    !others.is_empty() && (has_filters || !are_of_one_column)
}

/// Whether no filter that comes to be in a plan is pushed to an operator that has two columns with the name of one in the filter, becomes
/// too large, or computes anew what it names. No filter comes to the plan's root from above.
fn is_clear(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_clear_with(plan, &Names::new())
}

/// The same where filters that name these columns come from above.
fn is_clear_with(plan: &Arc<dyn ExecutionPlan>, arriving: &Names) -> bool {
    plan.children().into_iter().enumerate().all(|(place, child)| {
        let names = named_below(plan.as_ref(), place, arriving);
        let schema = child.schema();
        let mut met = Names::new();
        let fields = schema.fields().iter().map(|field| field.name());
        let mut named = fields.filter_map(|name| names.get(name).map(|times| (name, *times)));
        let is_met_twice = named.any(|(name, times)| met.insert(name.clone(), times).is_some());
        !is_met_twice
            && met.values().fold(0, |sum: usize, times| sum.saturating_add(*times)) <= TIMES_MAX
            && !is_renamed_by_union(plan, child, arriving)
            && with_room(|| is_clear_with(child, &met))
    }) && !is_given_to_the_other_side(plan, arriving)
        && !is_computed_anew(plan, arriving)
}

/// Whether a projection computes one of these columns by what gives something else each time.
fn is_computed_anew(plan: &Arc<dyn ExecutionPlan>, names: &Names) -> bool {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return false };
    projection.expr().iter().any(|output| names.contains_key(&output.alias) && is_volatile(&output.expr))
}

/// Whether a join would hand what is known of one side's key to a column of the other side that has its name and is not
/// what it is equated with.
fn is_given_to_the_other_side(plan: &Arc<dyn ExecutionPlan>, names: &Names) -> bool {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return false };
    let misleads =
        |key: &Arc<dyn PhysicalExpr>, equal: &Arc<dyn PhysicalExpr>, other: &Arc<dyn ExecutionPlan>| {
            let name = |expression: &Arc<dyn PhysicalExpr>| {
                expression.downcast_ref::<Column>().map(|column| column.name().to_owned())
            };
            name(key).is_some_and(|key_name| {
                names.contains_key(&key_name)
                    && name(equal).as_ref() != Some(&key_name)
                    && other.schema().column_with_name(&key_name).is_some()
            })
        };
    join.on()
        .iter()
        .any(|(left, right)| misleads(left, right, join.right()) || misleads(right, left, join.left()))
}

/// Whether a union calls some of these columns otherwise than an input does: what it hands down by name is another one then.
fn is_renamed_by_union(plan: &Arc<dyn ExecutionPlan>, input: &Arc<dyn ExecutionPlan>, names: &Names) -> bool {
    let (outer, inner) = (plan.schema(), input.schema());
    let mut pairs = outer.fields().iter().zip(inner.fields());
    plan.is::<UnionExec>()
        && pairs.any(|(outer, inner)| outer.name() != inner.name() && names.contains_key(outer.name()))
}

/// What filters of this operator, and those that come to it, name of this input.
fn named_below(plan: &dyn ExecutionPlan, input: usize, arriving: &Names) -> Names {
    let mut names = arriving.clone();
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        // What its right side is to have is known once its left side is built.
        if input == 1 {
            join.on().iter().for_each(|(_, key)| add_columns(&mut names, key, 1));
        }
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        sort.expr().iter().for_each(|key| add_columns(&mut names, &key.expr, 1));
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        add_columns(&mut names, filter.predicate(), 1);
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let keys = aggregate.group_expr().expr().iter().map(|(key, name)| (key, name.as_str()));
        put_below(&mut names, arriving, keys);
        for argument in aggregate.aggr_expr().iter().flat_map(|call| call.expressions()) {
            add_columns(&mut names, &argument, 1);
        }
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let outputs = projection.expr().iter().map(|output| (&output.expr, output.alias.as_str()));
        put_below(&mut names, arriving, outputs);
    }
    names
}

/// Names with those of the columns that outputs are computed by. The outputs themselves are no longer named, but for what is found by name.
fn put_below<'o>(
    names: &mut Names,
    arriving: &Names,
    outputs: impl Iterator<Item = (&'o Arc<dyn PhysicalExpr>, &'o str)>,
) {
    names.values_mut().for_each(|times| *times = 0);
    for (expression, name) in outputs {
        if let Some(times) = arriving.get(name) {
            add_columns(names, expression, *times);
        }
    }
}

/// The columns of an expression that is there so many times.
fn add_columns(names: &mut Names, expression: &Arc<dyn PhysicalExpr>, times: usize) {
    // Nothing in the visit fails.
    let _ = expression.apply(|part| {
        if let Some(column) = part.downcast_ref::<Column>() {
            let known = names.entry(column.name().to_owned()).or_default();
            *known = known.saturating_add(times);
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

#[cfg(test)]
mod tests {
    use crate::engine::Engine;
    use arrow::util::display::array_value_to_string;
    use coeval_store::{Store, StoreOptions};

    /// What a query of these tables gives, a text for each row. `a`, `b` and `c` all have an `id` and an `amount`.
    fn answer(sql: &str) -> Vec<String> {
        let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
        let tables = "
            CREATE TABLE a (id int, other int, amount int);
            CREATE TABLE b (id int, amount int);
            CREATE TABLE c (id int, amount int);
            INSERT INTO a VALUES (1, 10, 100), (2, 20, 200), (3, 30, 300);
            INSERT INTO b VALUES (10, 30), (20, 20), (30, 10);
            INSERT INTO c VALUES (30, 5), (10, 6), (20, 7);";
        session.execute(tables).unwrap();
        let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
        let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
        let of_batch = |batch: &arrow::array::RecordBatch| {
            let text = |row| {
                let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
                values.collect::<Vec<_>>().join(" ")
            };
            (0..batch.num_rows()).map(text).collect::<Vec<_>>()
        };
        batches.flat_map(of_batch).collect()
    }

    #[test]
    fn the_smallest_of_the_second_of_two_columns_of_one_name_is_found() {
        let joined = "FROM a JOIN b ON a.other = b.id JOIN c ON b.id = c.id";
        assert_eq!(
            answer(&format!("SELECT a.amount, b.amount {joined} ORDER BY b.amount LIMIT 1")),
            ["300 10"]
        );
        assert_eq!(
            answer(&format!("SELECT a.amount, c.amount {joined} ORDER BY c.amount LIMIT 1")),
            ["300 5"]
        );
    }

    #[test]
    fn a_join_by_the_second_of_two_columns_of_one_name_loses_no_rows() {
        for join in ["JOIN", "LEFT JOIN"] {
            let twice =
                format!("(SELECT a.id AS first, a.id, b.id AS second FROM a {join} b ON a.other = b.id) ab");
            assert_eq!(answer(&format!("SELECT count(*) FROM c JOIN {twice} ON c.id = ab.second")), ["3"]);
            let sql = format!(
                "SELECT a.id, b.id, c.id FROM a {join} b ON a.other = b.id JOIN c ON c.id = b.id ORDER BY 1"
            );
            assert_eq!(answer(&sql), ["1 10 10", "2 20 20", "3 30 30"]);
        }
    }

    #[test]
    fn inputs_of_a_union_may_name_their_columns_crosswise() {
        let union = "(SELECT id, amount FROM b UNION ALL SELECT amount AS x, id FROM c) u";
        assert_eq!(
            answer(&format!("SELECT u.id, u.amount FROM c JOIN {union} ON c.id = u.id ORDER BY 1, 2")),
            ["10 30", "20 20", "30 10"]
        );
        assert_eq!(
            answer(&format!("SELECT u.id, u.amount FROM {union} ORDER BY u.amount DESC LIMIT 2")),
            ["10 30", "5 30"]
        );
    }
}
