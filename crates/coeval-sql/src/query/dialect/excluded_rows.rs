// SPDX-License-Identifier: Apache-2.0
//! `f(x) OVER (... ROWS BETWEEN a AND b EXCLUDE CURRENT ROW)`, which DataFusion has not: two windows, of the rows before the current one
//! and of those behind it, whose values are put together.
//!
//! The parser has put a call of [`EXCLUDES_CURRENT_ROW`] in front of what such a window is divided by.

use super::{call, nested, number, unqualified};
use crate::error::SqlError;
use crate::parse::EXCLUDES_CURRENT_ROW;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value, WindowFrame, WindowFrameBound, WindowSpec, WindowType,
};

/// Functions that count rows of the window, whatever its frame is.
const WITHOUT_FRAME: [&str; 8] =
    ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"];

/// What stands in the place of a call whose window leaves out the current row; `None` for others, and where one frame is enough.
///
/// # Errors
/// `0A000` for functions whose values of two windows cannot be put together, for bounds that are no constants, and for a frame of
/// the current row alone.
pub(super) fn rewritten(function: &mut Function) -> Result<Option<Expr>, SqlError> {
    let Some(WindowType::WindowSpec(window)) = &mut function.over else { return Ok(None) };
    if !leaves_out_current_row(window) {
        return Ok(None);
    }
    take_mark(window);
    let name = unqualified(&function.name).unwrap_or_default();
    let (Some(frame), false) = (&mut window.window_frame, WITHOUT_FRAME.contains(&name.as_str())) else {
        return Ok(None);
    };
    match sides(frame)? {
        Sides::Whole => Ok(None),
        Sides::One(side) => {
            *frame = side;
            Ok(None)
        }
        Sides::Both(before, behind) => both(&name, function, &before, &behind).map(Some),
    }
}

/// Whether a window's frame leaves out the current row.
pub(super) fn leaves_out_current_row(window: &WindowSpec) -> bool {
    window.partition_by.iter().any(is_mark)
}

/// The window without the mark that says so.
pub(super) fn take_mark(window: &mut WindowSpec) {
    window.partition_by.retain(|expression| !is_mark(expression));
}

fn is_mark(expression: &Expr) -> bool {
    matches!(expression, Expr::Function(function)
        if unqualified(&function.name).is_some_and(|name| name == EXCLUDES_CURRENT_ROW))
}

/// A frame without the current row.
enum Sides {
    /// It is not in it.
    Whole,
    /// It is at an end of it.
    One(WindowFrame),
    /// The rows before it, and those behind it.
    Both(WindowFrame, WindowFrame),
}

/// Where a bound lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lies {
    Before,
    AtCurrent,
    Behind,
}

fn lies(bound: &WindowFrameBound) -> Result<Lies, SqlError> {
    let (offset, side) = match bound {
        WindowFrameBound::CurrentRow => return Ok(Lies::AtCurrent),
        WindowFrameBound::Preceding(offset) => (offset, Lies::Before),
        WindowFrameBound::Following(offset) => (offset, Lies::Behind),
    };
    let Some(offset) = offset else { return Ok(side) };
    let count = match offset.as_ref() {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<u64>().ok(),
            _ => None,
        },
        _ => None,
    };
    match count {
        Some(0) => Ok(Lies::AtCurrent),
        Some(_) => Ok(side),
        None => Err(SqlError::unsupported("EXCLUDE CURRENT ROW with a bound that is no constant")),
    }
}

fn sides(frame: &WindowFrame) -> Result<Sides, SqlError> {
    let end = frame.end_bound.clone().unwrap_or(WindowFrameBound::CurrentRow);
    let one = || Some(Box::new(number("1")));
    let before = || WindowFrame { end_bound: Some(WindowFrameBound::Preceding(one())), ..frame.clone() };
    let behind = || WindowFrame {
        start_bound: WindowFrameBound::Following(one()),
        end_bound: Some(end.clone()),
        ..frame.clone()
    };
    Ok(match (lies(&frame.start_bound)?, lies(&end)?) {
        (Lies::Before, Lies::Behind) => Sides::Both(before(), behind()),
        (Lies::Before, Lies::AtCurrent) => Sides::One(before()),
        (Lies::AtCurrent, Lies::Behind) => Sides::One(behind()),
        (Lies::AtCurrent, Lies::AtCurrent) => {
            return Err(SqlError::unsupported("a frame of the current row that leaves it out"));
        }
        (Lies::Before | Lies::AtCurrent, Lies::Before) | (Lies::Behind, _) => Sides::Whole,
    })
}

/// The value over both sides.
fn both(
    name: &str,
    function: &Function,
    before: &WindowFrame,
    behind: &WindowFrame,
) -> Result<Expr, SqlError> {
    let (left, right) = (over(function, before), over(function, behind));
    let plus = |left: &Expr, right: &Expr| binary(left, BinaryOperator::Plus, right);
    Ok(match name {
        "count" => plus(&left, &right),
        "sum" => either(&left, &right, plus(&left, &right)),
        "min" => call("least", vec![left, right]),
        "max" => call("greatest", vec![left, right]),
        "bool_and" | "every" => either(&left, &right, binary(&left, BinaryOperator::And, &right)),
        "bool_or" => either(&left, &right, binary(&left, BinaryOperator::Or, &right)),
        "array_agg" => either(&left, &right, call("array_cat", vec![left.clone(), right.clone()])),
        "avg" => {
            let (sums, counts) = (named("sum", function), named("count", function));
            let (left, right) = (over(&sums, before), over(&sums, behind));
            // What is whole is divided as a number with digits.
            let sum = plus(&either(&left, &right, plus(&left, &right)), &number("0.0"));
            let count = plus(&over(&counts, before), &over(&counts, behind));
            binary(&sum, BinaryOperator::Divide, &call("nullif", vec![count, number("0")]))
        }
        "first_value" => {
            let has_rows = binary(&over(&rows(function), before), BinaryOperator::Gt, &number("0"));
            choice(vec![(has_rows, left)], right)
        }
        "last_value" => {
            let has_rows = binary(&over(&rows(function), behind), BinaryOperator::Gt, &number("0"));
            choice(vec![(has_rows, right)], left)
        }
        _ => return Err(SqlError::unsupported(format!("EXCLUDE CURRENT ROW of {name}()"))),
    })
}

/// The call with another frame.
fn over(function: &Function, frame: &WindowFrame) -> Expr {
    let mut function = function.clone();
    if let Some(WindowType::WindowSpec(window)) = &mut function.over {
        window.window_frame = Some(frame.clone());
    }
    // Those of truth values have no frames that move on.
    let moving = unqualified(&function.name).and_then(|name| match name.as_str() {
        "bool_and" | "every" => Some("min"),
        "bool_or" => Some("max"),
        _ => None,
    });
    if let Some(moving) = moving {
        function = named(moving, &function);
    }
    Expr::Function(function)
}

fn named(name: &str, function: &Function) -> Function {
    Function { name: ObjectName::from(vec![Ident::new(name)]), ..function.clone() }
}

/// The count of all rows of the window.
fn rows(function: &Function) -> Function {
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)],
        clauses: Vec::new(),
    };
    Function { args: FunctionArguments::List(list), null_treatment: None, ..named("count", function) }
}

fn binary(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    let (left, right) = (Box::new(nested(left)), Box::new(nested(right)));
    nested(&Expr::BinaryOp { left, op, right })
}

/// The one that is not NULL, or what is made of both.
fn either(left: &Expr, right: &Expr, both: Expr) -> Expr {
    let is_null = |side: &Expr| Expr::IsNull(Box::new(nested(side)));
    choice(vec![(is_null(left), right.clone()), (is_null(right), left.clone())], both)
}

fn choice(conditions: Vec<(Expr, Expr)>, otherwise: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: conditions
            .into_iter()
            .map(|(condition, result)| CaseWhen { condition, result })
            .collect(),
        else_result: Some(Box::new(otherwise)),
    }
}
