// SPDX-License-Identifier: Apache-2.0
//! Rows that are values: `SELECT t FROM t`, `md5(t::text)`, `a.* = b.*`. They are written out as `ROW(t.a, t.b)`, and `(t).a` as
//! `t.a`. Those beside an outer join, which may be NULL as wholes, stay as they are, and so do those whose columns are not known.
//! The stars of `ROW(t.*, 1)` are written out [before](super::stars).

use super::{mark_of, only_part};
use crate::column_name::MARK;
use crate::names::fold;
use crate::query::compares;
use crate::query::dialect::is_register;
use crate::query::scopes::{FindRelation, Owner, Scopes};
use crate::select::{call, quoted};
use crate::walk::{Walk, WalkMut};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, GroupByExpr, Ident, ObjectNamePart, OrderByKind, Query, Select,
    SelectItem, TableFactor, Visitor, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Writes out the rows that are left where no other rule knows them.
pub(super) fn write_out(query: &mut Query, find: FindRelation<'_>) {
    let mut names = Names::default();
    // Nothing breaks off the visits.
    let _ = query.walk(&mut names);
    if names.of_tables.is_disjoint(&names.of_rows) {
        return;
    }
    let mut writing = WritingOut { scopes: Scopes::of_statement(find), kept: HashSet::new() };
    let _ = query.walk_mut(&mut writing);
}

/// The names in a query.
#[derive(Default)]
struct Names {
    of_tables: HashSet<String>,
    /// What may be a row, or a column.
    of_rows: HashSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let name = match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => Some(fold(&alias.name)),
            TableFactor::Table { name, .. } => name.0.last().and_then(ObjectNamePart::as_ident).map(fold),
            _ => None,
        };
        self.of_tables.extend(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Identifier(name) => {
                self.of_rows.insert(fold(name));
            }
            Expr::QualifiedWildcard(name, _) => self.of_rows.extend(only_part(name).map(fold)),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn without_parentheses(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => without_parentheses(inner),
        other => other,
    }
}

struct WritingOut<'f> {
    scopes: Scopes<'f>,
    /// What stays as it is: names that a query is ordered and grouped by, which are those of outputs, rows of which one is to be less,
    /// fields, and tables of columns with subscripts.
    kept: HashSet<*const Expr>,
}

impl WritingOut<'_> {
    /// The columns of the relation of this name; `None` if its rows stay as they are.
    fn columns(&self, name: &Ident) -> Option<Vec<Expr>> {
        let whole = self.scopes.whole_row(name)?;
        let columns = whole.columns.filter(|columns| !columns.is_empty())?;
        let mut known = HashSet::new();
        let are_told_apart = columns.iter().all(|column| !column.contains(MARK) && known.insert(column));
        if whole.is_value || whole.is_filled_up || !are_told_apart {
            return None;
        }
        let of_row = |column: &String| Expr::CompoundIdentifier(vec![name.clone(), quoted(column.clone())]);
        // The mark is put there for what counts rows.
        let mark = mark_of(&fold(name));
        Some(columns.iter().filter(|column| **column != mark).map(of_row).collect())
    }

    /// The columns of the row that an expression is.
    fn columns_of(&self, expression: &Expr) -> Option<Vec<Expr>> {
        match expression {
            Expr::Identifier(name) => {
                let is_column = self.scopes.owner_of_column(expression) != Some(Owner::Nobody);
                if is_column || is_register(expression) { None } else { self.columns(name) }
            }
            Expr::QualifiedWildcard(name, _) => self.columns(only_part(name)?),
            _ => None,
        }
    }

    /// The column that is a field of a row, `(t).a`.
    fn field(&self, expression: &Expr) -> Option<Expr> {
        let Expr::CompoundFieldAccess { root, access_chain } = expression else { return None };
        let (Expr::Nested(row), [AccessExpr::Dot(Expr::Identifier(field))]) =
            (root.as_ref(), access_chain.as_slice())
        else {
            return None;
        };
        let field = fold(field);
        let is_field = |column: &Expr| {
            matches!(column, Expr::CompoundIdentifier(parts)
                if parts.last().is_some_and(|name| name.value == field))
        };
        self.columns_of(row)?.into_iter().find(is_field)
    }

    /// Compares rows as values, of which two NULLs are equal, as they are not in `ROW(a) = ROW(b)`. Which row is less is not known here: those
    /// stay as they are.
    fn compare(&mut self, expression: &mut Expr) {
        let Expr::BinaryOp { left, op, right } = expression else { return };
        if !compares(op) || !(self.is_row(left) || self.is_row(right)) {
            return;
        }
        let same: fn(Box<Expr>, Box<Expr>) -> Expr = match op {
            BinaryOperator::Eq => Expr::IsNotDistinctFrom,
            BinaryOperator::NotEq => Expr::IsDistinctFrom,
            _ => {
                let sides: [&Expr; 2] = [left, right];
                self.kept.extend(sides.map(|side| std::ptr::from_ref(without_parentheses(side))));
                return;
            }
        };
        *expression = Expr::Nested(Box::new(same(left.clone(), right.clone())));
    }

    fn is_row(&self, expression: &Expr) -> bool {
        self.columns_of(without_parentheses(expression)).is_some()
    }
}

impl VisitorMut for WritingOut<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        if let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) {
            self.kept.extend(order.iter().map(|key| std::ptr::from_ref(&key.expr)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.scopes.turn_to(select);
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(row @ Expr::Identifier(name)) = &*item
                && self.columns_of(row).is_some()
            {
                let alias = quoted(fold(name));
                *item = SelectItem::ExprWithAlias { expr: row.clone(), alias };
            }
        }
        if let GroupByExpr::Expressions(keys, _) = &select.group_by {
            self.kept.extend(keys.iter().map(std::ptr::from_ref));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.scopes.enter_table(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.scopes.leave_table(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Some(field) = self.field(expression) {
            *expression = field;
            return ControlFlow::Continue(());
        }
        // Behind a point is the name of a field, and without parentheses in front of one that of a table: `t.a[1]`.
        if let Expr::CompoundFieldAccess { root, access_chain } = &*expression {
            let fields = access_chain.iter().filter_map(|access| match access {
                AccessExpr::Dot(field) => Some(field),
                AccessExpr::Subscript(_) => None,
            });
            self.kept.extend(fields.map(std::ptr::from_ref));
            if matches!(access_chain.first(), Some(AccessExpr::Dot(_)))
                && matches!(root.as_ref(), Expr::Identifier(_))
            {
                self.kept.insert(std::ptr::from_ref(root.as_ref()));
            }
        }
        self.compare(expression);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if self.kept.contains(&std::ptr::from_ref(&*expression)) {
            return ControlFlow::Continue(());
        }
        if let Some(columns) = self.columns_of(expression) {
            *expression = call("row", columns);
        }
        ControlFlow::Continue(())
    }
}
