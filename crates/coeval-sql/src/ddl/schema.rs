// SPDX-License-Identifier: Apache-2.0
//! CREATE SCHEMA.

use super::default_privileges::{access_of_new, access_of_new_by};
use super::role_syntax::role_of;
use super::{lookup, named_roles};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::relations::CATALOG_NAME;
use crate::rights::{Principal, insufficient};
use coeval_store::{CatalogChange, NewObjects};
use datafusion::sql::sqlparser::ast::{SchemaName, Statement};

/// `42501`: only superusers may create schemas.
pub(super) fn may_not_create() -> SqlError {
    insufficient(format!("permission denied for database {CATALOG_NAME}"))
}

/// A schema that was made.
pub(super) struct Made {
    /// Its name.
    pub(super) name: String,
    /// Who AUTHORIZATION says that it belongs to, if that is said.
    pub(super) owner: Option<Principal>,
}

/// CREATE SCHEMA; `None` if the schema is there and that is no error.
///
/// # Errors
/// 42P06 if it is there, 42939 for names that the system keeps for itself.
pub(super) fn create(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<Option<Made>, SqlError> {
    let Statement::CreateSchema { schema_name, if_not_exists, with, options, default_collate_spec, clone } =
        statement
    else {
        return Err(SqlError::internal("CREATE SCHEMA was expected"));
    };
    if with.is_some() || options.is_some() || default_collate_spec.is_some() || clone.is_some() {
        return Err(SqlError::unsupported("option of CREATE SCHEMA"));
    }
    let (name, owner) = match schema_name {
        SchemaName::Simple(name) => (Some(name), None),
        SchemaName::NamedAuthorization(name, owner) => (Some(name), Some(role_of(owner))),
        SchemaName::UnnamedAuthorization(owner) => (None, Some(role_of(owner))),
    };
    if !context.rights().is_superuser() {
        return Err(may_not_create());
    }
    let schema = match (name, &owner) {
        (Some(name), _) => match lookup::split_name(name)? {
            (None, schema) => schema,
            (Some(_), _) => return Err(SqlError::syntax(format!("improper schema name: {name}"))),
        },
        (None, Some(owner)) => named_roles::resolved(context, owner)?,
        (None, None) => return Err(SqlError::internal("a schema has a name or an owner")),
    };
    let owner = owner.map(|owner| named_roles::owner_named(context, &owner)).transpose()?;
    let access = match &owner {
        None => access_of_new(context, NewObjects::Schemas, None),
        Some(owner) => access_of_new_by(context, owner.as_deref(), NewObjects::Schemas, None),
    };
    if schema.starts_with("pg_") || schema == crate::relations::INFORMATION_SCHEMA {
        let message = format!("unacceptable schema name \"{schema}\"");
        return Err(SqlError::new(SqlState::ReservedName, message)
            .with_detail("The prefix \"pg_\" and information_schema are reserved for the system."));
    }
    if context.transaction.catalog().has_schema(&schema) {
        if *if_not_exists {
            let message = format!("schema \"{schema}\" already exists, skipping");
            context.notice(SqlState::DuplicateSchema, message);
            return Ok(None);
        }
        let message = format!("schema \"{schema}\" already exists");
        return Err(SqlError::new(SqlState::DuplicateSchema, message));
    }
    context.transaction.change_catalog(CatalogChange::PutSchema(schema.clone()))?;
    if !access.is_default() {
        context.transaction.change_catalog(CatalogChange::PutSchemaAccess(schema.clone(), access))?;
    }
    let owner = owner.map(|owner| Principal::named(owner.as_deref().unwrap_or(CATALOG_NAME)));
    Ok(Some(Made { name: schema, owner }))
}
