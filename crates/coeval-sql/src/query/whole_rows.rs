// SPDX-License-Identifier: Apache-2.0
//! Rows as wholes: `count(b.*)` and `count(b)` of what is called `b` in FROM, `b.* IS NULL` and `b IS NOT NULL`.
//!
//! A row that an outer join has filled up is NULL, and not counted; one of NULLs alone is. DataFusion counts all rows, and
//! takes none for NULL. So a column is counted in their place that is NULL only where the row is: one of the table that is
//! NOT NULL, or else one that is put beside its columns in FROM. It tells as well to which query a count belongs that is
//! written in a subquery. Whether a row is NULL its columns tell. [`documents`] has what makes JSON of rows, [`stars`] rows that
//! are written with all columns of others, [`values`] rows that are the value of their only column, [`aliases`] what is known of
//! columns here and is not of rows, and [`written`] all other rows.

mod aliases;
mod documents;
mod stars;
mod values;
mod written;

use super::scopes::{FindRelation, Owner, Scopes, WholeRow, names_of_sets, value_column};
use crate::error::SqlError;
use crate::names::fold;
use crate::select::{body as select_body, of_body as query_of_body};
use crate::walk::{Walk, WalkMut, step};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAlias, TableFactor, TableWithJoins, Value, Visitor, VisitorMut, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

/// The query with whole rows as columns.
///
/// # Errors
/// `0A000` for rows beside an outer join where no column can stand for them, for different rows, and for a question about
/// columns that are not known.
pub(super) fn counted(query: &mut Query, find: FindRelation<'_>) -> Result<(), SqlError> {
    if names_rows(query) {
        let mut rows = Rows { scopes: Scopes::of_statement(find), marks: Vec::new() };
        query.try_walk_mut(&mut rows)?;
    }
    written::write_out(query, find);
    Ok(())
}

/// How a row is written.
#[derive(Clone, Copy)]
enum Written {
    /// `t.*`
    Wildcard,
    /// `t`, which may be a column as well.
    Name,
}

/// The only part of a name.
fn only_part(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(only)] => Some(only),
        _ => None,
    }
}

/// What may be a row.
fn named_row(expression: &Expr) -> Option<(&Ident, Written)> {
    match expression {
        Expr::QualifiedWildcard(name, _) => Some((only_part(name)?, Written::Wildcard)),
        Expr::Identifier(name) => Some((name, Written::Name)),
        Expr::Nested(inner) => named_row(inner),
        _ => None,
    }
}

/// What may be a row that a call counts.
fn counted_row(function: &Function) -> Option<(&Ident, Written)> {
    let is_count = only_part(&function.name).is_some_and(|name| fold(name) == "count");
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return None };
    match argument {
        _ if !is_count => None,
        FunctionArgExpr::QualifiedWildcard(name) => Some((only_part(name)?, Written::Wildcard)),
        FunctionArgExpr::Expr(argument) => named_row(argument),
        _ => None,
    }
}

/// What may be a row that is asked whether it is NULL.
fn asked_row(expression: &Expr) -> Option<(&Ident, Written)> {
    match expression {
        Expr::IsNull(row) | Expr::IsNotNull(row) => named_row(row),
        _ => None,
    }
}

fn names_rows(query: &Query) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            let is_row = match expression {
                Expr::Function(function) => {
                    counted_row(function).is_some()
                        || documents::takes_rows(function)
                        || stars::has_star(function)
                }
                other => asked_row(other).is_some(),
            };
            if is_row { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            let has_values = value_column(factor).is_some() || names_of_sets(factor).is_some();
            if has_values || aliases::names_columns(factor) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    query.walk(&mut Search).is_break()
}

/// Relations of a FROM that get a column for their rows.
#[derive(Default)]
struct Marks {
    wanted: Vec<String>,
    /// Those that have it.
    set: Vec<String>,
}

/// What a relation in FROM is called, if it can get a column for its rows.
fn markable(factor: &TableFactor) -> Option<&Ident> {
    match factor {
        TableFactor::Table { name, alias, args: None, .. } => {
            let own = name.0.last().and_then(ObjectNamePart::as_ident);
            alias.as_ref().map(|alias| &alias.name).or(own)
        }
        TableFactor::Derived { alias, .. } => alias.as_ref().map(|alias| &alias.name),
        _ => None,
    }
}

struct Rows<'f> {
    scopes: Scopes<'f>,
    /// For each query around the place.
    marks: Vec<Marks>,
}

impl Rows<'_> {
    /// The relation whose rows are meant; `None` if it is none, or a column.
    fn row(&self, (name, written): (&Ident, Written)) -> Option<WholeRow<'_>> {
        if let Written::Name = written
            && self.scopes.owner_of_column(&Expr::Identifier(name.clone())) != Some(Owner::Nobody)
        {
            return None;
        }
        self.scopes.whole_row(name)
    }

    /// What is counted in the place of these rows; `None` if the call stays as it is.
    fn counted(&mut self, row: (&Ident, Written)) -> Result<Option<FunctionArgExpr>, SqlError> {
        let Some(whole) = self.row(row) else { return Ok(None) };
        let (place, name) = (whole.place, fold(row.0));
        // `count(*)` would belong to the innermost query.
        let counts_all = !whole.is_filled_up && place + 1 == self.scopes.depth();
        let column = match whole.row_column {
            Some(column) => column.to_owned(),
            None if counts_all => return Ok(Some(FunctionArgExpr::Wildcard)),
            None => mark_of(&name),
        };
        let is_mark = whole.row_column.is_none();
        if is_mark && let Some(marks) = self.marks.get_mut(place) {
            marks.wanted.push(name);
        }
        let parts = vec![row.0.clone(), Ident::with_quote('"', column)];
        Ok(Some(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts))))
    }

    /// Whether all columns of a row are NULL, or none; `None` if no row is asked.
    fn asked(&self, row: (&Ident, Written), ask: fn(Box<Expr>) -> Expr) -> Result<Option<Expr>, SqlError> {
        let Some(whole) = self.row(row) else { return Ok(None) };
        let Some(columns) = whole.columns else {
            let message = format!("whether rows of \"{}\", a view or function, are NULL", fold(row.0));
            return Err(SqlError::unsupported(message).with_hint("Ask one of its columns."));
        };
        let of_column = |column: &String| {
            let parts = vec![row.0.clone(), Ident::with_quote('"', column.clone())];
            ask(Box::new(Expr::CompoundIdentifier(parts)))
        };
        let all = columns.iter().map(of_column).reduce(|one, other| Expr::BinaryOp {
            left: Box::new(one),
            op: BinaryOperator::And,
            right: Box::new(other),
        });
        Ok(all.map(|all| Expr::Nested(Box::new(all))))
    }

    fn replace(&mut self, expression: &mut Expr) -> Result<(), SqlError> {
        let is_null = matches!(expression, Expr::IsNull(_));
        let ask: fn(Box<Expr>) -> Expr = if is_null { Expr::IsNull } else { Expr::IsNotNull };
        if let Expr::Identifier(name) = expression {
            if let Some(value) = self.value(name) {
                *expression = value;
            }
        } else if let Some(row) = asked_row(expression) {
            if let Some(asked) = self.asked(row, ask)? {
                *expression = asked;
            }
        } else if let Expr::Function(function) = expression
            && stars::has_star(function)
        {
            self.write_out_stars(function)?;
        } else if let Expr::Function(function) = expression
            && documents::takes_rows(function)
        {
            self.replace_documents(function)?;
        } else if let Expr::Function(function) = expression
            && let Some(row) = counted_row(function)
            && let Some(argument) = self.counted(row)?
            && let FunctionArguments::List(list) = &mut function.args
        {
            if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
                return Err(SqlError::unsupported("counting different rows as wholes"));
            }
            list.args = vec![FunctionArg::Unnamed(argument)];
        }
        Ok(())
    }

    /// Sets the marks that the innermost query wants, in one of its SELECTs.
    fn set_marks(&mut self, select: &mut Select) -> Result<(), SqlError> {
        let Some(marks) = self.marks.last_mut() else { return Ok(()) };
        for name in std::mem::take(&mut marks.wanted) {
            if marks.set.contains(&name) {
                continue;
            }
            let shows_all = select.projection.iter().any(|item| shows_all_of(item, &name));
            if shows_all || !select.from.iter_mut().any(|tables| mark(tables, &name)) {
                return Err(not_counted(&name));
            }
            marks.set.push(name);
        }
        Ok(())
    }
}

/// The column for the rows of a relation. No user's column has a blank behind this word.
fn mark_of(relation: &str) -> String {
    format!("coeval row of {relation}")
}

fn not_counted(name: &str) -> SqlError {
    let message = format!(
        "counting rows of \"{name}\", which has no column that is NOT NULL, in a subquery or beside an outer join"
    );
    SqlError::unsupported(message).with_hint("Count a column of it that is not NULL.")
}

/// Whether an output is all columns of a relation, the mark among them.
fn shows_all_of(item: &SelectItem, relation: &str) -> bool {
    match item {
        SelectItem::Wildcard(_) => true,
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            name.0.last().and_then(ObjectNamePart::as_ident).is_some_and(|name| fold(name) == relation)
        }
        _ => false,
    }
}

/// Puts the mark beside the columns of a relation; whether it is there.
fn mark(tables: &mut TableWithJoins, relation: &str) -> bool {
    let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
    std::iter::once(&mut tables.relation).chain(joined).any(|factor| mark_factor(factor, relation))
}

fn mark_factor(factor: &mut TableFactor, relation: &str) -> bool {
    if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
        return mark(table_with_joins, relation);
    }
    let Some(name) = markable(factor).filter(|name| fold(name) == relation).cloned() else { return false };
    let mut inner = factor.clone();
    // The subquery around it sees what it sees itself.
    let lateral = match &mut inner {
        TableFactor::Derived { lateral, .. } => std::mem::take(lateral),
        _ => false,
    };
    let there = Expr::Value(Value::Boolean(true).into());
    let projection = vec![
        SelectItem::Wildcard(WildcardAdditionalOptions::default()),
        SelectItem::ExprWithAlias { expr: there, alias: Ident::with_quote('"', mark_of(relation)) },
    ];
    let select = select_body(projection, vec![TableWithJoins { relation: inner, joins: Vec::new() }], None);
    *factor = TableFactor::Derived {
        lateral,
        subquery: Box::new(query_of_body(None, SetExpr::Select(Box::new(select)))),
        alias: Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None }),
        sample: None,
    };
    true
}

impl VisitorMut for Rows<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.enter(query);
        self.marks.push(Marks::default());
        self.order_by_places(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.leave();
        // ORDER BY, behind FROM, may name those alone that are set by then.
        let Some(Marks { wanted, set }) = self.marks.pop() else { return ControlFlow::Continue(()) };
        let missing = wanted.iter().find(|name| !set.contains(name));
        missing.map_or(ControlFlow::Continue(()), |name| ControlFlow::Break(not_counted(name)))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        self.scopes.turn_to(select);
        self.name_values(select);
        self.complete_aliases(select);
        if let Some(marks) = self.marks.last_mut() {
            *marks = Marks::default();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        step(self.set_marks(select))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        self.scopes.enter_table(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        self.scopes.leave_table(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        step(self.replace(expression))
    }
}
