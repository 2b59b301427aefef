// SPDX-License-Identifier: Apache-2.0
//! What a session has beside its transaction: prepared statements and cursors, as the catalog lists them, and frames.

use crate::types::ParameterType;
use arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use std::fmt;
use std::sync::Arc;

/// A prepared statement as `pg_prepared_statements` lists it.
#[derive(Clone, Debug)]
pub(crate) struct ListedStatement {
    pub(crate) name: String,
    /// What the client sent.
    pub(crate) sql: String,
    pub(crate) since_micros: i64,
    pub(crate) parameters: Vec<ParameterType>,
    /// Whether PREPARE has prepared it.
    pub(crate) from_sql: bool,
}

/// A cursor as `pg_cursors` lists it.
#[derive(Clone, Debug)]
pub(crate) struct ListedCursor {
    pub(crate) name: String,
    pub(crate) sql: String,
    pub(crate) is_holdable: bool,
    pub(crate) is_scrollable: bool,
    pub(crate) since_micros: i64,
}

/// Objects of a session that the catalog lists.
pub(crate) trait ListObjects<T>: fmt::Debug + Send + Sync {
    /// All of them, by name.
    fn listed(&self) -> Vec<T>;
}

/// Where a cursor stands.
#[derive(Clone, Debug)]
pub(crate) struct CurrentRow {
    /// The query of the cursor.
    pub(crate) sql: String,
    /// The row, alone; `None` in front of the first one and behind the last.
    pub(crate) row: Option<RecordBatch>,
}

/// The cursors of a session.
pub(crate) trait OpenCursors: ListObjects<ListedCursor> {
    /// Where the cursor of this name stands; `None` if there is none.
    fn current_row(&self, name: &str) -> Option<CurrentRow>;
}

/// Tables that a program has lent a session.
pub(crate) trait LentFrames: fmt::Debug + Send + Sync {
    /// The frame of this name, as a table.
    fn frame(&self, name: &str) -> Option<Arc<dyn TableProvider>>;
}

/// What a session has open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenObjects<'s> {
    named: &'s dyn ListObjects<ListedStatement>,
    cursors: &'s dyn OpenCursors,
    frames: Option<&'s dyn LentFrames>,
}

impl<'s> OpenObjects<'s> {
    pub(crate) fn new(
        named: &'s dyn ListObjects<ListedStatement>,
        cursors: &'s dyn OpenCursors,
        frames: &'s dyn LentFrames,
    ) -> Self {
        Self { named, cursors, frames: Some(frames) }
    }

    /// The frame of this name that a program has lent, as a table.
    pub(crate) fn frame(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.frames?.frame(name)
    }

    /// Whether a statement may read files by their names: what outlives the session may not.
    pub(crate) fn may_read_files(&self) -> bool {
        self.frames.is_some()
    }

    /// The same for a definition, which may outlive the session: neither frames nor files.
    pub(crate) fn for_a_definition(self) -> Self {
        Self { frames: None, ..self }
    }

    /// Its prepared statements, by name.
    pub(crate) fn prepared_statements(&self) -> Vec<ListedStatement> {
        self.named.listed()
    }

    /// Its cursors, by name.
    pub(crate) fn cursors(&self) -> Vec<ListedCursor> {
        self.cursors.listed()
    }

    /// Where the cursor of this name stands; `None` if there is none.
    pub(crate) fn current_row(&self, cursor: &str) -> Option<CurrentRow> {
        self.cursors.current_row(cursor)
    }
}
