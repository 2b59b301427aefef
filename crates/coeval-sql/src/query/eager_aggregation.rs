// SPDX-License-Identifier: Apache-2.0
//! Aggregates begun below joins.
//!
//! `SELECT o.day, sum(l.amount) FROM orders o JOIN lines l ON l.order_id = o.id GROUP BY o.day` joins all lines and adds
//! them up behind. Where the lines of one order are many, adding them up first leaves one row of each order to be
//! joined. This is the eager group-by of Yan and Larson (*Eager Aggregation and Lazy Aggregation*, VLDB 1995): the
//! table whose columns are aggregated is grouped by those of its columns that anything else names, and what was
//! aggregated above the joins becomes the aggregate of these parts.
//!
//! It is right because the joins are inner: rows of the table that agree in all columns that are named elsewhere meet the
//! same rows of the other tables and end in the same group, if nothing is volatile. What is computed of a column that is named elsewhere must
//! be the same of equal values, so these are of types whose equal values are the same (`joined_tables`). What is aggregated is computed of
//! rows that the joins would have left out, too, so it is a column, or something else that cannot fail.
//!
//! Where it is grouped by several sets (ROLLUP, CUBE, GROUPING SETS), the table is grouped by its columns of all of them, once, and the sets are
//! made above the joins.
//!
//! It is done where it is estimated to pay: if the table has [`ROWS_PER_GROUP_MIN`] rows in each group, and what comes out
//! of the joins is more than [`JOINED_PER_GROUP_MIN`] times the groups. Joins that let little through are better done
//! first.

use super::group_values::group_values;
use super::join_order::{Cluster, Parts, Relation, is_inner_join};
use super::joined_tables::is_exact;
use super::late_joins::{cannot_fail, digits_before};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, Filter, Join, LogicalPlan, Projection, lit,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Rows of a table that each group must have.
const ROWS_PER_GROUP_MIN: f64 = 3.0;

/// Rows that the joins must give for each group: a group costs its place in a table and a look-up in each join.
const JOINED_PER_GROUP_MIN: f64 = 2.0;

/// Fewer rows are not worth it.
const ROWS_MIN: f64 = 10_000.0;

/// Digits of numbers that may be added up in two steps: sums of up to 10^10 of them, in however many steps, have ten digits more.
const DIGITS_MAX: u32 = 28;

/// What the names of parts begin with.
const PART: &str = "coeval_part";

/// Groups a table before it is joined.
#[derive(Debug, Default)]
pub(crate) struct EagerAggregation;

impl OptimizerRule for EagerAggregation {
    fn name(&self) -> &'static str {
        "coeval_eager_aggregation"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        if !is_inner_join(&aggregate.input) {
            return Ok(Transformed::no(plan));
        }
        match eager(aggregate, config)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// One aggregate, and how its parts become it.
pub(super) struct Call<'a> {
    whole: &'a Expr,
    function: &'a Arc<AggregateUDF>,
    /// The columns of what is aggregated; none of `count(*)`.
    columns: Vec<&'a Column>,
    arguments: &'a [Expr],
}

impl<'a> Call<'a> {
    /// `None` if its parts do not make it, or might fail where it would not.
    pub(super) fn of(whole: &'a Expr, input: &LogicalPlan) -> Result<Option<Self>> {
        // What was given another type on the way has the name that it had before.
        let call = if let Expr::Alias(alias) = whole { alias.expr.as_ref() } else { whole };
        let Expr::AggregateFunction(AggregateFunction { func, params }) = call else { return Ok(None) };
        let AggregateFunctionParams { args, distinct: false, filter: None, order_by, null_treatment: None } =
            params
        else {
            return Ok(None);
        };
        let [argument] = args.as_slice() else { return Ok(None) };
        if !cannot_fail(argument, input.schema()) {
            return Ok(None);
        }
        let mut columns: Vec<&Column> = argument.column_refs().into_iter().collect();
        columns.sort();
        let is_exact = match func.name() {
            "sum" => match argument.get_type(input.schema())? {
                DataType::Decimal128(digits, scale) => {
                    let before = digits_before(argument, input.schema());
                    before.map_or(u32::from(digits), |before| before + u32::from(scale.unsigned_abs()))
                        <= DIGITS_MAX
                }
                // Four bytes were made eight: no sum of what fits into a table is longer. The sum of eight is a decimal of 38 digits, which is
                // long enough, too.
                DataType::Int64 => {
                    matches!(argument, Expr::Cast(_)) || whole.get_type(input.schema())?.is_decimal()
                }
                // The same of whole numbers. Sums of floats may pass them, also where rows have no partner and no sum is asked for.
                DataType::Float64 => matches!(argument, Expr::Cast(_)),
                _ => false,
            },
            "count" => true,
            "min" | "max" => matches!(argument, Expr::Column(_)),
            _ => false,
        };
        let is_plain = order_by.is_empty() && (!columns.is_empty() || func.name() == "count");
        let call = Self { whole, function: func, columns, arguments: args };
        Ok((is_exact && is_plain).then_some(call))
    }

    /// Whether it is of parts of another aggregate.
    pub(super) fn is_of_parts(&self) -> bool {
        self.columns.iter().any(|column| column.name.starts_with(PART))
    }

    /// What the part is, below the joins.
    pub(super) fn part(&self, name: &str) -> Expr {
        self.of_arguments(self.function, self.arguments.to_vec()).alias(name)
    }

    /// The aggregate of the parts.
    fn merged(&self, name: &str, sum: &Arc<AggregateUDF>) -> Expr {
        let function = if self.function.name() == "count" { sum } else { self.function };
        self.of_arguments(function, vec![Expr::Column(Column::from_name(name))])
    }

    fn of_arguments(&self, function: &Arc<AggregateUDF>, arguments: Vec<Expr>) -> Expr {
        let function = Arc::clone(function);
        Expr::AggregateFunction(AggregateFunction::new_udf(function, arguments, false, None, vec![], None))
    }

    /// The value of the aggregate, out of that of its parts, which is `merged`.
    fn result(&self, merged: Expr, plan: &LogicalPlan, ty: &DataType) -> Result<Expr> {
        let merged =
            if self.function.name() == "count" { coalesce(vec![merged, lit(0_i64)]) } else { merged };
        merged.cast_to(ty, plan.schema())
    }
}

/// The aggregate begun below its joins; `None` if that cannot be done, or does not pay.
fn eager(aggregate: &Aggregate, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    if aggregate.aggr_expr.is_empty() {
        return Ok(None);
    }
    // Each row has a value of its own.
    if group_values(aggregate).into_iter().any(Expr::is_volatile) {
        return Ok(None);
    }
    let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
    for expression in &aggregate.aggr_expr {
        match Call::of(expression, &aggregate.input)? {
            Some(call) => calls.push(call),
            None => return Ok(None),
        }
    }
    let mut joins = Parts::default();
    if !joins.take_apart(&aggregate.input) || !joins.are_of_columns() {
        return Ok(None);
    }
    let Some(chosen) = aggregated(&joins.relations, &calls) else { return Ok(None) };
    let chosen_plan = &joins.relations[chosen];
    let Some(keys) = keys(&joins, aggregate, chosen_plan) else { return Ok(None) };
    // Without keys there is a row even if the table has none, and it would make groups of the other tables' rows.
    if keys.is_empty() && !aggregate.group_expr.is_empty() {
        return Ok(None);
    }
    if !pays(aggregate, chosen_plan, &keys, config)? {
        return Ok(None);
    }
    let names = part_names(&calls, config);
    let keys = keys.into_iter().map(Expr::Column).collect();
    let parts = calls.iter().zip(&names).map(|(call, name)| call.part(name)).collect();
    let grouped = Aggregate::try_new(Arc::new(chosen_plan.clone()), keys, parts)?;
    let joined = with_relation(&aggregate.input, &mut chosen.clone(), &LogicalPlan::Aggregate(grouped))?;
    merged(aggregate, &calls, &names, joined).map(Some)
}

/// The columns of this relation that joins and groups name; `None` if they compute something of one whose equal values may differ.
fn keys(joins: &Parts, aggregate: &Aggregate, relation: &LogicalPlan) -> Option<Vec<Column>> {
    let schema = relation.schema();
    let has_exact = |column: &Column| {
        let place = schema.maybe_index_of_column(column);
        place.is_some_and(|place| is_exact(schema.field(place).data_type()))
    };
    // Of what is grouped by as it is, any of the equal values will do.
    let (plain, computed): (Vec<&Expr>, Vec<&Expr>) =
        group_values(aggregate).into_iter().partition(|value| matches!(value, Expr::Column(_)));
    let mut named = joins.named();
    named.extend(computed.into_iter().flat_map(Expr::column_refs).cloned());
    named.retain(|column| schema.has_column(column));
    if !named.iter().all(has_exact) {
        return None;
    }
    let plain = plain.into_iter().flat_map(Expr::column_refs).cloned();
    named.extend(plain.filter(|column| schema.has_column(column)));
    Some(named.into_iter().collect())
}

/// Names for the parts of these.
pub(super) fn part_names(calls: &[Call<'_>], config: &dyn OptimizerConfig) -> Vec<String> {
    calls.iter().map(|_| config.alias_generator().next(PART)).collect()
}

/// The aggregate over parts, under the names of the one that it stands for.
pub(super) fn merged(
    aggregate: &Aggregate,
    calls: &[Call<'_>],
    names: &[String],
    joined: LogicalPlan,
) -> Result<LogicalPlan> {
    let sum = datafusion::functions_aggregate::sum::sum_udaf();
    let wholes = calls.iter().zip(names).map(|(call, name)| call.merged(name, &sum)).collect();
    let top = Aggregate::try_new(Arc::new(joined), aggregate.group_expr.clone(), wholes)?;
    let top = LogicalPlan::Aggregate(top);
    let columns = top.schema().columns();
    let (groups, values) = columns.split_at(aggregate.group_expr_len()?);
    let mut outputs: Vec<Expr> = groups.iter().cloned().map(Expr::Column).collect();
    for (call, value) in calls.iter().zip(values) {
        let ty = call.whole.get_type(aggregate.input.schema())?;
        let value = call.result(Expr::Column(value.clone()), &top, &ty)?;
        outputs.push(value.alias(call.whole.schema_name().to_string()));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(top))?))
}

/// Whether it is estimated to pay to group this relation by these columns.
fn pays(
    aggregate: &Aggregate,
    plan: &LogicalPlan,
    keys: &[Column],
    config: &dyn OptimizerConfig,
) -> Result<bool> {
    let relation = Relation::of(plan, &[], config);
    // How often a value occurs in what a subquery gives is not known well enough.
    if !relation.is_table() || relation.rows < ROWS_MIN {
        return Ok(false);
    }
    let mut groups = 1.0;
    for key in keys {
        let Some(values) = relation.distinct(key, plan, config)? else { return Ok(false) };
        groups *= values;
    }
    if groups * ROWS_PER_GROUP_MIN > relation.rows {
        return Ok(false);
    }
    let Some(cluster) = Cluster::of(&aggregate.input, 2)? else { return Ok(false) };
    Ok(groups * JOINED_PER_GROUP_MIN < cluster.sizes(config)?.rows())
}

/// The one relation that all aggregated columns are of. `None` if there are several, or no column is aggregated.
fn aggregated(relations: &[LogicalPlan], calls: &[Call<'_>]) -> Option<usize> {
    let of = |column: &Column| relations.iter().position(|one| one.schema().has_column(column));
    let mut found = calls.iter().flat_map(|call| &call.columns).copied().map(of);
    let first = found.next()??;
    found.all(|other| other == Some(first)).then_some(first)
}

/// The joins with `new` in the place of the relation with this number.
fn with_relation(plan: &LogicalPlan, number: &mut usize, new: &LogicalPlan) -> Result<LogicalPlan> {
    let mut below = |plan: &LogicalPlan| with_relation(plan, number, new).map(Arc::new);
    match plan {
        LogicalPlan::Join(join) if is_inner_join(plan) => {
            let (left, right) = (below(&join.left)?, below(&join.right)?);
            let (on, filter) = (join.on.clone(), join.filter.clone());
            let (kind, constraint, nulls) = (join.join_type, join.join_constraint, join.null_equality);
            let join = Join::try_new(left, right, on, filter, kind, constraint, nulls, join.null_aware)?;
            Ok(LogicalPlan::Join(join))
        }
        LogicalPlan::Filter(filter) if is_inner_join(&filter.input) => {
            let input = below(&filter.input)?;
            Ok(LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input)?))
        }
        // It picks columns, which are others now; what is too much is left out by a rule behind this one.
        LogicalPlan::Projection(projection) if is_inner_join(plan) => {
            below(&projection.input).map(Arc::unwrap_or_clone)
        }
        relation => {
            let is_chosen = *number == 0;
            *number = number.wrapping_sub(1);
            Ok(if is_chosen { new.clone() } else { relation.clone() })
        }
    }
}

#[cfg(test)]
mod tests;
