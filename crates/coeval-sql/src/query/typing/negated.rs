// SPDX-License-Identifier: Apache-2.0
//! A minus in front of what is no literal.
//!
//! DataFusion asks for the operand's type as soon as it reads such a minus, and knows no number but those of Arrow. So the dialect writes an
//! operator of its own in its place, with nothing on the left, for which the planner asks us.

use super::any_numeric::is_any_numeric;
use crate::types::{no_prefix_operator, type_in_words};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as AstExpr, Value};

/// The operator, as it is also written where a part of a statement is read again: `OPERATOR(coeval.negated)`.
const NEGATED: [&str; 2] = ["coeval", "negated"];

/// What stands in the place of a minus in front of this operand.
pub(in crate::query) fn negation(operand: &AstExpr) -> AstExpr {
    let nothing = Box::new(AstExpr::Value(Value::Null.into()));
    let op = BinaryOperator::PGCustomBinaryOperator(NEGATED.map(str::to_owned).to_vec());
    AstExpr::BinaryOp { left: nothing, op, right: Box::new(operand.clone()) }
}

/// Whether this is that operator.
pub(super) fn is_negation(operator: &BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::PGCustomBinaryOperator(parts) if *parts == NEGATED)
}

/// The operand with the other sign.
///
/// # Errors
/// `42883` for a type that has no signs.
pub(super) fn negated(operand: Expr, schema: &DFSchema) -> Result<Expr> {
    // What else is wrong with the operand is said where it is typed.
    if let Ok(ty) = operand.get_type(schema)
        && !has_sign(&ty)
    {
        return Err(no_prefix_operator(&"-", &type_in_words(&ty)).into());
    }
    Ok(Expr::Negative(Box::new(operand)))
}

fn has_sign(ty: &DataType) -> bool {
    ty.is_numeric() || ty.is_null() || is_any_numeric(ty) || matches!(ty, DataType::Interval(_))
}
