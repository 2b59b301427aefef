// SPDX-License-Identifier: Apache-2.0
//! Transactions that span this database and another one, which decides (two-phase commit, with one decider).
//!
//! ```text
//! prepare  write set, cts, certification, versions; sync            the transaction can commit and abort
//! decide   elsewhere: (transaction, timestamp) becomes durable      or does not
//! commit   the marker; sync; the start timestamp passes             from here on the decision may be forgotten
//! ```
//! Killed before the decision: recovery finds versions without marker, and no decision; they go. Killed behind it: who
//! opens the database gives the decision to [`Database::open_decided`](crate::Database::open_decided), which writes the
//! marker before anything else. Between prepare and the end start timestamps stand below the transaction, so nobody sees a
//! part of it, and whoever is certified meanwhile meets its write set.

use crate::commit::{Decision, Prepared};
use crate::counters::Txid;
use crate::error::{Result, SqlState, TiqueError};
use crate::session::Session;
use crate::shared::InUse;
use std::sync::Arc;

/// A transaction that has nothing left to do but commit or abort. Dropped, it aborts.
pub struct PreparedCommit {
    shared: Arc<InUse>,
    txid: Txid,
    prepared: Option<Prepared>,
    decision: Decision,
}

impl Session {
    /// Takes the open block's transaction up to its marker; nothing is left to do if it wrote nothing, and the session is
    /// out of the block either way. What is prepared is durable, and visible to nobody.
    ///
    /// # Errors
    /// 40001: somebody else committed first. 25P02: the block had failed. 08006, HV000, 57P03: what the engine says. The
    /// transaction has aborted.
    pub fn prepare(&mut self) -> Result<Option<PreparedCommit>> {
        let failed = || TiqueError::new(SqlState::InFailedTransaction, "the transaction has failed");
        let txid = match &self.transaction {
            Some(transaction) if !transaction.has_failed => transaction.txid,
            _ => {
                self.rollback();
                return Err(failed());
            }
        };
        self.work();
        let outcome = self.submission().and_then(|submission| {
            submission.map(|submission| self.shared.pipeline.prepare(submission)).transpose()
        });
        self.transaction = None;
        self.note_end(txid, &outcome);
        self.rest();
        match outcome {
            Ok(Some(prepared)) => {
                let decision = Decision { transaction: txid.0, timestamp: prepared.timestamp().0 };
                let shared = Arc::clone(&self.shared);
                Ok(Some(PreparedCommit { shared, txid, prepared: Some(prepared), decision }))
            }
            other => {
                self.shared.pipeline.counters.end(txid);
                other.map(|_| None)
            }
        }
    }

    /// Whether the open block has written anything.
    #[must_use]
    pub fn has_written(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| !transaction.buffer.is_empty())
    }
}

impl PreparedCommit {
    /// What whoever decides keeps until [`commit`](Self::commit) has returned.
    #[must_use]
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Commits; seen by every later transaction when this returns, and the decision need not be kept any longer.
    ///
    /// # Errors
    /// The transaction has committed by its decision, which is to be kept; nothing else commits here until the database is
    /// opened again with it.
    pub fn commit(mut self) -> Result<()> {
        let Some(prepared) = self.prepared.take() else { return Ok(()) };
        let outcome = self.shared.pipeline.complete(prepared);
        self.shared.pipeline.counters.end(self.txid);
        self.shared.checkpoint_if_worth();
        outcome
    }

    /// It is not known whether the decision is durable: nothing commits here any more until the database is opened again.
    pub fn leave_to_recovery(mut self, reason: &str) {
        self.shared.pipeline.counters.stop(reason.to_owned());
        self.prepared = None;
    }
}

impl Drop for PreparedCommit {
    fn drop(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            self.shared.pipeline.abort(prepared);
            self.shared.pipeline.counters.end(self.txid);
        }
    }
}
