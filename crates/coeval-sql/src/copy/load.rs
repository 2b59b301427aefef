// SPDX-License-Identifier: Apache-2.0
//! Batches into a table: missing columns get their defaults, then the store takes the rows.
//!
//! Rows that come in the order of their key into a table without other indexes go into it in groups: what COPY holds
//! of them is bounded, and each group becomes chunks as if there were no others. All other rows are kept and go into
//! the table together, because only then they are sorted as a whole; `coeval.copy_memory` bounds them, and like all that
//! sessions keep they are in the memory budget.

use super::options::CopyOptions;
use super::rejected::{RejectedRow, RejectedRows, Rejections};
use crate::cancel;
use crate::context::StatementContext;
use crate::error::of_rejection;
use crate::error::{SqlError, SqlState};
use crate::memory::Kept;
use crate::spread::{self, Loaded};
use crate::types::assign_array;
use crate::values::default_column;
use crate::writing::Writing;
use arrow::array::{ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef, UInt64Type};
use coeval_store::{LoadError, Rejection, StoreError, TableDef};
use std::sync::Arc;

/// Bytes of rows that go into a table together, if they can in groups.
const GROUP_BYTES: usize = 64 << 20;

/// The same for brick tables, which make no chunks of them: so little that memory is used again and stays in the caches,
/// and so much that each brick gets some rows.
const BRICK_GROUP_BYTES: usize = 8 << 20;

/// Bytes of a record that has not come whole which are in no budget.
const PENDING_FREE: usize = 4 << 20;

/// What the budget is asked for.
const KEPT: &str = "the rows of a COPY";

/// Rows of a COPY on their way into their table. Every constraint is enforced.
pub(super) struct Loading {
    def: Arc<TableDef>,
    /// The columns of the table that the rows have, in this order.
    columns: Vec<usize>,
    order: Order,
    /// Rows as they came.
    batches: Vec<RecordBatch>,
    /// Rows with every column, which came before those.
    complete: Vec<RecordBatch>,
    /// What all of them take.
    bytes: usize,
    bytes_max: usize,
    /// They and [`pending`](Self::note_pending) bytes in the memory budget.
    kept: Kept,
    pending: usize,
    /// Rows that are in the table.
    appended: u64,
    rejected: RejectedRows,
}

/// Whether rows come in the order of their key, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// They may.
    Ascending,
    /// They do not, or it does not matter.
    Any,
}

/// What became of a group of rows.
pub(crate) enum Group {
    /// It is in the table, as part of the transaction: so many rows, without those that were rejected.
    Appended(u64, Rejections),
    /// It was not in order. The rows, with every column.
    Kept(Vec<RecordBatch>),
}

impl Loading {
    /// No rows yet, for these columns of the table, of which no more than so many bytes are kept.
    pub(super) fn new(
        def: Arc<TableDef>,
        columns: Vec<usize>,
        bytes_max: usize,
        options: &CopyOptions,
        kept: Kept,
    ) -> Self {
        // A row may refer to one of a later group.
        let refers_to_itself = def.foreign_keys.iter().any(|key| key.parent == def.id);
        let takes_groups = def.indexes.is_empty() && !refers_to_itself;
        let order = if takes_groups { Order::Ascending } else { Order::Any };
        let (batches, complete) = (Vec::new(), Vec::new());
        let rejected = RejectedRows::new(&def.name.name, options.rejected_max.unwrap_or(0));
        Self {
            def,
            columns,
            order,
            batches,
            complete,
            bytes: 0,
            bytes_max,
            kept,
            pending: 0,
            appended: 0,
            rejected,
        }
    }

    /// The table.
    pub(super) fn def(&self) -> &TableDef {
        &self.def
    }

    /// How many columns the rows have.
    pub(super) fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Takes rows.
    ///
    /// # Errors
    /// `53200` if they are too many to be kept, or there is no memory for them.
    pub(super) fn push(&mut self, batches: Vec<RecordBatch>) -> Result<(), SqlError> {
        let bytes = batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        self.kept.keep_more(bytes, KEPT)?;
        self.bytes += bytes;
        self.batches.extend(batches);
        if self.order == Order::Any && self.bytes > self.bytes_max {
            let message =
                format!("COPY to \"{}\" keeps more rows than coeval.copy_memory allows", self.def.name);
            return Err(SqlError::new(SqlState::OutOfMemory, message)
                .with_detail(
                    "Rows are kept until the end if they do not come in the order of their primary key, \
                     or if the table has other indexes.",
                )
                .with_hint(
                    "Make indexes after the load, sort the rows, load fewer at a time, or raise the setting.",
                ));
        }
        Ok(())
    }

    /// Notes how much has come of a record whose end has not.
    ///
    /// # Errors
    /// `53200` if there is no memory for it.
    pub(super) fn note_pending(&mut self, bytes: usize) -> Result<(), SqlError> {
        let counted = bytes.saturating_sub(PENDING_FREE);
        self.kept.keep_more(counted.saturating_sub(self.pending), KEPT)?;
        self.kept.keep_less(self.pending.saturating_sub(counted));
        self.pending = counted;
        Ok(())
    }

    /// Takes rows that are left out.
    ///
    /// # Errors
    /// The first one's, if they are more than may be.
    pub(super) fn reject(&mut self, rows: Rejections) -> Result<(), SqlError> {
        self.rejected.take(rows)
    }

    /// Whether there are enough rows for a [group](Self::append_group).
    pub(super) fn is_group(&self) -> bool {
        let enough = if self.def.bricks.is_some() { BRICK_GROUP_BYTES } else { GROUP_BYTES };
        self.order == Order::Ascending && self.bytes >= enough
    }

    /// Puts the rows so far into the table, if they come in order.
    ///
    /// # Errors
    /// `55000` if the table is not what it was when the COPY began; what defaults and constraints answer. No row is
    /// added then, once the caller rolls back to where the statement began.
    pub(super) fn append_group(&self, context: &mut StatementContext<'_>) -> Result<Group, SqlError> {
        let complete = self.completed(context)?;
        if self.def.bricks.is_some() {
            let (rows, rejected) = self.append_to_bricks(context, &complete)?;
            return Ok(Group::Appended(rows, rejected));
        }
        if context.transaction.bulk_append(self.def.id, &complete)? {
            Ok(Group::Appended(rows_of(&complete), Rejections::default()))
        } else {
            Ok(Group::Kept(complete))
        }
    }

    /// Notes what became of the rows so far.
    ///
    /// # Errors
    /// If more rows were rejected than may be.
    pub(super) fn note_group(&mut self, group: Group) -> Result<(), SqlError> {
        self.batches.clear();
        match group {
            Group::Appended(rows, rejected) => {
                self.appended += rows;
                self.kept.keep_less(std::mem::take(&mut self.bytes));
                self.rejected.take(rejected)?;
            }
            Group::Kept(complete) => {
                self.complete = complete;
                self.order = Order::Any;
            }
        }
        Ok(())
    }

    /// Puts what is left into the table; how many rows there were in all.
    ///
    /// # Errors
    /// As [`append_group`](Self::append_group).
    pub(super) fn append_rest(&self, context: &mut StatementContext<'_>) -> Result<u64, SqlError> {
        let complete = self.completed(context)?;
        if self.def.bricks.is_some() {
            let (rows, rejected) = self.append_to_bricks(context, &complete)?;
            let mut all = self.rejected.clone();
            all.take(rejected)?;
            all.report(context, self.appended + rows);
            return Ok(self.appended + rows);
        }
        // Sorted, and as chunks, they are there twice.
        self.kept.keep_more(self.bytes, KEPT)?;
        let writing = Writing::begin_load(&self.def, rows_of(&complete));
        let transaction = &mut *context.transaction;
        Ok(self.appended + transaction.bulk_insert_counted(self.def.id, &complete, writing.counter())?)
    }

    /// Appends these rows, which are `batches` with every column, to a brick table; how many, and those that are none
    /// of it.
    fn append_to_bricks(
        &self,
        context: &mut StatementContext<'_>,
        complete: &[RecordBatch],
    ) -> Result<(u64, Rejections), SqlError> {
        let live: Vec<usize> = self.def.live_columns().map(|(index, _)| index).collect();
        let live = complete.iter().map(|batch| batch.project(&live)).collect::<Result<Vec<_>, _>>()?;
        if self.def.is_spread() {
            return match spread::load(context, &self.def, &live, self.rejected.left())? {
                Loaded::Rows(appended) => Ok((appended.rows, self.rejected_rows(&appended.rejected))),
                Loaded::TooManyRejected(rejected) => {
                    Err(self.rejected.too_many(&self.rejected_rows(&rejected)))
                }
            };
        }
        match context.transaction.append_all(self.def.id, &live, self.rejected.left()) {
            Ok(appended) => Ok((appended.rows, self.rejected_rows(&appended.rejected))),
            Err(StoreError::BrickLoad(LoadError::TooManyRejected { rejected, .. })) => {
                Err(self.rejected.too_many(&self.rejected_rows(&rejected)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn rejected_rows(&self, rejected: &[Rejection]) -> Rejections {
        let mut in_order: Vec<&Rejection> = rejected.iter().collect();
        in_order.sort_unstable_by_key(|rejection| rejection.row);
        let row = |rejection: &Rejection| {
            RejectedRow::new(self.line_of(rejection.row), of_rejection(&rejection.reason))
        };
        Rejections::of(in_order.into_iter().map(row), rejected.len())
    }

    /// The line of a row of `batches`. A format without lines has none: then it is the row, from 1.
    fn line_of(&self, mut row: usize) -> u64 {
        let mut before = self.appended;
        for batch in &self.batches {
            if row < batch.num_rows() {
                let lines = batch.columns().get(self.columns.len());
                return lines
                    .map_or(before + row as u64 + 1, |lines| lines.as_primitive::<UInt64Type>().value(row));
            }
            row -= batch.num_rows();
            before += batch.num_rows() as u64;
        }
        before + row as u64 + 1
    }

    /// The rows that are kept, with every column.
    fn completed(&self, context: &mut StatementContext<'_>) -> Result<Vec<RecordBatch>, SqlError> {
        let now = context.transaction.resolve_table(&self.def.name);
        if !now.is_some_and(|now| Arc::ptr_eq(&now, &self.def) || *now == *self.def) {
            let message = format!("relation \"{}\" was changed during COPY", self.def.name.name);
            return Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message));
        }
        let mut complete = self.complete.clone();
        complete.extend(complete_batches(context, &self.def, &self.columns, &self.batches)?);
        Ok(complete)
    }
}

fn rows_of(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// Appends the batches, whose columns are these columns of the table, in this order. Returns how many rows.
/// Every constraint is enforced.
///
/// # Errors
/// What casting the values to the columns' types, defaults and constraints answer; no row is added then,
/// once the caller rolls back to where the statement began.
pub(crate) fn append(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    columns: &[usize],
    batches: &[RecordBatch],
) -> Result<u64, SqlError> {
    let complete = complete_batches(context, def, columns, batches)?;
    if def.is_spread() {
        return spread::load_whole(context, def, &complete);
    }
    let writing = Writing::begin_load(def, rows_of(&complete));
    Ok(context.transaction.bulk_insert_counted(def.id, &complete, writing.counter())?)
}

/// The batches with every column of the table.
fn complete_batches(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    columns: &[usize],
    batches: &[RecordBatch],
) -> Result<Vec<RecordBatch>, SqlError> {
    let fields: Vec<Field> =
        def.columns.iter().map(|column| Field::new(&column.name, column.ty.arrow(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let complete = batches.iter().map(|batch| {
        cancel::check()?;
        complete_batch(context, def, columns, batch, &schema)
    });
    complete.collect()
}

/// The batch with every column of the table.
fn complete_batch(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    columns: &[usize],
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> Result<RecordBatch, SqlError> {
    let zone = context.settings.zone();
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(def.columns.len());
    for (index, column) in def.columns.iter().enumerate() {
        let given = columns.iter().position(|&given| given == index);
        arrays.push(match given {
            Some(place) => {
                let assigned = assign_array(batch.column(place), column.ty, zone);
                assigned.map_err(|error| name_column(error, &column.name))?
            }
            None if column.is_dropped() => new_null_array(&column.ty.arrow(), batch.num_rows()),
            None => default_column(context, column, batch.num_rows())?,
        });
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), arrays)?)
}

fn name_column(error: SqlError, column: &str) -> SqlError {
    if error.detail.is_some() { error } else { error.with_detail(format!("column \"{column}\"")) }
}
