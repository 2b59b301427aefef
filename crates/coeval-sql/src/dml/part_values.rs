// SPDX-License-Identifier: Apache-2.0
//! Conditions of a statement of several parts that compare with a part's rows, rewritten with constants.
//!
//! When the statement itself runs, it is known what a part has returned. If these are few rows, constants in their place let the
//! statement find its rows by key, as in a queue whose first job is locked and deleted by one statement:
//!
//! | in WHERE | becomes |
//! |---|---|
//! | `id = (SELECT id FROM part)`, other comparisons | `id = 7`; NULL of that type if the part has no row |
//! | `id IN (SELECT id FROM part)`, `id = ANY (...)` | `id IN (7, 8)` |
//! | `id NOT IN (SELECT id FROM part)`, `id <> ALL (...)` | `id NOT IN (7, 8)` |
//! | `id = part.id` of `UPDATE ... FROM part`, `DELETE ... USING part` | the same, and `id IN (7, 8)` |
//!
//! Only conditions are changed: elsewhere a subquery also gives a column its name and its type.

use super::subqueries::{literal, literals};
use crate::context::{Parts, StatementContext};
use crate::error::SqlError;
use crate::names::fold;
use crate::point::conjuncts;
use crate::relations::CatalogType;
use crate::result::RowSet;
use crate::select;
use crate::types::column_type_of_field;
use crate::walk::{WalkMut, any_query};
use arrow::datatypes::Field;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectNamePart, Query, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, UpdateTableFromKind, VisitorMut,
};
use std::ops::ControlFlow;

/// More rows are joined.
const ROWS_MAX: usize = 1_000;

/// The statement with its conditions as the module says.
///
/// # Errors
/// None is expected: values are written as they are read.
pub(super) fn with_values(context: &StatementContext<'_>, mut statement: Query) -> Result<Query, SqlError> {
    let Some(parts) = context.parts.as_deref() else { return Ok(statement) };
    // A name in WITH inside of the statement may hide a part.
    if any_query(&statement, |query| query.with.is_some()) {
        return Ok(statement);
    }
    let mut known = Known { context, parts };
    let (tables, condition) = match statement.body.as_mut() {
        SetExpr::Select(select) => (&[][..], &mut select.selection),
        SetExpr::Update(Statement::Update(update)) => match &update.from {
            Some(UpdateTableFromKind::AfterSet(tables)) => (&tables[..], &mut update.selection),
            _ => (&[][..], &mut update.selection),
        },
        SetExpr::Delete(Statement::Delete(delete)) => {
            (delete.using.as_deref().unwrap_or_default(), &mut delete.selection)
        }
        _ => return Ok(statement),
    };
    if let Some(mut changed) = condition.take() {
        changed.try_walk_mut(&mut known)?;
        *condition = Some(known.with_implied(changed, tables)?);
    }
    Ok(statement)
}

/// The rows of parts, and how values are written.
struct Known<'a> {
    context: &'a StatementContext<'a>,
    parts: &'a Parts,
}

impl VisitorMut for Known<'_> {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        match self.said_by_constants(expression) {
            Ok(None) => {}
            Ok(Some(said)) => *expression = said,
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// A value that is looked for in a set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Inside,
    Outside,
}

impl Known<'_> {
    fn said_by_constants(&self, expression: &Expr) -> Result<Option<Expr>, SqlError> {
        use BinaryOperator as Op;
        let (value, query, wanted) = match expression {
            Expr::BinaryOp { left, op, right } => {
                if !matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq) {
                    return Ok(None);
                }
                let (new_left, new_right) = (self.single(left)?, self.single(right)?);
                let is_changed = new_left.is_some() || new_right.is_some();
                let side = |new: Option<Expr>, old: &Expr| Box::new(new.unwrap_or_else(|| old.clone()));
                return Ok(is_changed.then(|| Expr::BinaryOp {
                    left: side(new_left, left),
                    op: op.clone(),
                    right: side(new_right, right),
                }));
            }
            Expr::InSubquery { expr, subquery, negated } => {
                (expr, subquery, if *negated { Wanted::Outside } else { Wanted::Inside })
            }
            Expr::AnyOp { left, compare_op: Op::Eq, right, .. } => match right.as_ref() {
                Expr::Subquery(query) => (left, query, Wanted::Inside),
                _ => return Ok(None),
            },
            Expr::AllOp { left, compare_op: Op::NotEq, right } => match right.as_ref() {
                Expr::Subquery(query) => (left, query, Wanted::Outside),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        // A row, perhaps written as a function, is compared with several columns.
        if matches!(value.as_ref(), Expr::Tuple(_) | Expr::Function(_)) {
            return Ok(None);
        }
        let Some((rows, column)) = self.column_read(query) else { return Ok(None) };
        let list = self.written(rows, column)?.filter(|list| !list.is_empty());
        Ok(list.map(|list| Expr::InList { expr: value.clone(), list, negated: wanted == Wanted::Outside }))
    }

    /// The only value of a subquery that reads a column of a part. Several are an error where they are needed.
    fn single(&self, side: &Expr) -> Result<Option<Expr>, SqlError> {
        let Expr::Subquery(query) = side else { return Ok(None) };
        let Some((rows, column)) = self.column_read(query) else { return Ok(None) };
        let Some(mut list) = self.written(rows, column)? else { return Ok(None) };
        match (list.pop(), list.is_empty()) {
            (only, true) if only.is_some() => Ok(only),
            (None, _) => {
                let ty = column_type_of_field(rows.schema.field(column));
                ty.map(|ty| literal(None, ty)).transpose()
            }
            _ => Ok(None),
        }
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
        let column = match item {
            SelectItem::Wildcard(_) => (rows.schema.fields().len() == 1).then_some(0),
            SelectItem::UnnamedExpr(Expr::Identifier(column)) => column_of(rows, column),
            _ => None,
        };
        column.map(|column| (rows, column))
    }

    /// The condition with what it implies by its equalities with columns of parts among these tables.
    fn with_implied(&self, condition: Expr, tables: &[TableWithJoins]) -> Result<Expr, SqlError> {
        let (mut given, mut implied) = (Vec::new(), Vec::new());
        conjuncts(&condition, &mut given);
        for conjunct in given {
            let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = conjunct else { continue };
            for (own, other) in [(left, right), (right, left)] {
                if let (Expr::Identifier(_) | Expr::CompoundIdentifier(_), Expr::CompoundIdentifier(name)) =
                    (own.as_ref(), other.as_ref())
                    && let Some((rows, column)) = self.column_named(name, tables)
                    && let Some(list) = self.written(rows, column)?.filter(|list| !list.is_empty())
                {
                    implied.push(Expr::InList { expr: own.clone(), list, negated: false });
                }
            }
        }
        if implied.is_empty() {
            return Ok(condition);
        }
        let and = |left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        };
        Ok(implied.into_iter().fold(Expr::Nested(Box::new(condition)), and))
    }

    /// The rows of the part, and the column of it, that `table.column` names.
    fn column_named(&self, name: &[Ident], tables: &[TableWithJoins]) -> Option<(&RowSet, usize)> {
        let [table, column] = name else { return None };
        let wanted = fold(table);
        let part = tables.iter().find_map(|table| match &table.relation {
            TableFactor::Table { name, alias, args: None, .. } => {
                let [ObjectNamePart::Identifier(part)] = &name.0[..] else { return None };
                let shown = alias.as_ref().map_or(part, |alias| &alias.name);
                let has_own_columns = alias.as_ref().is_none_or(|alias| alias.columns.is_empty());
                (fold(shown) == wanted && has_own_columns).then_some(part)
            }
            _ => None,
        })?;
        let rows = self.parts.rows(&fold(part))?;
        column_of(rows, column).map(|column| (rows, column))
    }

    /// The values of a column as constants; `None` if they are many, or not the same as constants.
    fn written(&self, rows: &RowSet, column: usize) -> Result<Option<Vec<Expr>>, SqlError> {
        if rows.rows() > ROWS_MAX || !is_written_alike(rows.schema.field(column)) {
            return Ok(None);
        }
        literals(rows, column, self.context.settings.zone())
    }
}

/// The only column of this name.
fn column_of(rows: &RowSet, name: &Ident) -> Option<usize> {
    let name = fold(name);
    let mut named = rows.schema.fields().iter().enumerate().filter(|(_, field)| *field.name() == name);
    let found = named.next().map(|(place, _)| place);
    found.filter(|_| named.next().is_none())
}

/// Whether a value of this column and the same value written as a constant compare alike.
fn is_written_alike(field: &Field) -> bool {
    use ColumnType as Ty;
    let is_plain = |ty| {
        matches!(
            ty,
            Ty::SmallInt
                | Ty::Int
                | Ty::BigInt
                | Ty::Numeric { .. }
                | Ty::Boolean
                | Ty::Uuid
                | Ty::PgLsn
                | Ty::Text
                | Ty::Varchar(_)
                | Ty::Date
                | Ty::Timestamp
                | Ty::TimestampTz
        )
    };
    CatalogType::of_field(field).is_none() && column_type_of_field(field).is_some_and(is_plain)
}
