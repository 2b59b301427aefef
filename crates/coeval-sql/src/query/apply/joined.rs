// SPDX-License-Identifier: Apache-2.0
//! Subqueries that ran for each row, as joins with what they are for all rows.
//!
//! ```text
//! coeval_apply[SELECT v FROM t WHERE t.k = outer(g.k) ORDER BY v LIMIT 1](g.k) over g
//!   -> v over (g LEFT JOIN (the first v of each k in t) ON g.k = k)
//! ```
//! `pulled` makes what is joined; the table has what becomes of the call:
//!
//! | call | join | its value |
//! |---|---|---|
//! | one value | left | the column; where there may be several rows, checked by `only_row` |
//! | EXISTS | left, with each key once | whether there is a key |
//! | rows of LATERAL | inner; left, if it is a LEFT JOIN or an aggregate of all rows | the columns, and what is selected of them and of the row around |
//!
//! # What stays
//! A subquery runs for all rows what it would have run for some. So it stays as it is where that could be seen: if it is volatile, or
//! could fail for rows that nobody asks for (division, texts that are cast, functions that are not known to have an answer for all
//! values; sums, differences and products are taken to be within their type). It stays as well where it is quicker: a few rows around a
//! large table, which may have an index. And so do those over the catalog and over tables of other servers and nodes.

use super::only_row::only_row;
use super::pulled::{Names, Pulled, counts_of, projected, pulled};
use super::{Apply, Question, with_values};
use crate::carried::Carry;
use crate::error::SqlError;
use crate::provider::{CoevalTable, StatementSnapshot};
use crate::query::arithmetic::checked_operators;
use crate::query::dependencies::subquery_of;
use crate::query::join_order::Relation;
use crate::query::origins::catalog_type;
use crate::query::substitution::Room;
use crate::query::typing::{DIVISION, any_of_group};
use crate::scalar::cast_function::CAST;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinConstraint, NullEquality, NullHandling, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::SessionState;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Join, JoinType, LogicalPlan, Operator, Projection,
    TableScan, lit, when,
};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

/// So many rows are read and put in order in the time that it takes to plan and run a subquery once.
const ROWS_PER_RUN: f64 = 25_000.0;

/// The plan with joins in the place of subqueries that would run for each row, where that is the same and may pay. The state is that
/// of the statement, with its snapshot.
///
/// # Errors
/// What DataFusion finds wrong while it rebuilds the plan.
pub(in crate::query) fn joined(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let joins = Joins { state, names: Names::default() };
    plan.transform_up_with_subqueries(|node| joins.replaced(node)).map(|done| done.data)
}

/// Puts joins into a plan.
struct Joins<'s> {
    state: &'s SessionState,
    names: Names,
}

/// The rows around subqueries.
struct Around<'p> {
    plan: &'p LogicalPlan,
    /// About how many they are, once that is asked.
    count: OnceCell<f64>,
}

/// The side of a join that a subquery becomes.
struct Side {
    plan: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    /// A column that is NULL where there are no rows, and only there.
    found: Expr,
    /// What the columns of the subquery are.
    values: Vec<Expr>,
    /// Whether there is a row where there are none.
    has_empty: bool,
}

impl Joins<'_> {
    fn replaced(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if let Some(joined) = self.lateral(&node)? {
            return Ok(Transformed::yes(joined));
        }
        let is_row_by_row = matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Sort(_)
        );
        let calls = if is_row_by_row { calls_of(&node)? } else { Vec::new() };
        let input = node.inputs().first().copied().filter(|_| !calls.is_empty());
        let Some(input) = input else { return Ok(Transformed::no(node)) };
        let around = Around { plan: input, count: OnceCell::new() };
        let (mut rows, mut values) = (around.plan.clone(), Vec::new());
        for call in calls {
            if let Some((side, value)) = self.valued(&call, &around)? {
                rows = side.beside(rows, JoinType::Left)?;
                values.push((call, value));
            }
        }
        if values.is_empty() {
            return Ok(Transformed::no(node));
        }
        with_values_of_calls(&node, rows, &values).map(Transformed::yes)
    }

    /// The join's side for the call of a subquery, and what becomes of the call.
    fn valued(&self, call: &Expr, around: &Around<'_>) -> Result<Option<(Side, Expr)>> {
        let Some((apply, arguments)) = apply_of(call) else { return Ok(None) };
        let inner = match apply.question {
            Question::Value => apply.plan.as_ref(),
            Question::Exists => rows_of_exists(&apply.plan),
            Question::Compares(..) | Question::Rows => return Ok(None),
        };
        let Some(rows) = self.for_all_rows(apply, inner, arguments, around)? else { return Ok(None) };
        if apply.question == Question::Exists {
            if rows.empty.is_some() {
                return Ok(None);
            }
            let side = self.side(distinct_keys(rows)?, apply, arguments)?;
            let exists = side.found.clone().is_not_null();
            return Ok(Some((side, exists)));
        }
        let is_single = rows.is_single;
        let rows = if is_single { rows } else { self.counted(rows)? };
        let side = self.side(rows, apply, arguments)?;
        let value = match (is_single, side.values.as_slice()) {
            (true, [value]) => value.clone(),
            (false, [value, count]) => only_row(value.clone(), count.clone()),
            _ => return Ok(None),
        };
        Ok(Some((side, value)))
    }

    /// The node as a join, if it is what became of a LATERAL subquery: fields of the rows, which are unnested.
    fn lateral(&self, node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let LogicalPlan::Projection(fields) = node else { return Ok(None) };
        let LogicalPlan::Unnest(unnest) = fields.input.as_ref() else { return Ok(None) };
        let LogicalPlan::Projection(beside) = unnest.input.as_ref() else { return Ok(None) };
        let Some((Expr::Alias(rows), left)) = beside.expr.split_last() else { return Ok(None) };
        let Some((apply, arguments)) = apply_of(&rows.expr) else { return Ok(None) };
        let is_whole = fields.expr.len() == left.len() + apply.plan.schema().fields().len();
        if apply.question != Question::Rows || !is_whole {
            return Ok(None);
        }
        let around = Around { plan: &beside.input, count: OnceCell::new() };
        let (inner, selected) = selected_above(&apply.plan);
        let Some(rows) = self.for_all_rows(apply, inner, arguments, &around)? else { return Ok(None) };
        let side = self.side(rows, apply, arguments)?;
        let keeps_all = unnest.options.null_handling != NullHandling::Drop;
        let join_type = if keeps_all || side.has_empty { JoinType::Left } else { JoinType::Inner };
        let mut values = side.values.clone();
        if let Some(selected) = selected {
            let fills = if keeps_all && !side.has_empty { Fills::WithNull } else { Fills::Nothing };
            let (mut room, outputs) = (Room::default(), selected.expr.iter());
            let outputs =
                outputs.map(|output| side.selected(output, (selected, fills), (apply, arguments), &mut room));
            let Some(outputs) = outputs.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
            values = outputs;
        }
        let names = fields.schema.iter().skip(left.len());
        let values = values.into_iter().zip(names);
        let values =
            values.map(|(value, (qualifier, field))| value.alias_qualified(qualifier.cloned(), field.name()));
        let outputs = left.iter().cloned().chain(values).collect();
        projected(side.beside(around.plan.clone(), join_type)?, outputs).map(Some)
    }

    /// The subquery for all rows, if that is the same and may pay.
    fn for_all_rows(
        &self,
        apply: &Apply,
        inner: &LogicalPlan,
        arguments: &[Expr],
        around: &Around<'_>,
    ) -> Result<Option<Pulled>> {
        let mut places = 0..apply.plan.schema().fields().len();
        let of_catalog = places.any(|place| catalog_type(&apply.plan, place).is_some());
        if of_catalog || arguments.len() != apply.outer.len() || arguments.iter().any(Expr::contains_outer) {
            return Ok(None);
        }
        let Some(inner) = with_parameters(inner, apply, arguments)? else { return Ok(None) };
        let Some(count) = self.rows_of_joinable(&inner)? else { return Ok(None) };
        if !self.pays(around, count) {
            return Ok(None);
        }
        Ok(pulled(&inner, &self.names)?.filter(|rows| !rows.keys.is_empty()))
    }

    /// Whether it is quicker to read so many rows once than to run a subquery for each row around it.
    fn pays(&self, around: &Around<'_>, inner_rows: f64) -> bool {
        let outer_rows = || {
            let optimized = self.state.optimize(around.plan);
            // What is wrong is found when the whole plan is optimized.
            optimized.map_or(1.0, |optimized| Relation::of(&optimized, &[], self.state).rows)
        };
        inner_rows <= ROWS_PER_RUN || around.count.get_or_init(outer_rows) * ROWS_PER_RUN >= inner_rows
    }

    /// How many rows the tables of a subquery have; `None` if it is to run for each row.
    fn rows_of_joinable(&self, plan: &LogicalPlan) -> Result<Option<f64>> {
        let mut rows = Some(0);
        plan.apply_with_subqueries(|node| {
            let own = match node {
                LogicalPlan::TableScan(scan) => self.rows_of_table(scan),
                // One in an expression, or another LATERAL.
                LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty() => None,
                _ => (!stays(node)?).then_some(0),
            };
            rows = rows.zip(own).map(|(rows, own)| rows + own);
            Ok(if rows.is_some() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
        Ok(rows.map(|rows| rows as f64))
    }

    /// How many rows a table has, if they and their statistics are here.
    fn rows_of_table(&self, scan: &TableScan) -> Option<u64> {
        let provider = source_as_provider(&scan.source).ok()?;
        let table = provider.downcast_ref::<CoevalTable>()?.def();
        let snapshot = StatementSnapshot::carried_by(self.state.config_options())?;
        if table.foreign.is_some() || table.is_spread() {
            return None;
        }
        if table.bricks.is_some() { snapshot.brick_rows(table.id) } else { snapshot.rows(table.id) }
    }

    /// For each key any of its values, and how many there are.
    fn counted(&self, rows: Pulled) -> Result<Pulled> {
        let value = rows.plan.schema().columns().into_iter().next();
        let value = value.ok_or_else(|| SqlError::internal("a subquery has a column"))?;
        let keys: Vec<Expr> = rows.keys.iter().map(|key| Expr::Column(key.inner.clone())).collect();
        let (any, count) = (self.names.next(), self.names.next());
        let aggregates = vec![
            any_of_group(Expr::Column(value)).alias(any.clone()),
            count_udaf().call(vec![lit(1_i64)]).alias(count.clone()),
        ];
        let grouped = Aggregate::try_new(Arc::new(rows.plan), keys.clone(), aggregates)?;
        let outputs = [any, count].map(|name| Expr::Column(Column::from_name(name))).into_iter().chain(keys);
        let plan = projected(LogicalPlan::Aggregate(grouped), outputs.collect())?;
        Ok(Pulled { plan, keys: rows.keys, is_single: true, empty: None })
    }

    /// The side of a join, whose columns have names that nothing else has.
    fn side(&self, rows: Pulled, apply: &Apply, arguments: &[Expr]) -> Result<Side> {
        let columns = rows.plan.schema().columns();
        let names: Vec<String> = columns.iter().map(|_| self.names.next()).collect();
        let outputs = columns.into_iter().zip(&names);
        let outputs = outputs.map(|(column, name)| Expr::Column(column).alias(name.clone())).collect();
        let plan = projected(rows.plan, outputs)?;
        let named = names.into_iter().map(|name| Expr::Column(Column::from_name(name)));
        let mut values: Vec<Expr> = named.collect();
        let keys = values.split_off(values.len() - rows.keys.len());
        let outer = rows.keys.into_iter().map(|key| with_arguments(key.outer, apply, arguments));
        let on: Vec<(Expr, Expr)> =
            outer.zip(&keys).map(|(outer, key)| Ok((outer?, key.clone()))).collect::<Result<_>>()?;
        let found = keys.into_iter().next().ok_or_else(|| SqlError::internal("a subquery has a key"))?;
        let has_empty = rows.empty.is_some();
        for (value, empty) in values.iter_mut().zip(rows.empty.into_iter().flatten()) {
            // A join gives NULL by itself.
            if !matches!(&empty, Expr::Literal(literal, _) if literal.is_null()) {
                *value = when(found.clone().is_null(), empty).otherwise(value.clone())?;
            }
        }
        Ok(Side { plan, on, found, values, has_empty })
    }
}

/// What an output of a LATERAL subquery is where there are no rows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fills {
    WithNull,
    Nothing,
}

impl Side {
    /// What is selected of the rows of a subquery and the row around them, if there is room for it.
    fn selected(
        &self,
        output: &Expr,
        (selected, fills): (&Projection, Fills),
        (apply, arguments): (&Apply, &[Expr]),
        room: &mut Room,
    ) -> Result<Option<Expr>> {
        let schema = selected.input.schema();
        let ty = output.get_type(schema)?;
        let put = room.put(&output.clone().unalias(), &self.values, schema)?;
        let Some(put) = put else { return Ok(None) };
        let value = with_arguments(put, apply, arguments)?;
        Ok(Some(match fills {
            Fills::Nothing => value,
            Fills::WithNull => {
                let nothing = Expr::Literal(ScalarValue::try_new_null(&ty)?, None);
                when(self.found.clone().is_null(), nothing).otherwise(value)?
            }
        }))
    }

    /// The rows, joined with it.
    fn beside(self, rows: LogicalPlan, join_type: JoinType) -> Result<LogicalPlan> {
        let joined = Join::try_new(
            Arc::new(rows),
            Arc::new(self.plan),
            self.on,
            None,
            join_type,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok(LogicalPlan::Join(joined))
    }
}

/// A subquery apart from what it selects, if that names columns of the row around it: it is computed of the joined rows.
fn selected_above(plan: &LogicalPlan) -> (&LogicalPlan, Option<&Projection>) {
    let is_run = |output: &Expr| {
        let is_run = |part: &Expr| part.is_volatile_node() || subquery_of(part).is_some();
        output.exists(|part| Ok(is_run(part))).unwrap_or(true)
    };
    match plan {
        LogicalPlan::Projection(selected)
            if selected.expr.iter().any(Expr::contains_outer) && !selected.expr.iter().any(is_run) =>
        {
            (selected.input.as_ref(), Some(selected))
        }
        _ => (plan, None),
    }
}

/// The subquery that a call is of, and what it is called with.
fn apply_of(call: &Expr) -> Option<(&Apply, &[Expr])> {
    let Expr::ScalarFunction(call) = call else { return None };
    Some((call.func.inner().downcast_ref::<Apply>()?, call.args.as_slice()))
}

/// The calls of subqueries in the expressions of a node, each once.
fn calls_of(node: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut calls = Vec::new();
    node.apply_expressions(|expression| {
        expression.apply(|part| {
            if apply_of(part).is_some() && !calls.contains(part) {
                calls.push(part.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(calls)
}

/// The node over these rows, with values in the place of calls. Its columns are what they were.
fn with_values_of_calls(
    node: &LogicalPlan,
    rows: LogicalPlan,
    values: &[(Expr, Expr)],
) -> Result<LogicalPlan> {
    let names = NamePreserver::new(node);
    let expressions = node.expressions().into_iter().map(|expression| {
        let name = names.save(&expression);
        let done = expression.transform_down(|part| {
            let value = values.iter().find(|(call, _)| *call == part);
            Ok(value.map_or_else(|| Transformed::no(part), |(_, value)| Transformed::yes(value.clone())))
        })?;
        Ok(if done.transformed { name.restore(done.data) } else { done.data })
    });
    let replaced = node.with_new_exprs(expressions.collect::<Result<_>>()?, vec![rows])?;
    match node {
        // They give all columns of the join.
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) => {
            projected(replaced, node.schema().columns().into_iter().map(Expr::Column).collect())
        }
        _ => Ok(replaced),
    }
}

/// The rows of a subquery by which it is told whether there are any.
pub(super) fn rows_of_exists(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(selected) => rows_of_exists(&selected.input),
        LogicalPlan::Distinct(Distinct::All(selected)) => rows_of_exists(selected),
        LogicalPlan::Distinct(Distinct::On(selected)) => rows_of_exists(&selected.input),
        LogicalPlan::Aggregate(grouped) if is_grouping_alone(grouped) => rows_of_exists(&grouped.input),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => rows_of_exists(&sort.input),
        LogicalPlan::Limit(limit) => match counts_of(limit) {
            Some((0, fetch)) if fetch != Some(0) => rows_of_exists(&limit.input),
            _ => plan,
        },
        _ => plan,
    }
}

/// Whether rows are grouped and nothing is computed of the groups, of which there are some if there are rows, and none otherwise.
fn is_grouping_alone(grouped: &Aggregate) -> bool {
    let is_set = |group: &Expr| matches!(group, Expr::GroupingSet(_));
    grouped.aggr_expr.is_empty() && !grouped.group_expr.is_empty() && !grouped.group_expr.iter().any(is_set)
}

/// Each key once.
fn distinct_keys(rows: Pulled) -> Result<Pulled> {
    let keys = rows.keys.iter().map(|key| Expr::Column(key.inner.clone())).collect();
    let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(projected(rows.plan, keys)?)));
    Ok(Pulled { plan, keys: rows.keys, is_single: true, empty: None })
}

/// An expression over the row around the subquery, as one of the query around it.
fn with_arguments(outer: Expr, apply: &Apply, arguments: &[Expr]) -> Result<Expr> {
    let put = outer.transform_down(|part| {
        let place = apply.outer.iter().position(|column| *column == part);
        Ok(place.map_or_else(|| Transformed::no(part), |place| Transformed::yes(arguments[place].clone())))
    })?;
    Ok(put.data)
}

/// The subquery with the values of parameters; `None` if some are not known.
fn with_parameters(inner: &LogicalPlan, apply: &Apply, arguments: &[Expr]) -> Result<Option<LogicalPlan>> {
    let mut values: HashMap<&Expr, &ScalarValue> = HashMap::new();
    for (outer, argument) in apply.outer.iter().zip(arguments) {
        match (outer, argument) {
            (Expr::Placeholder(_), Expr::Literal(value, _)) => {
                values.insert(outer, value);
            }
            (Expr::Placeholder(_), _) => return Ok(None),
            _ => {}
        }
    }
    if values.is_empty() { Ok(Some(inner.clone())) } else { with_values(inner.clone(), &values).map(Some) }
}

/// Whether a node has an expression that is only to run for rows that are asked for.
fn stays(node: &LogicalPlan) -> Result<bool> {
    let schema = merge_schema(&node.inputs());
    let mut stays = false;
    node.apply_expressions(|expression| {
        stays |= expression.exists(|part| Ok(part.is_volatile_node() || may_fail(part, &schema)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(stays)
}

/// Functions that have an answer for all values.
const ANSWERING_ALL: [&str; 32] = [
    "abs",
    "btrim",
    "ceil",
    "character_length",
    "coalesce",
    "coeval_array",
    "coeval_array_contains",
    "coeval_array_overlaps",
    "coeval_concat",
    "coeval_date_after",
    "coeval_date_before",
    "coeval_days_between",
    "coeval_json_get",
    "coeval_json_get_text",
    "coeval_moment_after",
    "coeval_moment_before",
    "coeval_or_empty",
    "coeval_time_between",
    "concat",
    "floor",
    "get_field",
    "greatest",
    "least",
    "lower",
    "ltrim",
    "nullif",
    "replace",
    "round",
    "rtrim",
    "starts_with",
    "strpos",
    "upper",
];

/// Functions that have an answer for all values of one argument, whichever constants the others are, or for none.
const ANSWERING_BY_CONSTANTS: [&str; 10] = [
    "coeval_extract",
    "coeval_ilike",
    "coeval_like",
    "coeval_subscripts",
    "date_trunc",
    "left",
    "right",
    "split_part",
    "substr",
    "to_char",
];

/// Whether an expression may fail for some rows: those that are divided, texts that are read as something else, numbers that are too large
/// for an integer, and what functions have no answer for.
fn may_fail(part: &Expr, schema: &DFSchema) -> bool {
    match part {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => {
            may_be_zero(right)
        }
        Expr::Cast(cast) => {
            let ty = cast.field.data_type();
            (!ty.is_string() && may_be_text(&cast.expr, schema)) || may_narrow(&cast.expr, ty, schema)
        }
        Expr::ScalarFunction(call) => match call.name() {
            DIVISION => call.args.last().is_none_or(may_be_zero),
            CAST => call.args.first().is_none_or(|value| may_be_text(value, schema)),
            name if ANSWERING_BY_CONSTANTS.contains(&name) => {
                call.args.iter().filter(|argument| !matches!(argument, Expr::Literal(..))).count() > 1
            }
            name => {
                let is_same_for_all = call.args.iter().all(|argument| matches!(argument, Expr::Literal(..)));
                let is_known = ANSWERING_ALL.contains(&name)
                    || checked_operators(&call.func).is_some()
                    || apply_of(part).is_some();
                !is_same_for_all && !is_known
            }
        },
        _ => false,
    }
}

/// Whether it is a number that may be too large for this type, an integer.
fn may_narrow(value: &Expr, ty: &DataType, schema: &DFSchema) -> bool {
    let is_wider = |from: DataType| from.is_numeric() && from.primitive_width() > ty.primitive_width();
    let is_constant = matches!(value, Expr::Literal(..));
    ty.is_integer() && !is_constant && value.get_type(schema).is_ok_and(is_wider)
}

fn may_be_zero(divisor: &Expr) -> bool {
    match divisor {
        Expr::Cast(cast) => may_be_zero(&cast.expr),
        Expr::Literal(value, _) => {
            !ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero != *value)
        }
        _ => true,
    }
}

/// Whether it is a text, and not one that is the same for all rows.
fn may_be_text(value: &Expr, schema: &DFSchema) -> bool {
    !matches!(value, Expr::Literal(..)) && !value.get_type(schema).is_ok_and(|ty| !ty.is_string())
}

#[cfg(test)]
mod tests;
