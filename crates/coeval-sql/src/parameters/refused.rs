// SPDX-License-Identifier: Apache-2.0
//! Parameters that PostgreSQL refuses, whatever else the statement does: those without a type, and those with two.

use super::numbers::index_of;
use crate::error::{SqlError, SqlState};
use crate::types::type_name;
use crate::walk::each_expression;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{Expr, Statement};
use std::collections::BTreeMap;

/// Refuses a parameter that no place gives a type: none names it, or all that do ask whether it is NULL. Of each parameter
/// `places` has how often it is named, and `known` the type that is declared or stated.
///
/// # Errors
/// `42P18`, naming the parameter.
pub(crate) fn refuse_undetermined(
    statement: &Statement,
    places: &[usize],
    known: &[Option<ColumnType>],
) -> Result<(), SqlError> {
    let mut telling = places.to_vec();
    each_expression(statement, |expression| {
        if let Expr::IsNull(asked) | Expr::IsNotNull(asked) = expression
            && let Some(count) = index_of(asked).and_then(|index| telling.get_mut(index))
        {
            *count -= 1;
        }
    });
    let is_known = |index: usize| known.get(index).copied().flatten().is_some();
    match telling.iter().enumerate().find(|(index, count)| **count == 0 && !is_known(*index)) {
        None => Ok(()),
        Some((index, _)) => {
            let message = format!("could not determine data type of parameter ${}", index + 1);
            Err(SqlError::new(SqlState::IndeterminateDatatype, message))
        }
    }
}

/// Refuses a parameter that is given to columns of two types at once, and stands nowhere else: neither is the first to say what it
/// is. `given` has the expressions of one row, or of one SET, with the types of their columns; the rest is as in
/// [`refuse_undetermined`].
///
/// # Errors
/// `42P08`, naming the parameter.
pub(crate) fn refuse_two_types(
    given: &[(&Expr, ColumnType)],
    places: &[usize],
    known: &[Option<ColumnType>],
) -> Result<(), SqlError> {
    let mut types: BTreeMap<usize, Vec<ColumnType>> = BTreeMap::new();
    for (expression, ty) in given {
        if let Some(index) = index_of(expression) {
            types.entry(index).or_default().push(*ty);
        }
    }
    for (index, types) in types {
        let is_known = known.get(index).copied().flatten().is_some();
        if is_known || places.get(index) != Some(&types.len()) {
            continue;
        }
        let mut names = types.into_iter().map(type_name);
        let first = names.next().unwrap_or_default();
        if let Some(other) = names.find(|name| *name != first) {
            let message = format!("inconsistent types deduced for parameter ${}", index + 1);
            let error = SqlError::new(SqlState::AmbiguousParameter, message);
            return Err(error.with_detail(format!("{first} versus {other}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::numbers::places_in;
    use super::*;
    use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr};
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn parsed(sql: &str) -> Statement {
        Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0)
    }

    #[test]
    fn a_parameter_that_no_place_gives_a_type_is_refused() {
        let refused = |sql: &str, known: &[Option<ColumnType>]| {
            let statement = parsed(sql);
            let refused = refuse_undetermined(&statement, &places_in(&statement).unwrap(), known);
            refused.err().map(|error| error.message)
        };
        let of = |number: usize| Some(format!("could not determine data type of parameter ${number}"));
        assert_eq!(refused("SELECT $2", &[]), of(1));
        assert_eq!(refused("SELECT $1, $2 IS NULL OR ($2) IS NOT NULL", &[]), of(2));
        assert_eq!(refused("SELECT $1 IS NULL OR a = $1 FROM t", &[]), None);
        assert_eq!(refused("SELECT $3, $1 IS NULL", &[Some(ColumnType::Int); 2]), None);
    }

    #[test]
    fn a_parameter_of_two_columns_of_different_types_is_refused() {
        let detail = |sql: &str, types: &[ColumnType], known: &[Option<ColumnType>]| {
            let statement = parsed(sql);
            let Statement::Query(query) = &statement else { panic!("a query") };
            let SetExpr::Select(select) = query.body.as_ref() else { panic!("a SELECT") };
            let items = select.projection.iter().map(|item| match item {
                SelectItem::UnnamedExpr(expression) => expression,
                other => panic!("{other}"),
            });
            let given: Vec<_> = items.zip(types.iter().copied()).collect();
            let refused = refuse_two_types(&given, &places_in(&statement).unwrap(), known);
            refused.err().and_then(|error| error.detail)
        };
        let types = [ColumnType::Int, ColumnType::Text, ColumnType::Varchar(3), ColumnType::Varchar(4)];
        assert_eq!(detail("SELECT $1, $1", &types, &[]).as_deref(), Some("integer versus text"));
        assert_eq!(detail("SELECT 0, $1, $1", &types, &[]).as_deref(), Some("text versus character varying"));
        assert_eq!(detail("SELECT 0, 0, $1, $1", &types, &[]), None);
        assert_eq!(detail("SELECT $1, $1 WHERE a = $1", &types, &[]), None);
        assert_eq!(detail("SELECT $1, $1", &types, &[Some(ColumnType::Int)]), None);
    }
}
