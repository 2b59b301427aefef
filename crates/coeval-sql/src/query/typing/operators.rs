// SPDX-License-Identifier: Apache-2.0
//! Operators and aggregates that PostgreSQL types otherwise than DataFusion, replaced while a query is planned.
//!
//! | | PostgreSQL and here | DataFusion |
//! |---|---|---|
//! | `n + '1'`, a literal beside a number | a number | refused |
//! | `real` with any other number | `double precision` | `real` |
//! | `numeric / numeric` | rounded, at least 16 digits behind the point | cut off, 4 digits more than the dividend |
//! | `date + interval`, `date + time` | a timestamp | a date |
//! | `date + integer`, `date - date` | infinity is no number of days | the last day that there is |
//! | `timestamptz + interval` | a day later clocks of the session's zone show the same time | 24 hours later |
//! | `timestamp - timestamp` | days and a time | hours |
//! | intervals in comparisons | by length, a month as 30 days | by their parts |
//! | bits of numbers that are no integers: `2.5 \| 1` | refused | rounded |
//! | bits of bit strings, and `a # b` of integers | [as there](super::bits) | refused, zero of `a # a` |
//! | the difference of two times | days and time | hours |
//! | an interval times or by a number | an interval | refused |
//! | `avg` of integers and `numeric` | `numeric`: the sum by the count | a float; cut off |

use super::any_numeric;
use super::array_literals::array_of;
use super::beside::pair;
use super::bits;
use super::choices::{make_labels, require_choices};
use super::comparable::comparable_pair;
use super::comparisons;
use super::concatenations::concatenation;
use super::dates;
use super::distinctions::Distinction;
use super::document_operators;
use super::exact_types::is_any_numeric;
use super::instants::{dated, moved, settle_choices};
use super::intervals::{part, product};
use super::jsonb;
use super::merged::{self, Merging};
use super::mixed_floats::floats_of_one_type;
use super::negated::Sign;
use super::no_operator::no_operator;
use super::numbers::{mean, quotient};
use super::places;
use super::subscripts;
use super::sums::sum;
use super::windows;
use super::zoned_times;
use crate::error::SqlError;
use crate::parameters::{Side, of_operand, typed_operands};
use crate::query::compares;
use crate::scalar::cast_function::literal_as;
use crate::types::{column_type_of_arrow, column_type_of_field};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, ScalarFunction, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawFieldAccessExpr, RawWindowExpr,
};
use datafusion::logical_expr::utils::COUNT_STAR_EXPANSION;
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, Cast, Expr, ExprSchemable, Operator, WindowFunctionDefinition, cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Plans what PostgreSQL types otherwise.
#[derive(Debug)]
pub(crate) struct PostgresOperators;

impl ExprPlanner for PostgresOperators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        // The operands of AND and OR are conditions, which no other planner changes; and asking for their types here would go through a
        // whole chain of them each time.
        if let Some(operator) = truth(&raw.op) {
            return Ok(PlannerResult::Planned(binary(raw, operator)));
        }
        let mut raw = match of_the_dialect(raw, schema)? {
            PlannerResult::Original(raw) => raw,
            planned @ PlannerResult::Planned(_) => return Ok(planned),
        };
        (raw.left, raw.right) = typed_operands(&raw.op, raw.left, raw.right, schema);
        if let Some(sign) = Sign::of(&raw.op) {
            return Ok(PlannerResult::Planned(sign.planned(raw.right, schema)?));
        }
        let raw = match of_arrays_or_json(raw, schema)? {
            PlannerResult::Original(raw) => raw,
            planned => return Ok(planned),
        };
        if raw.op == BinaryOperator::StringConcat
            && let Some(joined) = concatenation(&raw.left, &raw.right, schema)?
        {
            return Ok(PlannerResult::Planned(joined));
        }
        let mut raw = raw;
        let Some(operator) = arithmetic(&raw.op) else { return of_bits_or_comparison(raw, schema) };
        let (Ok(mut left), Ok(mut right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        type_literals(&mut raw, &mut left, &mut right, schema)?;
        if let Some(numbers) = any_numeric::planned(operator, &raw, (&left, &right))? {
            return Ok(PlannerResult::Planned(numbers));
        }
        if let Some(dated) = dated(operator, (&raw.left, &left), (&raw.right, &right))? {
            return Ok(PlannerResult::Planned(dated));
        }
        if let Some(place) = places::planned(operator, &raw, (&left, &right))? {
            return Ok(PlannerResult::Planned(place));
        }
        if let Some(zoned) = zoned_times::planned(operator, &raw, (&left, &right))? {
            return Ok(PlannerResult::Planned(zoned));
        }
        if let Some(moved) = moved(operator, (&raw.left, &left), (&raw.right, &right))? {
            return Ok(PlannerResult::Planned(moved));
        }
        if let Some(product) = interval_product(operator, &raw, &left, &right) {
            return Ok(PlannerResult::Planned(product));
        }
        if let Some(of_days) = dates::planned(operator, &raw, &left, &right) {
            return Ok(PlannerResult::Planned(of_days));
        }
        if let Some(difference) = difference(operator, &raw, &left, &right)? {
            return Ok(PlannerResult::Planned(difference));
        }
        if !is_number(&left) || !is_number(&right) {
            return Ok(PlannerResult::Original(raw));
        }
        let is_float = left.is_floating() || right.is_floating();
        if is_float && left != right {
            let left = Box::new(cast(raw.left, DataType::Float64));
            let right = Box::new(cast(raw.right, DataType::Float64));
            return Ok(PlannerResult::Planned(Expr::BinaryExpr(BinaryExpr::new(left, operator, right))));
        }
        if operator == Operator::Divide
            && (left.is_decimal() || right.is_decimal())
            && let Some(planned) = quotient(raw.left.clone(), &left, raw.right.clone(), &right)
        {
            return Ok(PlannerResult::Planned(planned));
        }
        Ok(PlannerResult::Original(raw))
    }

    fn plan_array_literal(
        &self,
        mut elements: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        require_choices("ARRAY", &elements, schema)?;
        settle_choices(elements.iter_mut().collect(), schema)?;
        jsonb::settle_elements(&mut elements, schema)?;
        make_labels("ARRAY", &mut elements.iter_mut().collect::<Vec<_>>(), schema)?;
        let elements = floats_of_one_type(&elements, schema).unwrap_or(elements);
        Ok(PlannerResult::Planned(array_of(elements)))
    }

    fn plan_field_access(
        &self,
        raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        subscripts::planned(raw, schema)
    }

    fn plan_position(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        planned_call("strpos", arguments)
    }

    fn plan_substring(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        planned_call("substr", arguments)
    }

    fn plan_overlay(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        planned_call("overlay", arguments)
    }

    fn plan_aggregate(&self, mut raw: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        if !raw.distinct && counts_all(raw.func.name(), &raw.args) {
            raw.args = vec![lit(COUNT_STAR_EXPANSION)];
        }
        if raw.func.name() != "avg" || raw.args.len() != 1 {
            return Ok(PlannerResult::Original(raw));
        }
        let part = |function: Arc<AggregateUDF>| {
            Expr::AggregateFunction(AggregateFunction::new_udf(
                function,
                raw.args.clone(),
                raw.distinct,
                raw.filter.clone(),
                raw.order_by.clone(),
                raw.null_treatment,
            ))
        };
        Ok(PlannerResult::Planned(mean(part(sum()), part(count_udaf()))))
    }

    fn plan_window(&self, mut raw: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        if !raw.distinct && counts_all(raw.func_def.name(), &raw.args) {
            raw.args = vec![lit(COUNT_STAR_EXPANSION)];
        }
        if let Some(ordered) = windows::in_order(&raw.func_def) {
            raw.func_def = ordered;
        }
        let over_window = |fun: WindowFunctionDefinition| {
            let params = WindowFunctionParams {
                args: raw.args.clone(),
                partition_by: raw.partition_by.clone(),
                order_by: raw.order_by.clone(),
                window_frame: raw.window_frame.clone(),
                filter: raw.filter.clone(),
                null_treatment: raw.null_treatment,
                distinct: raw.distinct,
            };
            Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
        };
        if let Some(ty) = windows::type_of_place(&raw.func_def) {
            return Ok(PlannerResult::Planned(cast(over_window(raw.func_def.clone()), ty)));
        }
        if raw.func_def.name() != "avg" || raw.args.len() != 1 {
            return Ok(PlannerResult::Original(raw));
        }
        let part = |function| over_window(WindowFunctionDefinition::AggregateUDF(function));
        Ok(PlannerResult::Planned(mean(part(sum()), part(count_udaf()))))
    }
}

/// An operation on bits, or one that, if it is a comparison, has operands of types that compare.
fn of_bits_or_comparison(mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    if let Some(of_strings) = bits::planned(&raw, schema)? {
        return Ok(PlannerResult::Planned(of_strings));
    }
    settle_bits(&mut raw, schema)?;
    if let Some(of_integers) = bits::exclusive_or(&raw, schema)? {
        return Ok(PlannerResult::Planned(of_integers));
    }
    Ok(PlannerResult::Original(with_comparable_operands(raw, schema)?))
}

/// An operation that, if it is a comparison, has operands of types that compare.
fn with_comparable_operands(mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<RawBinaryExpr> {
    if !compares(&raw.op) {
        return Ok(raw);
    }
    if let Some((left, right)) = pair(&raw.left, &raw.right, schema)? {
        (raw.left, raw.right) = (left, right);
    }
    if jsonb::is_jsonb(&raw.left, schema) || jsonb::is_jsonb(&raw.right, schema) {
        // In the form in which they are compared they are texts.
        comparisons::require(&raw.left, &raw.op, &raw.right, schema)?;
    }
    if let Some((left, right)) = comparable_pair(&raw.left, &raw.right, schema)? {
        (raw.left, raw.right) = (left, right);
    }
    Ok(raw)
}

/// An operator that the dialect has written in the place of something else as what it stands for.
fn of_the_dialect(raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    Ok(if let Some(merging) = Merging::of(&raw.op) {
        PlannerResult::Planned(merged::planned(merging, raw.left, raw.right, schema))
    } else if let Some(distinction) = Distinction::of(&raw.op) {
        PlannerResult::Planned(distinguished(distinction, raw, schema)?)
    } else {
        PlannerResult::Original(raw)
    })
}

/// `IS DISTINCT FROM`, with operands of types that compare if DataFusion knows none that both have.
fn distinguished(distinction: Distinction, mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<Expr> {
    let operator = distinction.operator();
    let (left, right) = (Box::new(raw.left.clone()), Box::new(raw.right.clone()));
    let comparison = BinaryExpr::new(left, operator, right);
    comparisons::require_of(&comparison, schema)?;
    let plain = Expr::BinaryExpr(comparison);
    if plain.get_type(schema).is_ok() {
        return Ok(plain);
    }
    // By which they are compared, if none of them is NULL.
    raw.op = BinaryOperator::Eq;
    Ok(binary(with_comparable_operands(raw, schema)?, operator))
}

/// Reads a literal without a type beside the bits of a number as such a number, and refuses numbers that are no integers: DataFusion would
/// round them.
///
/// # Errors
/// `42883`; `22P02` for a literal that is no number.
fn settle_bits(raw: &mut RawBinaryExpr, schema: &DFSchema) -> Result<()> {
    let is_of_bits = matches!(
        raw.op,
        BinaryOperator::BitwiseAnd
            | BinaryOperator::BitwiseOr
            | BinaryOperator::PGBitwiseXor
            | BinaryOperator::PGBitwiseShiftLeft
            | BinaryOperator::PGBitwiseShiftRight
    );
    if !is_of_bits {
        return Ok(());
    }
    let (Ok(mut left), Ok(mut right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
        return Ok(());
    };
    type_literals(raw, &mut left, &mut right, schema)?;
    let has_bits = |ty: &DataType| !is_number(ty) || ty.is_integer();
    if has_bits(&left) && has_bits(&right) {
        return Ok(());
    }
    Err(no_operator(&left, &raw.op, &right).into())
}

/// Whether this counts rows by a constant: `count(1)` is `count(*)`. Both have one name in plans, so they must be one
/// expression, too.
fn counts_all(function: &str, arguments: &[Expr]) -> bool {
    let is_constant = |argument: &Expr| match argument {
        Expr::Literal(value, _) => !value.is_null(),
        Expr::Cast(Cast { expr, .. }) => {
            matches!(expr.as_ref(), Expr::Literal(value, _) if value.data_type().is_numeric())
        }
        _ => false,
    };
    function == "count" && matches!(arguments, [argument] if is_constant(argument))
}

/// An operator on arrays or on documents of JSON as the function that stands for it.
fn of_arrays_or_json(raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    match super::arrays::planned(raw, schema)? {
        PlannerResult::Original(raw) => of_json(raw, schema),
        planned @ PlannerResult::Planned(_) => Ok(planned),
    }
}

/// An operator on documents of JSON as the function that stands for it.
fn of_json(raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    // A text is searched by `@@`, too.
    if raw.op != BinaryOperator::AtAt && crate::json::operator(&raw.op).is_some() {
        document_operators::require(&raw.op, &raw.left, &raw.right, schema)?;
    }
    let is_jsonb = |side: &Expr| {
        // No operator is left that gives a document; a field's name is the text of all that is in it.
        if matches!(side, Expr::BinaryExpr(_)) {
            return false;
        }
        let field = side.to_field(schema).map(|(_, field)| field);
        field.is_ok_and(|field| column_type_of_field(&field) == Some(ColumnType::Jsonb))
    };
    // What has no type by itself takes that of the other side.
    let is_open = |side: &Expr| matches!(side, Expr::Literal(..) | Expr::Placeholder(_));
    let are_documents = |left: &Expr, right: &Expr| {
        let (left_fits, right_fits) = (is_jsonb(left), is_jsonb(right));
        (left_fits && (right_fits || is_open(right))) || (right_fits && is_open(left))
    };
    let is_text = |side: &Expr| side.get_type(schema).is_ok_and(|ty| ty.is_string() || ty.is_null());
    let name = match &raw.op {
        BinaryOperator::StringConcat if are_documents(&raw.left, &raw.right) => "coeval_jsonb_concat",
        BinaryOperator::Minus if is_jsonb(&raw.left) => "jsonb_delete",
        // Arrays have the operators of containment, too.
        _ if !is_text(&raw.left) => return Ok(PlannerResult::Original(raw)),
        operator => match crate::json::operator(operator) {
            Some(name) => name,
            None => return Ok(PlannerResult::Original(raw)),
        },
    };
    let arguments = match raw.op {
        BinaryOperator::ArrowAt => vec![raw.right, raw.left],
        _ => vec![raw.left, raw.right],
    };
    Ok(PlannerResult::Planned(crate::json::function(name)?.call(arguments)))
}

/// Gives a literal without a type the one that it has beside a time, a span of time, a place in a log, or a number.
fn type_literals(
    raw: &mut RawBinaryExpr,
    left: &mut DataType,
    right: &mut DataType,
    schema: &DFSchema,
) -> Result<()> {
    let operator = raw.op.clone();
    let typed = |literal: &Expr, ty: &DataType, side: Side, other: &DataType| {
        let known = column_type_of_arrow(other).and_then(|other| of_operand(&operator, side, other));
        match known {
            Some(known) if matches!(literal, Expr::Literal(..)) && ty.is_string() => {
                Ok::<_, SqlError>(Some((literal_as(literal.clone(), known)?, known.arrow())))
            }
            Some(_) | None => Ok(None),
        }
    };
    if let Some(known) = typed(&raw.right, right, Side::Right, left)? {
        (raw.right, *right) = known;
    } else if let Some(known) = typed(&raw.left, left, Side::Left, right)? {
        (raw.left, *left) = known;
    } else if is_number(left) != is_number(right)
        && let Some(numbers) = pair(&raw.left, &raw.right, schema)?
    {
        (raw.left, raw.right) = numbers;
        (*left, *right) = (raw.left.get_type(schema)?, raw.right.get_type(schema)?);
    }
    Ok(())
}

/// The time from one time with a date to another, of which one is no mere date; `None` of anything else.
fn difference(
    operator: Operator,
    raw: &RawBinaryExpr,
    left: &DataType,
    right: &DataType,
) -> Result<Option<Expr>> {
    let is_timestamp = |ty: &DataType| matches!(ty, DataType::Timestamp(..));
    let is_dated = |ty: &DataType| is_timestamp(ty) || *ty == DataType::Date32;
    let is_one = operator == Operator::Minus && is_dated(left) && is_dated(right);
    if !is_one || !(is_timestamp(left) || is_timestamp(right)) {
        return Ok(None);
    }
    let (start, end) = (raw.right.clone(), raw.left.clone());
    let between = crate::functions::function(crate::functions::TIME_BETWEEN)?;
    Ok(Some(between.call(vec![end, start])))
}

/// An interval times or by a number.
fn interval_product(
    operator: Operator,
    raw: &RawBinaryExpr,
    left: &DataType,
    right: &DataType,
) -> Option<Expr> {
    let (left_interval, right_interval) =
        (matches!(left, DataType::Interval(_)), matches!(right, DataType::Interval(_)));
    let float = |number: &Expr| cast(number.clone(), DataType::Float64);
    match operator {
        Operator::Multiply if left_interval && is_number(right) => {
            Some(product(raw.left.clone(), float(&raw.right)))
        }
        Operator::Multiply if is_number(left) && right_interval => {
            Some(product(raw.right.clone(), float(&raw.left)))
        }
        Operator::Divide if left_interval && is_number(right) => {
            Some(part(raw.left.clone(), float(&raw.right)))
        }
        _ => None,
    }
}

fn truth(operator: &BinaryOperator) -> Option<Operator> {
    match operator {
        BinaryOperator::And => Some(Operator::And),
        BinaryOperator::Or => Some(Operator::Or),
        _ => None,
    }
}

fn binary(raw: RawBinaryExpr, operator: Operator) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(raw.left), operator, Box::new(raw.right)))
}

fn arithmetic(operator: &BinaryOperator) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        _ => return None,
    })
}

fn is_number(ty: &DataType) -> bool {
    ty.is_integer() || ty.is_floating() || matches!(ty, DataType::Decimal128(..)) || is_any_numeric(ty)
}

/// A call of one of our functions.
fn planned_call(name: &str, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
    let function = ScalarFunction::new_udf(crate::functions::function(name)?, arguments);
    Ok(PlannerResult::Planned(Expr::ScalarFunction(function)))
}
