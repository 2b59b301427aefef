// SPDX-License-Identifier: Apache-2.0
//! Expressions of new definitions: what they may hold, and the form in which they are kept.

use super::lookup;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::parse::fix_in_default;
pub(super) use crate::stored::expressions::{
    check_columns, named_sequences, names_column, parse, refuse_in_default, refuse_subquery, rename_column,
    rename_sequence, rename_table,
};
use crate::values::is_volatile;
use crate::walk::{any_expression, find_expression};
use coeval_store::{ColumnType, ObjectRef, QualifiedName};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Value as AstValue};

/// The expression with the schema of each sequence that it names, so that it means the same whatever search path
/// evaluates it.
///
/// # Errors
/// 42P01 for a name that is none.
pub(super) fn with_bound_sequences(context: &StatementContext<'_>, expr: &Expr) -> Result<Expr, SqlError> {
    let mut bound = expr.clone();
    for (schema, name) in named_sequences(&expr.to_string())? {
        let ident = Ident::with_quote('"', name.clone());
        if schema.is_none()
            && let Some((found, ObjectRef::Sequence(_))) =
                lookup::resolve(context, &ObjectName::from(vec![ident]))?
        {
            let old = QualifiedName::new(&found.schema, name);
            rename_sequence(&mut bound, &old, &found);
        }
    }
    Ok(bound)
}

/// The default of a column of this type, with the offset of the session's zone behind a literal that is an instant: it
/// means the same in whatever zone a row is written. A word for a day means that of now.
pub(super) fn with_fixed_instant(context: &StatementContext<'_>, mut expr: Expr, ty: ColumnType) -> Expr {
    let zone = context.settings.zone();
    fix_in_default(&mut expr, ty, context.clock, zone);
    let element = if let ColumnType::Array(element) = ty { element.column_type() } else { ty };
    let is_instant = matches!(element, ColumnType::TimestampTz | ColumnType::TimeTz);
    let Expr::Value(literal) = &expr else { return expr };
    let (true, AstValue::SingleQuotedString(text)) = (is_instant, &literal.value) else { return expr };
    // What is wrong with a literal is said where the default is tried.
    let Ok(value) = crate::types::parse_value(text, ty, zone) else { return expr };
    let mut fixed = String::new();
    crate::types::format_value(value.borrow(), ty, zone, &mut fixed);
    Expr::Value(AstValue::SingleQuotedString(fixed).into())
}

/// Refuses aggregate and window functions in a check.
///
/// # Errors
/// 42803.
pub(super) fn refuse_aggregates(context: &StatementContext<'_>, expr: &Expr) -> Result<(), SqlError> {
    refuse_aggregates_in(context, expr, "check constraint")
}

/// Refuses aggregate and window functions in expressions of this kind.
///
/// # Errors
/// 42803.
pub(super) fn refuse_aggregates_in(
    context: &StatementContext<'_>,
    expr: &Expr,
    place: &str,
) -> Result<(), SqlError> {
    let aggregates = context.engine.template().aggregate_functions();
    let refused = find_expression(expr, |expr| {
        let Expr::Function(function) = expr else { return None };
        if function.over.is_some() {
            return Some("window");
        }
        let name = function.name.to_string().to_lowercase();
        aggregates.contains_key(&name).then_some("aggregate")
    });
    match refused {
        Some(kind) => {
            let message = format!("{kind} functions are not allowed in {place}s");
            Err(SqlError::new(SqlState::GroupingError, message))
        }
        None => Ok(()),
    }
}

/// Whether values of both types that are equal are the same bytes in a key.
pub(super) fn same_key_bytes(a: ColumnType, b: ColumnType) -> bool {
    let scale = |ty| if let ColumnType::Numeric { scale, .. } = ty { Some(scale) } else { None };
    let is_moment = |ty| {
        matches!(
            ty,
            ColumnType::Date
                | ColumnType::Time
                | ColumnType::TimeTz
                | ColumnType::Timestamp
                | ColumnType::TimestampTz
        )
    };
    let alike = if is_moment(a) || is_moment(b) { a == b } else { a.is_bits() == b.is_bits() };
    let numeric = scale(a).is_some() && scale(b).is_some();
    (a.physical() == b.physical() || numeric) && scale(a) == scale(b) && alike
}

/// Whether the value of an expression over one row may be another one later: it calls a function that is not immutable.
pub(super) fn is_changing(context: &StatementContext<'_>, expr: &Expr) -> bool {
    use datafusion::logical_expr::Volatility;
    let functions = context.engine.template().scalar_functions();
    let changing = |expr: &Expr| {
        let Expr::Function(function) = expr else { return false };
        let name = function.name.to_string().to_lowercase();
        let known = functions.get(&name).map(|function| function.signature().volatility);
        let is_known = matches!(known, Some(Volatility::Volatile | Volatility::Stable));
        let is_time = matches!(
            name.as_str(),
            "now" | "current_date" | "current_time" | "current_timestamp" | "localtimestamp"
        );
        is_known || is_time
    };
    is_volatile(context, expr) || any_expression(expr, changing)
}
