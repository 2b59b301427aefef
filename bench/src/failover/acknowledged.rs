// SPDX-License-Identifier: Apache-2.0
//! Whether everything that was acknowledged is there, and nothing that was not.
//!
//! The witness knows of each of its numbers whether it was acknowledged. Of terminals it is counted: each New-Order leaves an
//! order, each Payment a row of `history`. What a terminal was about to commit when the primary was lost may be there or not.

use super::stage::Stage;
use super::witness;
use crate::error::BenchError;
use crate::system::Console;
use crate::tpcc::Kind;
use crate::wire::Server;

/// What leaves a row, and where.
const TRACES: [(Kind, &str); 2] = [(Kind::NewOrder, "orders"), (Kind::Payment, "history")];

/// What was there before the run.
pub(super) struct Before {
    rows: [u64; TRACES.len()],
}

impl Before {
    /// Counts it, and makes the table of the witness.
    ///
    /// # Errors
    /// If the server refuses.
    pub(super) fn count(console: &mut dyn Console) -> Result<Self, BenchError> {
        witness::prepare(console)?;
        Ok(Self { rows: rows(console)? })
    }

    /// Looks for all that was acknowledged: for each check its name, and how much is missing or too much. Nobody writes meanwhile;
    /// behind the loss of a primary, each of `terminals` may have had one commit of which nobody was told.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(super) fn compare(
        &self,
        stage: &Stage,
        losses: Losses,
        terminals: usize,
        when: &str,
        primary: &Server,
    ) -> Result<Vec<(String, u64)>, BenchError> {
        let console = &mut primary.connect()?;
        let unknown = match losses {
            Losses::None => 0,
            Losses::One => terminals as u64,
        };
        let mut found = Vec::new();
        for (((kind, table), before), now) in TRACES.iter().zip(self.rows).zip(rows(console)?) {
            let wanted = before + stage.committed_of(*kind);
            found.push((format!("{table}_{when}"), differing(now, wanted, unknown)));
        }
        let testimony = stage.testimony();
        let there = witness::known_numbers(console, &testimony.unknown)?;
        found.push((format!("numbers_of_the_witness_{when}"), there.abs_diff(testimony.acknowledged)));
        Ok(found)
    }
}

/// How often the primary was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Losses {
    None,
    One,
}

fn rows(console: &mut dyn Console) -> Result<[u64; TRACES.len()], BenchError> {
    let mut rows = [0; TRACES.len()];
    for ((_, table), rows) in TRACES.iter().zip(&mut rows) {
        *rows = console.query_number(&format!("SELECT count(*) FROM {table}"))?.unsigned_abs();
    }
    Ok(rows)
}

/// By how much there are fewer than wanted, or more than wanted and unknown ones together.
fn differing(now: u64, wanted: u64, unknown: u64) -> u64 {
    wanted.saturating_sub(now) + now.saturating_sub(wanted + unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_counts_and_so_does_what_is_too_much() {
        assert_eq!(differing(10, 10, 0), 0);
        assert_eq!(differing(9, 10, 4), 1);
        assert_eq!(differing(14, 10, 4), 0);
        assert_eq!(differing(15, 10, 4), 1);
    }
}
