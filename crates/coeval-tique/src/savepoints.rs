// SPDX-License-Identifier: Apache-2.0
//! Savepoints: what a transaction had written at a moment, to go back to. `session/going_back.rs` goes.
//!
//! A savepoint is a copy of the buffer.

use crate::buffer::Buffer;
use crate::error::{Result, SqlState, TiqueError};

/// A savepoint by its place: how many there were before it in its transaction.
pub type SavepointPlace = usize;

struct Savepoint {
    name: Option<String>,
    buffer: Buffer,
}

/// The savepoints of a transaction, oldest first.
#[derive(Default)]
pub(crate) struct Savepoints {
    list: Vec<Savepoint>,
}

impl Savepoints {
    /// The place of the newest savepoint of this name.
    ///
    /// # Errors
    /// 3B001: there is none.
    pub(crate) fn place(&self, name: &str) -> Result<SavepointPlace> {
        let found = self.list.iter().rposition(|savepoint| savepoint.name.as_deref() == Some(name));
        found.ok_or_else(|| {
            TiqueError::new(SqlState::InvalidSavepoint, format!("savepoint {name} does not exist"))
        })
    }

    /// What had been written at a savepoint.
    ///
    /// # Errors
    /// 3B001: there is none.
    pub(crate) fn buffer(&self, place: SavepointPlace) -> Result<&Buffer> {
        let missing = || TiqueError::new(SqlState::InvalidSavepoint, "there is no such savepoint");
        Ok(&self.list.get(place).ok_or_else(missing)?.buffer)
    }

    /// Sets a savepoint behind those that are there.
    pub(crate) fn add(&mut self, name: Option<String>, buffer: Buffer) {
        self.list.push(Savepoint { name, buffer });
    }

    /// Forgets all savepoints but the first ones, so many.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.list.truncate(count);
    }
}
