// SPDX-License-Identifier: Apache-2.0
//! CREATE SCHEMA.

use super::role_syntax::RoleName;
use super::{lookup, roles};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::relations::CATALOG_NAME;
use crate::result::StatementResult;
use crate::rights::insufficient;
use coeval_store::{CatalogChange, ObjectAccess};
use datafusion::sql::sqlparser::ast::{ObjectName, SchemaName};

/// What to do if the object is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// `IF NOT EXISTS`.
    Keep,
    /// An error.
    Refuse,
}

/// `42501`: only superusers may create schemas.
pub(super) fn may_not_create() -> SqlError {
    insufficient(format!("permission denied for database {CATALOG_NAME}"))
}

/// CREATE SCHEMA.
///
/// # Errors
/// 42P06 if it is there, 42939 for names that the system keeps for itself.
pub(super) fn create(
    context: &mut StatementContext<'_>,
    name: &SchemaName,
    existing: Existing,
) -> Result<StatementResult, SqlError> {
    let (name, owner) = match name {
        SchemaName::Simple(name) => (name.clone(), None),
        SchemaName::NamedAuthorization(name, owner) => (name.clone(), Some(owner)),
        SchemaName::UnnamedAuthorization(owner) => (ObjectName::from(vec![owner.clone()]), Some(owner)),
    };
    let (None, schema) = lookup::split_name(&name)? else {
        return Err(SqlError::syntax(format!("improper schema name: {name}")));
    };
    if !context.rights().is_superuser() {
        return Err(may_not_create());
    }
    let access = match owner {
        None => lookup::own_access(context),
        Some(owner) => {
            let owner = roles::owner_named(context, &RoleName::Named(lookup::fold(owner)))?;
            ObjectAccess::owned_by(owner.as_deref())
        }
    };
    if schema.starts_with("pg_") || schema == crate::relations::INFORMATION_SCHEMA {
        let message = format!("unacceptable schema name \"{schema}\"");
        return Err(SqlError::new(SqlState::ReservedName, message)
            .with_detail("The prefix \"pg_\" and information_schema are reserved for the system."));
    }
    if context.transaction.catalog().has_schema(&schema) {
        if existing == Existing::Keep {
            let message = format!("schema \"{schema}\" already exists, skipping");
            context.notice(SqlState::DuplicateSchema, message);
            return Ok(StatementResult::plain("CREATE SCHEMA"));
        }
        let message = format!("schema \"{schema}\" already exists");
        return Err(SqlError::new(SqlState::DuplicateSchema, message));
    }
    context.transaction.change_catalog(CatalogChange::PutSchema(schema.clone()))?;
    if !access.is_default() {
        context.transaction.change_catalog(CatalogChange::PutSchemaAccess(schema, access))?;
    }
    Ok(StatementResult::plain("CREATE SCHEMA"))
}
