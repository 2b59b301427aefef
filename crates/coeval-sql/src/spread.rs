// SPDX-License-Identifier: Apache-2.0
//! Rows of tables that are spread over a cluster, as statements load and read them.
//!
//! What a transaction may do there, and why, is in `spread_part.rs`; which tables the node knows, in `engine/spread.rs`.

use crate::cluster::ClusterSnapshot;
use crate::context::StatementContext;
use crate::engine::{SpreadUse, brick_schema, spread_number};
use crate::error::{SqlError, of_rejection};
use crate::spread_part::{self, Planned};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{Field, Schema};
use coeval_store::{Appended, BrickSchema, Rejection, TableDef, bad_rows};
use std::sync::Arc;

/// What a load has come to.
pub(crate) enum Loaded {
    /// The good rows are part of it.
    Rows(Appended),
    /// More rows are bad than may be left out. Nothing of these batches is part of it.
    TooManyRejected(Vec<Rejection>),
}

/// What the statement sees of these tables, which are spread; `None` if there are none. What it reads of rows has been noted before.
///
/// # Errors
/// `55000` without a cluster; `0A000` where the transaction may not read; `57P03` if the node does not serve; `40001` if a
/// transaction on newer rows would find what the session has loaded or seen.
pub(crate) fn snapshot<'d>(
    context: &StatementContext<'_>,
    tables: impl IntoIterator<Item = &'d Arc<TableDef>>,
) -> Result<Option<Arc<dyn ClusterSnapshot>>, SqlError> {
    let mut cluster = None;
    for def in tables {
        cluster = Some(context.engine.cluster_of(def, SpreadUse::Read)?);
    }
    let planned = if context.parts.is_some() { Planned::InParts } else { Planned::AsAWhole };
    let taken = cluster.map(|cluster| {
        spread_part::snapshot(context.spread, context.engine, cluster, (&*context.transaction, planned))
    });
    taken.transpose()
}

/// Adds the rows of batches, whose columns are the table's live ones, to the transaction's load. Up to `rejected_max` bad rows are left out.
///
/// # Errors
/// `55000` without a cluster; what a transaction is that cannot load; what the cluster says of a row.
pub(crate) fn load(
    context: &StatementContext<'_>,
    def: &TableDef,
    batches: &[RecordBatch],
    rejected_max: usize,
) -> Result<Loaded, SqlError> {
    let cluster = context.engine.cluster_of(def, SpreadUse::Load)?;
    let schema = brick_schema(def)?;
    let rows = batches.iter().map(|batch| in_bricks(batch, &schema)).collect::<Result<Vec<_>, _>>()?;
    let rejected = bad_rows(&schema, &rows)?;
    if rejected.len() > rejected_max {
        return Ok(Loaded::TooManyRejected(rejected));
    }
    let rows = if rejected.is_empty() { rows } else { without(&rows, &rejected)? };
    let count = rows.iter().map(|batch| batch.num_rows() as u64).sum();
    let transaction = &*context.transaction;
    spread_part::append(context.spread, context.engine, cluster, transaction, (def.id, &rows[..]))?;
    Ok(Loaded::Rows(Appended { rows: count, rejected }))
}

/// As [`load`], of rows that are all good: how many there were.
///
/// # Errors
/// As [`load`], and that of the first bad row.
pub(crate) fn load_all(
    context: &StatementContext<'_>,
    def: &TableDef,
    batches: &[RecordBatch],
) -> Result<u64, SqlError> {
    match load(context, def, batches, 0)? {
        Loaded::Rows(appended) => Ok(appended.rows),
        Loaded::TooManyRejected(rejected) => Err(match rejected.first() {
            Some(first) => of_rejection(&first.reason),
            None => SqlError::internal("rows were rejected, and none is named"),
        }),
    }
}

/// As [`load_all`], of batches that have every column of the definition, dropped and hidden ones included.
///
/// # Errors
/// As [`load_all`].
pub(crate) fn load_whole(
    context: &StatementContext<'_>,
    def: &TableDef,
    batches: &[RecordBatch],
) -> Result<u64, SqlError> {
    let live: Vec<usize> = def.live_columns().map(|(index, _)| index).collect();
    let batches = batches.iter().map(|batch| batch.project(&live)).collect::<Result<Vec<_>, _>>()?;
    load_all(context, def, &batches)
}

/// Begins to delete from a table: what the delete sees, which is also what the statement reads from here on.
///
/// # Errors
/// `55000` without a cluster; `0A000` in a block, beside other changes, and on a node without the keeper of views.
pub(crate) fn begin_delete(
    context: &StatementContext<'_>,
    def: &TableDef,
) -> Result<Arc<dyn ClusterSnapshot>, SqlError> {
    let cluster = context.engine.cluster_of(def, SpreadUse::Read)?;
    spread_part::begin_delete(context.spread, context.engine, cluster, context.transaction)
}

/// The rows of a brick that a snapshot sees, with these columns of the definition; with some other one if it is none of them, so that rows are
/// counted.
///
/// # Errors
/// `57P03` if nobody who has the brick answers.
pub(crate) fn read_brick(
    context: &StatementContext<'_>,
    def: &TableDef,
    snapshot: &Arc<dyn ClusterSnapshot>,
    (brick, columns): (u64, &[usize]),
) -> Result<Vec<RecordBatch>, SqlError> {
    let live = def.live_columns().enumerate();
    let mut places: Vec<usize> =
        live.filter(|(_, (index, _))| columns.contains(index)).map(|(place, _)| place).collect();
    if places.is_empty() {
        places.push(0);
    }
    spread_part::wait(context.engine, snapshot.rows(spread_number(def.id), brick, places))
}

/// Deletes all rows of these tables in one transaction of the cluster.
///
/// # Errors
/// As [`begin_delete`].
pub(crate) fn truncate(context: &StatementContext<'_>, tables: &[Arc<TableDef>]) -> Result<(), SqlError> {
    let Some(first) = tables.first() else { return Ok(()) };
    // The delete sees all tables; the first one's are declared with it.
    let seen = begin_delete(context, first)?;
    for def in &tables[1..] {
        context.engine.cluster_of(def, SpreadUse::Read)?;
    }
    for def in tables {
        let bricks = spread_part::wait(context.engine, seen.bricks(spread_number(def.id)))?;
        spread_part::delete_bricks(context.spread, context.engine, def.id, &bricks)?;
    }
    Ok(())
}

/// The rows in the types that bricks have: texts are views elsewhere.
fn in_bricks(batch: &RecordBatch, schema: &BrickSchema) -> Result<RecordBatch, SqlError> {
    if batch.num_columns() != schema.columns().len() {
        return Err(SqlError::internal("rows for a spread table have all its columns"));
    }
    let columns = batch.columns().iter().zip(schema.columns());
    let arrays: Vec<ArrayRef> =
        columns.map(|(array, column)| cast(array, column.data_type())).collect::<Result<_, _>>()?;
    let fields =
        schema.columns().iter().map(|column| Field::new(column.name(), column.data_type().clone(), true));
    let fields = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(fields, arrays)?)
}

/// The rows without these, which are counted through all batches.
fn without(batches: &[RecordBatch], rejected: &[Rejection]) -> Result<Vec<RecordBatch>, SqlError> {
    let mut first_row = 0;
    let mut kept = Vec::with_capacity(batches.len());
    for batch in batches {
        let is_good = |row: usize| {
            let at = rejected.binary_search_by_key(&(first_row + row), |rejection| rejection.row);
            Some(at.is_err())
        };
        let good: BooleanArray = (0..batch.num_rows()).map(is_good).collect();
        kept.push(filter_record_batch(batch, &good)?);
        first_row += batch.num_rows();
    }
    Ok(kept)
}
