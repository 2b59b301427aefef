// SPDX-License-Identifier: Apache-2.0
//! The definitions that the engine keeps in `tique_tables`, and tables whose CREATE or DROP has not finished (`ddl.rs`).

use crate::catalog::Table;
use crate::engine::{Connection, Dialect, Effort, EngineErrorKind, Text, Types};
use crate::error::{Result, SqlState, TiqueError};
use crate::names::quoted;
use crate::parse::parse;
use crate::physical::not_ours;
use crate::schema::{Definition, KeyColumns};
use crate::snapshot::Layout;
use crate::{packed, physical};
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{DataType, Statement};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was begun with a table and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    Create,
    Drop,
}

impl Unfinished {
    /// What `tique_tables` says in the place of a definition.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Drop => "DROP",
        }
    }

    /// What a row of `tique_tables` says; none for a definition.
    pub(crate) fn of(text: &str) -> Option<Self> {
        [Self::Create, Self::Drop].into_iter().find(|one| one.text() == text)
    }
}

/// Adds a row to the catalog's table.
pub(crate) fn note(
    connection: &mut dyn Connection,
    literals: Text,
    name: &str,
    definition: &str,
) -> Result<()> {
    let (name, definition) = (literals.literal(name), literals.literal(definition));
    connection.execute(&format!("INSERT INTO tique_tables VALUES ({name}, {definition})"))?;
    Ok(())
}

/// Removes the physical tables of a table that is unfinished, then what the catalog says of it.
///
/// # Errors
/// What the engine says; the rest is there, and the table is still unfinished.
pub(crate) fn discard(
    connection: &mut dyn Connection,
    literals: Text,
    name: &str,
    unfinished: Unfinished,
) -> Result<()> {
    for physical in physical::tables(name) {
        if unfinished == Unfinished::Create && has_rows(connection, &physical)?.unwrap_or(false) {
            continue;
        }
        connection.execute(&format!("DROP TABLE IF EXISTS {}", quoted(&physical)))?;
    }
    let name = literals.literal(name);
    connection.execute(&format!("DELETE FROM tique_tables WHERE name = {name}"))?;
    Ok(connection.sync()?)
}

/// Whether a table of the engine's has rows; none if there is no such table.
fn has_rows(connection: &mut dyn Connection, physical: &str) -> Result<Option<bool>> {
    match connection.query(&format!("SELECT 1 FROM {} LIMIT 1", quoted(physical)), Effort::Point) {
        Ok(rows) => Ok(Some(rows.count() > 0)),
        Err(error) if error.kind == EngineErrorKind::Refused => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What stands in the engine under the name of a physical table is somebody else's.
pub(crate) fn check_absent(connection: &mut dyn Connection, name: &str) -> Result<()> {
    for physical in physical::tables(name) {
        if has_rows(connection, &physical)?.is_some() {
            let message = format!("the engine has a table {physical}, which is not ours");
            return Err(TiqueError::new(SqlState::DuplicateTable, message).hint("Choose another name."));
        }
    }
    Ok(())
}

/// The CREATE or DROP of a table of this name that was begun and has not finished, if there is one.
pub(crate) fn unfinished(
    connection: &mut dyn Connection,
    literals: Text,
    name: &str,
) -> Result<Option<Unfinished>> {
    let name = literals.literal(name);
    let sql = format!("SELECT name, definition FROM tique_tables WHERE name = {name}");
    Ok(noted(connection, &sql)?.iter().find_map(|(_, text)| Unfinished::of(text)))
}

/// The tables that are there; what is left of those that are unfinished is removed.
pub(crate) fn definitions(connection: &mut dyn Connection, literals: Text) -> Result<Vec<Definition>> {
    let (mut definitions, mut unfinished) = (Vec::new(), BTreeMap::new());
    for (name, text) in noted(connection, "SELECT name, definition FROM tique_tables")? {
        if let Some(begun) = Unfinished::of(&text) {
            unfinished.insert(name, begun);
            continue;
        }
        match parse(&text)?.pop() {
            Some(Statement::CreateTable(create)) => definitions.push(Definition::of(&create)?),
            _ => return Err(not_ours(format!("tique_tables says: {text}"))),
        }
    }
    for (name, begun) in &unfinished {
        discard(connection, literals, name, *begun)?;
    }
    definitions.retain(|definition| !unfinished.contains_key(&definition.name));
    Ok(definitions)
}

/// The names and definitions in the rows that a query of `tique_tables` gives.
fn noted(connection: &mut dyn Connection, sql: &str) -> Result<Vec<(String, String)>> {
    let mut noted = Vec::new();
    for batch in &connection.query(sql, Effort::Point)?.batches {
        let names = cast(batch.column(0), &ArrowType::Utf8).map_err(not_ours)?;
        let texts = cast(batch.column(1), &ArrowType::Utf8).map_err(not_ours)?;
        let rows = names.as_string::<i32>().iter().zip(texts.as_string::<i32>());
        let words = |word: Option<&str>| word.unwrap_or_default().to_owned();
        noted.extend(rows.map(|(name, text)| (words(name), words(text))));
    }
    Ok(noted)
}

/// The columns of a cache in the types that their definitions say.
fn declared(definition: &Definition, columns: &Schema, read_as: fn(&DataType) -> ArrowType) -> SchemaRef {
    let kind = |place: usize, name: &str| match definition.columns.get(place) {
        Some(column) => read_as(&column.kind),
        None if name == physical::KEY => ArrowType::Utf8,
        None if name == physical::DELETED => ArrowType::Boolean,
        None => ArrowType::Int64,
    };
    let fields = columns.fields().iter().enumerate();
    let fields = fields.map(|(place, field)| Field::new(field.name(), kind(place, field.name()), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// How the one column of a key is kept: tables made before there were numbers for keys have texts, and keep them.
fn kept_key(table: &Definition, column: &Field) -> Result<KeyColumns> {
    match column.data_type() {
        ArrowType::Utf8 => Ok(KeyColumns::Concatenated),
        ArrowType::Decimal128(_, 0) if packed::fits(table) => Ok(KeyColumns::Packed),
        other => {
            let message = format!("the keys of table {} are kept as {other}, which is not ours", table.name);
            let hint = format!(
                "Rename the engine's tables {} and {}, create the table again, and insert their rows.",
                physical::storage(table),
                physical::cache(table)
            );
            Err(TiqueError::new(SqlState::EngineRefused, message).hint(hint))
        }
    }
}

/// A table with the engine's types of its physical columns.
pub(crate) fn describe(
    connection: &mut dyn Connection,
    mut definition: Definition,
    layout: Layout,
    dialect: &Dialect,
) -> Result<Table> {
    let cache = quoted(&physical::cache(&definition));
    let rows = connection.query(&format!("SELECT * FROM {cache} WHERE 1 = 0"), Effort::Point)?;
    let extra = if definition.has_key_column() { 5 } else { 4 };
    if rows.schema.fields().len() != definition.columns.len() + extra {
        let message = format!("the engine has a table {cache} with other columns, which is not ours");
        return Err(TiqueError::new(SqlState::DuplicateTable, message).hint("Choose another name."));
    }
    if definition.has_key_column() && dialect.integers.wide().is_some() {
        definition.key_columns = kept_key(&definition, rows.schema.field(definition.columns.len()))?;
    }
    let columns = match dialect.types {
        Types::OfEngine => rows.schema,
        Types::Ours(read_as) => declared(&definition, &rows.schema, read_as),
    };
    let table = Table::new(definition, columns, 0);
    if layout == Layout::Joined {
        // Versions are there before they have a timestamp.
        table.versions.lose();
    }
    Ok(table)
}
