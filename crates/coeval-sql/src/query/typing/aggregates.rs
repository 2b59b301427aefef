// SPDX-License-Identifier: Apache-2.0
//! Aggregates and windows that PostgreSQL computes otherwise, once the types of their arguments are known.
//!
//! | | PostgreSQL and here | DataFusion |
//! |---|---|---|
//! | `sum(1 / x) FILTER (WHERE x <> 0)` | what the filter leaves out is not computed | computed |
//! | `array_agg(DISTINCT x)` | in the order of the values | in any |
//! | `array_agg(DISTINCT x ORDER BY x DESC)` | in this order | in the opposite one, beside another aggregate |
//! | `min`, `max` of intervals | by length | by months, then days, then time |
//! | `min`, `max` of floats | NaN is above all numbers, infinities are numbers | in groups neither |
//! | `variance`, `stddev` of integers and `numeric` | `numeric`, exactly | floats |
//! | `variance`, `stddev` of floats | NaN of infinities, an error if they overflow | a NaN with a sign, an infinity |
//! | `corr`, `covar_...`, `regr_...` | NaN of infinities; of integers exact sums | NULL, or what is left of them |
//! | `bool_and`, `bool_or` over a frame whose start moves | there | refused |
//! | `lag`, `lead` of numbers with a default of another type | of the type of both | of the first one |
//! | ORDER BY of `jsonb`, intervals, enums | by their order | by what they are kept as |
//! | `count(DISTINCT x)`, PARTITION BY of `jsonb`, intervals, floats | equal values are one | by what they are kept as |

use super::exact_types::is_any_numeric;
use super::float_extremes::Extreme;
use super::instants::settle_default;
use super::interval_best::Best;
use super::mixed_floats::doubles;
use super::regressions::Regression;
use super::shifts::settle_shift;
use super::unreversed::unreversed;
use super::variances::Spread;
use super::{
    any_numeric, array_keys, documents, float_medians, float_spreads, group_keys, jsonb, text_extremes,
    window_keys,
};
use crate::error::{SqlError, SqlState};
use crate::functions::ORDERED_SET;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion::logical_expr::{AggregateUDF, Cast, Expr, ExprSchemable, WindowFunctionDefinition, when};
use std::sync::Arc;

/// An aggregate as PostgreSQL has it; `None` if it is right as it is.
pub(super) fn settled(call: &AggregateFunction, schema: &DFSchema) -> Result<Option<AggregateFunction>> {
    let mut call = call.clone();
    let mut is_changed = false;
    // Of a guarded argument it would not be known that it is a document.
    if let Some(key) = group_keys::settle_count(&call, schema)? {
        call.params.args = vec![key];
        is_changed = true;
    }
    if let Some(arguments) = any_numeric::settle_arguments(&call, schema)? {
        call.params.args = arguments;
        is_changed = true;
    }
    is_changed |= guard_arguments(&mut call, schema)?;
    if call.params.distinct && matches!(call.func.name(), "array_agg" | "string_agg") {
        if let (true, Some(argument)) = (call.params.order_by.is_empty(), call.params.args.first()) {
            let argument = argument.clone();
            call.params.order_by = vec![Sort { expr: argument, asc: true, nulls_first: false }];
        }
        call.func = unreversed(call.func);
        is_changed = true;
    }
    refuse_best_document(call.func.name(), &call.params.args, schema)?;
    if let Some(extreme) = extreme_by_order(call.func.name(), &call.params.args, schema) {
        call.func = extreme;
        is_changed = true;
    }
    let exact = exact_spread(call.func.name(), &call.params.args, schema);
    // Of different floats it is what DataFusion makes of them.
    let of_floats =
        || float_spread(call.func.name(), &call.params.args, schema).filter(|_| !call.params.distinct);
    if let Some(spread) = exact.or_else(of_floats) {
        call.func = spread;
        is_changed = true;
    }
    if let (Some(median), false) = (median(call.func.name(), &call.params.args, schema), call.params.distinct)
    {
        call.func = median;
        is_changed = true;
    }
    if let Some((regression, pair)) = regression(call.func.name(), &call.params.args, schema) {
        refuse_different_pairs(&call)?;
        (call.func, call.params.args) = (regression.function(), pair);
        is_changed = true;
    }
    if !call.params.distinct {
        is_changed |= jsonb::settle_keys(&mut call.params.order_by, schema)?;
        is_changed |= window_keys::by_equals(&mut call.params.order_by, schema)?;
        is_changed |= array_keys::settle_keys(&mut call.params.order_by, schema);
    }
    Ok(is_changed.then_some(call))
}

/// Whether an aggregate collects values in an order that it does not say.
pub(super) fn is_collecting(call: &AggregateFunction) -> bool {
    matches!(call.func.name(), "array_agg" | "string_agg")
        && call.params.order_by.is_empty()
        && !call.params.distinct
}

/// A function over a window as PostgreSQL has it; `None` if it is right as it is.
pub(super) fn settled_window(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    let mut settled = None;
    let steps = [
        window_keys::by_keys,
        settle_default,
        settle_shift,
        jsonb::settle_window,
        array_keys::settle_window,
        group_keys::settle_window,
        any_numeric::settle_window,
        typed_window,
    ];
    for settle in steps {
        if let Some(next) = settle(settled.as_ref().unwrap_or(call), schema)? {
            settled = Some(next);
        }
    }
    Ok(settled)
}

/// An aggregate over a window that is another one for arguments of this type.
fn typed_window(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    let arguments = &call.params.args;
    refuse_best_document(call.fun.name(), arguments, schema)?;
    let extreme = extreme_by_order(call.fun.name(), arguments, schema);
    let spread = || {
        let exact = exact_spread(call.fun.name(), arguments, schema);
        let spread = exact.or_else(|| float_spread(call.fun.name(), arguments, schema));
        spread.filter(|_| !call.params.distinct)
    };
    let (function, arguments) = match regression(call.fun.name(), arguments, schema) {
        Some((regression, pair)) => (Some(regression.function()), pair),
        None => (extreme.or_else(spread).or_else(|| of_sliding_truths(call)), arguments.clone()),
    };
    Ok(function.map(|function| {
        let mut call = call.clone();
        call.fun = WindowFunctionDefinition::AggregateUDF(function);
        call.params.args = arguments;
        call
    }))
}

/// What stands for `bool_and` and `bool_or` over a frame whose start moves, from which DataFusion cannot take values away: the least or
/// the greatest truth value, which is the same.
fn of_sliding_truths(call: &WindowFunction) -> Option<Arc<AggregateUDF>> {
    if call.params.window_frame.start_bound.is_unbounded() {
        return None;
    }
    match call.fun.name() {
        "bool_and" => Some(min_udaf()),
        "bool_or" => Some(max_udaf()),
        _ => None,
    }
}

/// What is computed of pairs of numbers, and the pair: as floats, unless sums of it are exact. `None` if it is something else.
fn regression(function: &str, arguments: &[Expr], schema: &DFSchema) -> Option<(Regression, Vec<Expr>)> {
    let regression = Regression::of(function)?;
    let is_of_number = |ty: &DataType| ty.is_numeric() || ty.is_null() || is_any_numeric(ty);
    let is_number = |argument: &Expr| argument.get_type(schema).is_ok_and(|ty| is_of_number(&ty));
    if arguments.len() != 2 || !arguments.iter().all(is_number) {
        return None;
    }
    let is_exact = |argument: &Expr| argument.get_type(schema).is_ok_and(|ty| Regression::is_exact(&ty));
    let are_exact = arguments.iter().all(is_exact);
    let pair = if are_exact { arguments.to_vec() } else { doubles(arguments, schema) };
    Some((regression, pair))
}

/// `0A000` for different pairs: DataFusion finds different values of one argument alone.
fn refuse_different_pairs(call: &AggregateFunction) -> Result<()> {
    if !call.params.distinct {
        return Ok(());
    }
    Err(SqlError::unsupported(format_args!("DISTINCT in {}, which is of pairs,", call.func.name())).into())
}

/// `42883` for `min` and `max` of documents, which are ordered, but for them.
fn refuse_best_document(function: &str, arguments: &[Expr], schema: &DFSchema) -> Result<()> {
    let [document] = arguments else { return Ok(()) };
    if !matches!(function, "min" | "max") || !jsonb::is_jsonb(document, schema) {
        return Ok(());
    }
    let message = format!("function {function}(jsonb) does not exist");
    Err(SqlError::new(SqlState::UndefinedFunction, message).into())
}

/// `variance` or one of its like, of integers and decimals.
fn exact_spread(function: &str, arguments: &[Expr], schema: &DFSchema) -> Option<Arc<AggregateUDF>> {
    let spread = Spread::of(function)?;
    let [argument] = arguments else { return None };
    Spread::is_exact(&argument.get_type(schema).ok()?).then(|| spread.function())
}

/// The same of floats.
fn float_spread(function: &str, arguments: &[Expr], schema: &DFSchema) -> Option<Arc<AggregateUDF>> {
    let spread = Spread::of(function)?;
    let [argument] = arguments else { return None };
    let is_float = matches!(argument.get_type(schema).ok()?, DataType::Float32 | DataType::Float64);
    is_float.then(|| float_spreads::function(spread))
}

/// `median` of floats, of which DataFusion finds those of groups slowly.
fn median(function: &str, arguments: &[Expr], schema: &DFSchema) -> Option<Arc<AggregateUDF>> {
    let [argument] = arguments else { return None };
    let is_float = argument.get_type(schema).ok()? == DataType::Float64;
    (function == "median" && is_float).then(float_medians::function)
}

/// `min` or `max` of values whose order is not the one that DataFusion finds it by, and of texts, of which it finds it slowly.
fn extreme_by_order(function: &str, arguments: &[Expr], schema: &DFSchema) -> Option<Arc<AggregateUDF>> {
    let (interval, extreme) = (Best::of(function)?, Extreme::of(function)?);
    let [argument] = arguments else { return None };
    match argument.get_type(schema).ok()? {
        DataType::Interval(_) => Some(interval.function()),
        DataType::Float32 | DataType::Float64 => Some(extreme.function()),
        DataType::Utf8View => Some(text_extremes::function(extreme)),
        _ => None,
    }
}

/// Arguments that may fail are computed for those rows alone that the filter leaves; whether there are any.
fn guard_arguments(call: &mut AggregateFunction, schema: &DFSchema) -> Result<bool> {
    let Some(filter) = &call.params.filter else { return Ok(false) };
    let is_ordered_set = call.func.name() == ORDERED_SET;
    let mut is_changed = false;
    for argument in call.params.args.iter_mut().filter(|argument| !is_plain(argument)) {
        let guarded = when(filter.as_ref().clone(), argument.clone()).end()?;
        // The order of documents is not that of their texts.
        let document = if is_ordered_set { documents::kept(&guarded, schema)? } else { None };
        *argument = document.unwrap_or(guarded);
        is_changed = true;
    }
    Ok(is_changed)
}

/// Whether nothing is computed; or is guarded already.
fn is_plain(argument: &Expr) -> bool {
    match argument {
        Expr::Column(_)
        | Expr::Literal(..)
        | Expr::Placeholder(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::Case(_) => true,
        Expr::Cast(Cast { expr, .. }) => matches!(expr.as_ref(), Expr::Literal(..)),
        _ => false,
    }
}
