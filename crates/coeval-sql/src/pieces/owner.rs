// SPDX-License-Identifier: Apache-2.0
//! A piece of another node's query, run here on bricks that are here.
//!
//! It runs as a query does: on the engine's threads, with memory of its own, watched by a lifeline that ends it when nobody listens.

use super::codec::Opened;
use super::known::Known;
use crate::allowance::Allowance;
use crate::carried::Carry;
use crate::cluster::ClusterSnapshot;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::guarded::{GuardConditions, guarded};
use crate::memory::bytes_of_rows;
use crate::provider::{BrickReader, SpreadScan};
use crate::query::{is_unfiltered, watched};
use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use coeval_operators::coded_groups::with_coded_groups;
use coeval_operators::compared_pairs::with_compared_pairs;
use coeval_operators::narrow_decimals::with_narrow_decimals;
use coeval_operators::running_windows::with_running_windows;
use coeval_operators::stepwise_filter::with_stepwise_filters;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Bytes that go out at once.
const PART_BYTES: usize = 1 << 20;

/// Where parts of the answer go; nothing, behind the last one.
type Parts = mpsc::Sender<Result<Option<Bytes>, SqlError>>;

/// What a piece of another node's query makes of bricks that are here: bytes for who sent the order, in parts of a megabyte. `table` is
/// the table's number in the cluster; `rows` has its rows as the query's snapshot sees them, and nothing else is read. Work goes on as
/// long as the stream is there, on the engine's threads, a part or two ahead of who takes them.
///
/// # Errors
/// The stream ends with an error if the order is one of another version of the program, or as the query would. What was given before is
/// not the whole then.
pub fn run_piece(
    engine: &Arc<Engine>,
    (table, bricks): (u64, Vec<u64>),
    order: Bytes,
    rows: Arc<dyn ClusterSnapshot>,
) -> BoxStream<'static, Result<Bytes, SqlError>> {
    let (parts, made) = mpsc::channel(1);
    let own = Arc::clone(engine);
    let environment = engine.query_environment();
    let allowance = Allowance::of(&environment);
    let account = Arc::clone(allowance.lifeline().account());
    let working = engine.runtime().spawn_in_turns(&account, async move {
        let reader = |columns| BrickReader { snapshot: rows, table, columns };
        let runs_in = (environment, allowance);
        let last = make(&own, runs_in, reader, &bricks, (&order[..], &parts)).await.map(|()| None);
        // Nobody minds if nobody takes it any more.
        let _ = parts.send(last).await;
    });
    stream::unfold(Some((made, working)), async |state| {
        let (mut made, working) = state?;
        match made.recv().await {
            Some(Ok(Some(part))) => Some((Ok(part), Some((made, working)))),
            Some(Ok(None)) => None,
            Some(Err(error)) => Some((Err(error), None)),
            // It has panicked, or the threads end.
            None => Some((Err(SqlError::internal("a piece of a query was given up")), None)),
        }
    })
    .boxed()
}

async fn make(
    engine: &Arc<Engine>,
    (environment, allowance): (Arc<RuntimeEnv>, Allowance),
    reader: impl FnOnce(Arc<[usize]>) -> BrickReader,
    bricks: &[u64],
    (order, parts): (&[u8], &Parts),
) -> Result<(), SqlError> {
    let lifeline = allowance.lifeline().clone();
    // Cut when this is dropped, which is when nobody listens any more.
    let _held = lifeline.held();
    let opened = Opened::of(order)?;
    let mut config = engine.template().config().clone();
    let zone = (!opened.zone.is_empty()).then(|| opened.zone.to_owned());
    config.options_mut().execution.time_zone = zone;
    allowance.carry_in(config.options_mut());
    let options: Arc<ConfigOptions> = Arc::clone(config.options());
    let known = Known::of(engine.template());
    let what = (opened.table_name.into(), Arc::clone(&opened.output));
    let source = reader(opened.columns.as_slice().into());
    let others = (Arc::clone(&source.snapshot), source.table);
    let scan = SpreadScan::of_bricks(source, what, bricks, config.target_partitions());
    let scan: Arc<dyn ExecutionPlan> = Arc::new(CooperativeExec::new(Arc::new(scan)));
    let rows = match &opened.exchange {
        Some(exchange) => exchange.rows(scan, others, &known, &options)?,
        None => scan,
    };
    let plan = opened.over(rows, &[], &known, &options)?;
    let plan = with_running_windows(with_coded_groups(with_narrow_decimals(plan)?)?, is_unfiltered)?;
    let plan = with_compared_pairs(plan)?;
    let plan = GuardConditions.optimize(with_stepwise_filters(plan, guarded)?, &options)?;
    let plan = watched(plan, &options)?;
    let id = engine.template().session_id().to_owned();
    let task = TaskContext::new(
        None,
        id,
        config,
        Default::default(),
        Default::default(),
        Default::default(),
        Default::default(),
        environment,
    );
    let mut batches = execute_stream(plan, Arc::new(task))?;
    let mut writer = StreamWriter::try_new(Vec::new(), &batches.schema())?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        lifeline.holding().let_go(bytes_of_rows(&batch).unwrap_or(0));
        if batch.num_rows() > 0 {
            writer.write(&compact(&batch)?)?;
        }
        if writer.get_ref().len() >= PART_BYTES {
            give(parts, std::mem::take(writer.get_mut())).await;
        }
    }
    give(parts, writer.into_inner()?).await;
    Ok(())
}

/// Gives bytes in parts.
async fn give(parts: &Parts, bytes: Vec<u8>) {
    let mut bytes = Bytes::from(bytes);
    while !bytes.is_empty() {
        let part = bytes.split_to(bytes.len().min(PART_BYTES));
        // Whoever has gone drops this work.
        let _ = parts.send(Ok(Some(part))).await;
    }
}

/// The batch without what others have in the buffers of its texts: Arrow writes buffers as a whole.
pub(super) fn compact(batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options)?)
}
