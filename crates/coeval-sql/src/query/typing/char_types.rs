// SPDX-License-Identifier: Apache-2.0
//! `char(n)` in plans.
//!
//! A `char(n)` is kept without the blanks at its end, which do not count in comparisons. Arrow has no such type,
//! so fields of that type carry a mark, and a literal that is compared with one loses its blanks too.

use arrow::datatypes::Field;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};

const KEY: &str = "coeval.type";
const CHAR: &str = "char";

/// The field, marked if the type is `char(n)`.
pub(crate) fn marked(field: Field, ty: ColumnType) -> Field {
    if matches!(ty, ColumnType::Char(_)) {
        return field.with_metadata([(KEY.to_owned(), CHAR.to_owned())].into());
    }
    field
}

/// Whether an expression is a `char(n)`.
pub(super) fn is_char(expression: &Expr, schema: &DFSchema) -> bool {
    let marked = |field: &Field| field.metadata().get(KEY).is_some_and(|mark| mark == CHAR);
    matches!(expression, Expr::Column(_) | Expr::ScalarFunction(_))
        && expression.to_field(schema).is_ok_and(|(_, field)| marked(&field))
}

/// The text literal without the blanks at its end; `None` if it has none, or is something else.
pub(super) fn without_blanks(literal: &Expr) -> Option<Expr> {
    let Expr::Literal(scalar, metadata) = literal else { return None };
    let text = scalar.try_as_str().flatten()?;
    let kept = text.trim_end_matches(' ');
    (kept.len() < text.len())
        .then(|| Expr::Literal(ScalarValue::Utf8(Some(kept.to_owned())), metadata.clone()))
}
