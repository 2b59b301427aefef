// SPDX-License-Identifier: Apache-2.0
//! Clients of TiQuE on the default engine: the same lists, appends and reads.

use crate::history::{Ending, History, Operation, Transaction};
use coeval_tique::{
    DataFusionEngine, Database, Layout, Options, Session, SqlState, TiqueError, Trials, Writes,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CLIENTS: usize = 8;
const KEYS: u64 = 6;
const APPENDS_PER_KEY: u64 = 40;

/// The history of so many transactions of eight clients, with checkpoints beside them.
pub(crate) fn record(layout: Layout, trials: Trials, transactions: usize, seed: u64) -> History {
    let engine = DataFusionEngine::in_memory().unwrap();
    let options =
        Options { layout, trials, writes: Writes::Buffered, checkpoint_at: 100, ..Options::default() };
    let database = Database::open(Arc::new(engine), options).unwrap();
    let table = "CREATE TABLE lists (key bigint PRIMARY KEY, list text NOT NULL)";
    database.session().unwrap().execute(table).unwrap();
    let next_value = Arc::new(AtomicU64::new(1));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|process| {
            let client = Client {
                process,
                session: database.session().unwrap(),
                random: StdRng::seed_from_u64(seed * 1_000 + process as u64),
                next_value: Arc::clone(&next_value),
            };
            std::thread::spawn(move || client.run(transactions / CLIENTS))
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
    fn run(mut self, transactions: usize) -> Vec<Transaction> {
        (0..transactions).map(|_| self.transaction()).collect()
    }

    fn transaction(&mut self) -> Transaction {
        let mut operations = Vec::new();
        self.session.execute("BEGIN").unwrap();
        let outcome = self.read_and_append(&mut operations).and_then(|()| {
            std::thread::yield_now();
            self.session.execute("COMMIT").map(drop)
        });
        if let Err(error) = &outcome {
            // With a rule switched off, an append may find its row twice.
            let is_expected =
                matches!(error.state, SqlState::SerializationFailure | SqlState::UniqueViolation);
            assert!(is_expected, "{error}");
            self.session.execute("ROLLBACK").unwrap();
        }
        let ending = if outcome.is_ok() { Ending::Committed } else { Ending::Aborted };
        Transaction { process: self.process, operations, ending }
    }

    fn key(&mut self) -> u64 {
        let first = self.next_value.load(Ordering::Relaxed) / (KEYS * APPENDS_PER_KEY) * KEYS;
        first + self.random.random_range(0..KEYS)
    }

    fn read_and_append(&mut self, operations: &mut Vec<Operation>) -> Result<(), TiqueError> {
        for _ in 0..self.random.random_range(1..=4) {
            let key = self.key();
            if self.random.random() {
                self.read(key, operations)?;
            } else {
                let value = self.next_value.fetch_add(1, Ordering::Relaxed);
                operations.push(Operation::Append { key, value });
                self.session.execute(&format!(
                    "INSERT INTO lists VALUES ({key}, '{value}') \
                     ON CONFLICT (key) DO UPDATE SET list = lists.list || ',' || excluded.list"
                ))?;
            }
        }
        Ok(())
    }

    /// Reads the list of a key, in one formulation or the other.
    fn read(&mut self, key: u64, operations: &mut Vec<Operation>) -> Result<(), TiqueError> {
        let condition = if self.random.random() {
            format!("key = {key}")
        } else {
            format!("key BETWEEN {key} AND {key}")
        };
        let outcomes = self.session.execute(&format!("SELECT list FROM lists WHERE {condition}"))?;
        let rows = outcomes[0].rows.as_ref().expect("a query gives rows");
        let mut list = Vec::new();
        for batch in &rows.batches {
            for row in 0..batch.num_rows() {
                let text = arrow::util::display::array_value_to_string(batch.column(0), row).unwrap();
                list.extend(text.split(',').map(|value| value.parse::<u64>().expect("values are integers")));
            }
        }
        operations.push(Operation::Read { key, list });
        Ok(())
    }
}
