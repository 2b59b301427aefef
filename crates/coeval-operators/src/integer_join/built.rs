// SPDX-License-Identifier: Apache-2.0
//! The built side of a join: its rows, which of them have a key, and which have met a partner.

use super::sought::Sought;
use super::table::Table;
use arrow::array::{ArrayRef, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::concat_batches;
use datafusion::common::DataFusionError;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time};
use futures::TryStreamExt;
use futures::future::{BoxFuture, FutureExt, Shared};
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
///
/// # Locking
/// `met` is taken when a part of the other side ends, while nothing else is held.
#[derive(Debug)]
pub(super) struct Built {
    /// All rows.
    pub(super) rows: RecordBatch,
    /// `None` if no row has a key.
    pub(super) table: Option<Arc<Table>>,
    met: Mutex<Met>,
    /// What rows and table take.
    _memory: MemoryReservation,
}

/// Which rows have met a partner.
#[derive(Debug)]
struct Met {
    rows: BooleanBufferBuilder,
    /// How many parts of the other side have not ended yet.
    parts: usize,
}

/// One that is being built, for all who wait for it.
pub(super) type Building = Shared<BoxFuture<'static, Result<Arc<Built>, Arc<DataFusionError>>>>;

/// What is measured while it is built.
#[derive(Clone, Debug)]
pub(super) struct BuildMetrics {
    time: Time,
    batches: Count,
    rows: Count,
    bytes: Gauge,
}

impl BuildMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            time: MetricBuilder::new(metrics).subset_time("build_time", partition),
            batches: MetricBuilder::new(metrics).counter("build_input_batches", partition),
            rows: MetricBuilder::new(metrics).counter("build_input_rows", partition),
            bytes: MetricBuilder::new(metrics).gauge("build_mem_used", partition),
        }
    }
}

/// What it is built of.
pub(super) struct Plan {
    pub(super) rows: SendableRecordBatchStream,
    /// What makes the columns of a row's key.
    pub(super) keys: Vec<PhysicalExprRef>,
    /// How many parts of the other side look into it.
    pub(super) parts: usize,
    pub(super) memory: MemoryReservation,
    /// Who is told what is looked for.
    pub(super) sought: Option<Arc<Sought>>,
    /// How many keys may be told as a list.
    pub(super) listed_max: usize,
    pub(super) metrics: BuildMetrics,
}

impl Plan {
    /// Builds it, once for all who wait.
    pub(super) fn building(self) -> Building {
        self.build().map(|built| built.map(Arc::new).map_err(Arc::new)).boxed().shared()
    }

    async fn build(mut self) -> Result<Built> {
        let schema = self.rows.schema();
        let mut batches = Vec::new();
        while let Some(batch) = self.rows.try_next().await? {
            let bytes = get_record_batch_memory_size(&batch);
            self.memory.try_grow(bytes)?;
            self.metrics.bytes.add(bytes);
            self.metrics.batches.add(1);
            self.metrics.rows.add(batch.num_rows());
            if batch.num_rows() > 0 {
                batches.push(batch);
            }
        }
        drop(self.rows);
        let time = self.metrics.time.clone();
        let timer = time.timer();
        let rows = match batches.as_slice() {
            [only] => only.clone(),
            several => concat_batches(&schema, several)?,
        };
        drop(batches);
        let keys = key_columns(&self.keys, &rows)?;
        let before = self.memory.size();
        let table = Table::of(&keys, &self.memory).await?.map(Arc::new);
        self.metrics.bytes.add(self.memory.size() - before);
        if let Some(sought) = &self.sought {
            sought.note(table.as_ref(), &keys, self.listed_max)?;
        }
        timer.done();
        let met = Met { rows: BooleanBufferBuilder::new(0), parts: self.parts };
        Ok(Built { rows, table, met: Mutex::new(met), _memory: self.memory })
    }
}

impl Built {
    /// Ends one part of the other side, which has met these rows. The rows that any part has met, of the last one.
    pub(super) fn end_part(&self, met: &BooleanBuffer) -> Option<BooleanBuffer> {
        let mut all = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if !met.is_empty() {
            let before = all.rows.finish();
            let united = if before.is_empty() { met.clone() } else { &before | met };
            all.rows.append_buffer(&united);
        }
        all.parts = all.parts.saturating_sub(1);
        if all.parts > 0 {
            return None;
        }
        let met = all.rows.finish();
        let none = || BooleanBuffer::new_unset(self.rows.num_rows());
        Some(if met.is_empty() { none() } else { met })
    }
}

/// The columns of the rows' key.
pub(super) fn key_columns(keys: &[PhysicalExprRef], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    keys.iter().map(|key| key.evaluate(rows)?.into_array(rows.num_rows())).collect()
}

/// A batch of these columns, which may be none, with so many rows.
pub(super) fn batch(
    schema: &arrow::datatypes::SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
