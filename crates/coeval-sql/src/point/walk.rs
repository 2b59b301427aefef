// SPDX-License-Identifier: Apache-2.0
//! Walks the rows that a statement's steps find: a loop inside a loop for each joined table.

use super::access::{Path, Step};
use super::key::Probe;
use crate::error::SqlError;
use crate::scalar::{Environment, Inputs, RowSource};
use coeval_store::{Key, RowRef, Transaction, Value, ValueRef};
use smallvec::SmallVec;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    /// Enough rows.
    Stop,
    /// More rows than the point path is for.
    Abandon,
}

/// The present row of each table, by its number in the scope.
pub(super) struct Frame<'t> {
    rows: SmallVec<[Option<(Key, RowRef<'t>)>; 2]>,
}

impl<'t> Frame<'t> {
    fn new(tables: usize) -> Self {
        Self { rows: SmallVec::from_elem(None, tables) }
    }

    /// Key and row of a table.
    ///
    /// # Panics
    /// If it has no present row: the walk gives it one first.
    #[inline]
    pub(super) fn row(&self, table: usize) -> &(Key, RowRef<'t>) {
        self.rows[table].as_ref().expect("a table is read only behind its step")
    }
}

impl RowSource for Frame<'_> {
    #[inline]
    fn value(&self, table: usize, column: usize) -> ValueRef<'_> {
        self.row(table).1.get(column)
    }
}

/// A walk over the rows of some steps.
pub(super) struct Walk<'t, 'e> {
    transaction: &'t Transaction,
    parameters: &'e [Value],
    environment: &'e dyn Environment,
    /// How many more rows may be visited.
    budget: usize,
}

/// What a walk does with the rows it finds.
pub(super) type Visit<'v, 't> = dyn FnMut(&Frame<'t>) -> Result<Flow, SqlError> + 'v;

impl<'t, 'e> Walk<'t, 'e> {
    pub(super) fn new(
        transaction: &'t Transaction,
        parameters: &'e [Value],
        environment: &'e dyn Environment,
        budget: usize,
    ) -> Self {
        Self { transaction, parameters, environment, budget }
    }

    /// Visits every combination of rows that satisfies the steps, in their order.
    pub(super) fn run(&mut self, steps: &[Step], visit: &mut Visit<'_, 't>) -> Result<Flow, SqlError> {
        self.enter(steps, &mut Frame::new(steps.len()), visit)
    }

    fn enter(
        &mut self,
        steps: &[Step],
        frame: &mut Frame<'t>,
        visit: &mut Visit<'_, 't>,
    ) -> Result<Flow, SqlError> {
        let Some((step, rest)) = steps.split_first() else { return visit(frame) };
        let access = &step.access;
        let id = access.table.id;
        let probes = access.probes(self.inputs(frame))?;
        for probe in probes {
            let flow = match (probe, access.path) {
                (Probe::Get(key), _) => match self.transaction.get(id, &key)? {
                    Some(row) => self.meet(step, rest, (key, row), frame, visit)?,
                    None => Flow::Continue,
                },
                (Probe::Scan(range), Path::Primary) => {
                    let mut flow = Flow::Continue;
                    for found in self.transaction.scan(id, &range, access.direction)? {
                        flow = self.meet(step, rest, found?, frame, visit)?;
                        if flow != Flow::Continue {
                            break;
                        }
                    }
                    flow
                }
                (Probe::Scan(range), Path::Index(place)) => {
                    let index = access.table.indexes[place].id;
                    let mut flow = Flow::Continue;
                    for entry in self.transaction.scan_index(id, index, &range, access.direction)? {
                        let entry = entry?;
                        let row = self
                            .transaction
                            .get(id, &entry.primary_key)?
                            .ok_or_else(|| SqlError::internal("an index entry has no row"))?;
                        flow = self.meet(step, rest, (entry.primary_key, row), frame, visit)?;
                        if flow != Flow::Continue {
                            break;
                        }
                    }
                    flow
                }
            };
            if flow != Flow::Continue {
                return Ok(flow);
            }
        }
        Ok(Flow::Continue)
    }

    #[inline]
    fn meet(
        &mut self,
        step: &Step,
        rest: &[Step],
        found: (Key, RowRef<'t>),
        frame: &mut Frame<'t>,
        visit: &mut Visit<'_, 't>,
    ) -> Result<Flow, SqlError> {
        if self.budget == 0 {
            return Ok(Flow::Abandon);
        }
        self.budget -= 1;
        frame.rows[step.table] = Some(found);
        for condition in &step.residual {
            if !condition.holds(self.inputs(frame))? {
                return Ok(Flow::Continue);
            }
        }
        self.enter(rest, frame, visit)
    }

    fn inputs<'i>(&'i self, frame: &'i Frame<'t>) -> Inputs<'i> {
        Inputs { rows: frame, parameters: self.parameters, environment: self.environment }
    }
}
