// SPDX-License-Identifier: Apache-2.0
//! The session behind a connection, shared by its statements: one thread at a time uses it.

use crate::errors::{misplaced, of_database, refused};
use crate::opened::Share;
use crate::panics::caught;
use adbc_core::CancelHandle;
use adbc_core::error::{Error, Result, Status};
use coeval::{Outcome, Prepared, Session, SqlState, TextForm, TransactionStatus};
use parking_lot::ReentrantMutex;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The savepoint that a group of statements within a transaction goes back to.
const GROUP: &str = "coeval_adbc_group";

/// A session that several objects use.
///
/// # Locking
/// `open` is held while a statement runs, and while the rows that an ingestion reads are waited for. The thread that holds it
/// may come again, because those rows may be made by a program that uses the same connection; it is refused then, by the
/// `RefCell`, instead of waiting for itself.
pub(crate) struct Client {
    open: ReentrantMutex<RefCell<Open>>,
    canceller: Canceller,
    /// Goes last: the session needs the database.
    share: Share,
}

/// The session and how its statements are to run.
pub(crate) struct Open {
    /// None once it is closed or a panic has left it who knows how.
    session: Option<Session>,
    canceller: Canceller,
    pub(crate) transactions: Transactions,
    pub(crate) text_form: TextForm,
}

/// Who says where transactions begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transactions {
    /// Each statement is one by itself, but for those between `BEGIN` and `COMMIT`.
    Automatic,
    /// The first statement begins one, and `commit` or `rollback` ends it.
    Manual,
}

impl Client {
    pub(crate) fn new(share: Share) -> Result<Self> {
        let session = share.session()?;
        let canceller = Canceller { running: session.cancel_handle(), is_asked: Arc::default() };
        let open = Open {
            session: Some(session),
            canceller: canceller.clone(),
            transactions: Transactions::Automatic,
            text_form: TextForm::default(),
        };
        Ok(Self { open: ReentrantMutex::new(RefCell::new(open)), canceller, share })
    }

    /// Runs something with the session, as soon as nobody else does. Requests to cancel from before do not concern it.
    ///
    /// # Errors
    /// What it returns; `XX000` if it panics, which closes the session.
    pub(crate) fn run<T>(&self, work: impl FnOnce(&mut Open) -> Result<T>) -> Result<T> {
        self.share.refuse_fork()?;
        let held = self.open.lock();
        let Ok(mut open) = held.try_borrow_mut() else {
            let message = "the connection is busy: what it reads for an ingestion comes from itself\n\
                           HINT: Use another connection for that.";
            return Err(refused(SqlState::ObjectInUse, message));
        };
        self.canceller.is_asked.store(false, Ordering::Release);
        let outcome = caught(|| Ok(work(&mut open)));
        outcome.unwrap_or_else(|panic| {
            // Dropping it may panic again, and is no loss.
            let _ = caught(|| open.close());
            Err(panic)
        })
    }

    /// What cancels the statement that runs.
    pub(crate) fn cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.canceller.clone())
    }

    /// A share in its database, for rows that may outlive it.
    pub(crate) fn share(&self) -> Share {
        self.share.clone()
    }

    /// Rolls back what is open, as soon as no statement runs.
    pub(crate) fn close(&self) {
        // There is nobody left to be told of a panic, and of a fork's parent nothing is closed.
        let _ = self.run(Open::close);
    }
}

/// Cancels what runs: the statement of the session, and what is yet to come of several that are done as one.
#[derive(Clone)]
struct Canceller {
    running: coeval::CancelHandle,
    /// Whether it was asked for since the last call began.
    is_asked: Arc<AtomicBool>,
}

impl CancelHandle for Canceller {
    fn try_cancel(&self) -> Result<()> {
        // Before the statement is: then none begins behind it that does not notice.
        self.is_asked.store(true, Ordering::Release);
        self.running.cancel();
        Ok(())
    }
}

impl Open {
    fn close(&mut self) -> Result<()> {
        self.session = None;
        Ok(())
    }

    /// The session.
    ///
    /// # Errors
    /// If it is closed.
    pub(crate) fn session(&mut self) -> Result<&mut Session> {
        self.session.as_mut().ok_or_else(|| misplaced("the connection is closed"))
    }

    /// Where the session's transaction is.
    ///
    /// # Errors
    /// If the session is closed.
    pub(crate) fn status(&mut self) -> Result<TransactionStatus> {
        Ok(self.session()?.transaction_status())
    }

    /// Runs a text, whose rows come as they are read. Unless transactions are automatic, it is in one.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn start(&mut self, sql: &str) -> Result<Outcome> {
        self.begin_if_due()?;
        self.session()?.start(sql).map_err(|error| of_database(&error))
    }

    /// Runs a statement of the driver's own.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<u64> {
        self.session()?.execute(sql).map_err(|error| of_database(&error))
    }

    /// Lets no further statement of several begin, once somebody asked to cancel them.
    ///
    /// # Errors
    /// `57014` then.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.canceller.is_asked.load(Ordering::Acquire) {
            let message = "canceling statement due to user request";
            return Err(refused(SqlState::QueryCanceled, message));
        }
        Ok(())
    }

    /// Begins a transaction, if none is open and statements are to be in one.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn begin_if_due(&mut self) -> Result<()> {
        if self.transactions == Transactions::Manual && self.status()? == TransactionStatus::Idle {
            self.execute("BEGIN")?;
        }
        Ok(())
    }

    /// Ends the transaction that is open, if one is.
    ///
    /// # Errors
    /// What the database says; `25P02` if a statement of it had failed: then nothing is committed.
    pub(crate) fn commit(&mut self) -> Result<()> {
        match self.status()? {
            TransactionStatus::Idle => Ok(()),
            TransactionStatus::Active => {
                let outcome = self.execute("COMMIT");
                if outcome.is_err() {
                    let _ = self.rollback();
                }
                outcome.map(|_| ())
            }
            TransactionStatus::Failed => {
                self.rollback()?;
                let message = "a statement of the transaction had failed: it is rolled back";
                Err(refused(SqlState::InFailedSqlTransaction, message))
            }
        }
    }

    /// Rolls back the transaction that is open, if one is.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn rollback(&mut self) -> Result<()> {
        if self.status()? != TransactionStatus::Idle {
            self.execute("ROLLBACK")?;
        }
        Ok(())
    }

    /// Does several statements as one: all of them have an effect, or none has.
    ///
    /// # Errors
    /// What one of them meets, or the commit.
    pub(crate) fn as_one<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.begin_if_due()?;
        self.grouped("BEGIN", work)
    }

    /// Reads several times as one: in the transaction that is open, which goes on as it was if that fails, or by one snapshot of
    /// its own.
    ///
    /// # Errors
    /// What one of them meets.
    pub(crate) fn reading_as_one<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.grouped("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", work)
    }

    /// Does several statements in a transaction that begins so, or in a savepoint of the one that is open.
    fn grouped<T>(&mut self, begin: &str, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.status()? == TransactionStatus::Idle {
            self.execute(begin)?;
            let outcome = work(self).and_then(|value| self.execute("COMMIT").map(|_| value));
            if outcome.is_err() {
                // What went wrong first says more than what rolling back may meet.
                let _ = self.rollback();
            }
            return outcome;
        }
        self.execute(&format!("SAVEPOINT {GROUP}"))?;
        match work(self).and_then(|value| self.execute(&format!("RELEASE SAVEPOINT {GROUP}")).map(|_| value))
        {
            Ok(value) => Ok(value),
            Err(error) => {
                let undone = self.execute(&format!("ROLLBACK TO SAVEPOINT {GROUP}"));
                // If that fails the transaction is failed as a whole, so nothing of the group remains in any case.
                let _ = undone.and_then(|_| self.execute(&format!("RELEASE SAVEPOINT {GROUP}")));
                Err(error)
            }
        }
    }

    /// Plans a statement; parameters whose type is known have it in `types`. An error leaves an open transaction as it was.
    ///
    /// # Errors
    /// If the text is not one statement or does not fit the definitions.
    pub(crate) fn prepared(
        &mut self,
        sql: &str,
        types: &[Option<coeval::ColumnType>],
    ) -> Result<std::result::Result<Prepared, coeval::Error>> {
        Ok(self.session()?.prepare_aside(sql, types))
    }
}

/// The error for what ADBC leaves to connections that are not in autocommit mode.
pub(crate) fn automatic(what: &str) -> Error {
    let message = format!("there is nothing to {what}: the connection is in autocommit mode");
    Error::with_message_and_status(message, Status::InvalidState)
}
