// SPDX-License-Identifier: Apache-2.0
//! `SELECT ... FROM (WITH q AS (SELECT random() ...) SELECT ... FROM q one, q other) s`: a WITH inside of FROM whose rows are others each
//! time, and which are read several times. Its parts go in front of the statement, where each runs once ([`super::parts`]).
//!
//! A subquery in FROM that is not LATERAL depends on nothing around it but on parts of WITH, so its own parts may run first.

use super::parts::is_read_anew;
use crate::names::fold;
use crate::query::rename_part;
use crate::select::quoted;
use crate::stack::with_room;
use crate::walk::any_query;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{Cte, Query, SetExpr, Statement, TableFactor, TableWithJoins, With};

/// How the names of such parts begin: no relation's name does.
const PART: &str = "\u{1}in front ";

/// The query with such parts in front of it; `None` if it has none.
pub(crate) fn with_parts_in_front(statement: &Statement) -> Option<Query> {
    let Statement::Query(query) = statement else { return None };
    // Most have none, and are not copied.
    if !has_parts_inside(query) {
        return None;
    }
    let mut query = query.as_ref().clone();
    let mut parts = Vec::new();
    take_of_body(&mut query.body, &mut parts);
    let with = query.with.get_or_insert_with(|| With {
        with_token: AttachedToken::empty(),
        recursive: false,
        cte_tables: Vec::new(),
    });
    with.cte_tables.extend(parts);
    Some(query)
}

/// Whether a query has such parts inside of it.
pub(super) fn has_parts_inside(query: &Query) -> bool {
    any_of_body(&query.body)
}

fn any_of_body(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.from.iter().any(any_of_tables),
        SetExpr::SetOperation { left, right, .. } => with_room(|| any_of_body(left)) || any_of_body(right),
        SetExpr::Query(query) => with_room(|| is_moved(query) || goes_on(query)),
        _ => false,
    }
}

fn any_of_tables(tables: &TableWithJoins) -> bool {
    let joined = tables.joins.iter().map(|join| &join.relation);
    std::iter::once(&tables.relation).chain(joined).any(|factor| match factor {
        TableFactor::Derived { lateral: false, subquery, .. } => {
            with_room(|| is_moved(subquery) || goes_on(subquery))
        }
        TableFactor::NestedJoin { table_with_joins, .. } => any_of_tables(table_with_joins),
        _ => false,
    })
}

/// Whether there are such parts further inside. What is behind a WITH that is not moved may read its parts, and stays there.
fn goes_on(query: &Query) -> bool {
    query.with.is_none() && any_of_body(&query.body)
}

/// Whether the parts of a query's WITH are to be moved, and can be: what has one of their names is nothing else.
fn is_moved(query: &Query) -> bool {
    let Some(with) = query.with.as_ref().filter(|with| !with.recursive) else { return false };
    with.cte_tables.iter().any(|part| is_read_anew(query, part))
        && with.cte_tables.iter().all(|part| count_defined(query, &fold(&part.alias.name)) == 1)
}

/// How many parts there are of this name.
fn count_defined(query: &Query, name: &str) -> usize {
    let mut count = 0;
    any_query(query, |inner| {
        let parts = inner.with.iter().flat_map(|with| &with.cte_tables);
        count += parts.filter(|part| fold(&part.alias.name) == name).count();
        false
    });
    count
}

fn take_of_body(body: &mut SetExpr, parts: &mut Vec<Cte>) {
    match body {
        SetExpr::Select(select) => select.from.iter_mut().for_each(|tables| take_of_tables(tables, parts)),
        SetExpr::SetOperation { left, right, .. } => {
            with_room(|| take_of_body(left, parts));
            take_of_body(right, parts);
        }
        SetExpr::Query(query) => with_room(|| take(query, parts)),
        _ => {}
    }
}

fn take_of_tables(tables: &mut TableWithJoins, parts: &mut Vec<Cte>) {
    let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut tables.relation).chain(joined) {
        match factor {
            TableFactor::Derived { lateral: false, subquery, .. } => with_room(|| take(subquery, parts)),
            TableFactor::NestedJoin { table_with_joins, .. } => take_of_tables(table_with_joins, parts),
            _ => {}
        }
    }
}

/// Takes the parts of a query, which reads them by other names from then on, and those further inside.
fn take(query: &mut Query, parts: &mut Vec<Cte>) {
    if is_moved(query)
        && let Some(With { mut cte_tables, .. }) = query.with.take()
    {
        for place in 0..cte_tables.len() {
            let name = fold(&cte_tables[place].alias.name);
            let other = quoted(format!("{PART}{}", parts.len() + place));
            for later in &mut cte_tables[place + 1..] {
                rename_part(&mut later.query, &name, &other);
            }
            rename_part(query, &name, &other);
            cte_tables[place].alias.name = other;
        }
        parts.append(&mut cte_tables);
    }
    if query.with.is_none() {
        take_of_body(&mut query.body, parts);
    }
}
