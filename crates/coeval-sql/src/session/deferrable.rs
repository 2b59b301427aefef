// SPDX-License-Identifier: Apache-2.0
//! `DEFERRABLE`: a declared read-only transaction at SERIALIZABLE that would rather wait than read an older snapshot.
//!
//! It reads the first safe snapshot that has everything that was committed when it began (DESIGN 5.6). The parser does
//! not know the word; it is taken out of the tokens, and what is left is run with it.

use super::block::BlockOptions;
use super::parse::{is_space, is_word};
use super::variables::Scope;
use super::{Session, State};
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use crate::settings::Deferrable;
use coeval_store::AccessMode;
use coeval_txn::Isolation;
use datafusion::sql::sqlparser::ast::{Set, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

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

/// Removes `[NOT] DEFERRABLE` from tokens that begin a transaction or set its modes; which of them it was.
pub(super) fn take_deferrable(tokens: &mut Vec<TokenWithSpan>) -> Option<Deferrable> {
    let words = || tokens.iter().filter(|token| !is_space(token));
    let is = |place: usize, wanted: &str| words().nth(place).is_some_and(|token| is_word(token, wanted));
    let sets_modes =
        is(0, "begin") || is(0, "start") || is(0, "set") && (is(1, "transaction") || is(1, "session"));
    if !sets_modes || !words().any(|token| is_word(token, "deferrable")) {
        return None;
    }
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut found = Deferrable::Yes;
    for token in words() {
        if is_word(token, "deferrable") {
            found = if kept.last().is_some_and(|last| is_word(last, "not")) {
                Deferrable::No
            } else {
                Deferrable::Yes
            };
            while kept.last().is_some_and(|last| is_word(last, "not") || last.token == Token::Comma) {
                kept.pop();
            }
        } else if token.token == Token::Comma && kept.last().is_none_or(ends_introduction) {
            // The comma behind a mode that has gone.
        } else {
            kept.push(token.clone());
        }
    }
    *tokens = kept;
    Some(found)
}

/// Whether no transaction mode stands before a comma here.
fn ends_introduction(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::Word(word) => matches!(word.keyword, Keyword::BEGIN | Keyword::TRANSACTION | Keyword::WORK),
        _ => false,
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
