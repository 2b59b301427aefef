// SPDX-License-Identifier: Apache-2.0
//! `WHERE id = (SELECT id FROM part)` and `WHERE id IN (SELECT id FROM part)` in a statement of several parts.
//!
//! What a part has returned is known by the time the statement itself runs. If it is little, its values stand in place of the
//! subquery: then rows are found by their keys, as in a queue whose first job is locked and deleted by one statement.

use super::parts::Parts;
use super::select;
use super::subqueries::literals;
use crate::catalog::CatalogType;
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::names::fold;
use crate::query::column_type_of_field;
use crate::result::RowSet;
use crate::walk::{Walk, WalkMut};
use arrow::datatypes::Field;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    Expr, ObjectNamePart, Query, SelectItem, SetExpr, TableFactor, Value, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// More rows are joined.
const ROWS_MAX: usize = 1_000;

/// The statement with values in place of the subqueries that only read one column of a part.
///
/// # Errors
/// None is expected: values are written as they are read.
pub(super) fn with_values(context: &StatementContext<'_>, mut statement: Query) -> Result<Query, SqlError> {
    // A name in WITH inside of the statement may hide a part.
    let has_with = |query: &Query| query.walk(&mut LooksForWith).is_break();
    let Some(parts) = context.parts.as_deref() else { return Ok(statement) };
    if has_with(&statement) {
        return Ok(statement);
    }
    match statement.walk_mut(&mut Replacement { context, parts }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(statement),
    }
}

/// Whether a value of this column and the same value written as a constant mean the same wherever they stand.
fn is_written_alike(field: &Field) -> bool {
    use ColumnType as Ty;
    let ty = column_type_of_field(field);
    CatalogType::of_field(field).is_none()
        && matches!(
            ty,
            Some(
                Ty::SmallInt
                    | Ty::Int
                    | Ty::BigInt
                    | Ty::Numeric { .. }
                    | Ty::Boolean
                    | Ty::Text
                    | Ty::Varchar(_)
                    | Ty::Date
                    | Ty::Timestamp
                    | Ty::TimestampTz
                    | Ty::Uuid
            )
        )
}

struct LooksForWith;

impl Visitor for LooksForWith {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if query.with.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Replacement<'a> {
    context: &'a StatementContext<'a>,
    parts: &'a Parts,
}

impl VisitorMut for Replacement<'_> {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        match self.replaced(expression) {
            Ok(None) => {}
            Ok(Some(replaced)) => *expression = replaced,
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

impl Replacement<'_> {
    fn replaced(&self, expression: &Expr) -> Result<Option<Expr>, SqlError> {
        Ok(match expression {
            Expr::Subquery(query) => match self.values(query)? {
                None => None,
                Some(mut values) => match (values.pop(), values.is_empty()) {
                    (None, _) => Some(Expr::Value(Value::Null.into())),
                    (Some(only), true) => Some(only),
                    // That is an error, if the subquery is needed.
                    (Some(_), false) => None,
                },
            },
            Expr::InSubquery { expr, subquery, negated } => self.values(subquery)?.map(|list| {
                if list.is_empty() {
                    Expr::value(Value::Boolean(*negated))
                } else {
                    Expr::InList { expr: expr.clone(), list, negated: *negated }
                }
            }),
            _ => None,
        })
    }

    /// What a subquery gives that only reads a column of a part.
    fn values(&self, query: &Query) -> Result<Option<Vec<Expr>>, SqlError> {
        let Some((rows, column)) = self.column_read(query) else { return Ok(None) };
        if rows.rows() > ROWS_MAX || !is_written_alike(rows.schema.field(column)) {
            return Ok(None);
        }
        literals(rows, column, self.context.settings.zone())
    }

    /// The rows of the part, and the column of it, that `SELECT column FROM part` or `SELECT * FROM part` reads.
    fn column_read(&self, query: &Query) -> Option<(&RowSet, usize)> {
        let SetExpr::Select(body) = query.body.as_ref() else { return None };
        let ([item], [table]) = (&body.projection[..], &body.from[..]) else { return None };
        let TableFactor::Table { name, .. } = &table.relation else { return None };
        let [ObjectNamePart::Identifier(part)] = &name.0[..] else { return None };
        // Nothing else is said: no condition, no order, no alias.
        if *query != select::query(None, vec![item.clone()], vec![select::table(name.clone(), None)], None) {
            return None;
        }
        let rows = self.parts.rows(&fold(part))?;
        let fields = rows.schema.fields();
        let column = match item {
            SelectItem::Wildcard(_) => (fields.len() == 1).then_some(0),
            SelectItem::UnnamedExpr(Expr::Identifier(column)) => {
                let name = fold(column);
                let mut named = fields.iter().enumerate().filter(|(_, field)| *field.name() == name);
                let found = named.next().map(|(place, _)| place);
                found.filter(|_| named.next().is_none())
            }
            _ => None,
        };
        column.map(|column| (rows, column))
    }
}
