// SPDX-License-Identifier: Apache-2.0
//! Clients that append to lists and read them, in SQL, and write down what they were told.

use crate::history::{Ending, History, Operation, Transaction};
use coeval_sql::{Engine, Session, SqlError};
use coeval_store::{Store, StoreOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CLIENTS: usize = 8;
/// Keys that are in use at a time; each makes place for a new one when its list is long.
const KEYS: u64 = 6;
const APPENDS_PER_KEY: u64 = 40;

/// How a client begins its transactions: most of them, and one in three.
#[derive(Clone, Copy)]
pub(crate) struct Levels {
    pub(crate) writing: &'static str,
    pub(crate) reading: &'static str,
}

/// The history of so many transactions of eight clients.
pub(crate) fn record(levels: Levels, transactions: usize, seed: u64) -> History {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let table = "CREATE TABLE lists (key bigint PRIMARY KEY, list text NOT NULL)";
    engine.session().execute(table).unwrap();
    let next_value = Arc::new(AtomicU64::new(1));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|process| {
            let client = Client {
                process,
                session: engine.session(),
                random: StdRng::seed_from_u64(seed * 1_000 + process as u64),
                next_value: Arc::clone(&next_value),
            };
            std::thread::spawn(move || client.run(levels, transactions / CLIENTS))
        })
        .collect();
    let done = clients.into_iter().flat_map(|client| client.join().expect("a client does not panic"));
    History { transactions: done.collect() }
}

struct Client {
    process: usize,
    session: Session,
    random: StdRng,
    next_value: Arc<AtomicU64>,
}

impl Client {
    fn run(mut self, levels: Levels, transactions: usize) -> Vec<Transaction> {
        (0..transactions).map(|_| self.transaction(levels)).collect()
    }

    fn transaction(&mut self, levels: Levels) -> Transaction {
        let mut operations = Vec::new();
        let outcome = if self.random.random_ratio(1, 3) {
            self.session.execute(levels.reading).and_then(|_| self.read_many(&mut operations))
        } else {
            self.session.execute(levels.writing).and_then(|_| self.read_and_append(&mut operations))
        };
        let outcome = outcome.and_then(|()| {
            std::thread::yield_now();
            self.session.execute("COMMIT").map(drop)
        });
        if let Err(error) = &outcome {
            assert!(matches!(error.state.code(), "40001" | "40P01"), "{error}");
            self.session.execute("ROLLBACK").unwrap();
        }
        let ending = if outcome.is_ok() { Ending::Committed } else { Ending::Aborted };
        Transaction { process: self.process, operations, ending }
    }

    fn key(&mut self) -> u64 {
        let first = self.next_value.load(Ordering::Relaxed) / (KEYS * APPENDS_PER_KEY) * KEYS;
        first + self.random.random_range(0..KEYS)
    }

    fn read_and_append(&mut self, operations: &mut Vec<Operation>) -> Result<(), SqlError> {
        for _ in 0..self.random.random_range(1..=4) {
            let key = self.key();
            if self.random.random() {
                self.read(key, key, operations)?;
            } else {
                let value = self.next_value.fetch_add(1, Ordering::Relaxed);
                // Noted first: an append of a transaction that fails is one as well.
                operations.push(Operation::Append { key, value });
                self.session.execute(&format!(
                    "INSERT INTO lists VALUES ({key}, '{value}') \
                     ON CONFLICT (key) DO UPDATE SET list = lists.list || ',' || excluded.list"
                ))?;
            }
        }
        Ok(())
    }

    fn read_many(&mut self, operations: &mut Vec<Operation>) -> Result<(), SqlError> {
        for _ in 0..self.random.random_range(1..=2) {
            let key = self.key();
            let last = key + self.random.random_range(0..3);
            self.read(key, last, operations)?;
        }
        Ok(())
    }

    /// Reads the lists of a range of keys, each of them an operation.
    fn read(&mut self, first: u64, last: u64, operations: &mut Vec<Operation>) -> Result<(), SqlError> {
        let sql = format!("SELECT key, list FROM lists WHERE key BETWEEN {first} AND {last}");
        let results = self.session.execute(&sql)?;
        let rows = results[0].rows.as_ref().expect("a query gives rows");
        let mut lists: Vec<(u64, Vec<u64>)> = Vec::new();
        for batch in &rows.batches {
            let keys = batch.column(0);
            for row in 0..batch.num_rows() {
                let key = coeval_store::value_at(keys, row).as_i64().expect("keys are integers");
                let list = coeval_store::value_at(batch.column(1), row).to_owned();
                let coeval_store::Value::Text(list) = list else { panic!("a list is text") };
                let values =
                    list.split(',').map(|value| value.parse().expect("values are integers")).collect();
                lists.push((key as u64, values));
            }
        }
        for key in first..=last {
            let list = lists.iter().find(|(of, _)| *of == key).map(|(_, list)| list.clone());
            operations.push(Operation::Read { key, list: list.unwrap_or_default() });
        }
        Ok(())
    }
}
