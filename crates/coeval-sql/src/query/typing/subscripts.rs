// SPDX-License-Identifier: Apache-2.0
//! Subscripts where DataFusion has none, or others: of documents, of what `array_agg` gives, and texts that are places. And fields of rows,
//! `(row(1, 2)).f1`, which it calls `c0`.

use crate::error::{SqlError, SqlState};
use crate::types::{column_type_of_arrow, column_type_of_field, type_in_words};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_nested::expr_fn::array_element;
use datafusion::logical_expr::planner::{PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, cast, lit};

/// One subscript.
///
/// # Errors
/// `22P02` for a text that is no place of an array, `42804` for a slice of a document, and for a number that is no integer in one.
pub(super) fn planned(
    raw: RawFieldAccessExpr,
    schema: &DFSchema,
) -> Result<PlannerResult<RawFieldAccessExpr>> {
    let RawFieldAccessExpr { field_access, expr } = raw;
    // DataFusion asks `nth_value` for an element of `array_agg`, which takes a `bigint` constant alone.
    let is_collected = matches!(&expr, Expr::AggregateFunction(call) if call.func.name() == "array_agg");
    let field = expr.to_field(schema).map(|(_, field)| field).ok();
    if let (GetFieldAccess::NamedStructField { name }, Some(row)) = (&field_access, &field)
        && let Some(place) = place_in_row(name, row.data_type())
    {
        let name = ScalarValue::Utf8(Some(format!("c{place}")));
        let field_access = GetFieldAccess::NamedStructField { name };
        return Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr }));
    }
    let ty = field.as_ref().and_then(|field| column_type_of_field(field));
    Ok(match field_access {
        GetFieldAccess::ListIndex { key } if ty == Some(ColumnType::Jsonb) => {
            let key = unbounded(*key);
            key.get_type(schema).map_or(Ok(()), |ty| refuse_number(&ty))?;
            PlannerResult::Planned(member(expr, cast(key, DataType::Utf8))?)
        }
        GetFieldAccess::NamedStructField { name } if ty == Some(ColumnType::Jsonb) => {
            PlannerResult::Planned(member(expr, Expr::Literal(name, None))?)
        }
        GetFieldAccess::ListRange { .. } if ty == Some(ColumnType::Jsonb) => {
            let message = "jsonb subscript does not support slices";
            return Err(SqlError::new(SqlState::DatatypeMismatch, message).into());
        }
        GetFieldAccess::NamedStructField { name } if matches!(ty, Some(ColumnType::Array(_))) => {
            PlannerResult::Planned(array_element(expr, lit(place(&name)?)))
        }
        GetFieldAccess::ListIndex { key } if is_collected => {
            PlannerResult::Planned(array_element(expr, *key))
        }
        field_access => PlannerResult::Original(RawFieldAccessExpr { field_access, expr }),
    })
}

/// The place of a field in a row, if values of this type are rows and have it: the first one is called `f1`.
fn place_in_row(name: &ScalarValue, ty: &DataType) -> Option<usize> {
    let DataType::Struct(fields) = ty else { return None };
    let is_row = fields.iter().enumerate().all(|(place, field)| *field.name() == format!("c{place}"));
    let place: usize = name.try_as_str().flatten()?.strip_prefix('f')?.parse().ok()?;
    (is_row && place <= fields.len()).then(|| place.checked_sub(1)).flatten()
}

/// The member or element of a document that a step leads to; NULL if there is none.
fn member(document: Expr, step: Expr) -> Result<Expr> {
    Ok(crate::json::function("jsonb_extract_path")?.call(vec![document, step]))
}

/// Integers are places, texts are keys.
///
/// # Errors
/// `42804` for a type of numbers that are not integers: neither a place nor a key.
fn refuse_number(ty: &DataType) -> Result<(), SqlError> {
    let name = match column_type_of_arrow(ty) {
        Some(ColumnType::Real | ColumnType::Double | ColumnType::Numeric { .. } | ColumnType::AnyNumeric) => {
            type_in_words(ty)
        }
        _ => return Ok(()),
    };
    let message = format!("subscript type {name} is not supported");
    Err(SqlError::new(SqlState::DatatypeMismatch, message)
        .with_hint("jsonb subscript must be coercible to either integer or text."))
}

/// A subscript as it was written: those of arrays are kept from being counted from the end, as those of documents are.
fn unbounded(key: Expr) -> Expr {
    match key {
        Expr::ScalarFunction(mut bounded) if bounded.name() == "greatest" && bounded.args.len() == 2 => {
            bounded.args.swap_remove(0)
        }
        key => key,
    }
}

/// A text as a place of an array; no element is at one below the first.
fn place(name: &ScalarValue) -> Result<i64> {
    let text = name.try_as_str().flatten().unwrap_or_default();
    let place: i64 = text.trim().parse().map_err(|_| {
        let message = format!("invalid input syntax for type integer: \"{text}\"");
        SqlError::new(SqlState::InvalidTextRepresentation, message)
    })?;
    Ok(place.max(0))
}
