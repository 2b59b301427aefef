// SPDX-License-Identifier: Apache-2.0
//! A subquery for all rows around it at once: its equations with them are taken out, and what they compare becomes columns to
//! join it by.
//!
//! # Steps
//! From the tables up, each node is made for all keys together, and has the *key columns* behind its own:
//!
//! ```text
//! Filter: t.k = outer(g.k)         -> Projection: ..., t.k AS key
//! Limit: 2 of Sort: v              -> Filter: n <= 2 of row_number() OVER (PARTITION BY key ORDER BY v) AS n
//! Aggregate: max(v)                -> Aggregate: max(v) GROUP BY key
//! ```
//!
//! # Why it is the same
//! An equation is true of the rows of one key alone, and never of NULL. What is done to the rows of a key is done without those of
//! other keys: they are numbered, grouped and made distinct within it. So the rows with a key are those that the subquery has for a
//! row around it with that key. Only aggregates of all rows have a row where there is none: `empty` has its values.
//!
//! # Edges
//! Values that a join takes for equal have to be of one group, so a key is of a type where they are (zeros of floats are not).
//! All nodes that are not named here leave the subquery as it is, and so do values for no rows that would become too large.

use crate::query::dependencies::depends_on;
use crate::query::substitution::Room;
use crate::stack::with_room;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprFunctionExt, ExprSchemable, Filter, Join, JoinType, Limit,
    LogicalPlan, Operator, Projection, SubqueryAlias, Window, WindowFrame, cast, lit,
};
use std::cell::Cell;
use std::sync::Arc;

/// Names of columns that a plan has not yet.
#[derive(Debug, Default)]
pub(super) struct Names {
    given: Cell<usize>,
}

impl Names {
    pub(super) fn next(&self) -> String {
        let number = self.given.get() + 1;
        self.given.set(number);
        format!("coeval_joined_{number}")
    }
}

/// What has to be equal for a row of the subquery to be one for a row around it.
pub(super) struct Key {
    /// An expression over the row around it.
    pub(super) outer: Expr,
    /// The key column.
    pub(super) inner: Column,
}

/// A subquery for all keys at once.
pub(super) struct Pulled {
    /// Its columns, and behind them the key columns.
    pub(super) plan: LogicalPlan,
    pub(super) keys: Vec<Key>,
    /// Whether there is one row of each key at most.
    pub(super) is_single: bool,
    /// What the columns are where a key has no rows, if there is a row then as well.
    pub(super) empty: Option<Vec<Expr>>,
}

impl Pulled {
    fn key_columns(&self) -> impl Iterator<Item = Expr> + '_ {
        self.keys.iter().map(|key| Expr::Column(key.inner.clone()))
    }
}

/// The plan with these outputs.
///
/// # Errors
/// If it has not what they name: a bug.
pub(super) fn projected(plan: LogicalPlan, outputs: Vec<Expr>) -> Result<LogicalPlan> {
    Projection::try_new(outputs, Arc::new(plan)).map(LogicalPlan::Projection)
}

fn columns(schema: &DFSchema) -> impl Iterator<Item = Expr> {
    schema.columns().into_iter().map(Expr::Column)
}

/// Whether a plan depends on rows around it.
///
/// # Errors
/// If the plan cannot be walked: a bug.
fn depends(plan: &LogicalPlan) -> Result<bool> {
    let mut found = Vec::new();
    depends_on(plan, &mut found)?;
    Ok(!found.is_empty())
}

/// The subquery for all keys; `None` if it depends on the row around it in another way. Subqueries in its expressions depend on nothing.
///
/// # Errors
/// What DataFusion finds wrong while it rebuilds the plan.
pub(super) fn pulled(plan: &LogicalPlan, names: &Names) -> Result<Option<Pulled>> {
    with_room(|| pulled_node(plan, names))
}

fn pulled_node(plan: &LogicalPlan, names: &Names) -> Result<Option<Pulled>> {
    if !depends(plan)? {
        return Ok(Some(Pulled { plan: plan.clone(), keys: Vec::new(), is_single: false, empty: None }));
    }
    match plan {
        LogicalPlan::Filter(filter) => pulled_filter(filter, names),
        LogicalPlan::Projection(projection) => pulled_projection(projection, names),
        LogicalPlan::SubqueryAlias(alias) => pulled_alias(alias, names),
        LogicalPlan::Limit(limit) => pulled_limit(limit, names),
        LogicalPlan::Aggregate(aggregate) => pulled_aggregate(aggregate, names),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let distinct = |rows: Pulled| {
                let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(rows.plan)));
                Pulled { plan, ..rows }
            };
            Ok(pulled(input, names)?.map(distinct))
        }
        LogicalPlan::Join(join) => pulled_join(join, names),
        _ => Ok(None),
    }
}

fn pulled_filter(filter: &Filter, names: &Names) -> Result<Option<Pulled>> {
    let Some(rows) = pulled(&filter.input, names)? else { return Ok(None) };
    // A condition on the row that there is without rows.
    if rows.empty.is_some() {
        return Ok(None);
    }
    filtered(rows, &split_conjunction(&filter.predicate), filter.input.schema(), names)
}

/// The rows that fulfil conditions, which are over `schema`.
fn filtered(
    mut rows: Pulled,
    conditions: &[&Expr],
    schema: &DFSchema,
    names: &Names,
) -> Result<Option<Pulled>> {
    let (mut kept, mut equations) = (Vec::new(), Vec::new());
    for &condition in conditions {
        if condition.contains_outer() {
            let Some(equation) = equation(condition, schema)? else { return Ok(None) };
            equations.push(equation);
        } else {
            kept.push(condition.clone());
        }
    }
    if let Some(condition) = conjunction(kept) {
        rows.plan = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(rows.plan))?);
    }
    if equations.is_empty() {
        return Ok(Some(rows));
    }
    let mut outputs: Vec<Expr> = columns(rows.plan.schema()).collect();
    for (inner, outer) in equations {
        let name = names.next();
        outputs.push(inner.alias(name.clone()));
        rows.keys.push(Key { outer, inner: Column::from_name(name) });
    }
    rows.plan = projected(rows.plan, outputs)?;
    Ok(Some(rows))
}

/// The two sides of an equation of an expression over rows of `schema` with one over the row around them.
fn equation(condition: &Expr, schema: &DFSchema) -> Result<Option<(Expr, Expr)>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return Ok(None) };
    for (inner, outer) in [(left, right), (right, left)] {
        let is_equation = !inner.contains_outer()
            && names_columns(inner)?
            && outer.contains_outer()
            && !names_columns(outer)?
            && is_one_group(&inner.get_type(schema)?, &outer.get_type(schema)?);
        if is_equation {
            return Ok(Some((inner.as_ref().clone(), outer.as_ref().clone())));
        }
    }
    Ok(None)
}

/// Whether an expression names columns of its own query's rows, itself or in a subquery.
fn names_columns(expression: &Expr) -> Result<bool> {
    expression.exists(|part| {
        Ok(matches!(
            part,
            Expr::Column(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    })
}

/// Whether values of the first type that a join takes for equal with one of the second are of one group.
fn is_one_group(inner: &DataType, outer: &DataType) -> bool {
    let is_exact = |ty: &DataType| ty.is_integer() || matches!(ty, DataType::Decimal128(..));
    let is_text = |ty: &DataType| matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_plain = |ty: &DataType| {
        matches!(ty, DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
    };
    (is_exact(inner) && is_exact(outer))
        || (is_text(inner) && is_text(outer))
        || (inner == outer && is_plain(inner))
}

fn pulled_projection(projection: &Projection, names: &Names) -> Result<Option<Pulled>> {
    let Some(mut rows) = pulled(&projection.input, names)? else { return Ok(None) };
    if projection.expr.iter().any(Expr::contains_outer) {
        return Ok(None);
    }
    if let Some(empty) = &rows.empty {
        let (mut room, schema) = (Room::default(), projection.input.schema());
        let outputs = projection.expr.iter();
        let outputs = outputs.map(|output| room.put(without_alias(output), empty, schema));
        let Some(outputs) = outputs.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
        rows.empty = Some(outputs);
    }
    let outputs = projection.expr.iter().cloned().chain(rows.key_columns()).collect();
    rows.plan = projected(rows.plan, outputs)?;
    Ok(Some(rows))
}

fn without_alias(expression: &Expr) -> &Expr {
    match expression {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

fn pulled_alias(alias: &SubqueryAlias, names: &Names) -> Result<Option<Pulled>> {
    let Some(mut rows) = pulled(&alias.input, names)? else { return Ok(None) };
    let named = SubqueryAlias::try_new(Arc::new(rows.plan), alias.alias.clone())?;
    rows.plan = LogicalPlan::SubqueryAlias(named);
    for key in &mut rows.keys {
        key.inner = Column::new(Some(alias.alias.clone()), key.inner.name.clone());
    }
    Ok(Some(rows))
}

fn pulled_limit(limit: &Limit, names: &Names) -> Result<Option<Pulled>> {
    // What is selected of rows in an order is selected behind the count as well.
    if let LogicalPlan::Projection(selected) = limit.input.as_ref()
        && matches!(selected.input.as_ref(), LogicalPlan::Sort(_))
    {
        let (skip, fetch) = (limit.skip.clone(), limit.fetch.clone());
        let counted = LogicalPlan::Limit(Limit { skip, fetch, input: Arc::clone(&selected.input) });
        return pulled_projection(&Projection::try_new(selected.expr.clone(), Arc::new(counted))?, names);
    }
    let Some((skip, fetch)) = counts_of(limit) else { return Ok(None) };
    let (order, input) = match limit.input.as_ref() {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.expr.clone(), &sort.input),
        _ => (Vec::new(), &limit.input),
    };
    let Some(mut rows) = pulled(input, names)? else { return Ok(None) };
    if rows.empty.is_some() {
        // One row of each key.
        return Ok((skip == 0 && fetch != Some(0)).then_some(rows));
    }
    let counts = fetch != Some(0) && (skip > 0 || fetch.is_some());
    if rows.keys.is_empty() || !counts || order.iter().any(|key| key.expr.contains_outer()) {
        return Ok(None);
    }
    let outputs: Vec<Expr> = columns(rows.plan.schema()).collect();
    let number = row_number().partition_by(rows.key_columns().collect()).window_frame(WindowFrame::new(None));
    let number = if order.is_empty() { number.build()? } else { number.order_by(order).build()? };
    let place = cast(Expr::Column(Column::from_name(number.schema_name().to_string())), DataType::Int64);
    let is_behind = (skip > 0).then(|| place.clone().gt(lit(skip)));
    let is_before = fetch.map(|fetch| place.lt_eq(lit(skip.saturating_add(fetch))));
    rows.plan = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(rows.plan))?);
    if let Some(condition) = conjunction(is_behind.into_iter().chain(is_before)) {
        rows.plan = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(rows.plan))?);
    }
    rows.plan = projected(rows.plan, outputs)?;
    rows.is_single |= fetch == Some(1);
    Ok(Some(rows))
}

/// How many rows are skipped, and how many are taken, if not all; `None` if that is no constant, or wrong.
pub(super) fn counts_of(limit: &Limit) -> Option<(i64, Option<i64>)> {
    let constant = |count: &Option<Box<Expr>>| match count.as_deref() {
        None => Some(None),
        Some(Expr::Literal(value, _)) => match value.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(count) => count.is_none_or(|count| count >= 0).then_some(count),
            _ => None,
        },
        Some(_) => None,
    };
    Some((constant(&limit.skip)?.unwrap_or(0), constant(&limit.fetch)?))
}

fn pulled_aggregate(aggregate: &Aggregate, names: &Names) -> Result<Option<Pulled>> {
    let groups = &aggregate.group_expr;
    let is_plain = !groups.iter().any(|group| matches!(group, Expr::GroupingSet(_)))
        && !groups.iter().chain(&aggregate.aggr_expr).any(Expr::contains_outer);
    if !is_plain {
        return Ok(None);
    }
    let Some(mut rows) = pulled(&aggregate.input, names)? else { return Ok(None) };
    if rows.empty.is_some() || rows.keys.is_empty() {
        return Ok(None);
    }
    if groups.is_empty() {
        rows.is_single = true;
        rows.empty = results_of_none(aggregate)?;
        if rows.empty.is_none() {
            return Ok(None);
        }
    } else {
        rows.is_single = false;
    }
    let groups = groups.iter().cloned().chain(rows.key_columns()).collect();
    let outputs = columns(&aggregate.schema).chain(rows.key_columns()).collect();
    let grouped = Aggregate::try_new(Arc::new(rows.plan), groups, aggregate.aggr_expr.clone())?;
    rows.plan = projected(LogicalPlan::Aggregate(grouped), outputs)?;
    Ok(Some(rows))
}

/// What the aggregates, which have no groups, are of no rows; `None` if one of the expressions is no aggregate.
fn results_of_none(aggregate: &Aggregate) -> Result<Option<Vec<Expr>>> {
    let expressions = aggregate.aggr_expr.iter().zip(aggregate.schema.fields());
    let results = expressions.map(|(expression, field)| match without_alias(expression) {
        Expr::AggregateFunction(call) => {
            let result = call.func.default_value(field.data_type())?;
            Ok(Some(Expr::Literal(result, None)))
        }
        _ => Ok(None),
    });
    results.collect()
}

fn pulled_join(join: &Join, names: &Names) -> Result<Option<Pulled>> {
    let may_depend = match join.join_type {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => !depends(&join.right)?,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => !depends(&join.left)?,
        _ => false,
    };
    let on_outer = join.on.iter().any(|(left, right)| left.contains_outer() || right.contains_outer());
    let conditions = join.filter.as_ref().map(split_conjunction).unwrap_or_default();
    let (outer, own): (Vec<&Expr>, Vec<&Expr>) =
        conditions.into_iter().partition(|condition| condition.contains_outer());
    if !may_depend || on_outer || (join.join_type != JoinType::Inner && !outer.is_empty()) {
        return Ok(None);
    }
    let Some(left) = pulled(&join.left, names)? else { return Ok(None) };
    let Some(right) = pulled(&join.right, names)? else { return Ok(None) };
    if left.empty.is_some() || right.empty.is_some() {
        return Ok(None);
    }
    let joined = Join::try_new(
        Arc::new(left.plan),
        Arc::new(right.plan),
        join.on.clone(),
        conjunction(own.into_iter().cloned()),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let keys: Vec<Key> = left.keys.into_iter().chain(right.keys).collect();
    let mut rows = Pulled { plan: LogicalPlan::Join(joined), keys, is_single: false, empty: None };
    let outputs = columns(&join.schema).chain(rows.key_columns()).collect();
    rows.plan = projected(rows.plan, outputs)?;
    filtered(rows, &outer, &merge_schema(&[join.left.as_ref(), join.right.as_ref()]), names)
}
