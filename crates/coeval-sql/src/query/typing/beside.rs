// SPDX-License-Identifier: Apache-2.0
//! Text literals as values of the type of what they stand beside.

use super::arrays::array_literal;
use super::declared::{is_char, without_blanks};
use crate::error::SqlError;
use crate::scalar::cast_function::literal_as;
use crate::scalar::decimal_literal;
use crate::types::any_numeric::parse_number;
use crate::types::column_type_of_arrow;
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, Value};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// Two operands with a literal among them of the other's type; `None` if they are right as they are.
pub(super) fn pair(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<(Expr, Expr)>> {
    if let Some(right) = beside(right, left, schema)? {
        return Ok(Some((left.clone(), right)));
    }
    Ok(beside(left, right, schema)?.map(|left| (left, right.clone())))
}

/// A text literal as one of the type of what it stands beside; `None` if it is none, or stays text.
pub(super) fn beside(literal: &Expr, other: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::Literal(scalar, _) = literal else { return Ok(None) };
    let Some(text) = scalar.try_as_str().flatten() else { return Ok(None) };
    if is_char(other, schema) {
        return Ok(without_blanks(literal));
    }
    let Ok(ty) = other.get_type(schema) else { return Ok(None) };
    if let DataType::List(element) = &ty {
        return Ok(Some(array_literal(text, element.data_type())?));
    }
    Ok(match column_type_of_arrow(&ty) {
        _ if ty == DataType::Null => None,
        None | Some(ColumnType::Text) => None,
        Some(ColumnType::Numeric { .. }) => Some(decimal(text)?),
        Some(to) => Some(literal_as(literal.clone(), to)?),
    })
}

/// A number with the digits that it is written with; one that has too many for a `numeric` with digits, or is none, without.
pub(super) fn decimal(text: &str) -> Result<Expr, SqlError> {
    let (value, ty) = match decimal_literal(text) {
        Ok(exact) => exact,
        Err(_) => (Value::Number(parse_number(text)?), ColumnType::AnyNumeric),
    };
    let scalar: ScalarValue = crate::types::scalar_of(&value, ty)?;
    Ok(Expr::Literal(scalar, None))
}
