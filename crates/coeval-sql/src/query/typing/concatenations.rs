// SPDX-License-Identifier: Apache-2.0
//! `||` of texts with values of other types, which are written as PostgreSQL writes them.

use super::bits;
use super::exact_types::is_any_numeric;
use crate::scalar::cast_function::literal_as;
use crate::types::{column_type_of_arrow, no_operator, type_in_words};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

/// `text || x` with `x` as the text that PostgreSQL writes of it; `None` if it is right as it is.
pub(super) fn concatenation(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(None);
    };
    if is_any_numeric(&left_type) && is_any_numeric(&right_type) {
        // DataFusion would join their bytes.
        return Err(no_operator(&type_in_words(&left_type), &"||", &type_in_words(&right_type)).into());
    }
    let is_bytes = |ty: &DataType| column_type_of_arrow(ty) == Some(ColumnType::Bytea);
    // A literal beside bytes is bytes.
    let is_bytes_literal = |side: &Expr, ty: &DataType, other: &DataType| {
        let is_literal = matches!(side, Expr::Literal(..) | Expr::Placeholder(_));
        is_literal && is_bytes(other) && (ty.is_string() || ty.is_null())
    };
    if let Some(bits) = bits::joined((left, &left_type), (right, &right_type))? {
        return Ok(Some(bits));
    }
    let is_written = |ty: &DataType| !ty.is_string() && !ty.is_null() && !matches!(ty, DataType::List(_));
    let as_type = |side: &Expr, ty| literal_as(side.clone(), ty);
    let (left, right) = if is_bytes_literal(left, &left_type, &right_type) {
        (as_type(left, ColumnType::Bytea)?, right.clone())
    } else if is_bytes_literal(right, &right_type, &left_type) {
        (left.clone(), as_type(right, ColumnType::Bytea)?)
    } else if left_type.is_string() && is_written(&right_type) {
        (left.clone(), as_type(right, ColumnType::Text)?)
    } else if right_type.is_string() && is_written(&left_type) {
        (as_type(left, ColumnType::Text)?, right.clone())
    } else {
        return Ok(None);
    };
    let joined = BinaryExpr::new(Box::new(left), Operator::StringConcat, Box::new(right));
    Ok(Some(Expr::BinaryExpr(joined)))
}
