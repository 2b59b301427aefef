// SPDX-License-Identifier: Apache-2.0
//! CREATE SCHEMA.

use super::lookup;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use coeval_store::CatalogChange;
use datafusion::sql::sqlparser::ast::SchemaName;

/// What to do if the object is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// `IF NOT EXISTS`.
    Keep,
    /// An error.
    Refuse,
}

/// CREATE SCHEMA.
///
/// # Errors
/// 42P06 if it is there, 42939-like refusal of names that the system keeps for itself.
pub(super) fn create(
    context: &mut StatementContext<'_>,
    name: &SchemaName,
    existing: Existing,
) -> Result<StatementResult, SqlError> {
    let SchemaName::Simple(name) = name else {
        return Err(SqlError::unsupported("CREATE SCHEMA AUTHORIZATION"));
    };
    let (None, schema) = lookup::split_name(name)? else {
        return Err(SqlError::syntax(format!("improper schema name: {name}")));
    };
    if schema.starts_with("pg_") || schema == crate::system::INFORMATION_SCHEMA {
        let message = format!("unacceptable schema name \"{schema}\"");
        return Err(SqlError::new(SqlState::InvalidName, message)
            .with_detail("The prefix \"pg_\" and information_schema are reserved for the system."));
    }
    if context.transaction.catalog().has_schema(&schema) {
        if existing == Existing::Keep {
            return Ok(StatementResult::plain("CREATE SCHEMA"));
        }
        let message = format!("schema \"{schema}\" already exists");
        return Err(SqlError::new(SqlState::DuplicateSchema, message));
    }
    context.transaction.change_catalog(CatalogChange::PutSchema(schema))?;
    Ok(StatementResult::plain("CREATE SCHEMA"))
}
