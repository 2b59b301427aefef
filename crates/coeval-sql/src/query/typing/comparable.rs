// SPDX-License-Identifier: Apache-2.0
//! Operands of one comparison, brought to one type in which they compare.

use super::instants::midnight_of;
use super::intervals::length;
use super::mixed_floats::{doubles, mixes_float_and_numeric};
use super::reals::mixes_real_and_integer;
use super::zoned_times::is_zoned_time;
use super::{any_numeric, jsonb, trimmed};
use crate::error::SqlError;
use crate::scalar::cast_function::literal_as;
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// [`comparable`], of two operands.
pub(super) fn comparable_pair(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<(Expr, Expr)>> {
    let settled = comparable(&[left.clone(), right.clone()], schema)?;
    Ok(settled.and_then(|operands| <[Expr; 2]>::try_from(operands).ok()).map(Into::into))
}

/// Operands of one comparison, of one type: what stands beside a `char(n)` without blanks at its end, floats beside `numeric` and a `real` beside
/// integers as `double precision`, intervals by their length, local times beside those with a zone as times of the session's zone. `None` if they are right as they
/// are.
pub(super) fn comparable(operands: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    if let Some(documents) = jsonb::comparable(operands, schema)? {
        return Ok(Some(documents));
    }
    if let Some(numbers) = any_numeric::comparable(operands, schema)? {
        return Ok(Some(numbers));
    }
    if let Some(trimmed) = trimmed::comparable(operands, schema)? {
        return Ok(Some(trimmed));
    }
    if mixes_float_and_numeric(operands, schema) || mixes_real_and_integer(operands, schema) {
        return Ok(Some(doubles(operands, schema)));
    }
    let types: Vec<DataType> = operands.iter().filter_map(|operand| operand.get_type(schema).ok()).collect();
    if types.len() == operands.len()
        && let Some(lengths) = lengths(operands, &types)?
    {
        return Ok(Some(lengths));
    }
    if types.len() == operands.len()
        && let Some(zoned) = zoned_times(operands, &types)?
    {
        return Ok(Some(zoned));
    }
    if types.len() == operands.len()
        && let Some(dates) = as_dates(operands, &types, schema)
    {
        return Ok(Some(dates));
    }
    let is_local =
        |ty: &DataType| matches!(ty, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64);
    let is_zoned = |ty: &DataType| matches!(ty, DataType::Timestamp(_, Some(_)));
    let is_date = |ty: &DataType| *ty == DataType::Date32;
    let has = |is: &dyn Fn(&DataType) -> bool| types.iter().any(is);
    // Of dates beside local times DataFusion makes nanoseconds, which end in 2262.
    let (is_moved, common): (&dyn Fn(&DataType) -> bool, _) = if has(&is_local) && has(&is_zoned) {
        (&is_local, ColumnType::TimestampTz)
    } else if has(&is_date) && has(&|ty| matches!(ty, DataType::Timestamp(_, None))) {
        (&is_date, ColumnType::Timestamp)
    } else {
        return Ok(None);
    };
    let settled = |operand: &Expr| match operand.get_type(schema) {
        Ok(ty) if is_moved(&ty) => literal_as(operand.clone(), common),
        _ => Ok(operand.clone()),
    };
    Ok(Some(operands.iter().map(settled).collect::<Result<_, _>>()?))
}

/// Intervals by their length, times beside them as intervals; `None` of anything else.
fn lengths(operands: &[Expr], types: &[DataType]) -> Result<Option<Vec<Expr>>> {
    let is_interval = |ty: &DataType| matches!(ty, DataType::Interval(_));
    let is_time = |ty: &DataType| matches!(ty, DataType::Time64(_));
    if !types.iter().any(is_interval) || !types.iter().all(|ty| is_interval(ty) || is_time(ty)) {
        return Ok(None);
    }
    let span = |(operand, ty): (&Expr, &DataType)| match is_time(ty) {
        true => literal_as(operand.clone(), ColumnType::Interval),
        false => Ok(operand.clone()),
    };
    let spans = operands.iter().zip(types).map(span).collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Some(spans.into_iter().map(length).collect()))
}

/// Times beside such with a zone as times of today in the session's zone; `None` of anything else.
fn zoned_times(operands: &[Expr], types: &[DataType]) -> Result<Option<Vec<Expr>>> {
    let is_time = |ty: &DataType| matches!(ty, DataType::Time64(_));
    let are_both = types.iter().any(is_zoned_time) && types.iter().any(is_time);
    if !are_both || !types.iter().all(|ty| is_zoned_time(ty) || is_time(ty)) {
        return Ok(None);
    }
    let zoned = |(operand, ty): (&Expr, &DataType)| match is_time(ty) {
        true => literal_as(operand.clone(), ColumnType::TimeTz),
        false => Ok(operand.clone()),
    };
    Ok(Some(operands.iter().zip(types).map(zoned).collect::<Result<_, SqlError>>()?))
}

/// Dates beside midnights of other dates, all as dates: what a table's chunks and keys are looked up by. `None` of anything
/// else.
fn as_dates(operands: &[Expr], types: &[DataType], schema: &DFSchema) -> Option<Vec<Expr>> {
    let is_date = |ty: &DataType| *ty == DataType::Date32;
    if !types.iter().any(is_date) || types.iter().all(is_date) {
        return None;
    }
    let date =
        |(operand, ty)| if is_date(ty) { Some(Expr::clone(operand)) } else { midnight_of(operand, schema) };
    operands.iter().zip(types).map(date).collect()
}
