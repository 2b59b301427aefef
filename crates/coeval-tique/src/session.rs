// SPDX-License-Identifier: Apache-2.0
//! Sessions: statements of an application, one transaction at a time.

mod constraints;
mod dml;
mod going_back;

use crate::buffer::Buffer;
use crate::catalog::{Catalog, Table};
use crate::commit::Submission;
use crate::copies::Copies;
use crate::counters::{Timestamp, Txid};
use crate::engine::{Connection, Copying, Effort, Rows, Types};
use crate::error::{Result, SqlState, TiqueError, canceled};
use crate::lookups::FoundBy;
use crate::names::folded;
use crate::options::{Reading, Writes};
use crate::parse::parse;
use crate::physical::{cache, tables};
use crate::read_set::ReadSet;
use crate::rewrite::{self, Reads, Snapshots, Storages};
use crate::savepoints::Savepoints;
use crate::schema::{Kind, table_name};
use crate::shared::InUse;
use crate::snapshot::{CopyOf, Formulation, Layout, View};
use crate::versions::CacheRows;
use datafusion::sql::sqlparser::ast::{
    Expr, ObjectType, Set, Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
    Value,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A statement that is a transaction of its own runs so often at most, while others keep committing first.
const STATEMENT_TRIES: usize = 10;

/// What a statement gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What it did: `INSERT 0 1`, `SELECT 3`, `COMMIT`.
    pub tag: String,
    /// The rows of a query, or of RETURNING.
    pub rows: Option<Rows>,
}

impl Outcome {
    pub(crate) fn done(tag: &str) -> Self {
        Self { tag: tag.to_owned(), rows: None }
    }
}

/// Whether a transaction ends with its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Statement,
    Explicit,
}

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    ReadWrite,
    ReadOnly,
}

/// Whether a refused transaction keeps its write set reserved for the next run (2.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// First committer wins.
    Normal,
    /// Refused once at most (`priority.rs` says when); others are refused meanwhile.
    High,
}

pub(crate) struct Transaction {
    pub(crate) txid: Txid,
    pub(crate) sts: Timestamp,
    pub(crate) buffer: Buffer,
    pub(crate) savepoints: Savepoints,
    /// At SERIALIZABLE, unless it is declared read-only.
    pub(crate) read_set: Option<ReadSet>,
    block: Block,
    mode: Mode,
    pub(crate) has_failed: bool,
}

/// A client of a database. Dropping it rolls back what it has not committed.
pub struct Session {
    pub(crate) shared: Arc<InUse>,
    pub(crate) connection: Box<dyn Connection>,
    pub(crate) transaction: Option<Transaction>,
    reading: Reading,
    priority: Priority,
    reservation: Option<Txid>,
    /// Where the next transaction begins, if not at the newest.
    place: Option<Timestamp>,
    copies: Copies,
}

impl Session {
    pub(crate) fn new(shared: Arc<InUse>) -> Result<Self> {
        let connection = shared.engine.connect()?;
        let reading = shared.options.reading;
        let (transaction, priority, reservation) = (None, Priority::Normal, None);
        let copies = Copies::none(shared.options.layout);
        let place = None;
        Ok(Self { shared, connection, transaction, reading, priority, reservation, place, copies })
    }

    /// Runs the statements of a text one after the other. A statement outside a block is a transaction of its own:
    /// durable, and seen by every later transaction, when this returns.
    ///
    /// # Errors
    /// The error of the first statement that fails; the statements after it do not run. In a block the transaction has failed then;
    /// outside, the statement did nothing. 08006: the connection to the engine is lost; the next transaction connects again. 08007
    /// and 57P03: the database has to be opened again. After 08007 recovery decides whether the transaction committed; after 57P03
    /// nothing was done.
    pub fn execute(&mut self, sql: &str) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for statement in parse(sql)? {
            outcomes.push(self.execute_parsed(statement)?);
        }
        Ok(outcomes)
    }

    /// As [`execute`](Self::execute), for one statement that was parsed before, in PostgreSQL's dialect.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_parsed(&mut self, statement: Statement) -> Result<Outcome> {
        self.work();
        let outcome = self.statement(&statement).map_err(|error| {
            let catalog = self.shared.catalog();
            let is_of_table = |name: &str| catalog.has_column(name) || catalog.contains(name);
            as_named(error, &catalog).of_statement(&statement, is_of_table)
        });
        self.rest();
        outcome
    }

    /// How the transactions of this session compete from now on.
    pub fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    /// The next transaction sees the state that new transactions saw when the [clock](crate::Database::clock) was at `place`. It is
    /// refused (40001) if a checkpoint may have removed versions of that state, because it was not [retained](crate::Database::retain).
    pub fn begin_at(&mut self, place: i64) {
        self.place = Some(Timestamp(place));
    }

    /// Waits until the clock has passed what refused this session's last transaction, if the next one has priority over it.
    ///
    /// # Errors
    /// 57P03: the database has to be opened again. 57014: the wait was [interrupted](crate::interruptible).
    pub fn wait_for_turn(&self) -> Result<()> {
        if self.reservation.is_none() {
            return Ok(());
        }
        // Whoever was certified before the reservation was there has to be seen.
        let counters = &self.shared.pipeline.counters;
        let refused = |reason: String| TiqueError::new(SqlState::CannotConnectNow, reason);
        let has_come = counters.has_come(counters.last_taken()).map_err(refused)?;
        if has_come { Ok(()) } else { Err(canceled()) }
    }

    /// Whether a block is open.
    #[must_use]
    pub fn is_in_block(&self) -> bool {
        self.transaction.is_some()
    }

    fn statement(&mut self, statement: &Statement) -> Result<Outcome> {
        if self.transaction.is_none() {
            self.connect_if_lost()?;
        }
        let ends_failure = matches!(statement, Statement::Commit { .. } | Statement::Rollback { .. });
        if self.transaction.as_ref().is_some_and(|transaction| transaction.has_failed) && !ends_failure {
            let message = "the transaction has failed; statements are ignored until ROLLBACK";
            return Err(TiqueError::new(SqlState::InFailedTransaction, message));
        }
        let outcome = match statement {
            Statement::StartTransaction { modes, .. } => self.begin(modes),
            Statement::Commit { chain: false, .. } => return self.commit(),
            Statement::Rollback { chain: false, savepoint: None } => {
                self.rollback();
                return Ok(Outcome::done("ROLLBACK"));
            }
            Statement::Rollback { chain: false, savepoint: Some(name) } => {
                return self.rollback_to(&folded(name));
            }
            Statement::Savepoint { name } => self.named_savepoint(folded(name)),
            Statement::ReleaseSavepoint { name } => self.release_savepoint(&folded(name)),
            Statement::Set(set) => self.set(set),
            Statement::CreateTable(create) => {
                self.outside_block("CREATE TABLE")?;
                self.shared.create_table(&mut *self.connection, create)?;
                return Ok(Outcome::done("CREATE TABLE"));
            }
            Statement::Drop { object_type: ObjectType::Table, if_exists, names, .. } => {
                self.outside_block("DROP TABLE")?;
                for name in names {
                    let name = table_name(name)?;
                    if !*if_exists || self.shared.catalog().contains(&name) {
                        self.shared.drop_table(&mut *self.connection, &name)?;
                    }
                }
                return Ok(Outcome::done("DROP TABLE"));
            }
            other => self.in_transaction(other),
        };
        if outcome.is_err()
            && let Some(transaction) = &mut self.transaction
        {
            transaction.has_failed = true;
        }
        outcome
    }

    /// Takes another connection if the session's is lost, with which its copies went.
    fn connect_if_lost(&mut self) -> Result<()> {
        if self.connection.is_lost() {
            self.connection = self.shared.engine.connect()?;
            self.copies = Copies::none(self.shared.options.layout);
        }
        Ok(())
    }

    fn outside_block(&self, what: &str) -> Result<()> {
        if self.is_in_block() {
            let message = format!("{what} cannot run inside a transaction block");
            return Err(TiqueError::new(SqlState::ActiveTransaction, message));
        }
        Ok(())
    }

    /// Runs a statement in the open block, or in a transaction of its own, which is run again when it was refused, or when
    /// the connection turned out to be lost.
    fn in_transaction(&mut self, statement: &Statement) -> Result<Outcome> {
        if self.is_in_block() {
            return self.one_try(statement.clone());
        }
        for _ in 1..STATEMENT_TRIES {
            match self.one_try(statement.clone()) {
                Err(error) if error.state == SqlState::SerializationFailure => {}
                Err(error) if error.state == SqlState::ConnectionFailure && self.connection.is_lost() => {
                    self.connect_if_lost()?;
                }
                outcome => return outcome,
            }
        }
        self.one_try(statement.clone())
    }

    fn one_try(&mut self, statement: Statement) -> Result<Outcome> {
        let is_new = self.transaction.is_none();
        if is_new {
            self.start(Block::Statement, Mode::ReadWrite)?;
        }
        let outcome = self.run(statement);
        let outcome = outcome.and_then(|outcome| {
            if self.shared.options.writes == Writes::AtOnce {
                let catalog = self.shared.catalog();
                self.send(catalog.tables())?;
            }
            Ok(outcome)
        });
        if !is_new {
            return outcome;
        }
        match outcome {
            Ok(outcome) => self.finish().map(|()| outcome),
            Err(error) => {
                self.rollback();
                Err(error)
            }
        }
    }

    fn run(&mut self, statement: Statement) -> Result<Outcome> {
        match statement {
            Statement::Query(_) => {
                let rows = self.query(statement)?;
                Ok(Outcome { tag: format!("SELECT {}", rows.count()), rows: Some(rows) })
            }
            Statement::Explain { statement: ref explained, .. } => {
                // An engine would run a change itself to explain it with ANALYZE.
                if !matches!(**explained, Statement::Query(_)) {
                    return Err(TiqueError::unsupported(format!("EXPLAIN of {explained}")));
                }
                let rows = self.query(statement)?;
                Ok(Outcome { tag: "EXPLAIN".to_owned(), rows: Some(rows) })
            }
            Statement::Insert(insert) => self.writing().and_then(|()| self.insert(insert)),
            Statement::Update(update) => self.writing().and_then(|()| self.update(&update)),
            Statement::Delete(delete) => self.writing().and_then(|()| self.delete(&delete)),
            Statement::AlterTable(_) => {
                let hint = "Create another table with the definition that you want, INSERT INTO it SELECT ... from \
                            this one, and drop this one.";
                Err(TiqueError::unsupported(format!("the statement {statement}")).hint(hint))
            }
            other => Err(TiqueError::unsupported(format!("the statement {other}"))),
        }
    }

    fn writing(&self) -> Result<()> {
        if self.transaction.as_ref().is_some_and(|transaction| transaction.mode == Mode::ReadOnly) {
            return Err(TiqueError::new(SqlState::ReadOnlyTransaction, "the transaction is read-only"));
        }
        Ok(())
    }

    fn begin(&mut self, modes: &[TransactionMode]) -> Result<Outcome> {
        self.outside_block("BEGIN")?;
        let (mut access, mut is_serializable) = (Mode::ReadWrite, false);
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => access = Mode::ReadOnly,
                TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => access = Mode::ReadWrite,
                // Snapshot isolation gives the weaker levels more than they ask for.
                TransactionMode::IsolationLevel(level) => {
                    is_serializable = *level == TransactionIsolationLevel::Serializable;
                }
            }
        }
        self.start(Block::Explicit, access)?;
        // Who only reads is serializable as it is.
        if is_serializable && access == Mode::ReadWrite {
            self.transaction().read_set = Some(ReadSet::default());
        }
        Ok(Outcome::done("BEGIN"))
    }

    fn start(&mut self, block: Block, mode: Mode) -> Result<()> {
        self.wait_for_turn()?;
        let counters = &self.shared.pipeline.counters;
        let begun = match self.place.take() {
            Some(place) => counters.begin_at(place),
            None => Some(counters.begin()),
        };
        let (txid, sts) = begun.ok_or_else(|| {
            let message = "could not begin: a checkpoint has passed the snapshot";
            TiqueError::new(SqlState::SerializationFailure, message).hint("Run the transaction again.")
        })?;
        if let Some(reserved) = self.reservation {
            self.shared.pipeline.reservations.hold(reserved, txid);
        }
        let buffer = Buffer::default();
        let savepoints = Savepoints::default();
        let (read_set, has_failed) = (None, false);
        self.transaction =
            Some(Transaction { txid, sts, buffer, savepoints, read_set, block, mode, has_failed });
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        match &self.transaction {
            Some(transaction) if !transaction.has_failed => {
                assert_eq!(transaction.block, Block::Explicit, "a statement's transaction ends with it");
                self.finish()?;
                Ok(Outcome::done("COMMIT"))
            }
            _ => {
                self.rollback();
                Ok(Outcome::done("ROLLBACK"))
            }
        }
    }

    /// Commits the transaction.
    fn finish(&mut self) -> Result<()> {
        let outcome = self.submission().and_then(|submission| match submission {
            Some(submission) => self.shared.pipeline.commit(submission).map(drop),
            None => Ok(()),
        });
        if let Some(transaction) = self.transaction.take() {
            // What is reserved is reserved before the transaction ends: its write set is not trimmed between.
            self.note_end(transaction.txid, &outcome);
            self.shared.pipeline.counters.end(transaction.txid);
        }
        self.shared.checkpoint_if_worth();
        outcome
    }

    /// What the end of a transaction means for the next one's chances.
    pub(crate) fn note_end<T>(&mut self, txid: Txid, outcome: &Result<T>) {
        let was_refused = matches!(outcome, Err(error) if error.state == SqlState::SerializationFailure);
        if was_refused && self.priority == Priority::High {
            // The older reservation is replaced: the newer write set is what the next run will most likely write.
            self.shared.pipeline.reservations.reserve(txid, self.reservation.replace(txid));
        } else if outcome.is_ok() {
            self.release();
        }
    }

    /// What the pipeline is to commit; nothing if the transaction wrote nothing.
    pub(crate) fn submission(&mut self) -> Result<Option<Submission>> {
        let is_empty = self.transaction.as_ref().is_none_or(|transaction| transaction.buffer.is_empty());
        if is_empty {
            return Ok(None);
        }
        let joined = self.shared.options.layout == Layout::Joined;
        if joined {
            let catalog = self.shared.catalog();
            self.send(catalog.tables())?;
        }
        let transaction = self.transaction.as_mut().expect("a transaction with writes is there");
        let rows = if joined { Vec::new() } else { transaction.buffer.rows(transaction.txid)? };
        let read_set = transaction.read_set.take();
        if read_set.is_some() {
            transaction.buffer.note_ranges();
        }
        let write_set = std::mem::take(&mut transaction.buffer.write_set);
        let read_set = read_set.unwrap_or_default();
        Ok(Some(Submission { txid: transaction.txid, sts: transaction.sts, write_set, read_set, rows }))
    }

    pub(crate) fn rollback(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            self.shared.pipeline.counters.end(transaction.txid);
        }
    }

    /// The session works on a statement: its reservation does not age until [`rest`](Self::rest).
    pub(crate) fn work(&self) {
        if let Some(reserved) = self.reservation {
            self.shared.pipeline.reservations.work(reserved);
        }
    }

    /// The session waits for its client: its reservation ages until the next statement.
    pub(crate) fn rest(&self) {
        if let Some(reserved) = self.reservation {
            self.shared.pipeline.reservations.rest(reserved);
        }
    }

    fn release(&mut self) {
        if let Some(reserved) = self.reservation.take() {
            self.shared.pipeline.reservations.release(reserved);
        }
    }

    fn set(&mut self, set: &Set) -> Result<Outcome> {
        let Set::SingleAssignment { variable, values, .. } = set else {
            return Err(TiqueError::unsupported(format!("SET {set}")));
        };
        let word = match values.as_slice() {
            [Expr::Value(value)] => match &value.value {
                Value::SingleQuotedString(text) => text.clone(),
                other => other.to_string(),
            },
            [Expr::Identifier(word)] => folded(word),
            _ => String::new(),
        };
        match (variable.to_string().to_lowercase().as_str(), word.as_str()) {
            ("tique.formulation", "auto") => self.reading = Reading::Chosen,
            ("tique.formulation", "ranking") => self.reading = Reading::Always(Formulation::Ranking),
            ("tique.formulation", "anti_join") => self.reading = Reading::Always(Formulation::AntiJoin),
            ("tique.formulation", "copied") => self.reading = Reading::Always(Formulation::Copied),
            ("tique.priority", "normal") => self.priority = Priority::Normal,
            ("tique.priority", "high") => self.priority = Priority::High,
            _ => {
                let hint = "There are tique.formulation (auto, ranking, anti_join, copied) and tique.priority (normal, \
                            high).";
                return Err(TiqueError::unsupported(format!("SET {variable} = {word}")).hint(hint));
            }
        }
        Ok(Outcome::done("SET"))
    }

    /// Whether values are checked here, because the engine's columns take everything.
    pub(crate) fn checks_types(&self) -> bool {
        matches!(self.types(), Types::Ours(_))
    }

    pub(crate) fn types(&self) -> Types {
        self.shared.engine.dialect().types
    }

    pub(crate) fn transaction(&mut self) -> &mut Transaction {
        self.transaction.as_mut().expect("statements run inside a transaction")
    }

    /// What the transaction sees of a table: committed rows, and its own if they could be found and are in the cache.
    fn view(&self, table: &Table, found_by: &FoundBy, sees: Sees) -> View {
        let transaction = self.transaction.as_ref().expect("statements run inside a transaction");
        let newest = self.shared.options.trials.snapshot_is_off;
        let sts = if newest { self.shared.pipeline.counters.newest() } else { transaction.sts };
        let has_own = sees == Sees::Own
            && transaction.buffer.is_sent(table)
            && transaction.buffer.may_have(table, found_by);
        let own = has_own.then_some(transaction.txid);
        let layout = self.shared.options.layout;
        let cache = match &found_by.key {
            Some(key) if table.cache() == CacheRows::Some => table.versions.of(key, sts),
            _ => table.cache(),
        };
        View { sts, own, layout, cache }
    }

    /// Appends to the caches what they lack of the transaction's versions.
    fn send<'a>(&mut self, tables: impl Iterator<Item = &'a Arc<Table>>) -> Result<()> {
        for table in tables {
            let transaction = self.transaction.as_mut().expect("statements run inside a transaction");
            if let Some(rows) = transaction.buffer.take_unsent(table, transaction.txid)? {
                table.note_appended(rows.num_rows());
                self.connection.append(&cache(&table.definition), &rows)?;
            }
        }
        Ok(())
    }

    /// Runs a query on the abstract schema. The transaction's own writes are seen.
    pub(crate) fn query(&mut self, statement: Statement) -> Result<Rows> {
        self.read(statement, Sees::Own, Purpose::Statement)
    }

    /// Runs a query that we wrote.
    pub(crate) fn query_text(&mut self, sql: &str, sees: Sees) -> Result<Rows> {
        self.query_for(sql, sees, Purpose::Change)
    }

    /// The same, for this purpose.
    fn query_for(&mut self, sql: &str, sees: Sees, purpose: Purpose) -> Result<Rows> {
        let rows = parse(sql).and_then(|mut statements| {
            let statement = statements.pop().expect("the text of a query is a statement");
            self.read(statement, sees, purpose)
        });
        // A place in our text says nothing to the application.
        rows.map_err(|error| TiqueError { place: None, ..error })
    }

    /// The formulation that a query is written in.
    fn formulation(&self, reads: &Reads, purpose: Purpose) -> Formulation {
        let copies = || {
            // To search one table for rows to change takes no longer than to copy it.
            (purpose == Purpose::Statement || reads.tables.len() > 1)
                && reads.effort == Effort::Analytical
                && self.shared.engine.dialect().copying == Copying::Worthwhile
                && !self.shared.options.trials.snapshot_is_off
        };
        match self.reading {
            Reading::Chosen | Reading::Always(Formulation::Copied) if copies() => Formulation::Copied,
            Reading::Chosen | Reading::Always(Formulation::Copied) => reads.formulation,
            Reading::Always(formulation) => formulation,
        }
    }

    fn read(&mut self, mut statement: Statement, sees: Sees, purpose: Purpose) -> Result<Rows> {
        let catalog: Arc<Catalog> = self.shared.catalog();
        let reads = rewrite::reads(&mut statement, &catalog, self.shared.engine.dialect())?;
        if sees == Sees::Own {
            let buffer = &self.transaction().buffer;
            let may_find = |(name, table): &(&String, &Arc<Table>)| {
                reads.found_by[*name].iter().any(|found_by| buffer.may_have(table, found_by))
            };
            let needed: Vec<_> = reads.tables.iter().filter(may_find).map(|(_, table)| table).collect();
            self.send(needed.into_iter())?;
            self.note_reads(&reads);
        }
        let formulation = self.formulation(&reads, purpose);
        let copies = match formulation {
            Formulation::Copied => {
                let transaction = self.transaction.as_ref().expect("statements run inside a transaction");
                let seen = (transaction.sts, &transaction.buffer);
                self.copies.for_statement(&mut *self.connection, seen, &statement, &reads)
            }
            _ => BTreeMap::new(),
        };
        let storages = match reads.effort == Effort::Analytical && !reads.uses_all_columns {
            true => Storages::Named,
            false => Storages::Queried,
        };
        let how = How { formulation, copies, storages, effort: reads.effort };
        loop {
            // Versions that a checkpoint has moved meanwhile are read from the storage the second time.
            if let Some(rows) = self.read_once(statement.clone(), &how, &catalog, sees)? {
                return Ok(rows);
            }
        }
    }

    /// At SERIALIZABLE, notes what a query looks up.
    fn note_reads(&mut self, reads: &Reads) {
        let Some(read_set) = &mut self.transaction().read_set else { return };
        for (name, table) in &reads.tables {
            for found_by in reads.found_by[name].iter().filter(|_| table.definition.kind != Kind::Static) {
                read_set.look_up(&table.definition, found_by);
            }
        }
    }

    /// Nothing if a version that was to be read from a cache is not known to have been there throughout.
    fn read_once(
        &mut self,
        mut statement: Statement,
        how: &How,
        catalog: &Catalog,
        sees: Sees,
    ) -> Result<Option<Rows>> {
        let dialect = self.shared.engine.dialect();
        let from_caches = RefCell::new(Vec::new());
        let view = |table: &Arc<Table>, found_by: &FoundBy| {
            let view = self.view(table, found_by, sees);
            if let (CacheRows::Exactly(version), Some(key)) = (view.cache, &found_by.key) {
                from_caches.borrow_mut().push((Arc::clone(table), key.clone(), version));
            }
            view
        };
        let How { formulation, ref copies, storages, effort } = *how;
        let snapshots = Snapshots { formulation, copies, storages, view: &view };
        rewrite::replace(&mut statement, catalog, dialect, snapshots)?;
        let from_caches = from_caches.into_inner();
        let rows = self.connection.query(&statement.to_string(), effort)?;
        let is_there =
            |(table, key, version): &(Arc<Table>, String, Timestamp)| table.versions.has(key, *version);
        Ok(from_caches.iter().all(is_there).then_some(rows))
    }
}

/// An engine's error with the application's names of tables in place of ours.
fn as_named(mut error: TiqueError, catalog: &Catalog) -> TiqueError {
    if error.state == SqlState::EngineRefused {
        for table in catalog.tables() {
            for physical in tables(&table.definition.name) {
                error.message = error.message.replace(&physical, &table.definition.name);
            }
        }
    }
    error
}

/// How a query is written and run.
struct How {
    formulation: Formulation,
    copies: BTreeMap<String, CopyOf>,
    storages: Storages,
    effort: Effort,
}

/// What a query is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// It is the application's, whose rows are the answer to a statement, or what a change writes: it may take any time.
    Statement,
    /// It looks for the rows of a table that a change changes, or has to compare with.
    Change,
}

/// Which rows a query of ours sees. What constraints look up is committed; all else is noted at SERIALIZABLE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    /// Those of the snapshot.
    Committed,
    /// And those that the transaction wrote.
    Own,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rollback();
        self.release();
    }
}
