// SPDX-License-Identifier: Apache-2.0
//! Clients that append to lists and read them, in SQL, and write down what they were told.

use crate::histories::history::{Ending, History, Operation, Transaction};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Keys that are in use at a time; each makes place for a new one when its list is long.
const KEYS: u64 = 6;
const APPENDS_PER_KEY: u64 = 40;

/// What the lists are kept in.
pub const TABLE: &str = "CREATE TABLE lists (key bigint PRIMARY KEY, list text NOT NULL)";

/// A session that keeps lists, of whatever system.
pub trait Lists: Send {
    /// What its statements fail with.
    type Error: fmt::Display + Send;

    /// Runs a statement.
    ///
    /// # Errors
    /// The system's.
    fn execute(&mut self, sql: &str) -> Result<(), Self::Error>;

    /// The lists that are there of the keys in this range.
    ///
    /// # Errors
    /// The system's.
    fn read(&mut self, first: u64, last: u64, steps: &mut Steps)
    -> Result<Vec<(u64, Vec<u64>)>, Self::Error>;

    /// Runs a transaction up to its COMMIT.
    ///
    /// # Errors
    /// The system's; the transaction is rolled back then.
    fn transact(&mut self, notes: &mut Notes<'_>) -> Result<(), Self::Error>;

    /// Whether a transaction may fail so, and is tried no more.
    fn is_refusal(error: &Self::Error) -> bool;
}

/// What a client does next, at random; no value is appended twice.
pub struct Steps {
    /// Where it comes from.
    pub random: StdRng,
    next_value: Arc<AtomicU64>,
}

impl Steps {
    fn key(&mut self) -> u64 {
        let first = self.next_value.load(Ordering::Relaxed) / (KEYS * APPENDS_PER_KEY) * KEYS;
        first + self.random.random_range(0..KEYS)
    }
}

/// The operations of one transaction, as they are done.
pub struct Notes<'c> {
    /// What comes next.
    pub steps: &'c mut Steps,
    operations: Vec<Operation>,
}

impl Notes<'_> {
    /// A few reads and appends of one key each.
    ///
    /// # Errors
    /// The system's.
    pub fn read_and_append<L: Lists>(&mut self, lists: &mut L) -> Result<(), L::Error> {
        for _ in 0..self.steps.random.random_range(1..=4) {
            let key = self.steps.key();
            if self.steps.random.random() {
                self.read(lists, key, key)?;
            } else {
                let value = self.steps.next_value.fetch_add(1, Ordering::Relaxed);
                // Noted first: an append of a transaction that fails is one as well.
                self.operations.push(Operation::Append { key, value });
                lists.execute(&format!(
                    "INSERT INTO lists VALUES ({key}, '{value}') \
                     ON CONFLICT (key) DO UPDATE SET list = lists.list || ',' || excluded.list"
                ))?;
            }
        }
        Ok(())
    }

    /// A read or two, of up to three keys each.
    ///
    /// # Errors
    /// The system's.
    pub fn read_many<L: Lists>(&mut self, lists: &mut L) -> Result<(), L::Error> {
        for _ in 0..self.steps.random.random_range(1..=2) {
            let key = self.steps.key();
            let last = key + self.steps.random.random_range(0..3);
            self.read(lists, key, last)?;
        }
        Ok(())
    }

    /// Reads the lists of a range of keys, each of them an operation.
    fn read<L: Lists>(&mut self, lists: &mut L, first: u64, last: u64) -> Result<(), L::Error> {
        let found = lists.read(first, last, self.steps)?;
        for key in first..=last {
            let list = found.iter().find(|(of, _)| *of == key).map(|(_, list)| list.clone());
            self.operations.push(Operation::Read { key, list: list.unwrap_or_default() });
        }
        Ok(())
    }
}

/// The history of about so many transactions of these clients, each with a session of its own. `is_over` ends it early.
///
/// # Errors
/// The first that is no refusal, of any client; the others end their transactions first.
///
/// # Panics
/// If a client does.
pub fn record<L: Lists>(
    clients: Vec<L>,
    transactions: usize,
    seed: u64,
    is_over: &(impl Fn() -> bool + Sync),
) -> Result<History, L::Error> {
    let next_value = Arc::new(AtomicU64::new(1));
    let each = transactions / clients.len().max(1);
    let has_failed = &AtomicBool::new(false);
    let done: Vec<Result<Vec<Transaction>, L::Error>> = std::thread::scope(|scope| {
        let running: Vec<_> = (clients.into_iter().enumerate())
            .map(|(process, lists)| {
                let random = StdRng::seed_from_u64(seed * 1_000 + process as u64);
                let steps = Steps { random, next_value: Arc::clone(&next_value) };
                let mut client = Client { process, lists, steps };
                scope.spawn(move || {
                    let mut done = Vec::with_capacity(each);
                    while done.len() < each && !is_over() && !has_failed.load(Ordering::Relaxed) {
                        let one = client.transaction();
                        has_failed.fetch_or(one.is_err(), Ordering::Relaxed);
                        done.push(one?);
                    }
                    Ok(done)
                })
            })
            .collect();
        running.into_iter().map(|client| client.join().expect("a client does not panic")).collect()
    });
    let mut history = History::default();
    for client in done {
        history.transactions.extend(client?);
    }
    Ok(history)
}

struct Client<L> {
    process: usize,
    lists: L,
    steps: Steps,
}

impl<L: Lists> Client<L> {
    fn transaction(&mut self) -> Result<Transaction, L::Error> {
        let mut notes = Notes { steps: &mut self.steps, operations: Vec::new() };
        let outcome = self.lists.transact(&mut notes);
        let operations = notes.operations;
        let outcome = outcome.and_then(|()| {
            std::thread::yield_now();
            self.lists.execute("COMMIT")
        });
        let ending = match outcome {
            Ok(()) => Ending::Committed,
            Err(error) if L::is_refusal(&error) => {
                self.lists.execute("ROLLBACK")?;
                Ending::Aborted
            }
            Err(error) => return Err(error),
        };
        Ok(Transaction { process: self.process, operations, ending })
    }
}

/// The numbers of a list as it is kept.
///
/// # Panics
/// If it holds anything else.
#[must_use]
pub fn numbers(list: &str) -> Vec<u64> {
    list.split(',').map(|value| value.parse().expect("values are integers")).collect()
}
