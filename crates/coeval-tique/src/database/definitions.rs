// SPDX-License-Identifier: Apache-2.0
//! CREATE TABLE and DROP TABLE: outside of transactions; whole or not at all, wherever the engine or a connection ends.
//!
//! A row of `tique_tables` that has a table's definition says that the table is there. Another one may say that it is
//! [`Unfinished`]; that one counts.
//!
//! | | CREATE TABLE | DROP TABLE |
//! |---|---|---|
//! | 1 | says that the table is unfinished | says that the table is unfinished: it is gone |
//! | 2 | makes the physical tables | removes the physical tables |
//! | 3 | adds the definition | removes both rows |
//! | 4 | does not say any more that it is unfinished: the table is there | |
//!
//! What a step cannot end, recovery or the next CREATE TABLE of that name removes ([`discard`]). Only physical tables that a CREATE
//! TABLE found absent in step 1 are its own, and they have no rows before step 4; so what has rows is never removed for one
//! that is unfinished.

use super::Shared;
use crate::catalog::{Catalog, Table};
use crate::engine::{Connection, Dialect, Effort, EngineErrorKind, Text, Types};
use crate::error::{Result, SqlState, TiqueError};
use crate::names::quoted;
use crate::schema::{Definition, KeyColumns, Kind};
use crate::snapshot::Layout;
use crate::{packed, physical, recovery};
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{CreateTable, DataType};
use std::sync::Arc;

/// What was begun with a table and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    Create,
    Drop,
}

impl Unfinished {
    /// What `tique_tables` says in the place of a definition.
    const fn text(self) -> &'static str {
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

impl Shared {
    /// Makes a table. Not part of a transaction; there for all sessions when this returns, and durable.
    ///
    /// # Errors
    /// 42P07: the table, or a table of the engine's with the name of a physical one, is there. 0A000: the engine lacks a type. 42622: the
    /// name is too long for it. 42P16, 42P01: a foreign key. What the engine says. There is no table then, and its name is free.
    pub(crate) fn create_table(&self, connection: &mut dyn Connection, create: &CreateTable) -> Result<()> {
        let _alone = self.definitions.lock();
        let definition = Definition::of(create)?;
        let catalog = self.catalog();
        if catalog.contains(&definition.name) {
            if create.if_not_exists {
                return Ok(());
            }
            let message = format!("table {} exists", definition.name);
            return Err(TiqueError::new(SqlState::DuplicateTable, message));
        }
        check_parents(&definition, &catalog)?;
        let (dialect, name) = (self.engine.dialect(), definition.name.clone());
        physical::check_length(&name, dialect)?;
        let statements = physical::create_table(&definition, dialect)?;
        if let Some(unfinished) = recovery::unfinished(connection, dialect.literals, &name)? {
            discard(connection, dialect.literals, &name, unfinished)?;
        }
        check_absent(connection, &name)?;
        let table =
            self.make(connection, definition, &statements, &create.to_string()).inspect_err(|_| {
                // If this fails too, recovery or the next CREATE TABLE of the name does it.
                drop(self.elsewhere(|other| discard(other, dialect.literals, &name, Unfinished::Create)));
            })?;
        self.forget(connection, &name, Unfinished::Create).inspect_err(|error| {
            self.take_back(&name, error, |other| {
                note(other, dialect.literals, &name, Unfinished::Create.text())?;
                discard(other, dialect.literals, &name, Unfinished::Create)
            });
        })?;
        *self.catalog.write() = Arc::new(catalog.with(table));
        Ok(())
    }

    /// Removes a table, at once and durably.
    ///
    /// # Errors
    /// 42P01: there is none. 55006: transactions are running, or a foreign key needs it. What the engine says: the table is there if
    /// its removal could not be noted, else gone.
    pub(crate) fn drop_table(&self, connection: &mut dyn Connection, name: &str) -> Result<()> {
        let _alone = self.definitions.lock();
        let _no_checkpoint = self.checkpoint.lock();
        let catalog = self.catalog();
        catalog.table(name)?;
        if self.pipeline.counters.running() > 0 {
            let message = format!("table {name} cannot be dropped while transactions are running");
            return Err(TiqueError::new(SqlState::ObjectInUse, message));
        }
        if let Some((child, key)) = catalog.children(name).find(|(child, _)| child.definition.name != name) {
            let message =
                format!("constraint {} of table {} needs table {name}", key.name, child.definition.name);
            return Err(TiqueError::new(SqlState::ObjectInUse, message));
        }
        let literals = self.engine.dialect().literals;
        note(connection, literals, name, Unfinished::Drop.text()).inspect_err(|error| {
            self.take_back(name, error, |other| self.forget(other, name, Unfinished::Drop));
        })?;
        *self.catalog.write() = Arc::new(catalog.without(name));
        discard(connection, literals, name, Unfinished::Drop)
    }

    /// Makes the physical tables of a table, which is still unfinished then.
    fn make(
        &self,
        connection: &mut dyn Connection,
        definition: Definition,
        statements: &[String],
        text: &str,
    ) -> Result<Table> {
        let (dialect, name) = (self.engine.dialect(), definition.name.clone());
        note(connection, dialect.literals, &name, Unfinished::Create.text())?;
        for statement in statements {
            connection.execute(statement)?;
        }
        let table = describe(connection, definition, self.options.layout, dialect)?;
        note(connection, dialect.literals, &name, text)?;
        Ok(table)
    }

    /// Takes away, durably, what says that a table is unfinished.
    fn forget(&self, connection: &mut dyn Connection, name: &str, unfinished: Unfinished) -> Result<()> {
        let literal = |text: &str| self.engine.dialect().literals.literal(text);
        let (name, text) = (literal(name), literal(unfinished.text()));
        connection
            .execute(&format!("DELETE FROM tique_tables WHERE name = {name} AND definition = {text}"))?;
        Ok(connection.sync()?)
    }

    /// Takes back what may have been noted of a definition that failed with `error`. If that fails too nothing commits any more: the
    /// definition would be carried out when the database is opened again.
    fn take_back(
        &self,
        name: &str,
        error: &TiqueError,
        take_back: impl FnOnce(&mut dyn Connection) -> Result<()>,
    ) {
        if self.elsewhere(take_back).is_err() {
            let reason = format!("it is not known what became of table {name}: {}", error.message);
            self.pipeline.counters.stop(reason);
        }
    }

    /// Does something on a connection of its own: the session's may be lost.
    fn elsewhere(&self, work: impl FnOnce(&mut dyn Connection) -> Result<()>) -> Result<()> {
        work(&mut *self.engine.connect()?)
    }
}

/// Adds a row to the catalog's table.
fn note(connection: &mut dyn Connection, literals: Text, name: &str, definition: &str) -> Result<()> {
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
fn check_absent(connection: &mut dyn Connection, name: &str) -> Result<()> {
    for physical in physical::tables(name) {
        if has_rows(connection, &physical)?.is_some() {
            let message = format!("the engine has a table {physical}, which is not ours");
            return Err(TiqueError::new(SqlState::DuplicateTable, message).hint("Choose another name."));
        }
    }
    Ok(())
}

/// Foreign keys name the primary key of a table that is there, column by column.
fn check_parents(definition: &Definition, catalog: &Catalog) -> Result<()> {
    for key in &definition.foreign_keys {
        let parent =
            if key.parent == definition.name { definition } else { &catalog.table(&key.parent)?.definition };
        if parent.key.len() != key.columns.len() || parent.kind == Kind::Static {
            let message =
                format!("foreign key {} does not match the primary key of {}", key.name, key.parent);
            return Err(TiqueError::new(SqlState::InvalidTableDefinition, message));
        }
        let referred = key.referred.iter().map(|column| parent.column(column)).collect::<Result<Vec<_>>>()?;
        if !referred.is_empty() && referred != parent.key {
            let (name, of) = (&key.name, &key.parent);
            let what =
                format!("foreign key {name} to columns of {of} that are not its primary key, in its order,");
            let hint = format!("Name the primary key, as it is: ({}).", parent.names(&parent.key).join(", "));
            return Err(TiqueError::unsupported(what).hint(hint));
        }
    }
    Ok(())
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
