// SPDX-License-Identifier: Apache-2.0
//! Types that are settled as PostgreSQL settles them, once the types of all operands are known.

use super::casts::literal_as;
use super::char_types::{is_char, without_blanks};
use super::numbers::nullable;
use crate::error::SqlError;
use crate::query::arithmetic::rewrite_node;
use crate::scalar::decimal_literal;
use crate::types::column_type_of_arrow;
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, InList, WindowFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator};

/// Digits of a sum of `bigint`, as many as there are.
const SUM_PRECISION: u8 = 38;

/// The plan with sums of `bigint` as `numeric`, literals in BETWEEN and IN of the type beside them, and scalar
/// subqueries that may be NULL.
pub(crate) fn settled(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| rewrite_node(plan, &settle)).map(|done| done.data)
}

fn settle(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let settled = match &expression {
        Expr::AggregateFunction(call) => exact_sum(call, schema),
        Expr::WindowFunction(call) => exact_window_sum(call, schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => pair(left, right, schema)?
            .or_else(|| doubles(left, right, schema))
            .map(|(left, right)| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right)))),
        Expr::Between(between) => settle_between(between, schema)?,
        Expr::InList(list) => settle_list(list, schema)?,
        Expr::ScalarSubquery(subquery) if !subquery.subquery.schema().field(0).is_nullable() => {
            Some(nullable(expression.clone()))
        }
        _ => None,
    };
    Ok(settled.map_or_else(|| Transformed::no(expression), Transformed::yes))
}

fn is_comparison(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// `sum` over `bigint` as a sum of `numeric`.
fn exact_sum(call: &AggregateFunction, schema: &DFSchema) -> Option<Expr> {
    let wide = widened(call.func.name(), &call.params.args, schema)?;
    let AggregateFunction { func, params } = call.clone();
    let params = AggregateFunctionParams { args: vec![wide], ..params };
    Some(Expr::AggregateFunction(AggregateFunction { func, params }))
}

/// The same over a window.
fn exact_window_sum(call: &WindowFunction, schema: &DFSchema) -> Option<Expr> {
    let wide = widened(call.fun.name(), &call.params.args, schema)?;
    let mut call = call.clone();
    call.params.args = vec![wide];
    Some(Expr::WindowFunction(Box::new(call)))
}

/// The argument of a `sum` over `bigint` as a `numeric`; `None` for anything else.
fn widened(function: &str, arguments: &[Expr], schema: &DFSchema) -> Option<Expr> {
    let [argument] = arguments else { return None };
    let is_sum = function == "sum" && argument.get_type(schema).ok() == Some(DataType::Int64);
    is_sum.then(|| Expr::Cast(Cast::new(Box::new(argument.clone()), DataType::Decimal128(SUM_PRECISION, 0))))
}

/// A float and a `numeric`, compared as `double precision`; `None` if they are something else.
fn doubles(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<(Expr, Expr)> {
    mixes_float_and_numeric(&[left, right], schema)
        .then(|| (as_double(left.clone(), schema), as_double(right.clone(), schema)))
}

fn mixes_float_and_numeric(expressions: &[&Expr], schema: &DFSchema) -> bool {
    let types: Vec<DataType> =
        expressions.iter().filter_map(|expression| expression.get_type(schema).ok()).collect();
    types.iter().any(DataType::is_floating) && types.iter().any(DataType::is_decimal)
}

fn as_double(expression: Expr, schema: &DFSchema) -> Expr {
    match expression.get_type(schema) {
        Ok(DataType::Float64) => expression,
        _ => Expr::Cast(Cast::new(Box::new(expression), DataType::Float64)),
    }
}

fn settle_between(between: &Between, schema: &DFSchema) -> Result<Option<Expr>> {
    if mixes_float_and_numeric(&[&between.expr, &between.low, &between.high], schema) {
        let double = |side: &Expr| Box::new(as_double(side.clone(), schema));
        let (input, low, high) = (double(&between.expr), double(&between.low), double(&between.high));
        return Ok(Some(Expr::Between(Between::new(input, between.negated, low, high))));
    }
    let low = beside(&between.low, &between.expr, schema)?;
    let high = beside(&between.high, &between.expr, schema)?;
    if low.is_none() && high.is_none() {
        return Ok(None);
    }
    let low = low.unwrap_or_else(|| between.low.as_ref().clone());
    let high = high.unwrap_or_else(|| between.high.as_ref().clone());
    let input = between.expr.clone();
    Ok(Some(Expr::Between(Between::new(input, between.negated, Box::new(low), Box::new(high)))))
}

fn settle_list(list: &InList, schema: &DFSchema) -> Result<Option<Expr>> {
    let operands: Vec<&Expr> = std::iter::once(list.expr.as_ref()).chain(&list.list).collect();
    if mixes_float_and_numeric(&operands, schema) {
        let candidates = list.list.iter().map(|one| as_double(one.clone(), schema)).collect();
        let input = Box::new(as_double(list.expr.as_ref().clone(), schema));
        return Ok(Some(Expr::InList(InList::new(input, candidates, list.negated))));
    }
    let mut changed = false;
    let mut candidates = Vec::with_capacity(list.list.len());
    for candidate in &list.list {
        let settled = beside(candidate, &list.expr, schema)?;
        changed |= settled.is_some();
        candidates.push(settled.unwrap_or_else(|| candidate.clone()));
    }
    Ok(changed.then(|| Expr::InList(InList::new(list.expr.clone(), candidates, list.negated))))
}

/// Two operands with a literal among them of the other's type; `None` if they are right as they are.
pub(super) fn pair(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<(Expr, Expr)>> {
    if let Some(right) = beside(right, left, schema)? {
        return Ok(Some((left.clone(), right)));
    }
    Ok(beside(left, right, schema)?.map(|left| (left, right.clone())))
}

/// A text literal as one of the type of what it stands beside; `None` if it is none, or stays text.
fn beside(literal: &Expr, other: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::Literal(scalar, _) = literal else { return Ok(None) };
    let Some(text) = scalar.try_as_str().flatten() else { return Ok(None) };
    if is_char(other, schema) {
        return Ok(without_blanks(literal));
    }
    let Ok(ty) = other.get_type(schema) else { return Ok(None) };
    Ok(match column_type_of_arrow(&ty) {
        _ if ty == DataType::Null => None,
        None | Some(ColumnType::Text) => None,
        Some(ColumnType::Numeric { .. }) => Some(decimal(text)?),
        Some(to) => Some(literal_as(literal.clone(), to)?),
    })
}

fn decimal(text: &str) -> Result<Expr, SqlError> {
    let (value, ty) = decimal_literal(text)?;
    let scalar: ScalarValue = crate::types::scalar_of(&value, ty)?;
    Ok(Expr::Literal(scalar, None))
}
