// SPDX-License-Identifier: Apache-2.0
//! Conditions on columns that say exactly which values a column may have: what a DELETE of whole bricks is told, and what
//! a scan of bricks is noted as.
//!
//! Pruning errs to the safe side and may forget a part of a predicate; here a part is understood as a whole or not at all.
//! A DELETE must be understood in all parts, a scan is noted by those that are.

use super::prune::{Pruner, SourceColumn};
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use coeval_store::{Selection, TableDef, Value};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::PhysicalExpr;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The values that one column may have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    /// The column's index in the definition.
    pub(crate) column: usize,
    /// Its values.
    wanted: Wanted,
}

/// Values of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// Numbers in one of these intervals.
    Numbers(Vec<RangeInclusive<i64>>),
    /// One of these strings.
    Strings(Vec<String>),
}

/// The conditions that a predicate over these columns is the conjunction of. `columns` is by place in the schema that
/// the predicate is over.
///
/// # Errors
/// The text of a part that is something else.
pub(crate) fn conditions(
    predicate: &Arc<dyn PhysicalExpr>,
    columns: &[(usize, coeval_store::ColumnType)],
) -> Result<Vec<Condition>, String> {
    let sources: Vec<SourceColumn> = columns.iter().map(|&(index, ty)| SourceColumn { index, ty }).collect();
    let mut found = Vec::new();
    for part in split_conjunction(predicate) {
        match condition(part, &sources) {
            Some(condition) => found.push(condition),
            None => return Err(fmt_sql(part.as_ref()).to_string()),
        }
    }
    Ok(found)
}

/// The rows of a selection that may satisfy all of these predicates, as far as they are conditions on dimensions.
pub(super) fn selected(
    all: Selection,
    def: &TableDef,
    filters: &[Arc<dyn PhysicalExpr>],
    columns: &[SourceColumn],
) -> Selection {
    let parts = filters.iter().flat_map(|filter| split_conjunction(filter));
    let conditions = parts.filter_map(|part| condition(part, columns));
    conditions.fold(all, |rows, condition| match condition.dimension(def) {
        Some(dimension) => condition.narrow(rows, dimension),
        None => rows,
    })
}

/// The rows that this predicate selects, if it is a condition on a dimension: exactly these.
pub(super) fn exactly_selected(
    all: Selection,
    def: &TableDef,
    predicate: &Arc<dyn PhysicalExpr>,
    columns: &[SourceColumn],
) -> Option<Selection> {
    let condition = condition(predicate, columns)?;
    let dimension = condition.dimension(def)?;
    Some(condition.narrow(all, dimension))
}

impl Condition {
    /// The dimension that it is about, counted among the dimensions; none if the column is no dimension.
    pub(crate) fn dimension(&self, def: &TableDef) -> Option<usize> {
        def.bricks.as_ref()?.dimension_of(self.column)
    }

    /// Clears what says of a row of its column that it is to be deleted, where the row does not satisfy it. NULL satisfies nothing.
    ///
    /// # Errors
    /// If the array is none of a dimension.
    pub(crate) fn hold(&self, array: &ArrayRef, holds: &mut [bool]) -> Result<(), ArrowError> {
        match &self.wanted {
            Wanted::Numbers(intervals) => {
                let numbers = cast(array, &DataType::Int64)?;
                let values = numbers.as_primitive::<Int64Type>().iter();
                for (value, holds) in values.zip(holds) {
                    let is_within = |value: i64| intervals.iter().any(|interval| interval.contains(&value));
                    *holds &= value.is_some_and(is_within);
                }
            }
            Wanted::Strings(strings) => {
                let texts = cast(array, &DataType::Utf8)?;
                for (value, holds) in texts.as_string::<i32>().iter().zip(holds) {
                    *holds &= value.is_some_and(|value| strings.iter().any(|string| string == value));
                }
            }
        }
        Ok(())
    }

    /// Those of the rows that satisfy it, which is about this dimension.
    pub(crate) fn narrow(&self, rows: Selection, dimension: usize) -> Selection {
        match &self.wanted {
            Wanted::Numbers(intervals) => rows.within(dimension, intervals),
            Wanted::Strings(strings) => {
                rows.among(dimension, &strings.iter().map(String::as_str).collect::<Vec<_>>())
            }
        }
    }
}

fn condition(part: &Arc<dyn PhysicalExpr>, columns: &[SourceColumn]) -> Option<Condition> {
    if let Some(either) = part.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Or) {
        let (left, right) = (condition(either.left(), columns)?, condition(either.right(), columns)?);
        let wanted = match (left.wanted, right.wanted) {
            (Wanted::Numbers(one), Wanted::Numbers(other)) => Wanted::Numbers([one, other].concat()),
            (Wanted::Strings(one), Wanted::Strings(other)) => Wanted::Strings([one, other].concat()),
            _ => return None,
        };
        return (left.column == right.column).then_some(Condition { column: left.column, wanted });
    }
    if part.downcast_ref::<BinaryExpr>().is_some_and(|binary| *binary.op() == Operator::And) {
        return None;
    }
    let (column, wanted) = match Pruner::of_all([part], columns) {
        Pruner::Compare(column, Operator::Eq, Value::Text(text)) => {
            (column, Wanted::Strings(vec![text.to_string()]))
        }
        Pruner::Compare(column, operator, value) => {
            (column, Wanted::Numbers(compared(operator, number(&value)?)?))
        }
        Pruner::OneOf(column, values) if values.iter().all(|value| matches!(value, Value::Text(_))) => {
            let text = |value: Value| match value {
                Value::Text(text) => text.to_string(),
                _ => unreachable!("all are texts"),
            };
            (column, Wanted::Strings(values.into_iter().map(text).collect()))
        }
        Pruner::OneOf(column, values) => {
            let numbers: Option<Vec<i64>> = values.iter().map(number).collect();
            (column, Wanted::Numbers(numbers?.into_iter().map(|number| number..=number).collect()))
        }
        _ => return None,
    };
    Some(Condition { column, wanted })
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int16(number) => Some((*number).into()),
        Value::Int32(number) => Some((*number).into()),
        Value::Int64(number) => Some(*number),
        _ => None,
    }
}

fn compared(operator: Operator, number: i64) -> Option<Vec<RangeInclusive<i64>>> {
    let below = || number.checked_sub(1).map(|last| i64::MIN..=last);
    let above = || number.checked_add(1).map(|first| first..=i64::MAX);
    Some(match operator {
        Operator::Eq => vec![number..=number],
        Operator::NotEq => below().into_iter().chain(above()).collect(),
        Operator::Lt => below().into_iter().collect(),
        Operator::LtEq => vec![i64::MIN..=number],
        Operator::Gt => above().into_iter().collect(),
        Operator::GtEq => vec![number..=i64::MAX],
        _ => return None,
    })
}
