// SPDX-License-Identifier: Apache-2.0
//! The last pass over a query: types, texts and lists of rows are written as the engine wants them.

use crate::engine::{Dialect, Lists};
use crate::rewrite::parse_query;
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Query, SetExpr, Statement, Value, ValueWithSpan, Values, VisitMut, VisitorMut,
};
use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// Writes a query as an engine wants it. Each query is spelled once.
pub(crate) fn spell(statement: &mut Statement, dialect: &Dialect) {
    match VisitMut::visit(statement, &mut Spelling { dialect }) {
        ControlFlow::Continue(()) => {}
        ControlFlow::Break(never) => match never {},
    }
}

struct Spelling<'a> {
    dialect: &'a Dialect,
}

impl VisitorMut for Spelling<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        if self.dialect.lists == Lists::ColumnsApart
            && let SetExpr::Values(values) = &*query.body
            && has_columns_alike(values)
            && let Ok(selects) = parse_query(&selects(&rows(values)))
        {
            query.body = selects.body;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::Cast { kind, data_type, .. } = expr {
            *data_type = (self.dialect.spelled)(data_type);
            if *kind == CastKind::DoubleColon {
                *kind = CastKind::Cast;
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<Infallible> {
        if let Value::SingleQuotedString(text) = &mut value.value
            && let Cow::Owned(escaped) = self.dialect.literals.escaped(text)
        {
            *text = escaped;
        }
        ControlFlow::Continue(())
    }
}

/// What a value could be taken for: nothing that is known, if it is no literal.
fn known(value: &Expr) -> Option<String> {
    match value {
        Expr::Nested(inner) => known(inner),
        Expr::Cast { expr, data_type, .. } => Some(format!("{} {data_type}", known(expr)?)),
        Expr::Value(value) => match &value.value {
            // One number may be written in many ways.
            Value::Number(digits, _) => digits.parse::<f64>().ok().map(|number| number.to_string()),
            other => Some(other.to_string()),
        },
        _ => None,
    }
}

/// Whether two columns of a list may have the same values, in whatever order.
fn has_columns_alike(values: &Values) -> bool {
    let width = values.rows.first().map_or(0, |row| row.len());
    if values.rows.len() < 2 || width < 2 {
        return false;
    }
    let mut columns: Vec<Vec<String>> = Vec::with_capacity(width);
    for place in 0..width {
        let column = values.rows.iter().map(|row| known(row.get(place)?));
        let Some(mut column) = column.collect::<Option<Vec<_>>>() else { return true };
        column.sort_unstable();
        if columns.contains(&column) {
            return true;
        }
        columns.push(column);
    }
    false
}

fn rows(values: &Values) -> Vec<String> {
    let row = |row: &[Expr]| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    values.rows.iter().map(|values| row(values)).collect()
}

/// A query for each row, put together two by two: engines do not go deep.
fn selects(rows: &[String]) -> String {
    match rows {
        [row] => format!("SELECT {row}"),
        rows => {
            let (left, right) = rows.split_at(rows.len() / 2);
            format!("({} UNION ALL {})", selects(left), selects(right))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::parse;

    fn are_alike(list: &str) -> bool {
        let query = parse_query(list).unwrap();
        let SetExpr::Values(values) = &*query.body else { panic!("{list} is a list") };
        has_columns_alike(values)
    }

    #[test]
    fn columns_with_the_same_values_in_another_order_are_told() {
        assert!(are_alike("VALUES (1, 2), (2, 1)"));
        assert!(are_alike("VALUES (11, NULL, 12), (12, 2, 11)"));
        assert!(are_alike("VALUES (1, 2.0), (2, 1)"), "numbers are alike, however they are written");
        assert!(are_alike("VALUES (1, 'a'), (1 + 1, 'b')"), "what is computed may be anything");
        assert!(!are_alike("VALUES (1, '2'), (2, '1')"));
        assert!(!are_alike("VALUES (1, 2), (2, 3)"));
        assert!(!are_alike("VALUES (1, 1)"));
    }

    #[test]
    fn rows_become_queries_that_are_put_together() {
        let rows: Vec<String> = (1..=3).map(|row| format!("{row}, 'x'")).collect();
        let sql = selects(&rows);
        assert_eq!(sql, "(SELECT 1, 'x' UNION ALL (SELECT 2, 'x' UNION ALL SELECT 3, 'x'))");
        assert_eq!(parse(&sql).unwrap().len(), 1);
    }
}
