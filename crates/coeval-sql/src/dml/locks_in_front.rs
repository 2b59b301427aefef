// SPDX-License-Identifier: Apache-2.0
//! `UPDATE ... WHERE id IN (SELECT id ... FOR UPDATE SKIP LOCKED LIMIT 1)`: queries inside a statement that lock rows.
//! Each becomes a part in front of the statement, so it runs once, and the statement reads its rows.

use super::parts::whole_table;
use crate::query::locks_rows;
use crate::walk::{Walk, WalkMut};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, Query, SetExpr, Statement, TableAlias, Visitor, VisitorMut, With,
};
use std::ops::ControlFlow;

/// How the names of such parts begin: no relation's name does.
pub(super) const PART: &str = "\u{1}locked ";

/// The statement with the locking queries inside of it in front of it; `None` if it has none.
pub(crate) fn with_locks_in_front(statement: &Statement) -> Option<Query> {
    let has_locks = match statement {
        Statement::Query(query) => locks_inside(query),
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
            statement.walk(&mut Looking).is_break()
        }
        _ => false,
    };
    // Most have none, and are not copied.
    if !has_locks {
        return None;
    }
    let mut query = match statement {
        Statement::Query(query) => query.as_ref().clone(),
        Statement::Insert(_) => alone(SetExpr::Insert(statement.clone())),
        Statement::Update(_) => alone(SetExpr::Update(statement.clone())),
        Statement::Delete(_) => alone(SetExpr::Delete(statement.clone())),
        Statement::Merge(_) => alone(SetExpr::Merge(statement.clone())),
        _ => return None,
    };
    let mut found = Found { parts: Vec::new() };
    // Nothing breaks off the visit. Parts that are there already run as they are.
    let _ = query.body.walk_mut(&mut found);
    if found.parts.is_empty() {
        return None;
    }
    let with = query.with.get_or_insert_with(|| With {
        with_token: AttachedToken::empty(),
        recursive: false,
        cte_tables: Vec::new(),
    });
    with.cte_tables.extend(found.parts);
    Some(query)
}

fn alone(body: SetExpr) -> Query {
    crate::select::of_body(None, body)
}

struct Found {
    parts: Vec<Cte>,
}

impl Found {
    fn take(&mut self, query: &mut Query) {
        if !locks_rows(query) {
            return;
        }
        let name = crate::select::quoted(format!("{PART}{}", self.parts.len()));
        let instead = whole_table(None, &name);
        let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
        self.parts.push(Cte {
            alias,
            query: Box::new(std::mem::replace(query, instead)),
            from: None,
            materialized: None,
            closing_paren_token: AttachedToken::empty(),
        });
    }
}

impl VisitorMut for Found {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.take(query);
        ControlFlow::Continue(())
    }
}

/// Whether a query inside of this one locks rows.
pub(super) fn locks_inside(query: &Query) -> bool {
    query.body.walk(&mut Looking).is_break()
}

/// Breaks off at the first query that locks rows.
struct Looking;

impl Visitor for Looking {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if locks_rows(query) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The query, locking nothing: for its columns and parameters, which are the same.
pub(crate) fn without_locks(query: &Query) -> Query {
    struct Clearing;
    impl VisitorMut for Clearing {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            query.locks.clear();
            ControlFlow::Continue(())
        }
    }
    let mut unlocked = query.clone();
    // Nothing breaks off the visit.
    let _ = unlocked.walk_mut(&mut Clearing);
    unlocked
}
