// SPDX-License-Identifier: Apache-2.0
//! Operators of documents beside what is none, `id -> 'a'`, `name::text ->> 'a'`, `doc -> 1.5`: there are none, as in PostgreSQL.
//!
//! | operator | of | and |
//! |---|---|---|
//! | `->`, `->>` | a document | a text, or an integer of up to four bytes |
//! | `#>`, `#>>` | a document | an array of texts |
//! | `#-`, `?\|`, `?&` | a `jsonb` | an array of texts |
//! | `?` | a `jsonb` | a text |
//! | `@?` | a `jsonb` | a path |
//! | `@>`, `<@` | a `jsonb` | a `jsonb` |
//!
//! That a text is a document is said by a mark of its field, and an element of an array of documents, or a CASE in a subquery, has lost it
//! when the operator is planned. So of texts those alone are known to be no documents that are cast to it, or have a length.

use crate::error::SqlError;
use crate::scalar::cast_function::call_parts;
use crate::types::{column_type_of_arrow, column_type_of_field, no_operator, type_in_words, type_name};
use coeval_store::{ColumnType, ElementType};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Refuses operands of an operator of documents that are known to be of other types.
///
/// # Errors
/// `42883`.
pub(super) fn require(
    operator: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Result<(), SqlError> {
    let (of, and) = (known_type(left, schema), known_type(right, schema));
    let is_contained = *operator == BinaryOperator::ArrowAt;
    // Beside what has no type by itself the operator could be one of arrays.
    if is_contained && is_open(right) {
        return Ok(());
    }
    let left_fits = of.is_none_or(|ty| match ty {
        ColumnType::Jsonb | ColumnType::Array(_) => true,
        ColumnType::Json => takes_json(operator),
        _ => false,
    });
    if left_fits && and.is_none_or(|ty| takes(operator, ty)) && !is_text_for_array(operator, right, schema) {
        return Ok(());
    }
    Err(no_operator(&name(left, of, schema), operator, &name(right, and, schema)))
}

/// Whether the operator is one of `json`, too.
fn takes_json(operator: &BinaryOperator) -> bool {
    matches!(
        operator,
        BinaryOperator::Arrow
            | BinaryOperator::LongArrow
            | BinaryOperator::HashArrow
            | BinaryOperator::HashLongArrow
    )
}

/// Whether the operator takes a path or keys, as an array.
fn takes_texts(operator: &BinaryOperator) -> bool {
    matches!(
        operator,
        BinaryOperator::HashArrow
            | BinaryOperator::HashLongArrow
            | BinaryOperator::HashMinus
            | BinaryOperator::QuestionPipe
            | BinaryOperator::QuestionAnd
    )
}

/// Whether something of this type stands behind the operator.
fn takes(operator: &BinaryOperator, ty: ColumnType) -> bool {
    match operator {
        BinaryOperator::Arrow | BinaryOperator::LongArrow => {
            is_text(ty) || matches!(ty, ColumnType::SmallInt | ColumnType::Int)
        }
        BinaryOperator::Question => is_text(ty),
        BinaryOperator::AtArrow | BinaryOperator::ArrowAt => {
            matches!(ty, ColumnType::Jsonb | ColumnType::Array(_))
        }
        operator if takes_texts(operator) => {
            matches!(
                ty,
                ColumnType::Array(ElementType::Text | ElementType::Varchar(_) | ElementType::Char(_))
            )
        }
        _ => true,
    }
}

fn is_text(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_))
}

/// Whether a column of texts stands in the place of an array of them: it is none whether its texts are documents or not.
fn is_text_for_array(operator: &BinaryOperator, operand: &Expr, schema: &DFSchema) -> bool {
    takes_texts(operator)
        && matches!(operand, Expr::Column(_))
        && operand.get_type(schema).is_ok_and(|ty| ty.is_string())
}

/// Whether an operand has no type by itself.
fn is_open(operand: &Expr) -> bool {
    match operand {
        Expr::Literal(value, _) => value.data_type().is_string() || value.is_null(),
        Expr::Placeholder(_) => true,
        _ => false,
    }
}

/// The type of an operand, if it is known for sure.
fn known_type(operand: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    // No operator is left that gives a document, and to ask a long chain of them for its field takes the square of its length.
    if is_open(operand) || matches!(operand, Expr::BinaryExpr(_)) {
        return None;
    }
    if let Some((_, to)) = call_parts(operand) {
        return Some(to);
    }
    let (_, field) = operand.to_field(schema).ok()?;
    match column_type_of_field(&field)? {
        ColumnType::Text => None,
        // A whole number that is written out may be an `int` as well.
        ColumnType::BigInt if !matches!(operand, Expr::Column(_) | Expr::Cast(_)) => None,
        ty => Some(ty),
    }
}

/// What a message calls the type of an operand.
fn name(operand: &Expr, known: Option<ColumnType>, schema: &DFSchema) -> String {
    if let Some(ty) = known {
        return type_name(ty);
    }
    if is_open(operand) {
        return "unknown".to_owned();
    }
    operand.get_type(schema).map_or_else(
        |_| "unknown".to_owned(),
        |ty| column_type_of_arrow(&ty).map_or_else(|| type_in_words(&ty), type_name),
    )
}
