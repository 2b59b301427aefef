// SPDX-License-Identifier: Apache-2.0
//! Readers of one partition at different paces, and plans that have a part twice.

use super::part::{Part, Reading};
use super::{SharedExec, connect};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use datafusion::common::{Statistics, exec_err};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::channel::mpsc;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::task::Poll;

/// Rows of a batch, which take some 45 kB.
const ROWS: i64 = 1_000;

/// A batch in which each row has its number, as an integer and in a text.
fn batch(number: i64) -> RecordBatch {
    let rows = ROWS * number..ROWS * (number + 1);
    let texts = rows.clone().map(|row| Some(format!("the text of row {row}"))).collect::<StringViewArray>();
    let columns: [(&str, ArrayRef); 2] =
        [("number", Arc::new(Int64Array::from_iter_values(rows))), ("text", Arc::new(texts))];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn source(
    rows: impl stream::Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(batch(0).schema(), rows))
}

fn batches(count: i64) -> SendableRecordBatchStream {
    source(stream::iter((0..count).map(|number| Ok(batch(number)))))
}

fn task(runtime: RuntimeEnvBuilder) -> TaskContext {
    TaskContext::default().with_runtime(runtime.build_arc().expect("a runtime"))
}

/// So little memory that a batch or two are kept in it.
fn little_memory() -> RuntimeEnvBuilder {
    RuntimeEnvBuilder::new().with_memory_limit(100_000, 1.0)
}

fn part_of(rows: SendableRecordBatchStream, readers: usize) -> Arc<Part> {
    part_in(rows, readers, RuntimeEnvBuilder::new(), &ExecutionPlanMetricsSet::new())
}

fn part_in(
    rows: SendableRecordBatchStream,
    readers: usize,
    runtime: RuntimeEnvBuilder,
    metrics: &ExecutionPlanMetricsSet,
) -> Arc<Part> {
    Arc::new(Part::new(rows, readers, &task(runtime), SpillMetrics::new(metrics, 0)))
}

fn begun(part: &Arc<Part>) -> Reading {
    let metrics = BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    part.begin(metrics).expect("a reader that the partition is for")
}

/// The number of a batch, all of whose rows are there.
fn number_of(found: &RecordBatch) -> i64 {
    let number = found.column(0).as_primitive::<Int64Type>().value(0) / ROWS;
    assert_eq!(*found, batch(number));
    number
}

/// The numbers of all batches that are left.
async fn numbers(reading: Reading) -> Result<Vec<i64>> {
    reading.map_ok(|found| number_of(&found)).try_collect().await
}

#[tokio::test]
async fn a_reader_may_read_to_the_end_before_another_begins() -> Result<()> {
    let part = part_of(batches(5), 2);
    let first = begun(&part);
    assert_eq!(numbers(first).await?, [0, 1, 2, 3, 4]);
    let second = begun(&part);
    assert_eq!(numbers(second).await?, [0, 1, 2, 3, 4]);
    let third = part.begin(BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0));
    assert!(third.is_err(), "it is for two");
    Ok(())
}

/// Each reader gets all batches in their order, whoever asks when, whoever leaves, and however the source hesitates.
#[test]
fn readers_at_all_paces_get_the_same() {
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (count, readers) = (random.random_range(0..6), random.random_range(1..5));
        let (mut hesitating, mut next) = (SmallRng::seed_from_u64(seed), 0);
        let part = part_of(
            source(stream::poll_fn(move |context| {
                if hesitating.random_bool(0.3) {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                next += 1;
                Poll::Ready((next <= count).then(|| Ok(batch(next - 1))))
            })),
            readers,
        );
        let mut readings: Vec<_> = (0..readers).map(|_| Some((begun(&part), Vec::new()))).collect();
        while readings.iter().any(Option::is_some) {
            let place = &mut readings[random.random_range(0..readers)];
            let Some((reading, found)) = place else { continue };
            let leaves = random.random_bool(0.05);
            match reading.next().now_or_never() {
                Some(Some(rows)) => found.push(number_of(&rows.expect("a source without errors"))),
                Some(None) => {
                    assert_eq!(*found, (0..count).collect::<Vec<_>>(), "seed {seed}");
                    *place = None;
                    continue;
                }
                None => {}
            }
            assert_eq!(*found, (0..found.len() as i64).collect::<Vec<_>>(), "seed {seed}");
            if leaves {
                *place = None;
            }
        }
    }
}

#[tokio::test]
async fn a_reader_that_stops_asking_holds_up_no_other() {
    for asks_last in [false, true] {
        let (sender, rows) = mpsc::unbounded();
        let part = part_of(source(rows), 2);
        let (mut idle, mut going) = (begun(&part), begun(&part));
        if !asks_last {
            assert!(idle.next().now_or_never().is_none(), "nothing has come");
        }
        let waiting = tokio::spawn(async move { going.next().await });
        tokio::task::yield_now().await;
        if asks_last {
            assert!(idle.next().now_or_never().is_none(), "nothing has come");
        }
        sender.unbounded_send(Ok(batch(7))).expect("a source that is there");
        let found = waiting.await.expect("a task without panics").expect("a batch");
        assert_eq!(number_of(&found.expect("no error")), 7);
    }
}

#[tokio::test]
async fn what_makes_the_rows_ends_with_the_last_reader() {
    let held = Arc::new(());
    let is_there = Arc::downgrade(&held);
    let rows = stream::pending().inspect(move |_| assert_eq!(Arc::strong_count(&held), 1));
    let part = part_of(source(rows), 2);
    let (mut first, second) = (begun(&part), begun(&part));
    assert!(first.next().now_or_never().is_none(), "nothing comes");
    drop(first);
    assert!(is_there.upgrade().is_some(), "the second reader may go on");
    drop(second);
    assert!(is_there.upgrade().is_none(), "nobody reads any more");
}

#[tokio::test]
async fn all_readers_get_an_error_behind_the_rows_before_it() {
    let rows = [Ok(batch(0)), Ok(batch(1)), exec_err!("a broken source"), Ok(batch(2))];
    let part = part_of(source(stream::iter(rows)), 2);
    for mut reading in [begun(&part), begun(&part)] {
        for number in 0..2 {
            let found = reading.next().await.expect("a batch before the error").expect("no error yet");
            assert_eq!(number_of(&found), number);
        }
        let error = reading.next().await.expect("the error").expect_err("no more rows");
        assert!(error.to_string().contains("a broken source"), "{error}");
    }
}

#[tokio::test]
async fn batches_for_which_there_is_no_memory_go_to_disk() -> Result<()> {
    let metrics = ExecutionPlanMetricsSet::new();
    let part = part_in(batches(20), 3, little_memory(), &metrics);
    let (first, mut second, third) = (begun(&part), begun(&part), begun(&part));
    assert_eq!(number_of(&second.next().await.expect("a batch")?), 0);
    let all: Vec<i64> = (0..20).collect();
    assert_eq!(numbers(first).await?, all);
    assert!(metrics.clone_inner().spill_count().is_some_and(|files| files > 10), "most of them are in files");
    assert_eq!(numbers(third).await?, all);
    assert_eq!(numbers(second).await?, all[1..]);
    Ok(())
}

#[tokio::test]
async fn what_all_have_read_takes_no_memory() -> Result<()> {
    let metrics = ExecutionPlanMetricsSet::new();
    let part = part_in(batches(20), 2, little_memory(), &metrics);
    let (mut first, mut second) = (begun(&part), begun(&part));
    for number in 0..20 {
        assert_eq!(number_of(&first.next().await.expect("a batch")?), number);
        assert_eq!(number_of(&second.next().await.expect("a batch")?), number);
    }
    assert_eq!(metrics.clone_inner().spill_count(), Some(0));
    Ok(())
}

#[tokio::test]
async fn without_memory_and_files_all_readers_fail() {
    let no_files = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = little_memory().with_disk_manager_builder(no_files);
    let part = part_in(batches(20), 2, runtime, &ExecutionPlanMetricsSet::new());
    for reading in [begun(&part), begun(&part)] {
        let error = numbers(reading).await.expect_err("more than the memory");
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    }
}

/// With a table of four batches in two partitions.
fn session() -> Result<SessionContext> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let rows = vec![vec![batch(0), batch(1)], vec![batch(2), batch(3)]];
    context.register_table("t", Arc::new(MemTable::try_new(batch(0).schema(), rows)?))?;
    Ok(context)
}

/// The groups of the table, a hundred of forty rows each.
async fn groups(context: &SessionContext, names: [&str; 2]) -> Result<Arc<dyn ExecutionPlan>> {
    let [group, count] = names;
    let sql = format!("SELECT number % 100 AS {group}, count(*) AS {count} FROM t GROUP BY number % 100");
    context.sql(&sql).await?.create_physical_plan().await
}

/// The groups, shared, and a reader in the place of a copy whose columns have these names.
async fn twice(context: &SessionContext, names: [&str; 2]) -> Result<[Arc<dyn ExecutionPlan>; 2]> {
    let shared = SharedExec::new(1, groups(context, ["g", "c"]).await?);
    let copy = groups(context, names).await?;
    let statistics = Arc::new(Statistics::new_unknown(&copy.schema()));
    let reader = shared.reader(Arc::clone(copy.properties()), statistics);
    let nodes: [Arc<dyn ExecutionPlan>; 2] = [Arc::new(shared), Arc::new(reader)];
    Ok(nodes)
}

#[tokio::test]
async fn a_plan_reads_a_part_twice() -> Result<()> {
    let context = session()?;
    let [shared, reader] = twice(&context, ["g", "c"]).await?;
    // The reader comes first: it makes the rows.
    let plan = UnionExec::try_new(vec![reader, Arc::clone(&shared)])?;
    connect(&plan)?;
    let found = collect(Arc::clone(&plan), context.task_ctx()).await?;
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 200);
    let counts = found.iter().flat_map(|rows| rows.column(1).as_primitive::<Int64Type>().values().to_vec());
    assert!(counts.into_iter().all(|count| count == 40));
    let output_rows =
        |node: &Arc<dyn ExecutionPlan>| node.metrics().and_then(|metrics| metrics.output_rows());
    assert_eq!(output_rows(&shared), Some(100));
    assert_eq!(output_rows(shared.children()[0]), Some(100), "its rows are made once");
    Ok(())
}

#[tokio::test]
async fn a_reader_has_the_names_of_its_copy() -> Result<()> {
    let context = session()?;
    let [shared, reader] = twice(&context, ["h", "d"]).await?;
    connect(&UnionExec::try_new(vec![shared, Arc::clone(&reader)])?)?;
    let found = collect(Arc::clone(&reader), context.task_ctx()).await?;
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
    assert!(found.iter().all(|rows| rows.schema() == reader.schema()));
    Ok(())
}

#[tokio::test]
async fn a_plan_is_connected_and_run_once() -> Result<()> {
    let context = session()?;
    let [shared, reader] = twice(&context, ["g", "c"]).await?;
    assert!(reader.execute(0, context.task_ctx()).is_err(), "it is not connected");
    assert!(connect(&reader).is_err(), "nothing makes its rows");
    let plan = UnionExec::try_new(vec![shared, reader])?;
    connect(&plan)?;
    assert!(connect(&plan).is_err(), "it is connected");
    assert!(reset_plan_states(Arc::clone(&plan)).is_err(), "its rows are read once");
    collect(Arc::clone(&plan), context.task_ctx()).await?;
    assert!(collect(plan, context.task_ctx()).await.is_err(), "its rows are gone");
    Ok(())
}
