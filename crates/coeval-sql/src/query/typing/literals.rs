// SPDX-License-Identifier: Apache-2.0
//! Literals and casts of a query, written so that DataFusion gives them PostgreSQL's types.
//!
//! DataFusion makes every whole number a `bigint`; PostgreSQL takes the smallest of `int`, `bigint` and
//! `numeric` that holds it. So each number that fits an `int` gets a cast around it, under a type name that
//! nobody can write by chance. Where a number is a place or a count and no value (ORDER BY 1, LIMIT 5, a
//! window's bounds, arguments of table functions) the cast is taken off again. `numeric` without a scale keeps
//! the digits that are there, which DataFusion has no type for: a function stands in its place.

use super::open_literals;
use super::values::with_typed_columns;
use crate::cancel;
use crate::error::SqlError;
use crate::names::fold;
use crate::scalar::cast_function::{CAST, description, is_own};
use crate::scalar::{decimal_literal, number_literal};
use crate::select::{self, call};
use crate::types::any_numeric::parse_number;
use crate::types::{IntervalUnit, column_type, format_interval, no_time, read_bits, read_interval_in};
use crate::walk::WalkMut;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Interval, LimitClause, NamedWindowDefinition,
    NamedWindowExpr, ObjectName, ObjectNamePart, OrderByKind, Query, Select, TableFactor, TimezoneInfo,
    UnaryOperator, Value, VisitMut, VisitorMut, WindowFrameBound, WindowType,
};
use std::ops::ControlFlow;

/// The type name of a cast around a literal.
const INT_LITERAL: &str = "\u{1}int4";

/// The function that stands for a cast to `numeric` without a scale.
pub(super) const TO_NUMERIC: &str = "coeval_to_numeric";

/// The syntax with literals and casts marked.
///
/// # Errors
/// `22003` for a number of more than 38 digits, `22P02` for text that is no number, and for a bit string of other digits.
pub(crate) fn with_typed_literals<V: VisitMut>(syntax: &mut V) -> Result<(), SqlError> {
    syntax.try_walk_mut(&mut Literals)
}

/// Whether a type is the mark of a literal that is an `int`.
pub(super) fn is_int_literal(ty: &DataType) -> bool {
    matches!(ty, DataType::Custom(name, _)
        if matches!(name.0.as_slice(), [ObjectNamePart::Identifier(ident)] if ident.value == INT_LITERAL))
}

struct Literals;

impl VisitorMut for Literals {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        let read = cancel::check().and_then(|()| open_literals::read(expression));
        match read.and_then(|()| typed(expression)) {
            Ok(None) => {}
            Ok(Some(replaced)) => *expression = replaced,
            Err(error) => return ControlFlow::Break(error),
        }
        if let Expr::Function(function) = expression
            && let Some(WindowType::WindowSpec(window)) = &mut function.over
            && let Some(frame) = &mut window.window_frame
        {
            bare_bound(&mut frame.start_bound);
            frame.end_bound.iter_mut().for_each(bare_bound);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let Err(error) = with_typed_columns(&mut query.body) {
            return ControlFlow::Break(error);
        }
        match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                limit.iter_mut().for_each(bare);
                offset.iter_mut().for_each(|offset| bare(&mut offset.value));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                bare(offset);
                bare(limit);
            }
            None => {}
        }
        if let Some(fetch) = &mut query.fetch {
            fetch.quantity.iter_mut().for_each(bare);
        }
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(expressions) = &mut order.kind
        {
            expressions.iter_mut().for_each(|ordering| bare(&mut ordering.expr));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        for NamedWindowDefinition(_, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = window
                && let Some(frame) = &mut window.window_frame
            {
                bare_bound(&mut frame.start_bound);
                frame.end_bound.iter_mut().for_each(bare_bound);
            }
        }
        if let GroupByExpr::Expressions(expressions, _) = &mut select.group_by {
            for expression in expressions {
                match expression {
                    Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                        sets.iter_mut().flatten().for_each(bare);
                    }
                    other => bare(other),
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let arguments = match factor {
            TableFactor::Table { args: Some(arguments), .. } => &mut arguments.args,
            TableFactor::Function { args, .. } => args,
            _ => return ControlFlow::Continue(()),
        };
        for argument in arguments {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) = argument {
                bare(expression);
            }
        }
        ControlFlow::Continue(())
    }
}

/// What stands in an expression's place; `None` if it stays.
fn typed(expression: &Expr) -> Result<Option<Expr>, SqlError> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => number(expression, text),
            Value::SingleQuotedByteStringLiteral(digits) => bits(format!("b{digits}")).map(Some),
            Value::HexStringLiteral(digits) => bits(format!("x{digits}")).map(Some),
            _ => Ok(None),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match literal_below(expr)? {
            Some(text) => negative(expression, text),
            None => Ok(None),
        },
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => match data_type {
            DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None) => to_numeric(expr).map(Some),
            // Names of objects are their text.
            DataType::Regclass => Ok(Some(expr.as_ref().clone())),
            _ => own_cast(expr.as_ref().clone(), data_type),
        },
        // A literal has all of its bits, where the same type of a column has one.
        Expr::TypedString(typed) if typed.data_type == DataType::Bit(None) => {
            own_call(Expr::Value(typed.value.clone()), ColumnType::Bit(None)).map(Some)
        }
        Expr::TypedString(typed) => own_cast(Expr::Value(typed.value.clone()), &typed.data_type),
        Expr::Interval(Interval { value, leading_field: None, last_field: None, .. })
            if matches!(value.as_ref(), Expr::Value(_)) =>
        {
            let ty = DataType::Interval { fields: None, precision: None };
            own_cast(value.as_ref().clone(), &ty)
        }
        Expr::Interval(Interval { value, leading_field: Some(first), last_field, .. }) => {
            interval_in_fields(value, first, last_field.as_ref().unwrap_or(first))
        }
        Expr::Function(function) if is_named(function, "mod") => Ok(remainder(function)),
        Expr::Function(function) if is_named(function, "sign") => Ok(Some(renamed(function, "signum"))),
        // DataFusion's has nanoseconds, beside which dates far away do not fit.
        Expr::Function(function)
            if is_named(function, "now")
                || is_named(function, "current_timestamp")
                || is_named(function, "transaction_timestamp") =>
        {
            let ty = DataType::Timestamp(None, TimezoneInfo::WithTimeZone);
            own_cast(renamed(function, "now"), &ty)
        }
        _ => Ok(None),
    }
}

/// `interval '1' day`, whose fields say what a number counts; `None` if it is no literal, or has other fields.
fn interval_in_fields(
    value: &Expr,
    first: &DateTimeField,
    last: &DateTimeField,
) -> Result<Option<Expr>, SqlError> {
    let Expr::Value(literal) = value else { return Ok(None) };
    let (Some(text), Some(first), Some(last)) =
        (literal.value.clone().into_string(), unit_of(first), unit_of(last))
    else {
        return Ok(None);
    };
    let interval = read_interval_in(&text, first, last);
    let interval = interval.map_err(|flaw| no_time(flaw, &text, ColumnType::Interval))?;
    let mut written = String::new();
    format_interval(interval, &mut written);
    own_call(Expr::Value(Value::SingleQuotedString(written).into()), ColumnType::Interval).map(Some)
}

fn unit_of(field: &DateTimeField) -> Option<IntervalUnit> {
    Some(match field {
        DateTimeField::Year => IntervalUnit::Year,
        DateTimeField::Month => IntervalUnit::Month,
        DateTimeField::Day => IntervalUnit::Day,
        DateTimeField::Hour => IntervalUnit::Hour,
        DateTimeField::Minute => IntervalUnit::Minute,
        DateTimeField::Second => IntervalUnit::Second,
        _ => return None,
    })
}

pub(super) fn is_named(function: &Function, name: &str) -> bool {
    matches!(function.name.0.as_slice(), [ObjectNamePart::Identifier(ident)] if fold(ident) == name)
}

fn renamed(function: &Function, name: &str) -> Expr {
    let name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]);
    Expr::Function(Function { name, ..function.clone() })
}

/// `mod(a, b)` as `a % b`.
fn remainder(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let nested = |side: &Expr| Box::new(Expr::Nested(Box::new(side.clone())));
    Some(Expr::BinaryOp { left: nested(left), op: BinaryOperator::Modulo, right: nested(right) })
}

/// The number that was written, if the expression is one, or is one with the cast that [`number`] gave it.
fn literal_below(expression: &Expr) -> Result<Option<&str>, SqlError> {
    let (inner, cast) = match expression {
        Expr::Cast { expr, data_type, .. } => (expr.as_ref(), Some(data_type)),
        other => (other, None),
    };
    let Expr::Value(value) = inner else { return Ok(None) };
    let Value::Number(text, _) = &value.value else { return Ok(None) };
    let is_own = match (cast, number_literal(text)?.1) {
        (None, _) => true,
        (Some(cast), ColumnType::Int) => is_int_literal(cast),
        (Some(cast), ColumnType::Numeric { precision, scale }) => *cast == exact(precision, scale),
        (Some(_), _) => false,
    };
    Ok(is_own.then_some(text))
}

/// The sign belongs to the literal: the least integers have no positive counterpart.
fn negative(whole: &Expr, text: &str) -> Result<Option<Expr>, SqlError> {
    let Expr::UnaryOp { op, expr } = whole else { return Ok(None) };
    let digits = match expr.as_ref() {
        Expr::Cast { expr, .. } => expr.clone(),
        _ => expr.clone(),
    };
    let bare = Expr::UnaryOp { op: *op, expr: digits };
    Ok(match number_literal(&format!("-{text}"))?.1 {
        ColumnType::Int => Some(select::cast(bare, int_literal())),
        ColumnType::BigInt => Some(bare),
        _ => None,
    })
}

fn int_literal() -> DataType {
    let name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', INT_LITERAL))]);
    DataType::Custom(name, Vec::new())
}

fn number(expression: &Expr, text: &str) -> Result<Option<Expr>, SqlError> {
    Ok(match number_literal(text)? {
        (_, ColumnType::Int) => Some(select::cast(expression.clone(), int_literal())),
        (_, ColumnType::Numeric { precision, scale }) => {
            Some(select::cast(expression.clone(), exact(precision, scale)))
        }
        (_, ColumnType::AnyNumeric) => {
            let text = Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
            Some(own_call(text, ColumnType::AnyNumeric)?)
        }
        (_, ColumnType::Double) => {
            let text = Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
            Some(select::cast(text, DataType::DoublePrecision))
        }
        _ => None,
    })
}

/// A bit string from its digits, behind the letter of their base.
///
/// # Errors
/// `22P02` for other digits.
fn bits(digits: String) -> Result<Expr, SqlError> {
    read_bits(&digits)?;
    own_call(Expr::Value(Value::SingleQuotedString(digits).into()), ColumnType::Bit(None))
}

/// A number as it is written, or anything else, as a `numeric` with the digits that it has.
pub(super) fn to_numeric(input: &Expr) -> Result<Expr, SqlError> {
    if let Expr::Value(value) = input
        && let Some(text) = value.value.clone().into_string()
    {
        if let Ok((_, ColumnType::Numeric { precision, scale })) = decimal_literal(&text) {
            return Ok(select::cast(input.clone(), exact(precision, scale)));
        }
        // Of too many digits for that, or none: the error does not wait for rows.
        parse_number(&text)?;
        return own_call(input.clone(), ColumnType::AnyNumeric);
    }
    Ok(call(TO_NUMERIC, vec![input.clone()]))
}

/// A cast that the engine does itself. The type of a parameter is what it is cast to, so it needs none; but that it is a document, or
/// how many bits it has, has to be said, and it may have been declared as a text.
fn own_cast(input: Expr, ty: &DataType) -> Result<Option<Expr>, SqlError> {
    let is_parameter = matches!(&input, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
    let is_said = matches!(
        ty,
        DataType::JSON | DataType::JSONB | DataType::Bit(_) | DataType::BitVarying(_) | DataType::VarBit(_)
    );
    if is_parameter && is_said {
        return own_call(select::cast(input, ty.clone()), column_type(ty)?).map(Some);
    }
    if is_parameter
        || is_int_literal(ty)
        || matches!(ty, DataType::Array(_) | DataType::Struct(..) | DataType::Map(..))
    {
        return Ok(None);
    }
    let to = column_type(ty)?;
    if !is_own(to) {
        return Ok(None);
    }
    own_call(input, to).map(Some)
}

/// The call of the function that casts.
pub(in crate::query) fn own_call(input: Expr, to: ColumnType) -> Result<Expr, SqlError> {
    let description = Expr::Value(Value::SingleQuotedString(description(to)?).into());
    Ok(call(CAST, vec![input, description]))
}

fn exact(precision: u8, scale: i8) -> DataType {
    DataType::Numeric(ExactNumberInfo::PrecisionAndScale(u64::from(precision), i64::from(scale)))
}

/// Takes the mark off a literal that is no value.
fn bare(expression: &mut Expr) {
    if let Expr::Cast { expr, data_type, .. } = expression
        && is_int_literal(data_type)
    {
        *expression = expr.as_ref().clone();
    }
}

fn bare_bound(bound: &mut WindowFrameBound) {
    let (WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset))) = bound
    else {
        return;
    };
    bare(offset);
    let Some(literal) = bare_offset(offset) else { return };
    **offset = match literal {
        Value::Number(digits, _) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            Expr::Value(Value::Number(digits, false).into())
        }
        // DataFusion reads the text as one of what the window is ordered by.
        Value::Number(text, _) | Value::SingleQuotedString(text) => Expr::Interval(Interval {
            value: Box::new(Expr::Value(Value::SingleQuotedString(text).into())),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        }),
        _ => return,
    };
}

/// The number or text that an offset of a frame is, without its casts: the planner takes literals alone, and gives them the type
/// of what the frame is ordered by.
fn bare_offset(offset: &Expr) -> Option<Value> {
    match offset {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => bare_offset(inner),
        Expr::Value(value) if matches!(value.value, Value::Number(..) | Value::SingleQuotedString(_)) => {
            Some(value.value.clone())
        }
        Expr::Function(function) if is_named(function, CAST) => match &function.args {
            FunctionArguments::List(list) => match list.args.first() {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(input))) => bare_offset(input),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
