// SPDX-License-Identifier: Apache-2.0
//! Rows that are values: `SELECT t FROM t`, `md5(t::text)`, `a.* = b.*`. They are written out as `ROW(t.a, t.b)`, and `(t).a` as
//! `t.a`. Those that an outer join may have filled up, which are NULL as wholes, have a condition round them, in which is asked for a
//! column of theirs that is not NULL otherwise. Those whose columns are not known stay as they are.
//! The stars of `ROW(t.*, 1)` are written out [before](super::stars).

use super::{Marks, mark, mark_of, markable, only_part, shows_all_of};
use crate::column_name::MARK;
use crate::names::fold;
use crate::parse::join_name;
use crate::query::compares;
use crate::query::dialect::is_register;
use crate::query::scopes::{FindRelation, Owner, Scopes, WholeRow, constraint_of};
use crate::select::{call, quoted};
use crate::walk::{Walk, WalkMut};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, Expr, GroupByExpr, Ident, JoinConstraint, ObjectNamePart,
    OrderByKind, Query, Select, SelectItem, TableFactor, TableWithJoins, Visitor, VisitorMut,
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
    let mut writing =
        WritingOut { scopes: Scopes::of_statement(find), kept: HashSet::new(), marks: Vec::new() };
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
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(fold(&alias.name)),
            TableFactor::Table { name, .. } => name.0.last().and_then(ObjectNamePart::as_ident).map(fold),
            _ => None,
        };
        self.of_tables.extend(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for tables in &select.from {
            self.of_tables.extend(names_of_joins(tables));
        }
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

/// The names that joins have: `JOIN ... USING (a) AS j`.
fn names_of_joins(tables: &TableWithJoins) -> impl Iterator<Item = String> {
    let constraints = tables.joins.iter().filter_map(|join| constraint_of(&join.join_operator));
    let columns = constraints.filter_map(|constraint| match constraint {
        JoinConstraint::Using(columns) => Some(columns),
        _ => None,
    });
    columns.flatten().filter_map(join_name).map(fold)
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
    /// For each query around the place.
    marks: Vec<Markable>,
}

/// Relations of a FROM that have a column for their rows, or can get one.
#[derive(Default)]
struct Markable {
    names: HashSet<String>,
    marks: Marks,
}

impl Markable {
    fn of(select: &Select) -> Self {
        let mut names = HashSet::new();
        select.from.iter().for_each(|tables| add_markable(tables, &mut names));
        // The column would be among the outputs.
        names.retain(|name| !select.projection.iter().any(|item| shows_all_of(item, name)));
        Self { names, marks: Marks::default() }
    }

    /// Whether a relation has the column, or gets it.
    fn want(&mut self, relation: &str) -> bool {
        let is_set = self.marks.set.iter().any(|set| set == relation);
        let gets_it = !is_set && self.names.contains(relation);
        if gets_it {
            self.marks.wanted.push(relation.to_owned());
        }
        is_set || gets_it
    }

    /// Puts the columns that are wanted beside those of their relations. What comes behind FROM has those alone.
    fn set(&mut self, select: &mut Select) {
        self.names.clear();
        for name in std::mem::take(&mut self.marks.wanted) {
            let is_set = self.marks.set.contains(&name);
            if !is_set && select.from.iter_mut().any(|tables| mark(tables, &name)) {
                self.marks.set.push(name);
            }
        }
    }
}

fn add_markable(tables: &TableWithJoins, names: &mut HashSet<String>) {
    let joined = tables.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&tables.relation).chain(joined) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                add_markable(table_with_joins, names);
            }
            factor => names.extend(markable(factor).map(fold)),
        }
    }
}

/// The columns of a row; `None` if they are not known, or not told apart.
fn columns_of_row(whole: &WholeRow<'_>, name: &Ident) -> Option<Vec<Expr>> {
    let columns = whole.columns.filter(|columns| !columns.is_empty())?;
    let mut known = HashSet::new();
    let are_told_apart = columns.iter().all(|column| !column.contains(MARK) && known.insert(column));
    if whole.is_value || !are_told_apart {
        return None;
    }
    let of_row = |column: &String| Expr::CompoundIdentifier(vec![name.clone(), quoted(column.clone())]);
    // The mark is put there for what counts rows.
    let mark = mark_of(&fold(name));
    Some(columns.iter().filter(|column| **column != mark).map(of_row).collect())
}

/// What is NULL if another expression is, else the row of these columns.
fn row_unless_null(asked: Expr, columns: Vec<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition: Expr::IsNotNull(Box::new(asked)),
            result: call("row", columns),
        }],
        else_result: None,
    }
}

impl WritingOut<'_> {
    /// The columns of the relation of this name; `None` if its rows stay as they are.
    fn columns(&self, name: &Ident) -> Option<Vec<Expr>> {
        let whole = self.scopes.whole_row(name)?;
        if whole.is_filled_up { None } else { columns_of_row(&whole, name) }
    }

    /// The relation whose row an expression is that an outer join may have filled up.
    fn filled_up<'e>(&self, expression: &'e Expr) -> Option<&'e Ident> {
        let name = match expression {
            Expr::Identifier(name) => {
                let is_column = self.scopes.owner_of_column(expression) != Some(Owner::Nobody);
                if is_column || is_register(expression) { None } else { Some(name) }
            }
            Expr::QualifiedWildcard(name, _) => only_part(name),
            _ => None,
        }?;
        let whole = self.scopes.whole_row(name)?;
        (whole.is_filled_up && columns_of_row(&whole, name).is_some()).then_some(name)
    }

    /// What such a row is written as; `None` if nothing tells whether it is NULL.
    fn filled_up_row(&mut self, expression: &Expr) -> Option<Expr> {
        let name = self.filled_up(expression)?;
        let whole = self.scopes.whole_row(name)?;
        let columns = columns_of_row(&whole, name)?;
        let own = fold(name);
        let mark = mark_of(&own);
        let is_marked = whole.columns.is_some_and(|columns| columns.contains(&mark));
        let known = whole.row_column.map(str::to_owned);
        let place = whole.place;
        if known.is_none() && !is_marked && !self.marks.get_mut(place)?.want(&own) {
            return None;
        }
        let asked = Expr::CompoundIdentifier(vec![name.clone(), quoted(known.unwrap_or(mark))]);
        Some(row_unless_null(asked, columns))
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
        let is_filled_up = |side: &Expr| self.filled_up(without_parentheses(side)).is_some();
        if compares(op) && (is_filled_up(left) || is_filled_up(right)) {
            let sides: [&Expr; 2] = [left, right];
            self.kept.extend(sides.map(|side| std::ptr::from_ref(without_parentheses(side))));
            return;
        }
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
        self.marks.push(Markable::default());
        if let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) {
            self.kept.extend(order.iter().map(|key| std::ptr::from_ref(&key.expr)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.leave();
        self.marks.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.scopes.turn_to(select);
        if let Some(marks) = self.marks.last_mut() {
            *marks = Markable::of(select);
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(row @ Expr::Identifier(name)) = &*item
                && (self.columns_of(row).is_some() || self.filled_up(row).is_some())
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

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(marks) = self.marks.last_mut() {
            marks.set(select);
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
        } else if let Some(row) = self.filled_up_row(expression) {
            *expression = row;
        }
        ControlFlow::Continue(())
    }
}
