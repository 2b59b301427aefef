// SPDX-License-Identifier: Apache-2.0
//! Which statements change and lock nothing.

use super::block::IsQuery;
use crate::dml;
use crate::names::split_name;
use crate::relations::{INFORMATION_SCHEMA, PG_CATALOG, is_unqualified};
use crate::walk::find_relation;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement};

/// The query that a statement is, if it changes and locks nothing.
pub(super) fn plain_query(statement: &Statement) -> Option<&Query> {
    match statement {
        Statement::Query(body) if dml::is_plain_query(body) => Some(body),
        _ => None,
    }
}

/// Whether a statement changes and locks nothing.
pub(super) fn is_query_statement(statement: &Statement) -> IsQuery {
    let Some(query) = plain_query(statement) else { return IsQuery::No };
    match find_relation(query, |name| (!is_of_system(name)).then_some(())) {
        Some(()) => IsQuery::Yes,
        None => IsQuery::OfSystem,
    }
}

/// Whether a name means a table or view of the system, whatever tables users have.
fn is_of_system(name: &ObjectName) -> bool {
    match split_name(name) {
        Ok((Some(schema), _)) => matches!(&*schema, PG_CATALOG | INFORMATION_SCHEMA),
        Ok((None, name)) => is_unqualified(&name),
        Err(_) => false,
    }
}
