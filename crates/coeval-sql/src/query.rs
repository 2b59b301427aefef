// SPDX-License-Identifier: Apache-2.0
//! SELECT through DataFusion: planning against the statement's snapshot, running, results as PostgreSQL
//! names them.

mod apply;
mod arithmetic;
mod array_bounds;
mod bands;
mod concatenation;
mod cooperative_leaves;
mod deferred_subqueries;
mod dependencies;
mod dialect;
mod doubled;
mod duplicate_groups;
mod eager_aggregation;
mod expansion;
mod expressions;
mod extremes;
mod field_reads;
mod files;
mod float_arithmetic;
mod float_zeros;
mod frame_exclusions;
mod frame_offsets;
mod generic_plan;
mod group_top;
mod group_values;
mod grouped_parameters;
mod independent_laterals;
mod join_conditions;
mod join_order;
mod join_rows;
mod join_sides;
mod joined_tables;
mod kept_physical;
mod kept_plan;
mod late_joins;
mod lateral;
mod lateral_values;
mod likes;
mod local_moments;
mod matching;
mod mistakes;
mod named_columns;
mod names_beside_stars;
mod no_columns;
mod number_ranges;
mod operator_rules;
mod ordered_names;
mod ordering;
mod origins;
mod outer_aggregates;
mod outer_outputs;
mod output_names;
mod packed_lists;
mod plan;
mod plan_check;
mod plan_shape;
mod plan_size;
mod planner;
mod populated;
mod pushdown;
mod readable_columns;
mod recursive_schemas;
mod rewriting;
mod row_counts;
mod row_order;
mod run;
mod scopes;
mod second_runs;
mod series;
mod set_comparisons;
mod shared_subplans;
mod short_groups;
mod simplifications;
mod skipped_numbers;
mod small_filters;
mod spawned;
mod spreading;
mod strict_joins;
mod subqueries;
mod subquery_environment;
mod substitution;
mod table_changes;
mod table_ids;
mod typing;
mod unregistered;
mod using;
mod volatile_calls;
mod volatile_projections;
mod watch;
mod watched;
mod whole_groups;
mod whole_rows;
mod window_memory;
mod windowed;
mod with_sizes;

pub(crate) use arithmetic::{CheckedArithmetic, checked_function, checked_operators};
pub(crate) use array_bounds::ARRAY_BOUNDS;
pub(crate) use bands::BandJoins;
pub(crate) use cooperative_leaves::CooperativeLeaves;
pub(crate) use deferred_subqueries::DEFERRED_SUBQUERIES;
pub(crate) use dialect::{check_recursions, compares, plain_type, refuse_collation, rename_part};
pub(crate) use duplicate_groups::DuplicateGroups;
pub(crate) use eager_aggregation::EagerAggregation;
pub(crate) use extremes::ExistenceByExtremes;
pub(crate) use field_reads::FieldReads;
pub use files::is_name_of_files;
pub(crate) use float_zeros::BothZeros;
pub(crate) use frame_exclusions::FrameExclusions;
pub(crate) use frame_offsets::FrameOffsets;
pub(crate) use group_top::{GROUP_TOP, GroupTopExec, Ranking, Top};
pub(crate) use independent_laterals::IndependentLaterals;
pub(crate) use join_order::JoinOrder;
pub(crate) use join_sides::JoinSides;
pub(crate) use kept_physical::TEMPLATES;
pub(crate) use late_joins::LateJoins;
pub(crate) use named_columns::NamedColumns;
pub(crate) use operator_rules::{
    CODED_GROUPS, GROUPING_SETS, INTEGER_JOINS, NARROW_DECIMALS, PACKED_GROUPS, RUNNING_WINDOWS,
    STEPWISE_FILTERS, UNKNOWN_SETS, UNORDERED_GROUPS,
};
pub(crate) use plan::{PlannedQuery, plan, plan_with_hidden};
pub(crate) use plan_check::PlanCheck;
pub(crate) use pushdown::ClearPushdown;
pub(crate) use recursive_schemas::RecursiveSchemas;
pub(crate) use run::{
    LISTED_MAX, Runnable, WithoutPieces, collect, collect_planned, collect_with_hidden,
    optimized_physical_plan, run, run_to_measure, single_row, stream,
};
pub(crate) use series::STREAM_SERIES;
pub(crate) use set_comparisons::SetComparisons;
pub(crate) use shared_subplans::SHARED_SUBPLANS;
pub(crate) use short_groups::ShortGroups;
pub(crate) use simplifications::Simplifications;
pub(crate) use skipped_numbers::SkippedNumbers;
pub(crate) use small_filters::{SmallFilters, WithoutRows};
pub(crate) use spawned::tasks_work_for_their_queries;
pub(crate) use spreading::CountSpreading;
pub(crate) use strict_joins::StrictJoins;
pub(crate) use subqueries::{calls_volatile, has_subquery};
pub(crate) use typing::{ROUNDED_TIME, with_postgres_types};
pub(crate) use unregistered::{ZONED_FUNCTIONS, unregistered_aggregates, unregistered_scalars};
pub(crate) use volatile_calls::VolatileCalls;
pub(crate) use volatile_projections::VolatileProjections;
pub(crate) use watch::Watch;
pub(crate) use watched::{WATCHED, watched};
pub(crate) use whole_groups::WHOLE_GROUPS;
pub(crate) use windowed::{is_unfiltered, plain_of_unfiltered, unfiltered_of_plain};

pub(crate) use output_names::{named as named_outputs, shown as shown_names};

use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use datafusion::sql::sqlparser::ast::{Query, SetExpr};

/// Whether the query ends in FOR UPDATE or the like.
pub(crate) fn locks_rows(query: &Query) -> bool {
    !query.locks.is_empty()
}

/// `0A000` for a change of rows in the WITH of a query that is part of another, and for locks that nobody would take.
fn refuse_nested(query: &Query) -> Result<(), SqlError> {
    if locks_rows(query) {
        return Err(SqlError::unsupported("FOR UPDATE, or a weaker form of it, in this place")
            .with_hint("Lock the rows in a statement of its own, or in WITH in front of the statement."));
    }
    let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
    let is_change = |body: &SetExpr| {
        matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
    };
    if tables.any(|table| is_change(&table.query.body)) {
        let message = "WITH clause containing a data-modifying statement must be at the top level";
        return Err(SqlError::new(SqlState::FeatureNotSupported, message)
            .with_hint("Move it in front of the whole statement."));
    }
    Ok(())
}

/// Plans and runs a query that locks no rows.
///
/// # Errors
/// What planning finds wrong with it, and what its evaluation meets.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    query: &Query,
) -> Result<StatementResult, SqlError> {
    collect(context, query).map(StatementResult::select)
}
