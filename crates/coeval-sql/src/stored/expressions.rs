// SPDX-License-Identifier: Apache-2.0
//! Expressions that definitions keep as text: what they name, and how that is renamed.

use super::view_query::quoted;
use crate::error::{SqlError, SqlState};
use crate::names::{fold, split_name};
use crate::parse::parse_expression;
use crate::walk::{any_expression, any_query, change_expressions, each_expression, find_expression};
use coeval_store::{QualifiedName, TableDef};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value as AstValue, Visit,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The expression that a definition keeps as text.
///
/// # Errors
/// XX000 if the text is no expression: the definition is damaged.
pub(crate) fn parse(text: &str) -> Result<Expr, SqlError> {
    parse_expression(text)
        .map_err(|error| SqlError::internal(format!("a stored expression cannot be read: {error}")))
}

/// Refuses what neither a default nor a check can hold: a query, whatever the expression is that has it, such as `ARRAY(SELECT ...)`.
pub(crate) fn refuse_subquery(expr: &Expr, place: &str) -> Result<(), SqlError> {
    if any_query(expr, |_| true) {
        return Err(SqlError::new(SqlState::FeatureNotSupported, format!("cannot use subquery in {place}")));
    }
    Ok(())
}

/// The column name an expression is, with the table it is qualified by.
fn column_reference(expr: &Expr) -> Option<(Option<&Ident>, &Ident)> {
    match expr {
        Expr::Identifier(ident) => Some((None, ident)),
        Expr::CompoundIdentifier(parts) => {
            let (column, qualifiers) = parts.split_last()?;
            Some((qualifiers.last(), column))
        }
        _ => None,
    }
}

/// The columns that a check of this table names, in order of appearance, none twice.
///
/// # Errors
/// 42703 for a column that is not there, 42P01 for another table's, 0A000 for a subquery.
pub(crate) fn check_columns(def: &TableDef, expr: &Expr) -> Result<Vec<usize>, SqlError> {
    refuse_subquery(expr, "check constraint")?;
    let mut columns = Vec::new();
    let wrong = find_expression(expr, |expr| {
        let (table, ident) = column_reference(expr)?;
        if let Some(table) = table.map(fold).filter(|table| *table != def.name.name) {
            return Some(SqlError::missing_from(&table));
        }
        let name = fold(ident);
        match def.column_index(&name) {
            None => {
                Some(SqlError::new(SqlState::UndefinedColumn, format!("column \"{name}\" does not exist")))
            }
            Some(column) => {
                if !columns.contains(&column) {
                    columns.push(column);
                }
                None
            }
        }
    });
    match wrong {
        Some(error) => Err(error),
        None => Ok(columns),
    }
}

/// The columns that the text of a check names; none if it is no expression.
pub(crate) fn columns_named(def: &TableDef, text: &str) -> Vec<usize> {
    parse(text).and_then(|expression| check_columns(def, &expression)).unwrap_or_default()
}

/// Refuses defaults that name columns or hold subqueries.
///
/// # Errors
/// 0A000.
pub(crate) fn refuse_in_default(expr: &Expr) -> Result<(), SqlError> {
    refuse_subquery(expr, "DEFAULT expression")?;
    if any_expression(expr, |expr| column_reference(expr).is_some()) {
        let message = "cannot use column reference in DEFAULT expression";
        return Err(SqlError::new(SqlState::FeatureNotSupported, message));
    }
    Ok(())
}

/// Whether an expression or a query uses an identifier of this name as a column, anywhere.
pub(crate) fn names_column(syntax: &impl Visit, column: &str) -> bool {
    any_expression(syntax, |expr| column_reference(expr).is_some_and(|(_, ident)| fold(ident) == column))
}

/// The expression with a column renamed.
pub(crate) fn rename_column(expr: &mut Expr, old: &str, new: &Ident) {
    change_expressions(expr, |expr| match expr {
        Expr::Identifier(ident) if fold(ident) == old => *ident = new.clone(),
        Expr::CompoundIdentifier(parts) => {
            if let Some(last) = parts.last_mut().filter(|last| fold(last) == old) {
                *last = new.clone();
            }
        }
        _ => {}
    });
}

/// The expression with the table that qualifies its columns renamed.
pub(crate) fn rename_table(expr: &mut Expr, old: &str, new: &Ident) {
    change_expressions(expr, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [.., table, _] = parts.as_mut_slice()
            && fold(table) == old
        {
            *table = new.clone();
        }
    });
}

/// The sequences that an expression, kept as text, names in `nextval('..')` and its like.
///
/// # Errors
/// As [`parse`].
pub(crate) fn named_sequences(text: &str) -> Result<Vec<(Option<String>, String)>, SqlError> {
    let mut found = Vec::new();
    each_expression(&parse(text)?, |expr| {
        if let Expr::Function(function) = expr
            && let Some(name) = sequence_argument(function)
        {
            found.extend(sequence_name(&name));
        }
    });
    Ok(found)
}

/// The sequences that a default takes values from; none if its text cannot be read.
pub(crate) fn sequences_named(text: &str) -> Vec<(Option<String>, String)> {
    named_sequences(text).unwrap_or_default()
}

/// The expression with a sequence, named in `nextval('..')` and its like, renamed.
pub(crate) fn rename_sequence(expr: &mut Expr, old: &QualifiedName, new: &QualifiedName) {
    change_expressions(expr, |expr| {
        if let Expr::Function(function) = expr
            && let Some((schema, name)) = sequence_argument(function).and_then(|text| sequence_name(&text))
            && name == old.name
            && schema.as_ref().is_none_or(|schema| *schema == old.schema)
            && let FunctionArguments::List(list) = &mut function.args
            && let Some(first) = list.args.first_mut()
        {
            let text = format!("{}.{}", quoted(&new.schema), quoted(&new.name));
            let literal = Expr::value(AstValue::SingleQuotedString(text));
            *first = FunctionArg::Unnamed(FunctionArgExpr::Expr(literal));
        }
    });
}

/// The text argument of a sequence function.
fn sequence_argument(function: &Function) -> Option<String> {
    let name = function.name.to_string().to_lowercase();
    if !matches!(name.as_str(), "nextval" | "currval" | "setval") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(first)) = list.args.first()? else { return None };
    let first = if let Expr::Cast { expr, .. } = first { expr } else { first };
    match first {
        Expr::Value(value) => match &value.value {
            AstValue::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Schema and name in a text like `public."My_seq"`.
pub(crate) fn sequence_name(text: &str) -> Option<(Option<String>, String)> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).ok()?;
    split_name(&parser.parse_object_name(false).ok()?).ok()
}
