// SPDX-License-Identifier: Apache-2.0
//! The last pass over a query: types, texts and lists of rows are written as the engine wants them.

use crate::engine::{Dialect, Lists, Names, Nulls, Types};
use crate::error::{Result, SqlState, TiqueError, flow};
use crate::parse::parse_query;
use crate::physical::lacking;
use crate::values::{bytes_of, with_minutes};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArgumentClause, FunctionArguments, Ident, NamedWindowExpr,
    OrderBy, OrderByExpr, OrderByKind, Query, Select, SetExpr, Statement, TableFactor, Value, ValueWithSpan,
    Values, VisitMut, VisitorMut, WindowType,
};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Writes a query as an engine wants it. Each query is spelled once.
///
/// # Errors
/// 0A000: a type that the engine lacks. 22P02: a text that is to be a number and is none, for an engine that does not look.
pub(crate) fn spell(statement: &mut Statement, dialect: &Dialect) -> Result<()> {
    match VisitMut::visit(statement, &mut Spelling { dialect }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Spelling<'a> {
    dialect: &'a Dialect,
}

impl Spelling<'_> {
    fn cast(&self, kind: &mut CastKind, value: &mut Expr, data_type: &mut DataType) -> Result<()> {
        if *data_type == DataType::Bytea
            && let Some(bytes) = bytes_of(value)
        {
            *value = Expr::Value((self.dialect.bytes)(&bytes).with_empty_span());
        }
        if let Some(moment) = with_minutes(value, data_type) {
            *value = moment;
        }
        let spelled = (self.dialect.spelled)(data_type).ok_or_else(|| lacking(self.dialect, data_type))?;
        if let (Types::Ours(_), Expr::Value(value)) = (self.dialect.types, &*value)
            && let Value::SingleQuotedString(text) = &value.value
            && spelled != DataType::Text
            && !text.trim().parse::<f64>().is_ok_and(f64::is_finite)
        {
            let message = format!("the text {value} is no {data_type} for {}", self.dialect.name);
            return Err(TiqueError::new(SqlState::InvalidText, message));
        }
        *data_type = spelled;
        if *kind == CastKind::DoubleColon {
            *kind = CastKind::Cast;
        }
        Ok(())
    }

    fn name(&self, name: &mut Ident) {
        if self.dialect.names == Names::Backticks && name.quote_style == Some('"') {
            name.quote_style = Some('`');
        }
    }

    /// Says where NULLs stand in an order that does not.
    fn order(&self, keys: &mut [OrderByExpr]) {
        if self.dialect.nulls == Nulls::Above {
            for options in keys.iter_mut().map(|key| &mut key.options) {
                options.nulls_first.get_or_insert(options.asc == Some(false));
            }
        }
    }

    /// The orders of a function's arguments and of its window. That of WITHIN GROUP is of values alone: NULLs do not count there.
    fn orders_of(&self, function: &mut Function) {
        if let FunctionArguments::List(list) = &mut function.args {
            for clause in &mut list.clauses {
                if let FunctionArgumentClause::OrderBy(keys) = clause {
                    self.order(keys);
                }
            }
        }
        if let Some(WindowType::WindowSpec(window)) = &mut function.over {
            self.order(&mut window.order_by);
        }
    }
}

impl VisitorMut for Spelling<'_> {
    type Break = TiqueError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<TiqueError> {
        if self.dialect.lists == Lists::ColumnsApart
            && let SetExpr::Values(values) = &*query.body
            && has_columns_alike(values)
            && let Ok(selects) = parse_query(&selects(&rows(values)))
        {
            query.body = selects.body;
        }
        if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by {
            self.order(keys);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<TiqueError> {
        for window in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = &mut window.1 {
                self.order(&mut window.order_by);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<TiqueError> {
        match expr {
            Expr::Cast { kind, expr, data_type, .. } => flow(self.cast(kind, expr, data_type)),
            Expr::TypedString(text) if (self.dialect.spelled)(&text.data_type).is_none() => {
                ControlFlow::Break(lacking(self.dialect, &text.data_type))
            }
            Expr::Identifier(name) => {
                self.name(name);
                ControlFlow::Continue(())
            }
            Expr::Function(function) => {
                self.orders_of(function);
                ControlFlow::Continue(())
            }
            Expr::CompoundIdentifier(parts) => {
                parts.iter_mut().for_each(|part| self.name(part));
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// `(query) AS name (columns)` becomes `(WITH ... (columns) AS (query) SELECT ...) AS name`.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<TiqueError> {
        if self.dialect.names == Names::Backticks
            && let TableFactor::Derived { lateral: false, subquery, alias: Some(alias), .. } = factor
            && !alias.columns.is_empty()
        {
            let mut named = match parse_query("WITH tique_named AS (SELECT 1) SELECT * FROM tique_named") {
                Ok(named) => Box::new(named),
                Err(error) => return ControlFlow::Break(error),
            };
            let with = named.with.as_mut().expect("the query begins with WITH");
            std::mem::swap(&mut with.cte_tables[0].query, subquery);
            with.cte_tables[0].alias.columns = std::mem::take(&mut alias.columns);
            *subquery = named;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<TiqueError> {
        if let Value::SingleQuotedString(text) = &mut value.value
            && let Cow::Owned(escaped) = self.dialect.literals.escaped(text)
        {
            *text = escaped;
        }
        ControlFlow::Continue(())
    }
}

/// A form of a value in which equal literals are equal; `None` if it is no literal, so that its value is not known.
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
    use crate::parse::parse;

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
