// SPDX-License-Identifier: Apache-2.0
//! Chunks that cannot hold a row of the answer: predicates judged by a chunk's smallest and greatest values.
//!
//! A judgement errs to one side only: `false` means that no row of the chunk makes the predicate true.

mod initials;

use crate::functions::NUMBER_SHORTEST;
use crate::types::value_of_scalar;
use coeval_store::{ChunkStats, ColumnStats, ColumnType, Value};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal,
};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// The column of the table behind a column of the scan, and its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceColumn {
    /// Its index in the table's definition.
    pub(super) index: usize,
    /// Its type.
    pub(super) ty: ColumnType,
}

/// What a chunk's statistics are asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pruner {
    /// Nothing is known: any chunk may match.
    Unknown,
    /// No row matches.
    Never,
    /// All must.
    All(Vec<Pruner>),
    /// One must.
    Any(Vec<Pruner>),
    /// The column compared with a value.
    Compare(usize, Operator, Value),
    /// The column equal to one of these, ascending.
    OneOf(usize, Vec<Value>),
    /// The column is NULL.
    Null(usize),
    /// The column is not NULL.
    NotNull(usize),
}

impl Pruner {
    /// What statistics can say of these predicates, all of which must hold, over these columns.
    pub(super) fn of_all<'a>(
        predicates: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
        columns: &[SourceColumn],
    ) -> Self {
        all(predicates.into_iter().map(|predicate| of(predicate, columns)).collect())
    }

    /// Whether the chunk may hold a row that matches.
    pub(super) fn may_match(&self, stats: &ChunkStats) -> bool {
        match self {
            Self::Unknown => true,
            Self::Never => false,
            Self::All(parts) => parts.iter().all(|part| part.may_match(stats)),
            Self::Any(parts) => parts.iter().any(|part| part.may_match(stats)),
            Self::Compare(column, operator, value) => {
                bounds(stats, *column).is_none_or(|(min, max)| compare_may_match(*operator, min, max, value))
            }
            Self::OneOf(column, values) => bounds(stats, *column).is_none_or(|(min, max)| {
                let first = values.partition_point(|value| value < min);
                values.get(first).is_some_and(|value| value <= max)
            }),
            Self::Null(column) => stats.columns.get(*column).is_none_or(|column| column.null_count > 0),
            Self::NotNull(column) => {
                stats.columns.get(*column).is_none_or(|column| column.null_count < stats.rows as u64)
            }
        }
    }
}

/// The bounds of a column; `None` if they are not known.
pub(super) fn bounds(stats: &ChunkStats, column: usize) -> Option<(&Value, &Value)> {
    let ColumnStats { min, max, .. } = stats.columns.get(column)?;
    min.as_ref().zip(max.as_ref())
}

fn compare_may_match(operator: Operator, min: &Value, max: &Value, value: &Value) -> bool {
    match operator {
        Operator::Eq => min <= value && value <= max,
        Operator::NotEq => min != value || max != value,
        Operator::Lt => min < value,
        Operator::LtEq => min <= value,
        Operator::Gt => max > value,
        Operator::GtEq => max >= value,
        _ => true,
    }
}

fn all(parts: Vec<Pruner>) -> Pruner {
    let mut kept: Vec<_> = parts.into_iter().filter(|part| *part != Pruner::Unknown).collect();
    match kept.len() {
        0 => Pruner::Unknown,
        1 => kept.remove(0),
        _ => Pruner::All(kept),
    }
}

fn any(parts: Vec<Pruner>) -> Pruner {
    if parts.contains(&Pruner::Unknown) { Pruner::Unknown } else { Pruner::Any(parts) }
}

fn of(predicate: &Arc<dyn PhysicalExpr>, columns: &[SourceColumn]) -> Pruner {
    if let Some(binary) = predicate.downcast_ref::<BinaryExpr>() {
        return of_binary(binary, columns);
    }
    if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        return of_list(list, columns);
    }
    if let Some(literal) = predicate.downcast_ref::<Literal>() {
        return match literal.value() {
            ScalarValue::Boolean(Some(true)) => Pruner::Unknown,
            // NULL is not true either.
            ScalarValue::Boolean(_) => Pruner::Never,
            _ => Pruner::Unknown,
        };
    }
    if let Some(is_null) = predicate.downcast_ref::<IsNullExpr>() {
        return column_of(is_null.arg(), columns)
            .map_or(Pruner::Unknown, |column| Pruner::Null(column.index));
    }
    if let Some(is_not_null) = predicate.downcast_ref::<IsNotNullExpr>() {
        return column_of(is_not_null.arg(), columns)
            .map_or(Pruner::Unknown, |column| Pruner::NotNull(column.index));
    }
    if let Some(call) = predicate.downcast_ref::<ScalarFunctionExpr>() {
        return initials::of_call(call.fun().name(), call.args(), columns);
    }
    if let Some(case) = predicate.downcast_ref::<CaseExpr>() {
        // A row takes one branch: some branch must be possible.
        let branches = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
        return any(branches.map(|branch| of(branch, columns)).collect());
    }
    Pruner::Unknown
}

fn of_binary(binary: &BinaryExpr, columns: &[SourceColumn]) -> Pruner {
    let sides = || vec![of(binary.left(), columns), of(binary.right(), columns)];
    let operator = *binary.op();
    match operator {
        Operator::And => all(sides()),
        Operator::Or => any(sides()),
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
            let found = compared(binary.left(), binary.right(), columns)
                .map(|found| (found, operator))
                .or_else(|| compared(binary.right(), binary.left(), columns).zip(operator.swap()));
            match found {
                Some(((_, Value::Null), _)) => Pruner::Never,
                Some(((column, value), operator)) => Pruner::Compare(column, operator, value),
                None => Pruner::Unknown,
            }
        }
        _ => Pruner::Unknown,
    }
}

/// `column` and `literal`, if that is what they are and their types order alike.
fn compared(
    column: &Arc<dyn PhysicalExpr>,
    literal: &Arc<dyn PhysicalExpr>,
    columns: &[SourceColumn],
) -> Option<(usize, Value)> {
    let column = column_of(column, columns)?;
    Some((column.index, value_of(literal, column.ty)?))
}

fn column_of(expression: &Arc<dyn PhysicalExpr>, columns: &[SourceColumn]) -> Option<SourceColumn> {
    // A number without zeros at its end is the same key and has the same place in the order.
    let expression = match expression.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) if call.fun().name() == NUMBER_SHORTEST => call.args().first()?,
        _ => expression,
    };
    let column = expression.downcast_ref::<Column>()?;
    columns.get(column.index()).copied()
}

/// The literal as a value of the column's type. Floats are left out: NaN has no place among bounds.
fn value_of(literal: &Arc<dyn PhysicalExpr>, ty: ColumnType) -> Option<Value> {
    let scalar = literal.downcast_ref::<Literal>()?.value();
    if matches!(ty, ColumnType::Real | ColumnType::Double | ColumnType::Interval) {
        return None;
    }
    let wanted = ty.arrow();
    let is_text = |ty: &arrow::datatypes::DataType| ty.is_string();
    let given = scalar.data_type();
    if given == wanted || (is_text(&given) && is_text(&wanted)) {
        value_of_scalar(scalar, ty).ok()
    } else {
        None
    }
}

fn of_list(list: &InListExpr, columns: &[SourceColumn]) -> Pruner {
    let Some(column) = column_of(list.expr(), columns) else {
        return Pruner::Unknown;
    };
    if list.negated() {
        return Pruner::Unknown;
    }
    let values: Option<Vec<Value>> = list.list().iter().map(|item| value_of(item, column.ty)).collect();
    let Some(mut values) = values else {
        return Pruner::Unknown;
    };
    values.retain(|value| *value != Value::Null);
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    if values.is_empty() { Pruner::Never } else { Pruner::OneOf(column.index, values) }
}

#[cfg(test)]
mod tests;
