// SPDX-License-Identifier: Apache-2.0
//! Clients that increment counters, each transaction until it commits.

use crate::error::BenchError;
use coeval_tique::{Database, Session, SqlState, TiqueError};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::{Duration, Instant};

/// What clients did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Transactions that committed.
    pub(super) transactions: u64,
    /// Increments that committed.
    pub(super) committed: u64,
    /// Runs that were refused.
    pub(super) refused: u64,
    /// The most that one transaction was refused.
    pub(super) refused_in_a_row: u64,
}

impl Counts {
    pub(super) fn refused_share(self) -> f64 {
        self.refused as f64 / (self.refused + self.transactions).max(1) as f64
    }

    pub(super) fn add(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.committed += other.committed;
        self.refused += other.refused;
        self.refused_in_a_row = self.refused_in_a_row.max(other.refused_in_a_row);
    }
}

fn is_refusal(error: &TiqueError) -> bool {
    error.state == SqlState::SerializationFailure
}

/// A transaction that reads counters, then increments others, one statement each, until it commits or the time is over.
pub(super) fn transact(
    session: &mut Session,
    reads: &[u64],
    keys: &[u64],
    is_over: &dyn Fn() -> bool,
    counts: &mut Counts,
) -> Result<(), BenchError> {
    let mut refused = 0;
    loop {
        let mut run = || {
            session.execute("BEGIN")?;
            for key in reads {
                session.execute(&format!("SELECT n FROM counters WHERE k = {key}"))?;
            }
            for key in keys {
                session.execute(&format!("UPDATE counters SET n = n + 1 WHERE k = {key}"))?;
            }
            session.execute("COMMIT").map(drop)
        };
        match run() {
            Ok(()) => {
                counts.transactions += 1;
                counts.committed += keys.len() as u64;
                return Ok(());
            }
            Err(error) if is_refusal(&error) => {
                refused += 1;
                counts.refused += 1;
                counts.refused_in_a_row = counts.refused_in_a_row.max(refused);
                if is_over() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A client that increments any of so many counters, one at a time, while it may.
fn client(
    database: &Database,
    rows: u64,
    seed: u64,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<Counts, BenchError> {
    let (mut session, mut random) = (database.session()?, SmallRng::seed_from_u64(seed));
    let mut counts = Counts::default();
    while !is_over() {
        transact(&mut session, &[], &[random.random_range(0..rows)], is_over, &mut counts)?;
    }
    Ok(counts)
}

/// Clients that increment any of so many counters for a while.
///
/// # Errors
/// What the engine says.
pub(super) fn increments(
    database: &Database,
    clients: usize,
    rows: u64,
    slice: Duration,
    seed: u64,
) -> Result<Counts, BenchError> {
    let began = Instant::now();
    let is_over = || began.elapsed() >= slice;
    let mut all = Counts::default();
    std::thread::scope(|scope| {
        let run = |number: usize| client(database, rows, seed + number as u64, &is_over);
        let threads: Vec<_> = (0..clients).map(|number| scope.spawn(move || run(number))).collect();
        for thread in threads {
            all.add(thread.join().expect("a client does not panic")?);
        }
        Ok(all)
    })
}

/// All counters together.
///
/// # Errors
/// What the engine says; an answer that is no number.
pub(super) fn sum(session: &mut Session) -> Result<u64, BenchError> {
    let outcomes = session.execute("SELECT CAST(sum(n) AS bigint) FROM counters")?;
    let rows = outcomes.first().and_then(|outcome| outcome.rows.as_ref());
    let batch = rows.and_then(|rows| rows.batches.iter().find(|batch| batch.num_rows() == 1));
    let number = batch
        .and_then(|batch| arrow::util::display::array_value_to_string(batch.column(0), 0).ok()?.parse().ok());
    number.ok_or_else(|| BenchError::Answer("the sum of the counters is no number".to_owned()))
}
