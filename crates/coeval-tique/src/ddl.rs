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

use crate::catalog::{Catalog, Table};
use crate::definitions::{Unfinished, check_absent, describe, discard, note, unfinished};
use crate::engine::Connection;
use crate::error::{Result, SqlState, TiqueError};
use crate::physical;
use crate::schema::{Definition, Kind};
use crate::shared::{Shared, locked};
use datafusion::sql::sqlparser::ast::CreateTable;
use std::sync::Arc;

impl Shared {
    /// Makes a table. Not part of a transaction; there for all sessions when this returns, and durable.
    ///
    /// # Errors
    /// 42P07: the table, or a table of the engine's with the name of a physical one, is there. 0A000: the engine lacks a type. 42622: the
    /// name is too long for it. 42P16, 42P01: a foreign key. What the engine says. There is no table then, and its name is free.
    pub(crate) fn create_table(&self, connection: &mut dyn Connection, create: &CreateTable) -> Result<()> {
        let _alone = locked(&self.definitions)?;
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
        if let Some(unfinished) = unfinished(connection, dialect.literals, &name)? {
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
        let _alone = locked(&self.definitions)?;
        let _no_checkpoint = locked(&self.checkpoint)?;
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
