// SPDX-License-Identifier: Apache-2.0
//! Texts become statements, in PostgreSQL's dialect.

use crate::error::{Result, SqlState, TiqueError};
use crate::place;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The statements of a text.
///
/// # Errors
/// 42601, with the line and column.
pub(crate) fn parse(sql: &str) -> Result<Vec<Statement>> {
    Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(|error| {
        let message = error.to_string();
        let (said, place) = place::of_parser(&message);
        TiqueError { place, ..TiqueError::new(SqlState::SyntaxError, said) }
    })
}

/// A query that we wrote, parsed.
pub(crate) fn parse_query(sql: &str) -> Result<Query> {
    match parse(sql)?.pop() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(TiqueError::new(SqlState::SyntaxError, format!("not a query: {sql}"))),
    }
}
