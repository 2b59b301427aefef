// SPDX-License-Identifier: Apache-2.0
//! CREATE SCHEMA with what is made in it.
//!
//! Names without a schema go into the new one and are looked up there first. As in PostgreSQL, what others may need comes first,
//! whatever the order in the statement: sequences, tables, views, indexes, grants.

use super::extended::{self, Extended};
use super::lookup;
use super::role_syntax::{Granted, RoleStatement};
use super::schema;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::statement_name;
use crate::result::StatementResult;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement};

/// CREATE SCHEMA and its elements, in the order in which they are made.
#[derive(Clone, Debug)]
pub(crate) struct SchemaElements {
    create: Statement,
    elements: Vec<Element>,
}

/// A statement inside of CREATE SCHEMA.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    /// One that the parser knows.
    Statement(Box<Statement>),
    /// One that it does not know.
    Extended(Box<Extended>),
}

impl SchemaElements {
    /// The statement that holds these.
    ///
    /// # Errors
    /// `42601` if one of them is nothing that stands there.
    pub(crate) fn new(create: Statement, elements: Vec<Element>) -> Result<Self, SqlError> {
        let mut ranked = Vec::with_capacity(elements.len());
        for element in elements {
            let rank = element.rank().ok_or_else(|| {
                SqlError::syntax("CREATE SCHEMA holds tables, views, indexes, sequences and grants alone")
            })?;
            ranked.push((rank, element));
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        Ok(Self { create, elements: ranked.into_iter().map(|(_, element)| element).collect() })
    }

    /// Makes the schema and what it holds.
    ///
    /// # Errors
    /// `42P15` for something that names another schema, `0A000` with IF NOT EXISTS; what the elements answer.
    pub(super) fn execute(&self, context: &mut StatementContext<'_>) -> Result<StatementResult, SqlError> {
        if matches!(self.create, Statement::CreateSchema { if_not_exists: true, .. }) {
            let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
            return Err(SqlError::new(SqlState::FeatureNotSupported, message));
        }
        if let Some(made) = schema::create(context, &self.create)? {
            self.elements.iter().try_for_each(|element| element.require_in(&made.name))?;
            let mut inside = context.settings.clone();
            if let Some(owner) = made.owner {
                inside.assume(Some(owner));
            }
            inside.look_first_in(&made.name);
            let outside = std::mem::replace(context.settings, inside);
            let done = self.elements.iter().try_for_each(|element| element.execute(context));
            *context.settings = outside;
            done?;
        }
        Ok(StatementResult::plain("CREATE SCHEMA"))
    }
}

impl Element {
    /// Its place among the others; `None` if it may not be one of them.
    fn rank(&self) -> Option<u8> {
        match self {
            Self::Extended(extended) => match extended.as_ref() {
                Extended::CreateSequence { .. } => Some(0),
                Extended::CreateBricks { .. } | Extended::CreateOnServer { .. } => Some(1),
                Extended::Role(role) if is_grant_of_privileges(role) => Some(5),
                _ => None,
            },
            Self::Statement(statement) => match statement.as_ref() {
                Statement::CreateTable(create) if create.query.is_none() => Some(1),
                Statement::CreateView { .. } => Some(2),
                Statement::CreateIndex { .. } => Some(3),
                Statement::CreateTrigger { .. } => Some(4),
                _ => None,
            },
        }
    }

    /// The name of what it makes, or of the table that it makes something on.
    fn name(&self) -> Option<&ObjectName> {
        match self {
            Self::Extended(extended) => match extended.as_ref() {
                Extended::CreateSequence { name, .. } => Some(name),
                Extended::CreateBricks { create, .. } | Extended::CreateOnServer { create, .. } => {
                    Some(&create.name)
                }
                _ => None,
            },
            Self::Statement(statement) => match statement.as_ref() {
                Statement::CreateTable(create) => Some(&create.name),
                Statement::CreateView(create) => Some(&create.name),
                Statement::CreateIndex(create) => Some(&create.table_name),
                _ => None,
            },
        }
    }

    /// Refuses a name with another schema.
    ///
    /// # Errors
    /// `42P15`.
    fn require_in(&self, schema: &str) -> Result<(), SqlError> {
        let Some(name) = self.name() else { return Ok(()) };
        match lookup::split_name(name)? {
            (Some(other), _) if other != schema => {
                let message = format!(
                    "CREATE specifies a schema ({other}) different from the one being created ({schema})"
                );
                Err(SqlError::new(SqlState::InvalidSchemaDefinition, message))
            }
            _ => Ok(()),
        }
    }

    fn execute(&self, context: &mut StatementContext<'_>) -> Result<(), SqlError> {
        match self {
            Self::Extended(extended) => extended::execute(context, extended).map(|_| ()),
            Self::Statement(statement) => match super::execute(context, statement)? {
                Some(_) => Ok(()),
                None => Err(SqlError::unsupported(statement_name(statement))),
            },
        }
    }
}

/// Whether privileges are granted, and no membership in roles.
fn is_grant_of_privileges(statement: &RoleStatement) -> bool {
    matches!(statement, RoleStatement::Grant { granted: Granted::Privileges(..), .. })
}
