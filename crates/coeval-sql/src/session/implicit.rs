// SPDX-License-Identifier: Apache-2.0
//! Statements that are sent together are one transaction, as in PostgreSQL: a block that nobody asked for.
//!
//! BEGIN among them makes the block an ordinary one, with what came before; COMMIT and ROLLBACK end it, and the
//! next statement begins another. A statement that fails takes it along at once.

use super::block::{BlockOptions, Opened};
use super::{Session, State};
use crate::error::SqlError;

impl Session {
    /// Makes the statements up to [`end_implicit`](Self::end_implicit) one transaction, unless a block is open.
    ///
    /// # Errors
    /// None today; whatever keeps a transaction from beginning.
    pub fn begin_implicit(&mut self) -> Result<(), SqlError> {
        if matches!(self.state, State::Idle) {
            let options = BlockOptions::of(&self.settings)?;
            self.open(options, Opened::Implicitly);
        }
        Ok(())
    }

    /// Whether statements have begun to be one transaction without a BEGIN.
    #[must_use]
    pub fn is_implicit(&self) -> bool {
        matches!(&self.state, State::Active(block) if block.opened == Opened::Implicitly)
    }

    /// Commits what statements have done since [`begin_implicit`](Self::begin_implicit), unless a BEGIN among them
    /// made it a block, which stays open. Durable as any commit is when this returns.
    ///
    /// # Errors
    /// As COMMIT; nothing of the statements remains then.
    pub fn end_implicit(&mut self) -> Result<(), SqlError> {
        let outcome = if self.is_implicit() { self.commit() } else { Ok(()) };
        outcome.map_err(|error| self.shown(error))
    }

    /// Notes that something behind a statement failed, such as reading its rows on: the block is failed, and one
    /// that nobody asked for is rolled back.
    pub fn abort(&mut self, error: SqlError) -> SqlError {
        self.fail(error)
    }

    pub(super) fn drop_failed_implicit(&mut self) {
        if matches!(&self.state, State::Failed(block) if block.opened == Opened::Implicitly) {
            self.rollback();
        }
    }
}
