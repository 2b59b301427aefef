// SPDX-License-Identifier: Apache-2.0
//! Comparisons of rows, written as comparisons of their columns.

use crate::error::SqlError;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, FunctionArguments, UnaryOperator};

/// The columns of a row as it is written: `(a, b)` or `ROW(a, b)`.
pub(super) fn columns(expression: &Expr) -> Option<Vec<Expr>> {
    match expression {
        Expr::Tuple(columns) if columns.len() > 1 => Some(columns.clone()),
        Expr::Nested(inner) => columns(inner),
        Expr::Function(function) if matches!(function.args, FunctionArguments::List(_)) => {
            (super::unqualified(&function.name)? == "row").then(|| super::arguments_of(function))
        }
        _ => None,
    }
}

/// Two rows of as many columns.
fn pair(left: &Expr, right: &Expr) -> Option<(Vec<Expr>, Vec<Expr>)> {
    let (left, right) = (columns(left)?, columns(right)?);
    (left.len() == right.len() && !left.is_empty()).then_some((left, right))
}

/// Refuses to compare two rows of which one has more columns.
///
/// # Errors
/// `42601`.
pub(super) fn check(expression: &Expr) -> Result<(), SqlError> {
    let Expr::BinaryOp { left, op, right } = expression else { return Ok(()) };
    if !compares(op) {
        return Ok(());
    }
    match (columns(left), columns(right)) {
        (Some(left), Some(right)) if left.len() != right.len() => {
            Err(SqlError::syntax("unequal number of entries in row expressions"))
        }
        _ => Ok(()),
    }
}

/// Whether an operator compares its two sides, in an order of values or of rows.
pub(crate) fn compares(operator: &BinaryOperator) -> bool {
    matches!(
        operator,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

/// Whether an operator compares two rows.
pub(super) fn is_comparison(left: &Expr, operator: &BinaryOperator, right: &Expr) -> bool {
    compares(operator) && pair(left, right).is_some()
}

/// `(a, b) < (c, d)` as `a < c OR (a = c AND b < d)`.
pub(super) fn comparison(left: &Expr, operator: &BinaryOperator, right: &Expr) -> Expr {
    let (left, right) = pair(left, right).expect("the caller has asked whether these are rows");
    compared(&left, operator, &right)
}

/// The same of the columns of two rows; there is at least one, and as many on the right as on the left.
pub(super) fn compared(left: &[Expr], operator: &BinaryOperator, right: &[Expr]) -> Expr {
    match operator {
        BinaryOperator::Eq => all(left, right, &BinaryOperator::Eq, &BinaryOperator::And),
        BinaryOperator::NotEq => all(left, right, &BinaryOperator::NotEq, &BinaryOperator::Or),
        _ => ordered(left, operator, right),
    }
}

fn binary(left: Expr, operator: &BinaryOperator, right: Expr) -> Expr {
    let nested = Expr::BinaryOp { left: Box::new(left), op: operator.clone(), right: Box::new(right) };
    Expr::Nested(Box::new(nested))
}

/// The comparisons of the columns, connected.
fn all(left: &[Expr], right: &[Expr], operator: &BinaryOperator, connective: &BinaryOperator) -> Expr {
    let pairs = left.iter().zip(right);
    let compared = pairs.map(|(left, right)| binary(left.clone(), operator, right.clone()));
    compared.reduce(|one, other| binary(one, connective, other)).expect("rows have columns")
}

/// The order of rows is that of the first columns that differ.
fn ordered(left: &[Expr], operator: &BinaryOperator, right: &[Expr]) -> Expr {
    let (first, other) = (left[0].clone(), right[0].clone());
    if left.len() == 1 {
        return binary(first, operator, other);
    }
    let strict = match operator {
        BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::Gt,
        strict => strict.clone(),
    };
    let rest = ordered(&left[1..], operator, &right[1..]);
    let equal = binary(first.clone(), &BinaryOperator::Eq, other.clone());
    binary(binary(first, &strict, other), &BinaryOperator::Or, binary(equal, &BinaryOperator::And, rest))
}

/// What is asked of a row's columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    Null,
    NotNull,
}

/// `(a, b) IS NULL`, which is true if all columns are; `None` for what is no row.
pub(super) fn all_are(row: &Expr, is: Is) -> Option<Expr> {
    let asked = columns(row)?.into_iter().map(|column| {
        let column = Box::new(Expr::Nested(Box::new(column)));
        if is == Is::Null { Expr::IsNull(column) } else { Expr::IsNotNull(column) }
    });
    asked.reduce(|one, other| binary(one, &BinaryOperator::And, other))
}

/// Whether a row is looked for in a list of rows.
pub(super) fn is_membership(row: &Expr, list: &[Expr]) -> bool {
    !list.is_empty() && list.iter().all(|candidate| pair(row, candidate).is_some())
}

/// `(a, b) IN ((1, 2), (3, 4))` as equalities.
pub(super) fn membership(row: &Expr, list: &[Expr], negated: &bool) -> Expr {
    let equalities = list.iter().map(|candidate| comparison(row, &BinaryOperator::Eq, candidate));
    let any =
        equalities.reduce(|one, other| binary(one, &BinaryOperator::Or, other)).expect("the list has rows");
    if *negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(any) } } else { any }
}
