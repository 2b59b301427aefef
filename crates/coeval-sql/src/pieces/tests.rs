// SPDX-License-Identifier: Apache-2.0
//! A piece comes back as it was written down; what is none is refused; what is not the same everywhere is not written down.

use super::codec::{Along, Opened, Steps, encoded, give_the_same};
use super::exchange::Exchange;
use super::known::Known;
use super::plan::SpreadPieces;
use super::rule::PieceMaker;
use super::wire::Writer;
use crate::cluster::{ClusterSnapshot, PieceOrder, PlacedBricks};
use crate::engine::Engine;
use crate::error::{SqlError, SqlState};
use crate::provider::{BrickReader, SpreadScan};
use crate::query::{GroupTopExec, LISTED_MAX, Ranking, Top, unfiltered_of_plain};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use coeval_store::{Store, StoreOptions};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, JoinType, NullEquality, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::{
    Expr, Volatility, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, col, lit,
    when,
};
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::InListExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, conjunction};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, create_window_expr};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode, PhysicalExpr, displayable};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug)]
struct Nothing;

impl ClusterSnapshot for Nothing {
    fn bricks(&self, _: u64) -> BoxFuture<'_, Result<Vec<u64>, SqlError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn rows(&self, _: u64, _: u64, _: Vec<usize>) -> BoxFuture<'_, Result<Vec<RecordBatch>, SqlError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

fn engine() -> Arc<Engine> {
    Engine::new(Store::in_memory(StoreOptions::default())).unwrap()
}

fn scan() -> SpreadScan {
    let marked = Field::new("region", DataType::Utf8View, true);
    let marked = marked.with_metadata([("mark".to_owned(), "kept".to_owned())].into());
    let fields = vec![
        Field::new("day", DataType::Date32, false),
        marked,
        Field::new("likes", DataType::Int64, true),
        Field::new("price", DataType::Decimal128(12, 2), true),
    ];
    let reader = BrickReader { snapshot: Arc::new(Nothing), table: 7, columns: [0, 1, 2, 4].into() };
    SpreadScan::of_bricks(reader, ("facts".into(), Arc::new(Schema::new(fields))), &[3, 5, 8], 2)
}

/// The expression over the columns of a plan.
fn over(engine: &Engine, plan: &dyn ExecutionPlan, expression: Expr) -> Arc<dyn PhysicalExpr> {
    let schema = DFSchema::try_from(plan.schema().as_ref().clone()).unwrap();
    engine.template().create_physical_expr(expression, &schema).unwrap()
}

fn text(text: &str) -> Expr {
    lit(ScalarValue::Utf8View(Some(text.to_owned())))
}

/// A plan with every kind of expression and step.
fn plan(engine: &Engine) -> Arc<dyn ExecutionPlan> {
    let scan: Arc<dyn ExecutionPlan> = Arc::new(scan());
    let day = lit(ScalarValue::Date32(Some(20_000)));
    let cases = when(col("likes").gt(lit(5_i64)), col("region")).otherwise(text("few")).unwrap();
    let conditions = [
        col("day").gt_eq(day).or(col("price").is_null()),
        col("region").in_list(["a", "b", "c", "d", "e"].map(text).to_vec(), true),
        col("region").like(text("%x_")),
        !col("likes").is_not_null(),
        cases.not_eq(text("none")),
        datafusion::logical_expr::cast(col("likes"), DataType::Float64).lt(lit(0.5)),
        col("price").eq(lit(ScalarValue::Decimal128(None, 12, 2))),
    ];
    let condition = conditions.into_iter().reduce(Expr::and).unwrap();
    let predicate = over(engine, scan.as_ref(), condition);
    let filter = FilterExecBuilder::new(predicate, scan).apply_projection(Some(vec![1, 2])).unwrap();
    let filter: Arc<dyn ExecutionPlan> = Arc::new(filter.build().unwrap());
    let abs = engine.template().scalar_functions()["abs"].call(vec![col("likes")]);
    let columns = [("r", col("region")), ("n", abs)];
    let columns = columns.map(|(name, one)| ProjectionExpr::new(over(engine, filter.as_ref(), one), name));
    let projection = ProjectionExec::try_new(columns, filter).unwrap();
    let projection: Arc<dyn ExecutionPlan> = Arc::new(projection);
    let argument = |name| over(engine, projection.as_ref(), col(name));
    let sum = Arc::clone(&engine.template().aggregate_functions()["sum"]);
    let builder = AggregateExprBuilder::new(sum, vec![argument("n")]).schema(projection.schema());
    let functions = vec![Arc::new(builder.alias("sum(n)").distinct().build().unwrap())];
    let filters = vec![Some(over(engine, projection.as_ref(), col("n").gt(lit(1_i64))))];
    let groups = PhysicalGroupBy::new_single(vec![(argument("r"), "r".to_owned())]);
    let (mode, schema) = (AggregateMode::Partial, projection.schema());
    Arc::new(AggregateExec::try_new(mode, groups, functions, filters, projection, schema).unwrap())
}

fn written(engine: &Engine, plan: &Arc<dyn ExecutionPlan>) -> Option<Bytes> {
    encoded(&Steps::of(plan).unwrap(), &Along::default(), &Known::of(engine.template()), "Europe/Zurich")
}

fn read(engine: &Engine, bytes: &[u8]) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let known = Known::of(engine.template());
    let read = Opened::of(bytes)?.over(Arc::new(scan()), &[], &known, &Arc::new(ConfigOptions::new()));
    Ok(read?)
}

/// To break it: write the operands of an operator the other way round, or leave out the projection of a filter.
#[test]
fn a_piece_comes_back_as_it_was_written() {
    let engine = engine();
    let plan = plan(&engine);
    let bytes = written(&engine, &plan).unwrap();
    let opened = Opened::of(&bytes).unwrap();
    assert_eq!((opened.zone, opened.table_name), ("Europe/Zurich", "facts"));
    assert_eq!((&opened.columns[..], &opened.output), (&[0, 1, 2, 4][..], &scan().schema()));
    let back = read(&engine, &bytes).unwrap();
    let shown = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    assert_eq!(shown(&back), shown(&plan));
    assert!(give_the_same(back.as_ref(), plan.as_ref()));
}

/// To break it: leave out the limit of a filter, write the order of a sort the other way round, or merge nothing of a sort of all rows.
#[test]
fn first_rows_come_back_as_they_were_written() {
    let engine = engine();
    let known = Known::of(engine.template());
    let scan: Arc<dyn ExecutionPlan> = Arc::new(scan());
    let predicate = over(&engine, scan.as_ref(), col("likes").gt(lit(5_i64)));
    let all: Arc<dyn ExecutionPlan> = Arc::new(FilterExecBuilder::new(predicate, scan).build().unwrap());
    let few = all.with_fetch(Some(3)).unwrap();
    let options = SortOptions { descending: true, nulls_first: true };
    let order = LexOrdering::from([PhysicalSortExpr::new(over(&engine, all.as_ref(), col("day")), options)]);
    let sort = SortExec::new(order, Arc::clone(&all)).with_fetch(Some(7));
    let sort: Arc<dyn ExecutionPlan> = Arc::new(sort);
    let back = |steps: Option<Steps>| {
        let bytes = encoded(&steps.unwrap(), &Along::default(), &known, "").unwrap();
        displayable(read(&engine, &bytes).unwrap().as_ref()).indent(true).to_string()
    };
    let found = back(Steps::of(&few));
    assert!(found.starts_with("CoalescePartitionsExec: fetch=3\n  FilterExec: likes@2 > 5"), "{found}");
    let found = back(Steps::of(&all).unwrap().sorted(&sort));
    for part in ["SortPreservingMergeExec: [day@0 DESC], fetch=7", "TopK(fetch=7), expr=[day@0 DESC]"] {
        assert!(found.contains(part), "no {part} in\n{found}");
    }
    let steps = Steps::of(&all).unwrap().sorted(&sort).unwrap();
    assert!(steps.gather() && steps.order().is_none(), "first rows are fewer the more bricks there are");
    let sort = sort.with_fetch(None).unwrap();
    let found = back(Steps::of(&all).unwrap().sorted(&sort));
    let expected = "SortPreservingMergeExec: [day@0 DESC]\n  SortExec: expr=[day@0 DESC]";
    assert!(found.starts_with(expected), "{found}");
    let steps = Steps::of(&all).unwrap().sorted(&sort).unwrap();
    assert!(steps.reduce() && !steps.gather() && steps.order().is_some(), "all rows come in an order");
    assert!(Steps::of(&few).unwrap().sorted(&sort).is_none(), "they are not all rows");
    assert!(Steps::of(&plan(&engine)).unwrap().limited(7).is_none(), "groups are made of all rows");
}

/// To break it: write a ranking as another one, or leave out the order.
#[test]
fn the_best_of_groups_come_back_as_they_were_written() {
    let engine = engine();
    let scan: Arc<dyn ExecutionPlan> = Arc::new(scan());
    let group = vec![over(&engine, scan.as_ref(), col("region"))];
    let options = SortOptions { descending: true, nulls_first: false };
    let first = PhysicalSortExpr::new(over(&engine, scan.as_ref(), col("day")), options);
    let shown = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    for ranking in [Ranking::Rows, Ranking::Ranks, Ranking::Values] {
        for first in [None, Some(&first)] {
            let top = Top::new((ranking, 3), group.clone(), first, &scan.schema()).unwrap();
            let plan: Arc<dyn ExecutionPlan> = Arc::new(GroupTopExec::new(Arc::clone(&scan), top));
            let steps = Steps::of(&plan).unwrap();
            assert!(steps.reduce() && steps.gather(), "they are fewer the more bricks there are");
            let back = read(&engine, &written(&engine, &plan).unwrap()).unwrap();
            assert_eq!(shown(&back), shown(&plan));
            let Some(best) = back.downcast_ref::<GroupTopExec>() else { panic!("{}", shown(&back)) };
            assert_eq!(best.top().first().map(|first| first.options), first.map(|first| first.options));
        }
    }
    assert!(Top::new((Ranking::Rows, 0), group, None, &scan.schema()).is_none(), "nothing is left");
}

/// To break it: write the bounds of a frame the other way round, or leave out how a function treats NULLs.
#[test]
fn windows_come_back_as_they_were_written() {
    let engine = engine();
    let known = Known::of(engine.template());
    let rows: Arc<dyn ExecutionPlan> = Arc::new(scan());
    let key = |name: &str| over(&engine, rows.as_ref(), col(name));
    let partitioning = Partitioning::Hash(vec![key("region")], 3);
    let hashed: Arc<dyn ExecutionPlan> =
        Arc::new(RepartitionExec::try_new(Arc::clone(&rows), partitioning).unwrap());
    let options = SortOptions { descending: true, nulls_first: false };
    let by_day = PhysicalSortExpr::new(key("day"), options);
    let order = LexOrdering::from([PhysicalSortExpr::new(key("region"), options), by_day.clone()]);
    let sort = SortExec::new(order, Arc::clone(&hashed)).with_preserve_partitioning(true);
    let sort: Arc<dyn ExecutionPlan> = Arc::new(sort);
    let function = |function: WindowFunctionDefinition, frame: WindowFrame, ignores_nulls: bool| {
        let (name, schema, frame) = (function.name().to_owned(), rows.schema(), Arc::new(frame));
        let (arguments, partition, order) = ([key("likes")], [key("region")], [by_day.clone()]);
        let (is_distinct, filter) = (false, None);
        create_window_expr(
            &function,
            name,
            &arguments,
            &partition,
            &order,
            frame,
            schema,
            ignores_nulls,
            is_distinct,
            filter,
        )
        .unwrap()
    };
    let two_before = WindowFrameBound::Preceding(ScalarValue::UInt64(Some(2)));
    let frame = WindowFrame::new_bounds(WindowFrameUnits::Rows, two_before, WindowFrameBound::CurrentRow);
    let sum = unfiltered_of_plain(Arc::clone(&engine.template().aggregate_functions()["sum"]));
    let sum = function(WindowFunctionDefinition::AggregateUDF(sum), frame, false);
    let lag = Arc::clone(&engine.template().window_functions()["lag"]);
    let lag = function(WindowFunctionDefinition::WindowUDF(lag), WindowFrame::new(Some(false)), true);
    let written = |functions: Vec<Arc<dyn WindowExpr>>| {
        let mode = InputOrderMode::Sorted;
        let window = BoundedWindowAggExec::try_new(functions, Arc::clone(&sort), mode, true).unwrap();
        let window: Arc<dyn ExecutionPlan> = Arc::new(window);
        let nodes = [Arc::clone(&window), Arc::clone(&sort), Arc::clone(&hashed)];
        let exchange = Exchange { piece: Bytes::from_static(b"a piece"), sources: vec![(3, vec![5, 8])] };
        let steps = Steps::exchanged(&nodes, None, (scan(), exchange));
        (window, encoded(&steps, &Along::default(), &known, ""))
    };
    let (window, bytes) = written(vec![sum, Arc::clone(&lag)]);
    let bytes = bytes.unwrap();
    let exchange = Opened::of(&bytes).unwrap().exchange.unwrap();
    assert_eq!((&exchange.piece[..], &exchange.sources[..]), (&b"a piece"[..], &[(3, vec![5, 8])][..]));
    let shown = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    let back = read(&engine, &bytes).unwrap();
    let expected = shown(&window);
    let expected = expected.lines().next().unwrap();
    assert!(shown(&back).contains(expected), "no {expected} in\n{}", shown(&back));
    assert!(format!("{back:?}").contains("ignore_nulls: true"));
    let turned = lag.get_reverse_expr().unwrap();
    assert!(written(vec![turned]).1.is_none(), "nobody says that it is turned round");
}

/// To break it: give up if one of the conditions cannot be written, or keep what was written of it.
#[test]
fn what_joins_have_found_is_written_as_far_as_it_can_be() {
    let engine = engine();
    let known = Known::of(engine.template());
    let scan: Arc<dyn ExecutionPlan> = Arc::new(scan());
    let steps = Steps::of(&scan).unwrap();
    let likes = over(&engine, scan.as_ref(), col("likes"));
    let among = |values: Vec<i64>| -> Arc<dyn PhysicalExpr> {
        let values = Arc::new(Int64Array::from(values));
        Arc::new(InListExpr::try_new_from_array(Arc::clone(&likes), values, false, &scan.schema()).unwrap())
    };
    let random = engine.template().scalar_functions()["random"].call(Vec::new());
    let found = [
        over(&engine, scan.as_ref(), col("likes").gt_eq(lit(5_i64))),
        over(&engine, scan.as_ref(), random.lt(lit(0.5))),
        among((0..=LISTED_MAX as i64).collect()),
        among(vec![7, 7, 9]),
    ];
    let told = |condition| Along { conditions: vec![condition], inputs: Vec::new() };
    let bytes = encoded(&steps, &told(conjunction(found)), &known, "").unwrap();
    let plan = displayable(read(&engine, &bytes).unwrap().as_ref()).indent(true).to_string();
    assert!(plan.starts_with("FilterExec: likes@2 >= 5 AND likes@2 IN (SET) ([7, 9])\n"), "{plan}");
    let nothing = over(&engine, scan.as_ref(), lit(true));
    let plain = encoded(&steps, &Along::default(), &known, "");
    assert_eq!(encoded(&steps, &told(nothing), &known, ""), plain);
}

/// To break it: leave out the rows of an input, or write the sides of a condition the other way round.
#[test]
fn joins_come_back_with_the_rows_of_their_inputs() {
    let engine = engine();
    let known = Known::of(engine.template());
    let names: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b"]));
    let least: ArrayRef = Arc::new(Int64Array::from(vec![3, 4]));
    let rows = RecordBatch::try_from_iter([("name", names), ("least", least)]).unwrap();
    let left = MemorySourceConfig::try_new_exec(&[vec![rows.clone()]], rows.schema(), None).unwrap();
    let left: Arc<dyn ExecutionPlan> = left;
    let right: Arc<dyn ExecutionPlan> = Arc::new(scan());
    let on = vec![(over(&engine, left.as_ref(), col("name")), over(&engine, right.as_ref(), col("region")))];
    let fields = ["least", "likes"].map(|name| Field::new(name, DataType::Int64, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let compared = DFSchema::try_from(schema.as_ref().clone()).unwrap();
    let compared = engine.template().create_physical_expr(col("least").lt_eq(col("likes")), &compared);
    let columns = JoinFilter::build_column_indices(vec![1], vec![2]);
    let filter = JoinFilter::new(compared.unwrap(), columns, schema);
    let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
    let (kind, kept) = (JoinType::Inner, Some(vec![0, 4]));
    let inputs = [Arc::clone(&left)];
    let join = HashJoinExec::try_new(left, right, on, Some(filter), &kind, kept, mode, nulls, false).unwrap();
    let join: Arc<dyn ExecutionPlan> = Arc::new(join);
    let steps = Steps::of(&join).unwrap();
    assert!(!steps.reduce(), "rows that a join makes larger stay where they are");
    let shown = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    let expected = shown(&join).lines().next().unwrap().to_owned();
    for (sent, batches) in [(vec![], "partition_sizes=[0]"), (vec![[rows].into()], "partition_sizes=[1]")] {
        let along = Along { conditions: Vec::new(), inputs: sent };
        let bytes = encoded(&steps, &along, &known, "").unwrap();
        let there = read(&engine, &bytes).unwrap();
        assert!(shown(&there).starts_with(&expected) && shown(&there).contains(batches), "{}", shown(&there));
        assert!(give_the_same(there.as_ref(), join.as_ref()));
        let options = Arc::new(ConfigOptions::new());
        let here = Opened::of(&bytes).unwrap().over(Arc::new(scan()), &inputs, &known, &options).unwrap();
        assert!(shown(&here).contains("SentInput") && shown(&here).contains("partition_sizes=[1]"));
    }
}

/// To break it: leave out a look whether bytes are there.
#[test]
fn what_is_no_piece_is_refused() {
    let engine = engine();
    let bytes = written(&engine, &plan(&engine)).unwrap();
    for length in 0..bytes.len() {
        assert!(read(&engine, &bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
    let mut more = bytes.to_vec();
    more.push(0);
    assert!(read(&engine, &more).is_err(), "something follows");
    let mut other = bytes.to_vec();
    other[9] ^= 1;
    assert!(read(&engine, &other).is_err(), "another version of the program");
}

/// To break it: ask only for the name.
#[test]
fn functions_that_are_not_the_same_everywhere_are_not_written() {
    let engine = engine();
    let known = Known::of(engine.template());
    let can_be = |name: &str| {
        let function = &engine.template().scalar_functions()[name];
        known.put_scalar(&mut Writer::default(), function).is_some()
    };
    assert!(can_be("abs") && can_be("date_trunc"));
    for (name, function) in engine.template().scalar_functions() {
        let is_volatile = function.signature().volatility == Volatility::Volatile;
        assert!(!(is_volatile && can_be(name)), "{name}");
    }
    // DataFusion's own sum wraps, and has the name of ours.
    assert!(known.put_aggregate(&mut Writer::default(), &sum_udaf()).is_none());
    for call in [count(col("likes")), min(col("likes")), max(col("likes"))] {
        let Expr::AggregateFunction(call) = call else { panic!("it is no aggregate") };
        assert!(known.put_aggregate(&mut Writer::default(), &call.func).is_some(), "{}", call.func.name());
    }
}

/// Another node has all bricks, gives so many batches of a megabyte, and is gone. Nobody has the rows.
#[derive(Debug)]
struct Going {
    batches: usize,
}

impl ClusterSnapshot for Going {
    fn bricks(&self, _: u64) -> BoxFuture<'_, Result<Vec<u64>, SqlError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn rows(&self, _: u64, _: u64, _: Vec<usize>) -> BoxFuture<'_, Result<Vec<RecordBatch>, SqlError>> {
        async { Err(SqlError::new(SqlState::UndefinedTable, "it is read here")) }.boxed()
    }

    fn place(&self, _: u64, bricks: &[u64], without: &[u32]) -> Vec<PlacedBricks> {
        let placed = PlacedBricks { node: 2, is_own: false, bricks: bricks.to_vec() };
        if without.is_empty() { vec![placed] } else { Vec::new() }
    }

    fn run(&self, _: PieceOrder) -> BoxStream<'static, Result<Bytes, SqlError>> {
        let column = Arc::new(Int64Array::from(vec![7; 1 << 17]));
        let batch = RecordBatch::try_from_iter([("n", column as _)]).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        (0..self.batches).for_each(|_| writer.write(&batch).unwrap());
        let bytes = Bytes::from(writer.into_inner().unwrap());
        let gone = SqlError::internal("it is gone");
        stream::iter([Ok(bytes), Err(gone)]).boxed()
    }
}

/// What is kept can be dropped and had anew; what has gone out cannot. To break it: read the bricks whatever has gone out, or give
/// what was kept of an answer that is not whole.
#[test]
fn an_answer_that_ends_is_had_anew_unless_something_of_it_has_gone_out() {
    let engine = engine();
    for (batches, gone_out, state) in [(4, 0, SqlState::UndefinedTable), (24, 24, SqlState::CannotConnectNow)]
    {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let reader = BrickReader { snapshot: Arc::new(Going { batches }), table: 7, columns: [0].into() };
        let scan: Arc<dyn ExecutionPlan> =
            Arc::new(SpreadScan::of_bricks(reader, ("facts".into(), schema), &[3, 5], 2));
        let predicate = over(&engine, scan.as_ref(), col("n").gt(lit(0_i64)));
        let filter: Arc<dyn ExecutionPlan> =
            Arc::new(FilterExecBuilder::new(predicate, scan).build().unwrap());
        let (known, options) = (Arc::new(Known::of(engine.template())), ConfigOptions::new());
        let maker = PieceMaker { known: &known, options: &options, joins: HashSet::new() };
        let steps = Steps::of(&filter).unwrap();
        let pieces = SpreadPieces::of(steps, &filter, &maker).unwrap().unwrap();
        let answer = pieces.execute(0, Arc::new(TaskContext::default())).unwrap();
        let collected = async { Ok(answer.collect::<Vec<_>>().await) };
        let mut found = engine.runtime().block_on(collected).unwrap();
        let error = SqlError::from(found.pop().unwrap().unwrap_err());
        assert_eq!((found.len(), error.state), (gone_out, state), "{batches} batches: {error}");
        assert!(found.iter().all(Result::is_ok));
    }
}
