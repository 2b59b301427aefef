// SPDX-License-Identifier: Apache-2.0
//! The leaf against the model, which is DataFusion's aggregate over the scan: on random rows, of which some are not seen, and
//! whether it gets memory or not.

use super::super::{BEGIN_BRICK_AGGREGATES, BrickAggregate, CONSUMER};
use crate::engine::Engine;
use crate::provider::bricks::BrickScan;
use crate::provider::field_of_column;
use crate::provider::request::ScanRequest;
use crate::session::Session;
use arrow::array::Array;
use arrow::datatypes::Schema;
use arrow::util::display::array_value_to_string;
use coeval_store::{AccessMode, SpaceId, Store, StoreOptions, Transaction};
use coeval_txn::Isolation;
use datafusion::common::config::ConfigOptions;
use datafusion::common::resources_err;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, collect};
use datafusion::prelude::SessionConfig;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::sync::Arc;

const TABLE: &str = "
    CREATE TABLE facts (slot int, region text, name text, kind text NOT NULL, level int, tiny smallint, born date, good boolean,
                        amount bigint)
        USING brick PARTITION BY (slot CARDINALITY 100 RANGE SIZE 10, region CARDINALITY 4 RANGE SIZE 2)";

/// Numbers of columns in [`TABLE`].
const SLOT: usize = 0;
const REGION: usize = 1;
const NAME: usize = 2;
const KIND: usize = 3;
const LEVEL: usize = 4;
const TINY: usize = 5;
const BORN: usize = 6;
const GOOD: usize = 7;
const AMOUNT: usize = 8;

const GROUPS: [&[usize]; 13] = [
    &[NAME],
    &[KIND],
    &[LEVEL],
    &[TINY],
    &[BORN],
    &[GOOD],
    &[NAME, LEVEL],
    &[NAME, KIND, GOOD],
    &[GOOD, TINY],
    &[SLOT, NAME],
    &[LEVEL, REGION],
    &[GOOD, SLOT, REGION],
    &[REGION, SLOT],
];

/// Memory of which the leaf gets none, and others what they ask for.
#[derive(Debug, Default)]
struct Refusing(UnboundedMemoryPool);

impl MemoryPool for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn grow(&self, reservation: &MemoryReservation, more: usize) {
        self.0.grow(reservation, more);
    }

    fn shrink(&self, reservation: &MemoryReservation, less: usize) {
        self.0.shrink(reservation, less);
    }

    fn try_grow(&self, reservation: &MemoryReservation, more: usize) -> Result<()> {
        if reservation.consumer().name() == CONSUMER {
            return resources_err!("{CONSUMER} asked for {more} bytes");
        }
        self.0.try_grow(reservation, more)
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }
}

impl fmt::Display for Refusing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refusing")
    }
}

struct Fixture {
    engine: Arc<Engine>,
    session: Session,
    table: SpaceId,
}

impl Fixture {
    fn new() -> Self {
        let engine = Engine::new(Store::in_memory(StoreOptions::default())).expect("a store opens");
        let mut session = engine.session();
        session.execute(TABLE).expect("the table is made");
        let world = engine.store().world();
        let table = world.tables().find(|table| table.def().name.name == "facts").expect("it is there");
        let table = table.def().id;
        Self { engine, session, table }
    }

    /// Loads rows whose values follow from random numbers; the names and levels from `from` on.
    fn load(&mut self, random: &mut StdRng, rows: usize, from: usize) {
        let mut mixed = |values: usize| {
            let (factor, summand) = (random.random_range(1..60_000_u64), random.random_range(0..60_000_u64));
            format!("((g::bigint * {factor} + {summand}) % 60013 % {values})::int")
        };
        let nullable = |value: String, chance: String| format!("CASE WHEN {chance} > 0 THEN {value} END");
        let columns = [
            mixed(40),
            format!("(ARRAY['north', 'south', 'west'])[1 + {}]", mixed(3)),
            nullable(format!("repeat('name ', {}) || ({from} + {})", mixed(5), mixed(5)), mixed(6)),
            format!("'kind ' || {}", mixed(4)),
            nullable(format!("{from} - 20 + {}", mixed(40)), mixed(9)),
            nullable(format!("({} - 5)::smallint", mixed(11)), mixed(4)),
            nullable(format!("date '1970-01-10' - {}", mixed(30)), mixed(5)),
            nullable(format!("({} = 1)", mixed(2)), mixed(3)),
            nullable(format!("4611686018427387904 + {}", mixed(1_000)), mixed(3)),
        ];
        let columns = columns.join(", ");
        let sql = format!("INSERT INTO facts SELECT {columns} FROM generate_series(1, {rows}) g");
        self.session.execute(&sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    fn begin(&self) -> Transaction {
        self.engine.store().begin(Isolation::Snapshot, AccessMode::ReadWrite)
    }

    /// A scan of all columns, as `transaction` sees them.
    fn scan(&self, transaction: &Transaction) -> Arc<dyn ExecutionPlan> {
        let snapshot = transaction.brick_view(self.table, |all| all).expect("it is a brick table");
        let def = Arc::clone(transaction.table_def(self.table).expect("the table is there"));
        let columns: Vec<usize> = def.live_columns().map(|(index, _)| index).collect();
        let fields: Vec<_> = columns.iter().map(|index| field_of_column(&def.columns[*index])).collect();
        let schema = Arc::new(Schema::new(fields));
        let (projection, filters) = ((0..columns.len()).collect(), Vec::new());
        let request = ScanRequest { def, schema, columns, projection, filters, limit: None, partitions: 3 };
        Arc::new(BrickScan::try_new(snapshot, request).expect("all columns are the table's"))
    }

    fn functions(&self, input: &Arc<dyn ExecutionPlan>) -> Vec<Arc<AggregateFunctionExpr>> {
        let schema = input.schema();
        let known = self.engine.template().aggregate_functions();
        let calls = [
            ("sum", AMOUNT),
            ("count", AMOUNT),
            ("min", NAME),
            ("max", LEVEL),
            ("count", GOOD),
            ("max", AMOUNT),
        ];
        let function = |(name, column): (&str, usize)| {
            let builder =
                AggregateExprBuilder::new(Arc::clone(&known[name]), vec![column_of(&schema, column)]);
            let alias = format!("{name}({column})");
            Arc::new(builder.schema(Arc::clone(&schema)).alias(alias).build().expect("a call"))
        };
        calls.into_iter().map(function).collect()
    }

    /// The first step over the rows that pass.
    fn first_step(&self, scan: Arc<dyn ExecutionPlan>, groups: &[usize], filter: Filter) -> AggregateExec {
        let schema = scan.schema();
        let input = match filter {
            Filter::All => scan,
            Filter::Level => {
                let level = binary(column_of(&schema, LEVEL), Operator::Lt, lit(3_i32), &schema);
                let filtered = FilterExecBuilder::new(level.expect("types are the same"), scan).build();
                Arc::new(filtered.expect("a condition")) as _
            }
        };
        let named = |column: &usize| (column_of(&schema, *column), schema.field(*column).name().clone());
        let group_by = PhysicalGroupBy::new_single(groups.iter().map(named).collect());
        let functions = self.functions(&input);
        let filters = vec![None; functions.len()];
        AggregateExec::try_new(AggregateMode::Partial, group_by, functions, filters, input, schema)
            .expect("an aggregate")
    }
}

#[derive(Clone, Copy, Debug)]
enum Filter {
    /// All rows pass.
    All,
    /// Those of low levels do.
    Level,
}

fn column_of(schema: &Schema, column: usize) -> Arc<dyn PhysicalExpr> {
    col(schema.field(column).name(), schema).expect("there is the column")
}

/// What comes of states, given by `plan`, which does what `first` does.
fn merged(first: &AggregateExec, plan: &Arc<dyn ExecutionPlan>, task: &Arc<TaskContext>) -> Vec<String> {
    let all: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::clone(plan)));
    let (functions, filters) = (first.aggr_expr().to_vec(), first.filter_expr().to_vec());
    let group_by = first.group_expr().as_final();
    let last =
        AggregateExec::try_new(AggregateMode::Final, group_by, functions, filters, all, first.input_schema());
    let last = Arc::new(last.expect("the last step"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let batches = runtime.block_on(collect(last, Arc::clone(task))).expect("bricks can be read");
    let mut rows: Vec<String> = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| match column.is_null(row) {
                true => "NULL".to_owned(),
                false => array_value_to_string(column, row).expect("a value"),
            });
            rows.push(cells.collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort_unstable();
    rows
}

fn begun(first: &AggregateExec) -> Arc<dyn ExecutionPlan> {
    let plan: Arc<dyn ExecutionPlan> = Arc::new(first.clone());
    BEGIN_BRICK_AGGREGATES.optimize(plan, &ConfigOptions::new()).expect("the rule does not fail")
}

/// Small batches, so that a brick has many.
fn task(pool: Arc<dyn MemoryPool>) -> Arc<TaskContext> {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().expect("an environment");
    let config = SessionConfig::new().with_batch_size(700);
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime))
}

fn check(fixture: &Fixture, transaction: &Transaction, what: &str) {
    let free = task(Arc::new(UnboundedMemoryPool::default()));
    let refusing = task(Arc::new(Refusing::default()));
    for groups in GROUPS {
        for filter in [Filter::All, Filter::Level] {
            let first = fixture.first_step(fixture.scan(transaction), groups, filter);
            let plan: Arc<dyn ExecutionPlan> = Arc::new(first.clone());
            let expected = merged(&first, &plan, &free);
            let given = [&free, &refusing].map(|task| {
                let leaf = begun(&first);
                assert!(leaf.is::<BrickAggregate>(), "{what}: by {groups:?}");
                assert_eq!(merged(&first, &leaf, task), expected, "{what}: by {groups:?}, {filter:?}");
                leaf.metrics().and_then(|metrics| metrics.output_rows()).expect("it counts rows")
            });
            assert!(given[0] <= given[1], "{what}: by {groups:?}, {given:?}");
        }
    }
}

#[test]
fn the_states_of_the_leaf_come_to_what_those_of_the_model_do() {
    for seed in 0..3 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut fixture = Fixture::new();
        fixture.load(&mut random, 40_000, 0);
        let before = fixture.begin();
        check(&fixture, &before, &format!("{seed}, all rows"));
        fixture.load(&mut random, 20_000, 4);
        fixture.session.execute("DELETE FROM facts WHERE slot BETWEEN 10 AND 19").expect("whole bricks");
        check(&fixture, &before, &format!("{seed}, rows of before"));
        check(&fixture, &fixture.begin(), &format!("{seed}, rows of now"));
    }
}

#[test]
fn groups_that_get_no_memory_go_out_early() {
    let mut fixture = Fixture::new();
    fixture.load(&mut StdRng::seed_from_u64(5), 40_000, 0);
    let transaction = fixture.begin();
    let first = fixture.first_step(fixture.scan(&transaction), &[NAME, LEVEL], Filter::All);
    let pools: [Arc<dyn MemoryPool>; 2] =
        [Arc::new(UnboundedMemoryPool::default()), Arc::new(Refusing::default())];
    let given = pools.map(|pool| {
        let leaf = begun(&first);
        merged(&first, &leaf, &task(pool));
        leaf.metrics().and_then(|metrics| metrics.output_rows()).expect("it counts rows")
    });
    assert!(given[0] * 2 < given[1], "{given:?}");
}
