// SPDX-License-Identifier: Apache-2.0
//! What gives one of several documents is a document: CASE, `coalesce`, the row of a subquery, which may be an array of documents, too;
//! and so is a parameter that was declared as one.
//!
//! That a text is a `json` or `jsonb` is said by a mark of its field, which DataFusion forgets of these when it runs them.
//! Whoever makes JSON of values, `json_build_object('tags', coalesce(json_agg(t.name), '[]'))`, then took the document for a
//! text, and put it in quotes. So a function that gives the same text stands around each, and says of what type it is.

use crate::scalar::cast_function::literal_as;
use crate::types::column_type_of_field;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Case, Cast, Expr, ExprSchemable};

/// The expression with its literals among documents as documents, and with its type; `None` if it gives none.
pub(super) fn kept(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (kept, ty) = match expression {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            let Some(ty) = common(results.map(AsRef::as_ref), schema) else { return Ok(None) };
            (Expr::Case(with_literals(case.clone(), ty)?), ty)
        }
        Expr::ScalarFunction(call) if call.name() == "coalesce" => {
            let Some(ty) = common(call.args.iter(), schema) else { return Ok(None) };
            let mut call = call.clone();
            for argument in &mut call.args {
                read_literal(argument, ty)?;
            }
            (Expr::ScalarFunction(call), ty)
        }
        // What comes in the place of a parameter is a text.
        Expr::Placeholder(Placeholder { field: Some(declared), .. }) => {
            let Some(ty) = column_type_of_field(declared).filter(is_document) else { return Ok(None) };
            (expression.clone(), ty)
        }
        Expr::ScalarSubquery(query) => {
            let row = query.subquery.schema().fields().first().and_then(|field| column_type_of_field(field));
            let Some(ty) = row else { return Ok(None) };
            (expression.clone(), ty)
        }
        _ => return Ok(None),
    };
    let Some(keeper) = crate::json::keeper(ty) else { return Ok(None) };
    Ok(Some(crate::json::function(keeper)?.call(vec![kept])))
}

/// Whether an expression is a parameter that was declared as a document, as [`kept`] gives it.
pub(super) fn is_parameter(expression: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expression else { return false };
    let keepers = [ColumnType::Json, ColumnType::Jsonb].map(crate::json::keeper);
    keepers.contains(&Some(call.name())) && matches!(call.args[..], [Expr::Placeholder(_)])
}

fn is_document(ty: &ColumnType) -> bool {
    matches!(ty, ColumnType::Json | ColumnType::Jsonb)
}

/// The type of documents that all of these are, but for literals and NULLs.
fn common<'e>(choices: impl Iterator<Item = &'e Expr>, schema: &DFSchema) -> Option<ColumnType> {
    let mut common = None;
    for choice in choices {
        match choice {
            choice if is_literal(choice) => continue,
            // No operator but one of functions gives a document, and long chains of them are asked for nothing.
            Expr::BinaryExpr(_) => return None,
            _ => {}
        }
        let (_, field) = choice.to_field(schema).ok()?;
        if field.data_type().is_null() {
            continue;
        }
        let ty = column_type_of_field(&field).filter(is_document)?;
        if *common.get_or_insert(ty) != ty {
            return None;
        }
    }
    common
}

fn with_literals(mut case: Case, ty: ColumnType) -> Result<Case> {
    let results = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr);
    for result in results {
        read_literal(result, ty)?;
    }
    Ok(case)
}

/// The literal that an expression is, which DataFusion may have made another text of.
fn literal_of(expression: &Expr) -> Option<(&Expr, &ScalarValue)> {
    match expression {
        Expr::Literal(scalar, _) => Some((expression, scalar)),
        Expr::Cast(Cast { expr, field }) if field.data_type().is_string() => literal_of(expr),
        _ => None,
    }
}

/// Whether an expression is a literal text, or NULL.
fn is_literal(expression: &Expr) -> bool {
    literal_of(expression).is_some_and(|(_, scalar)| scalar.is_null() || scalar.data_type().is_string())
}

/// A text literal becomes a document.
fn read_literal(choice: &mut Expr, ty: ColumnType) -> Result<()> {
    if let Some((literal, scalar)) = literal_of(choice)
        && scalar.try_as_str().flatten().is_some()
    {
        *choice = literal_as(literal.clone(), ty)?;
    }
    Ok(())
}
