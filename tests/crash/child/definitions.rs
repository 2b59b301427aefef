// SPDX-License-Identifier: Apache-2.0
//! Definitions that come, change and go, with rows in the same transaction.
//!
//! Keys: `table/K` is `plain` or `altered`; `index` is `there`.

use crate::{Effect, Worker};
use coeval::{Database, Error};
use rand::Rng;

/// How many tables there may be.
const TABLES: usize = 4;

/// The life of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Plain,
    Altered,
}

/// Creates, alters and drops tables and an index.
pub(crate) fn work(mut worker: Worker, db: &Database) -> Result<(), Error> {
    let mut session = db.session();
    let mut states = [State::Absent; TABLES];
    for (number, state) in states.iter_mut().enumerate() {
        *state = match db.table(&format!("d{number}")) {
            Err(_) => State::Absent,
            Ok(table) if table.def().columns.len() == 2 => State::Plain,
            Ok(_) => State::Altered,
        };
    }
    let mut has_index = db.table("items")?.def().index("items_by_value").is_some();
    loop {
        let mut effect = Effect::default();
        if worker.dice.random_ratio(1, 5) {
            let sql = if has_index {
                effect.remove("index");
                "DROP INDEX items_by_value"
            } else {
                effect.put("index", "there");
                "CREATE INDEX items_by_value ON items (value, label)"
            };
            worker.run(&effect, || session.execute(sql).map(drop))?;
            has_index = !has_index;
            continue;
        }
        let number = worker.dice.random_range(0..TABLES);
        let key = format!("table/{number}");
        let (next, block) = match states[number] {
            State::Absent => {
                effect.put(&key, "plain");
                let create = format!("CREATE TABLE d{number} (id int PRIMARY KEY, a text)");
                let insert = format!("INSERT INTO d{number} VALUES (1, 'plain'), (2, 'plain'), (3, 'plain')");
                (State::Plain, vec![create, insert])
            }
            State::Plain => {
                effect.put(&key, "altered");
                let alter = format!("ALTER TABLE d{number} ADD COLUMN extra int DEFAULT 7");
                let index = format!("CREATE INDEX d{number}_a ON d{number} (a)");
                let update = format!("UPDATE d{number} SET a = 'altered'");
                (State::Altered, vec![alter, index, update])
            }
            State::Altered => {
                effect.remove(&key);
                (State::Absent, vec![format!("DROP TABLE d{number}")])
            }
        };
        worker.run_sql(&mut session, &effect, &block)?;
        states[number] = next;
    }
}
