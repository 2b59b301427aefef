// SPDX-License-Identifier: Apache-2.0
//! How DataFusion is set up: options, functions, rules.

use crate::error::SqlError;
use crate::guarded::GuardConditions;
use crate::pieces::PushPieces;
use crate::provider::BeginBrickAggregates;
use crate::query::{
    ArrayBounds, BandJoins, CheckedArithmetic, ClearPushdown, CodedGroups, CountSpreading, DuplicateGroups,
    EagerAggregation, ExistenceByExtremes, GroupTop, JoinOrder, StreamSeries, Watch, WholeGroups, estimates,
};
use datafusion::config::{ConfigNonZeroUsize, ConfigOptions, Dialect};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;

/// The state that statements clone. `pieces` is to be told which functions there are, once all are registered.
pub(crate) fn session_state(
    threads: usize,
    query_bytes_max: usize,
    pieces: &Arc<PushPieces>,
) -> Result<SessionState, SqlError> {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_default_catalog_and_schema(crate::relations::CATALOG_NAME, "public")
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false);
    let options = config.options_mut();
    options.sql_parser.dialect = Dialect::PostgreSQL;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.collect_spans = true;
    // The order of a subquery's rows is that of the query around it, which may take the first of them.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.execution.time_zone = Some("UTC".to_owned());
    // It knows less than the plan of what is never NULL, as of `x IS TRUE`, and would refuse the query.
    options.execution.skip_physical_aggregate_schema_check = true;
    let merging = options.execution.sort_spill_reservation_bytes;
    options.execution.sort_spill_reservation_bytes = merging.min(query_bytes_max / MERGING_SHARE);
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(ONE_BATCH)?;
    set_join_options(options, threads);
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_analyzer_rule(Arc::new(CheckedArithmetic))
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(physical_optimizer_rules(pieces))
        .with_statistics_registry(estimates())
        .build();
    for name in NOT_OURS {
        state.deregister_udf(name)?;
    }
    let own = crate::sequences::functions()
        .into_iter()
        .chain(crate::catalog::functions())
        .chain(crate::json::functions());
    for function in own.chain(crate::functions::functions()) {
        // With its other names: whoever builds a state of this one registers each function by all of its names.
        state.deregister_udf(function.name())?;
        state.register_udf(Arc::new(function))?;
    }
    Ok(state)
}

/// Functions of DataFusion that PostgreSQL has not and that make a value as long as an argument says, uncounted, go on for long
/// without a look whether the statement is to end, or cast where no rule of ours sees it.
const NOT_OURS: [&str; 11] = [
    "array_has_all",
    "array_has_any",
    "array_repeat",
    "array_resize",
    "array_sort",
    "arrow_cast",
    "arrow_try_cast",
    "digest",
    "find_in_set",
    "range",
    "substr_index",
];

/// Bytes behind which a file of an exchange between threads ends: each batch that it puts aside has a file of its own.
///
/// Two threads that put aside at once write two files; who reads takes them in their order, and waits at the end of one
/// that has not ended for what may come, while the batch it was promised is in the other. If all who write wait for it in
/// turn, nobody ever goes on (DataFusion's issue 24883). A file that has ended is never waited for.
const ONE_BATCH: usize = 1;

/// The part of what a query may have that each of its sorts keeps ready to merge what it has spilled.
const MERGING_SHARE: usize = 16;

/// DataFusion's rules, with ours for the order of joins in the place of the one that leaves it to FROM, and the one that
/// groups below joins, and those that group what is only asked whether it exists and join what is close to each other, before the
/// one that picks columns.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let (replaced, picking) = (EliminateCrossJoin::new(), OptimizeProjections::new());
    let duplicates = DuplicateGroups::default();
    let mut rules = Vec::new();
    for rule in Optimizer::new().rules {
        if rule.name() == replaced.name() {
            rules.push(Arc::new(JoinOrder::default()) as _);
            continue;
        }
        if rule.name() == duplicates.name() {
            rules.push(Arc::new(DuplicateGroups::default()) as _);
            continue;
        }
        if rule.name() == picking.name() {
            rules.push(Arc::new(EagerAggregation) as _);
            rules.push(Arc::new(ExistenceByExtremes) as _);
            rules.push(Arc::new(BandJoins) as _);
        }
        rules.push(rule);
    }
    rules.push(Arc::new(CountSpreading) as _);
    let watched = |rule| [rule, Arc::new(Watch) as Arc<dyn OptimizerRule + Send + Sync>];
    rules.into_iter().flat_map(watched).collect()
}

/// DataFusion's rules for physical plans, with filters pushed down only where that is right, those that change without arrays,
/// and before them the one that makes series while they are read. Once the plan stands, groups that keep all are made in one
/// step, what can be done where the bricks of spread tables are becomes pieces, aggregates of brick tables are begun at the bricks,
/// others by codes of their groups, rows beyond the best of their group are dropped before they are sorted, and conditions guard each
/// other.
fn physical_optimizer_rules(pieces: &Arc<PushPieces>) -> Vec<PhysicalRule> {
    let handing_down_bounds = FilterPushdown::new_post_optimization();
    let mut rules: Vec<PhysicalRule> = vec![Arc::new(StreamSeries)];
    for rule in PhysicalOptimizer::new().rules {
        if rule.name() == handing_down_bounds.name() {
            rules.push(Arc::new(ArrayBounds));
        }
        rules.push(match ClearPushdown::instead_of(rule.as_ref()) {
            Some(clear) => Arc::new(clear),
            None => rule,
        });
    }
    let last: [PhysicalRule; 6] = [
        Arc::new(WholeGroups),
        Arc::clone(pieces) as _,
        Arc::new(BeginBrickAggregates),
        Arc::new(CodedGroups),
        Arc::new(GroupTop),
        Arc::new(GuardConditions),
    ];
    rules.extend(last);
    rules.into_iter().flat_map(|rule| [rule, Arc::new(Watch) as PhysicalRule]).collect()
}

type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Rows that the build side of a hash join may have to be collected into one table, over all threads. Fewer
/// threads gain less from building several tables at once, and dividing the probe side among them costs the
/// same.
const COLLECTED_BUILD_ROWS: usize = 8_000_000;

/// Bytes that go with them.
const COLLECTED_BUILD_BYTES: usize = 512 << 20;

/// Build sides with at most this many values are given to the probe side's scan as a list, which can also rule
/// out chunks; larger ones as a look-up in the join's own table, which costs less per row than a long list.
const LISTED_VALUES_MAX: usize = 16;

/// Up to this range of keys a join's table is an array with a place for each: at most 32 MiB, and only the pages
/// that keys fall into are touched.
const ARRAY_KEY_RANGE: usize = 8_000_000;

/// Beyond that range, if so many of its keys are there: a place costs four bytes, an entry of a hash table about
/// twenty times that.
const ARRAY_KEY_DENSITY_MIN: f64 = 0.05;

/// How joins are built; measured on TPC-H in `bench/results/joins.md`.
fn set_join_options(options: &mut ConfigOptions, threads: usize) {
    let threads = threads.max(1);
    options.optimizer.hash_join_single_partition_threshold = COLLECTED_BUILD_BYTES / threads;
    options.optimizer.hash_join_single_partition_threshold_rows = COLLECTED_BUILD_ROWS / threads;
    options.optimizer.hash_join_inlist_pushdown_max_distinct_values = LISTED_VALUES_MAX;
    options.optimizer.use_statistics_registry = true;
    options.execution.perfect_hash_join_small_build_threshold = ARRAY_KEY_RANGE;
    options.execution.perfect_hash_join_min_key_density = ARRAY_KEY_DENSITY_MIN;
}
