// SPDX-License-Identifier: Apache-2.0
//! What the parts of a statement share: where it began, and what those that have run returned.

use crate::error::{SqlError, SqlState};
use crate::result::RowSet;
use coeval_store::{Key, Savepoint, SpaceId, StoreError, TableView, Transaction};
use datafusion::catalog::{MemTable, TableProvider};
use std::sync::Arc;

/// What a part has returned.
#[derive(Clone, Debug)]
struct Returned {
    /// The name it goes by in the parts behind it.
    name: String,
    /// `None` if it returns nothing.
    rows: Option<RowSet>,
}

/// What the parts of a statement share.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// Where the statement began.
    began: Arc<Savepoint>,
    returned: Vec<Returned>,
}

impl Parts {
    /// Those of a statement that begins now.
    pub(crate) fn begin(transaction: &Transaction) -> Self {
        Self { began: Arc::new(transaction.savepoint()), returned: Vec::new() }
    }

    /// The same with what one more part has returned.
    pub(crate) fn with(&self, name: String, rows: Option<RowSet>) -> Self {
        let mut more = self.clone();
        more.returned.push(Returned { name, rows });
        more
    }

    /// Whether a part before has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.returned.iter().any(|part| part.name == name)
    }

    /// The rows that the part of this name has returned, if there is one that returns any.
    pub(crate) fn rows(&self, name: &str) -> Option<&RowSet> {
        self.returned.iter().rev().find(|part| part.name == name)?.rows.as_ref()
    }

    /// The names of those that have run.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.returned.iter().map(|part| part.name.as_str())
    }

    /// Where the statement began.
    pub(crate) fn began(&self) -> &Arc<Savepoint> {
        &self.began
    }

    /// What the part of this name has returned, as a table; `None` if there is no such part.
    ///
    /// # Errors
    /// `0A000` if it returns nothing.
    pub(crate) fn provider(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        let Some(returned) = self.returned.iter().rev().find(|part| part.name == name) else {
            return Ok(None);
        };
        let Some(rows) = &returned.rows else {
            let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
            return Err(SqlError::new(SqlState::FeatureNotSupported, message));
        };
        let table = MemTable::try_new(Arc::clone(&rows.schema), vec![rows.batches.clone()])?;
        Ok(Some(Arc::new(table)))
    }

    /// The whole table as it was when the statement began.
    ///
    /// # Errors
    /// As [`Transaction::view`].
    pub(crate) fn view(&self, transaction: &Transaction, table: SpaceId) -> Result<TableView, StoreError> {
        transaction.view_at(&self.began, table)
    }

    /// As [`view`](Self::view), for a caller that says what it looks at.
    ///
    /// # Errors
    /// As [`Transaction::view`].
    pub(crate) fn view_to_note(
        &self,
        transaction: &Transaction,
        table: SpaceId,
    ) -> Result<TableView, StoreError> {
        transaction.view_at_to_note(&self.began, table)
    }
}

/// Whether another part of the statement has written the row with this key.
pub(crate) fn has_written(
    parts: Option<&Parts>,
    transaction: &Transaction,
    table: SpaceId,
    key: &Key,
) -> bool {
    parts.is_some_and(|parts| transaction.has_written_since(&parts.began, table, key))
}
