// SPDX-License-Identifier: Apache-2.0
//! A value compared with each element of an array, where DataFusion has no form for it.
//!
//! | form | becomes |
//! |---|---|
//! | `x = ANY (ARRAY(query))`, `x > ALL (ARRAY(query))` | the same with the query: its rows are the elements |
//! | `x LIKE ANY (array)`, `x ~~ ANY (array)`, `x ~ ALL (array)` ... | a function of the text and the array |
//!
//! Before what is in them is rewritten: it tells arrays from queries.

use super::{arguments_of, call, casts, text, unqualified};
use crate::functions::{MATCHES_ALL, MATCHES_ANY};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, FunctionArguments, Query, Value,
};

/// What stands in the expression's place; `None` if it stays, perhaps with a query for an array of its rows.
pub(super) fn rewritten(expression: &mut Expr) -> Option<Expr> {
    match expression {
        Expr::Like { negated, any, expr, pattern, escape_char: None } => {
            let operator = if *negated { "!~~" } else { "~~" };
            if *any {
                Some(called(MATCHES_ANY, expr, operator, pattern))
            } else {
                all(expr, operator, pattern)
            }
        }
        Expr::ILike { negated, any, expr, pattern, escape_char: None } => {
            let operator = if *negated { "!~~*" } else { "~~*" };
            if *any {
                Some(called(MATCHES_ANY, expr, operator, pattern))
            } else {
                all(expr, operator, pattern)
            }
        }
        Expr::AnyOp { left, compare_op, right, .. } => compared(MATCHES_ANY, left, compare_op, right),
        Expr::AllOp { left, compare_op, right } => compared(MATCHES_ALL, left, compare_op, right),
        _ => None,
    }
}

/// The text beside the patterns, where an operator matches with such; else the query in the place of an array of its rows.
fn compared(function: &str, left: &Expr, operator: &BinaryOperator, right: &mut Expr) -> Option<Expr> {
    if let Some(name) = matching(operator) {
        return Some(called(function, left, name, right));
    }
    if let Some(query) = query_of(right) {
        *right = Expr::Subquery(query);
    }
    None
}

/// `LIKE ALL (array)`, which is read as a call of a function of this name; `None` for another pattern.
fn all(input: &Expr, operator: &str, pattern: &Expr) -> Option<Expr> {
    let Expr::Function(function) = pattern else { return None };
    if unqualified(&function.name)? != "all" {
        return None;
    }
    let patterns = match &function.args {
        FunctionArguments::Subquery(query) => Expr::Subquery(query.clone()),
        FunctionArguments::List(_) | FunctionArguments::None => {
            <[Expr; 1]>::try_from(arguments_of(function)).ok().map(|[patterns]| patterns)?
        }
    };
    Some(called(MATCHES_ALL, input, operator, &patterns))
}

fn called(function: &str, input: &Expr, operator: &str, patterns: &Expr) -> Expr {
    call(function, vec![input.clone(), array(patterns), text(operator)])
}

/// What is behind ANY as an array: a parameter is one of texts.
fn array(patterns: &Expr) -> Expr {
    match patterns {
        Expr::Nested(inner) => array(inner),
        Expr::Subquery(query) => {
            let mut array = call("array", Vec::new());
            if let Expr::Function(function) = &mut array {
                function.args = FunctionArguments::Subquery(query.clone());
            }
            array
        }
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => {
            let texts = DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None));
            casts::cast(patterns.clone(), texts)
        }
        other => other.clone(),
    }
}

/// The name of an operator that matches with patterns.
fn matching(operator: &BinaryOperator) -> Option<&'static str> {
    Some(match operator {
        BinaryOperator::PGLikeMatch => "~~",
        BinaryOperator::PGILikeMatch => "~~*",
        BinaryOperator::PGNotLikeMatch => "!~~",
        BinaryOperator::PGNotILikeMatch => "!~~*",
        BinaryOperator::PGRegexMatch => "~",
        BinaryOperator::PGRegexIMatch => "~*",
        BinaryOperator::PGRegexNotMatch => "!~",
        BinaryOperator::PGRegexNotIMatch => "!~*",
        _ => return None,
    })
}

/// The query whose rows an array is made of.
fn query_of(array: &Expr) -> Option<Box<Query>> {
    match array {
        Expr::Nested(inner) => query_of(inner),
        Expr::Function(function) if unqualified(&function.name)? == "array" => match &function.args {
            FunctionArguments::Subquery(query) => Some(query.clone()),
            FunctionArguments::List(_) | FunctionArguments::None => None,
        },
        _ => None,
    }
}
