// SPDX-License-Identifier: Apache-2.0
//! How large the queries of a statement's WITH are together: each is planned in every place that names it, and computed once at best.
//!
//! ```text
//! WITH a AS (SELECT n FROM t), b AS (SELECT x.n FROM a x, a y), c AS (SELECT x.n FROM b x, b y), ...
//! ```
//! Of thirty such queries, a text of a kilobyte, the plan has thousands of millions of tables.

use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::walk::Walk;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Query, Visitor};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The tables and queries that stand in the places of names of WITH, at most.
const COPIES_MAX: usize = 1 << 14;

/// Refuses a query with too many of them.
///
/// # Errors
/// `54001`.
pub(super) fn refuse_too_large(query: &Query) -> Result<(), SqlError> {
    query.try_walk(&mut Sizes::default())
}

#[derive(Default)]
struct Sizes {
    /// Queries of WITH that have not been walked over, and what they are called.
    waiting: HashMap<*const Query, String>,
    /// The queries around a place.
    around: Vec<Level>,
}

/// What is known of a query so far.
#[derive(Default)]
struct Level {
    /// The tables and queries in it.
    reads: usize,
    /// Those of them that are in the place of a name.
    copies: usize,
    /// The queries of its WITH, and how many tables and queries each has.
    named: HashMap<String, usize>,
}

impl Sizes {
    fn named(&self, name: &ObjectName) -> Option<usize> {
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
        let name = fold(name);
        self.around.iter().rev().find_map(|level| level.named.get(&name).copied())
    }

    /// So many more are in the innermost query.
    fn add(&mut self, reads: usize, copies: usize) -> ControlFlow<SqlError> {
        let Some(level) = self.around.last_mut() else { return ControlFlow::Continue(()) };
        level.reads = level.reads.saturating_add(reads);
        level.copies = level.copies.saturating_add(copies);
        if level.copies > COPIES_MAX { ControlFlow::Break(too_large()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Sizes {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let tables = tables.map(|table| (std::ptr::from_ref(&*table.query), fold(&table.alias.name)));
        self.waiting.extend(tables);
        self.around.push(Level::default());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let Some(level) = self.around.pop() else { return ControlFlow::Continue(()) };
        let reads = level.reads.saturating_add(1);
        let Some(name) = self.waiting.remove(&std::ptr::from_ref(query)) else {
            return self.add(reads, level.copies);
        };
        if let Some(around) = self.around.last_mut() {
            around.named.insert(name, reads);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<SqlError> {
        match self.named(name) {
            Some(reads) => self.add(reads, reads),
            None => self.add(1, 0),
        }
    }
}

fn too_large() -> SqlError {
    SqlError::new(SqlState::StatementTooComplex, "the queries of WITH are too large together")
        .with_detail("Each counts as often as it is named, itself or by other queries of WITH.")
        .with_hint("Keep the rows of one in a table.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn is_refused(sql: &str) -> bool {
        let statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().pop();
        let Some(Statement::Query(query)) = statement else { panic!("{sql}") };
        refuse_too_large(&query).is_err()
    }

    fn doubling(levels: usize) -> String {
        let level = |n: usize| format!("c{n} AS (SELECT a.n FROM c{} a, c{} b)", n - 1, n - 1);
        let levels: Vec<String> = (1..=levels).map(level).collect();
        format!("c0 AS (SELECT n FROM t), {}", levels.join(", "))
    }

    #[test]
    fn queries_of_with_count_as_often_as_they_are_named() {
        assert!(!is_refused(&format!("WITH {} SELECT n FROM c10", doubling(10))));
        assert!(is_refused(&format!("WITH {} SELECT n FROM c30", doubling(30))));
        // In subqueries, and where another one has the name.
        let often = vec!["(SELECT count(*) FROM c10)"; 20].join(", ");
        assert!(is_refused(&format!("WITH {} SELECT {often}", doubling(10))));
        let hidden = "SELECT (WITH c12 AS (SELECT 1) SELECT count(*) FROM c12) FROM c12 a, c12 b";
        assert!(is_refused(&format!("WITH {} {hidden}", doubling(12))));
        // Tables alone are what the text says.
        let tables = vec!["t"; 20_000].join(", ");
        assert!(!is_refused(&format!("WITH c0 AS (SELECT n FROM t) SELECT 1 FROM c0, {tables}")));
    }
}
