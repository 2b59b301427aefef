// SPDX-License-Identifier: Apache-2.0
//! `f(x) OVER (... ROWS BETWEEN a AND b EXCLUDE CURRENT ROW)`, which DataFusion has not: two windows, of the rows before the current one
//! and of those behind it, whose values are put together.
//!
//! The parser has put a call in front of what such a window is divided by ([`Exclusion::mark`]). Where there are no such two windows it
//! stays there, and the plan's function goes over the rows of each frame ([`frame_exclusions`](crate::query::frame_exclusions)).

use super::{call, nested, number, unqualified};
use crate::parse::Exclusion;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
    WindowType,
};

/// Functions that count rows of the window, whatever its frame is.
const WITHOUT_FRAME: [&str; 8] =
    ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"];

/// What stands in the place of a call whose window leaves out the current row; `None` for others, where one frame is enough, and where
/// two are not.
pub(super) fn rewritten(function: &mut Function) -> Option<Expr> {
    let name = unqualified(&function.name).unwrap_or_default();
    let Some(WindowType::WindowSpec(window)) = &mut function.over else { return None };
    if WITHOUT_FRAME.contains(&name.as_str()) {
        take_mark(window);
        return None;
    }
    if !leaves_out_current_row(window) {
        return None;
    }
    let sides = sides(window.window_frame.as_ref()?)?;
    let (before, behind) = match sides {
        Sides::Both(before, behind) => (before, behind),
        Sides::One(side) => {
            take_mark(window);
            window.window_frame = Some(side);
            return None;
        }
        Sides::Whole => {
            take_mark(window);
            return None;
        }
    };
    let mut plain = function.clone();
    if let Some(WindowType::WindowSpec(window)) = &mut plain.over {
        take_mark(window);
    }
    both(&name, &plain, &before, &behind)
}

/// Whether a window's frame leaves out the current row alone.
pub(super) fn leaves_out_current_row(window: &WindowSpec) -> bool {
    window.partition_by.iter().any(|expression| exclusion(expression) == Some(Exclusion::CurrentRow))
}

/// Whether a window's frame leaves out rows.
pub(super) fn leaves_out_rows(window: &WindowSpec) -> bool {
    window.partition_by.iter().any(is_mark)
}

/// The window without the mark that says so.
pub(super) fn take_mark(window: &mut WindowSpec) {
    window.partition_by.retain(|expression| !is_mark(expression));
}

/// Whether this says of a window that its frame leaves out rows.
pub(super) fn is_mark(expression: &Expr) -> bool {
    exclusion(expression).is_some()
}

fn exclusion(expression: &Expr) -> Option<Exclusion> {
    match expression {
        Expr::Function(function) => Exclusion::of_mark(&unqualified(&function.name)?),
        _ => None,
    }
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

/// `None` where that is not known before the query runs.
fn lies(bound: &WindowFrameBound) -> Option<Lies> {
    let (offset, side) = match bound {
        WindowFrameBound::CurrentRow => return Some(Lies::AtCurrent),
        WindowFrameBound::Preceding(offset) => (offset, Lies::Before),
        WindowFrameBound::Following(offset) => (offset, Lies::Behind),
    };
    let Some(offset) = offset else { return Some(side) };
    let Expr::Value(value) = offset.as_ref() else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    let count = digits.parse::<u64>().ok()?;
    Some(if count == 0 { Lies::AtCurrent } else { side })
}

/// `None` for a frame of other units than rows, one of the current row alone, and one whose bounds are no constants.
fn sides(frame: &WindowFrame) -> Option<Sides> {
    if frame.units != WindowFrameUnits::Rows {
        return None;
    }
    let end = frame.end_bound.clone().unwrap_or(WindowFrameBound::CurrentRow);
    let one = || Some(Box::new(number("1")));
    let before = || WindowFrame { end_bound: Some(WindowFrameBound::Preceding(one())), ..frame.clone() };
    let behind = || WindowFrame {
        start_bound: WindowFrameBound::Following(one()),
        end_bound: Some(end.clone()),
        ..frame.clone()
    };
    Some(match (lies(&frame.start_bound)?, lies(&end)?) {
        (Lies::Before, Lies::Behind) => Sides::Both(before(), behind()),
        (Lies::Before, Lies::AtCurrent) => Sides::One(before()),
        (Lies::AtCurrent, Lies::Behind) => Sides::One(behind()),
        (Lies::AtCurrent, Lies::AtCurrent) => return None,
        (Lies::Before | Lies::AtCurrent, Lies::Before) | (Lies::Behind, _) => Sides::Whole,
    })
}

/// The value over both sides; `None` for functions whose values of two windows cannot be put together.
fn both(name: &str, function: &Function, before: &WindowFrame, behind: &WindowFrame) -> Option<Expr> {
    let (left, right) = (over(function, before), over(function, behind));
    let plus = |left: &Expr, right: &Expr| binary(left, BinaryOperator::Plus, right);
    Some(match name {
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
        _ => return None,
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
