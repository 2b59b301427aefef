// SPDX-License-Identifier: Apache-2.0
//! Walks the rows that a statement's steps find: a loop inside a loop for each joined table.
//!
//! ```text
//! enter a step: for each of its keys, meet its row --residual holds--> pass it --filters and subqueries hold--> enter the next step
//!               none has passed the residual, and the join is an outer one: pass NULLs in its place
//! ```

use super::access::{Access, Join, NextColumn, Path, Step};
use super::aggregate::Groups;
use super::key::{Probe, Probes};
use super::subquery::{Given, Lookup, Wanted};
use crate::cancel;
use crate::error::SqlError;
use crate::scalar::{Environment, Inputs, RowSource};
use coeval_store::{Key, RowRef, Transaction, Value, ValueRef, allocated_here};
use smallvec::SmallVec;

/// A walk looks once in so many rows and keys whether the statement is to end: it takes a part of a millisecond for them.
const STEPS_BETWEEN_LOOKS: u32 = 64;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    /// Enough rows.
    Stop,
    /// More rows than the point path is for.
    Abandon,
}

/// The number of the table whose columns are the values of subqueries; no statement has so many tables.
pub(super) const VALUES: usize = 63;

/// What is kept of the rows of a walk, as results, groups or changes, has at most so many bytes; the general path has a budget for more.
const KEPT_BYTES_MAX: isize = 4 << 20;

/// The present row of each table, by its number; none of one that an outer join fills up.
pub(super) struct Frame<'t> {
    rows: SmallVec<[Option<(Key, RowRef<'t>)>; 2]>,
    /// The values of subqueries, by their numbers.
    values: Vec<Value>,
}

impl<'t> Frame<'t> {
    fn new(steps: &[Step]) -> Self {
        Self { rows: SmallVec::from_elem(None, numbers_end(steps)), values: Vec::new() }
    }

    /// Key and row of a table.
    ///
    /// # Panics
    /// If it has no present row: of tables that no outer join fills up the walk gives it one first.
    #[inline]
    pub(super) fn row(&self, table: usize) -> &(Key, RowRef<'t>) {
        self.rows[table].as_ref().expect("a table is read only behind its step")
    }

    /// Whether a table has had a row.
    fn has_rows(&self) -> bool {
        self.rows.iter().any(Option::is_some)
    }
}

impl RowSource for Frame<'_> {
    #[inline]
    fn value(&self, table: usize, column: usize) -> ValueRef<'_> {
        if table == VALUES {
            return self.values[column].borrow();
        }
        match &self.rows[table] {
            Some((_, row)) => row.get(column),
            None => ValueRef::Null,
        }
    }
}

/// A walk over the rows of some steps.
pub(super) struct Walk<'t, 'e> {
    transaction: &'t Transaction,
    parameters: &'e [Value],
    environment: &'e dyn Environment,
    /// How many more rows may be visited.
    budget: usize,
    /// Rows and keys so far.
    steps: u32,
    /// What this thread had allocated before; nothing if what is kept is counted by who keeps it.
    allocated_before: Option<isize>,
}

/// Whether a step has found a row that satisfies its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Nothing,
    Rows,
}

/// The number behind that of the last table, with those of subqueries.
fn numbers_end(steps: &[Step]) -> usize {
    let of_step = |step: &Step| {
        let of_keys = match &step.access.next {
            NextColumn::Found(found) => numbers_end(&found.steps),
            NextColumn::Free | NextColumn::List(_) | NextColumn::Range { .. } => 0,
        };
        let of_checks = step.checks.iter().map(|check| numbers_end(&check.steps));
        let of_lookups = step.lookups.iter().map(|lookup| numbers_end(&lookup.steps));
        of_checks.chain(of_lookups).fold((step.table + 1).max(of_keys), usize::max)
    };
    steps.iter().map(of_step).max().unwrap_or(0)
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
        let allocated_before = Some(allocated_here());
        Self { transaction, parameters, environment, budget, steps: 0, allocated_before }
    }

    /// The same walk, whose visitor asks the budget for what it keeps.
    pub(super) fn counted_elsewhere(self) -> Self {
        Self { allocated_before: None, ..self }
    }

    /// Visits every combination of rows that satisfies the steps, in their order.
    pub(super) fn run(&mut self, steps: &[Step], visit: &mut Visit<'_, 't>) -> Result<Flow, SqlError> {
        self.enter(steps, &mut Frame::new(steps), visit)
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
        let Some(probes) = self.probes(access, frame)? else { return Ok(Flow::Abandon) };
        if !self.may_look_up(probes.len(), frame) {
            return Ok(Flow::Abandon);
        }
        let mut met = Met::Nothing;
        for probe in probes {
            self.step()?;
            let flow = match (probe, access.path) {
                (Probe::Get(key), _) => match self.transaction.get(id, &key)? {
                    Some(row) => self.meet((step, rest), (key, row), frame, visit, &mut met)?,
                    None => Flow::Continue,
                },
                (Probe::Scan(range), Path::Primary) => {
                    let mut flow = Flow::Continue;
                    for found in self.transaction.scan(id, &range, access.direction)? {
                        flow = self.meet((step, rest), found?, frame, visit, &mut met)?;
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
                        let found = (entry.primary_key, row);
                        flow = self.meet((step, rest), found, frame, visit, &mut met)?;
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
        if step.join == Join::Outer && met == Met::Nothing {
            frame.rows[step.table] = None;
            return self.pass(step, rest, frame, visit);
        }
        Ok(Flow::Continue)
    }

    /// What to look up; `None` if finding that out takes more rows than may be visited.
    #[inline]
    fn probes(&mut self, access: &Access, frame: &mut Frame<'t>) -> Result<Option<Probes>, SqlError> {
        let NextColumn::Found(found) = &access.next else {
            return access.probes(self.inputs(frame)).map(Some);
        };
        let Some(prefix) = access.prefix(self.inputs(frame))? else { return Ok(Some(Probes::new())) };
        let (parameters, environment) = (self.parameters, self.environment);
        let mut keys = Vec::new();
        let flow = self.enter(&found.steps, frame, &mut |frame| {
            let inputs = Inputs { rows: frame, parameters, environment };
            keys.extend(access.member_key(&found.part, &prefix, inputs)?);
            Ok(Flow::Continue)
        })?;
        Ok((flow != Flow::Abandon).then(|| access.probes_of(keys)))
    }

    /// Whether so many keys may be looked up now. Within a loop over rows each of several keys counts like a row, found or not: the
    /// walk would be a long one that finds nothing otherwise.
    #[inline]
    fn may_look_up(&mut self, keys: usize, frame: &Frame<'t>) -> bool {
        if keys < 2 || !frame.has_rows() {
            return true;
        }
        let left = self.budget.checked_sub(keys);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }

    /// One more row or key, unless the statement is to end.
    ///
    /// # Errors
    /// That of the cancelled statement.
    #[inline]
    fn step(&mut self) -> Result<(), SqlError> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_BETWEEN_LOOKS) { cancel::check() } else { Ok(()) }
    }

    /// Whether more is kept of the rows so far than this path is for. What it reads of files is not counted: that is for everybody.
    #[inline]
    fn keeps_much(&self) -> bool {
        self.allocated_before.is_some_and(|before| allocated_here().wrapping_sub(before) > KEPT_BYTES_MAX)
    }

    #[inline]
    fn meet(
        &mut self,
        (step, rest): (&Step, &[Step]),
        found: (Key, RowRef<'t>),
        frame: &mut Frame<'t>,
        visit: &mut Visit<'_, 't>,
        met: &mut Met,
    ) -> Result<Flow, SqlError> {
        if self.budget == 0 || self.keeps_much() {
            return Ok(Flow::Abandon);
        }
        self.budget -= 1;
        self.step()?;
        frame.rows[step.table] = Some(found);
        for condition in &step.residual {
            if !condition.holds(self.inputs(frame))? {
                return Ok(Flow::Continue);
            }
        }
        *met = Met::Rows;
        self.pass(step, rest, frame, visit)
    }

    /// Goes on behind a step that has a row, or has none and is filled up. The values of subqueries are there when the rows are visited.
    #[inline]
    fn pass(
        &mut self,
        step: &Step,
        rest: &[Step],
        frame: &mut Frame<'t>,
        visit: &mut Visit<'_, 't>,
    ) -> Result<Flow, SqlError> {
        for condition in &step.filters {
            if !condition.holds(self.inputs(frame))? {
                return Ok(Flow::Continue);
            }
        }
        for check in &step.checks {
            let flow = self.enter(&check.steps, frame, &mut |_| Ok(Flow::Stop))?;
            if flow == Flow::Abandon {
                return Ok(flow);
            }
            if (flow == Flow::Stop) != (check.wanted == Wanted::Rows) {
                return Ok(Flow::Continue);
            }
        }
        if !step.lookups.is_empty() {
            let mut values = Vec::with_capacity(step.lookups.len());
            for lookup in &step.lookups {
                let Some(value) = self.value_of(lookup, frame)? else { return Ok(Flow::Abandon) };
                values.push(value);
            }
            frame.values = values;
        }
        self.enter(rest, frame, visit)
    }

    /// The value of a subquery for the present rows; `None` if finding it takes more rows than may be visited.
    ///
    /// # Errors
    /// `21000` for a second row of one that is to have one; what its expressions meet.
    fn value_of(&mut self, lookup: &Lookup, frame: &mut Frame<'t>) -> Result<Option<Value>, SqlError> {
        let (parameters, environment) = (self.parameters, self.environment);
        match &lookup.given {
            Given::Row(scalar) => {
                let mut value = None;
                let flow = self.enter(&lookup.steps, frame, &mut |frame| {
                    if value.is_some() {
                        return Err(SqlError::several_rows());
                    }
                    let inputs = Inputs { rows: frame, parameters, environment };
                    value = Some(scalar.eval(inputs)?.into_value());
                    Ok(Flow::Continue)
                })?;
                Ok((flow != Flow::Abandon).then(|| value.unwrap_or(Value::Null)))
            }
            Given::Rows(grouping, scalar) => {
                let mut groups = Groups::new(grouping);
                let flow = self.enter(&lookup.steps, frame, &mut |frame| {
                    groups.add(Inputs { rows: frame, parameters, environment })?;
                    Ok(Flow::Continue)
                })?;
                if flow == Flow::Abandon {
                    return Ok(None);
                }
                let row = groups.finish()?.pop().expect("all rows are one group, even if there are none");
                let value = scalar.eval(Inputs { rows: &row, parameters, environment })?.into_value();
                Ok(Some(value))
            }
        }
    }

    fn inputs<'i>(&'i self, frame: &'i Frame<'t>) -> Inputs<'i> {
        Inputs { rows: frame, parameters: self.parameters, environment: self.environment }
    }
}
