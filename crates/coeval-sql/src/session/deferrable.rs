// SPDX-License-Identifier: Apache-2.0
//! `DEFERRABLE`: a declared read-only transaction at SERIALIZABLE that would rather wait than read an older snapshot.
//!
//! It reads the first safe snapshot that has everything that was committed when it began. The parser does
//! not know the word; it is taken out of the tokens (`crate::parse`), and what is left is run with it.

use super::block::BlockOptions;
use super::variables::Scope;
use super::{Session, State};
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use crate::settings::Deferrable;
use coeval_store::AccessMode;
use coeval_txn::Isolation;
use datafusion::sql::sqlparser::ast::{Set, Statement};

/// A statement about transaction modes, `[NOT] DEFERRABLE` among them.
#[derive(Clone, Debug)]
pub(crate) struct DeferrableModes {
    /// The statement without the word.
    rest: Statement,
    deferrable: Deferrable,
}

impl DeferrableModes {
    /// None if the statement sets no modes.
    pub(super) fn of(rest: Statement, deferrable: Deferrable) -> Option<Self> {
        let has_modes =
            matches!(rest, Statement::StartTransaction { .. } | Statement::Set(Set::SetTransaction { .. }));
        has_modes.then_some(Self { rest, deferrable })
    }
}

impl BlockOptions {
    /// Whether the transaction waits for its snapshot.
    pub(super) fn is_deferred(self) -> bool {
        (self.isolation, self.mode) == (Isolation::Serializable, AccessMode::ReadOnly)
            && self.deferrable == Deferrable::Yes
    }
}

impl Session {
    /// Runs a statement about transaction modes.
    ///
    /// # Errors
    /// 25001 if a query has run in the transaction.
    pub(super) fn deferrable_modes(&mut self, modes: &DeferrableModes) -> Result<StatementResult, SqlError> {
        let result = self.session_statement(&modes.rest, "")?;
        match &modes.rest {
            Statement::Set(Set::SetTransaction { session: true, .. }) => {
                let value = modes.deferrable.shown();
                self.change(Scope::Session, |settings| {
                    settings.set("default_transaction_deferrable", value)
                })?;
            }
            _ => self.set_deferrable(modes.deferrable)?,
        }
        Ok(result)
    }

    /// Says whether the open block waits for its snapshot; without one it changes nothing.
    ///
    /// # Errors
    /// 25001 if a query has run in it.
    pub(super) fn set_deferrable(&mut self, deferrable: Deferrable) -> Result<(), SqlError> {
        let State::Active(block) = &mut self.state else { return Ok(()) };
        if block.has_snapshot() && block.options.deferrable != deferrable {
            let message = "SET TRANSACTION [NOT] DEFERRABLE must be called before any query";
            return Err(SqlError::new(SqlState::ActiveSqlTransaction, message));
        }
        block.options.deferrable = deferrable;
        block.note_deferral(self.engine.store());
        Ok(())
    }
}
