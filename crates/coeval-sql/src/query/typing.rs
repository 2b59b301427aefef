// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's types in DataFusion's plans: literals, operators, casts, aggregates, comparisons.
//!
//! [`literals`], [`open_literals`], [`values`] change the syntax before it is planned, [`operators`] and [`outer_tables`] take part in
//! planning, [`settle`] changes what depends on the types of both sides once the plan stands. The others are the
//! functions that stand in the places of what DataFusion does otherwise.

mod aggregates;
mod any_numeric;
mod any_of_group;
mod array_has;
mod array_keys;
mod array_literals;
mod arrays;
mod beside;
mod bit_aggregates;
mod bits;
mod cast_types;
mod choice_by_key;
mod choices;
mod coalesce;
mod collected;
mod comparable;
mod compared;
mod comparisons;
mod concatenations;
mod conditions;
mod counting;
mod dates;
mod declared;
mod distinctions;
mod document_operators;
mod documents;
mod domains;
mod exact_types;
mod float_extremes;
mod float_frames;
mod float_functions;
mod float_medians;
mod float_moments;
mod float_spreads;
mod float_sums;
mod group_keys;
mod in_subquery;
mod instants;
mod interval_best;
mod interval_sums;
mod intervals;
mod joined;
mod jsonb;
mod kept_rows;
mod keyed_rows;
mod known_casts;
mod literals;
mod merged;
mod mixed_floats;
mod moments;
mod negated;
mod no_operator;
mod number_functions;
mod number_pairs;
mod number_spreads;
mod number_sums;
mod numbers;
mod open_literals;
mod operators;
mod ordered_set;
mod orderless;
mod outer_tables;
mod padded;
mod percentages;
mod places;
mod reals;
mod regressions;
mod rounding;
mod row_offsets;
mod series;
mod set_operations;
mod settle;
mod shifts;
mod sleep;
mod sought;
mod subquery_order;
mod subscripts;
mod sums;
mod text_extremes;
mod time_bins;
mod time_parts;
mod trimmed;
mod unreversed;
mod values;
mod variances;
mod window_keys;
mod windows;
mod zoned_times;

pub(super) use any_numeric::{ordered_number, settled_cast as cast_of_any_numeric};
pub(super) use any_of_group::{any_of_group, value_of_any};
pub(super) use bits::{ambiguous_operator, settled_exclusive_or};
pub(super) use cast_types::Types;
pub(super) use compared::is_constant_member;
pub(super) use comparisons::{FOUND, MISSING, written};
pub(super) use conditions::is_condition;
pub(crate) use counting::{BIGINT_SERIES, INT_SERIES};
pub(crate) use declared::marked_schema;
pub(super) use distinctions::Distinction;
pub(super) use exact_types::is_any_numeric;
pub(super) use instants::{cast_by_zone, rewritten_values};
pub(super) use intervals::is_length;
pub(super) use known_casts::refuse_unknown_cast;
pub(super) use literals::own_call;
pub(crate) use literals::with_typed_literals;
pub(super) use merged::Merging;
pub(crate) use moments::ROUNDED as ROUNDED_TIME;
pub(super) use negated::Sign;
pub(super) use no_operator::no_operator;
pub(super) use numbers::is_mean;
pub(crate) use numbers::{DIVISION, quotient, rounded};
pub(crate) use outer_tables::OuterTables;
pub(crate) use percentages::PERCENTAGE;
pub(super) use row_offsets::{BY_ROW, NTH_VALUE_BY_ROW};
pub(crate) use series::SERIES;
pub(super) use series::{Steps, arguments_of as arguments_of_series, array_of_members};
pub(crate) use settle::{settled, settled_expression};
pub(crate) use time_parts::EXTRACT;
pub(crate) use values::without_subqueries_in_values;

use crate::error::SqlError;
use counting::{CountedSeries, Members};
use datafusion::execution::context::SessionState;
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::logical_expr::AggregateUDF;
use float_extremes::Extreme;
use interval_best::Best;
use operators::PostgresOperators;
use regressions::Regression;
use std::sync::Arc;
use variances::Spread;

/// Aggregates that plans call and no registry has, in an order that stays.
pub(super) fn unregistered_aggregates() -> Vec<Arc<AggregateUDF>> {
    let few = [sums::sum_of_bigint(), Best::Longest.function(), Best::Shortest.function()];
    let extremes = [Extreme::Least, Extreme::Greatest];
    let extremes = extremes.map(Extreme::function).into_iter().chain(extremes.map(text_extremes::function));
    let of_floats = Spread::EACH.map(float_spreads::function);
    let of_floats = of_floats.into_iter().chain([float_medians::function()]);
    few.into_iter().chain(Spread::all()).chain(Regression::all()).chain(extremes).chain(of_floats).collect()
}

/// The state, planning as PostgreSQL does.
///
/// # Errors
/// If a function cannot be registered: a bug.
pub(crate) fn with_postgres_types(state: SessionState) -> Result<SessionState, SqlError> {
    let mut builder = SessionStateBuilder::new_from_existing(state).with_type_planner(Arc::new(Types));
    // The first planner that knows an operator plans it.
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(PostgresOperators));
    let mut state = builder.build();
    let functions = [
        numbers::to_numeric(),
        crate::scalar::cast_function::function(),
        array_has::function(),
        array_literals::function(),
        series::function(),
        sleep::function(),
        percentages::function(),
        time_bins::function(),
        super::frame_offsets::function(),
    ];
    for function in functions
        .into_iter()
        .chain(super::frame_exclusions::functions())
        .chain(rounding::rounding_functions())
        .chain(moments::functions())
        .chain(time_parts::functions())
        .chain(arrays::functions())
        .chain(domains::functions())
        .chain(coalesce::functions())
    {
        state.register_udf(Arc::new(function))?;
    }
    let of_numbers = number_functions::functions(&state)?;
    for function in of_numbers.into_iter().chain(float_functions::functions(&state)?) {
        state.register_udf(Arc::new(function))?;
    }
    for (name, members) in [(INT_SERIES, Members::Int), (BIGINT_SERIES, Members::BigInt)] {
        state.register_udtf(name, Arc::new(CountedSeries { members }));
    }
    state.register_udaf(collected::array_agg())?;
    state.register_udaf(joined::string_agg())?;
    state.register_udaf(ordered_set::ordered_set())?;
    state.register_udaf(sums::sum())?;
    let of_pairs = number_pairs::functions(&state)?;
    let of_bits = bit_aggregates::functions(&state)?;
    for function in number_spreads::functions(&state)?.into_iter().chain(of_pairs).chain(of_bits) {
        state.register_udaf(function)?;
    }
    for function in row_offsets::functions() {
        state.register_udwf(function)?;
    }
    Ok(state)
}
