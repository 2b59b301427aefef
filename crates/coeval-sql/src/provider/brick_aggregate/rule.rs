// SPDX-License-Identifier: Apache-2.0
//! Where aggregates are begun at the bricks.

use super::super::bricks::{BrickScan, BrickSource};
use super::super::dimensions::exactly_selected;
use super::super::prune::SourceColumn;
use super::{BrickAggregate, Call, Conjunct, Task};
use crate::plan_rule::PlanRule;
use arrow::datatypes::{DataType, Schema};
use coeval_store::{BrickId, BrickView, Grouping};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PhysicalExpr};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A brick has at most so many groups of its own: all of them may be there, and their states stay in a core's cache.
const GROUPS_OF_BRICK_MAX: usize = 1 << 16;

/// A part has at most so many groups that go through all its bricks: the array that finds them is a megabyte, which stays in a core's
/// cache. Beyond, states do not, and to look for them by hash costs as much.
const GROUPS_OF_PART_MAX: usize = 1 << 18;

/// Rows that there must be for each group and each time that groups are begun anew, which is with each part, and with each piece of a
/// brick where they are the brick's own; otherwise too little is gained by grouping these apart.
const ROWS_PER_GROUP_MIN: usize = 4;

/// Aggregates that take no notice of NULLs in their argument.
const SKIP_NULLS: [&str; 5] = ["avg", "count", "max", "min", "sum"];

/// Puts the leaf in the place of partial aggregates over scans of bricks.
pub(crate) const BEGIN_BRICK_AGGREGATES: PlanRule =
    PlanRule::new("coeval_begin_brick_aggregates", |plan, _| {
        plan.transform_up(begun_at_bricks).map(|done| done.data)
    })
    .about(|node| node.is::<BrickScan>());

fn begun_at_bricks(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match node.downcast_ref::<AggregateExec>().and_then(begun) {
        Some(leaf) => Transformed::yes(Arc::new(leaf) as _),
        None => Transformed::no(node),
    })
}

/// The leaf that does what a partial aggregate over a scan of bricks does; `None` for other plans.
fn begun(aggregate: &AggregateExec) -> Option<BrickAggregate> {
    let group_by = aggregate.group_expr();
    let is_plain = *aggregate.mode() == AggregateMode::Partial
        && aggregate.limit_options().is_none()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && !group_by.has_grouping_set();
    if !is_plain {
        return None;
    }
    let source = Source::below(aggregate.input())?;
    let grouping = match group_by.is_empty() {
        true => None,
        false => Some(source.grouping(group_by.expr())?),
    };
    if grouping.as_ref().is_some_and(Grouping::has_metric) && takes_decimals(aggregate) {
        return None;
    }
    let can_add = |function: &Arc<AggregateFunctionExpr>| {
        let is_supported = grouping.is_none() || function.groups_accumulator_supported();
        is_supported && !function.is_distinct() && function.order_bys().is_empty()
    };
    if !aggregate.aggr_expr().iter().all(can_add) {
        return None;
    }
    Some(BrickAggregate::new(source.task(aggregate, grouping)))
}

/// Whether an argument is a decimal. These are computed as 64-bit integers where groups are found by codes of values, which gains more
/// than an array of groups.
fn takes_decimals(aggregate: &AggregateExec) -> bool {
    let schema = aggregate.input_schema();
    let is_decimal = |argument: &Arc<dyn PhysicalExpr>| {
        argument.data_type(&schema).is_ok_and(|ty| matches!(ty, DataType::Decimal128(..)))
    };
    aggregate.aggr_expr().iter().any(|function| function.expressions().iter().any(is_decimal))
}

/// A scan of bricks, and what is made of its rows below an aggregate.
struct Source {
    scan: BrickScan,
    /// The aggregate's input, over the scan's columns.
    columns: Vec<Arc<dyn PhysicalExpr>>,
    conjuncts: Vec<Arc<dyn PhysicalExpr>>,
}

impl Source {
    /// `None` if there is more than filters and projections above a scan, or the scan is not of bricks.
    fn below(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(scan) = plan.downcast_ref::<BrickScan>() {
            let fields = scan.output.fields().iter().enumerate();
            let columns =
                fields.map(|(place, field)| Arc::new(Column::new(field.name(), place)) as _).collect();
            return scan.limit.is_none().then(|| Self { scan: scan.clone(), columns, conjuncts: Vec::new() });
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none()) {
            let mut source = Self::below(filter.input())?;
            let predicate = source.over_scan(filter.predicate())?;
            source.conjuncts.extend(split_conjunction(&predicate).into_iter().cloned());
            if let Some(kept) = filter.projection() {
                source.columns = kept.iter().map(|place| Arc::clone(&source.columns[*place])).collect();
            }
            return Some(source);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let mut source = Self::below(projection.input())?;
            let columns = projection.expr().iter().map(|one| source.over_scan(&one.expr));
            source.columns = columns.collect::<Option<_>>()?;
            return Some(source);
        }
        let passed_on = match (plan.downcast_ref::<RepartitionExec>(), plan.downcast_ref::<CooperativeExec>())
        {
            (Some(repartition), _) => {
                let is_plain = matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_));
                is_plain.then(|| repartition.input())
            }
            (_, cooperative) => cooperative.map(CooperativeExec::input),
        };
        Self::below(passed_on?)
    }

    /// An expression over `columns` as one over the scan's; `None` if it is volatile, as it may come to stand twice.
    fn over_scan(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let expression = replaced(expression, &|column| Arc::clone(&self.columns[column.index()]));
        (!is_volatile(&expression)).then_some(expression)
    }

    /// The groups by these expressions over `columns`, if bricks have numbers for these and it pays to go by them.
    fn grouping(&self, expressions: &[(Arc<dyn PhysicalExpr>, String)]) -> Option<Grouping> {
        let place = |(expression, _): &(Arc<dyn PhysicalExpr>, String)| {
            let expression = self.over_scan(expression)?;
            let place = expression.downcast_ref::<Column>()?.index();
            Some(self.scan.projection[place])
        };
        let columns = expressions.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let BrickSource { snapshot, parts, .. } = &self.scan.source;
        let pieces = || parts.iter().flatten();
        let bricks: BTreeMap<BrickId, &BrickView> =
            pieces().map(|piece| (piece.brick.id(), &piece.brick)).collect();
        let grouping = snapshot.grouping(&bricks.into_values().collect::<Vec<_>>(), &columns)?;
        let (groups_max, times) = match grouping.is_of_brick() {
            true => (GROUPS_OF_BRICK_MAX, pieces().count()),
            false => (GROUPS_OF_PART_MAX, parts.len()),
        };
        let rows: usize = pieces().map(|piece| piece.rows.len()).sum();
        let groups = grouping.groups();
        let pays = groups <= groups_max && groups * times * ROWS_PER_GROUP_MIN <= rows;
        pays.then_some(grouping)
    }

    fn task(self, aggregate: &AggregateExec, grouping: Option<Grouping>) -> Task {
        let functions = aggregate.aggr_expr();
        let arguments: Vec<_> = functions.iter().map(|function| function.expressions()).collect();
        // Arguments name some of the aggregate's columns, and these and the conjuncts some of the scan's.
        let input_places = places(arguments.iter().flatten());
        let inputs: Vec<_> = input_places.iter().map(|place| Arc::clone(&self.columns[*place])).collect();
        let mut scan_places = places(&inputs);
        let input_columns = scan_places.len();
        let of_conjuncts = places(&self.conjuncts).into_iter();
        let others: Vec<usize> = of_conjuncts.filter(|place| !scan_places.contains(place)).collect();
        scan_places.extend(others);
        let inputs: Vec<_> = inputs.iter().map(|input| renumbered(input, &scan_places)).collect();
        let calls = functions.iter().zip(arguments).map(|(function, arguments)| {
            let arguments: Vec<_> = arguments.iter().map(|one| renumbered(one, &input_places)).collect();
            let nullable_argument = nullable_argument(function, &arguments, &inputs);
            Call { function: Arc::clone(function), arguments, nullable_argument }
        });
        let projected = |schema: &Schema, places: &[usize]| {
            Arc::new(Schema::new(
                places.iter().map(|place| Arc::clone(&schema.fields()[*place])).collect::<Vec<_>>(),
            ))
        };
        Task {
            calls: calls.collect(),
            conjuncts: self.conjuncts.iter().map(|one| self.conjunct(one, &scan_places)).collect(),
            input_schema: projected(&aggregate.input().schema(), &input_places),
            scanned: projected(&self.scan.output, &scan_places),
            projection: scan_places.iter().map(|place| self.scan.projection[*place]).collect(),
            source: self.scan.source,
            // It goes in the place of the aggregate, and makes no filter.
            hints: self.scan.hints.without(&aggregate.dynamic_expressions_produced()),
            input_columns,
            inputs,
            grouping,
            output: aggregate.schema(),
        }
    }

    fn conjunct(&self, predicate: &Arc<dyn PhysicalExpr>, places: &[usize]) -> Conjunct {
        let BrickSource { snapshot, def, .. } = &self.scan.source;
        let live: Vec<usize> = def.live_columns().map(|(index, _)| index).collect();
        let source = |place: &usize| SourceColumn { index: live[*place], ty: def.columns[live[*place]].ty };
        let columns: Vec<SourceColumn> = self.scan.projection.iter().map(source).collect();
        let selected = exactly_selected(snapshot.selection(), def, predicate, &columns);
        Conjunct { predicate: renumbered(predicate, places), selected }
    }
}

/// The columns that these expressions name, ascending.
fn places<'a>(expressions: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Vec<usize> {
    let named = expressions.into_iter().flat_map(collect_columns).map(|column| column.index());
    named.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The expression over those columns alone that `places` names, all of its own among them.
fn renumbered(expression: &Arc<dyn PhysicalExpr>, places: &[usize]) -> Arc<dyn PhysicalExpr> {
    replaced(expression, &|column| {
        let place = places.iter().position(|place| *place == column.index());
        Arc::new(Column::new(column.name(), place.expect("the expression's columns are among the places")))
    })
}

fn replaced(
    expression: &Arc<dyn PhysicalExpr>,
    with: &dyn Fn(&Column) -> Arc<dyn PhysicalExpr>,
) -> Arc<dyn PhysicalExpr> {
    let replaced = Arc::clone(expression).transform_down(|part| match part.downcast_ref::<Column>() {
        Some(column) => Ok(Transformed::new(with(column), true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(part)),
    });
    replaced.expect("the closure does not fail").data
}

/// See [`Call::nullable_argument`].
fn nullable_argument(
    function: &AggregateFunctionExpr,
    arguments: &[Arc<dyn PhysicalExpr>],
    inputs: &[Arc<dyn PhysicalExpr>],
) -> Option<usize> {
    let [argument] = arguments else { return None };
    let input = &inputs[argument.downcast_ref::<Column>()?.index()];
    let column = input.downcast_ref::<Column>()?.index();
    SKIP_NULLS.contains(&function.fun().name()).then_some(column)
}
