// SPDX-License-Identifier: Apache-2.0
//! Lists in Coeval's own tables.

use crate::history::History;
use crate::recorder::{self, Lists, Notes, Steps};
use coeval_sql::{Engine, Session, SqlError};
use coeval_store::{Store, StoreOptions, Value, value_at};
use rand::Rng;

/// How a client begins its transactions: most of them, and one in three.
#[derive(Clone, Copy)]
pub(crate) struct Levels {
    pub(crate) writing: &'static str,
    pub(crate) reading: &'static str,
}

/// The history of so many transactions of eight clients.
pub(crate) fn record(levels: Levels, transactions: usize, seed: u64) -> History {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    engine.session().execute(recorder::TABLE).unwrap();
    recorder::record(|| Client { session: engine.session(), levels }, transactions, seed)
}

struct Client {
    session: Session,
    levels: Levels,
}

impl Lists for Client {
    type Error = SqlError;

    fn execute(&mut self, sql: &str) -> Result<(), SqlError> {
        self.session.execute(sql).map(drop)
    }

    fn read(&mut self, first: u64, last: u64, _: &mut Steps) -> Result<Vec<(u64, Vec<u64>)>, SqlError> {
        let sql = format!("SELECT key, list FROM lists WHERE key BETWEEN {first} AND {last}");
        let results = self.session.execute(&sql)?;
        let rows = results[0].rows.as_ref().expect("a query gives rows");
        let mut lists = Vec::new();
        for batch in &rows.batches {
            for row in 0..batch.num_rows() {
                let key = value_at(batch.column(0), row).as_i64().expect("keys are integers");
                let list = value_at(batch.column(1), row).to_owned();
                let Value::Text(list) = list else { panic!("a list is text") };
                lists.push((key as u64, recorder::numbers(&list)));
            }
        }
        Ok(lists)
    }

    fn transact(&mut self, notes: &mut Notes<'_>) -> Result<(), SqlError> {
        if notes.steps.random.random_ratio(1, 3) {
            self.execute(self.levels.reading)?;
            notes.read_many(self)
        } else {
            self.execute(self.levels.writing)?;
            notes.read_and_append(self)
        }
    }

    fn is_refusal(error: &SqlError) -> bool {
        matches!(error.state.code(), "40001" | "40P01")
    }
}
