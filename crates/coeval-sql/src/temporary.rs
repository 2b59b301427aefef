// SPDX-License-Identifier: Apache-2.0
//! Temporary tables, views and sequences: ordinary ones in a schema of their session.
//!
//! Each session has a name for such a schema, which nobody else ever has while the database is open. The schema is made
//! when the session makes something in it, and goes with all that is in it when the session ends; what a crash has left
//! goes when the database is opened. Unqualified names are looked up there first, and `pg_temp` is another name for it.

use crate::error::SqlError;
use crate::hand_over::aside;
use coeval_store::{
    CatalogChange, ObjectRef, QualifiedName, SpaceId, Store, StoreError, TableDef, Transaction,
};
use coeval_txn::{Isolation, TransactionId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What users call the schema of their session.
pub(crate) const PG_TEMP: &str = "pg_temp";

/// How the names of such schemas begin.
const PREFIX: &str = "pg_temp_";

/// Numbers the sessions.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// What happens to a temporary table when a transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCommit {
    /// Its rows go.
    DeleteRows,
    /// It goes.
    Drop,
}

/// A session's temporary objects.
///
/// # Locking
/// `on_commit` is held for a look or a push; nobody but the session takes it.
#[derive(Debug)]
pub(crate) struct Temporary {
    schema: String,
    /// Whether the session may have made its schema.
    is_used: AtomicBool,
    /// Tables that do not stay as they are when a transaction commits. Of a transaction that was rolled back they may be
    /// tables that there never were, until the next one.
    on_commit: Mutex<Vec<Noted>>,
}

/// What is to happen to a table when a transaction commits.
#[derive(Clone, Copy, Debug)]
struct Noted {
    table: SpaceId,
    action: OnCommit,
    /// The transaction that makes the table.
    maker: TransactionId,
}

impl Noted {
    /// Whether the table may be there some day. One that the transaction has dropped is there again if it fails, unless the
    /// transaction has made it; and one whose commit ended without its outcome (`08007`) is there once that is known.
    fn may_be(&self, transaction: &Transaction) -> bool {
        transaction.may_have_table(self.table)
    }
}

impl Default for Temporary {
    fn default() -> Self {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        Self {
            schema: format!("{PREFIX}{number}"),
            is_used: AtomicBool::new(false),
            on_commit: Mutex::default(),
        }
    }
}

impl Temporary {
    /// The name of the session's schema, whether it is there or not.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// The schema that this name of a schema means.
    pub(crate) fn meant<'n>(&'n self, schema: &'n str) -> &'n str {
        if schema == PG_TEMP { &self.schema } else { schema }
    }

    /// The schema is about to be made.
    pub(crate) fn note_used(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// What is to happen to a table, which this transaction makes, when one commits.
    pub(crate) fn note_on_commit(&self, transaction: &Transaction, table: SpaceId, action: OnCommit) {
        let maker = transaction.id();
        let mut on_commit = self.on_commit.lock();
        // Its own tables come back when it goes back to a savepoint.
        on_commit.retain(|noted| noted.maker == maker || noted.may_be(transaction));
        on_commit.push(Noted { table, action, maker });
    }

    /// Whether anything happens to this table when a transaction commits.
    pub(crate) fn has_on_commit(&self, table: SpaceId) -> bool {
        self.on_commit.lock().iter().any(|noted| noted.table == table)
    }

    /// What is to happen before a transaction of the session commits: rows and tables go.
    ///
    /// # Errors
    /// Those of the changes.
    pub(crate) fn before_commit(&self, transaction: &mut Transaction) -> Result<(), SqlError> {
        if !self.is_used.load(Ordering::Relaxed) || transaction.is_read_only() {
            return Ok(());
        }
        let actions = self.on_commit.lock().clone();
        for Noted { table, action, .. } in actions {
            let Ok(def) = transaction.table_def(table).cloned() else { continue };
            match action {
                OnCommit::DeleteRows if transaction.view(table)?.row_count() == 0 => {}
                OnCommit::DeleteRows => transaction.change_catalog(CatalogChange::Truncate(table))?,
                OnCommit::Drop => remove_table(transaction, &def)?,
            }
        }
        self.on_commit.lock().retain(|noted| noted.may_be(transaction));
        Ok(())
    }

    /// Drops everything of the session, in a transaction of its own. What it fails to drop goes when the database is
    /// opened again.
    pub(crate) fn drop_all(&self, store: &Store) {
        if !self.is_used.swap(false, Ordering::Relaxed) {
            return;
        }
        self.on_commit.lock().clear();
        if let Err(error) = aside(|| remove_schemas(store, |schema| schema == self.schema)) {
            tracing::warn!(%error, schema = self.schema, "temporary tables could not be dropped");
        }
    }
}

/// Drops what sessions have left that did not end: the database was not closed.
///
/// # Errors
/// Those of the commit.
pub(crate) fn remove_left_over(store: &Store) -> Result<(), StoreError> {
    remove_schemas(store, is_temporary)
}

/// Whether a schema is a session's.
pub(crate) fn is_temporary(schema: &str) -> bool {
    schema.starts_with(PREFIX)
}

fn remove_schemas(store: &Store, which: impl Fn(&str) -> bool) -> Result<(), StoreError> {
    let mut transaction = store.begin_applied(Isolation::Snapshot);
    let schemas: Vec<String> =
        transaction.catalog().schemas().filter(|schema| which(schema)).map(str::to_owned).collect();
    if schemas.is_empty() {
        return Ok(());
    }
    for schema in schemas {
        remove_schema(&mut transaction, schema)?;
    }
    transaction.commit().map(|_| ())
}

fn remove_schema(transaction: &mut Transaction, schema: String) -> Result<(), StoreError> {
    let inside: Vec<(QualifiedName, ObjectRef)> = transaction
        .catalog()
        .names()
        .filter(|(name, _)| name.schema == schema)
        .map(|(name, object)| (name.clone(), object))
        .collect();
    for (name, object) in &inside {
        match object {
            ObjectRef::View => transaction.change_catalog(CatalogChange::RemoveView(name.clone()))?,
            ObjectRef::Table(table) => {
                let def = Arc::clone(transaction.table_def(*table)?);
                if !def.foreign_keys.is_empty() {
                    let mut free = TableDef::clone(&def);
                    free.foreign_keys.clear();
                    transaction.change_catalog(CatalogChange::PutTable(Box::new(free)))?;
                }
            }
            ObjectRef::Index(..) | ObjectRef::Sequence(_) => {}
        }
    }
    for (_, object) in &inside {
        if let ObjectRef::Table(table) = object {
            let def = Arc::clone(transaction.table_def(*table)?);
            remove_table(transaction, &def)?;
        }
    }
    for (name, object) in inside {
        if let ObjectRef::Sequence(sequence) = object
            && transaction.catalog().resolve(&name).is_some()
        {
            transaction.change_catalog(CatalogChange::RemoveSequence(sequence))?;
        }
    }
    transaction.change_catalog(CatalogChange::RemoveSchema(schema))
}

/// Removes a table that no other refers to, with the sequences that feed it.
fn remove_table(transaction: &mut Transaction, def: &TableDef) -> Result<(), StoreError> {
    for sequence in def.columns.iter().filter_map(|column| column.sequence) {
        let is_own = transaction
            .catalog()
            .sequence(sequence)
            .is_some_and(|sequence| sequence.name.schema == def.name.schema);
        if is_own {
            transaction.change_catalog(CatalogChange::RemoveSequence(sequence))?;
        }
    }
    transaction.change_catalog(CatalogChange::RemoveTable(def.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::{AccessMode, ColumnDef, ColumnType, StoreOptions};

    /// Makes a table of the session, with this to be done when a transaction commits.
    fn make(
        store: &Store,
        temporary: &Temporary,
        transaction: &mut Transaction,
        action: OnCommit,
    ) -> SpaceId {
        let id = store.new_space_id();
        let name = QualifiedName::new(temporary.schema(), format!("t{id}"));
        let columns = vec![ColumnDef::new("n", ColumnType::Int)];
        temporary.note_on_commit(transaction, id, action);
        let def = TableDef::new(id, name, columns, vec![0]);
        transaction.change_catalog(CatalogChange::PutTable(Box::new(def))).unwrap();
        id
    }

    fn begin(store: &Store) -> Transaction {
        store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
    }

    #[test]
    fn tables_that_are_gone_for_good_are_forgotten() {
        let store = Store::in_memory(StoreOptions::default());
        let temporary = Temporary::default();
        temporary.note_used();
        let mut transaction = begin(&store);
        transaction.change_catalog(CatalogChange::PutSchema(temporary.schema().to_owned())).unwrap();
        let kept = make(&store, &temporary, &mut transaction, OnCommit::DeleteRows);
        temporary.before_commit(&mut transaction).unwrap();
        transaction.commit().unwrap();
        for round in 0..10 {
            let mut transaction = begin(&store);
            make(&store, &temporary, &mut transaction, OnCommit::Drop);
            // Every other one is rolled back.
            if round % 2 == 0 {
                temporary.before_commit(&mut transaction).unwrap();
                transaction.commit().unwrap();
            }
            assert!(temporary.on_commit.lock().len() <= 2, "round {round}");
        }
        // Whoever drops a table and fails has it still.
        let mut transaction = begin(&store);
        transaction.change_catalog(CatalogChange::RemoveTable(kept)).unwrap();
        temporary.before_commit(&mut transaction).unwrap();
        drop(transaction);
        assert!(temporary.has_on_commit(kept));
    }

    #[test]
    fn a_table_that_a_savepoint_brings_back_is_not_forgotten() {
        let store = Store::in_memory(StoreOptions::default());
        let temporary = Temporary::default();
        temporary.note_used();
        let mut transaction = begin(&store);
        transaction.change_catalog(CatalogChange::PutSchema(temporary.schema().to_owned())).unwrap();
        let first = make(&store, &temporary, &mut transaction, OnCommit::Drop);
        let savepoint = transaction.savepoint();
        transaction.change_catalog(CatalogChange::RemoveTable(first)).unwrap();
        make(&store, &temporary, &mut transaction, OnCommit::Drop);
        transaction.rollback_to(&savepoint);
        temporary.before_commit(&mut transaction).unwrap();
        transaction.commit().unwrap();
        assert!(begin(&store).table_def(first).is_err());
    }
}
