// SPDX-License-Identifier: Apache-2.0
//! Types that are settled as PostgreSQL settles them, once the types of all operands are known.

use super::beside::pair;
use super::choices::{settle_case, settle_choice};
use super::comparable::comparable_pair;
use super::compared::{settle_between, settle_list};
use super::conditions::refuse_others;
use super::literals::TO_NUMERIC;
use super::numbers::{nullable, quotient};
use super::set_operations::{is_set_operation, settle_join, settle_union};
use super::sums::sum_of_bigint;
use super::zoned_times::is_zoned_time;
use super::{
    aggregates, any_numeric, array_keys, comparisons, documents, group_keys, in_subquery, jsonb, merged,
    orderless, padded, subquery_order, window_keys,
};
use crate::functions::{BITS_LENGTH, BYTES_LENGTH};
use crate::guarded::is_comparison;
use crate::query::float_zeros::pair_without_signs;
use crate::query::matching::heeding_at_once;
use crate::query::rewriting::{Below, rewrite_node, rewrite_plan};
use crate::scalar::cast_function::{call_parts, called, is_own, literal_as};
use crate::types::{cannot_cast, column_type_of_arrow, no_operator, type_in_words};
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, EnumType, NUMERIC_PRECISION_MAX};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, Placeholder, ScalarFunction, WindowFunction,
};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, Like, LogicalPlan, Operator, lit, not, when,
};
use std::sync::Arc;

/// Digits of a sum of `bigint`, as many as there are.
const SUM_PRECISION: u8 = 38;

/// The plan with sums of `bigint` as `numeric`, operands of a comparison and branches of CASE, COALESCE and UNION
/// of one type, literals in BETWEEN and IN of the type beside them, and scalar subqueries that may be NULL.
pub(crate) fn settled(plan: LogicalPlan) -> Result<LogicalPlan> {
    // The planner makes schemas before all marks of types are there, so each is made anew, whatever was changed below.
    let mut settle_plan = |plan: LogicalPlan, _| {
        orderless::refuse_in_node(&plan)?;
        match plan {
            LogicalPlan::Union(union) => settle_union(union),
            LogicalPlan::Join(join) if is_set_operation(&join) => settle_join(join),
            plan => {
                if let LogicalPlan::Join(join) = &plan {
                    comparisons::require_keys(join)?;
                }
                rewrite_node(plan, Below::Changed, may_be_settled, &settle)?
                    .transform_data(subquery_order::settle)?
                    .transform_data(jsonb::settle_sort)?
                    .transform_data(window_keys::settle_sort)?
                    .transform_data(array_keys::settle_sort)?
                    .transform_data(group_keys::settle)?
                    .transform_data(any_numeric::settle_recursion)
            }
        }
    };
    rewrite_plan(plan, &mut settle_plan).map(|done| done.data)
}

/// Whether [`settle`] looks at a part of an expression.
const fn may_be_settled(part: &Expr) -> bool {
    !matches!(part, Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_))
}

/// The same for an expression that is in no plan.
pub(crate) fn settled_expression(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    expression.transform_up(|part| settle(part, schema)).map(|done| done.data)
}

/// One part of an expression, whose operands are settled.
pub(super) fn settle(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    refuse_others(&expression, schema)?;
    orderless::refuse_in_call(&expression, schema)?;
    if let Expr::ScalarFunction(call) = &expression
        && let Some(one) = merged::settled(call, schema)?
    {
        return Ok(Transformed::yes(settle(one, schema)?.data));
    }
    if let Some(padded) = padded::settled(&expression, schema)? {
        return Ok(Transformed::yes(settle(padded, schema)?.data));
    }
    if let Some(numbers) = any_numeric::settled(&expression, schema)? {
        return Ok(Transformed::yes(settle(numbers, schema)?.data));
    }
    let settled = match &expression {
        Expr::AggregateFunction(call) => {
            let settled = aggregates::settled(call, schema)?;
            match exact_sum(settled.as_ref().unwrap_or(call), schema) {
                Some(sum) => Some(sum),
                None => settled.map(Expr::AggregateFunction),
            }
        }
        Expr::InSubquery(within) => in_subquery::settle_in(within, schema)?,
        Expr::SetComparison(comparison) => in_subquery::settle_any(comparison, schema)?,
        Expr::WindowFunction(call) => match aggregates::settled_window(call, schema)? {
            Some(call) => {
                Some(exact_window_sum(&call, schema).unwrap_or(Expr::WindowFunction(Box::new(call))))
            }
            None => exact_window_sum(call, schema),
        },
        Expr::BinaryExpr(comparison) if is_comparison(comparison.op) => {
            settle_comparison(comparison, schema)?
        }
        Expr::Cast(cast) => settle_cast(cast, schema)?,
        Expr::Like(like) => match refuse_pattern(like, schema)? {
            None => heeding_at_once(&expression, schema)?,
            settled => settled,
        },
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right }) => exact(left, right, schema),
        Expr::BinaryExpr(operation) => match jsonb::concatenated(operation, schema)? {
            None => heeding_at_once(&expression, schema)?,
            documents => documents,
        },
        Expr::Between(between) => settle_between(between, schema)?,
        Expr::InList(list) => settle_list(list, schema)?,
        Expr::Case(case) => settle_case(case, schema)?,
        Expr::ScalarFunction(function) => match settle_own_cast(&expression, function, schema)? {
            Some(settled) => Some(settled),
            None => match settle_choice(function, schema)? {
                None => match settle_text(function, schema)? {
                    None => settle_texts(function, schema)?,
                    settled => settled,
                },
                settled => settled,
            },
        },
        Expr::ScalarSubquery(subquery) if !subquery.subquery.schema().field(0).is_nullable() => {
            // What keeps a document may be NULL itself.
            let document = documents::kept(&expression, schema)?;
            Some(document.unwrap_or_else(|| nullable(expression.clone())))
        }
        _ => None,
    };
    if let Some(document) = documents::kept(settled.as_ref().unwrap_or(&expression), schema)? {
        return Ok(Transformed::yes(document));
    }
    Ok(settled.map_or_else(|| Transformed::no(expression), Transformed::yes))
}

/// A comparison whose operands are of types that compare; `None` if it is right as it is.
fn settle_comparison(comparison: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let BinaryExpr { left, op, right } = comparison;
    comparisons::require_of(comparison, schema)?;
    let settled = match pair(left, right, schema)? {
        Some((left, right)) => Some(numbers_of_pair(&left, &right, schema)?.unwrap_or((left, right))),
        None => comparable_pair(left, right, schema)?,
    };
    let operands = settled.as_ref().map_or((left.as_ref(), right.as_ref()), |(left, right)| (left, right));
    let settled = pair_without_signs(operands.0, operands.1).or(settled);
    Ok(settled.map(|(left, right)| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right)))))
}

/// A cast that DataFusion does not do as PostgreSQL does; `None` if it is right as it is.
fn settle_cast(cast: &Cast, schema: &DFSchema) -> Result<Option<Expr>> {
    refuse_cast(cast, schema)?;
    if let Some(settled) = settle_parameter(cast)? {
        return Ok(Some(settled));
    }
    let Ok(from) = cast.expr.get_type(schema) else { return Ok(None) };
    let to = cast.field.data_type();
    if from == ColumnType::Bit(None).arrow()
        && to.is_integer()
        && let Some(ty) = column_type_of_arrow(to)
    {
        return Ok(Some(called(cast.expr.as_ref().clone(), ty)?));
    }
    if from.is_string()
        && let Some(ty) = column_type_of_arrow(to)
        && let Some(said) = jsonb::settled_cast(&cast.expr, ty, schema)?
    {
        return Ok(Some(said));
    }
    Ok(any_numeric::settled_cast(&cast.expr, &from, to)?)
}

/// The cast of a parameter whose type the client has declared; `None` if it is right as it is. One without a declared
/// type has that of the cast.
fn settle_parameter(cast: &Cast) -> Result<Option<Expr>> {
    if cast.field.data_type().is_string() && documents::is_parameter(&cast.expr) {
        return Ok(Some(literal_as(cast.expr.as_ref().clone(), ColumnType::Text)?));
    }
    let Expr::Placeholder(Placeholder { field: Some(declared), .. }) = cast.expr.as_ref() else {
        return Ok(None);
    };
    let to = cast.field.data_type();
    match column_type_of_arrow(to) {
        Some(ty) if declared.data_type() != to && is_own(ty) => {
            Ok(Some(literal_as(cast.expr.as_ref().clone(), ty)?))
        }
        Some(_) | None => Ok(None),
    }
}

/// `42846` for a cast of an enum, of a place in a log, or of a time with a zone, to anything but text and `time`, which is another function's, and for those
/// between times, numbers and truth values that Arrow has and PostgreSQL has not.
fn refuse_cast(cast: &Cast, schema: &DFSchema) -> Result<()> {
    let (Ok(from), to) = (cast.expr.get_type(schema), cast.field.data_type()) else { return Ok(()) };
    let is_strict =
        EnumType::of_arrow(&from).is_some() || from == ColumnType::PgLsn.arrow() || is_zoned_time(&from);
    let is_refused = match (&from, to) {
        (DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_), to) => {
            to.is_numeric() || *to == DataType::Boolean
        }
        // Of the numbers `int` alone is cast from and to a `boolean`.
        (DataType::Boolean, to) => to.is_numeric() && *to != DataType::Int32,
        (from, DataType::Boolean) => from.is_numeric() && *from != DataType::Int32,
        _ => false,
    };
    if !(is_strict || is_refused) || from == *to {
        return Ok(());
    }
    Err(cannot_cast(&type_in_words(&from), &type_in_words(to)).into())
}

/// `42883` for a pattern that a label or a bit string is matched with.
fn refuse_pattern(like: &Like, schema: &DFSchema) -> Result<Option<Expr>> {
    let Ok(ty) = like.expr.get_type(schema) else { return Ok(None) };
    let name = match EnumType::of_arrow(&ty) {
        Some(ty) => ty.to_string(),
        None if ty == ColumnType::Bit(None).arrow() => type_in_words(&ty),
        None => return Ok(None),
    };
    let operator = match (like.negated, like.case_insensitive) {
        (false, false) => "~~",
        (false, true) => "~~*",
        (true, false) => "!~~",
        (true, true) => "!~~*",
    };
    Err(no_operator(&name, &operator, "text").into())
}

/// `sum` over `bigint` as a `numeric`: without making one of each value, unless different ones are to be found.
fn exact_sum(call: &AggregateFunction, schema: &DFSchema) -> Option<Expr> {
    let wide = widened(call.func.name(), &call.params.args, schema)?;
    let AggregateFunction { func, params } = call.clone();
    let (func, args) = if params.distinct { (func, vec![wide]) } else { (sum_of_bigint(), params.args) };
    let params = AggregateFunctionParams { args, ..params };
    Some(Expr::AggregateFunction(AggregateFunction { func, params }))
}

/// The same over a window.
fn exact_window_sum(call: &WindowFunction, schema: &DFSchema) -> Option<Expr> {
    let wide = widened(call.fun.name(), &call.params.args, schema)?;
    let mut call = call.clone();
    call.params.args = vec![wide];
    Some(Expr::WindowFunction(Box::new(call)))
}

/// A quotient of what is a `numeric` only now, as a sum of `bigint` is: what is above has to know how many digits it has. `None` for
/// quotients of other types.
fn exact(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (left_type, right_type) = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
    if !left_type.is_decimal() && !right_type.is_decimal() {
        return None;
    }
    quotient(left.clone(), &left_type, right.clone(), &right_type)
}

/// The argument of a `sum` over `bigint` as a `numeric`; `None` for anything else.
fn widened(function: &str, arguments: &[Expr], schema: &DFSchema) -> Option<Expr> {
    let [argument] = arguments else { return None };
    let is_sum = function == "sum" && argument.get_type(schema).ok() == Some(DataType::Int64);
    is_sum.then(|| Expr::Cast(Cast::new(Box::new(argument.clone()), DataType::Decimal128(SUM_PRECISION, 0))))
}

/// Two operands of which a literal has become a number of any number of digits, as they are compared; `None` of others.
fn numbers_of_pair(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<(Expr, Expr)>> {
    let settled = any_numeric::comparable(&[left.clone(), right.clone()], schema)?;
    Ok(settled.and_then(|operands| <[Expr; 2]>::try_from(operands).ok()).map(Into::into))
}

/// A call that is a cast of our own, or rounds; `None` if it is right as it is.
fn settle_own_cast(call: &Expr, function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    if let (TO_NUMERIC, [input]) = (function.name(), function.args.as_slice()) {
        return Ok(jsonb::settled_cast(input, ColumnType::AnyNumeric, schema)?);
    }
    match call_parts(call) {
        Some((input, to)) => Ok(jsonb::settled_cast(input, to, schema)?),
        None => Ok(settle_rounding(call, function, schema)),
    }
}

/// A `numeric` that is rounded to so many digits behind the point, with just so many.
fn settle_rounding(call: &Expr, function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let ([input, digits], "round" | "trunc") = (function.args.as_slice(), function.name()) else {
        return None;
    };
    let digits = match digits {
        Expr::Literal(digits, _) => digits,
        Expr::Cast(Cast { expr, .. }) => expr.as_literal()?,
        _ => return None,
    };
    let (Ok(DataType::Decimal128(precision, scale)), Ok(ScalarValue::Int64(Some(digits)))) =
        (input.get_type(schema), digits.cast_to(&DataType::Int64))
    else {
        return None;
    };
    let digits = i8::try_from(digits.max(0)).ok().filter(|&digits| digits != scale)?;
    // One digit more in front of the point: 9.99 is rounded to 10.0.
    let whole = precision.saturating_sub(scale.unsigned_abs()) + 1;
    let all = whole.checked_add(digits.unsigned_abs()).filter(|&all| all <= NUMERIC_PRECISION_MAX)?;
    let ty = DataType::Decimal128(all, digits);
    Some(Expr::Cast(Cast::new(Box::new(call.clone()), ty)))
}

/// A function that writes its arguments, each as PostgreSQL writes it: truth as one letter. `to_hex` of an `int` has
/// the digits of 32 bits.
fn settle_text(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    if function.name() == "to_hex" {
        let [number] = &function.args[..] else { return Ok(None) };
        let is_short = matches!(number.get_type(schema)?, DataType::Int32 | DataType::Int16);
        let bits = || {
            let wide = Expr::Cast(Cast::new(Box::new(number.clone()), DataType::Int64));
            Expr::BinaryExpr(BinaryExpr::new(
                Box::new(wide),
                Operator::BitwiseAnd,
                Box::new(lit(i64::from(u32::MAX))),
            ))
        };
        return Ok(is_short.then(|| {
            Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&function.func), vec![bits()]))
        }));
    }
    if !matches!(function.name(), "concat" | "concat_ws") {
        return Ok(None);
    }
    let mut changed = false;
    let mut arguments = Vec::with_capacity(function.args.len());
    for argument in &function.args {
        let ty = argument.get_type(schema)?;
        if ty.is_string() || ty.is_null() {
            arguments.push(argument.clone());
            continue;
        }
        changed = true;
        arguments.push(match ty {
            DataType::Boolean => {
                when(argument.clone(), lit("t")).when(not(argument.clone()), lit("f")).end()?
            }
            _ => literal_as(argument.clone(), ColumnType::Text)?,
        });
    }
    Ok(changed.then(|| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&function.func), arguments))))
}

/// A function of what `string_agg` gives, whose length DataFusion counts in 64 bits, as of any other text; the length of bytes and of
/// bit strings.
fn settle_texts(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let types = function.args.iter().map(|argument| argument.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let of_length = match types[..] {
        [DataType::BinaryView] => Some(BYTES_LENGTH),
        [DataType::Binary] => Some(BITS_LENGTH),
        _ => None,
    };
    if let Some(length) = of_length.filter(|_| function.name() == "character_length") {
        return Ok(Some(crate::functions::function(length)?.call(function.args.clone())));
    }
    if !types.contains(&DataType::LargeUtf8) {
        return Ok(None);
    }
    let mut function = function.clone();
    for (argument, ty) in function.args.iter_mut().zip(&types) {
        if *ty == DataType::LargeUtf8 {
            *argument = Expr::Cast(Cast::new(Box::new(argument.clone()), DataType::Utf8View));
        }
    }
    Ok(Some(Expr::ScalarFunction(function)))
}
