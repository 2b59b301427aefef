// SPDX-License-Identifier: Apache-2.0
//! A `char(n)` where PostgreSQL sees the blanks that fill it up: in patterns, in its length in bytes, and where it is written into
//! another text. Elsewhere they do not count, and it is kept without them.

use super::declared::is_char;
use crate::types::marks::marked_type;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, Like, lit};
use std::sync::Arc;

/// Functions that see the blanks.
const FUNCTIONS: [&str; 4] = ["octet_length", "concat", "concat_ws", "format"];

/// The expression with each `char(n)` filled up where that is seen; `None` if it is right as it is.
///
/// # Errors
/// If there is no function that fills up: a bug.
pub(super) fn settled(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    match expression {
        Expr::Like(like) if !is_prefix(&like.pattern) => {
            let filled = filled_up(&like.expr, schema)?;
            Ok(filled.map(|filled| Expr::Like(Like { expr: Box::new(filled), ..like.clone() })))
        }
        Expr::ScalarFunction(call) if FUNCTIONS.contains(&call.name()) => {
            let mut arguments = call.args.clone();
            let mut has_any = false;
            for argument in &mut arguments {
                if let Some(filled) = filled_up(argument, schema)? {
                    *argument = filled;
                    has_any = true;
                }
            }
            let filled = ScalarFunction::new_udf(Arc::clone(&call.func), arguments);
            Ok(has_any.then_some(Expr::ScalarFunction(filled)))
        }
        _ => Ok(None),
    }
}

/// A `char(n)` with its blanks; `None` for all else.
fn filled_up(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    if !is_char(expression, schema) {
        return Ok(None);
    }
    let (_, field) = expression.to_field(schema)?;
    let Some(ColumnType::Char(length)) = marked_type(&field) else { return Ok(None) };
    let fill = crate::functions::function("rpad")?;
    Ok(Some(fill.call(vec![expression.clone(), lit(i64::from(length))])))
}

/// Whether a pattern asks for a beginning that blanks at the end neither make nor hide: then no row has to be filled up.
fn is_prefix(pattern: &Expr) -> bool {
    let Expr::Literal(pattern, _) = pattern else { return false };
    let beginning = pattern.try_as_str().flatten().and_then(|pattern| pattern.strip_suffix('%'));
    beginning.is_some_and(|beginning| !beginning.contains(['%', '_', '\\']) && !beginning.ends_with(' '))
}
