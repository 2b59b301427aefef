// SPDX-License-Identifier: Apache-2.0
//! Lists in Coeval's own tables.

use super::history::History;
use super::recorder::{self, Lists, Notes, Steps};
use crate::error::BenchError;
use coeval::{Database, Isolation, Session, SqlState, Value, value_at};
use rand::Rng;

/// How a client begins its transactions: most of them, and one in three.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    writing: &'static str,
    reading: &'static str,
}

impl Levels {
    /// All of this level. At SERIALIZABLE one in three is declared READ ONLY, and so reads a safe snapshot.
    #[must_use]
    pub fn of(isolation: Isolation) -> Self {
        match isolation {
            Isolation::Serializable => Self {
                writing: "BEGIN ISOLATION LEVEL SERIALIZABLE",
                reading: "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY",
            },
            Isolation::Snapshot => {
                let level = "BEGIN ISOLATION LEVEL REPEATABLE READ";
                Self { writing: level, reading: level }
            }
            Isolation::ReadCommitted => {
                let level = "BEGIN ISOLATION LEVEL READ COMMITTED";
                Self { writing: level, reading: level }
            }
        }
    }

    /// The history of about so many transactions of these clients in a new database in memory.
    ///
    /// # Errors
    /// If the database refuses what it must not.
    pub fn record(self, clients: usize, transactions: usize, seed: u64) -> Result<History, BenchError> {
        self.record_in(&Database::in_memory()?, clients, transactions, seed)
    }

    /// As [`record`](Self::record), in a database that has no lists yet.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_in(
        self,
        db: &Database,
        clients: usize,
        transactions: usize,
        seed: u64,
    ) -> Result<History, BenchError> {
        record_on(db, self, clients, transactions, seed, &|| false)
    }
}

/// The history of about so many transactions of these clients in this database, which has no lists yet.
///
/// # Errors
/// As [`Levels::record`].
pub(crate) fn record_on(
    db: &Database,
    levels: Levels,
    clients: usize,
    transactions: usize,
    seed: u64,
    is_over: &(impl Fn() -> bool + Sync),
) -> Result<History, BenchError> {
    db.session().execute(recorder::TABLE)?;
    let clients = (0..clients).map(|_| Client { session: db.session(), levels }).collect();
    Ok(recorder::record(clients, transactions, seed, is_over)?)
}

struct Client {
    session: Session,
    levels: Levels,
}

impl Lists for Client {
    type Error = coeval::Error;

    fn execute(&mut self, sql: &str) -> Result<(), coeval::Error> {
        self.session.run(sql).map(drop)
    }

    fn read(&mut self, first: u64, last: u64, _: &mut Steps) -> Result<Vec<(u64, Vec<u64>)>, coeval::Error> {
        let sql = format!("SELECT key, list FROM lists WHERE key BETWEEN {first} AND {last}");
        let mut lists = Vec::new();
        for batch in self.session.query(&sql)? {
            for row in 0..batch.num_rows() {
                let key = value_at(batch.column(0), row).as_i64().expect("keys are integers");
                let list = value_at(batch.column(1), row).to_owned();
                let Value::Text(list) = list else { unreachable!("a list is text") };
                lists.push((key as u64, recorder::numbers(&list)));
            }
        }
        Ok(lists)
    }

    fn transact(&mut self, notes: &mut Notes<'_>) -> Result<(), coeval::Error> {
        if notes.steps.random.random_ratio(1, 3) {
            self.execute(self.levels.reading)?;
            notes.read_many(self)
        } else {
            self.execute(self.levels.writing)?;
            notes.read_and_append(self)
        }
    }

    fn is_refusal(error: &coeval::Error) -> bool {
        error.is_conflict() || error.state() == SqlState::DeadlockDetected
    }
}
