// SPDX-License-Identifier: Apache-2.0
//! `UPDATE ... WHERE id IN (SELECT id ... FOR UPDATE SKIP LOCKED LIMIT 1)`: queries inside a statement that lock rows.
//! Each becomes a part in front of the statement, so it runs once, and the statement reads its rows.

use super::parts::whole_table;
use crate::query::locks_rows;
use crate::walk::{any_query, change_queries};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{Cte, Query, SetExpr, Statement, TableAlias, With};

/// How the names of such parts begin: no relation's name does.
pub(super) const PART: &str = "\u{1}locked ";

/// The statement with the locking queries inside of it in front of it; `None` if it has none.
pub(crate) fn with_locks_in_front(statement: &Statement) -> Option<Query> {
    let has_locks = match statement {
        Statement::Query(query) => locks_inside(query),
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
            any_query(statement, locks_rows)
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
    let mut parts: Vec<Cte> = Vec::new();
    // Parts that are there already run as they are.
    change_queries(&mut query.body, |query| {
        let number = parts.len();
        parts.extend(taken(query, number));
    });
    if parts.is_empty() {
        return None;
    }
    let with = query.with.get_or_insert_with(|| With {
        with_token: AttachedToken::empty(),
        recursive: false,
        cte_tables: Vec::new(),
    });
    with.cte_tables.extend(parts);
    Some(query)
}

fn alone(body: SetExpr) -> Query {
    crate::select::of_body(None, body)
}

/// A query that locks rows as a part of this number; the part's rows take its place.
fn taken(query: &mut Query, number: usize) -> Option<Cte> {
    if !locks_rows(query) {
        return None;
    }
    let name = crate::select::quoted(format!("{PART}{number}"));
    let instead = whole_table(None, &name);
    let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    Some(Cte {
        alias,
        query: Box::new(std::mem::replace(query, instead)),
        from: None,
        materialized: None,
        closing_paren_token: AttachedToken::empty(),
    })
}

/// Whether a query inside of this one locks rows.
pub(super) fn locks_inside(query: &Query) -> bool {
    any_query(&query.body, locks_rows)
}

/// The query, locking nothing: for its columns and parameters, which are the same.
pub(crate) fn without_locks(query: &Query) -> Query {
    let mut unlocked = query.clone();
    change_queries(&mut unlocked, |query| query.locks.clear());
    unlocked
}
