// SPDX-License-Identifier: Apache-2.0
//! SELECT by key, run.

use super::Outcome;
use super::access::Step;
use super::aggregate::{Grouping, Groups};
use super::output::Rows;
use super::select_plan::{Nulls, SelectPlan, SortKey};
use super::walk::{Flow, Frame, Walk};
use crate::error::{SqlError, SqlState};
use crate::scalar::{Environment, Inputs, NoRows, Scalar, compare_values};
use coeval_store::{Direction, IfLocked, RowLock, Transaction, Value};
use std::cmp::Ordering;
use std::collections::HashSet;

/// How many rows a SELECT visits before it is left to DataFusion: about what planning one there costs.
pub(super) const ROWS_VISITED_MAX: usize = 10_000;

/// Whether a row is taken: not if it is to be skipped.
type Takes<'t> = dyn Fn(&Frame<'_>) -> bool + 't;

/// Which of the rows are returned.
#[derive(Clone, Copy, Debug)]
struct Window {
    skipped: usize,
    taken: usize,
}

/// A row that waits to be sorted.
struct Unsorted {
    keys: Vec<Value>,
    values: Vec<Value>,
    locks: Vec<RowLock>,
}

impl SelectPlan {
    /// Runs it; `None` if it meets more rows than this path is for.
    pub(super) fn run(
        &self,
        transaction: &mut Transaction,
        parameters: &[Value],
        environment: &dyn Environment,
    ) -> Result<Option<Outcome>, SqlError> {
        let window = self.window(parameters, environment)?;
        let mut skipped = HashSet::new();
        loop {
            let mut locks = Vec::new();
            let Some(rows) =
                self.found(transaction, parameters, environment, window, &skipped, &mut locks)?
            else {
                return Ok(None);
            };
            if !self.locked.is_empty() {
                let locked = transaction.lock_rows(&locks, self.if_locked)?;
                transaction.require_as_read(&locked)?;
                if !locked.skipped.is_empty() {
                    // Somebody was faster than the look at the row: there may be others to take in its place.
                    skipped.extend(locked.skipped.into_iter().map(|place| locks[place].clone()));
                    continue;
                }
            }
            return Ok(Some(Outcome { count: rows.len() as u64, rows: Some(rows) }));
        }
    }

    /// The rows that qualify, except those of which a row is skipped, and the locks to take.
    fn found(
        &self,
        transaction: &Transaction,
        parameters: &[Value],
        environment: &dyn Environment,
        window: Window,
        skipped: &HashSet<RowLock>,
        locks: &mut Vec<RowLock>,
    ) -> Result<Option<Rows>, SqlError> {
        let is_skipped = |lock: &RowLock| skipped.contains(lock) || transaction.is_locked_elsewhere(lock);
        let takes = |frame: &Frame<'_>| {
            self.if_locked != IfLocked::Skip || !self.locks_of(frame).iter().any(is_skipped)
        };
        let mut walk = Walk::new(transaction, parameters, environment, ROWS_VISITED_MAX);
        match &self.grouping {
            Some(grouping) => self.grouped(grouping, &mut walk, parameters, environment, window),
            None if self.sort.is_empty() => {
                self.streamed(&mut walk, parameters, environment, window, (&takes, locks))
            }
            None => self.sorted(&mut walk, parameters, environment, window, (&takes, locks)),
        }
    }

    fn window(&self, parameters: &[Value], environment: &dyn Environment) -> Result<Window, SqlError> {
        let inputs = Inputs { rows: &NoRows, parameters, environment };
        let number = |scalar: &Option<Scalar>, state: SqlState, name: &str| match scalar {
            None => Ok(None),
            Some(scalar) => match scalar.eval(inputs)?.value().as_i64() {
                None => Ok(None),
                Some(number) => usize::try_from(number)
                    .map(Some)
                    .map_err(|_| SqlError::new(state, format!("{name} must not be negative"))),
            },
        };
        let taken = number(&self.limit, SqlState::InvalidRowCountInLimitClause, "LIMIT")?;
        let skipped = number(&self.offset, SqlState::InvalidRowCountInResultOffsetClause, "OFFSET")?;
        Ok(Window { skipped: skipped.unwrap_or(0), taken: taken.unwrap_or(usize::MAX) })
    }

    /// The rows as they come.
    fn streamed(
        &self,
        walk: &mut Walk<'_, '_>,
        parameters: &[Value],
        environment: &dyn Environment,
        window: Window,
        (takes, locks): (&Takes<'_>, &mut Vec<RowLock>),
    ) -> Result<Option<Rows>, SqlError> {
        let mut rows = self.output.rows();
        if window.taken == 0 {
            return Ok(Some(rows));
        }
        let mut skipped = 0;
        let flow = walk.run(&self.steps, &mut |frame| {
            if !takes(frame) {
                return Ok(Flow::Continue);
            }
            if skipped < window.skipped {
                skipped += 1;
                return Ok(Flow::Continue);
            }
            let inputs = Inputs { rows: frame, parameters, environment };
            self.output.push_row(inputs, &mut rows)?;
            locks.extend(self.locks_of(frame));
            Ok(if rows.len() == window.taken { Flow::Stop } else { Flow::Continue })
        })?;
        Ok((flow != Flow::Abandon).then_some(rows))
    }

    /// All rows, sorted, and then those that are returned.
    fn sorted(
        &self,
        walk: &mut Walk<'_, '_>,
        parameters: &[Value],
        environment: &dyn Environment,
        window: Window,
        (takes, locks): (&Takes<'_>, &mut Vec<RowLock>),
    ) -> Result<Option<Rows>, SqlError> {
        let mut unsorted = Vec::new();
        let flow = walk.run(&self.steps, &mut |frame| {
            if !takes(frame) {
                return Ok(Flow::Continue);
            }
            let inputs = Inputs { rows: frame, parameters, environment };
            unsorted.push(self.unsorted(inputs, self.locks_of(frame))?);
            Ok(Flow::Continue)
        })?;
        if flow == Flow::Abandon {
            return Ok(None);
        }
        self.take(unsorted, window, locks).map(Some)
    }

    /// The groups of all rows.
    fn grouped(
        &self,
        grouping: &Grouping,
        walk: &mut Walk<'_, '_>,
        parameters: &[Value],
        environment: &dyn Environment,
        window: Window,
    ) -> Result<Option<Rows>, SqlError> {
        let mut groups = Groups::new(grouping);
        let flow = walk.run(&self.steps, &mut |frame| {
            groups.add(Inputs { rows: frame, parameters, environment })?;
            Ok(if self.first_decides { Flow::Stop } else { Flow::Continue })
        })?;
        if flow == Flow::Abandon {
            return Ok(None);
        }
        let mut unsorted = Vec::new();
        for row in groups.finish()? {
            let inputs = Inputs { rows: &row, parameters, environment };
            if let Some(having) = &grouping.having
                && !having.holds(inputs)?
            {
                continue;
            }
            unsorted.push(self.unsorted(inputs, Vec::new())?);
        }
        self.take(unsorted, window, &mut Vec::new()).map(Some)
    }

    fn unsorted(&self, inputs: Inputs<'_>, locks: Vec<RowLock>) -> Result<Unsorted, SqlError> {
        let value = |scalar: &Scalar| Ok::<_, SqlError>(scalar.eval(inputs)?.into_value());
        let keys = self.sort.iter().map(|key| value(&key.scalar)).collect::<Result<_, _>>()?;
        let values = self.output.columns.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Unsorted { keys, values, locks })
    }

    fn take(
        &self,
        mut unsorted: Vec<Unsorted>,
        window: Window,
        locks: &mut Vec<RowLock>,
    ) -> Result<Rows, SqlError> {
        if !self.sort.is_empty() {
            unsorted.sort_by(|a, b| compare_keys(&self.sort, &a.keys, &b.keys));
        }
        let mut rows = self.output.rows();
        for row in unsorted.into_iter().skip(window.skipped).take(window.taken) {
            locks.extend(row.locks);
            rows.push(row.values.into_iter().map(Ok))?;
        }
        Ok(rows)
    }

    fn locks_of(&self, frame: &Frame<'_>) -> Vec<RowLock> {
        let lock = |step: &Step| {
            let (_, strength) = self.locked.iter().find(|(table, _)| *table == step.table)?;
            let key = frame.row(step.table).0.clone();
            Some(RowLock { table: step.access.table.id, key, strength: *strength })
        };
        if self.locked.is_empty() { Vec::new() } else { self.steps.iter().filter_map(lock).collect() }
    }
}

fn compare_keys(sort: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    for ((key, a), b) in sort.iter().zip(a).zip(b) {
        let (a, b) = (a.borrow(), b.borrow());
        let ordering = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls == Nulls::First => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls == Nulls::First => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => match key.direction {
                Direction::Forward => compare_values(a, b),
                Direction::Backward => compare_values(b, a),
            },
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}
