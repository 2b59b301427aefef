// SPDX-License-Identifier: Apache-2.0
//! `t TABLESAMPLE BERNOULLI (10)`, which DataFusion passes over: a subquery that takes each row with this probability.
//!
//! SYSTEM takes whole pages in PostgreSQL. Here it takes rows, too: a table has no pages that would be the same in each snapshot.

use super::tables::select_from;
use super::{call, casts, nested, number};
use crate::error::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Ident, ObjectName, ObjectNamePart, SelectItem, SetExpr, TableAlias,
    TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableWithJoins, UnaryOperator, Value,
    WildcardAdditionalOptions,
};

/// Writes a table of which a sample is taken as such a subquery.
///
/// # Errors
/// `42704` for an unknown method, `2202H` for what is no percentage, `42601` for a sample of anything but a table, `0A000` for one that is to
/// be repeatable.
pub(super) fn write_out(factor: &mut TableFactor) -> Result<(), SqlError> {
    let taken = match factor {
        TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } => sample.take(),
        _ => None,
    };
    let sample = match taken {
        Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) => *sample,
        None => return Ok(()),
    };
    let percentage = percentage(sample)?;
    let TableFactor::Table { name, alias, args: None, .. } = factor else {
        return Err(SqlError::syntax("syntax error at or near \"TABLESAMPLE\""));
    };
    let outer = alias.take().unwrap_or_else(|| alias_of(name));
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let table = TableWithJoins { relation: factor.clone(), joins: Vec::new() };
    let mut query = select_from(vec![all], vec![table]);
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = Some(is_taken(&percentage));
    }
    *factor =
        TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(outer), sample: None };
    Ok(())
}

fn alias_of(table: &ObjectName) -> TableAlias {
    let name = table.0.last().and_then(ObjectNamePart::as_ident).cloned();
    let name = name.unwrap_or_else(|| Ident::new(table.to_string()));
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// How many of a hundred rows a sample has.
fn percentage(sample: TableSample) -> Result<Expr, SqlError> {
    let quantity = sample.quantity.filter(|quantity| quantity.unit.is_none());
    let quantity = quantity.ok_or_else(|| SqlError::syntax("TABLESAMPLE has a percentage in parentheses"))?;
    if !matches!(sample.name, Some(TableSampleMethod::Bernoulli | TableSampleMethod::System)) {
        let method = match (&sample.name, &quantity.value) {
            (Some(method), _) => method.to_string().to_lowercase(),
            (None, Expr::Function(function)) => function.name.to_string(),
            (None, other) => other.to_string(),
        };
        let message = format!("tablesample method {method} does not exist");
        return Err(SqlError::new(SqlState::UndefinedObject, message));
    }
    if sample.seed.is_some() {
        return Err(SqlError::unsupported("REPEATABLE in TABLESAMPLE"));
    }
    if sample.offset.is_some() {
        let error = SqlError::unsupported("OFFSET right behind TABLESAMPLE");
        return Err(error.with_hint("Put LIMIT ALL in front of OFFSET."));
    }
    if is_no_percentage(&quantity.value) {
        let message = "sample percentage must be between 0 and 100";
        return Err(SqlError::new(SqlState::InvalidTablesampleArgument, message));
    }
    Ok(quantity.value)
}

/// Whether an expression is a number that is no percentage.
fn is_no_percentage(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_no_percentage(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            number_of(expr).is_some_and(|number| number > 0.0)
        }
        other => number_of(other).is_some_and(|number| number > 100.0),
    }
}

fn number_of(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Nested(inner) => number_of(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// `random() * 100 < percentage`, which is refused if it is none.
fn is_taken(percentage: &Expr) -> Expr {
    let of_hundred = Expr::BinaryOp {
        left: Box::new(call("random", Vec::new())),
        op: BinaryOperator::Multiply,
        right: Box::new(number("100")),
    };
    let percentage = casts::cast(nested(percentage), DataType::DoublePrecision);
    let checked = call(crate::query::typing::PERCENTAGE, vec![percentage]);
    Expr::BinaryOp { left: Box::new(of_hundred), op: BinaryOperator::Lt, right: Box::new(checked) }
}
