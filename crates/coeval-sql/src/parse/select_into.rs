// SPDX-License-Identifier: Apache-2.0
//! `SELECT ... INTO table`, which is `CREATE TABLE table AS SELECT ...`.

use crate::error::SqlError;
use crate::walk::any_select;
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{Query, Select, SelectInto, SetExpr, Statement};

/// Makes a definition of a query that names a table to put its rows into.
///
/// # Errors
/// `42601` where there is no such table: in subqueries, and behind the first SELECT of a UNION.
pub(super) fn as_definition(statement: &mut Statement) -> Result<(), SqlError> {
    if let Statement::Prepare { statement, .. } = statement {
        return as_definition(statement);
    }
    let Statement::Query(query) = statement else { return Ok(()) };
    let into = first_select(query).and_then(|select| select.into.take());
    if any_select(query, |select| select.into.is_some()) {
        return Err(SqlError::syntax("SELECT ... INTO is not allowed here"));
    }
    let Some(SelectInto { temporary, unlogged, name, .. }) = into else { return Ok(()) };
    if unlogged {
        return Err(SqlError::unsupported("UNLOGGED table"));
    }
    let definition = CreateTableBuilder::new(name).temporary(temporary).query(Some(query.clone())).build();
    *statement = Statement::CreateTable(definition);
    Ok(())
}

/// The first SELECT of a query, however many there are.
fn first_select(query: &mut Query) -> Option<&mut Select> {
    let mut body = query.body.as_mut();
    loop {
        body = match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::Query(query) => query.body.as_mut(),
            SetExpr::SetOperation { left, .. } => left.as_mut(),
            _ => return None,
        };
    }
}
