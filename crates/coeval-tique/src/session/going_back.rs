// SPDX-License-Identifier: Apache-2.0
//! SAVEPOINT, ROLLBACK TO and RELEASE.
//!
//! Going back takes all versions that were sent out of the caches, which one DELETE for each table does, and restores the
//! savepoint's copy of the buffer as unsent: the next read sends what it needs. Nobody else ever saw them.

use super::{Outcome, Session};
use crate::error::{Result, SqlState, TiqueError};
use crate::names::quoted;
use crate::physical::{TXID, cache};
use crate::savepoints::SavepointPlace;

impl Session {
    /// Sets a savepoint behind those that are there, in the open block. Costs a copy of what the transaction wrote.
    ///
    /// # Errors
    /// 25P01: no block is open.
    pub fn set_savepoint(&mut self) -> Result<()> {
        self.add_savepoint(None)
    }

    /// Goes back to a savepoint, which stays; those behind it go. A failed block goes on.
    ///
    /// # Errors
    /// 25P01, 3B001: there is none. 08006, what the engine says: the block has failed, and only ROLLBACK helps.
    pub fn rollback_to_savepoint(&mut self, place: SavepointPlace) -> Result<()> {
        let is_lost = self.connection.is_lost();
        let transaction = self.transaction.as_mut().ok_or_else(no_block)?;
        if is_lost {
            let message = "the connection to the engine is lost, and savepoints with it";
            return Err(TiqueError::new(SqlState::ConnectionFailure, message)
                .hint("ROLLBACK, and run the transaction again."));
        }
        let buffer = transaction.savepoints.buffer(place)?.clone();
        let (txid, sent) = (transaction.txid, transaction.buffer.sent().cloned().collect::<Vec<_>>());
        transaction.has_failed = true;
        for table in sent {
            let cache = quoted(&cache(&table.definition));
            let deleted =
                self.connection.execute(&format!("DELETE FROM {cache} WHERE {TXID} = {}", txid.0))?;
            table.note_deleted(deleted);
        }
        let transaction = self.transaction.as_mut().ok_or_else(no_block)?;
        transaction.savepoints.truncate(place + 1);
        let taken_back = std::mem::replace(&mut transaction.buffer, buffer);
        if let Some(read_set) = &mut transaction.read_set {
            read_set.absorb(&taken_back.write_set);
        }
        transaction.buffer.note_taken_back();
        transaction.has_failed = false;
        Ok(())
    }

    /// Forgets a savepoint and those behind it; what was written stays.
    pub fn release_savepoints(&mut self, from: SavepointPlace) {
        if let Some(transaction) = &mut self.transaction {
            transaction.savepoints.truncate(from);
        }
    }

    pub(super) fn named_savepoint(&mut self, name: String) -> Result<Outcome> {
        self.add_savepoint(Some(name))?;
        Ok(Outcome::done("SAVEPOINT"))
    }

    pub(super) fn rollback_to(&mut self, name: &str) -> Result<Outcome> {
        let place = self.transaction.as_ref().ok_or_else(no_block)?.savepoints.place(name)?;
        self.rollback_to_savepoint(place)?;
        Ok(Outcome::done("ROLLBACK"))
    }

    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<Outcome> {
        let place = self.transaction.as_ref().ok_or_else(no_block)?.savepoints.place(name)?;
        self.release_savepoints(place);
        Ok(Outcome::done("RELEASE"))
    }

    fn add_savepoint(&mut self, name: Option<String>) -> Result<()> {
        let transaction = self.transaction.as_mut().ok_or_else(no_block)?;
        let buffer = transaction.buffer.clone();
        transaction.savepoints.add(name, buffer);
        Ok(())
    }
}

fn no_block() -> TiqueError {
    TiqueError::new(SqlState::NoActiveTransaction, "savepoints are of transaction blocks, and none is open")
}
