// SPDX-License-Identifier: Apache-2.0
//! Types that are settled as PostgreSQL settles them, once the types of all operands are known.

use super::arrays::array_literal;
use super::choice_by_key::Choice;
use super::compared::{settle_between, settle_list, settle_operands};
use super::comparisons::{Operand, is_text_literal};
use super::conditions::refuse_others;
use super::declared::{is_char, without_blanks};
use super::instants::{midnight_of, settle_choices, settle_nullif};
use super::intervals::length;
use super::numbers::{nullable, quotient};
use super::reals::{mixes_real_and_integer, settled_nullif};
use super::set_operations::{is_set_operation, settle_join, settle_union};
use super::sums::sum_of_bigint;
use super::zoned_times::is_zoned_time;
use super::{
    aggregates, any_numeric, array_keys, bits, comparisons, documents, group_keys, in_subquery, jsonb,
    merged, orderless, padded, subquery_order, trimmed, window_keys,
};
use crate::error::SqlError;
use crate::functions::{BITS_LENGTH, BYTES_LENGTH};
use crate::guarded::is_comparison;
use crate::query::float_zeros::pair_without_signs;
use crate::query::matching::heeding_at_once;
use crate::query::rewriting::{Below, rewrite_node, rewrite_plan};
use crate::scalar::cast_function::{call_parts, called, is_own, literal_as};
use crate::scalar::decimal_literal;
use crate::types::any_numeric::parse_number;
use crate::types::{
    arrow_type_gives_way, cannot_cast, column_type_of_arrow, common_arrow_type, no_operator,
    require_common_type, type_in_words,
};
use arrow::datatypes::{DataType, Field};
use coeval_store::{ColumnType, ElementType, EnumType, NUMERIC_PRECISION_MAX, Value};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, Placeholder, ScalarFunction, WindowFunction,
};
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, Expr, ExprSchemable, Like, LogicalPlan, Operator, cast, lit, not, when,
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

/// `text || x` with `x` as the text that PostgreSQL writes of it; `None` if it is right as it is.
pub(super) fn concatenation(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(None);
    };
    if any_numeric::is_any_numeric(&left_type) && any_numeric::is_any_numeric(&right_type) {
        // DataFusion would join their bytes.
        return Err(no_operator(&type_in_words(&left_type), &"||", &type_in_words(&right_type)).into());
    }
    let is_bytes = |ty: &DataType| column_type_of_arrow(ty) == Some(ColumnType::Bytea);
    // A literal beside bytes is bytes.
    let is_bytes_literal = |side: &Expr, ty: &DataType, other: &DataType| {
        let is_literal = matches!(side, Expr::Literal(..) | Expr::Placeholder(_));
        is_literal && is_bytes(other) && (ty.is_string() || ty.is_null())
    };
    if let Some(bits) = bits::joined((left, &left_type), (right, &right_type))? {
        return Ok(Some(bits));
    }
    let is_written = |ty: &DataType| !ty.is_string() && !ty.is_null() && !matches!(ty, DataType::List(_));
    let as_type = |side: &Expr, ty| literal_as(side.clone(), ty);
    let (left, right) = if is_bytes_literal(left, &left_type, &right_type) {
        (as_type(left, ColumnType::Bytea)?, right.clone())
    } else if is_bytes_literal(right, &right_type, &left_type) {
        (left.clone(), as_type(right, ColumnType::Bytea)?)
    } else if left_type.is_string() && is_written(&right_type) {
        (left.clone(), as_type(right, ColumnType::Text)?)
    } else if right_type.is_string() && is_written(&left_type) {
        (as_type(left, ColumnType::Text)?, right.clone())
    } else {
        return Ok(None);
    };
    let joined = BinaryExpr::new(Box::new(left), Operator::StringConcat, Box::new(right));
    Ok(Some(Expr::BinaryExpr(joined)))
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

/// [`comparable`], of two operands.
pub(super) fn comparable_pair(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<(Expr, Expr)>> {
    let settled = comparable(&[left.clone(), right.clone()], schema)?;
    Ok(settled.and_then(|operands| <[Expr; 2]>::try_from(operands).ok()).map(Into::into))
}

/// Operands of one comparison, of one type: what stands beside a `char(n)` without blanks at its end, floats beside `numeric` and a `real` beside
/// integers as `double precision`, intervals by their length, local times beside those with a zone as times of the session's zone. `None` if they are right as they
/// are.
pub(super) fn comparable(operands: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    if let Some(documents) = jsonb::comparable(operands, schema)? {
        return Ok(Some(documents));
    }
    if let Some(numbers) = any_numeric::comparable(operands, schema)? {
        return Ok(Some(numbers));
    }
    if let Some(trimmed) = trimmed::comparable(operands, schema)? {
        return Ok(Some(trimmed));
    }
    if mixes_float_and_numeric(operands, schema) || mixes_real_and_integer(operands, schema) {
        return Ok(Some(doubles(operands, schema)));
    }
    let types: Vec<DataType> = operands.iter().filter_map(|operand| operand.get_type(schema).ok()).collect();
    if types.len() == operands.len()
        && let Some(lengths) = lengths(operands, &types)?
    {
        return Ok(Some(lengths));
    }
    if types.len() == operands.len()
        && let Some(zoned) = zoned_times(operands, &types)?
    {
        return Ok(Some(zoned));
    }
    if types.len() == operands.len()
        && let Some(dates) = as_dates(operands, &types, schema)
    {
        return Ok(Some(dates));
    }
    let is_local =
        |ty: &DataType| matches!(ty, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64);
    let is_zoned = |ty: &DataType| matches!(ty, DataType::Timestamp(_, Some(_)));
    let is_date = |ty: &DataType| *ty == DataType::Date32;
    let has = |is: &dyn Fn(&DataType) -> bool| types.iter().any(is);
    // Of dates beside local times DataFusion makes nanoseconds, which end in 2262.
    let (is_moved, common): (&dyn Fn(&DataType) -> bool, _) = if has(&is_local) && has(&is_zoned) {
        (&is_local, ColumnType::TimestampTz)
    } else if has(&is_date) && has(&|ty| matches!(ty, DataType::Timestamp(_, None))) {
        (&is_date, ColumnType::Timestamp)
    } else {
        return Ok(None);
    };
    let settled = |operand: &Expr| match operand.get_type(schema) {
        Ok(ty) if is_moved(&ty) => literal_as(operand.clone(), common),
        _ => Ok(operand.clone()),
    };
    Ok(Some(operands.iter().map(settled).collect::<Result<_, _>>()?))
}

/// Intervals by their length, times beside them as intervals; `None` of anything else.
fn lengths(operands: &[Expr], types: &[DataType]) -> Result<Option<Vec<Expr>>> {
    let is_interval = |ty: &DataType| matches!(ty, DataType::Interval(_));
    let is_time = |ty: &DataType| matches!(ty, DataType::Time64(_));
    if !types.iter().any(is_interval) || !types.iter().all(|ty| is_interval(ty) || is_time(ty)) {
        return Ok(None);
    }
    let span = |(operand, ty): (&Expr, &DataType)| match is_time(ty) {
        true => literal_as(operand.clone(), ColumnType::Interval),
        false => Ok(operand.clone()),
    };
    let spans = operands.iter().zip(types).map(span).collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Some(spans.into_iter().map(length).collect()))
}

/// Times beside such with a zone as times of today in the session's zone; `None` of anything else.
fn zoned_times(operands: &[Expr], types: &[DataType]) -> Result<Option<Vec<Expr>>> {
    let is_time = |ty: &DataType| matches!(ty, DataType::Time64(_));
    let are_both = types.iter().any(is_zoned_time) && types.iter().any(is_time);
    if !are_both || !types.iter().all(|ty| is_zoned_time(ty) || is_time(ty)) {
        return Ok(None);
    }
    let zoned = |(operand, ty): (&Expr, &DataType)| match is_time(ty) {
        true => literal_as(operand.clone(), ColumnType::TimeTz),
        false => Ok(operand.clone()),
    };
    Ok(Some(operands.iter().zip(types).map(zoned).collect::<Result<_, SqlError>>()?))
}

/// Dates beside midnights of other dates, all as dates: what a table's chunks and keys are looked up by. `None` of anything
/// else.
fn as_dates(operands: &[Expr], types: &[DataType], schema: &DFSchema) -> Option<Vec<Expr>> {
    let is_date = |ty: &DataType| *ty == DataType::Date32;
    if !types.iter().any(is_date) || types.iter().all(is_date) {
        return None;
    }
    let date =
        |(operand, ty)| if is_date(ty) { Some(Expr::clone(operand)) } else { midnight_of(operand, schema) };
    operands.iter().zip(types).map(date).collect()
}

/// Floats and `numeric` of which one is chosen, all of one type; `None` if there are not both, or others that have none in common
/// with them.
pub(super) fn floats_of_one_type(choices: &[Expr], schema: &DFSchema) -> Option<Vec<Expr>> {
    if !mixes_float_and_numeric(choices, schema) {
        return None;
    }
    let types = choices.iter().map(|choice| choice.get_type(schema)).collect::<Result<Vec<_>>>().ok()?;
    let ty = common_arrow_type(types.iter().filter(|ty| !ty.is_string()))?;
    Some(choices.iter().map(|choice| as_type(choice.clone(), &ty, schema)).collect())
}

/// Whether there are floats among the expressions, and `numeric`.
fn mixes_float_and_numeric<'a>(expressions: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    let (mut floats, mut decimals) = (false, false);
    for ty in expressions.into_iter().filter_map(|expression| expression.get_type(schema).ok()) {
        floats |= ty.is_floating();
        decimals |= ty.is_decimal() || any_numeric::is_any_numeric(&ty);
    }
    floats && decimals
}

/// The expressions, each as a `double precision`.
pub(super) fn doubles<'a>(expressions: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Vec<Expr> {
    expressions
        .into_iter()
        .map(|expression| as_type(expression.clone(), &DataType::Float64, schema))
        .collect()
}

fn as_type(expression: Expr, ty: &DataType, schema: &DFSchema) -> Expr {
    match expression.get_type(schema) {
        Ok(known) if known == *ty || known.is_null() => expression,
        _ => Expr::Cast(Cast::new(Box::new(expression), ty.clone())),
    }
}

/// The results of a CASE, all of one type: what a query is told of its columns is what the first of them says.
fn settle_case(case: &Case, schema: &DFSchema) -> Result<Option<Expr>> {
    // Before texts among them are read as times, as if all were literals.
    require_results(case, schema)?;
    let mut case = case.clone();
    let is_changed = settle_cases(&mut case, schema)?
        | make_arrays("CASE", results_of(&mut case), schema)?
        | settle_choices(results_of(&mut case), schema)?
        | read_choices(results_of(&mut case), schema)?;
    Ok(with_one_type(&case, schema).or_else(|| is_changed.then_some(Expr::Case(case))))
}

/// Refuses results of a CASE that have no type in common; literals are of the type of the others.
///
/// # Errors
/// `42804` and `42846`.
fn require_results(case: &Case, schema: &DFSchema) -> Result<()> {
    let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    let results = case.else_expr.as_deref().into_iter().chain(thens);
    let known = results.filter(|result| !is_text_literal(result));
    let types = known.map(|result| result.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(()) };
    Ok(require_common_type("CASE", &types)?)
}

/// Text literals among expressions of one type as values of the type that the others have; whether there are any. Texts stay.
///
/// # Errors
/// `22P02` for a literal that is no value of the type.
fn read_choices(choices: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let known: Vec<&Expr> =
        choices.iter().map(|choice| &**choice).filter(|one| !is_text_literal(one)).collect();
    if known.len() == choices.len() {
        return Ok(false);
    }
    let types = known.iter().map(|choice| choice.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(false) };
    let typed = known.into_iter().zip(&types).filter(|(_, ty)| !ty.is_null());
    let taken =
        typed.reduce(|so_far, next| if arrow_type_gives_way(so_far.1, next.1) { next } else { so_far });
    let Some((other, _)) = taken.filter(|(_, ty)| !ty.is_string()) else { return Ok(false) };
    let other = other.clone();
    let mut is_changed = false;
    for choice in choices.into_iter().filter(|choice| is_text_literal(choice)) {
        if let Some(read) = beside(choice, &other, schema)? {
            *choice = read;
            is_changed = true;
        }
    }
    Ok(is_changed)
}

/// Refuses expressions of which one is chosen and that have no type in common: DataFusion makes texts of all.
///
/// # Errors
/// `42804` and `42846`.
pub(super) fn require_choices(construct: &str, choices: &[Expr], schema: &DFSchema) -> Result<()> {
    let known = choices.iter().filter(|choice| !is_text_literal(choice));
    let types: Vec<DataType> = known.filter_map(|choice| choice.get_type(schema).ok()).collect();
    Ok(require_common_type(construct, &types)?)
}

fn results_of(case: &mut Case) -> Vec<&mut Expr> {
    let results = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr);
    results.map(AsMut::as_mut).collect()
}

/// Makes what a CASE compares with each other comparable; whether something was not.
fn settle_cases(case: &mut Case, schema: &DFSchema) -> Result<bool> {
    let Some(input) = &case.expr else { return Ok(false) };
    let candidates = case.when_then_expr.iter().map(|(candidate, _)| ("=", candidate.as_ref()));
    let own = Operand::of_case(input, schema);
    let Some(operands) = settle_operands((input.as_ref(), own), candidates, schema)? else {
        return Ok(false);
    };
    let mut operands = operands.into_iter();
    case.expr = operands.next().map(Box::new);
    for ((candidate, _), settled) in case.when_then_expr.iter_mut().zip(operands) {
        **candidate = settled;
    }
    Ok(true)
}

/// Makes text literals among arrays arrays, too, among values of an enum its labels, and among places in a log places; whether
/// there are any.
fn make_arrays(construct: &str, mut choices: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let list = |choice: &&mut Expr| match choice.get_type(schema) {
        Ok(DataType::List(element)) => Some(element),
        _ => None,
    };
    let Some(element) = choices.iter().find_map(list) else {
        return make_labels(construct, &mut choices, schema);
    };
    let mut has_literals = false;
    for choice in &mut choices {
        if let Expr::Literal(scalar, _) = &**choice
            && let Some(text) = scalar.try_as_str().flatten()
        {
            **choice = array_literal(text, element.data_type())?;
            has_literals = true;
        }
    }
    Ok(has_literals)
}

/// Makes text literals among values of an enum its labels, and among places in a log, times with a zone and bit strings such; whether
/// there are any.
///
/// # Errors
/// `42804` and `42846` for something of another type among them.
pub(super) fn make_labels(construct: &str, choices: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    let strict = |choice: &&mut Expr| {
        let ty = choice.get_type(schema).ok()?;
        let others = [ColumnType::PgLsn, ColumnType::TimeTz, ColumnType::Bit(None)];
        EnumType::of_arrow(&ty)
            .map(ColumnType::Enum)
            .or_else(|| others.into_iter().find(|other| other.arrow() == ty))
    };
    let Some(ty) = choices.iter().find_map(strict) else { return Ok(false) };
    let (mut types, mut has_literals) = (Vec::new(), false);
    for choice in choices {
        if matches!(&**choice, Expr::Literal(scalar, _) if scalar.try_as_str().flatten().is_some()) {
            **choice = literal_as(choice.clone(), ty)?;
            has_literals = true;
        } else {
            types.push(choice.get_type(schema)?);
        }
    }
    require_common_type(construct, &types)?;
    Ok(has_literals)
}

fn with_one_type(case: &Case, schema: &DFSchema) -> Option<Expr> {
    let results =
        || case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(case.else_expr.as_deref());
    let types = results().map(|result| result.get_type(schema)).collect::<Result<Vec<_>>>().ok()?;
    let ty = common_arrow_type(&types)?;
    if types.iter().all(|own| own.is_null() || *own == ty) {
        return None;
    }
    let mut case = case.clone();
    for result in case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr) {
        **result = as_type(result.as_ref().clone(), &ty, schema);
    }
    Some(Expr::Case(case))
}

/// A function that gives one of its arguments, floats and `numeric` as floats, literals among arrays as arrays.
///
/// # Errors
/// `42804` and `42846` for arguments that have no type in common.
fn settle_choice(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let call =
        |arguments| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&function.func), arguments));
    if let ("array_has", [list, element]) = (function.name(), &function.args[..]) {
        return Ok(sought(list, element, schema)?.map(call));
    }
    comparisons::require_sought(function, schema)?;
    if function.name() == "make_array" {
        require_choices("ARRAY", &function.args, schema)?;
        if let Some(floats) = floats_of_one_type(&function.args, schema) {
            return Ok(Some(call(floats)));
        }
        let mut elements = function.args.clone();
        let is_changed = settle_choices(elements.iter_mut().collect(), schema)?
            | jsonb::settle_elements(&mut elements, schema)?
            | make_labels("ARRAY", &mut elements.iter_mut().collect::<Vec<_>>(), schema)?
            | read_choices(elements.iter_mut().collect(), schema)?;
        return Ok(is_changed.then(|| call(elements)));
    }
    if !matches!(function.name(), "coalesce" | "greatest" | "least" | "nullif") {
        return Ok(None);
    }
    let construct = function.name().to_uppercase();
    match &function.args[..] {
        [left, right] if function.name() == "nullif" => comparisons::require(left, &"=", right, schema)?,
        choices => require_choices(&construct, choices, schema)?,
    }
    if let Some(settled) = any_numeric::settle_choice(function, schema)? {
        return Ok(Some(settled));
    }
    if function.name() != "coalesce"
        && let Some(settled) = jsonb::settle_choice(function, schema)?
    {
        return Ok(Some(settled));
    }
    if function.name() == "nullif"
        && let Some(settled) = settle_nullif(function, schema)?
    {
        return Ok(Some(settled));
    }
    if function.name() == "nullif"
        && let Some(settled) = settled_nullif(function, schema)?
    {
        return Ok(Some(settled));
    }
    if let ([left, right], "nullif") = (&function.args[..], function.name())
        && is_char(left, schema)
        && let Some(read) = without_blanks(right)
    {
        return Ok(Some(call(vec![left.clone(), read])));
    }
    let read = with_read_literals(function, schema)?;
    let has_read = read.args != function.args;
    let function = &read;
    if let Some(chosen) = choice_by_key(function, schema) {
        return Ok(Some(chosen));
    }
    if let Some(floats) = floats_of_one_type(&function.args, schema) {
        return Ok(Some(call(floats)));
    }
    let mut arguments = function.args.clone();
    let is_null =
        |argument: &Expr| matches!(argument, Expr::Literal(scalar, _) if scalar.data_type().is_null());
    if function.name() != "nullif" && arguments.iter().any(is_null) && !arguments.iter().all(is_null) {
        // Some types have no NULL that DataFusion makes one of them.
        arguments.retain(|argument| !is_null(argument));
    }
    let is_shorter = arguments.len() < function.args.len();
    let is_changed = make_arrays(&construct, arguments.iter_mut().collect(), schema)?
        || (function.name() != "nullif" && settle_choices(arguments.iter_mut().collect(), schema)?);
    Ok((is_changed || is_shorter || has_read).then(|| call(arguments)))
}

/// An array and what is looked for in it, of types that compare; `None` if they are right as they are.
fn sought(list: &Expr, element: &Expr, schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    match read_element(list, element, schema)? {
        None => among_doubles(list, element, schema),
        read => Ok(read),
    }
}

/// A text literal that is looked for in an array as a value of its elements' type; `None` of all else, which is right as it is.
///
/// # Errors
/// `22P02` for a literal that is no such value.
fn read_element(list: &Expr, element: &Expr, schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let DataType::List(item) = list.get_type(schema)? else { return Ok(None) };
    let ty = item.data_type();
    let Expr::Literal(scalar, _) = element else { return Ok(None) };
    if matches!(Operand::of_elements(list, schema), Operand::Of(ColumnType::Char(_))) {
        return Ok(without_blanks(element).map(|element| vec![list.clone(), element]));
    }
    if ty.is_string() || ty.is_null() || !scalar.data_type().is_string() {
        return Ok(None);
    }
    let Some(to) = column_type_of_arrow(ty) else { return Ok(None) };
    match (scalar.try_as_str().flatten(), to) {
        (Some(text), ColumnType::Numeric { .. }) => Ok(Some(among_decimals(list, ty, &decimal(text)?)?)),
        _ => Ok(Some(vec![list.clone(), literal_as(element.clone(), to)?])),
    }
}

/// An array of `numeric`, whose elements are of this type, and a number that is looked for in it, both with all digits that either
/// has: the number came when the types of both were settled.
fn among_decimals(list: &Expr, ty: &DataType, number: &Expr) -> Result<Vec<Expr>> {
    let as_they_are = || Ok(vec![list.clone(), number.clone()]);
    let Expr::Literal(scalar, _) = number else { return as_they_are() };
    let (DataType::Decimal128(digits, scale), DataType::Decimal128(own_digits, own_scale)) =
        (ty, scalar.data_type())
    else {
        return as_they_are();
    };
    let whole = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
    let common_scale = own_scale.max(*scale);
    let needed = whole(*digits, *scale).max(whole(own_digits, own_scale)) + i16::from(common_scale);
    let common_digits = u8::try_from(needed).unwrap_or(NUMERIC_PRECISION_MAX).min(NUMERIC_PRECISION_MAX);
    let common = DataType::Decimal128(common_digits, common_scale);
    let number = Expr::Literal(scalar.cast_to(&common)?, None);
    if common == *ty {
        return Ok(vec![list.clone(), number]);
    }
    let lists = DataType::List(Arc::new(Field::new_list_field(common, true)));
    Ok(vec![cast(list.clone(), lists), number])
}

/// An array and a number that is looked for in it, of which one is of floats and the other one of exact numbers, both as `double precision`;
/// `None` of others.
fn among_doubles(list: &Expr, element: &Expr, schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let (DataType::List(item), ty) = (list.get_type(schema)?, element.get_type(schema)?) else {
        return Ok(None);
    };
    let is_exact = |ty: &DataType| any_numeric::is_any_numeric(ty) || any_numeric::is_other_exact(ty);
    let member = item.data_type();
    if !((member.is_floating() && is_exact(&ty)) || (is_exact(member) && ty.is_floating())) {
        return Ok(None);
    }
    let list = match member {
        DataType::Float64 => list.clone(),
        member if any_numeric::is_any_numeric(member) => {
            called(list.clone(), ColumnType::Array(ElementType::Double))?
        }
        _ => {
            let doubles = DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
            cast(list.clone(), doubles)
        }
    };
    let element = match any_numeric::is_any_numeric(&ty) {
        true => called(element.clone(), ColumnType::Double)?,
        false => as_type(element.clone(), &DataType::Float64, schema),
    };
    Ok(Some(vec![list, element]))
}

/// The call with text literals as values of the type that its other arguments have.
fn with_read_literals(function: &ScalarFunction, schema: &DFSchema) -> Result<ScalarFunction> {
    let mut function = function.clone();
    let construct = function.name().to_uppercase();
    make_arrays(&construct, function.args.iter_mut().collect(), schema)?;
    read_choices(function.args.iter_mut().collect(), schema)?;
    Ok(function)
}

/// `greatest` and `least` of intervals, by their length, and of arrays, in which NULL is above all else; `None` of anything else.
fn choice_by_key(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let choice = Choice::of(function.name())?;
    let types =
        function.args.iter().map(|argument| argument.get_type(schema)).collect::<Result<Vec<_>>>().ok()?;
    let mut known = types.iter().filter(|ty| !ty.is_null());
    let first = known.next()?;
    if !known.all(|ty| ty == first) {
        return None;
    }
    let key = |argument: &Expr| match first {
        DataType::Interval(_) => Some(length(argument.clone())),
        DataType::List(_) => Some(argument.clone()),
        _ => None,
    };
    let known = function.args.iter().zip(&types).filter(|(_, ty)| !ty.is_null());
    let pairs = known.map(|(argument, _)| Some((key(argument)?, argument.clone())));
    Some(choice.among(pairs.collect::<Option<Vec<_>>>()?))
}

/// A call that is a cast of our own, or rounds; `None` if it is right as it is.
fn settle_own_cast(call: &Expr, function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
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

/// Two operands with a literal among them of the other's type; `None` if they are right as they are.
pub(super) fn pair(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<(Expr, Expr)>> {
    if let Some(right) = beside(right, left, schema)? {
        return Ok(Some((left.clone(), right)));
    }
    Ok(beside(left, right, schema)?.map(|left| (left, right.clone())))
}

/// A text literal as one of the type of what it stands beside; `None` if it is none, or stays text.
pub(super) fn beside(literal: &Expr, other: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::Literal(scalar, _) = literal else { return Ok(None) };
    let Some(text) = scalar.try_as_str().flatten() else { return Ok(None) };
    if is_char(other, schema) {
        return Ok(without_blanks(literal));
    }
    let Ok(ty) = other.get_type(schema) else { return Ok(None) };
    if let DataType::List(element) = &ty {
        return Ok(Some(array_literal(text, element.data_type())?));
    }
    Ok(match column_type_of_arrow(&ty) {
        _ if ty == DataType::Null => None,
        None | Some(ColumnType::Text) => None,
        Some(ColumnType::Numeric { .. }) => Some(decimal(text)?),
        Some(to) => Some(literal_as(literal.clone(), to)?),
    })
}

/// A number with the digits that it is written with; one that has too many for a `numeric` with digits, or is none, without.
fn decimal(text: &str) -> Result<Expr, SqlError> {
    let (value, ty) = match decimal_literal(text) {
        Ok(exact) => exact,
        Err(_) => (Value::Number(parse_number(text)?), ColumnType::AnyNumeric),
    };
    let scalar: ScalarValue = crate::types::scalar_of(&value, ty)?;
    Ok(Expr::Literal(scalar, None))
}
