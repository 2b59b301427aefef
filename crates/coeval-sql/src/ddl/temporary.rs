// SPDX-License-Identifier: Apache-2.0
//! CREATE TEMPORARY: where it goes, and what may refer to it.

use super::lookup;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names;
use crate::temporary::{OnCommit, PG_TEMP, is_temporary};
use coeval_store::{CatalogChange, QualifiedName, TableDef};
use datafusion::sql::sqlparser::ast::{CreateTable, ObjectName, OnCommit as OnCommitClause};
use std::sync::Arc;

/// Whether a new relation belongs to the session alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasting {
    /// It stays.
    Permanent,
    /// TEMPORARY was said, or `pg_temp` is its schema.
    Session,
}

impl Lasting {
    /// As the statement has it.
    ///
    /// # Errors
    /// `42P16` for a temporary relation in a schema that stays.
    pub(super) fn of(name: &ObjectName, says_temporary: Said) -> Result<Self, SqlError> {
        let (schema, _) = lookup::split_name(name)?;
        match (schema.as_deref(), says_temporary) {
            (Some(PG_TEMP), _) | (None, Said::Yes) => Ok(Self::Session),
            (_, Said::No) => Ok(Self::Permanent),
            (Some(_), Said::Yes) => {
                let message = "cannot create temporary relation in non-temporary schema";
                Err(SqlError::new(SqlState::InvalidTableDefinition, message))
            }
        }
    }
}

/// Whether a word was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It was.
    Yes,
    /// It was not.
    No,
}

impl From<bool> for Said {
    fn from(is_said: bool) -> Self {
        if is_said { Self::Yes } else { Self::No }
    }
}

/// Where a new relation goes: the session's own schema, which is made if it is not there, or as any other.
///
/// # Errors
/// `3F000` if there is no such schema, `42501` if the session may not make anything there.
pub(super) fn target(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    lasting: Lasting,
) -> Result<QualifiedName, SqlError> {
    if lasting == Lasting::Permanent {
        return lookup::target(context, name);
    }
    let (_, name) = lookup::split_name(name)?;
    names::refuse_own_name(&name)?;
    let temporary = Arc::clone(context.settings.temporary());
    let schema = temporary.schema().to_owned();
    if !context.transaction.catalog().has_schema(&schema) {
        temporary.note_used();
        context.transaction.change_catalog(CatalogChange::PutSchema(schema.clone()))?;
        let access = lookup::own_access(context);
        if !access.is_default() {
            context.transaction.change_catalog(CatalogChange::PutSchemaAccess(schema.clone(), access))?;
        }
    }
    Ok(QualifiedName::new(schema, name))
}

/// What CREATE TABLE says of commits.
///
/// # Errors
/// `42P16` if the table is not temporary.
pub(super) fn on_commit(create: &CreateTable, lasting: Lasting) -> Result<Option<OnCommit>, SqlError> {
    let Some(clause) = &create.on_commit else { return Ok(None) };
    if lasting == Lasting::Permanent {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(SqlError::new(SqlState::InvalidTableDefinition, message));
    }
    Ok(match clause {
        OnCommitClause::PreserveRows => None,
        OnCommitClause::DeleteRows => Some(OnCommit::DeleteRows),
        OnCommitClause::Drop => Some(OnCommit::Drop),
    })
}

/// Refuses foreign keys between what stays and what does not, and to tables whose rows go at a commit.
///
/// # Errors
/// `42P16`, `0A000`.
pub(super) fn refuse_reference(
    context: &StatementContext<'_>,
    child: &TableDef,
    parent: &TableDef,
) -> Result<(), SqlError> {
    let kind = match (is_temporary(&child.name.schema), is_temporary(&parent.name.schema)) {
        (true, false) => "temporary",
        (false, true) => "permanent",
        (false, false) => return Ok(()),
        (true, true) if context.settings.temporary().has_on_commit(parent.id) => {
            return Err(SqlError::unsupported("a foreign key to a table with ON COMMIT")
                .with_hint("Let the table preserve its rows, and delete them yourself."));
        }
        (true, true) => return Ok(()),
    };
    let message = format!("constraints on {kind} tables may reference only {kind} tables");
    Err(SqlError::new(SqlState::InvalidTableDefinition, message))
}
