// SPDX-License-Identifier: Apache-2.0
//! Aggregates of ordered sets: what stands behind `WITHIN GROUP`, written as aggregates that DataFusion has.
//!
//! | call | becomes |
//! |---|---|
//! | `percentile_disc(f) WITHIN GROUP (ORDER BY x)`, `percentile_cont`, `mode` | a function of `coeval_ordered_set(x)`, all values of `x` |
//! | `rank(v) WITHIN GROUP (ORDER BY x)`, `dense_rank`, `percent_rank`, `cume_dist` | counts of the rows whose `x` is before `v` |
//!
//! A row of hypothetical values is compared key by key, by the order that each key has.

use super::{arguments_of, call, casts, nested, number, unqualified};
use crate::error::{SqlError, SqlState};
use crate::functions::{MODE, ORDERED_SET, PERCENTILE_CONT, PERCENTILE_DISC};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, OrderByExpr, Value,
};

/// What stands in the place of such a call; `None` of all other calls.
///
/// # Errors
/// `42809` for a hypothetical row without an order, `0A000` for one over a window, `42601` for DISTINCT, `42883` for another
/// number of arguments than the aggregate takes.
pub(super) fn rewritten(function: &Function) -> Result<Option<Expr>, SqlError> {
    let Some(name) = unqualified(&function.name) else { return Ok(None) };
    let Some(kind) = Kind::of(&name) else { return Ok(None) };
    let arguments = arguments_of(function);
    if function.within_group.is_empty() {
        if matches!(kind, Kind::Place(_)) && function.over.is_none() && !arguments.is_empty() {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(SqlError::new(SqlState::WrongObjectType, message));
        }
        return Ok(None);
    }
    if function.over.is_some() {
        let message = format!("OVER is not supported for ordered-set aggregate {name}");
        return Err(SqlError::new(SqlState::FeatureNotSupported, message));
    }
    if is_distinct(function) {
        return Err(SqlError::new(SqlState::SyntaxError, "cannot use DISTINCT with WITHIN GROUP"));
    }
    let keys = &function.within_group;
    match (kind, arguments.len(), keys.as_slice()) {
        (Kind::Mode, 0, [key]) => Ok(Some(of_values(MODE, function, key, arguments))),
        (Kind::Percentile(of), 1, [key]) => Ok(Some(of_values(of, function, key, arguments))),
        (Kind::Place(place), count, keys) if count == keys.len() => {
            let row: Vec<_> = keys.iter().zip(arguments).collect();
            Ok(Some(place_of(place, function, &row)))
        }
        (kind, count, keys) => Err(no_function(&name, kind, (count, keys.len()))),
    }
}

/// The aggregates.
#[derive(Clone, Copy)]
enum Kind {
    /// The value at a fraction of the way, by this function.
    Percentile(&'static str),
    /// The most frequent value.
    Mode,
    /// The place that a row would have.
    Place(Place),
}

/// How the place of a hypothetical row is told.
#[derive(Clone, Copy)]
enum Place {
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "percentile_disc" => Self::Percentile(PERCENTILE_DISC),
            "percentile_cont" => Self::Percentile(PERCENTILE_CONT),
            "mode" => Self::Mode,
            "rank" => Self::Place(Place::Rank),
            "dense_rank" => Self::Place(Place::DenseRank),
            "percent_rank" => Self::Place(Place::PercentRank),
            "cume_dist" => Self::Place(Place::CumeDist),
            _ => return None,
        })
    }
}

fn is_distinct(function: &Function) -> bool {
    matches!(&function.args, FunctionArguments::List(list)
        if matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct)))
}

fn no_function(name: &str, kind: Kind, (direct, keys): (usize, usize)) -> SqlError {
    let error = SqlError::new(SqlState::UndefinedFunction, format!("function {name} does not exist"));
    if !matches!(kind, Kind::Place(_)) {
        return error.with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        );
    }
    error.with_hint(format!(
        "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {direct}) \
         must match the number of ordering columns (here {keys})."
    ))
}

/// What a function finds among all values of the key: it is given them, what is asked, and whether the greatest one is the first.
/// On which side the NULLs are does not matter, as they do not count.
fn of_values(of: &str, function: &Function, key: &OrderByExpr, asked: Vec<Expr>) -> Expr {
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(key.expr.clone()))],
        clauses: Vec::new(),
    };
    let values = aggregate(function, ORDERED_SET, list, None);
    let is_descending = Value::Boolean(!key.options.asc.unwrap_or(true));
    call(of, std::iter::once(values).chain(asked).chain([Expr::Value(is_descending.into())]).collect())
}

/// An aggregate over the rows of the call, those that meet a further condition.
fn aggregate(function: &Function, name: &str, list: FunctionArgumentList, condition: Option<Expr>) -> Expr {
    let own = function.filter.as_deref().map(nested);
    let filter =
        own.into_iter().chain(condition).reduce(|one, other| binary(one, BinaryOperator::And, other));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        args: FunctionArguments::List(list),
        filter: filter.map(Box::new),
        within_group: Vec::new(),
        ..function.clone()
    })
}

/// How many rows of the call meet a condition, all of them without one.
fn rows(function: &Function, condition: Option<Expr>) -> Expr {
    let args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    aggregate(function, "count", list, condition)
}

/// The keys of the order, each with its value in the hypothetical row.
type Row<'k> = [(&'k OrderByExpr, Expr)];

fn place_of(place: Place, function: &Function, row: &Row<'_>) -> Expr {
    let double = |expression| casts::cast(expression, DataType::DoublePrecision);
    match place {
        Place::Rank => one_more(rows(function, Some(before(row)))),
        Place::DenseRank => one_more(different(function, row)),
        Place::PercentRank => {
            let all = call("nullif", vec![rows(function, None), number("0")]);
            let share =
                binary(double(rows(function, Some(before(row)))), BinaryOperator::Divide, double(all));
            call("coalesce", vec![share, double(number("0"))])
        }
        Place::CumeDist => {
            let same = row.iter().map(|(key, value)| same(key, value));
            let same = same.reduce(|one, other| binary(one, BinaryOperator::And, other));
            let up_to = same.map(|same| binary(before(row), BinaryOperator::Or, same));
            let up_to = double(one_more(rows(function, up_to)));
            binary(up_to, BinaryOperator::Divide, double(one_more(rows(function, None))))
        }
    }
}

/// How many different rows are before the hypothetical one. A row of several columns is none of them NULL by itself; a single
/// column may be, and `count` passes it over.
fn different(function: &Function, row: &Row<'_>) -> Expr {
    let distinct = |expression| FunctionArgumentList {
        duplicate_treatment: Some(DuplicateTreatment::Distinct),
        args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(expression))],
        clauses: Vec::new(),
    };
    let [(key, _)] = row else {
        let whole = call("struct", row.iter().map(|(key, _)| key.expr.clone()).collect());
        return aggregate(function, "count", distinct(whole), Some(before(row)));
    };
    let known = aggregate(function, "count", distinct(key.expr.clone()), Some(before(row)));
    let is_null = nested(&Expr::IsNull(Box::new(nested(&key.expr))));
    let nulls = rows(function, Some(binary(before(row), BinaryOperator::And, is_null)));
    binary(
        known,
        BinaryOperator::Plus,
        call("least", vec![nulls, casts::cast(number("1"), DataType::BigInt(None))]),
    )
}

/// Whether a row of the table is before the hypothetical one: its first key that differs is.
fn before(row: &Row<'_>) -> Expr {
    let mut found: Option<Expr> = None;
    for (key, value) in row.iter().rev() {
        let first = key_before(key, value);
        found = Some(match found {
            None => first,
            Some(rest) => {
                let rest = binary(same(key, value), BinaryOperator::And, rest);
                binary(first, BinaryOperator::Or, rest)
            }
        });
    }
    found.unwrap_or_else(|| Expr::Value(Value::Boolean(false).into()))
}

fn same(key: &OrderByExpr, value: &Expr) -> Expr {
    let (left, right) = (Box::new(nested(&key.expr)), Box::new(nested(value)));
    nested(&Expr::IsNotDistinctFrom(left, right))
}

fn key_before(key: &OrderByExpr, value: &Expr) -> Expr {
    let is_ascending = key.options.asc.unwrap_or(true);
    let nulls_are_first = key.options.nulls_first.unwrap_or(!is_ascending);
    let op = if is_ascending { BinaryOperator::Lt } else { BinaryOperator::Gt };
    let less = binary(nested(&key.expr), op, nested(value));
    let (null, other) = if nulls_are_first { (&key.expr, value) } else { (value, &key.expr) };
    let is_null = nested(&Expr::IsNull(Box::new(nested(null))));
    let is_there = nested(&Expr::IsNotNull(Box::new(nested(other))));
    binary(less, BinaryOperator::Or, binary(is_null, BinaryOperator::And, is_there))
}

fn one_more(count: Expr) -> Expr {
    binary(count, BinaryOperator::Plus, number("1"))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    nested(&Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) })
}
