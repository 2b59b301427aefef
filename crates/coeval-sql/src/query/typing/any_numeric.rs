// SPDX-License-Identifier: Apache-2.0
//! `numeric` without digits in plans, whose Arrow type is one that DataFusion takes for bytes.
//!
//! - Operators are calls of functions. Beside a float such a number is a `double precision`, beside an integer or a `numeric` with digits
//!   these are such numbers.
//! - What is compared, grouped, told apart, sorted or collected in an array is the number without the zeros at its end
//!   (`trim_scale(x)`): `1.0` and `1.00` have other bytes, but then the same ones.

use super::choice_by_key::Choice;
use super::comparisons::{FOUND, MISSING, is_text_literal};
use super::exact_types::{is_any_numeric, is_other_exact};
use super::no_operator::no_operator;
use super::{float_functions, number_functions};
use crate::error::SqlError;
use crate::functions::{
    NUMBER_DIFFERENCE, NUMBER_NEGATED, NUMBER_ORDER, NUMBER_PRODUCT, NUMBER_QUOTIENT, NUMBER_REMAINDER,
    NUMBER_SHORTEST, NUMBER_SUM, ORDERED_SET, function,
};
use crate::scalar::cast_function::{call_parts, called, literal_as};
use crate::types::any_numeric::number_of_decimal;
use crate::types::column_type_of_arrow;
use arrow::datatypes::DataType;
use coeval_store::{AnyNumber, AnyNumberRef, ColumnType, ElementType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, RecursiveQuery, when,
};
use std::sync::Arc;

/// The name of the function that an operator is.
fn function_of(operator: Operator) -> Option<&'static str> {
    Some(match operator {
        Operator::Plus => NUMBER_SUM,
        Operator::Minus => NUMBER_DIFFERENCE,
        Operator::Multiply => NUMBER_PRODUCT,
        Operator::Divide => NUMBER_QUOTIENT,
        Operator::Modulo => NUMBER_REMAINDER,
        _ => return None,
    })
}

/// The operation as a call of the function that stands for it; `None` if neither side is such a number.
///
/// # Errors
/// `42883` for operations that there are not.
pub(super) fn planned(
    operator: Operator,
    raw: &RawBinaryExpr,
    (left, right): (&DataType, &DataType),
) -> Result<Option<Expr>> {
    operation(operator, (&raw.left, left), (&raw.right, right))
}

fn operation(
    operator: Operator,
    (one, left): (&Expr, &DataType),
    (other, right): (&Expr, &DataType),
) -> Result<Option<Expr>> {
    if !is_any_numeric(left) && !is_any_numeric(right) {
        return Ok(None);
    }
    let Some(name) = function_of(operator) else { return Ok(None) };
    let is_number = |ty: &DataType| is_any_numeric(ty) || ty.is_numeric() || ty.is_null();
    if [left, right].into_iter().any(|ty| matches!(ty, DataType::Interval(_) | DataType::FixedSizeBinary(_)))
    {
        // A span of time times a number, and a place in a log so many bytes away, are others'.
        return Ok(None);
    }
    if !is_number(left) || !is_number(right) {
        return Err(no_operator(left, &operator, right).into());
    }
    if left.is_floating() || right.is_floating() {
        let (one, other) = (as_double(one, left)?, as_double(other, right)?);
        return Ok(Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(one), operator, Box::new(other)))));
    }
    Ok(Some(function(name)?.call(vec![one.clone(), other.clone()])))
}

/// A part of an expression whose types became known later than it was planned; `None` if it is right as it is.
///
/// # Errors
/// `42883` for operations that there are not.
pub(super) fn settled(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if function_of(*op).is_some() => {
            // No operator is left that gives such a number; to ask a long chain of them for its type takes the square of its length.
            let may_be = |side: &Expr| !matches!(side, Expr::BinaryExpr(_));
            let is_number =
                |side: &Expr| may_be(side) && side.get_type(schema).is_ok_and(|ty| is_any_numeric(&ty));
            if !is_number(left) && !is_number(right) {
                return Ok(None);
            }
            let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
                return Ok(None);
            };
            operation(*op, (left.as_ref(), &left_type), (right.as_ref(), &right_type))
        }
        Expr::Negative(input) => {
            let is_number = input.get_type(schema).is_ok_and(|ty| is_any_numeric(&ty));
            if !is_number {
                return Ok(None);
            }
            Ok(Some(function(NUMBER_NEGATED)?.call(vec![input.as_ref().clone()])))
        }
        Expr::ScalarFunction(call) => settled_call(call, schema),
        _ => Ok(None),
    }
}

/// Functions of arrays whose other arguments are values that elements of the array may be; but for the third one of `array_position`,
/// which is a subscript.
const OF_ELEMENTS: [&str; 10] = [
    "make_array",
    "array_has",
    FOUND,
    MISSING,
    "array_append",
    "array_prepend",
    POSITION,
    "array_positions",
    "array_remove",
    "array_replace",
];

const POSITION: &str = "array_position";

/// A call with floats beside such numbers, or of a function of floats, as one of floats, and one with arrays of such numbers, or such
/// numbers beside arrays, with elements like those of arrays.
fn settled_call(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let types = call.args.iter().map(|argument| argument.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(None) };
    let is_list = |ty: &DataType| matches!(ty, DataType::List(item) if is_any_numeric(item.data_type()));
    let has_numbers = types.iter().any(is_any_numeric);
    if !has_numbers && !types.iter().any(is_list) {
        return Ok(None);
    }
    if !OF_ELEMENTS.contains(&call.name()) {
        let has_floats = types.iter().any(DataType::is_floating);
        let takes_floats =
            float_functions::is_one(call.name()) || (has_floats && number_functions::is_one(call.name()));
        return if has_numbers && takes_floats { of_floats(call, &types).map(Some) } else { Ok(None) };
    }
    let is_subscript = |place: usize| call.name() == POSITION && place > 1;
    let arguments = call.args.iter().zip(&types).enumerate().map(|(place, (argument, ty))| match ty {
        _ if is_subscript(place) => Ok(argument.clone()),
        ty if is_any_numeric(ty) || is_other_exact(ty) => shortest(as_any_numeric(argument, ty)?),
        DataType::List(item) if is_other_exact(item.data_type()) => {
            called(argument.clone(), ColumnType::Array(ElementType::AnyNumeric))
        }
        _ => Ok(argument.clone()),
    });
    let arguments = arguments.collect::<Result<Vec<_>, SqlError>>()?;
    let is_changed = arguments != call.args;
    let call = ScalarFunction::new_udf(Arc::clone(&call.func), arguments);
    Ok(is_changed.then_some(Expr::ScalarFunction(call)))
}

/// The call with such numbers as floats.
fn of_floats(call: &ScalarFunction, types: &[DataType]) -> Result<Expr> {
    let arguments = call.args.iter().zip(types).map(|(argument, ty)| {
        if is_any_numeric(ty) { called(argument.clone(), ColumnType::Double) } else { Ok(argument.clone()) }
    });
    let arguments = arguments.collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), arguments)))
}

fn as_double(number: &Expr, ty: &DataType) -> Result<Expr, SqlError> {
    if is_any_numeric(ty) {
        return called(number.clone(), ColumnType::Double);
    }
    Ok(datafusion::logical_expr::cast(number.clone(), DataType::Float64))
}

/// A cast from or to such a number as a call of our own function, which knows it; `None` of other casts.
///
/// # Errors
/// If the type cannot be described: a bug.
pub(in crate::query) fn settled_cast(
    input: &Expr,
    from: &DataType,
    to: &DataType,
) -> Result<Option<Expr>, SqlError> {
    let is_of_numbers = |ty: &DataType| match ty {
        DataType::List(item) => is_any_numeric(item.data_type()),
        ty => is_any_numeric(ty),
    };
    if from == to || from.is_null() || !(is_of_numbers(from) || is_of_numbers(to)) {
        return Ok(None);
    }
    column_type_of_arrow(to).map(|to| called(input.clone(), to)).transpose()
}

/// Whether zeros at the end of a number have been taken off.
fn is_shortest(number: &Expr) -> bool {
    match number {
        Expr::ScalarFunction(call) => call.name() == NUMBER_SHORTEST,
        Expr::Literal(ScalarValue::LargeBinary(Some(bytes)), _) => {
            let number = AnyNumberRef::new(bytes);
            number.scale() == number.least_scale()
        }
        _ => false,
    }
}

/// The number without zeros at its end.
pub(super) fn shortest(number: Expr) -> Result<Expr, SqlError> {
    if is_shortest(&number) {
        return Ok(number);
    }
    if let Expr::Literal(ScalarValue::LargeBinary(Some(bytes)), _) = &number {
        return Ok(literal(AnyNumberRef::new(bytes).shortest()));
    }
    Ok(function(NUMBER_SHORTEST)?.call(vec![number]))
}

/// What is compared in the place of such a number; `None` if that is the number itself.
pub(super) fn key(number: Expr) -> Result<Option<Expr>, SqlError> {
    if is_shortest(&number) { Ok(None) } else { shortest(number).map(Some) }
}

/// A text whose order is that of the numbers.
pub(super) fn order_text(number: Expr) -> Result<Expr, SqlError> {
    literal_as(function(NUMBER_ORDER)?.call(vec![number]), ColumnType::Text)
}

/// The number whose order a text has, if an expression is such a text.
pub(in crate::query) fn ordered_number(text: &Expr) -> Option<&Expr> {
    match call_parts(text)? {
        (Expr::ScalarFunction(order), _) if order.name() == NUMBER_ORDER => order.args.first(),
        _ => None,
    }
}

fn literal(number: AnyNumber) -> Expr {
    Expr::Literal(ScalarValue::LargeBinary(Some(number.borrow().as_bytes().to_vec())), None)
}

/// An exact number as one without digits. Literals stay literals.
fn as_any_numeric(number: &Expr, ty: &DataType) -> Result<Expr, SqlError> {
    if is_any_numeric(ty) || ty.is_null() {
        return Ok(number.clone());
    }
    let units = match number {
        Expr::Literal(ScalarValue::Decimal128(Some(units), _, scale), _) => Some((*units, *scale)),
        Expr::Literal(ScalarValue::Int64(Some(units)), _) => Some((i128::from(*units), 0)),
        Expr::Literal(ScalarValue::Int32(Some(units)), _) => Some((i128::from(*units), 0)),
        _ => None,
    };
    match units {
        Some((units, scale)) => number_of_decimal(units, scale).map(literal),
        None => called(number.clone(), ColumnType::AnyNumeric),
    }
}

/// Operands among which there are arrays of such numbers, with arrays of other exact numbers as such; `None` if they are right as they are.
///
/// # Errors
/// If there is no function for it: a bug.
pub(super) fn alike_arrays(operands: &[Expr], types: &[DataType]) -> Result<Option<Vec<Expr>>, SqlError> {
    let is_of = |ty: &DataType, is: fn(&DataType) -> bool| match ty {
        DataType::List(item) => is(item.data_type()),
        _ => false,
    };
    let has = |is: fn(&DataType) -> bool| types.iter().any(|ty| is_of(ty, is));
    if !has(is_any_numeric) || !has(is_other_exact) {
        return Ok(None);
    }
    let alike = operands.iter().zip(types).map(|(operand, ty)| match is_of(ty, is_other_exact) {
        true => called(operand.clone(), ColumnType::Array(ElementType::AnyNumeric)),
        false => Ok(operand.clone()),
    });
    alike.collect::<Result<Vec<_>, SqlError>>().map(Some)
}

/// A number that stands beside an array of such numbers as one of its elements; all else as it is.
///
/// # Errors
/// If there is no function for it: a bug.
pub(super) fn alike_element(element: Expr, array: &DataType, schema: &DFSchema) -> Result<Expr> {
    let is_of_numbers = matches!(array, DataType::List(item) if is_any_numeric(item.data_type()));
    match element.get_type(schema) {
        Ok(ty) if is_of_numbers && (is_any_numeric(&ty) || is_other_exact(&ty)) => {
            Ok(shortest(as_any_numeric(&element, &ty)?)?)
        }
        _ => Ok(element),
    }
}

/// Operands of a comparison, all of one type and without zeros at their ends; `None` if none is such a number, or all are right as they
/// are.
///
/// # Errors
/// If there is no function for it: a bug.
pub(super) fn comparable(operands: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let types = operands.iter().map(|operand| operand.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(None) };
    if let Some(alike) = alike_arrays(operands, &types)? {
        return Ok(Some(alike));
    }
    if !types.iter().any(is_any_numeric) {
        return Ok(None);
    }
    let has_floats = types.iter().any(DataType::is_floating);
    let settled = operands.iter().zip(&types).map(|(operand, ty)| {
        if ty.is_null() || !(is_any_numeric(ty) || ty.is_numeric()) {
            return Ok(operand.clone());
        }
        if has_floats {
            return if *ty == DataType::Float64 { Ok(operand.clone()) } else { as_double(operand, ty) };
        }
        shortest(as_any_numeric(operand, ty)?)
    });
    let settled = settled.collect::<Result<Vec<_>, SqlError>>()?;
    Ok((settled != operands).then_some(settled))
}

/// The same of two sides that are over different rows.
///
/// # Errors
/// If there is no function for it: a bug.
pub(super) fn comparable_sides(
    (left, of_left): (&Expr, &DFSchema),
    (right, of_right): (&Expr, &DFSchema),
) -> Result<Option<(Expr, Expr)>> {
    let (Ok(left_type), Ok(right_type)) = (left.get_type(of_left), right.get_type(of_right)) else {
        return Ok(None);
    };
    if !is_any_numeric(&left_type) && !is_any_numeric(&right_type) {
        return Ok(None);
    }
    if left_type.is_floating() || right_type.is_floating() {
        return Ok(Some((as_double(left, &left_type)?, as_double(right, &right_type)?)));
    }
    let is_exact = |ty: &DataType| is_any_numeric(ty) || is_other_exact(ty);
    if !is_exact(&left_type) || !is_exact(&right_type) {
        return Ok(None);
    }
    let key = |number, ty| shortest(as_any_numeric(number, ty)?);
    Ok(Some((key(left, &left_type)?, key(right, &right_type)?)))
}

/// `coalesce`, `nullif`, `greatest` and `least` with such a number among their arguments; `None` of others, and if it is right as it
/// is. Beside floats it is a float, which others see to.
///
/// # Errors
/// What is wrong with a literal.
pub(super) fn settle_choice(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let types = call.args.iter().map(|argument| argument.get_type(schema)).collect::<Result<Vec<_>>>()?;
    if !types.iter().any(is_any_numeric) || types.iter().any(DataType::is_floating) {
        return Ok(None);
    }
    let arguments = call.args.iter().zip(&types).map(|(argument, ty)| {
        if is_text_literal(argument) {
            return literal_as(argument.clone(), ColumnType::AnyNumeric);
        }
        if is_other_exact(ty) { as_any_numeric(argument, ty) } else { Ok(argument.clone()) }
    });
    let mut arguments = arguments.collect::<Result<Vec<_>, SqlError>>()?;
    if let Some(choice) = Choice::of(call.name()) {
        let known = arguments.into_iter().zip(&types).filter(|(_, ty)| !ty.is_null());
        let pairs = known.map(|(argument, _)| Ok::<_, SqlError>((shortest(argument.clone())?, argument)));
        return Ok(Some(choice.among(pairs.collect::<Result<Vec<_>, SqlError>>()?)));
    }
    if let ([left, right], "nullif") = (&arguments[..], call.name()) {
        let are_equal = shortest(left.clone())?.eq(shortest(right.clone())?);
        let null = Expr::Literal(ScalarValue::LargeBinary(None), None);
        return Ok(Some(when(are_equal, null).otherwise(left.clone())?));
    }
    // DataFusion has no number of this type that it makes of NULL.
    let is_null =
        |argument: &Expr| matches!(argument, Expr::Literal(scalar, _) if scalar.data_type().is_null());
    arguments.retain(|argument| !is_null(argument));
    let is_changed = arguments != call.args;
    let call = ScalarFunction::new_udf(Arc::clone(&call.func), arguments);
    Ok(is_changed.then_some(Expr::ScalarFunction(call)))
}

/// The arguments of an aggregate that tells values apart, or keeps them as elements of an array, without zeros at their ends; `None` if
/// they are right as they are.
///
/// # Errors
/// If there is no function for it: a bug.
pub(super) fn settle_arguments(call: &AggregateFunction, schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let is_told_apart = call.params.distinct || matches!(call.func.name(), "array_agg" | ORDERED_SET);
    if !is_told_apart {
        return Ok(None);
    }
    all_shortest(&call.params.args, schema)
}

/// A window that keeps such numbers as elements of arrays, without zeros at their ends; `None` if it is right as it is.
///
/// # Errors
/// If there is no function for it: a bug.
pub(super) fn settle_window(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    if !call.params.distinct && call.fun.name() != "array_agg" {
        return Ok(None);
    }
    let settled = all_shortest(&call.params.args, schema)?;
    Ok(settled.map(|arguments| {
        let mut call = call.clone();
        call.params.args = arguments;
        call
    }))
}

/// Arguments, such numbers among them without zeros at their ends; `None` if they are right as they are.
fn all_shortest(arguments: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let settled = arguments.iter().map(|argument| match argument.get_type(schema) {
        Ok(ty) if is_any_numeric(&ty) => shortest(argument.clone()),
        _ => Ok(argument.clone()),
    });
    let settled = settled.collect::<Result<Vec<_>, SqlError>>()?;
    Ok((settled != arguments).then_some(settled))
}

/// `WITH RECURSIVE ... UNION`, whose rows are told apart while they are made, with such numbers without zeros at their ends.
pub(super) fn settle_recursion(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::RecursiveQuery(query) = plan else { return Ok(Transformed::no(plan)) };
    let has_numbers =
        query.static_term.schema().fields().iter().any(|field| is_any_numeric(field.data_type()));
    if !query.is_distinct || !has_numbers {
        return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
    }
    let RecursiveQuery { static_term, recursive_term, .. } = query.clone();
    let (static_term, recursive_term) =
        (with_shortest_columns(static_term)?, with_shortest_columns(recursive_term)?);
    let query = RecursiveQuery { static_term, recursive_term, ..query };
    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
}

fn with_shortest_columns(input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let columns = input.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        if !is_any_numeric(field.data_type()) {
            return Ok(column);
        }
        let number = shortest(column)?;
        Ok(number.alias_qualified(qualifier.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?)))
}
