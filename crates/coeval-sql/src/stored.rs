// SPDX-License-Identifier: Apache-2.0
//! What definitions keep beside plain facts, read: expressions and queries as text, what an index is declared on, hidden row
//! ids. Nothing here needs a statement that runs.

pub(crate) mod expressions;
pub(crate) mod index_keys;
mod row_ids;
pub(crate) mod updatable;
pub(crate) mod view_query;

pub(crate) use expressions::{columns_named, sequences_named};
pub(crate) use row_ids::{ROW_ID_COLUMN, counts_rows};

use crate::error::SqlError;
use crate::parse::parse_known;
use coeval_store::ViewDef;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use std::collections::BTreeSet;

/// The query in a text of our own making, or one that was read before.
///
/// # Errors
/// XX000 if the text is not one query.
pub(crate) fn parse_query(sql: &str) -> Result<Box<Query>, SqlError> {
    let mut statements = parse_known(sql)
        .map_err(|error| SqlError::internal(format!("a stored query cannot be read: {error}")))?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => Ok(query),
        _ => Err(SqlError::internal(format!("a stored query is not one query: {sql}"))),
    }
}

/// The query of a view.
///
/// # Errors
/// XX000 if the stored text cannot be read.
pub(crate) fn view_query_of(view: &ViewDef) -> Result<Box<Query>, SqlError> {
    parse_query(&view.query)
}

/// The relations that the query of a view names, with their schemas; none if its text cannot be read.
pub(crate) fn relations_of_view(view: &ViewDef) -> BTreeSet<(Option<String>, String)> {
    view_query_of(view).map(|query| view_query::relations(&query)).unwrap_or_default()
}
