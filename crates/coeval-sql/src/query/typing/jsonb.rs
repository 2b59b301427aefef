// SPDX-License-Identifier: Apache-2.0
//! `jsonb` in comparisons and ORDER BY: by the order of documents, not of the text that they are kept as.

use super::declared::column_type_of_field;
use crate::error::SqlError;
use coeval_store::ColumnType;
use datafusion::common::DFSchema;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, Sort, WindowFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit, when};

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

/// Casts literals without a type among documents to theirs: what an array of them is made of.
pub(super) fn settle_elements(elements: &mut [Expr], schema: &DFSchema) -> Result<()> {
    let document_type = |element: &Expr| {
        let ty = element.to_field(schema).ok().and_then(|(_, field)| column_type_of_field(&field));
        ty.filter(|ty| matches!(ty, ColumnType::Json | ColumnType::Jsonb))
    };
    let Some(ty) = elements.iter().find_map(document_type) else { return Ok(()) };
    for element in elements {
        if matches!(element, Expr::Literal(scalar, _) if scalar.try_as_str().flatten().is_some()) {
            *element = super::casts::literal_as(element.clone(), ty)?;
        }
    }
    Ok(())
}

/// The keys of an order with documents in theirs; whether there are any.
fn settle_keys(keys: &mut [Sort], schema: &DFSchema) -> Result<bool> {
    let mut has_documents = false;
    for key in keys {
        if is_jsonb(&key.expr, schema) {
            key.expr = ordered(key.expr.clone())?;
            has_documents = true;
        }
    }
    Ok(has_documents)
}

/// An aggregate over rows in the order of documents; `None` if it is not.
pub(super) fn settle_aggregate(call: &AggregateFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    if call.params.order_by.is_empty() {
        return Ok(None);
    }
    let mut call = call.clone();
    Ok(settle_keys(&mut call.params.order_by, schema)?.then_some(Expr::AggregateFunction(call)))
}

/// Arguments of `greatest` and `least` that are compared one with the other; more would be written too often.
const COMPARED_MAX: usize = 4;

/// `nullif`, `greatest` and `least` of documents by their order; `None` for other arguments.
pub(super) fn settle_choice(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let arguments = &function.args;
    if arguments.len() > COMPARED_MAX || !arguments.iter().any(|argument| is_jsonb(argument, schema)) {
        return Ok(None);
    }
    let documents = arguments.iter().map(|argument| {
        if is_jsonb(argument, schema) {
            Ok(argument.clone())
        } else {
            super::casts::literal_as(argument.clone(), ColumnType::Jsonb)
        }
    });
    let mut documents = documents.collect::<Result<Vec<_>, _>>()?.into_iter();
    let Some(first) = documents.next() else { return Ok(None) };
    let chosen = |left: Expr, right: Expr| -> Result<Expr> {
        let (left_key, right_key) = (ordered(left.clone())?, ordered(right.clone())?);
        match function.name() {
            "nullif" => when(left_key.eq(right_key), lit(datafusion::common::ScalarValue::Utf8View(None)))
                .otherwise(left),
            name => {
                let is_left =
                    if name == "greatest" { left_key.gt_eq(right_key) } else { left_key.lt_eq(right_key) };
                when(right.clone().is_null().or(is_left), left.clone())
                    .when(left.is_null(), right.clone())
                    .otherwise(right)
            }
        }
    };
    documents.try_fold(first, chosen).map(Some)
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
