// SPDX-License-Identifier: Apache-2.0
//! Lists in TiQuE, on the engine that the environment names as in the sessions' tests.

use coeval_bench::histories::{self, History, Lists, Notes, Steps};
use coeval_tique::{Database, Options, Session, SqlState, TiqueError};
use rand::Rng;

#[path = "../../crates/coeval-tique/tests/sessions/engine.rs"]
mod engine;

/// The history of so many transactions of eight clients that begin like this, with checkpoints beside them.
pub(crate) fn record(begin: &'static str, options: Options, transactions: usize, seed: u64) -> History {
    let database = Database::open(engine::in_memory(), Options { checkpoint_at: 100, ..options }).unwrap();
    database.session().unwrap().execute(histories::TABLE).unwrap();
    let clients =
        (0..crate::CLIENTS).map(|_| Client { session: database.session().unwrap(), begin }).collect();
    let history = histories::record(clients, transactions, seed, &|| false);
    history.unwrap_or_else(|error| panic!("{error}"))
}

struct Client {
    session: Session,
    begin: &'static str,
}

impl Lists for Client {
    type Error = TiqueError;

    fn execute(&mut self, sql: &str) -> Result<(), TiqueError> {
        self.session.execute(sql).map(drop)
    }

    /// In one formulation or the other. There is one key.
    fn read(&mut self, key: u64, _: u64, steps: &mut Steps) -> Result<Vec<(u64, Vec<u64>)>, TiqueError> {
        let condition = if steps.random.random() {
            format!("key = {key}")
        } else {
            format!("key BETWEEN {key} AND {key}")
        };
        let outcomes = self.session.execute(&format!("SELECT list FROM lists WHERE {condition}"))?;
        let rows = outcomes[0].rows.as_ref().expect("a query gives rows");
        // All that is found belongs to the one list, so that rows which are there twice show in it.
        let mut list = Vec::new();
        for batch in &rows.batches {
            for row in 0..batch.num_rows() {
                let text = arrow::util::display::array_value_to_string(batch.column(0), row).unwrap();
                list.extend(histories::numbers(&text));
            }
        }
        Ok(vec![(key, list)])
    }

    fn transact(&mut self, notes: &mut Notes<'_>) -> Result<(), TiqueError> {
        self.execute(self.begin)?;
        notes.read_and_append(self)
    }

    /// With a rule switched off, an append may find its row twice.
    fn is_refusal(error: &TiqueError) -> bool {
        matches!(error.state, SqlState::SerializationFailure | SqlState::UniqueViolation)
    }
}
