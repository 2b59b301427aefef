// SPDX-License-Identifier: Apache-2.0
//! Cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! A cursor's rows are collected when it is declared, so every cursor can scroll, and one that is held outlives
//! its transaction as it was. Clients that want rows as they come use a portal with a row limit instead.

use super::block::End;
use super::cursor_statements::{Declare, Direction, Fetch, Hold, OnlyMoves, Scroll};
use super::prepared::run_unplanned;
use super::query_statements::is_query_statement;
use super::utility::Utility;
use super::{Session, State};
use crate::cancel;
use crate::error::{SqlError, SqlState};
use crate::memory::{QueryEnvironment, bytes_of_rows};
use crate::open_objects::{CurrentRow, ListObjects, ListedCursor, OpenCursors};
use crate::result::{CommandTag, RowSet, StatementResult};
use arrow::array::{RecordBatch, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use coeval_store::{ColumnType, Value};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The rows that a movement gives: those of these numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Passed {
    numbers: Range<u64>,
    order: Order,
}

/// In which order a movement gives rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Forward,
    Backward,
}

impl Passed {
    /// How many they are.
    fn count(&self) -> u64 {
        self.numbers.end.saturating_sub(self.numbers.start)
    }
}

/// An open cursor.
#[derive(Debug)]
pub(super) struct Cursor {
    /// Their memory is reserved, for what FETCH gives of them as well.
    pub(super) rows: RowSet,
    /// For each batch the number of rows before it.
    starts: Vec<u64>,
    /// The number of the row at hand; 0 before the first, one more than there are behind the last.
    position: u64,
    hold: Hold,
    scroll: Scroll,
    /// The query.
    sql: String,
    /// When it was declared, in microseconds since 1970-01-01 UTC.
    since_micros: i64,
    /// Whether the transaction that declared it is still open.
    is_new: bool,
}

impl Cursor {
    fn listed(&self, name: &str) -> ListedCursor {
        ListedCursor {
            name: name.to_owned(),
            sql: self.sql.clone(),
            is_holdable: self.hold == Hold::Session,
            is_scrollable: self.scroll == Scroll::Yes,
            since_micros: self.since_micros,
        }
    }

    /// Refuses to go back if NO SCROLL was said.
    fn refuse_backward(&self, direction: Direction) -> Result<(), SqlError> {
        let goes_back = match direction {
            Direction::By(steps) | Direction::Relative(steps) => steps < 0,
            Direction::ForwardAll => false,
            Direction::BackwardAll => true,
            Direction::To(row) => row < 0 || row.unsigned_abs() < self.position,
        };
        if goes_back && self.scroll == Scroll::No {
            let message = "cursor can only scan forward";
            return Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
                .with_hint("Declare it with SCROLL option to enable backward scan."));
        }
        Ok(())
    }

    /// Which rows a movement gives; the cursor is then where it ends.
    fn go(&mut self, direction: Direction) -> Passed {
        let count = self.rows.rows() as u64;
        let at = self.position;
        let ahead = |steps: u64| at.saturating_add(steps).min(count + 1);
        let one = |row: u64| if (1..=count).contains(&row) { row..row + 1 } else { 0..0 };
        let (numbers, position) = match direction {
            Direction::By(0) => (one(at), at),
            Direction::By(steps) if steps > 0 => {
                let end = ahead(steps.unsigned_abs());
                (at + 1..end.min(count) + 1, end)
            }
            Direction::By(steps) => {
                let end = at.saturating_sub(steps.unsigned_abs());
                (end.max(1)..at, end)
            }
            Direction::ForwardAll => (at + 1..count + 1, count + 1),
            Direction::BackwardAll => (1..at, 0),
            Direction::To(row) => {
                let target = match row {
                    row if row >= 0 => row.unsigned_abs().min(count + 1),
                    row => (count + 1).saturating_sub(row.unsigned_abs()),
                };
                (one(target), target)
            }
            Direction::Relative(steps) => {
                let target = if steps >= 0 {
                    ahead(steps.unsigned_abs())
                } else {
                    at.saturating_sub(steps.unsigned_abs())
                };
                (one(target), target)
            }
        };
        self.position = position;
        let order = match direction {
            Direction::BackwardAll | Direction::By(..0) => Order::Backward,
            _ => Order::Forward,
        };
        Passed { numbers, order }
    }

    /// These rows. Forward they are parts of the cursor's own batches, in its memory; backward they are copies, whose
    /// memory is reserved before they are made. Costs the same however many others there are.
    ///
    /// # Errors
    /// `53200` if there is no memory for copies; that of a statement that was cancelled.
    fn pick(&self, passed: &Passed, memory: &QueryEnvironment) -> Result<RowSet, SqlError> {
        let schema = self.rows.schema.clone();
        let Some(first) = self.rows.batches.first() else { return Ok(self.rows.clone()) };
        let parts = self.parts(&passed.numbers);
        if parts.is_empty() {
            return Ok(RowSet::new(schema, vec![first.slice(0, 0)]));
        }
        // Rows without columns are all the same.
        if passed.order == Order::Forward || first.num_columns() == 0 {
            return Ok(self.rows.remade(schema, parts));
        }
        let bytes = parts.iter().map(bytes_of_rows).sum::<Result<usize, _>>()?;
        let reserved = memory.reserve(bytes, "the rows of a FETCH")?;
        let mut turned = Vec::with_capacity(parts.len());
        for part in parts.iter().rev() {
            cancel::check()?;
            turned.push(backward(part)?);
        }
        Ok(RowSet::reserved(schema, turned, Arc::new(reserved)))
    }

    /// The rows of these numbers, as parts of batches.
    fn parts(&self, numbers: &Range<u64>) -> Vec<RecordBatch> {
        if numbers.is_empty() {
            return Vec::new();
        }
        let first = self.starts.partition_point(|start| *start < numbers.start) - 1;
        let mut parts = Vec::new();
        for (batch, &start) in self.rows.batches.iter().zip(&self.starts).skip(first) {
            if start + 1 >= numbers.end {
                break;
            }
            let from = numbers.start.saturating_sub(start + 1);
            let to = (numbers.end - start - 1).min(batch.num_rows() as u64);
            if from < to {
                parts.push(batch.slice(from as usize, (to - from) as usize));
            }
        }
        parts
    }
}

/// The rows of a batch from the last one to the first.
fn backward(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let places = UInt64Array::from_iter_values((0..batch.num_rows() as u64).rev());
    take_record_batch(batch, &places)
}

/// For each batch the number of rows before it.
fn starts(batches: &[RecordBatch]) -> Vec<u64> {
    let mut before = 0;
    let start = |batch: &RecordBatch| {
        let start = before;
        before += batch.num_rows() as u64;
        start
    };
    batches.iter().map(start).collect()
}

/// What a cursor takes beside its rows.
fn text_bytes(name: &str, sql: &str) -> usize {
    name.len() + sql.len()
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::InvalidCursorName, format!("cursor \"{name}\" does not exist"))
}

impl ListObjects<ListedCursor> for HashMap<String, Cursor> {
    fn listed(&self) -> Vec<ListedCursor> {
        let mut all: Vec<_> = self.iter().map(|(name, cursor)| cursor.listed(name)).collect();
        all.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        all
    }
}

impl OpenCursors for HashMap<String, Cursor> {
    fn current_row(&self, name: &str) -> Option<CurrentRow> {
        let cursor = self.get(name)?;
        let at = cursor.position;
        let is_at_row = at > 0 && !cursor.rows.batches.is_empty();
        let row = if is_at_row { cursor.parts(&(at..at + 1)).pop() } else { None };
        Some(CurrentRow { sql: cursor.sql.clone(), row })
    }
}

impl Session {
    /// Runs the query with these parameters, and keeps its rows.
    pub(super) fn declare(
        &mut self,
        declare: &Declare,
        parameters: &[Value],
        parameter_types: &[ColumnType],
    ) -> Result<StatementResult, SqlError> {
        if matches!(self.state, State::Idle) && declare.hold == Hold::Transaction {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NoActiveSqlTransaction, message));
        }
        if self.cursors.contains_key(&declare.name) {
            let message = format!("cursor \"{}\" already exists", declare.name);
            return Err(SqlError::new(SqlState::DuplicateCursor, message));
        }
        self.cursors_open.take(1)?;
        let opened = self.open_cursor(declare, parameters, parameter_types);
        self.count_closed_cursors();
        opened.map(|()| StatementResult::plain("DECLARE CURSOR"))
    }

    /// Those that are not there any more, or never were, count no more.
    fn count_closed_cursors(&mut self) {
        self.cursors_open.give_back(self.cursors_open.amount() - self.cursors.len());
        let texts = self.cursors.iter().map(|(name, cursor)| text_bytes(name, &cursor.sql)).sum::<usize>();
        self.cursor_texts.give_back(self.cursor_texts.amount() - texts);
    }

    fn open_cursor(
        &mut self,
        declare: &Declare,
        parameters: &[Value],
        parameter_types: &[ColumnType],
    ) -> Result<(), SqlError> {
        let query = declare.query();
        if parameter_types.is_empty() {
            crate::parameters::refuse_parameters(&query)?;
        }
        let sql = query.to_string();
        self.cursor_texts.take(text_bytes(&declare.name, &sql))?;
        let result: StatementResult =
            self.in_transaction("", parameters, parameter_types, is_query_statement(&query), |context| {
                run_unplanned(context, &query)
            })?;
        let Some(rows) = result.rows else {
            return Err(SqlError::syntax("a cursor is declared for a query"));
        };
        let rows = if rows.is_reserved() {
            rows
        } else {
            let bytes = rows.batches.iter().map(bytes_of_rows).sum::<Result<usize, _>>()?;
            let memory = self.engine.queries.reserve(bytes, "the rows of a cursor")?;
            RowSet::reserved(rows.schema, rows.batches, Arc::new(memory))
        };
        let is_new = !matches!(self.state, State::Idle);
        let cursor = Cursor {
            starts: starts(&rows.batches),
            rows,
            position: 0,
            hold: declare.hold,
            scroll: declare.scroll,
            sql,
            since_micros: chrono::Utc::now().timestamp_micros(),
            is_new,
        };
        self.cursors.insert(declare.name.clone(), cursor);
        Ok(())
    }

    pub(super) fn fetch(&mut self, fetch: &Fetch) -> Result<StatementResult, SqlError> {
        let cursor = self.cursors.get_mut(&fetch.name).ok_or_else(|| unknown(&fetch.name))?;
        cursor.refuse_backward(fetch.direction)?;
        let passed = cursor.go(fetch.direction);
        let count = passed.count();
        if fetch.only_moves == OnlyMoves::Yes {
            return Ok(StatementResult::tagged(CommandTag::Move(count)));
        }
        let rows = cursor.pick(&passed, &self.engine.queries)?;
        Ok(StatementResult { tag: CommandTag::Fetch(count), rows: Some(rows) })
    }

    /// The columns of the rows that a FETCH gives, if its cursor is open.
    pub(super) fn fetched_columns(&self, utility: &Utility) -> Option<SchemaRef> {
        match utility {
            Utility::Fetch(fetch) if fetch.only_moves == OnlyMoves::No => {
                self.cursors.get(&fetch.name).map(|cursor| cursor.rows.schema.clone())
            }
            _ => None,
        }
    }

    pub(super) fn close(&mut self, name: Option<&str>) -> Result<StatementResult, SqlError> {
        let Some(name) = name else {
            self.close_all_cursors();
            return Ok(StatementResult::plain("CLOSE CURSOR ALL"));
        };
        self.cursors.remove(name).ok_or_else(|| unknown(name))?;
        self.count_closed_cursors();
        Ok(StatementResult::plain("CLOSE CURSOR"))
    }

    /// The columns of the cursor of this name, if it is open.
    #[must_use]
    pub fn cursor_columns(&self, name: &str) -> Option<&SchemaRef> {
        self.cursors.get(name).map(|cursor| &cursor.rows.schema)
    }

    /// Closes the cursor of this name, if it is open.
    pub fn close_cursor(&mut self, name: &str) {
        self.cursors.remove(name);
        self.count_closed_cursors();
    }

    pub(super) fn close_all_cursors(&mut self) {
        self.cursors.clear();
        self.count_closed_cursors();
    }

    /// What the end of a transaction leaves open: held cursors, and of a transaction that failed only those that
    /// were there before it.
    pub(super) fn keep_held_cursors(&mut self, end: End) {
        self.cursors.retain(|_, cursor| {
            let keep = cursor.hold == Hold::Session && (end == End::Commit || !cursor.is_new);
            cursor.is_new = false;
            keep
        });
        self.count_closed_cursors();
    }
}

#[cfg(test)]
mod tests;
