// SPDX-License-Identifier: Apache-2.0
//! What UPDATE and DELETE have in common: which rows a walk is to change, how far it may go for them, and where it runs.

use super::access::{NextColumn, Step};
use super::select::ROWS_VISITED_MAX;
use crate::error::SqlError;
use crate::hand_over::aside;
use crate::scalar::{Refusal, Scalar};
use crate::writing::Writing;
use coeval_store::Key;
use std::collections::HashSet;

/// The rows that are changed: each once, as the first combination of rows says that it is in.
pub(super) enum Targets {
    /// The walk meets each of them once.
    Each,
    /// It may meet them with several rows of other tables.
    Once(HashSet<Key>),
}

impl Targets {
    /// Those of a walk.
    pub(super) fn of(steps: &[Step]) -> Self {
        if steps.len() > 1 { Self::Once(HashSet::new()) } else { Self::Each }
    }

    /// Whether the row with this key is to be changed now.
    pub(super) fn take(&mut self, key: &Key) -> bool {
        match self {
            Self::Each => true,
            Self::Once(seen) => seen.insert(key.clone()),
        }
    }
}

/// Rows that a change visits and writes before anybody who waits for its thread would notice.
const BRIEF_ROWS_MAX: usize = 1_000;

/// How far a change goes for its rows, and where.
#[derive(Debug)]
pub(super) struct Reach {
    visited_max: usize,
    finding: Finding,
}

/// Whether rows may be found twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Repeatable,
    /// What is computed of them, such as numbers of a sequence, would not be the same.
    Once,
}

impl Reach {
    /// That of a walk that computes this of the rows it finds. Refuses numbers of sequences where it may be left to the general path after
    /// all: each row would take one twice.
    pub(super) fn of<'s>(
        steps: &[Step],
        computed: impl Iterator<Item = &'s Scalar>,
    ) -> Result<Self, Refusal> {
        let visited_max = rows_visited_max(steps);
        let mut finding = Finding::Repeatable;
        for scalar in computed {
            if visited_max == ROWS_VISITED_MAX && scalar.takes_numbers() {
                return Err(Refusal::unsupported("numbers of a sequence for joined rows"));
            }
            if scalar.is_volatile() {
                finding = Finding::Once;
            }
        }
        Ok(Self { visited_max, finding })
    }

    /// Runs a change by `run`, which is given how many rows its walk may visit, and has changed nothing if it gives `None` because it
    /// would visit more. A change of many rows runs where nobody else waits for its thread. `None` if there are more than the point path
    /// is for.
    ///
    /// # Errors
    /// Those of `run`.
    pub(super) fn run<T>(
        &self,
        mut run: impl FnMut(usize) -> Result<Option<T>, SqlError>,
    ) -> Result<Option<T>, SqlError> {
        let most = self.visited_max;
        if most <= BRIEF_ROWS_MAX {
            return run(most);
        }
        if self.finding == Finding::Repeatable
            && let Some(changed) = run(BRIEF_ROWS_MAX)?
        {
            return Ok(Some(changed));
        }
        aside(|| run(most))
    }
}

/// The rows of a change that are going to be written, for whoever waits for them or ends the statement; `None` of a single one, which is
/// written before that.
pub(super) fn begin_writing(rows: u64) -> Option<Writing> {
    (rows > 1).then(|| Writing::begin(rows))
}

/// How many rows a walk visits before the change is left to the general path. That does no better with the rows of one table by a key, but
/// it does with joins and subqueries of many rows.
fn rows_visited_max(steps: &[Step]) -> usize {
    let is_alone = |step: &Step| step.checks.is_empty() && !matches!(step.access.next, NextColumn::Found(_));
    match steps {
        [step] if is_alone(step) && step.access.is_single() && step.lookups.is_empty() => 1,
        [step] if is_alone(step) => usize::MAX,
        _ => ROWS_VISITED_MAX,
    }
}
