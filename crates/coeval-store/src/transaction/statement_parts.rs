// SPDX-License-Identifier: Apache-2.0
//! What a statement of several parts needs: each part reads what was there when the statement began, whatever the
//! parts before it have written; and a statement that has written can still run again.

use super::{Savepoint, Transaction};
use crate::error::StoreError;
use crate::ids::{CATALOG_SPACE, SpaceId};
use crate::key::Key;
use crate::view::TableView;
use std::sync::Arc;

impl Transaction {
    /// The whole table as this transaction saw it at the savepoint; all of it counts as read.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub fn view_at(&self, savepoint: &Savepoint, table: SpaceId) -> Result<TableView, StoreError> {
        self.note_table(table);
        self.view_of_savepoint(savepoint, table)
    }

    /// As [`view_to_note`](Self::view_to_note), of the table as this transaction saw it at the savepoint.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub fn view_at_to_note(&self, savepoint: &Savepoint, table: SpaceId) -> Result<TableView, StoreError> {
        self.note_definition(table);
        self.view_of_savepoint(savepoint, table)
    }

    fn view_of_savepoint(&self, savepoint: &Savepoint, id: SpaceId) -> Result<TableView, StoreError> {
        self.check_writes_of(self.row_table(id)?)?;
        let table = savepoint.world.table(id).ok_or(StoreError::UnknownSpace(id))?;
        Ok(match savepoint.writes.get(id) {
            None => TableView::new(Arc::clone(table)),
            Some(writes) => TableView::new(Arc::new(table.overlaid(writes))),
        })
    }

    /// Whether this transaction has written the row with this key since the savepoint.
    #[must_use]
    pub fn has_written_since(&self, savepoint: &Savepoint, table: SpaceId, key: &Key) -> bool {
        let before = savepoint.writes.get(table);
        let now = self.writes_of(table).and_then(|writes| writes.rows.get(key));
        let before = before.and_then(|writes| writes.rows.get(key));
        match (before, now) {
            (None, None) => false,
            (Some(before), Some(now)) => before.change() != now.change() || before.row() != now.row(),
            (Some(_), None) | (None, Some(_)) => true,
        }
    }

    /// Makes a statement run again if its snapshot has moved since the savepoint at which it began: its parts would
    /// not read the same.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the statement is to run again.
    pub fn require_unmoved_since(&mut self, savepoint: &Savepoint) -> Result<(), StoreError> {
        if self.snapshot == savepoint.snapshot {
            return Ok(());
        }
        self.restart_wanted = true;
        Err(self.changed(CATALOG_SPACE))
    }

    /// Undoes what was written since the savepoint, for a statement that runs again: locks taken since are kept, and
    /// so is the snapshot if it has moved.
    ///
    /// # Panics
    /// If the transaction was rolled back behind the savepoint before.
    pub fn undo_writes_since(&mut self, savepoint: &Savepoint) {
        // The locks that stay are paid for as long as they are there: a statement may run again and again, and lock others each time.
        let kept = self.kept.mark_with_locks_since(savepoint.kept);
        if self.snapshot == savepoint.snapshot {
            let locks = self.locks.as_ref().map_or(0, |locks| locks.granted_count());
            self.rollback_to(&Savepoint { locks, kept, ..savepoint.clone() });
            return;
        }
        assert!(savepoint.footprint <= self.footprint.len(), "a savepoint dies with the ones before it");
        assert!(!self.is_tied(), "a private copy of a world does not move");
        self.note_undone(savepoint.footprint);
        self.writes.clone_from(&savepoint.writes);
        self.writes.forget_positions();
        self.footprint.truncate(savepoint.footprint);
        self.pending.clone_from(&savepoint.pending);
        self.child_lookups.clear();
        self.kept.go_back_to(kept);
        self.deferred.go_back_to(&savepoint.deferred);
        self.bricks.undo(savepoint.bricks);
    }
}
