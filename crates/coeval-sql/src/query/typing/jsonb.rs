// SPDX-License-Identifier: Apache-2.0
//! `jsonb` in comparisons and ORDER BY: by the order of documents, not of the text that they are kept as; `||` of what is known late to
//! be one; casts to numbers and truth values.

use super::choice_by_key::Choice;
use crate::error::SqlError;
use crate::functions::{DOCUMENT_NUMBER, DOCUMENT_TRUTH, function};
use crate::scalar::cast_function::called;
use crate::types::{column_type_of_field, type_name};
use coeval_store::ColumnType;
use datafusion::common::DFSchema;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{ScalarFunction, Sort, WindowFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit, when};

/// Whether an expression is a `jsonb`.
pub(super) fn is_jsonb(expression: &Expr, schema: &DFSchema) -> bool {
    let is_of = |ty| matches!(ty, Some(ColumnType::Jsonb));
    // No operator gives a document; to ask a long chain of them for its field takes the square of its length.
    !matches!(expression, Expr::BinaryExpr(_))
        && expression.to_field(schema).is_ok_and(|(_, field)| is_of(column_type_of_field(&field)))
}

/// Texts in the order of the documents.
pub(super) fn ordered(document: Expr) -> Result<Expr, SqlError> {
    Ok(crate::json::function(crate::json::ORDER)?.call(vec![document]))
}

/// Operands of a comparison as texts in the order of documents; `None` if none is a `jsonb`.
pub(super) fn comparable(operands: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    if !operands.iter().any(|operand| is_jsonb(operand, schema)) {
        return Ok(None);
    }
    Ok(Some(operands.iter().cloned().map(ordered).collect::<Result<_, SqlError>>()?))
}

/// `||` of documents; `None` if it is of texts. When the operator was planned it was not known of a CASE, and of a column of a subquery that
/// is one, that it gives a document.
pub(super) fn concatenated(operation: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let BinaryExpr { left, op: Operator::StringConcat, right } = operation else { return Ok(None) };
    let (left_is, right_is) = (is_jsonb(left, schema), is_jsonb(right, schema));
    // What has no type by itself takes that of the other side.
    let is_open = |side: &Expr| matches!(side, Expr::Literal(..) | Expr::Placeholder(_));
    if (left_is && (right_is || is_open(right))) || (right_is && is_open(left)) {
        let documents = vec![left.as_ref().clone(), right.as_ref().clone()];
        return Ok(Some(crate::json::function("coeval_jsonb_concat")?.call(documents)));
    }
    Ok(None)
}

/// The cast of a `jsonb` to a number or a truth value, which is what the document says and no text; `None` if it is a cast of something
/// else, or to another type.
///
/// # Errors
/// If the type cannot be described: a bug.
pub(super) fn settled_cast(
    input: &Expr,
    to: ColumnType,
    schema: &DFSchema,
) -> Result<Option<Expr>, SqlError> {
    let is_truth = to == ColumnType::Boolean;
    let is_number = matches!(
        to,
        ColumnType::SmallInt
            | ColumnType::Int
            | ColumnType::BigInt
            | ColumnType::Numeric { .. }
            | ColumnType::AnyNumeric
            | ColumnType::Real
            | ColumnType::Double
    );
    if !(is_truth || is_number) || !is_jsonb(input, schema) {
        return Ok(None);
    }
    let name = if is_truth { DOCUMENT_TRUTH } else { DOCUMENT_NUMBER };
    let said = function(name)?.call(vec![input.clone(), lit(type_name(to))]);
    let is_said = is_truth || to == ColumnType::AnyNumeric;
    Ok(Some(if is_said { said } else { called(said, to)? }))
}

/// Casts literals without a type among documents to theirs: what an array of them is made of. Whether there are any.
pub(super) fn settle_elements(elements: &mut [Expr], schema: &DFSchema) -> Result<bool> {
    let document_type = |element: &Expr| {
        let ty = element.to_field(schema).ok().and_then(|(_, field)| column_type_of_field(&field));
        ty.filter(|ty| matches!(ty, ColumnType::Json | ColumnType::Jsonb))
    };
    let Some(ty) = elements.iter().find_map(document_type) else { return Ok(false) };
    let mut has_literals = false;
    for element in elements {
        if matches!(element, Expr::Literal(scalar, _) if scalar.try_as_str().flatten().is_some()) {
            *element = crate::scalar::cast_function::literal_as(element.clone(), ty)?;
            has_literals = true;
        }
    }
    Ok(has_literals)
}

/// The keys of an order with documents in theirs; whether there are any.
pub(super) fn settle_keys(keys: &mut [Sort], schema: &DFSchema) -> Result<bool> {
    let mut has_documents = false;
    for key in keys {
        if is_jsonb(&key.expr, schema) {
            key.expr = ordered(key.expr.clone())?;
            has_documents = true;
        }
    }
    Ok(has_documents)
}

/// `nullif`, `greatest` and `least` of documents by their order; `None` for other arguments.
pub(super) fn settle_choice(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let arguments = &function.args;
    if !arguments.iter().any(|argument| is_jsonb(argument, schema)) {
        return Ok(None);
    }
    let documents = arguments.iter().map(|argument| {
        if is_jsonb(argument, schema) {
            Ok(argument.clone())
        } else {
            crate::scalar::cast_function::literal_as(argument.clone(), ColumnType::Jsonb)
        }
    });
    let documents = documents.collect::<Result<Vec<_>, _>>()?;
    let keys = documents.iter().cloned().map(ordered).collect::<Result<Vec<_>, _>>()?;
    if let Some(choice) = Choice::of(function.name()) {
        return Ok(Some(choice.among(keys.into_iter().zip(documents))));
    }
    let ([left, _], [left_key, right_key]) = (&documents[..], &keys[..]) else { return Ok(None) };
    let null = lit(datafusion::common::ScalarValue::Utf8View(None));
    let chosen = when(left_key.clone().eq(right_key.clone()), null).otherwise(left.clone())?;
    // Of a CASE it would not be known that it is one.
    Ok(Some(called(chosen, ColumnType::Jsonb)?))
}

/// The ORDER BY, rows in the order of documents.
pub(super) fn settle_sort(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(mut sort) = plan else { return Ok(Transformed::no(plan)) };
    let schema = std::sync::Arc::clone(sort.input.schema());
    let is_changed = settle_keys(&mut sort.expr, &schema)?;
    Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
}

/// A window that is ordered by documents; `None` if it is not.
pub(super) fn settle_window(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    let mut call = call.clone();
    Ok(settle_keys(&mut call.params.order_by, schema)?.then_some(call))
}
