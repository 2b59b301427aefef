// SPDX-License-Identifier: Apache-2.0
//! Statements that change definitions. Each is checked here and then put to the transaction as
//! [`CatalogChange`](coeval_store::CatalogChange)s, so it is visible to the statements behind it, goes with a
//! rollback, and is certified and logged like any write.
//!
//! What a clause would mean and is not kept is refused by name, never passed over.

mod access;
mod add_column;
mod alter_column;
mod alter_constraint;
mod alter_default_privileges;
mod alter_table;
mod alter_view;
mod bricks;
mod changed_table;
mod columns;
mod comment;
mod computed_column;
mod constraints;
mod create_table;
mod default_privileges;
mod dependents;
mod domains;
mod drop;
mod drop_column;
mod drop_constraint;
mod enum_types;
mod existence;
mod expressions;
mod extended;
mod generated_columns;
mod grants;
mod identity_column;
mod index;
mod index_keys;
mod index_memory;
mod instants;
mod layout;
mod like_columns;
mod lookup;
mod named_roles;
mod naming;
mod owners;
mod ownership;
mod promoted_index;
mod rename;
mod rewrite;
mod role_syntax;
mod roles;
mod schema;
mod schema_elements;
mod sequence;
mod sequence_options;
mod sequence_values;
mod session_defaults;
mod storage_parameters;
mod temporary;
mod truncate;
mod validate;
mod view;
mod view_columns;
mod view_options;

pub(crate) use extended::{Extended, execute as execute_extended};
pub(crate) use instants::{fix as fix_instants, has_local as has_local_instants};
pub(crate) use schema_elements::{Element as SchemaElement, SchemaElements};
pub(crate) use session_defaults::AlterSessionDefaults;

use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use coeval_store::ObjectRef;
use datafusion::sql::sqlparser::ast::{
    AlterIndexOperation, CreateExtension, CreateTable, ObjectName, Statement,
};
use dependents::Behavior;
use temporary::Lasting;

/// Runs a DDL statement; `None` if it is not one.
///
/// # Errors
/// Each statement's own, with PostgreSQL's SQLSTATEs; the transaction then holds some of its changes, and the
/// caller rolls back to where the statement began.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<Option<StatementResult>, SqlError> {
    let result = match statement {
        Statement::CreateTable(create) => match context.settings.table_server() {
            // What a session has for itself is here.
            Some(server)
                if create.query.is_none()
                    && Lasting::of(&create.name, create.temporary.into())? == Lasting::Permanent =>
            {
                crate::tique::create_table(context, create, &server, create_row_table)?
            }
            _ => create_table::execute(context, create, None)?,
        },
        Statement::AlterTable(alter) => alter_table::execute(context, alter)?,
        Statement::CreateIndex(create) => index::create(context, create)?,
        Statement::CreateView(create) => view::create(context, create)?,
        Statement::Truncate(truncate) => truncate::execute(context, truncate)?,
        Statement::CreateSchema { .. } => {
            schema::create(context, statement)?;
            StatementResult::plain("CREATE SCHEMA")
        }
        Statement::Drop { .. } => drop_objects(context, statement)?,
        Statement::CreateExtension(create) => create_extension(context, create)?,
        Statement::Comment { object_type, object_name, comment, .. } => {
            comment::execute(context, *object_type, object_name, comment.as_deref())?
        }
        Statement::CreateType { name, representation } => {
            enum_types::create(context, name, representation.as_ref())?
        }
        Statement::AlterType(alter) => enum_types::alter(context, alter)?,
        Statement::AlterIndex { name, operation } => rename_index(context, name, operation)?,
        _ => return Ok(None),
    };
    Ok(Some(result))
}

/// CREATE TABLE of a row table, whatever the session's default server is.
///
/// # Errors
/// As [`create_table::execute`].
fn create_row_table(
    context: &mut StatementContext<'_>,
    create: &CreateTable,
) -> Result<StatementResult, SqlError> {
    create_table::execute(context, create, None)
}

/// What scripts ask for and what is always there: the language that every database of PostgreSQL has, and the extensions of which
/// a random UUID is wanted.
const BUILT_IN: [&str; 3] = ["plpgsql", "pgcrypto", "uuid-ossp"];

/// PostgreSQL has `plpgsql` in every database, and scripts make sure of it whether or not they use it. There are no
/// extensions here; of some the functions that scripts call are built in.
///
/// # Errors
/// `42710` for one that is always there, `0A000` for all others.
fn create_extension(
    context: &mut StatementContext<'_>,
    create: &CreateExtension,
) -> Result<StatementResult, SqlError> {
    let name = lookup::fold(&create.name);
    if !BUILT_IN.contains(&name.as_str()) {
        return Err(SqlError::unsupported(format!("extension \"{name}\"")));
    }
    if !create.if_not_exists {
        let message = format!("extension \"{name}\" already exists");
        return Err(SqlError::new(SqlState::DuplicateObject, message));
    }
    let message = format!("extension \"{name}\" already exists, skipping");
    context.notice(SqlState::DuplicateObject, message);
    Ok(StatementResult::plain("CREATE EXTENSION"))
}

fn drop_objects(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<StatementResult, SqlError> {
    let Statement::Drop { object_type, if_exists, names, cascade, purge, temporary, table, .. } = statement
    else {
        return Err(SqlError::internal("DROP was expected"));
    };
    if *purge || *temporary || table.is_some() {
        return Err(SqlError::unsupported("this form of DROP"));
    }
    let drop = drop::Drop {
        kind: object_type,
        names,
        missing: if *if_exists { existence::Missing::Skip } else { existence::Missing::Refuse },
        behavior: if *cascade { Behavior::Cascade } else { Behavior::Restrict },
    };
    drop::execute(context, &drop)
}

fn rename_index(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    operation: &AlterIndexOperation,
) -> Result<StatementResult, SqlError> {
    let AlterIndexOperation::RenameIndex { index_name } = operation;
    match lookup::resolve(context, name)? {
        Some((name, object @ ObjectRef::Index(..))) => {
            lookup::require_owner(context, &name, object)?;
            rename::relation(context, &name, object, index_name)?;
        }
        Some((name, _)) => return Err(lookup::wrong_kind(&name, "index")),
        None => {
            let Some(def) = index::primary_key_named(context, name)? else {
                return Err(index::unknown(context, name));
            };
            lookup::require_owner(context, &def.name, ObjectRef::Table(def.id))?;
            let (_, new) = lookup::split_name(index_name)?;
            rename::constraint(context, &def, &def.primary_key_name, &new)?;
        }
    }
    Ok(StatementResult::plain("ALTER INDEX"))
}
