// SPDX-License-Identifier: Apache-2.0
//! Which statements a server may be sent: those in which every name was bound here.
//!
//! A server runs everything with the rights of its one login, so what a session may do is decided before. A statement is
//! sent if each name of a relation in it is one of these, and each function is [harmless](super::harmless) on the engine:
//!
//! - a common table expression, by the scope of SQL: one of a query around the place, and in the body of a common table
//!   expression only those before it, and with RECURSIVE itself;
//! - a table of that server, by the search path of the session, whose rights are then checked.
//!
//! Both get other names: a table the one that it has there, and a common table expression one that no table has. So an
//! engine with other rules of scope finds nothing where it would find another table. What else can name something (`TABLE t`,
//! functions in FROM, types of the engine, its operators) is not sent either: the statement then runs here, as far as it is
//! a query.

use super::definitions::named;
use super::harmless;
use crate::walk::WalkMut;
use coeval_store::TableDef;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, FromTable, Ident, Insert, ObjectName, Query, Select,
    SetExpr, Statement, TableAlias, TableFactor, TableObject, TypedString, VisitMut, VisitorMut, With,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A statement whose names are all bound.
pub(super) struct Bound {
    /// The statement with the server's names.
    pub(super) statement: Statement,
    /// The tables that it names, each as often as it does.
    pub(super) tables: Vec<Arc<TableDef>>,
}

/// Why a statement is not sent.
struct Unbound;

type Flow = ControlFlow<Unbound>;

/// Binds the names of a statement; `None` if it is not to be sent. `find` gives the table of a server that a name stands for,
/// and none for what is here.
pub(super) fn bind(
    mut statement: Statement,
    kind: &str,
    find: impl Fn(&ObjectName) -> Option<Arc<TableDef>>,
) -> Option<Bound> {
    if !is_plain(&statement) {
        return None;
    }
    let mut binder = Binder::new(kind, &find);
    if let Statement::Insert(Insert { table: TableObject::TableName(name), .. }) = &mut statement {
        // It is no item of FROM, and no common table expression is meant.
        let def = find(name)?;
        *name = named(&def.foreign.as_ref()?.table);
        binder.bound += 1;
        binder.tables.push(def);
    }
    let is_bound = statement.walk_mut(&mut binder).is_continue();
    // A name in a place that is not known here has been met and not bound.
    (is_bound && binder.met == binder.bound).then_some(Bound { statement, tables: binder.tables })
}

/// Whether expressions call nothing but what is harmless on an engine, and have no queries: those of a definition.
pub(super) fn is_harmless(definition: &mut impl VisitMut, kind: &str) -> bool {
    let find = |_: &ObjectName| None;
    let mut binder = Binder::new(kind, &find);
    binder.takes_queries = false;
    definition.walk_mut(&mut binder).is_continue()
}

/// Whether a statement has no part that is not looked at below.
fn is_plain(statement: &Statement) -> bool {
    match statement {
        Statement::Query(_) => true,
        Statement::Insert(insert) => {
            matches!(insert.table, TableObject::TableName(_))
                && insert.output.is_none()
                && insert.settings.is_none()
                && insert.format_clause.is_none()
                && insert.multi_table_insert_type.is_none()
        }
        Statement::Update(update) => update.output.is_none(),
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            from.len() == 1 && delete.tables.is_empty() && delete.output.is_none()
        }
        _ => false,
    }
}

/// A name of a common table expression, and the one that it gets.
#[derive(Clone)]
struct CommonTable {
    written: String,
    sent: Ident,
}

struct Binder<'f> {
    kind: &'f str,
    find: &'f dyn Fn(&ObjectName) -> Option<Arc<TableDef>>,
    /// The common table expressions that can be named, the innermost query's last.
    scopes: Vec<Vec<CommonTable>>,
    /// The WITH clauses of the queries around the place: they have been visited, and are put back behind their query.
    withs: Vec<Option<With>>,
    tables: Vec<Arc<TableDef>>,
    common_tables: usize,
    takes_queries: bool,
    /// How many names of relations were met, and how many of them were bound.
    met: usize,
    bound: usize,
}

impl<'f> Binder<'f> {
    fn new(kind: &'f str, find: &'f dyn Fn(&ObjectName) -> Option<Arc<TableDef>>) -> Self {
        Self {
            kind,
            find,
            scopes: Vec::new(),
            withs: Vec::new(),
            tables: Vec::new(),
            common_tables: 0,
            takes_queries: true,
            met: 0,
            bound: 0,
        }
    }

    /// Visits the queries of a WITH clause, each with the names that it may use, and opens the scope of all.
    fn with(&mut self, with: &mut Option<With>) -> Flow {
        let mut all: Vec<CommonTable> = Vec::new();
        for cte in with.iter_mut().flat_map(|with| {
            let is_recursive = with.recursive;
            with.cte_tables.iter_mut().map(move |cte| (cte, is_recursive))
        }) {
            let (cte, is_recursive) = cte;
            if cte.from.is_some() {
                return ControlFlow::Break(Unbound);
            }
            self.common_tables += 1;
            let written = crate::names::fold(&cte.alias.name);
            let sent = Ident::with_quote('"', format!("with {} {written}", self.common_tables));
            let own = CommonTable { written, sent: sent.clone() };
            let mut visible = all.clone();
            visible.extend(is_recursive.then(|| own.clone()));
            self.scopes.push(visible);
            cte.query.walk_mut(self)?;
            self.scopes.pop();
            cte.alias.name = sent;
            all.push(own);
        }
        self.scopes.push(all);
        ControlFlow::Continue(())
    }

    fn common_table(&self, name: &ObjectName) -> Option<&CommonTable> {
        let [part] = name.0.as_slice() else { return None };
        let written = crate::names::fold(part.as_ident()?);
        self.scopes.iter().rev().flatten().find(|known| known.written == written)
    }

    /// Gives the relation of a FROM item its name on the server.
    fn relation(&mut self, name: &mut ObjectName, alias: &mut Option<TableAlias>) -> Flow {
        let (written, sent) = match self.common_table(name) {
            Some(known) => (known.written.clone(), ObjectName::from(vec![known.sent.clone()])),
            None => {
                let Some(def) = (self.find)(name) else { return ControlFlow::Break(Unbound) };
                let Some(foreign) = &def.foreign else { return ControlFlow::Break(Unbound) };
                let names = (def.name.name.clone(), named(&foreign.table));
                self.tables.push(def);
                names
            }
        };
        if alias.is_none() {
            let name = Ident::with_quote('"', written);
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
        *name = sent;
        self.bound += 1;
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Binder<'_> {
    type Break = Unbound;

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        let is_plain = query.locks.is_empty()
            && query.for_clause.is_none()
            && query.settings.is_none()
            && query.format_clause.is_none()
            && query.pipe_operators.is_empty();
        if !(self.takes_queries && is_plain && reads_only(&query.body)) {
            return ControlFlow::Break(Unbound);
        }
        let mut with = query.with.take();
        self.with(&mut with)?;
        self.withs.push(with);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Flow {
        self.scopes.pop();
        query.with = self.withs.pop().flatten();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        let is_plain = select.into.is_none()
            && select.lateral_views.is_empty()
            && select.connect_by.is_empty()
            && select.prewhere.is_none()
            && select.value_table_mode.is_none();
        if is_plain { ControlFlow::Continue(()) } else { ControlFlow::Break(Unbound) }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                self.relation(name, alias)
            }
            TableFactor::Derived { sample: None, .. } | TableFactor::NestedJoin { .. } => {
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(Unbound),
        }
    }

    fn pre_visit_relation(&mut self, _: &mut ObjectName) -> Flow {
        self.met += 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> Flow {
        let is_harmless = match expression {
            Expr::Function(function) => {
                crate::names::fold_parts(&function.name).is_ok_and(|parts| match parts.as_slice() {
                    [name] => harmless::is_function(self.kind, name),
                    _ => false,
                })
            }
            Expr::Identifier(ident) => ident.quote_style.is_some() || !is_about_the_login(&ident.value),
            Expr::BinaryOp { op, .. } => {
                !matches!(op, BinaryOperator::Custom(_) | BinaryOperator::PGCustomBinaryOperator(_))
            }
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
                is_plain_type(data_type)
            }
            Expr::Convert { data_type, .. } => data_type.as_ref().is_none_or(is_plain_type),
            _ => true,
        };
        if is_harmless { ControlFlow::Continue(()) } else { ControlFlow::Break(Unbound) }
    }
}

/// Whether a query's body changes nothing and names no table by TABLE. It may be as deep as its text is long.
fn reads_only(body: &SetExpr) -> bool {
    let mut left = vec![body];
    while let Some(body) = left.pop() {
        match body {
            SetExpr::SetOperation { left: one, right: other, .. } => left.extend([&**one, &**other]),
            SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => {}
            SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => return false,
        }
    }
    true
}

/// Words that are functions without parentheses, and tell of the server's login and not of the session.
fn is_about_the_login(word: &str) -> bool {
    const WORDS: [&str; 7] = [
        "current_catalog",
        "current_role",
        "current_schema",
        "current_user",
        "session_user",
        "system_user",
        "user",
    ];
    WORDS.contains(&word.to_ascii_lowercase().as_str())
}

/// Whether a type is one that SQL has, and there is no name in it for the engine to look up.
fn is_plain_type(ty: &DataType) -> bool {
    match ty {
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => is_plain_type(element),
        DataType::Custom(..)
        | DataType::Regclass
        | DataType::Table(..)
        | DataType::NamedTable { .. }
        | DataType::Map(..)
        | DataType::Tuple(..)
        | DataType::Nested(..)
        | DataType::Struct(..)
        | DataType::Union(..)
        | DataType::Nullable(..)
        | DataType::LowCardinality(..) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
