// SPDX-License-Identifier: Apache-2.0
//! `(start, end) OVERLAPS (start, end)`, written as comparisons.
//!
//! Either end of a period may be the earlier one; it begins with that and ends before the later one. A period whose ends
//! are the same is that moment. With one end missing the answer is only known where the other period begins later.

use super::rows;
use crate::walk::change_expressions;
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, Value};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// What it becomes: one period from `'a'` to `'b'`, the other from `'c'` to `'d'`. Those texts stand for the operands.
const FORM: &str = "CASE
    WHEN least('a', 'b') > least('c', 'd') THEN CASE
        WHEN 'c' IS NULL OR 'd' IS NULL THEN NULL
        WHEN least('a', 'b') < greatest('c', 'd') THEN true
        WHEN 'a' IS NULL OR 'b' IS NULL THEN NULL
        ELSE false END
    WHEN least('a', 'b') < least('c', 'd') THEN CASE
        WHEN 'a' IS NULL OR 'b' IS NULL THEN NULL
        WHEN least('c', 'd') < greatest('a', 'b') THEN true
        WHEN 'c' IS NULL OR 'd' IS NULL THEN NULL
        ELSE false END
    WHEN least('a', 'b') = least('c', 'd') AND 'a' IS NOT NULL AND 'b' IS NOT NULL
        AND 'c' IS NOT NULL AND 'd' IS NOT NULL THEN true
END";

/// The comparisons; `None` if these are not two periods.
pub(super) fn rewritten(left: &Expr, operator: &BinaryOperator, right: &Expr) -> Option<Expr> {
    if *operator != BinaryOperator::Overlaps {
        return None;
    }
    let (one, other) = (ends(left)?, ends(right)?);
    let [a, b, c, d] = [one.0, one.1, other.0, other.1];
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(FORM).ok()?;
    let mut form = parser.parse_expr().ok()?;
    let operands = [("a", a), ("b", b), ("c", c), ("d", d)];
    change_expressions(&mut form, |expression| {
        if let Expr::Value(value) = &*expression
            && let Value::SingleQuotedString(name) = &value.value
            && let Some((_, operand)) = operands.iter().find(|(known, _)| known == name)
        {
            *expression = Expr::Nested(Box::new(operand.clone()));
        }
    });
    Some(Expr::Nested(Box::new(form)))
}

/// The ends of a period; one that is an interval is the length.
fn ends(period: &Expr) -> Option<(Expr, Expr)> {
    let [start, end] = <[Expr; 2]>::try_from(rows::columns(period)?).ok()?;
    if !is_length(&end) {
        return Some((start, end));
    }
    let sum =
        Expr::BinaryOp { left: Box::new(start.clone()), op: BinaryOperator::Plus, right: Box::new(end) };
    Some((start, Expr::Nested(Box::new(sum))))
}

fn is_length(end: &Expr) -> bool {
    match end {
        Expr::Interval(_) => true,
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
        Expr::Nested(inner) => is_length(inner),
        _ => false,
    }
}
