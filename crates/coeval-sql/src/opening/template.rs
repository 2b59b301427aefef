// SPDX-License-Identifier: Apache-2.0
//! How DataFusion is set up: options, functions, rules.

use crate::error::SqlError;
use crate::guarded::GuardConditions;
use crate::pieces::PushPieces;
use crate::provider::{BEGIN_BRICK_AGGREGATES, JOIN_KEYS, NARROW_SCANS, TEXT_CODES};
use crate::query::{
    ARRAY_BOUNDS, BandJoins, BothZeros, CODED_GROUPS, CheckedArithmetic, ClearPushdown, CooperativeLeaves,
    CountSpreading, DEFERRED_SUBQUERIES, DuplicateGroups, EagerAggregation, ExistenceByExtremes, FieldReads,
    FrameExclusions, FrameOffsets, GROUP_TOP, GROUPING_SETS, INTEGER_JOINS, IndependentLaterals, JoinOrder,
    JoinSides, LateJoins, NARROW_DECIMALS, NamedColumns, PACKED_GROUPS, PlanCheck, RUNNING_WINDOWS,
    RecursiveSchemas, SHARED_SUBPLANS, STEPWISE_FILTERS, STREAM_SERIES, SetComparisons, ShortGroups,
    Simplifications, SkippedNumbers, SmallFilters, StrictJoins, TEMPLATES, UNKNOWN_SETS, UNORDERED_GROUPS,
    VolatileCalls, VolatileProjections, WHOLE_GROUPS, Watch, WithoutRows,
};
use datafusion::config::{ConfigNonZeroUsize, ConfigOptions, Dialect};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use std::collections::HashMap;
use std::sync::Arc;

/// The state with all functions and rules. `pieces` is to be told which functions there are, once all are registered.
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
        .with_analyzer_rules(analyzer_rules())
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(physical_optimizer_rules(pieces))
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

/// The function that DISTINCT ON becomes: the only one that a rule of DataFusion's asks for by its name.
const OF_DISTINCT_ON: &str = "first_value";

/// The function that takes the columns of a LATERAL subquery out of its rows.
const OF_LATERAL: &str = "get_field";

/// The state for what is done with a query once its names are resolved: the same rules, and of the functions those that are asked for by
/// name even then. A plan has the functions that it calls, and to clone hundreds of names takes a good part of the time of a small query.
pub(crate) fn planning_state(template: &SessionState) -> SessionState {
    let of_distinct_on = template.aggregate_functions().get(OF_DISTINCT_ON).cloned();
    let of_lateral = template.scalar_functions().get(OF_LATERAL).cloned();
    SessionStateBuilder::new_from_existing(template.clone())
        .with_session_id(template.session_id().to_owned())
        .with_table_functions(HashMap::new())
        .with_scalar_functions(of_lateral.into_iter().collect())
        .with_higher_order_functions(Vec::new())
        .with_aggregate_functions(of_distinct_on.into_iter().collect())
        .with_window_functions(Vec::new())
        .build()
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

/// DataFusion's rules that find out what expressions are, behind ours that leaves out what none names; and behind them those that put in
/// what checks arithmetic, and what DataFusion has not of frames of windows.
fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![Arc::new(NamedColumns)];
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(CheckedArithmetic));
    rules.push(Arc::new(FrameOffsets));
    rules.push(Arc::new(FrameExclusions));
    rules
}

/// DataFusion's rules, some of them where they have something to do ([`looking_first`]), with ours for the order of joins in the place of the
/// one that leaves it to FROM, before it the one that makes outer joins inner ones, and the one that puts conditions down as long as they
/// stay small. Behind that one, and before those that rewrite
/// aggregates, comes once more what takes out parts without rows, and the one that joins groups in the place of rows. Before the one that picks columns come those that group below joins, group
/// by keys in the place of what follows from them, group what is only asked whether it exists, and join what is close to each other. Behind
/// them all comes what is left of LATERAL subqueries, lists of floats get both zeros, and volatile functions are kept from being constants.
/// Before limits are moved, rows that are skipped get numbers of sequences.
fn optimizer_rules() -> Vec<LogicalRule> {
    let (replaced, picking) = (EliminateCrossJoin::new(), OptimizeProjections::new());
    let (filters, limits) = (SmallFilters::default(), PushDownLimit::new());
    let mut rules: Vec<LogicalRule> = Vec::new();
    for rule in Optimizer::new().rules {
        if rule.name() == replaced.name() {
            rules.push(Arc::new(StrictJoins) as _);
            rules.push(Arc::new(JoinOrder) as _);
            continue;
        }
        if rule.name() == filters.name() {
            rules.push(Arc::new(SmallFilters::default()) as _);
            rules.push(Arc::new(WithoutRows::default()) as _);
            rules.push(Arc::new(LateJoins) as _);
            continue;
        }
        if rule.name() == limits.name() {
            rules.push(Arc::new(SkippedNumbers) as _);
        }
        if rule.name() == picking.name() {
            rules.push(Arc::new(EagerAggregation) as _);
            rules.push(Arc::new(ShortGroups) as _);
            rules.push(Arc::new(ExistenceByExtremes) as _);
            rules.push(Arc::new(BandJoins) as _);
        }
        rules.push(looking_first(rule.as_ref()).unwrap_or(rule));
    }
    rules.push(Arc::new(IndependentLaterals) as _);
    rules.push(Arc::new(BothZeros) as _);
    rules.push(Arc::new(VolatileCalls) as _);
    rules.push(Arc::new(CountSpreading) as _);
    rules.push(Arc::new(RecursiveSchemas) as _);
    let watched = |rule| [rule, Arc::new(Watch) as LogicalRule];
    rules.into_iter().flat_map(watched).collect()
}

type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;

/// Rules that look whether one of DataFusion's, whose name they have, has something to do, and leave a plan or a node alone otherwise. A rule
/// runs in each pass over a plan, of which there are up to three, and has nothing to do in most of them.
fn rules_that_look_first() -> [LogicalRule; 5] {
    [
        Arc::new(SetComparisons::default()),
        Arc::new(Simplifications::default()),
        Arc::new(DuplicateGroups::default()),
        Arc::new(WithoutRows::default()),
        Arc::new(FieldReads::default()),
    ]
}

/// The rule of ours in the place of one of DataFusion's that would do much to find that it has nothing to do; `None` if there is none.
fn looking_first(rule: &dyn OptimizerRule) -> Option<LogicalRule> {
    rules_that_look_first().into_iter().find(|own| own.name() == rule.name())
}

/// DataFusion's rules for physical plans, with filters and projections pushed down only where that is right, sides of joins chosen by
/// estimates of ours, leaves that give others a turn without making all above them anew, those that change without arrays, and before them those that make
/// series while they are read; the order is taken from rows that are grouped once the sides of joins are known, and from
/// those that are grouped by several sets all that is known of them. Plans are checked by a rule of ours, which knows that rows are in the
/// order by which they were sorted. Where joins begin to tell scans what they look for, the plan is noted
/// for further executions, and what it has several times is computed once. Once the plan stands, groups that keep all are made in one step, rows beyond the best of
/// their group are dropped before they are sorted, what can be done where the bricks of spread tables are becomes pieces, grouping sets are
/// made of the finest groups, aggregates of brick tables are begun at the bricks, decimals are computed by integers, other aggregates are
/// begun by codes of their groups, what is left of them goes by packed keys, windows are computed batch by batch, scans ask what joins look
/// for, and give texts as codes to who groups by them and decimals as integers to who computes with them, filters ask one condition after the
/// other, conditions guard each other, joins by whole numbers go by theirs, and errors of scalar subqueries wait until somebody asks for
/// their values.
fn physical_optimizer_rules(pieces: &Arc<PushPieces>) -> Vec<PhysicalRule> {
    let handing_down_bounds = FilterPushdown::new_post_optimization();
    let mut rules: Vec<PhysicalRule> = vec![Arc::new(STREAM_SERIES)];
    for rule in PhysicalOptimizer::new().rules {
        if rule.name() == handing_down_bounds.name() {
            rules.push(Arc::new(TEMPLATES));
            rules.push(Arc::new(SHARED_SUBPLANS));
            rules.push(Arc::new(ARRAY_BOUNDS));
        }
        let clear = ClearPushdown::instead_of(rule.as_ref()).map(|clear| Arc::new(clear) as PhysicalRule);
        if let Some(sides) = JoinSides::instead_of(rule.as_ref()) {
            let sides = Arc::new(sides) as PhysicalRule;
            rules.extend([sides, Arc::new(UNKNOWN_SETS), Arc::new(UNORDERED_GROUPS)]);
            continue;
        }
        let leaves =
            || CooperativeLeaves::instead_of(rule.as_ref()).map(|leaves| Arc::new(leaves) as PhysicalRule);
        let projections =
            || VolatileProjections::instead_of(rule.as_ref()).map(|steady| Arc::new(steady) as PhysicalRule);
        let check = || PlanCheck::instead_of(rule.as_ref()).map(|check| Arc::new(check) as PhysicalRule);
        let own = clear.or_else(leaves).or_else(projections).or_else(check);
        rules.push(own.unwrap_or(rule));
    }
    let last: [PhysicalRule; 16] = [
        Arc::new(WHOLE_GROUPS),
        Arc::new(GROUP_TOP),
        Arc::clone(pieces) as _,
        Arc::new(GROUPING_SETS),
        Arc::new(BEGIN_BRICK_AGGREGATES),
        Arc::new(NARROW_DECIMALS),
        Arc::new(CODED_GROUPS),
        Arc::new(PACKED_GROUPS),
        Arc::new(RUNNING_WINDOWS),
        Arc::new(JOIN_KEYS),
        Arc::new(TEXT_CODES),
        Arc::new(NARROW_SCANS),
        Arc::new(STEPWISE_FILTERS),
        Arc::new(GuardConditions),
        Arc::new(INTEGER_JOINS),
        Arc::new(DEFERRED_SUBQUERIES),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use coeval_store::{Store, StoreOptions};

    #[test]
    fn each_rule_that_looks_first_stands_in_the_place_of_one_of_datafusion() {
        let replaced = Optimizer::new().rules;
        let own = optimizer_rules();
        for first in rules_that_look_first() {
            let has_name = |rule: &&LogicalRule| rule.name() == first.name();
            assert_eq!(replaced.iter().filter(has_name).count(), 1, "{}", first.name());
            let shown = format!("{first:?}");
            assert!(own.iter().filter(has_name).all(|rule| format!("{rule:?}") == shown), "{shown}");
        }
    }

    #[test]
    fn what_each_query_clones_has_all_rules_and_hardly_any_functions() {
        let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
        let (all, planning) = (engine.template(), engine.planning());
        assert_eq!(planning.optimizers().len(), all.optimizers().len());
        assert_eq!(planning.physical_optimizers().len(), all.physical_optimizers().len());
        assert_eq!(planning.analyzer().rules.len(), all.analyzer().rules.len());
        assert!(all.scalar_functions().len() > 100);
        assert!(planning.scalar_functions().len() + planning.aggregate_functions().len() < 5);
        // DISTINCT ON is made with one of them.
        let mut session = engine.session();
        let sql = "SELECT DISTINCT ON (v) v, n FROM (VALUES (1, 1), (1, 2), (2, 3)) a (v, n) ORDER BY v, n";
        let rows = session.execute(sql).unwrap().pop().unwrap().rows.unwrap();
        assert_eq!(rows.batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    }
}
