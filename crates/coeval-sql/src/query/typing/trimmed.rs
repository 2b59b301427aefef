// SPDX-License-Identifier: Apache-2.0
//! What is compared with a `char(n)`, without the blanks at its end. A `varchar` and a parameter become a `char(n)` in PostgreSQL then, and
//! blanks that only fill up do not count; beside a text both are texts, in which they do. Literals lose them as they are read.

use super::declared::is_char;
use crate::error::SqlError;
use crate::types::marks::marked_type;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// An expression and the schema that it is over.
type Side<'s> = (&'s Expr, &'s DFSchema);

/// Operands of a comparison, those that become a `char(n)` without their blanks; `None` if they are right as they are.
///
/// # Errors
/// As [`without_blanks`].
pub(super) fn comparable(operands: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    if !operands.iter().any(|operand| is_char(operand, schema)) {
        return Ok(None);
    }
    let has_any = operands.iter().any(|operand| becomes_char((operand, schema)));
    let trimmed = operands.iter().map(|operand| match becomes_char((operand, schema)) {
        true => without_blanks(operand),
        false => Ok(operand.clone()),
    });
    let trimmed = trimmed.collect::<Result<Vec<_>, SqlError>>()?;
    Ok(has_any.then_some(trimmed))
}

/// The same of two sides that are over different rows.
///
/// # Errors
/// As [`without_blanks`].
pub(super) fn comparable_sides(left: Side<'_>, right: Side<'_>) -> Result<Option<(Expr, Expr)>> {
    if is_char(left.0, left.1) && becomes_char(right) {
        return Ok(Some((left.0.clone(), without_blanks(right.0)?)));
    }
    if is_char(right.0, right.1) && becomes_char(left) {
        return Ok(Some((without_blanks(left.0)?, right.0.clone())));
    }
    Ok(None)
}

/// Whether an expression becomes a `char(n)` beside one.
fn becomes_char((side, schema): Side<'_>) -> bool {
    match side {
        // One that has no type yet gets it from what it stands beside.
        Expr::Placeholder(parameter) => {
            parameter.field.as_ref().is_some_and(|field| field.data_type().is_string())
        }
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarFunction(_)
        | Expr::ScalarSubquery(_) => {
            let field = side.to_field(schema).map(|(_, field)| field);
            field.is_ok_and(|field| matches!(marked_type(&field), Some(ColumnType::Varchar(_))))
        }
        _ => false,
    }
}

/// A text without the blanks at its end.
///
/// # Errors
/// If there is no function that takes them off: a bug.
pub(super) fn without_blanks(side: &Expr) -> Result<Expr, SqlError> {
    Ok(crate::functions::function("rtrim")?.call(vec![side.clone()]))
}
