// SPDX-License-Identifier: Apache-2.0
//! A stream of analytical queries, each in a transaction that is declared read-only.

use super::phase::Beside;
use crate::board::Board;
use crate::chbench::QUERIES;
use crate::engine::query;
use crate::error::BenchError;
use crate::histogram::Histogram;
use coeval::{Database, Session};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// What the streams did while the board measured.
#[derive(Clone, Default)]
pub(super) struct StreamFigures {
    pub(super) answered: u64,
    pub(super) answered_per_h: f64,
    /// Transactions of theirs that were refused.
    pub(super) aborts: u64,
    /// From BEGIN to the answer of a statement that needs a snapshot and little else.
    pub(super) first: Histogram,
    /// The queries.
    pub(super) latency: Histogram,
}

/// One stream.
pub(super) struct Analyst {
    session: Session,
    begin: &'static str,
}

impl Analyst {
    /// One that reads as `beside` says.
    pub(super) fn new(db: &Database, beside: Beside) -> Result<Self, BenchError> {
        let mut session = db.session();
        let begin = match beside {
            Beside::Ssi => {
                session.execute("SET coeval.read_only_snapshot = 'current'")?;
                "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"
            }
            Beside::Deferrable => "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
            Beside::Safe | Beside::Nobody | Beside::Burner => "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
        };
        Ok(Self { session, begin })
    }

    /// Asks one query after the other until the board says stop; `stream` says which is the first.
    pub(super) fn run(
        mut self,
        stream: usize,
        board: &Board,
        figures: &Mutex<StreamFigures>,
    ) -> Result<(), BenchError> {
        for place in (stream * 7..).map(|place| place % QUERIES.len()) {
            if board.is_stopped() {
                return Ok(());
            }
            match self.answer(place) {
                Ok((first, latency)) if board.is_measuring() => {
                    let mut figures = figures.lock();
                    figures.answered += 1;
                    figures.first.record_duration(first);
                    figures.latency.record_duration(latency);
                }
                Ok(_) => {}
                Err(error) if error.is_conflict() => {
                    // A COMMIT that was refused leaves no transaction behind; then this does nothing.
                    self.session.execute("ROLLBACK")?;
                    figures.lock().aborts += u64::from(board.is_measuring());
                }
                Err(error) => {
                    board.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, place: usize) -> Result<(Duration, Duration), BenchError> {
        let begun = Instant::now();
        self.session.execute(self.begin)?;
        self.session.query("SELECT r_name FROM region WHERE r_regionkey = 1")?;
        let first = begun.elapsed();
        let started = Instant::now();
        query(&mut self.session, QUERIES[place])?;
        let latency = started.elapsed();
        self.session.execute("COMMIT")?;
        Ok((first, latency))
    }
}
