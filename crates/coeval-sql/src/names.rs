// SPDX-License-Identifier: Apache-2.0
//! Names: folding, schemas, the search path, what messages call a statement.

use crate::error::{SqlError, SqlState};
use crate::relations::{CATALOG_NAME, INFORMATION_SCHEMA, PG_CATALOG, is_own, is_unqualified};
use crate::rights::insufficient;
use crate::settings::Settings;
use coeval_store::{QualifiedName, TableDef, Transaction};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Statement};
use std::sync::Arc;

/// An identifier as it is stored: lower case unless it was quoted.
pub(crate) fn fold(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The parts of a name, folded.
///
/// # Errors
/// `0A000` for a part that is not an identifier.
pub(crate) fn fold_parts(name: &ObjectName) -> Result<Vec<String>, SqlError> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Ok(fold(ident)),
            ObjectNamePart::Function(_) => Err(SqlError::unsupported(format_args!("the name {name}"))),
        })
        .collect()
}

/// Schema, if given, and name.
///
/// # Errors
/// `0A000` for a name of another database or with too many parts.
pub(crate) fn split_name(name: &ObjectName) -> Result<(Option<String>, String), SqlError> {
    let mut parts = fold_parts(name)?;
    let last = parts.pop().ok_or_else(|| SqlError::syntax("a name is missing"))?;
    match (parts.pop(), parts.len()) {
        (schema, 0) => Ok((schema, last)),
        (Some(schema), 1) if parts[0] == CATALOG_NAME => Ok((Some(schema), last)),
        _ => Err(SqlError::unsupported(format_args!("cross-database reference {name}"))),
    }
}

/// The name under which something new is created: unqualified names go to the first schema of the path.
///
/// # Errors
/// `3F000` if the schema is not there, `42501` for one of the system's, `42939` for the name of a `coeval_*` relation.
pub(crate) fn creation_name(
    name: &ObjectName,
    settings: &Settings,
    transaction: &Transaction,
) -> Result<QualifiedName, SqlError> {
    let (schema, name) = split_name(name)?;
    if let Some(schema) = &schema {
        refuse_system_schema(schema, &name)?;
    }
    refuse_own_name(&name)?;
    let schema = match schema {
        Some(schema) => schema,
        None => settings
            .search_path()
            .iter()
            .find(|schema| transaction.catalog().has_schema(schema))
            .cloned()
            .ok_or_else(|| {
                SqlError::new(SqlState::InvalidSchemaName, "no schema has been selected to create in")
            })?,
    };
    if !transaction.catalog().has_schema(&schema) {
        return Err(unknown_schema(&schema));
    }
    Ok(QualifiedName::new(schema, name))
}

/// Refuses to make something in a schema of the system.
///
/// # Errors
/// `42501`.
pub(crate) fn refuse_system_schema(schema: &str, name: &str) -> Result<(), SqlError> {
    if schema != PG_CATALOG && schema != INFORMATION_SCHEMA {
        return Ok(());
    }
    Err(insufficient(format!("permission denied to create \"{schema}.{name}\""))
        .with_detail("System catalog modifications are currently disallowed."))
}

/// Refuses a name that means a relation of ours wherever it stands without a schema. (Names of `pg_catalog` can be had, as
/// in PostgreSQL; relations of such names are found by their schemas.)
///
/// # Errors
/// `42939`.
pub(crate) fn refuse_own_name(name: &str) -> Result<(), SqlError> {
    if !is_own(name) {
        return Ok(());
    }
    Err(SqlError::new(SqlState::ReservedName, format!("relation name \"{name}\" is reserved"))
        .with_detail("It is one of the database's own views."))
}

/// The schemas in which a name without one is looked up, in order. The system's relations come first, so that no relation
/// of a user stands in for one of them, temporary ones included: of those names, only what the search path puts before
/// `pg_catalog` by naming both.
pub(crate) fn path_of<'s>(name: &str, settings: &'s Settings) -> impl Iterator<Item = &'s str> {
    let is_system = is_unqualified(name);
    let catalog = || settings.search_path().iter().position(|schema| schema == PG_CATALOG);
    let before = if is_system { catalog().unwrap_or_default() } else { 0 };
    let all = if is_system { &[][..] } else { settings.name_path() };
    let first = settings.search_path()[..before].iter().map(move |schema| settings.temporary().meant(schema));
    first.chain(all.iter().map(String::as_str))
}

/// `3F000`.
pub(crate) fn unknown_schema(schema: &str) -> SqlError {
    SqlError::new(SqlState::InvalidSchemaName, format!("schema \"{schema}\" does not exist"))
}

/// `42P01`.
pub(crate) fn unknown_table(name: &str) -> SqlError {
    SqlError::new(SqlState::UndefinedTable, format!("relation \"{name}\" does not exist"))
}

/// `"x" is not a table`.
pub(crate) fn wrong_kind(name: &QualifiedName, kind: &str) -> SqlError {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    SqlError::new(SqlState::WrongObjectType, format!("\"{}\" is not {article} {kind}", name.name))
}

/// The existing object of this name, by the search path; `None` if there is none.
///
/// # Errors
/// As [`split_name`].
pub(crate) fn existing_name(
    name: &ObjectName,
    settings: &Settings,
    transaction: &Transaction,
) -> Result<Option<QualifiedName>, SqlError> {
    let (schema, name) = split_name(name)?;
    Ok(resolve(schema.as_deref(), &name, settings, transaction))
}

/// The existing object of this name, by the search path if no schema is given.
pub(crate) fn resolve(
    schema: Option<&str>,
    name: &str,
    settings: &Settings,
    transaction: &Transaction,
) -> Option<QualifiedName> {
    let catalog = transaction.catalog();
    let found = |schema: &str| {
        let name = QualifiedName::new(schema, name);
        catalog.resolve(&name).map(|_| name)
    };
    match schema {
        Some(schema) => found(settings.temporary().meant(schema)),
        None => path_of(name, settings).find_map(found),
    }
}

/// The table of this name.
///
/// # Errors
/// `42P01` if there is none, `42809` if it is something else.
pub(crate) fn table(
    name: &ObjectName,
    settings: &Settings,
    transaction: &Transaction,
) -> Result<Arc<TableDef>, SqlError> {
    let Some(found) = existing_name(name, settings, transaction)? else {
        return Err(unknown_table(&fold_parts(name)?.join(".")));
    };
    transaction
        .resolve_table(&found)
        .ok_or_else(|| SqlError::new(SqlState::WrongObjectType, format!("\"{}\" is not a table", found.name)))
}

/// The first words of a statement, in capitals: what messages call it. Behind the first word of one that changes rows there is mostly a
/// table's name.
pub(crate) fn statement_name(statement: &Statement) -> String {
    let changes_rows = matches!(
        statement,
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_)
    );
    let text = statement.to_string();
    text.split_whitespace()
        .take(if changes_rows { 1 } else { 2 })
        .take_while(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic()))
        .collect::<Vec<_>>()
        .join(" ")
        .to_uppercase()
}
