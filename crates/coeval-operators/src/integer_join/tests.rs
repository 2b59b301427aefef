// SPDX-License-Identifier: Apache-2.0
//! Random tables joined in all ways, by the operator and by DataFusion's; and keys at the ends of their types.

use super::codes::{Code, Extent, Layout, extents};
use super::sought::Sought;
use super::table::{NONE, Table};
use super::{IntegerHashJoinExec, with_integer_joins};
use arrow::array::{
    ArrayRef, AsArray, Date32Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::util::display::array_value_to_string;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, InListExpr, lit};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::task::Poll;

/// What a column has.
#[derive(Clone, Copy)]
enum Values {
    Any,
    AllDifferent,
}

/// Rows with keys of all types, with NULLs, of which few or many are equal.
fn random_batch(random: &mut SmallRng, rows: usize, spread: i64, of_small: Values) -> RecordBatch {
    let nulls = [0.0, 0.1, 1.0][usize::from(random.random_bool(0.3)) + usize::from(random.random_bool(0.05))];
    let far = [1, 1_000_003, 100_000_000_000_000][random.random_range(0..3)];
    let first = random.random_range(0..spread);
    let mut column = |place: usize| -> Vec<Option<i64>> {
        let value = |row: usize| match (place, of_small) {
            (0, Values::AllDifferent) => first + row as i64,
            _ => random.random_range(-spread..spread),
        };
        let values: Vec<i64> = (0..rows).map(value).collect();
        values.into_iter().map(|value| (!random.random_bool(nulls)).then_some(value)).collect()
    };
    let columns: [Vec<Option<i64>>; 6] = std::array::from_fn(&mut column);
    let [small, wide, tiny, day, moment, rest] = columns;
    let moments: TimestampMicrosecondArray =
        moment.into_iter().map(|value| value.map(|value| value * far)).collect();
    let texts: StringViewArray =
        rest.iter().map(|value| value.map(|value| format!("some text of {value}"))).collect();
    let columns: [(&str, ArrayRef); 7] = [
        (
            "small",
            Arc::new(small.into_iter().map(|value| value.map(|value| value as i32)).collect::<Int32Array>()),
        ),
        (
            "wide",
            Arc::new(wide.into_iter().map(|value| value.map(|value| value * far)).collect::<Int64Array>()),
        ),
        (
            "tiny",
            Arc::new(tiny.into_iter().map(|value| value.map(|value| value as i16)).collect::<Int16Array>()),
        ),
        (
            "day",
            Arc::new(day.into_iter().map(|value| value.map(|value| value as i32)).collect::<Date32Array>()),
        ),
        ("moment", Arc::new(moments)),
        ("rest", Arc::new(rest.into_iter().collect::<Int64Array>())),
        ("text", Arc::new(texts)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn random_table(random: &mut SmallRng) -> Vec<Vec<RecordBatch>> {
    let spread = [1, 5, 100, 5_000][random.random_range(0..4)];
    let is_key = random.random_bool(0.5);
    let batches = random.random_range(0..4);
    let of_small = if is_key && batches == 1 { Values::AllDifferent } else { Values::Any };
    let mut partitions = vec![Vec::new(), Vec::new()];
    for place in 0..batches {
        let rows = [0, 1, 50, 300][random.random_range(0..4)];
        partitions[place % 2].push(random_batch(random, rows, spread, of_small));
    }
    partitions
}

fn context(a: Vec<Vec<RecordBatch>>, b: Vec<Vec<RecordBatch>>, random: &mut SmallRng) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(2);
    config = config.with_batch_size([3, 64, 8192][random.random_range(0..3)]);
    if random.random_bool(0.3) {
        // Both sides are divided among threads.
        let options = &mut config.options_mut().optimizer;
        options.hash_join_single_partition_threshold = 0;
        options.hash_join_single_partition_threshold_rows = 0;
    }
    let context = SessionContext::new_with_config(config);
    let schema = random_batch(&mut SmallRng::seed_from_u64(0), 0, 1, Values::Any).schema();
    for (name, partitions) in [("a", a), ("b", b)] {
        let table = MemTable::try_new(Arc::clone(&schema), partitions).unwrap();
        context.register_table(name, Arc::new(table)).unwrap();
    }
    context
}

fn operators(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let mut count = 0;
    plan.apply(|node| {
        count += usize::from(node.is::<IntegerHashJoinExec>());
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    count
}

async fn rows_of(plan: Arc<dyn ExecutionPlan>, context: &SessionContext) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in collect(reset_plan_states(plan)?, context.task_ctx()).await? {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row));
            rows.push(values.collect::<Result<Vec<_>, _>>()?.join("|"));
        }
    }
    rows.sort_unstable();
    Ok(rows)
}

const KEYS: [&str; 7] = [
    "a.small = b.small",
    "a.wide = b.wide",
    "a.moment = b.moment",
    "a.small = b.small AND a.tiny = b.tiny",
    "a.wide = b.wide AND a.day = b.day AND a.tiny = b.tiny",
    "a.wide = b.wide AND a.moment = b.moment",
    "a.small + 1 = b.small AND a.tiny = b.tiny",
];

const FILTERS: [&str; 4] = ["", "", " AND a.rest < b.rest", " AND a.text <> b.text"];

#[tokio::test]
async fn rows_are_those_of_datafusions_join() -> Result<()> {
    let mut found = HashMap::<&str, usize>::new();
    for seed in 0..400 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (a, b) = (random_table(&mut random), random_table(&mut random));
        let context = context(a, b, &mut random);
        let on = KEYS[random.random_range(0..KEYS.len())].to_owned()
            + FILTERS[random.random_range(0..FILTERS.len())];
        let queries = [
            ("inner", format!("SELECT a.*, b.rest, b.text FROM a JOIN b ON {on}")),
            ("left", format!("SELECT a.*, b.* FROM a LEFT JOIN b ON {on}")),
            ("right", format!("SELECT a.text, b.* FROM a RIGHT JOIN b ON {on}")),
            ("full", format!("SELECT a.small, a.text, b.text, b.day FROM a FULL JOIN b ON {on}")),
            ("semi", format!("SELECT * FROM a WHERE EXISTS (SELECT FROM b WHERE {on})")),
            ("anti", format!("SELECT * FROM a WHERE NOT EXISTS (SELECT FROM b WHERE {on})")),
            ("mark", format!("SELECT * FROM a WHERE a.rest = 1 OR EXISTS (SELECT FROM b WHERE {on})")),
            ("count", format!("SELECT count(*) FROM a JOIN b ON {on}")),
        ];
        for (kind, query) in queries {
            let plan = context.sql(&query).await?.create_physical_plan().await?;
            let ours = with_integer_joins(Arc::clone(&plan))?;
            *found.entry(kind).or_default() += operators(&ours);
            let (ours, theirs) = (rows_of(ours, &context).await?, rows_of(plan, &context).await?);
            assert_eq!(ours.len(), theirs.len(), "seed {seed}: {query}");
            let different = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
            assert_eq!(different, None, "seed {seed}: {query}");
        }
    }
    for kind in ["inner", "left", "right", "full", "semi", "anti", "mark", "count"] {
        assert!(found.get(kind).is_some_and(|count| *count > 200), "{kind}: {found:?}");
    }
    Ok(())
}

#[tokio::test]
async fn joins_that_it_cannot_do_stay() -> Result<()> {
    let mut random = SmallRng::seed_from_u64(1);
    let (a, b) = (random_table(&mut random), random_table(&mut random));
    let context = context(a, b, &mut random);
    let stay = [
        "SELECT * FROM a JOIN b ON a.text = b.text",
        "SELECT * FROM a JOIN b ON a.small = b.small AND a.text = b.text",
        "SELECT * FROM a JOIN b ON a.small IS NOT DISTINCT FROM b.small",
        "SELECT * FROM a JOIN b ON a.wide = b.wide AND a.moment = b.moment AND a.rest = b.rest",
        "SELECT small FROM a INTERSECT SELECT small FROM b",
    ];
    for query in stay {
        let plan = with_integer_joins(context.sql(query).await?.create_physical_plan().await?)?;
        assert_eq!(operators(&plan), 0, "{query}");
    }
    Ok(())
}

#[test]
fn sides_that_are_divided_otherwise_are_left_to_datafusion() -> Result<()> {
    let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, true)]));
    let side = |parts| Arc::new(EmptyExec::new(Arc::clone(&schema)).with_partitions(parts));
    let key = || Arc::new(Column::new("key", 0)) as Arc<dyn PhysicalExpr>;
    let (kind, nulls) = (JoinType::Inner, NullEquality::NullEqualsNothing);
    for (mode, parts, is_done) in [
        (PartitionMode::CollectLeft, [1, 2], true),
        (PartitionMode::CollectLeft, [2, 2], false),
        (PartitionMode::Partitioned, [2, 2], true),
        (PartitionMode::Partitioned, [2, 3], false),
    ] {
        let [left, right] = parts.map(side);
        let join =
            HashJoinExec::try_new(left, right, vec![(key(), key())], None, &kind, None, mode, nulls, false)?;
        let ours = IntegerHashJoinExec::in_place_of(&Arc::new(join));
        assert_eq!(ours.is_some(), is_done, "{mode:?} {parts:?}");
    }
    Ok(())
}

#[tokio::test]
async fn rows_come_in_the_order_of_the_looked_up_side() -> Result<()> {
    let mut random = SmallRng::seed_from_u64(7);
    let few = random_batch(&mut random, 50, 20, Values::Any);
    let schema = few.schema();
    let numbered = (0..2).map(|part| {
        let mut columns = random_batch(&mut random, 3_000, 20, Values::Any).columns().to_vec();
        columns[5] = Arc::new(Int64Array::from_iter_values(part * 3_000..(part + 1) * 3_000));
        RecordBatch::try_new(Arc::clone(&schema), columns)
    });
    let many = vec![numbered.collect::<Result<_, _>>()?];
    let config = SessionConfig::new().with_target_partitions(1).with_batch_size(64);
    let context = SessionContext::new_with_config(config);
    context.register_table("a", Arc::new(MemTable::try_new(Arc::clone(&schema), vec![vec![few]])?))?;
    context.register_table("b", Arc::new(MemTable::try_new(schema, many)?))?;
    for join in ["JOIN b ON a.small = b.small", "RIGHT JOIN b ON a.small = b.small AND a.tiny < b.tiny"] {
        let plan = context.sql(&format!("SELECT b.rest, a.rest FROM a {join}")).await?;
        let plan = with_integer_joins(plan.create_physical_plan().await?)?;
        assert_eq!(operators(&plan), 1, "{join}");
        let batches = collect(plan, context.task_ctx()).await?;
        let rests =
            batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().iter());
        let rests: Vec<i64> = rests.copied().collect();
        assert!(rests.len() > 3_000 && rests.is_sorted(), "{join}");
    }
    Ok(())
}

#[tokio::test]
async fn a_side_that_does_not_fit_is_an_error_and_gives_its_memory_back() -> Result<()> {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10_000));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc()?;
    let context = SessionContext::new_with_config_rt(SessionConfig::new().with_target_partitions(2), runtime);
    let mut random = SmallRng::seed_from_u64(3);
    let rows = vec![vec![random_batch(&mut random, 5_000, 100, Values::Any)]];
    let schema = rows[0][0].schema();
    for name in ["a", "b"] {
        context.register_table(name, Arc::new(MemTable::try_new(Arc::clone(&schema), rows.clone())?))?;
    }
    let query = "SELECT count(a.text), count(b.text) FROM a JOIN b ON a.small = b.small AND a.tiny = b.tiny";
    let plan = with_integer_joins(context.sql(query).await?.create_physical_plan().await?)?;
    assert_eq!(operators(&plan), 1);
    let refused = collect(plan, context.task_ctx()).await.unwrap_err();
    assert!(matches!(refused.find_root(), DataFusionError::ResourcesExhausted(_)), "{refused}");
    assert_eq!(pool.reserved(), 0);
    Ok(())
}

/// To break it: go from pairs to pairs without a stop.
#[tokio::test]
async fn others_have_turns_while_no_pair_passes_the_filter() -> Result<()> {
    let random = random_batch(&mut SmallRng::seed_from_u64(5), 300, 20, Values::Any);
    let mut columns = random.columns().to_vec();
    columns[0] = Arc::new(Int32Array::from(vec![1; 300]));
    let rows = RecordBatch::try_new(random.schema(), columns)?;
    let config = SessionConfig::new().with_target_partitions(1).with_batch_size(64);
    let context = SessionContext::new_with_config(config);
    for name in ["a", "b"] {
        let table = MemTable::try_new(rows.schema(), vec![vec![rows.clone()]])?;
        context.register_table(name, Arc::new(table))?;
    }
    let on = "a.small = b.small AND a.text || b.text = ''";
    for query in [
        format!("SELECT a.rest, b.rest FROM a JOIN b ON {on}"),
        format!("SELECT rest FROM a WHERE EXISTS (SELECT FROM b WHERE {on})"),
    ] {
        let plan = with_integer_joins(context.sql(&query).await?.create_physical_plan().await?)?;
        assert_eq!(operators(&plan), 1, "{query}");
        let mut batches = plan.execute(0, context.task_ctx())?;
        let mut turns = 0;
        loop {
            match futures::poll!(batches.next()) {
                Poll::Ready(None) => break,
                Poll::Ready(Some(batch)) => assert_eq!(batch?.num_rows(), 0, "{query}"),
                Poll::Pending => turns += 1,
            }
            tokio::task::yield_now().await;
        }
        assert!(turns > 1_000, "{turns}: {query}");
    }
    Ok(())
}

async fn table(columns: &[ArrayRef]) -> Option<Table> {
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    let memory = MemoryConsumer::new("test").register(&pool);
    Table::of(columns, &memory).await.unwrap()
}

/// To break it: reserve less than what finds groups takes, or keep all of that.
#[tokio::test]
async fn what_finds_groups_is_reserved_as_long_as_it_is_there() {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1_000).chain([0])));
    let (places, each_row) = (1_000 * size_of::<u32>(), 1_001 * size_of::<u32>());
    let memory_of = |bytes| {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        MemoryConsumer::new("test").register(&pool)
    };
    let memory = memory_of(places + 5 * each_row);
    let table = Table::of(&[Arc::clone(&keys)], &memory).await.unwrap();
    assert!(table.is_some_and(|table| !table.is_unique()));
    assert_eq!(memory.size(), places + 2 * each_row);
    let less = memory_of(places + 5 * each_row - 1);
    assert!(Table::of(&[keys], &less).await.is_err());
}

#[tokio::test]
async fn values_at_the_ends_of_64_bits_are_told_apart() {
    let (least, most) = (i64::MIN, i64::MAX);
    let asked = [least, least + 1, least + 69, least + 70, -1, 0, 1, most - 71, most - 70, most];
    for values in [vec![least, least + 70], vec![most - 70, most], vec![least, most], vec![-1, 1], vec![most]]
    {
        let built: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let looked_up: ArrayRef = Arc::new(Int64Array::from(asked.to_vec()));
        let other: ArrayRef = Arc::new(Int64Array::from(vec![least; asked.len()]));
        let other_built = other.slice(0, values.len());
        let place =
            |value: &i64| values.iter().position(|there| there == value).map_or(NONE, |row| row as u32);
        let expected: Vec<u32> = asked.iter().map(place).collect();
        let one = table(&[Arc::clone(&built)]).await.unwrap();
        assert!(one.is_unique());
        assert_eq!(one.entries(&[Arc::clone(&looked_up)]), expected, "{values:?}");
        // Beside a column of one value, which has no bits.
        for beside in [[&built, &other_built], [&other_built, &built]] {
            let two = table(&beside.map(Arc::clone)).await.unwrap();
            let is_first = Arc::ptr_eq(beside[0], &built);
            let looked = if is_first { [&looked_up, &other] } else { [&other, &looked_up] };
            assert_eq!(two.entries(&looked.map(Arc::clone)), expected, "{values:?}");
            let strangers: ArrayRef = Arc::new(Int64Array::from(vec![0; asked.len()]));
            let looked = if is_first { [&looked_up, &strangers] } else { [&strangers, &looked_up] };
            assert_eq!(two.entries(&looked.map(Arc::clone)), vec![NONE; asked.len()], "{values:?}");
        }
        let both = table(&[Arc::clone(&built), Arc::clone(&built)]).await.unwrap();
        assert_eq!(both.entries(&[Arc::clone(&looked_up), looked_up]), expected, "{values:?}");
    }
}

#[tokio::test]
async fn rows_of_a_key_lie_together_in_their_order() {
    let keys: ArrayRef = Arc::new(Int32Array::from(vec![Some(5), Some(9), None, Some(5), Some(7), Some(5)]));
    let table = table(&[Arc::clone(&keys)]).await.unwrap();
    assert!(!table.is_unique());
    let entries = table.entries(&[keys]);
    assert_eq!(entries[2], NONE);
    assert_eq!(table.rows(entries[0]), [0, 3, 5]);
    assert_eq!((table.rows(entries[1]), table.rows(entries[4])), (&[1][..], &[4][..]));
    assert!(super::tests::table(&[Arc::new(Int32Array::new_null(3)) as ArrayRef]).await.is_none());
}

/// To break it: multiply once.
#[test]
fn keys_at_equal_distances_have_different_places_whatever_factor_is_drawn() {
    let good = 0x9e37_79b9_7f4a_7c15;
    for odd in [[1, good], [good, 1], [(1 << 63) + 1, good], [(1 << 40) + 1, good]] {
        for distance in [1, 100, 3_600_000_000] {
            let places: HashSet<u64> =
                (0..10_000_u64).map(|key| (key * distance).mixed(odd) >> (u64::BITS - 15)).collect();
            assert!(places.len() > 5_000, "{} places at {distance} by {odd:?}", places.len());
        }
    }
}

/// To break it: tell extents alone, from which other nodes and chunks do not see that most numbers between are no keys.
#[tokio::test]
async fn few_keys_are_told_one_by_one() -> Result<()> {
    let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new("key", 0));
    let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, true)]));
    let looked_up: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), Some(4), Some(900), None]));
    let looked_up = RecordBatch::try_new(Arc::clone(&schema), vec![looked_up])?;
    for values in [vec![Some(900), None, Some(3), Some(900)], vec![None, Some(900), Some(3)]] {
        let columns: [ArrayRef; 1] = [Arc::new(Int64Array::from(values))];
        let built = Arc::new(table(&columns).await.unwrap());
        for (most, listed) in [(2, 2), (1, 0)] {
            let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&key)], lit(true)));
            let keys = vec![(Arc::clone(&key), DataType::Int64)];
            let sought = Sought::new(Arc::clone(&filter), keys, Arc::clone(&schema), 1);
            sought.note(Some(&built), &columns, most)?;
            let asked = filter.current()?;
            let parts = split_conjunction(&asked).into_iter();
            let lists = parts.filter_map(|part| part.downcast_ref::<InListExpr>());
            assert_eq!(lists.map(|list| list.list().len()).sum::<usize>(), listed);
            let found = asked.evaluate(&looked_up)?.into_array(4)?;
            let found: Vec<bool> = found.as_boolean().iter().map(|found| found == Some(true)).collect();
            assert_eq!(found, [true, false, true, false]);
        }
    }
    Ok(())
}

#[test]
fn columns_lie_beside_each_other() {
    let columns: [ArrayRef; 2] =
        [Arc::new(Int32Array::from(vec![3, 10])), Arc::new(Int16Array::from(vec![-1, -1]))];
    let extents = extents(&columns).unwrap();
    assert_eq!(extents, [Extent { least: 3, span: 7 }, Extent { least: -1, span: 0 }]);
    let layout = Layout::of(&extents).unwrap();
    assert_eq!((layout.bits(), layout.count()), (3, 8));
    assert_eq!(layout.codes::<u64>(&columns), (vec![0, 7], None));
    let wide = Extent { least: i64::MIN, span: u64::MAX };
    assert!(Layout::of(&[wide, wide]).is_some() && Layout::of(&[wide, wide, extents[0]]).is_none());
}
