// SPDX-License-Identifier: Apache-2.0
//! DataFusion in this process: in-memory tables of Arrow batches, and one append-only file that they come back from.
//!
//! Plain on purpose: what it does for TiQuE any engine could do. A statement reads the tables as they were when it
//! began; an append or a delete makes the next state of one table. There are no transactions and no UPDATE here.

mod append_log;
mod block_on;
mod statement;
mod table;

use super::{Appends, Connection, Dialect, Effort, Engine, EngineError, Rows};
use ::datafusion::sql::sqlparser::ast::DataType as SqlType;
use append_log::{AppendLog, Record};
use arrow::array::RecordBatch;
use parking_lot::{Mutex, RwLock};
use statement::Planner;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use table::TableData;

/// When an append to a table that is kept reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before [`Connection::sync`] returns: what was acknowledged survives a crash of the machine.
    Machine,
    /// Whenever the operating system likes: what was acknowledged survives a crash of the process.
    Process,
}

/// All tables at one moment.
pub(crate) type Tables = HashMap<String, Arc<TableData>>;

/// The default engine: nothing to install. Cheap to clone; clones are the same engine.
///
/// # Locking
/// `log` orders all changes and is held while one is written and published; `tables` is held for a pointer's copy only,
/// and taken inside `log`.
#[derive(Clone)]
pub struct DataFusionEngine {
    inner: Arc<Inner>,
}

struct Inner {
    dialect: Dialect,
    planner: Planner,
    tables: RwLock<Arc<Tables>>,
    log: Mutex<Option<AppendLog>>,
    durability: Durability,
}

impl DataFusionEngine {
    /// An engine whose tables end with it.
    ///
    /// # Errors
    /// DataFusion could not be set up.
    pub fn in_memory() -> Result<Self, EngineError> {
        Self::with(Tables::new(), None, Durability::Process)
    }

    /// An engine whose tables are kept in this directory, which it creates if needed and locks.
    ///
    /// # Errors
    /// The directory is in use by another engine, cannot be read, or is damaged before its tail. Nothing was changed.
    pub fn open(directory: &Path, durability: Durability) -> Result<Self, EngineError> {
        let (log, tables) = AppendLog::open(directory)?;
        Self::with(tables, Some(log), durability)
    }

    fn with(tables: Tables, log: Option<AppendLog>, durability: Durability) -> Result<Self, EngineError> {
        let dialect = Dialect {
            name: "DataFusion",
            unlogged: "TEMPORARY",
            text: "VARCHAR",
            appends: Appends::OneByOne,
            spelled: |kind| match kind {
                SqlType::Uuid | SqlType::JSON | SqlType::JSONB => None,
                SqlType::Character(length) => Some(SqlType::Char(*length)),
                SqlType::CharVarying(length) | SqlType::CharacterVarying(length) => {
                    Some(SqlType::Varchar(*length))
                }
                other => Some(other.clone()),
            },
            ..Dialect::STANDARD
        };
        let (tables, log) = (RwLock::new(Arc::new(tables)), Mutex::new(log));
        let inner = Inner { dialect, planner: Planner::new()?, tables, log, durability };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Engine for DataFusionEngine {
    fn dialect(&self) -> &Dialect {
        &self.inner.dialect
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        Ok(Box::new(Local { inner: Arc::clone(&self.inner) }))
    }
}

struct Local {
    inner: Arc<Inner>,
}

impl Connection for Local {
    fn query(&mut self, sql: &str, effort: Effort) -> Result<Rows, EngineError> {
        self.inner.planner.query(sql, effort, &self.inner.snapshot())
    }

    fn execute(&mut self, sql: &str) -> Result<u64, EngineError> {
        self.inner.execute(sql)
    }

    fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<(), EngineError> {
        self.inner.append(table, rows.clone())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        let durable = self.inner.durability == Durability::Machine;
        // Cloned, so that others append while this one waits for the disk.
        let file = self.inner.log.lock().as_ref().filter(|_| durable).map(AppendLog::file);
        match file {
            Some(file) => file.sync_data().map_err(|error| {
                if let Some(log) = self.inner.log.lock().as_mut() {
                    log.note_unsynced();
                }
                EngineError::gone(format!("the log: {error}"))
            }),
            None => Ok(()),
        }
    }
}

impl Inner {
    fn snapshot(&self) -> Arc<Tables> {
        Arc::clone(&self.tables.read())
    }

    fn execute(&self, sql: &str) -> Result<u64, EngineError> {
        match statement::parse(sql)? {
            statement::Change::Create { name, columns, kept, if_not_exists } => {
                let schema = self.planner.schema(&columns)?;
                self.create(name, schema, kept, if_not_exists)
            }
            statement::Change::Drop { name, if_exists } => self.drop_table(&name, if_exists),
            statement::Change::Insert { table, columns, source } => {
                let tables = self.snapshot();
                let schema = table_of(&tables, &table)?.schema();
                let rows = self.planner.run(source, Effort::Analytical, &tables)?;
                let rows = statement::arrange(&rows, &columns, &schema)?;
                let count = rows.num_rows() as u64;
                self.append(&table, rows)?;
                Ok(count)
            }
            statement::Change::Delete { table, query } => self.delete(&table, query),
        }
    }

    fn create(
        &self,
        name: String,
        schema: arrow::datatypes::SchemaRef,
        kept: table::Kept,
        if_not_exists: statement::IfExists,
    ) -> Result<u64, EngineError> {
        let mut log = self.log.lock();
        let mut tables = Tables::clone(&self.snapshot());
        if tables.contains_key(&name) {
            return match if_not_exists {
                statement::IfExists::Fine => Ok(0),
                statement::IfExists::Error => Err(EngineError::refused(format!("table {name} exists"))),
            };
        }
        if let (Some(log), table::Kept::Yes) = (log.as_mut(), kept) {
            log.write(&Record::Create { table: &name, schema: &schema })?;
        }
        tables.insert(name, Arc::new(TableData::new(schema, kept)));
        *self.tables.write() = Arc::new(tables);
        Ok(0)
    }

    fn drop_table(&self, name: &str, if_exists: statement::IfExists) -> Result<u64, EngineError> {
        let mut log = self.log.lock();
        let mut tables = Tables::clone(&self.snapshot());
        match tables.remove(name) {
            None if if_exists == statement::IfExists::Error => {
                return Err(EngineError::refused(format!("there is no table {name}")));
            }
            None => return Ok(0),
            Some(data) => {
                if let (Some(log), table::Kept::Yes) = (log.as_mut(), data.kept()) {
                    log.write(&Record::Drop { table: name })?;
                }
            }
        }
        *self.tables.write() = Arc::new(tables);
        Ok(0)
    }

    fn append(&self, name: &str, rows: RecordBatch) -> Result<(), EngineError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let mut log = self.log.lock();
        let tables = self.snapshot();
        let data = table_of(&tables, name)?;
        let rows = statement::conform(&rows, &data.schema())?;
        if let (Some(log), table::Kept::Yes) = (log.as_mut(), data.kept()) {
            log.write(&Record::Append { table: name, rows: &rows })?;
        }
        let next = Arc::new(data.with_rows(rows)?);
        self.publish(tables, name, next);
        Ok(())
    }

    /// Holds back other changes while it looks for the rows, so that none of them can be missed or found twice.
    fn delete(&self, name: &str, query: statement::Query) -> Result<u64, EngineError> {
        let mut log = self.log.lock();
        let tables = self.snapshot();
        let data = table_of(&tables, name)?;
        let mut numbered = Tables::clone(&tables);
        numbered.insert(name.to_owned(), Arc::new(data.with_row_numbers()?));
        let found = self.planner.run(query, Effort::Analytical, &Arc::new(numbered))?;
        let numbers = statement::row_numbers(&found)?;
        if numbers.is_empty() {
            return Ok(0);
        }
        if let (Some(log), table::Kept::Yes) = (log.as_mut(), data.kept()) {
            log.write(&Record::Delete { table: name, numbers: &numbers })?;
        }
        let next = Arc::new(data.without_rows(&numbers)?);
        self.publish(tables, name, next);
        if let Some(log) = log.as_mut()
            && let Some(renumbered) = log.compact_if_worth(&self.snapshot())?
        {
            *self.tables.write() = Arc::new(renumbered);
        }
        Ok(numbers.len() as u64)
    }

    /// Makes `next` the contents of a table. The caller holds the lock of the log.
    fn publish(&self, tables: Arc<Tables>, name: &str, next: Arc<TableData>) {
        let mut tables = Tables::clone(&tables);
        tables.insert(name.to_owned(), next);
        *self.tables.write() = Arc::new(tables);
    }
}

fn table_of<'a>(tables: &'a Tables, name: &str) -> Result<&'a Arc<TableData>, EngineError> {
    tables.get(name).ok_or_else(|| EngineError::refused(format!("there is no table {name}")))
}

#[cfg(test)]
mod tests;
