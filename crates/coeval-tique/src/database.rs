// SPDX-License-Identifier: Apache-2.0
//! A database: one engine's tables, with everything that its sessions share.

use crate::catalog::{Catalog, Table};
use crate::certifier::Certification;
use crate::commit::Pipeline;
use crate::engine::{Connection, Dialect, Effort, Engine, Text, Types};
use crate::error::{Result, SqlState, TiqueError};
use crate::recovery;
use crate::schema::{Definition, KeyColumns, Kind, quoted};
use crate::session::Session;
use crate::snapshot::{Formulation, Layout};
use crate::spanning::Decision;
use crate::{packed, physical};
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{CreateTable, DataType};
use parking_lot::{Mutex, RwLock};
use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;

/// When a transaction's versions are sent to the engine (3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// When a read needs them, and at commit.
    Buffered,
    /// At the end of each statement.
    AtOnce,
}

/// Which formulation reads are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The one that suits each statement.
    Chosen,
    /// Always this one.
    Always(Formulation),
}

/// Rules that can be switched off to see what they are good for. For tests: what results is no snapshot isolation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trials {
    /// Everybody commits.
    pub certification_is_off: bool,
    /// Each statement reads the newest state.
    pub snapshot_is_off: bool,
}

/// How a database works. The layout is the database's own and has to be the same each time.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where a version's commit timestamp is.
    pub layout: Layout,
    /// When versions are sent.
    pub writes: Writes,
    /// Where transactions are certified.
    pub certification: Certification,
    /// Which formulation reads are written in, unless a session says otherwise.
    pub reading: Reading,
    /// A checkpoint runs in the background when the caches hold so many versions; none if zero.
    pub checkpoint_at: usize,
    /// Nothing, but for tests.
    pub trials: Trials,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layout: Layout::Stamped,
            writes: Writes::Buffered,
            certification: Certification::InEngine,
            reading: Reading::Chosen,
            checkpoint_at: 50_000,
            trials: Trials::default(),
        }
    }
}

/// What all sessions share.
///
/// # Locking
/// `definitions` is held by one CREATE or DROP TABLE at a time, around its calls of the engine; `catalog` for the copy of
/// a pointer, inside it or alone; `checkpoint` by the one checkpoint that runs; `checkpointer` for moments, inside of nothing.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) options: Options,
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    pub(crate) pipeline: Pipeline,
    pub(crate) checkpoint: Mutex<()>,
    /// The last checkpoint in the background.
    pub(crate) checkpointer: Mutex<Option<JoinHandle<()>>>,
    definitions: Mutex<()>,
}

/// What the handles of a database hold. The last one that is dropped waits for a checkpoint that runs in the background, so that
/// the engine is free then.
pub(crate) struct InUse {
    shared: Arc<Shared>,
}

impl Deref for InUse {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let checkpointer = self.shared.checkpointer.lock().take();
        // One that died of a panic has shown it.
        drop(checkpointer.map(JoinHandle::join));
    }
}

/// A database over an engine. Cheap to clone; clones are the same database. With the last of them and of their sessions the
/// engine is let go of, which waits for a checkpoint that is running.
///
/// One process owns the physical schema of an engine at a time. The default engine sees to that; for others the caller
/// does.
#[derive(Clone)]
pub struct Database {
    pub(crate) shared: Arc<InUse>,
}

impl Database {
    /// Makes the physical schema if it is not there, and recovers: what was acknowledged is there, nothing half.
    ///
    /// # Errors
    /// What the engine says. What was recovered by then stays; opening again goes on.
    pub fn open(engine: Arc<dyn Engine>, options: Options) -> Result<Self> {
        Self::open_decided(engine, options, &[])
    }

    /// As [`open`](Self::open), where these prepared transactions have committed: whoever coordinated them kept that.
    /// They are part of the database when this returns, durably; prepared ones that are not among them have aborted.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_decided(engine: Arc<dyn Engine>, options: Options, decided: &[Decision]) -> Result<Self> {
        let mut connection = engine.connect()?;
        let (catalog, counters) = recovery::recover(&*engine, &mut *connection, options.layout, decided)?;
        let pipeline = Pipeline::new(Arc::clone(&engine), counters, &options);
        let shared = Shared {
            engine,
            options,
            catalog: RwLock::new(Arc::new(catalog)),
            pipeline,
            checkpoint: Mutex::new(()),
            checkpointer: Mutex::new(None),
            definitions: Mutex::new(()),
        };
        Ok(Self { shared: Arc::new(InUse { shared: Arc::new(shared) }) })
    }

    /// A session with a connection of its own.
    ///
    /// # Errors
    /// 08006: the engine is not there.
    pub fn session(&self) -> Result<Session> {
        Session::new(Arc::clone(&self.shared))
    }

    /// Whether nothing commits here any more, so that the database has to be opened again: a commit's end is not known, or
    /// the engine went away.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.shared.engine.is_lost() || self.shared.pipeline.counters.stopped().is_some()
    }

    /// Gives the engine's tables up, so that they can be opened again while sessions of this database are still there: those
    /// have failed from then on (08006, 57P03). False if the engine cannot do that; then it is free with the last session.
    #[must_use]
    pub fn retire(&self) -> bool {
        let is_free = self.shared.engine.retire();
        if is_free {
            self.shared.pipeline.counters.stop("the database was opened again".to_owned());
        }
        is_free
    }

    /// The foreign keys that name a table: the tables that have them, and their names.
    #[must_use]
    pub fn foreign_keys_to(&self, table: &str) -> Vec<(String, String)> {
        let catalog = self.shared.catalog();
        let keys =
            catalog.children(table).map(|(child, key)| (child.definition.name.clone(), key.name.clone()));
        keys.collect()
    }

    /// How many versions the caches hold, about.
    #[must_use]
    pub fn cached_versions(&self) -> usize {
        self.shared.cached()
    }
}

impl Shared {
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    pub(crate) fn cached(&self) -> usize {
        let cached: i64 = self.catalog().tables().map(|table| table.cached()).sum();
        usize::try_from(cached).unwrap_or(0)
    }

    /// Makes a table. Not part of a transaction; there for all sessions when this returns, and durable.
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
        let dialect = self.engine.dialect();
        if recovery::is_noted(connection, dialect.literals, &definition.name)? {
            // The rest of a definition that failed; what is noted of it would be said of the new table.
            remove(connection, dialect.literals, &definition)?;
        }
        for statement in physical::create_table(&definition, dialect)? {
            connection.execute(&statement)?;
        }
        let table = describe(connection, definition, self.options.layout, dialect)?;
        check_empty(connection, &table.definition)?;
        let (name, text) = (&table.definition.name, create.to_string());
        note(connection, dialect.literals, name, &text)
            .and_then(|()| Ok(connection.sync()?))
            .map_err(|error| self.take_back(name, &text, error))?;
        *self.catalog.write() = Arc::new(catalog.with(table));
        Ok(())
    }

    /// Removes a table, at once and durably.
    pub(crate) fn drop_table(&self, connection: &mut dyn Connection, name: &str) -> Result<()> {
        let _alone = self.definitions.lock();
        let _no_checkpoint = self.checkpoint.lock();
        let catalog = self.catalog();
        let table = Arc::clone(catalog.table(name)?);
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
        note(connection, literals, name, recovery::DROPPED)
            .map_err(|error| self.take_back(name, recovery::DROPPED, error))?;
        *self.catalog.write() = Arc::new(catalog.without(name));
        remove(connection, literals, &table.definition)
    }

    /// Takes back what may have been noted of a table by a definition that failed. If that fails too nothing commits any more:
    /// it would be carried out when the database is opened again.
    fn take_back(&self, name: &str, definition: &str, error: TiqueError) -> TiqueError {
        let take_back = || {
            let literal = |text: &str| self.engine.dialect().literals.literal(text);
            let (of, noted) = (literal(name), literal(definition));
            let mut connection = self.engine.connect()?;
            let sql = format!("DELETE FROM tique_tables WHERE name = {of} AND definition = {noted}");
            connection.execute(&sql)?;
            connection.sync()
        };
        if take_back().is_err() {
            let reason = format!("it is not known what became of table {name}: {}", error.message);
            self.pipeline.counters.stop(reason);
        }
        error
    }
}

/// Adds a row to the catalog's table.
fn note(connection: &mut dyn Connection, literals: Text, name: &str, definition: &str) -> Result<()> {
    let (name, definition) = (literals.literal(name), literals.literal(definition));
    connection.execute(&format!("INSERT INTO tique_tables VALUES ({name}, {definition})"))?;
    Ok(())
}

/// Removes the physical tables of a table, then what the catalog says of it.
pub(crate) fn remove(connection: &mut dyn Connection, literals: Text, table: &Definition) -> Result<()> {
    for physical in [physical::cache(table), physical::storage(table)] {
        connection.execute(&format!("DROP TABLE IF EXISTS {}", quoted(&physical)))?;
    }
    let name = literals.literal(&table.name);
    connection.execute(&format!("DELETE FROM tique_tables WHERE name = {name}"))?;
    Ok(connection.sync()?)
}

/// Physical tables with rows that are nobody's would become rows of the new table.
fn check_empty(connection: &mut dyn Connection, table: &Definition) -> Result<()> {
    for physical in [physical::cache(table), physical::storage(table)] {
        let rows =
            connection.query(&format!("SELECT 1 FROM {} LIMIT 1", quoted(&physical)), Effort::Point)?;
        if rows.count() > 0 {
            let message = format!("the engine has a table {physical} with rows, which is not ours");
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
