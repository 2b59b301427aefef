// SPDX-License-Identifier: Apache-2.0
//! Types in plans that Arrow has not, where DataFusion forgets [their marks](crate::types::marks).
//!
//! A `char(n)` is kept without the blanks at its end, which do not count in comparisons: a literal that is compared
//! with one loses its blanks too.

use crate::stack::with_room;
use crate::types::marks::{CHAR, KEY, LIST, marked_type};
use arrow::datatypes::{Field, Schema};
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, JoinType, ScalarValue};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};
use std::sync::Arc;

/// The schema of a plan's rows. DataFusion forgets the marks of what CASE gives, and of `min` and `max`, and keeps that of the first
/// argument of `lag` and `lead` where their default has another one: this says what columns are.
pub(crate) fn marked_schema(plan: &LogicalPlan) -> Schema {
    let schema = plan.schema().as_arrow();
    let marked = |(field, mark): (&Arc<Field>, Option<String>)| {
        let mut metadata = field.metadata().clone();
        match mark {
            Some(mark) => metadata.insert(KEY.to_owned(), mark),
            None => metadata.remove(KEY),
        };
        field.as_ref().clone().with_metadata(metadata)
    };
    Schema::new(schema.fields().iter().zip(marks(plan)).map(marked).collect::<Vec<_>>())
}

/// The mark of each column that a plan gives.
fn marks(plan: &LogicalPlan) -> Vec<Option<String>> {
    with_room(|| marks_of_node(plan))
}

fn marks_of_node(plan: &LogicalPlan) -> Vec<Option<String>> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let (schema, below) = (projection.input.schema(), marks(&projection.input));
            projection.expr.iter().map(|expression| mark_of(expression, schema, &below)).collect()
        }
        LogicalPlan::Aggregate(aggregate) => {
            let (schema, below) = (aggregate.input.schema(), marks(&aggregate.input));
            let mut all = own_marks(plan);
            let groups = all.len().saturating_sub(aggregate.aggr_expr.len());
            for (mark, expression) in all[groups..].iter_mut().zip(&aggregate.aggr_expr) {
                *mark = mark_of(expression, schema, &below);
            }
            // The columns of grouping sets are not their expressions, one for one.
            if !matches!(aggregate.group_expr[..], [Expr::GroupingSet(_)]) {
                for (mark, expression) in all[..groups].iter_mut().zip(&aggregate.group_expr) {
                    *mark = mark_of(expression, schema, &below);
                }
            }
            all
        }
        LogicalPlan::Window(window) => {
            let (schema, below) = (window.input.schema(), marks(&window.input));
            let computed = window.window_expr.iter().map(|expression| mark_of(expression, schema, &below));
            below.iter().cloned().chain(computed).collect()
        }
        LogicalPlan::Union(union) => {
            let mut inputs = union.inputs.iter().map(|input| marks(input));
            let first = inputs.next().unwrap_or_default();
            inputs.fold(first, |known, other| {
                known
                    .into_iter()
                    .zip(other)
                    .map(|(one, other)| one.filter(|one| Some(one) == other.as_ref()))
                    .collect()
            })
        }
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                marks(&join.left).into_iter().chain(marks(&join.right)).collect()
            }
            JoinType::LeftSemi | JoinType::LeftAnti => marks(&join.left),
            JoinType::RightSemi | JoinType::RightAnti => marks(&join.right),
            JoinType::LeftMark | JoinType::RightMark => own_marks(plan),
        },
        LogicalPlan::Distinct(Distinct::All(input)) => marks(input),
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            let (schema, below) = (distinct.input.schema(), marks(&distinct.input));
            distinct.select_expr.iter().map(|expression| mark_of(expression, schema, &below)).collect()
        }
        LogicalPlan::Filter(filter) => marks(&filter.input),
        LogicalPlan::Sort(sort) => marks(&sort.input),
        LogicalPlan::Limit(limit) => marks(&limit.input),
        LogicalPlan::SubqueryAlias(alias) => marks(&alias.input),
        other => own_marks(other),
    }
}

fn own_marks(plan: &LogicalPlan) -> Vec<Option<String>> {
    plan.schema().fields().iter().map(|field| field.metadata().get(KEY).cloned()).collect()
}

/// The mark of an expression over columns that have these.
fn mark_of(expression: &Expr, schema: &DFSchema, below: &[Option<String>]) -> Option<String> {
    match expression {
        Expr::Alias(alias) => mark_of(&alias.expr, schema, below),
        Expr::Column(column) => below.get(schema.maybe_index_of_column(column)?)?.clone(),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            mark_of_all(results.map(|result| &**result), schema, below)
        }
        Expr::ScalarSubquery(subquery) => marks(&subquery.subquery).into_iter().next()?,
        Expr::AggregateFunction(call) if call.func.name() == "array_agg" => {
            let mark = mark_of(call.params.args.first()?, schema, below)?;
            (!mark.starts_with(LIST)).then(|| format!("{LIST}{mark}"))
        }
        Expr::AggregateFunction(call) if is_best(call.func.name()) => {
            mark_of_best(&call.params.args, schema, below)
        }
        Expr::WindowFunction(call) if is_best(call.fun.name()) => {
            mark_of_best(&call.params.args, schema, below)
        }
        // Their values, and their default.
        Expr::WindowFunction(call) if matches!(call.fun.name(), "lag" | "lead") => {
            let arguments = &call.params.args;
            mark_of_all(arguments.first().into_iter().chain(arguments.get(2)), schema, below)
        }
        other => other.to_field(schema).ok()?.1.metadata().get(KEY).cloned(),
    }
}

/// The mark that several expressions have, NULLs apart, if they all have the same.
fn mark_of_all<'e>(
    results: impl Iterator<Item = &'e Expr>,
    schema: &DFSchema,
    below: &[Option<String>],
) -> Option<String> {
    let mut marks = results
        .filter(|result| !matches!(result, Expr::Literal(scalar, _) if scalar.is_null()))
        .map(|result| with_room(|| mark_of(result, schema, below)));
    let first = marks.next()??;
    marks.all(|mark| mark.as_ref() == Some(&first)).then_some(first)
}

fn is_best(function: &str) -> bool {
    matches!(function, "min" | "max")
}

/// The mark of the least or the greatest of some values: of a `char(n)` it is one, of all other texts a text.
fn mark_of_best(arguments: &[Expr], schema: &DFSchema, below: &[Option<String>]) -> Option<String> {
    mark_of(arguments.first()?, schema, below).filter(|mark| mark.starts_with(CHAR))
}

/// Whether an expression is a `char(n)`.
pub(super) fn is_char(expression: &Expr, schema: &DFSchema) -> bool {
    char_length(expression, schema).is_some()
}

/// The length of the `char(n)` that an expression is; `None` if it is something else.
pub(super) fn char_length(expression: &Expr, schema: &DFSchema) -> Option<u32> {
    match expression {
        // To ask a long chain of operators for its mark takes the square of its length, and none gives a `char(n)`.
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarFunction(_)
        | Expr::ScalarSubquery(_) => {
            let (_, field) = expression.to_field(schema).ok()?;
            match marked_type(&field)? {
                ColumnType::Char(length) => Some(length),
                _ => None,
            }
        }
        Expr::Case(case) => {
            let is_null = |result: &Expr| matches!(result, Expr::Literal(scalar, _) if scalar.is_null());
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            let mut lengths = results
                .filter(|result| !is_null(result))
                .map(|result| with_room(|| char_length(result, schema)));
            let first = lengths.next()??;
            lengths.all(|length| length == Some(first)).then_some(first)
        }
        _ => None,
    }
}

/// The text literal without the blanks at its end; `None` if it has none, or is something else.
pub(super) fn without_blanks(literal: &Expr) -> Option<Expr> {
    let Expr::Literal(scalar, metadata) = literal else { return None };
    let text = scalar.try_as_str().flatten()?;
    let kept = text.trim_end_matches(' ');
    (kept.len() < text.len())
        .then(|| Expr::Literal(ScalarValue::Utf8(Some(kept.to_owned())), metadata.clone()))
}
