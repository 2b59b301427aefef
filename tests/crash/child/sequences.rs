// SPDX-License-Identifier: Apache-2.0
//! Numbers of sequences: each is said once it was given, in transactions that commit and in those that do not, while
//! what the sequences count by changes.
//!
//! No number is given twice, whatever happens in between; nothing else is promised of them.

use crate::{Worker, say};
use coeval::{Database, Error, Session};
use rand::Rng;

/// Takes numbers.
pub(crate) fn work(mut worker: Worker, db: &Database) -> Result<(), Error> {
    let mut session = db.session();
    loop {
        match worker.dice.random_range(0..40) {
            0 => {
                let step = worker.dice.random_range(1..5);
                alter(&mut session, &format!("ALTER SEQUENCE numbers INCREMENT BY {step}"))?;
            }
            1 => {
                let ahead = worker.dice.random_range(1..3_000);
                session.query(&format!("SELECT setval('numbers', nextval('numbers') + {ahead})"))?;
            }
            2..8 => {
                session.execute("BEGIN")?;
                give(&mut session, "numbers", "SELECT nextval('numbers')")?;
                give(&mut session, "ids", "INSERT INTO numbered (note) VALUES ('gone') RETURNING id")?;
                session.execute("ROLLBACK")?;
            }
            8..20 => give(&mut session, "ids", "INSERT INTO numbered (note) VALUES ('there') RETURNING id")?,
            _ => give(&mut session, "numbers", "SELECT nextval('numbers')")?,
        }
    }
}

/// Runs a definition until nobody is in its way.
fn alter(session: &mut Session, sql: &str) -> Result<(), Error> {
    loop {
        match session.execute(sql) {
            Err(error) if error.is_conflict() => {}
            outcome => return outcome.map(drop),
        }
    }
}

fn give(session: &mut Session, sequence: &str, sql: &str) -> Result<(), Error> {
    for batch in session.query(sql)? {
        for row in 0..batch.num_rows() {
            let number = coeval::value_at(batch.column(0).as_ref(), row).as_i64();
            say(&format!("given {sequence} {}", number.expect("a sequence gives a number")));
        }
    }
    Ok(())
}
